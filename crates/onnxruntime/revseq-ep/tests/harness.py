"""Shared by the tests: sessions on the EP, models, and the placement of nodes."""

import ctypes
import gc
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

# ONNX Runtime reads it when it is loaded. Tests have nothing to report, and events
# that wait to be sent would look like a leak (ONNX Runtime 1.29 and later).
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

# Imported modules are never garbage: freezing them makes the tests' many collections fast.
gc.freeze()

EP = "RevSeqExecutionProvider"
CPU = "CPUExecutionProvider"
OPERATORS = ("ReverseSequence", "ReverseSubsequences")
TESTS = pathlib.Path(__file__).resolve().parent
ROOT = TESTS.parents[3]
MODELS = ROOT / "models"
#: The version of ONNX Runtime.
HOST = tuple(int(number) for number in ort.__version__.split(".")[:2])

#: Whether ONNX Runtime's CPU EP is right about lengths of 0: before 1.31 it writes zeros there
#: (microsoft/onnxruntime#28490).
CPU_IS_RIGHT = HOST >= (1, 31)


def library() -> str:
    """The library under test, absolute: ONNX Runtime looks for others beside itself."""
    path = os.environ.get("REVSEQ_EP_LIBRARY")
    if not path:
        raise RuntimeError("set REVSEQ_EP_LIBRARY to the path of the provider's library")
    return str(pathlib.Path(path).resolve(strict=True))


def install(folder: pathlib.Path, with_library: bool = True) -> None:
    """Lays the Python package into a folder as the wheel installs it."""
    source = ROOT / "crates/onnxruntime/revseq-ep/python/onnxruntime_ep_revseq"
    package = folder / source.name
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__", "*revseq_ep.*"))
    if with_library:
        path = pathlib.Path(library())
        (package / path.name).symlink_to(path)


def alone(script: str, *arguments, **env: str) -> subprocess.CompletedProcess:
    """Runs a script in a process of its own, which has to end well; its first argument is this folder."""
    command = [sys.executable, "-c", script, str(TESTS), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=os.environ | env)
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout}\n{done.stderr[-4000:]}"
    return done


def devices():
    return [device for device in ort.get_ep_devices() if device.ep_name == EP]


class Heap(ctypes.Structure):
    """glibc's `struct mallinfo2`."""

    FIELDS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(field, ctypes.c_size_t) for field in FIELDS.split()]


def held() -> tuple[int, int]:
    """The bytes that this process has allocated and not freed, and its threads.

    Resident memory also includes freed memory that the allocator keeps."""
    gc.collect()
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = Heap
    heap = mallinfo2()
    return heap.uordblks + heap.hblkhd, len(os.listdir("/proc/self/task"))


def options(ep=True, provider_options=None, threads=None, **config) -> ort.SessionOptions:
    """Session options, with the EP or without; `config` has underscores for dots."""
    session_options = ort.SessionOptions()
    session_options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    # Another test can use the core.
    session_options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if threads is not None:
        session_options.intra_op_num_threads = threads
    for key, value in config.items():
        session_options.add_session_config_entry(key.replace("__", "."), value)
    if ep:
        found = devices()
        assert len(found) == 1, found
        session_options.add_provider_for_devices(found, provider_options or {})
    return session_options


def load(model) -> bytes | str:
    if isinstance(model, onnx.ModelProto):
        return model.SerializeToString()
    return model if isinstance(model, bytes) else str(model)


def session(model, session_options=None, **kwargs) -> ort.InferenceSession:
    """A session on the EP; ONNX Runtime must not run the model again on the CPU if it fails."""
    made = ort.InferenceSession(load(model), session_options or options(**kwargs))
    made.disable_fallback()
    return made


def cpu_session(model) -> ort.InferenceSession:
    made = ort.InferenceSession(load(model), ort.SessionOptions(), providers=[CPU])
    made.disable_fallback()
    return made


def assigned(made: ort.InferenceSession) -> dict[str, list[str]]:
    """The operators of each provider's nodes."""
    found: dict[str, list[str]] = {}
    for subgraph in made.get_provider_graph_assignment_info():
        found.setdefault(subgraph.ep_name, []).extend(
            node.op_type for node in subgraph.get_nodes()
        )
    return found


def assert_on_ep(made: ort.InferenceSession, count: int | None = None) -> None:
    """Fails if a node of the operators is anywhere but on the EP, or none is there."""
    found = assigned(made)
    ours = [op for op in found.get(EP, []) if op in OPERATORS]
    elsewhere = {ep: ops for ep, ops in found.items() if ep != EP and set(ops) & set(OPERATORS)}
    assert not elsewhere, elsewhere
    assert ours and (count is None or len(ours) == count), found


class Profiled:
    """Runs with profiling on, and returns which provider ran each node of the operators."""

    def __init__(self, model, session_options: ort.SessionOptions):
        self.folder = tempfile.TemporaryDirectory()
        session_options.enable_profiling = True
        session_options.profile_file_prefix = os.path.join(self.folder.name, "profile")
        self.session = session(model, session_options)

    def providers(self) -> list[tuple[str, str]]:
        """(operator, provider) of each run of a node, in order; ends the profiling."""
        with open(self.session.end_profiling(), encoding="utf-8") as file:
            events = json.load(file)
        self.folder.cleanup()
        return [
            (event["args"]["op_name"], event["args"]["provider"])
            for event in events
            if event.get("cat") == "Node"
            and event["name"].endswith("_kernel_time")
            and event["args"].get("op_name") in OPERATORS
        ]


def bits(array) -> tuple:
    """An array's type, shape and bytes, for comparing bit for bit."""
    array = np.asarray(array)
    data = array.tolist() if array.dtype == object else array.tobytes()
    dtype = "string" if array.dtype.kind in "OU" else str(array.dtype)
    return (dtype, array.shape, data if dtype != "string" else array.astype(object).tolist())


def run(made: ort.InferenceSession, feeds: dict, outputs: list) -> list[np.ndarray]:
    """The outputs of a session for arrays, with `outputs` for their types and shapes.

    Python's binding knows no array of bfloat16, but it takes the memory of one."""
    if all(array.dtype.name != "bfloat16" for array in feeds.values()):
        return made.run(None, feeds)

    def value(array):
        if array.dtype.name != "bfloat16":
            return ort.OrtValue.ortvalue_from_numpy(array)
        array = array.view(np.uint16)
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, TensorProto.BFLOAT16)

    binding = made.io_binding()
    results = [np.zeros_like(output) for output in outputs]
    for name, array in feeds.items():
        binding.bind_ortvalue_input(name, value(array))
    for output, array in zip(made.get_outputs(), results, strict=True):
        binding.bind_ortvalue_output(output.name, value(array))
    made.run_with_iobinding(binding)
    return results


def data_sets(folder: pathlib.Path):
    """The inputs and outputs of a model's data sets, in order."""
    for data_set in sorted(folder.glob("test_data_set_*")):

        def read(kind, data_set=data_set):
            count = len(list(data_set.glob(f"{kind}_*.pb")))
            return [
                numpy_helper.to_array(onnx.load_tensor(data_set / f"{kind}_{index}.pb"))
                for index in range(count)
            ]

        yield read("input"), read("output")


def assert_same_bits(found, expected) -> None:
    for one, other in zip(found, expected, strict=True):
        assert bits(one) == bits(other)


def check_data_sets(made: ort.InferenceSession, folder: pathlib.Path, same=assert_same_bits) -> None:
    """Runs a session on a model's data sets."""
    names = [value.name for value in made.get_inputs()]
    for inputs, outputs in data_sets(folder):
        same(made.run(None, dict(zip(names, inputs, strict=True))), outputs)


def reverse_sequence(
    shape,
    dtype=TensorProto.FLOAT,
    lengths_shape=None,
    lengths_dtype=TensorProto.INT64,
    name="the_node",
    opset=17,
    lengths=None,
    **attributes,
) -> onnx.ModelProto:
    """A model of one ReverseSequence; `lengths` makes them an initializer."""
    if lengths_shape is None:
        lengths_shape = [shape[attributes.get("batch_axis", 1)]]
    node = helper.make_node("ReverseSequence", ["x", "lens"], ["y"], name=name, **attributes)
    return one_node(node, shape, dtype, lengths_shape, lengths_dtype, opset, lengths)


def reverse_subsequences(
    shape,
    axis,
    dtype=TensorProto.FLOAT,
    lengths_shape=None,
    lengths_dtype=TensorProto.UINT32,
    name="the_node",
    lengths=None,
) -> onnx.ModelProto:
    """A model of one ReverseSubsequences."""
    if lengths_shape is None:
        lengths_shape = list(shape)
        lengths_shape[axis] = 1
    node = helper.make_node(
        "ReverseSubsequences", ["x", "lens"], ["y"], name=name, domain="revseq", axis=axis
    )
    return one_node(node, shape, dtype, lengths_shape, lengths_dtype, 17, lengths)


def one_node(node, shape, dtype, lengths_shape, lengths_dtype, opset, lengths=None):
    inputs = [helper.make_tensor_value_info("x", dtype, shape)]
    initializers = []
    if lengths is None:
        inputs.append(helper.make_tensor_value_info("lens", lengths_dtype, lengths_shape))
    else:
        initializers.append(numpy_helper.from_array(np.asarray(lengths), "lens"))
    outputs = [helper.make_tensor_value_info("y", dtype, shape)]
    graph = helper.make_graph([node], "graph", inputs, outputs, initializers)
    return model(graph, opset)


def parsed(text: str, opset=17, **constants) -> onnx.ModelProto:
    """A model of a graph as text, from its inputs on, and constants."""
    graph = onnx.parser.parse_graph("graph " + text)
    graph.initializer.extend(
        numpy_helper.from_array(np.asarray(it), name) for name, it in constants.items()
    )
    return model(graph, opset)


def nodes(text: str) -> list[onnx.NodeProto]:
    """Nodes of a text."""
    return list(onnx.parser.parse_graph("graph () => () {" + text + "}").node)


def model(graph, opset=17) -> onnx.ModelProto:
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("revseq", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def expected(x, lengths, time_axis, batch_axis=None):
    """The answer, element by element; without `batch_axis` the lengths have the data's rank."""
    x = np.asarray(x)
    y = x.copy()
    size = x.shape[time_axis]
    for at in np.ndindex(*x.shape):
        at = list(at)
        t = at[time_axis]
        if batch_axis is None:
            where = list(at)
            where[time_axis] = 0
            length = int(lengths[tuple(where)])
        else:
            length = int(lengths[at[batch_axis]])
        length = min(max(length, 0), size)
        source = list(at)
        source[time_axis] = length - 1 - t if t < length else t
        y[tuple(at)] = x[tuple(source)]
    return y
