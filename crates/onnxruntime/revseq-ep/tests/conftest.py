import os

import onnxruntime as ort
import pytest

import harness

# For an ONNX Runtime that is too old; this one is not.
collect_ignore = ["test_old_host.py"] if harness.HOST >= (1, 24) else []
# The operators are younger than an older one.
if harness.HOST < (1, 31):
    collect_ignore.append("test_attention.py")

#: What depends on the library alone, or takes long to see the same once more.
LONG = [
    "test_bench.py",
    "test_examples.py",
    "test_host_failures.py",
    "test_layer_memory.py",
    "test_loop_memory.py",
    "test_random_steps.py",
    "test_rewrite.py",
    "test_terminate.py",
    "test_wheel.py",
    "test_worker.py",
]


def pytest_addoption(parser):
    parser.addoption("--short", action="store_true", help="leave out what depends on the library alone, or takes long")
    parser.addoption("--long", action="store_true", help="run that alone")


def pytest_ignore_collect(collection_path, config):
    left_out = "--short" if collection_path.name in LONG else "--long"
    return True if collection_path.is_file() and config.getoption(left_out) else None


@pytest.fixture(scope="session", autouse=True)
def registered():
    """The library, registered as a user registers it."""
    if harness.HOST < (1, 24):
        yield
        return
    ort.register_execution_provider_library("revseq", harness.library())
    yield


@pytest.fixture(scope="session")
def package(tmp_path_factory):
    """The package as the wheel installs it."""
    folder = tmp_path_factory.mktemp("package")
    harness.install(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        import onnxruntime_ep_revseq
        import onnxruntime_ep_revseq.worker

        yield onnxruntime_ep_revseq


def pytest_runtest_logreport(report):
    """Reports skipped tests to `cargo xtask test`, as revseq-skips does."""
    path = os.environ.get("REVSEQ_SKIPS")
    if path and report.skipped:
        reason = str(report.longrepr[2]).removeprefix("Skipped: ")
        with open(path, "a") as file:
            file.write(f"{report.nodeid} (ONNX Runtime {ort.__version__}): {reason}\n")
