"""Models with loops for the tests of sessions: files of the repository, and small ones as text."""

import dataclasses
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper, parser

import harness
from graphs import nodes

DATA = harness.ROOT / "tests/data"


@dataclasses.dataclass
class Model:
    """A model, and the inputs of several runs."""

    name: str
    proto: onnx.ModelProto
    feeds: list[dict[str, np.ndarray]]


SIZES = """
    shape = Shape (x)
    steps = Gather <axis: int = 0> (shape, zero)
    batch = Slice (shape, ones, twos)
"""
CELL = """
        from_x = MatMul (now, W)
        from_h = MatMul (h, R)
        sum = Add (from_x, from_h)
        new = Tanh (sum)
        out = Identity (new)
"""


def zeros(batch="batch") -> str:
    """A state of zeros for as many sequences as a value says."""
    return f"sizes = Concat <axis: int = 0> ({batch}, units) start = ConstantOfShape (sizes)"


def rnn(x="x", start="start", last="last", y="y") -> str:
    """A Loop that is an RNN."""
    return f"""
    {last}, {y} = Loop (steps, "", {start}) <body: graph = body (int64 i, bool go, float[] h)
        => (bool goes, float[] new, float[] out) {{
        now = Gather <axis: int = 0> ({x}, i)
        goes = Identity (go)
        {CELL} }}>
"""


def chain(count: int) -> str:
    """As many RNNs, each of which reads the one before."""
    first = "x0 = MatMul (x, W)" + SIZES + zeros()
    links = [rnn(f"x{at}", "start", f"last{at}", f"x{at + 1}") for at in range(count)]
    # All layers have the same weights, which take as many features as they give.
    return first + "".join(links).replace("MatMul (now, W)", "MatMul (now, R)")


#: Graphs, without their initializers.
TEXTS = {
    "loop": "(float[t,n,3] x) => (float[] last, float[] y) {" + SIZES + zeros() + rnn() + "}",
    "scan": "(float[t,n,3] x) => (float[] last, float[] y) {" + SIZES + zeros() + """
    last, y = Scan <num_scan_inputs = 1, body: graph = body
        (float[n,4] h, float[n,3] now) => (float[n,4] new, float[n,4] out) {""" + CELL
    + "}> (start, x) }",
    "given_state": "(float[t,n,3] x, float[n,4] start) => (float[n,4] last, float[t,n,4] y) {"
    + SIZES + rnn() + "}",
    # The loop makes as many hypotheses of the one sequence as there are states.
    "hypotheses": "(float[t,n,3] x, float[c,4] start) => (float[] last, float[] y) {"
    + SIZES + rnn() + "}",
    "hypotheses_from_zeros": "(float[t,1,3] x, float[c] scores) => (float[] last, float[] y) {"
    + SIZES + "count = Shape (scores)" + zeros("count") + rnn() + "}",
    "three_hypotheses_from_zeros": "(float[t,n,3] x) => (float[] last, float[] y) {"
    + SIZES + zeros("threes") + rnn() + "}",
    "beside_a_map_of_words": """(int64[t,n] ids) => (float[] last, float[] y, float[] is_word) {
    x = Gather <axis: int = 0> (embedding, ids)""" + SIZES + zeros() + rnn() + """
    is_word = Loop (steps, "") <body: graph = each (int64 j, bool on) => (bool goes_on, float[] are) {
        id = Gather <axis: int = 0> (ids, j)
        word = Gather <axis: int = 0> (words, id)
        same = Equal (word, a_word)
        are = Cast <to: int = 1> (same)
        goes_on = Identity (on) }> }""",
    "beside_a_map_of_pools": "(float[t,n,3] x) => (float[] last, float[] y, float[] pooled) {"
    + SIZES + zeros() + rnn() + """
    images = Unsqueeze (x, ones)
    pooled = Loop (steps, "") <body: graph = each (int64 j, bool on) => (bool goes_on, float[] pool) {
        image = Gather <axis: int = 0> (images, j)
        pool = AveragePool <ceil_mode: int = 1, kernel_shape = [2], pads = [1, 1], strides = [2]> (image)
        goes_on = Identity (on) }> }""",
    "in_a_branch": """(float[t,n,3] x, bool which) => (float[] last, float[] y) {
    last, y = If (which) <then_branch: graph = then () => (float[] then_last, float[] then_y) {"""
    + SIZES + zeros() + rnn(last="then_last", y="then_y") + """},
    else_branch: graph = other () => (float[] sum, float[] neg) {
        sum = ReduceSum <keepdims: int = 0> (x)
        neg = Neg (x) }> }""",
}
#: More than a proof follows at once.
CHAIN = 80

#: The files that go through every kind of session: a way of writing layers, or a loop that is none.
FILES = {
    path.name: path
    for path in [
        harness.MODELS / "exported/keras_bilstm_masked",
        harness.MODELS / "exported/keras_lstm_backwards_states",
        harness.MODELS / "exported/tf_speech_bigru_timemajor",
        harness.MODELS / "exported/tf_while_reverse_sequence",
        DATA / "keras/embedding_bilstm_masked",
        DATA / "layers/jax",
        DATA / "layers/keras_attention",
        DATA / "layers/keras_merged_sum",
        DATA / "layers/keras_stacked_cells",
        DATA / "layers/lite",
        DATA / "layers/tensorflow1",
    ]
}
#: All that have a loop, for the kinds that differ most.
ALL_FILES = {
    str(path.parent.relative_to(harness.ROOT)): path.parent
    for folder in (harness.MODELS, DATA / "keras", DATA / "layers")
    for path in sorted(folder.glob("**/model.onnx"))
}


def initializers() -> list[onnx.TensorProto]:
    """The constants of the texts."""
    rng = np.random.default_rng(0)
    values = {
        "zero": np.int64(0),
        "ones": np.array([1]),
        "twos": np.array([2]),
        "threes": np.array([3]),
        "units": np.array([4]),
        "embedding": rng.normal(size=(3, 3)).astype(np.float32),
        "words": np.array(["one", "two", "three"], object),
        "a_word": np.array("two", object),
        "W": rng.normal(size=(3, 4)).astype(np.float32) / 2,
        "R": rng.normal(size=(4, 4)).astype(np.float32) / 2,
    }
    return [numpy_helper.from_array(np.asarray(value), name) for name, value in values.items()]


def from_text(name: str) -> Model:
    return of_graph(name, TEXTS[name])


def of_chain() -> Model:
    return of_graph("chain", f"(float[t,n,3] x) => (float[] x{CHAIN}) {{ {chain(CHAIN)} }}")


def of_graph(name: str, text: str) -> Model:
    """A model of a graph as text, with the constants that it reads."""
    graph = parser.parse_graph("g " + text)
    read = {value for node in nodes(graph) for value in node.input}
    graph.initializer.extend(it for it in initializers() if it.name in read)
    proto = onnx.helper.make_model(
        graph, ir_version=9, opset_imports=[onnx.helper.make_opsetid("", 19)]
    )
    rng = np.random.default_rng(1)
    # A layer has one sequence where there are more hypotheses.
    sizes = [{"t": 5, "n": 1, "c": 3}, {"t": 1, "n": 1, "c": 1}, {"t": 7, "n": 3, "c": 3}]
    feeds = [{it.name: drawn(it, of_run, rng) for it in graph.input} for of_run in sizes]
    return Model(name, proto, feeds)


def drawn(value: onnx.ValueInfoProto, sizes: dict[str, int], rng) -> np.ndarray:
    """A tensor for an input."""
    tensor = value.type.tensor_type
    shape = [sizes[it.dim_param] if it.dim_param else it.dim_value for it in tensor.shape.dim]
    if tensor.elem_type == TensorProto.FLOAT:
        return rng.normal(size=shape).astype(np.float32)
    if tensor.elem_type == TensorProto.INT64:
        return rng.integers(0, 3, shape)
    assert tensor.elem_type == TensorProto.BOOL
    return np.array(sizes["n"] == 1)


def from_file(folder: pathlib.Path) -> Model:
    proto = onnx.load(folder / "model.onnx")
    names = [value.name for value in proto.graph.input]
    feeds = [dict(zip(names, inputs, strict=True)) for inputs, _ in harness.data_sets(folder)]
    if not harness.CPU_IS_RIGHT:
        # A length of 1 reverses nothing, as one of 0, and old hosts are right about it.
        for it in feeds:
            it |= {name: np.maximum(array, 1) for name, array in it.items() if name == "lens"}
    return Model(folder.name, proto, feeds)


def count_loops(proto: onnx.ModelProto) -> int:
    return sum(node.op_type in ("Loop", "Scan") for node in nodes(proto.graph))
