"""Registering and unregistering, again and again, in a process of its own."""


import pytest

import harness

START = """
import _ctypes, gc, os, pathlib, sys
sys.path.insert(0, sys.argv[1])
import harness
import numpy as np
import onnxruntime as ort

MODEL = harness.reverse_sequence(["t", "b"], lengths_shape=["b"], batch_axis=1, time_axis=0)
SUBSEQUENCES = harness.reverse_subsequences([6], 0)
X = np.arange(6, dtype=np.float32).reshape(3, 2)


def growth(before):
    heap, threads = harness.held()
    print(heap - before[0], threads - before[1])


def close():
    # As often as ONNX Runtime left it open: after two registrations at most.
    for _ in range(2):
        try:
            handle = _ctypes.dlopen(harness.library(), os.RTLD_NOW | os.RTLD_NOLOAD)
        except OSError:
            break
        _ctypes.dlclose(handle)
        _ctypes.dlclose(handle)


def gone():
    if harness.HOST < (1, 31):
        # ONNX Runtime 1.24 never closes the library. One that pins itself would stay nevertheless.
        close()
    name = pathlib.Path(harness.library()).name
    return name not in pathlib.Path("/proc/self/maps").read_text(encoding="ascii")


def use():
    session = harness.session(MODEL)
    harness.assert_on_ep(session, 1)
    (y,) = session.run(None, {"x": X, "lens": np.array([3, 2])})
    assert y.tolist() == [[4, 3], [2, 1], [0, 5]]
"""


def run(body):
    # Freed memory in a thread's cache would count as allocated.
    return harness.alone(START + body, GLIBC_TUNABLES="glibc.malloc.tcache_count=0").stdout


def assert_nothing_is_left(body):
    """The body prints by how many bytes and threads it has grown."""
    heap, threads = map(int, run(body).split())
    # ONNX Runtime and Python grow by up to 10 kB themselves. A leak of 170 bytes for each of
    # 150 registrations, or of 3 for each of 9,000 runs, is found.
    assert heap < 25_000
    assert threads == 0


def test_200_registrations_do_not_leak():
    assert_nothing_is_left("""
for index in range(200):
    ort.register_execution_provider_library("revseq", harness.library())
    use()
    gc.collect()
    ort.unregister_execution_provider_library("revseq")
    assert not harness.devices()
    if index == 50:
        before = harness.held()
growth(before)
""")


def test_a_library_without_a_session_is_unloaded():
    run("""
ort.register_execution_provider_library("revseq", harness.library())
ort.unregister_execution_provider_library("revseq")
assert gone()
""")


#: What a thread makes and runs, large enough for threads to share it.
WORK = {
    "layer": """
layer = test_layers.Layer("GRU", units=256)
made = lambda options: harness.session(layer.model, provider_options={"layers": "on"}, **options)
feeds = layer.feeds(steps=100, batch=8)
""",
    "layer with lengths": """
layer = test_layers.Layer("LSTM", "bidirectional", units=256, given=("b", "lens"))
made = lambda options: harness.session(layer.model, provider_options={"layers": "on"}, **options)
feeds = layer.feeds(steps=100, batch=8)
""",
    "loop": """
rnn = test_loops.Rnn(units=256, features=256)
made = lambda options: test_loops.replacing(rnn.model(), **options)
feeds = rnn.feed(steps=100, batch=8)
""",
    "masked loops": """
made = lambda options: test_loops.replacing(
    test_loops.EXPORTED / "keras_bilstm_masked/model.onnx", **options
)
feeds = {"x": np.ones((64, 200, 8), np.float32)}
""",
    "reversal": """
model = harness.reverse_sequence([300, 300, 64], batch_axis=0, time_axis=1)
made = lambda options: harness.session(model, **options)
feeds = {"x": np.ones((300, 300, 64), np.float32), "lens": np.arange(300)}
""",
}


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
def test_a_thread_that_ran_the_provider_outlives_the_registration(work):
    """When it ends, it calls into the library, which therefore stays as long as the process."""
    run(f"""
import threading
import test_layers, test_loops
{work}
def use():
    ort.register_execution_provider_library("revseq", harness.library())
    session = made({{"threads": 2}})
    session.run(None, feeds)
    return session

def leave(session):
    session.clear()
    gc.collect()
    ort.unregister_execution_provider_library("revseq")

# The thread that ran ends last, first as the one that unregisters, then as one of a pool.
alone = threading.Thread(target=lambda: leave([use()]))
alone.start()
alone.join()
ran, left, sessions = threading.Event(), threading.Event(), []
of_pool = threading.Thread(target=lambda: (sessions.append(use()), ran.set(), left.wait()))
of_pool.start()
assert ran.wait(60)
leave(sessions)
left.set()
of_pool.join()
assert not gone()
""")


def test_a_thread_that_ran_the_custom_op_outlives_its_session():
    run("""
import threading
shape = [300, 300, 64]
x, lens = np.ones(shape, np.float32), np.full((300, 1, 64), 200, np.uint32)

def work():
    options = harness.options(ep=False, threads=2)
    options.register_custom_ops_library(harness.library())
    model = harness.reverse_subsequences(shape, 1, lengths_shape=list(lens.shape))
    harness.session(model, options).run(None, {"x": x, "lens": lens})
    del options
    gc.collect()
    close()

thread = threading.Thread(target=work)
thread.start()
thread.join()
assert not gone()
""")


def test_200_sessions_do_not_leak():
    assert_nothing_is_left("""
ort.register_execution_provider_library("revseq", harness.library())
for index in range(200):
    use()
    gc.collect()
    if index == 50:
        before = harness.held()
growth(before)
""")


def test_many_runs_and_errors_do_not_leak():
    assert_nothing_is_left("""
ort.register_execution_provider_library("revseq", harness.library())
session = harness.session(MODEL)
for index in range(10_000):
    shape = (3 + index % 5, 2)
    session.run(None, {"x": np.zeros(shape, np.float32), "lens": np.array([3, 2])})
    try:
        session.run(None, {"x": X, "lens": np.array([9, 2])})
    except Exception:
        pass
    else:
        raise AssertionError("a length out of range was taken")
    if index == 1000:
        before = harness.held()
growth(before)
""")


def test_two_registrations_at_once():
    """Under two names: both are the same library, each with its own devices and sessions."""
    run("""
ort.register_execution_provider_library("one", harness.library())
ort.register_execution_provider_library("two", harness.library())
both = harness.devices()
assert len(both) == 2, both
for device in both:
    options = ort.SessionOptions()
    options.add_provider_for_devices([device], {})
    session = harness.session(MODEL, options)
    (y,) = session.run(None, {"x": X, "lens": np.array([3, 3])})
    assert y.tolist() == X[::-1].tolist()
# A session takes the provider once.
options = ort.SessionOptions()
for device in both:
    options.add_provider_for_devices([device], {})
try:
    harness.session(MODEL, options)
except Exception as error:
    assert "RevSeqExecutionProvider has already been registered" in str(error), error
else:
    raise AssertionError("a session took the provider twice")
del session, options, device, both
gc.collect()
ort.unregister_execution_provider_library("two")
use()
gc.collect()
ort.unregister_execution_provider_library("one")
""")


def test_a_library_unregistered_under_its_sessions():
    """A mistake, which must not crash."""
    run("""
ort.register_execution_provider_library("revseq", harness.library())
session = harness.session(MODEL)
# These keep the session alive, too.
subgraphs = session.get_provider_graph_assignment_info()
ort.unregister_execution_provider_library("revseq")
for _ in range(3):
    (y,) = session.run(None, {"x": X, "lens": np.array([3, 2])})
    assert y.tolist() == [[4, 3], [2, 1], [0, 5]]
del session
gc.collect()
del subgraphs
gc.collect()
ort.register_execution_provider_library("revseq", harness.library())
use()
gc.collect()
ort.unregister_execution_provider_library("revseq")
""")


def test_150_registrations_that_end_under_a_session_do_not_leak():
    assert_nothing_is_left("""
for index in range(200):
    ort.register_execution_provider_library("revseq", harness.library())
    session = harness.session(MODEL)
    ort.unregister_execution_provider_library("revseq")
    (y,) = session.run(None, {"x": X, "lens": np.array([3, 2])})
    assert y.tolist() == [[4, 3], [2, 1], [0, 5]]
    del session
    gc.collect()
    if index == 50:
        before = harness.held()
growth(before)
""")


def test_a_registration_twice_under_one_name_is_refused():
    run("""
ort.register_execution_provider_library("revseq", harness.library())
try:
    ort.register_execution_provider_library("revseq", harness.library())
except Exception as error:
    assert "revseq" in str(error)
else:
    raise AssertionError("a second registration under one name was taken")
use()
""")


def test_200_sessions_with_the_custom_op_do_not_leak():
    assert_nothing_is_left("""
for index in range(200):
    options = harness.options(ep=False)
    options.register_custom_ops_library(harness.library())
    session = harness.session(SUBSEQUENCES, options)
    (y,) = session.run(None, {"x": X.ravel(), "lens": np.array([6], np.uint32)})
    assert y.tolist() == [5, 4, 3, 2, 1, 0]
    del session, options
    gc.collect()
    if index == 50:
        before = harness.held()
growth(before)
""")


def test_a_process_that_ends_without_unregistering():
    run("""
ort.register_execution_provider_library("revseq", harness.library())
session = harness.session(MODEL)
session.run(None, {"x": X, "lens": np.array([3, 2])})
""")


@pytest.mark.parametrize("name", ["revseq", "RevSeqExecutionProvider", "ünïcode"])
def test_any_name_will_do(name):
    run(f"""
ort.register_execution_provider_library({name!r}, harness.library())
use()
""")


def test_inner_sessions_run_in_the_library_of_the_session_around():
    """Though another library was registered first, whose provider has the same name."""
    run("""
import shutil, tempfile
folder = tempfile.TemporaryDirectory()
copy = pathlib.Path(folder.name) / ("copy_" + pathlib.Path(harness.library()).name)
shutil.copy(harness.library(), copy)
ort.register_execution_provider_library("a", str(copy))
ort.register_execution_provider_library("b", harness.library())
paths = [device.ep_metadata["library_path"] for device in harness.devices()]
assert sorted(paths) == sorted([str(copy), harness.library()]), paths
options = ort.SessionOptions()
own = [device for device in harness.devices()
       if device.ep_metadata["library_path"] == harness.library()]
options.add_provider_for_devices(own, {"loops": "layers"})
model = harness.MODELS / "exported/keras_bilstm_masked"
session = harness.session(model / "model.onnx", options)
inputs, expected = next(harness.data_sets(model))
names = [value.name for value in session.get_inputs()]
feeds = dict(zip(names, inputs))
before = session.run(None, feeds)
del own
ort.unregister_execution_provider_library("a")
if harness.HOST >= (1, 31):
    # A library stays once it has made a session.
    assert copy.name not in pathlib.Path("/proc/self/maps").read_text(encoding="ascii")
after = session.run(None, feeds)
for arrays in (before, after):
    for found, right in zip(arrays, expected):
        np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-5)
""")
