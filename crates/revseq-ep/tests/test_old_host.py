"""With an ONNX Runtime before 1.24 the library says which version it needs."""

import onnxruntime as ort
import pytest

import harness

pytestmark = pytest.mark.skipif(harness.HOST >= (1, 24), reason="this ONNX Runtime is new enough")

MESSAGE = rf"revseq-ep \S+ needs ONNX Runtime 1\.24 or later, found {ort.__version__}"


@pytest.mark.parametrize("time", range(3))
def test_registering_the_ep(time, capfd):
    with pytest.raises(Exception, match=MESSAGE):
        ort.register_execution_provider_library("revseq", harness.library())
    # ONNX Runtime complains itself of a version asked for that it lacks.
    assert "API version" not in capfd.readouterr().err


def test_registering_the_custom_op():
    with pytest.raises(Exception, match=MESSAGE):
        ort.SessionOptions().register_custom_ops_library(harness.library())
