"""Loops as layers in the session's own graph: the option ``loops``."""

import json
import pathlib
import threading

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import harness

LAYERS = {"loops": "layers"}
LOOPS = ("Loop", "Scan")
EXPORTED = harness.MODELS / "exported"
#: The loops of each model that layers replace, and all of its loops.
TAKEN = {
    "keras_bilstm_masked": (4, 4),
    "keras_gru_bidirectional": (2, 2),
    "keras_gru_masked_backwards": (1, 1),
    "keras_lstm_backwards_states": (1, 1),
    "keras_lstm_gru_simplernn": (2, 2),
    "keras_lstm_stacked_masked": (2, 2),
    "keras_simplernn_bidirectional_masked": (2, 2),
    "tf_speech_bigru_timemajor": (4, 4),
    "tf_while_reverse_sequence": (0, 1),
}


def replacing(model, provider_options=None, **kwargs) -> ort.InferenceSession:
    return harness.session(model, provider_options=LAYERS | (provider_options or {}), **kwargs)


def loops(made: ort.InferenceSession) -> tuple[int, int]:
    """The number of loops that are replaced, and of all."""
    found = harness.assigned(made)
    counts = {ep: sum(op in LOOPS for op in ops) for ep, ops in found.items()}
    return counts.get(harness.EP, 0), sum(counts.values())


def close(found, expected) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_ALL"])
def test_exported_models_give_what_was_recorded(name, level):
    options = harness.options(provider_options=LAYERS)
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    made = harness.session(EXPORTED / name / "model.onnx", options)
    taken, of_all = loops(made)
    # Older hosts do not hand on what a loop captures, unless its maker goes with it.
    assert of_all == TAKEN[name][1]
    assert taken == TAKEN[name][0] or harness.HOST < (1, 27) and taken > 0
    if harness.CPU_IS_RIGHT or TAKEN[name][0]:
        harness.check_data_sets(made, EXPORTED / name, close)


@pytest.mark.parametrize("steps, batch", [(1, 1), (200, 1), (31, 8), (5, 3)])
def test_masks_of_any_size(steps, batch):
    """A step that is all zeros is masked: some at the end, some in between, and whole sequences."""
    model = EXPORTED / "keras_bilstm_masked/model.onnx"
    made, plain = replacing(model), harness.cpu_session(model)
    rng = np.random.default_rng(steps)
    for often in (0.0, 0.3, 1.0):
        x = rng.normal(size=(batch, steps, 8)).astype(np.float32)
        x[rng.random((batch, steps)) < often] = 0
        x[0, steps // 2 :] = 0
        close(made.run(None, {"x": x}), plain.run(None, {"x": x}))


def test_loops_stay_unless_they_are_asked_for():
    model = EXPORTED / "keras_gru_bidirectional/model.onnx"
    assert loops(harness.session(model)) == (0, 2)
    assert loops(harness.session(model, provider_options={"loops": "keep"})) == (0, 2)


def float_value(name, shape=None):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


CELL = "a = MatMul (now, w)  b = MatMul (h, r)  ab = Add (a, b)  h2 = Tanh (ab)  y2 = Identity (h2)"


class Rnn:
    """A model of a loop that is an RNN, ``h = tanh(x @ w + h @ r)``, with all steps and the last."""

    def __init__(self, seed=0, units=4, features=3, weights=None):
        rng = np.random.default_rng(seed)
        self.units = units
        self.constants = {
            "w": rng.normal(size=(features, units)).astype(np.float32) * 0.5,
            "r": rng.normal(size=(units, units)).astype(np.float32) * 0.5,
            "begin": np.zeros((1, units), np.float32),
            "axis": np.array([1], np.int64),
            "one": np.array([2], np.int64),
            "width": np.array([units], np.int64),
        } | (weights or {})
        self.nodes = harness.nodes(f"""shape = Shape (x)  batch = Slice (shape, axis, one)
            sizes = Concat <axis = 0> (batch, width)  start = Expand (begin, sizes)
            [the_loop] last, y = Scan <body: graph = body
                (float[n,{units}] h, float[n,{features}] now) => (float[n,{units}] h2, float[n,{units}] y2) {{
                {CELL} }}, num_scan_inputs = 1> (start, x)""")
        self.inputs = [float_value("x", ["t", "n", features])]
        self.outputs = [float_value("last"), float_value("y")]
        self.given = []

    def feed(self, steps=5, batch=2, seed=1):
        rng = np.random.default_rng(seed)
        return {"x": rng.normal(size=(steps, batch, len(self.constants["w"]))).astype(np.float32)}

    def in_branch(self, nodes=None, other="last0 = ReduceSum (x)  y0 = Neg (x)", name="") -> list[onnx.NodeProto]:
        """Nodes, or those of the loop, in a branch of an If beside another."""
        (made,) = harness.nodes(f"""last, y = If (which) <then_branch: graph = then () => (float[] last, float[] y) {{}},
            else_branch: graph = other () => (float[] last0, float[] y0) {{ {other} }}>""")
        made.name = name
        made.attribute[0].g.node.extend(nodes or self.nodes)
        self.given = [helper.make_tensor_value_info("which", TensorProto.BOOL, [])]
        return [made]

    def model(self, outputs=None) -> onnx.ModelProto:
        constants = [numpy_helper.from_array(np.asarray(it), name) for name, it in self.constants.items()]
        graph = helper.make_graph(
            self.nodes, "rnn", self.inputs + self.given, outputs or self.outputs, constants
        )
        return helper.make_model(
            graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]
        )


def check(model: onnx.ModelProto, feeds, taken=1, **kwargs) -> ort.InferenceSession:
    made = replacing(model, **kwargs)
    assert loops(made)[0] == taken
    close(made.run(None, feeds), harness.cpu_session(model).run(None, feeds))
    return made


@pytest.mark.parametrize("steps, batch", [(1, 1), (7, 3), (3, 0), (40, 2)])
def test_a_loop_gives_the_same_for_all_sizes(steps, batch):
    rnn = Rnn()
    check(rnn.model(), rnn.feed(steps, batch))


def test_large_weights_are_not_in_memory_twice():
    """The session around releases what only the loop reads."""
    weights = {"w": np.ones((512, 2048), np.float32) / 512, "r": np.ones((2048, 2048), np.float32) / 2048}
    rnn = Rnn(units=2048, features=512, weights=weights | {"begin": np.zeros((1, 2048), np.float32)})
    size = sum(weight.nbytes for weight in weights.values())

    def grown(make):
        before, _ = harness.held()
        made = make()
        made.run(None, rnn.feed(1, 1))
        return harness.held()[0] - before

    plain = grown(lambda: harness.cpu_session(rnn.model()))
    ours = grown(lambda: replacing(rnn.model()))
    assert ours < plain + size / 2, (ours / size, plain / size)


def test_a_weight_that_callers_may_replace_keeps_its_loop():
    rnn = Rnn()
    rnn.given = [float_value("w", [3, 4])]
    model = rnn.model()
    made = check(model, rnn.feed(), taken=0)
    other = rnn.feed() | {"w": np.ones((3, 4), np.float32)}
    close(made.run(None, other), harness.cpu_session(model).run(None, other))


def test_a_loop_in_a_branch_is_replaced():
    rnn = Rnn()
    rnn.nodes = rnn.in_branch()
    model = rnn.model()
    for which in [True, False]:
        feeds = rnn.feed() | {"which": np.array(which)}
        check(model, feeds, taken=1 if harness.HOST >= (1, 27) else loops(replacing(model))[0])


def counted(rnn: Rnn, sequence: str) -> str:
    """The text of a loop over the first four steps of a sequence, however many it has."""
    rnn.constants |= {"four": np.array(4, np.int64), "yes": np.array(True), "two": np.zeros((2, 4), np.float32)}
    return f"""[the_loop] last, y = Loop (four, yes, two) <body: graph = steps (int64 step, bool goes_on, float[2,4] h)
        => (bool goes_on_then, float[2,4] h2, float[2,4] y2) {{
        now = Gather <axis = 0> ({sequence}, step)  {CELL}  goes_on_then = Identity (goes_on) }}>"""


def test_wrong_sizes_of_what_a_branch_reads_are_no_proof():
    """ONNX Runtime checks the sizes of the model's inputs alone."""
    rnn = Rnn()
    loop = harness.nodes(counted(rnn, "turned"))
    branches = rnn.in_branch(loop, "last0 = Identity (two)  y0 = Identity (turned)")
    rnn.nodes = harness.nodes("turned = Neg (x)") + branches
    model = rnn.model()
    model.graph.value_info.append(float_value("turned", [4, 2, 3]))
    for steps in (4, 6):
        check(model, rnn.feed(steps) | {"which": np.array(True)}, taken=0)


def test_wrong_sizes_of_the_inputs_of_a_body_are_no_proof():
    rnn = Rnn()
    rnn.nodes = harness.nodes(f"""state4, last4, y4 = Loop (four, "", x) <body: graph = rounds
        (int64 round, bool always, float[4,2,3] state)
        => (bool always_then, float[] state_then, float[] last, float[] y) {{
        {counted(rnn, "state")}
        state_then = Identity (state)  always_then = Identity (always) }}>""")
    model = rnn.model([float_value(it) for it in ("state4", "last4", "y4")])
    for steps in (4, 6):
        check(model, rnn.feed(steps), taken=0)


def test_what_lies_between_the_loop_and_its_input_goes_with_it():
    """The layer reads the sequence before it is turned, and others read it turned."""
    rnn = Rnn()
    before, after = harness.nodes("x = Transpose <perm = [1, 0, 2]> (raw)  positive = Relu (x)")
    rnn.nodes = [before, *rnn.nodes, after]
    rnn.inputs = [float_value("raw", ["n", "t", 3])]
    model = rnn.model(rnn.outputs + [float_value("positive")])
    feeds = {"raw": rnn.feed(4, 3)["x"].transpose(1, 0, 2)}
    check(model, feeds)


def test_threads_share_a_session():
    rnn = Rnn(units=32, features=16)
    made = check(rnn.model(), rnn.feed(), threads=2)
    feeds = [rnn.feed(steps, batch, steps) for steps in (1, 9, 30) for batch in (1, 4)]
    expected = [made.run(None, feed) for feed in feeds]
    wrong = []

    def work():
        for _ in range(20):
            for feed, right in zip(feeds, expected):
                if not all(np.array_equal(*pair) for pair in zip(made.run(None, feed), right)):
                    wrong.append(feed)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_inner_session_has_no_threads():
    rnn = Rnn(units=64, features=64)
    model = rnn.model()
    _, before = harness.held()
    made = check(model, rnn.feed(20, 8), threads=2)
    _, after = harness.held()
    # The session around has one besides the caller's.
    assert after - before <= 1
    del made


def test_numbers_are_the_same_on_any_number_of_threads():
    rnn = Rnn(units=64, features=64)
    feeds = rnn.feed(20, 8)
    one, two = (replacing(rnn.model(), threads=threads).run(None, feeds) for threads in (1, 2))
    assert all(np.array_equal(*pair) for pair in zip(one, two))


def test_an_optimised_model_cannot_be_saved(tmp_path):
    options = harness.options(provider_options=LAYERS)
    options.optimized_model_filepath = str(tmp_path / "saved.onnx")
    with pytest.raises(Exception, match="contains compiled nodes"):
        harness.session(Rnn().model(), options)
    assert not list(tmp_path.iterdir())


def test_no_context_is_written(tmp_path):
    context = {"ep__context_enable": "1", "ep__context_file_path": str(tmp_path / "context.onnx")}
    with pytest.raises(Exception, match='the_loop.* cannot be written into an EPContext.*"keep"'):
        replacing(Rnn().model(), **context)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("times, taken", [(1, 1), (2, 0)])
def test_initializers_of_the_options_count(times, taken):
    rnn = Rnn()
    given = ort.OrtValue.ortvalue_from_numpy(rnn.constants["w"] * np.float32(times))

    def made(ep):
        options = harness.options(ep, LAYERS)
        options.add_initializer("w", given)
        return harness.session(rnn.model(), options)

    ours, plain = made(True), made(False)
    assert loops(ours) == (taken, 1)
    close(ours.run(None, rnn.feed()), plain.run(None, rnn.feed()))


def test_a_profile_names_the_provider(tmp_path):
    options = harness.options(provider_options=LAYERS)
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    made = harness.session(Rnn().model(), options)
    made.run(None, Rnn().feed())
    events = json.loads(pathlib.Path(made.end_profiling()).read_text())
    nodes = [event["args"] for event in events if event.get("cat") == "Node"]
    assert [node["provider"] for node in nodes if node["op_name"] not in ("Shape", "Slice")] == [harness.EP]
    # The inner session writes none.
    assert len(list(tmp_path.iterdir())) == 1


def test_wrong_values_are_named():
    with pytest.raises(Exception, match='"loops" is "layer", expected "keep", "layers" or "steps"'):
        replacing(Rnn().model(), {"loops": "layer"})
    with pytest.raises(Exception, match='"assume" is "padded", expected "right-padded"'):
        replacing(Rnn().model(), {"assume": "padded"})


def test_a_failing_run_names_the_loop():
    rnn = Rnn()
    made = check(rnn.model(), rnn.feed())
    with pytest.raises(Exception) as failed:
        made.run(None, {"x": np.zeros((2, 2, 5), np.float32)})
    assert "x" in str(failed.value)
    close(made.run(None, rnn.feed()), harness.cpu_session(rnn.model()).run(None, rnn.feed()))
