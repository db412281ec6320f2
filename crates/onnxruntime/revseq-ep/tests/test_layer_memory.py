"""Memory of recurrent layers: what a caller binds, and what there is not."""

import itertools

import numpy as np
import pytest

import harness
from test_layers import FEATURES, GATES, Layer

TYPES = [np.float32, np.float64, np.float16]


class Bound:
    """Arrays in one buffer, each at an offset in bytes, as inputs or outputs of a run."""

    def __init__(self, session, size):
        self.buffer = np.zeros(size + 64, np.uint8)
        self.start = -self.buffer.ctypes.data % 64
        self.binding = session.io_binding()
        self.session = session
        self.kept = []

    def array(self, offset, shape, dtype):
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        bytes_ = self.buffer[self.start + offset :][:size]
        return bytes_.view(dtype).reshape(shape)

    def _place(self, bind, name, array):
        device, number = ("cpu", 0), array.dtype.type
        bind(name, *device, number, array.shape, array.ctypes.data)

    def input(self, name, value, offset=None):
        array = value
        if offset is not None:
            array = self.array(offset, value.shape, value.dtype)
            array[:] = value
        self._place(self.binding.bind_input, name, array)
        self.kept.append(array)

    def output(self, name, shape, dtype, offset):
        array = self.array(offset, shape, dtype)
        self._place(self.binding.bind_output, name, array)
        return array

    def run(self):
        self.session.run_with_iobinding(self.binding)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("operator", GATES)
def test_states_in_place(operator, dtype):
    """A streaming model: one buffer is the state before the steps, and the one after."""
    names = {"h": "y_h", "c": "y_c"} if operator == "LSTM" else {"h": "y_h"}
    layer = Layer(operator, "bidirectional", given=["b", *names], dtype=dtype)
    session, feeds = layer.session(), layer.feeds(4, 3)
    outputs = [output.name for output in session.get_outputs()]
    expected = dict(zip(outputs, session.run(None, feeds), strict=True))
    size = feeds["h"].nbytes
    # The states lie beside each other, or change places, in whole or in part, or at any address.
    for swaps, shift in itertools.product([False, True], [0, 8, -8, 3]):
        bound = Bound(session, expected["y"].nbytes + 3 * size)
        bound.input("x", feeds["x"])
        y = bound.output("y", expected["y"].shape, dtype, 3 * size)
        found = {"y": y}
        for index, (name, last) in enumerate(names.items()):
            bound.input(name, feeds[name], 16 + (index ^ swaps) * size)
            at = 16 + index * size + shift
            found[last] = bound.output(last, feeds[name].shape, dtype, at)
        bound.run()
        for last, array in found.items():
            assert harness.bits(array) == harness.bits(expected[last]), (swaps, shift, last)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shift", [0, 4, -8, 1])
def test_an_input_in_the_memory_of_the_output(dtype, shift):
    layer = Layer("GRU", units=FEATURES, outputs=["y", "y_h"], dtype=dtype)
    session, feeds = layer.session(), layer.feeds(6, 2)
    expected, last = session.run(None, feeds)
    bound = Bound(session, 2 * feeds["x"].nbytes + 64)
    bound.input("x", feeds["x"], 16)
    y = bound.output("y", expected.shape, dtype, 16 + shift)
    y_h = bound.output("y_h", last.shape, dtype, feeds["x"].nbytes + 64)
    bound.run()
    assert harness.bits(y) == harness.bits(expected)
    assert harness.bits(y_h) == harness.bits(last)


def test_weights_in_the_memory_of_an_output():
    layer = Layer("RNN", weights_are_inputs=True, outputs=["y"], given=["b", "h"])
    session, feeds = layer.session(), layer.feeds(3, 2)
    (expected,) = session.run(None, feeds)
    for name in layer.weights:
        bound = Bound(session, 4096)
        for other, value in feeds.items():
            bound.input(other, value, 0 if other == name else None)
        y = bound.output("y", expected.shape, np.float32, 0)
        bound.run()
        assert harness.bits(y) == harness.bits(expected), name


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("first, second, offset", [
    ("y", "y_h", 0), ("y", "y_h", 8), ("y_h", "y_c", 0), ("y", "y_c", -8), ("y_h", "y_c", 1),
])  # fmt: skip
def test_two_outputs_in_one_memory_are_refused(dtype, first, second, offset):
    layer = Layer("LSTM", dtype=dtype)
    session, feeds = layer.session(), layer.feeds(1, 2)
    bound = Bound(session, 4096)
    bound.input("x", feeds["x"])
    shapes = {"y": [1, 1, 2, layer.units], "y_h": [1, 2, layer.units], "y_c": [1, 2, layer.units]}
    at = {first: 64, second: 64 + offset}
    arrays = [
        bound.output(name, shape, dtype, at.get(name, 1024)) for name, shape in shapes.items()
    ]
    message = (
        f'LSTM node "the_node": the memory of outputs {first} and {second} overlaps; use '
        "separate buffers"
    )
    message = message.replace("y_h", "Y_h").replace("y_c", "Y_c").replace("s y ", "s Y ")
    with pytest.raises(Exception) as error:
        bound.run()
    assert message in str(error.value)
    assert not any(array.any() for array in arrays)


LIMITED = """
import resource, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import onnxruntime as ort
import harness
from test_layers import *

ort.register_execution_provider_library("revseq", harness.library())


def limit(more):
    # What the process has is what it may have, and so much more.
    pages = int(open("/proc/self/statm").read().split()[0])
    size = pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


def refused(run):
    try:
        run()
    except Exception as error:
        print(str(error).splitlines()[0])
    else:
        raise AssertionError("memory was not lacking")
"""


def limited(body):
    """The lines of a process whose memory is limited."""
    # Freed memory is given back, so that limits mean something.
    return harness.alone(LIMITED + body, MALLOC_ARENA_MAX="1").stdout


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_a_lack_of_memory_in_a_run_is_a_status(dtype):
    """The states and products of a batch take more than its input; half floats become floats."""
    found = limited(f"""
layer = Layer("LSTM", "bidirectional", units=64, outputs=["", "y_h"], dtype=np.{dtype})
session = layer.session(threads=1)
feeds = {{"x": np.zeros((1, 100_000, FEATURES), np.{dtype})}}
limit(150 << 20)
refused(lambda: session.run(None, feeds))
compare(session.run(None, layer.feeds(3, 2)), layer.plain().run(None, layer.feeds(3, 2))
        if "{dtype}" == "float32" else session.run(None, layer.feeds(3, 2)))
""")
    assert "not enough memory for" in found


def test_an_output_that_nothing_reads_takes_no_memory():
    """It would have 300 MB."""
    limited("""
layer = Layer("RNN", units=64)
del layer.model.graph.output[0]
session = layer.session(threads=1)
feeds = layer.feeds(20_000, 64)
limit(100 << 20)
assert session.run(None, feeds)[0].any()
""")


def test_a_lack_of_memory_for_weights_is_a_status():
    found = limited("""
layer = Layer("GRU", units=1500, outputs=["", "y_h"], weights_are_inputs=True)
# For fewer rows they are not packed.
session, feeds = layer.session(threads=1), layer.feeds(7, 7)
limit(10 << 20)
refused(lambda: session.run(None, feeds))
""")
    assert "not enough memory for" in found


@pytest.mark.parametrize("shape", [(1 << 33, 1, 0), (1, 1 << 33, 0), (1 << 33, 0, 0)])
def test_sizes_without_memory_are_answered_or_refused_at_once(shape):
    layer = Layer("GRU", outputs=["", "y_h"])
    for value in layer.model.graph.input:
        value.type.tensor_type.ClearField("shape")
    for constant in layer.model.graph.initializer:
        if constant.name == "w":
            constant.dims[2] = 0
            constant.raw_data = b""
    session = layer.session()
    x = np.zeros(shape, np.float32)
    try:
        (last,) = session.run(None, {"x": x})
    except Exception as error:
        assert "X has 8589934592 steps" in str(error) or "memory" in str(error), error
    else:
        assert last.shape == (1, shape[1], layer.units) and not last.any()


def test_an_inner_session_has_no_arena_if_the_session_around_has_none():
    """Without one the memory of a large run is given back."""
    grown = {}
    for arena in (True, False):
        grown[arena] = int(limited(f"""
import ctypes, os
model = harness.MODELS / "exported/keras_bilstm_masked/model.onnx"
options = harness.options(provider_options={{"loops": "layers"}}, threads=1)
options.enable_cpu_mem_arena = {arena}
session = harness.session(model, options)
(x,) = session.get_inputs()

def resident():
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(open("/proc/self/statm").read().split()[1])
    return pages * resource.getpagesize()

session.run(None, {{x.name: np.zeros((3, 5, 8), np.float32)}})
before = resident()
feeds = {{x.name: np.zeros((64, 10_000, 8), np.float32)}}
session.run(None, feeds)
del feeds
print(resident() - before)
"""))
    assert grown[True] > 100 << 20 and grown[False] < 20 << 20, grown
