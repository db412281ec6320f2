"""Sessions in workers: onnxruntime_ep_revseq.worker, each test in a process of its own."""

import re
import sys

import pytest

import harness

START = """
import gc, os, sys, threading
import onnxruntime_ep_revseq
from onnxruntime_ep_revseq import worker
assert not {"onnxruntime", "ray", "numpy"} & set(sys.modules)
sys.path.insert(0, sys.argv[1])
import harness
import numpy as np
import onnxruntime as ort

MODEL = harness.reverse_sequence(["t", "b"], lengths_shape=["b"], batch_axis=1, time_axis=0)
MODEL = MODEL.SerializeToString()
X = np.arange(6, dtype=np.float32).reshape(3, 2)


def use(session):
    (y,) = session.run(None, {"x": X, "lens": np.array([3, 2])})
    assert y.tolist() == [[4, 3], [2, 1], [0, 5]]
"""


def run(folder, body, library=True):
    """Runs a body with the package as the wheel installs it."""
    harness.install(folder, library)
    done = harness.alone(START + body, PYTHONPATH=str(folder))
    # A traceback on the way out does not change the status.
    assert "Error" not in done.stderr and "Exception" not in done.stderr, done.stderr
    return done.stdout


def test_from_many_threads_it_is_registered_once(tmp_path):
    run(tmp_path, """
calls, real = [], ort.register_execution_provider_library
def register(*arguments):
    calls.append(arguments)
    real(*arguments)
ort.register_execution_provider_library = register
start, failed = threading.Barrier(16), []
def work():
    try:
        start.wait()
        session = worker.create_session(MODEL, threads=1)
        assert worker.check_assignment(session) == 1
        assert session.get_session_options().intra_op_num_threads == 1
        use(session)
    except BaseException as error:
        failed.append(error)
threads = [threading.Thread(target=work) for _ in range(16)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert not failed, failed
assert len(calls) == 1 and len(harness.devices()) == 1
""")


def test_an_existing_registration_is_used_and_left_alone(tmp_path):
    printed = run(tmp_path, """
import atexit
atexit.register(lambda: print(len(harness.devices())))
ort.register_execution_provider_library("theirs", harness.library())
use(worker.create_session(MODEL))
assert len(harness.devices()) == 1
""")
    assert printed == "1\n"


@pytest.mark.parametrize("kept", [False, True])
def test_a_process_ends_well(kept, tmp_path):
    """Without sessions the library is gone before the process is; with one it stays."""
    printed = run(tmp_path, f"""
import atexit
session = worker.create_session(MODEL)
use(session)
if not {kept}:
    del session
atexit.unregister(worker._unregister)
atexit.register(lambda: print(len(harness.devices())))
atexit.register(worker._unregister, os.getpid())
""")
    assert printed == ("1\n" if kept else "0\n")


def test_a_process_ends_while_a_thread_has_a_session(tmp_path):
    # Not while it runs one: ONNX Runtime's binding would abort, with any provider.
    run(tmp_path, """
ready = threading.Event()
def work():
    session = worker.create_session(MODEL)
    use(session)
    ready.set()
    threading.Event().wait()
threading.Thread(target=work, daemon=True).start()
ready.wait()
""")


def test_a_forked_process_ends_well(tmp_path):
    run(tmp_path, """
session = worker.create_session(MODEL, threads=1)
child = os.fork()
if not child:
    use(session)
    del session
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
use(session)
""")


def test_a_process_forks_while_a_thread_registers(tmp_path):
    run(tmp_path, """
inside, real = threading.Event(), ort.register_execution_provider_library
def register(*arguments):
    inside.set()
    # The other thread forks in the meantime.
    threading.Event().wait(0.5)
    real(*arguments)
ort.register_execution_provider_library = register
thread = threading.Thread(target=worker.register)
thread.start()
inside.wait()
child = os.fork()
if not child:
    use(worker.create_session(MODEL, threads=1))
    os._exit(0)
def kill():
    os.kill(child, 9)
timer = threading.Timer(60, kill)
timer.start()
assert os.waitpid(child, 0)[1] == 0
timer.cancel()
thread.join()
use(worker.create_session(MODEL, threads=1))
""")


def test_an_onnx_runtime_that_is_missing_or_too_old(tmp_path):
    """Each is a stand-in: `test_old_host.py` has a real one that is too old."""
    printed = run(tmp_path, """
import types
def error(module):
    sys.modules["onnxruntime"] = module
    try:
        worker.create_session(MODEL)
    except (ModuleNotFoundError, worker.RegistrationError) as error:
        print(f"{type(error).__name__}: {error}")
for worker._OLDEST_PYTHON in ((3, 9), (99, 0)):
    error(None)
    error(types.SimpleNamespace(__version__="1.19.2"))
""").splitlines()
    version = "{}.{}".format(*sys.version_info)
    python = f"; ONNX Runtime 1.24 needs Python 3.11 or later, this is {version}"
    none = "there is no ONNX Runtime: pip install 'onnxruntime-ep-revseq[ort]', or a build of it"
    old = (
        "it needs ONNX Runtime 1.24 or later, found 1.19.2: "
        "pip install -U onnxruntime, or the build of it that you use"
    )
    for (missing, too_old), end in ((printed[:2], ""), (printed[2:], python)):
        assert missing == f"ModuleNotFoundError: {none}{end}"
        assert too_old.startswith("RegistrationError: ") and too_old.endswith(f"Provider: {old}{end}")


def test_nodes_that_are_elsewhere_are_named(tmp_path):
    run(tmp_path, """
model = harness.reverse_sequence(["t", "b"], harness.TensorProto.STRING, lengths_shape=["b"],
                                 batch_axis=1, time_axis=0)
try:
    worker.create_session(model.SerializeToString())
except worker.AssignmentError as error:
    assert str(error) == (
        "not with RevSeqExecutionProvider: ReverseSequence 'the_node' is with CPUExecutionProvider: "
        "its elements are strings, or of another type without a fixed size, which are left to it; "
        "to allow that, make the session by onnxruntime.InferenceSession and register()"
    ), error
else:
    raise AssertionError("strings were taken")
""")


def test_options_reach_the_session(tmp_path):
    run(tmp_path, """
def configure(options):
    options.log_severity_level = 4
session = worker.create_session(
    MODEL, provider_options={"lengths": "clamp"}, configure=configure
)
assert session.get_session_options().log_severity_level == 4
(y,) = session.run(None, {"x": X, "lens": np.array([9, -1])})
assert y.tolist() == [[4, 1], [2, 3], [0, 5]]
""")


def test_type_checkers_know_the_values_of_options(tmp_path):
    """Beside another mapping, they would take any words."""
    run(tmp_path, """
assert worker.create_session.__annotations__["provider_options"] == "ProviderOptions | None"
""")


def test_values_of_options_are_checked_before_the_session(tmp_path):
    run(tmp_path, """
for key, wrong, expected in [
    ("lengths", "keep", "'reject' or 'clamp'"),
    ("layers", "yes", "'on' or 'off'"),
    ("loops", "layer", "'keep' or 'layers' or 'steps'"),
    ("assume", "", "'right-padded'"),
]:
    try:
        worker.create_session(MODEL, provider_options={key: wrong})
    except ValueError as error:
        assert str(error) == f"provider_options[{key!r}] is {wrong!r}, expected {expected}", error
    else:
        raise AssertionError(f"{key} was {wrong!r}")
""")


def test_files_that_are_no_models_are_named(tmp_path):
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a21\nsize 12345\n"
    (tmp_path / "pointer.onnx").write_text(pointer)
    tensor = (harness.MODELS / "exported/keras_bilstm_masked/test_data_set_0/input_0.pb").read_bytes()
    (tmp_path / "tensor.pb").write_bytes(tensor)
    run(tmp_path, f"\nos.chdir({str(tmp_path)!r})" + """
for path, what in [("pointer.onnx", "`git lfs pull` gets the model"), ("tensor.pb", "it is one tensor")]:
    for model in (path, open(path, "rb").read()):
        for loops in (None, True):
            try:
                worker.create_session(model, loops=loops)
            except ValueError as error:
                assert "it is not an ONNX model: " in str(error) and what in str(error), error
            else:
                raise AssertionError(path)
""")


def test_without_its_library_the_machine_is_named(tmp_path):
    run(tmp_path, """
import socket
for _ in range(2):
    try:
        worker.create_session(MODEL)
    except worker.RegistrationError as error:
        assert socket.gethostname() in str(error) and "no library of the provider" in str(error)
    else:
        raise AssertionError("a library that is not there was registered")
""", library=False)


def test_the_documentation_begins_with_sessions(tmp_path):
    run(tmp_path, """
import pydoc, re
for module in (onnxruntime_ep_revseq, worker):
    first = re.search(r"^    (?!from|import).+", module.__doc__, re.M)[0]
    assert "create_session(" in first, first
    assert set(module.__all__) <= set(dir(module))
    text = pydoc.plain(pydoc.render_doc(module))
    assert all(f"{name}" in text for name in module.__all__)
assert onnxruntime_ep_revseq.create_session is worker.create_session
""")


@pytest.mark.parametrize("page", ["README.md", "crates/onnxruntime/revseq-ep/python/README.md"])
def test_the_snippets_of_a_page_run_twice(tmp_path, page):
    """As in a notebook, one after the other in one process."""
    text = (harness.ROOT / page).read_text()
    snippets = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
    assert snippets
    model = harness.MODELS / "exported/keras_gru_bidirectional/model.onnx"
    (tmp_path / "model.onnx").write_bytes(model.read_bytes())
    (tmp_path / "models").symlink_to(harness.MODELS)
    run(tmp_path, f"\nos.chdir({str(tmp_path)!r})\n" + "".join(2 * snippets))
