import onnxruntime as ort
import pytest

import harness


@pytest.fixture(scope="session", autouse=True)
def registered():
    """The library, registered as a user registers it."""
    if harness.HOST < (1, 24):
        yield
        return
    ort.register_execution_provider_library("revseq", harness.library())
    yield
