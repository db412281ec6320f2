"""Recurrent layers on the provider: the option ``layers``."""

import itertools
import threading

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import harness

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
ACTIVATIONS = {"LSTM": 3, "GRU": 2, "RNN": 1}
ON = {"layers": "on"}
#: Nothing may be left to the CPU provider.
ALONE = {"session__disable_cpu_ep_fallback": "1"}
#: An empty list, of strings.
NONE = []
FEATURES = 5
#: The inputs behind X, in order.
INPUTS = ["w", "r", "b", "lens", "h", "c", "p"]


class Layer:
    """A model of one layer, and feeds for it."""

    def __init__(
        self,
        operator,
        direction="forward",
        units=6,
        given=("b",),
        outputs=None,
        weights_are_inputs=False,
        opset=17,
        dtype=np.float32,
        seed=0,
        **attributes,
    ):
        rng = np.random.default_rng(seed)
        directions = 2 if direction == "bidirectional" else 1
        rows = GATES[operator] * units
        shapes = {
            "w": [directions, rows, FEATURES],
            "r": [directions, rows, units],
            "b": [directions, 2 * rows],
            "p": [directions, 3 * units],
        }
        is_lstm = operator == "LSTM"
        names = [name for name in INPUTS if is_lstm or name not in "cp"]
        given = {"w", "r", *given}
        self.states = [name for name in names if name in given and name in "hc"]
        self.directions, self.units, self.dtype = directions, units, dtype
        self.has_lengths = "lens" in given
        self.weights = {
            # A state neither vanishes nor saturates.
            name: (rng.normal(size=shape) * 0.5 * min(1, (6 / shape[-1]) ** 0.5)).astype(dtype)
            for name, shape in shapes.items()
            if name in given and name in names
        }
        self.fed = self.weights if weights_are_inputs else {}
        if outputs is None:
            outputs = ["y", "y_h", "y_c"] if is_lstm else ["y", "y_h"]
        listed = ["x", *(name if name in given else "" for name in names)]
        while not listed[-1]:
            listed.pop()
        node = helper.make_node(
            operator,
            listed,
            outputs,
            name="the_node",
            hidden_size=units,
            direction=direction,
        )
        for key, value in attributes.items():
            kind = onnx.AttributeProto.STRINGS if value is NONE else None
            node.attribute.append(helper.make_attribute(key, value, attr_type=kind))
        number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        inputs = [helper.make_tensor_value_info("x", number, ["t", "n", FEATURES])]
        if self.has_lengths:
            inputs.append(helper.make_tensor_value_info("lens", TensorProto.INT32, ["n"]))
        for name in self.states:
            inputs.append(helper.make_tensor_value_info(name, number, [directions, "n", units]))
        for name, array in self.fed.items():
            inputs.append(helper.make_tensor_value_info(name, number, array.shape))
        results = [helper.make_tensor_value_info(name, number, None) for name in outputs if name]
        constants = [
            numpy_helper.from_array(array, name)
            for name, array in self.weights.items()
            if name not in self.fed
        ]
        graph = helper.make_graph([node], "layer", inputs, results, constants)
        self.model = harness.model(graph, opset)

    def feeds(self, steps, batch, seed=1):
        rng = np.random.default_rng(seed)
        feeds = {"x": rng.normal(size=(steps, batch, FEATURES)).astype(self.dtype), **self.fed}
        if self.has_lengths:
            feeds["lens"] = rng.integers(0, steps + 1, batch, np.int32)
        for name in self.states:
            states = rng.normal(size=(self.directions, batch, self.units))
            feeds[name] = states.astype(self.dtype)
        return feeds

    def session(self, **kwargs):
        session = harness.session(self.model, provider_options=ON, **{**ALONE, **kwargs})
        assert list(harness.assigned(session)) == [harness.EP]
        return session

    def plain(self):
        return harness.session(self.model, harness.options(ep=False))

    def check(self, steps=7, batch=3):
        feeds = self.feeds(steps, batch)
        session = self.session()
        expected = self.plain().run(None, feeds)
        for _ in range(2):
            compare(session.run(None, feeds), expected)


def compare(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("opset", [7, 14, 22])
@pytest.mark.parametrize("operator", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_every_version_and_direction(operator, direction, opset):
    Layer(operator, direction, opset=opset).check()


def every(*names):
    """All choices of these inputs."""
    choices = itertools.product([False, True], repeat=len(names))
    return [[name for name, chosen in zip(names, it, strict=True) if chosen] for it in choices]


GIVEN = [("LSTM", it) for it in every("b", "lens", "h", "c", "p")]
GIVEN += [(operator, it) for operator in ("GRU", "RNN") for it in every("b", "lens", "h")]


@pytest.mark.parametrize("operator, given", GIVEN)
@pytest.mark.parametrize("weights_are_inputs", [False, True])
def test_inputs(operator, given, weights_are_inputs):
    Layer(operator, "bidirectional", given=given, weights_are_inputs=weights_are_inputs).check()


@pytest.mark.parametrize(
    "operator, attributes",
    [
        ("LSTM", {"input_forget": 1}),
        ("LSTM", {"clip": 0.4}),
        ("LSTM", {"activations": ["HardSigmoid", "Softsign", "ScaledTanh"],
                  "activation_alpha": [0.25, 1.5], "activation_beta": [0.4, 0.7]}),
        ("GRU", {"linear_before_reset": 1}),
        ("GRU", {"clip": 0.4, "linear_before_reset": 1}),
        ("GRU", {"activations": ["sigmoid", "LeakyRelu"], "activation_alpha": [0.3]}),
        ("RNN", {"activations": ["Relu"]}),
        ("RNN", {"clip": 0.3}),
        ("RNN", {"clip": 0.0}),
        # A bound below 0 is none.
        ("RNN", {"clip": -1.0}),
        # The second is that of another direction.
        ("RNN", {"activations": ["Tanh", "Tanh"]}),
        ("RNN", {"activations": ["Relu", "Cosine"]}),
        # None are the default ones.
        ("LSTM", {"activations": NONE}),
        ("GRU", {"activations": NONE}),
        # Constants that are not there.
        ("RNN", {"activations": ["ThresholdedRelu"]}),
        ("LSTM", {"activations": ["Sigmoid", "Affine", "ScaledTanh"], "activation_alpha": [0.5]}),
        ("GRU", {"activations": ["HardSigmoid", "Elu"]}),
    ],
)  # fmt: skip
def test_attributes(operator, attributes):
    Layer(operator, given=["b", "lens"], **attributes).check()


@pytest.mark.parametrize(
    "outputs", [["y"], ["", "y_h"], ["", "", "y_c"], ["y", "", "y_c"], ["", "y_h", "y_c"]]
)
def test_outputs_that_are_left_out(outputs):
    Layer("LSTM", outputs=outputs).check()


@pytest.mark.parametrize("units, batch", [(1, 1), (16, 40), (70, 2), (300, 5)])
@pytest.mark.parametrize("operator", GATES)
def test_sizes_and_threads(operator, units, batch):
    layer = Layer(operator, "bidirectional", units=units)
    feeds = layer.feeds(30, batch)
    expected = layer.plain().run(None, feeds)
    runs = []
    for threads in (1, 2, 3):
        options = harness.options(provider_options=ON, threads=threads, **ALONE)
        session = harness.session(layer.model, options)
        runs += [session.run(None, feeds) for _ in range(6)]
    for found in runs:
        compare(found, expected)
        assert list(map(harness.bits, found)) == list(map(harness.bits, runs[0]))


@pytest.mark.parametrize("operator", GATES)
def test_doubles_run_with_the_provider_alone(operator):
    """ONNX Runtime has no kernel that computes them."""
    layer = Layer(operator, "bidirectional", given=["b", "lens", "h", "c"], dtype=np.float64)
    feeds = layer.feeds(7, 3)
    floats = Layer(operator, "bidirectional", given=["b", "lens", "h", "c"])
    expected = floats.plain().run(None, floats.feeds(7, 3))
    for found, near in zip(layer.session().run(None, feeds), expected, strict=True):
        assert found.dtype == np.float64 and found.shape == near.shape
        np.testing.assert_allclose(found, near, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("operator", GATES)
@pytest.mark.parametrize("weights_are_inputs", [False, True])
def test_half_floats_are_computed_in_floats(operator, weights_are_inputs):
    """As ONNX Runtime does, between casts."""
    given = ["b", "lens", "h", "c", "p"]
    layer = Layer(
        operator,
        "bidirectional",
        given=given,
        dtype=np.float16,
        weights_are_inputs=weights_are_inputs,
    )
    feeds = layer.feeds(7, 3)
    expected = layer.plain().run(None, feeds)
    for found, near in zip(layer.session().run(None, feeds), expected, strict=True):
        assert found.dtype == np.float16 and found.shape == near.shape
        np.testing.assert_allclose(found, near, rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize("operator", GATES)
@pytest.mark.parametrize("steps, batch", [(0, 2), (4, 0), (0, 0)])
def test_an_empty_batch_and_no_steps_are_answered(operator, steps, batch):
    layer = Layer(operator, given=["b", "h"])
    feeds = layer.feeds(steps, batch)
    y, y_h, *_ = layer.session().run(None, feeds)
    assert y.shape == (steps, 1, batch, layer.units)
    assert harness.bits(y_h) == harness.bits(feeds["h"])


def test_a_closed_gate_holds_its_state():
    layer = Layer("LSTM", units=1, given=["b", "c", "h"], outputs=["", "", "y_c"])
    model = onnx.ModelProto.FromString(layer.model.SerializeToString())
    for constant in model.graph.initializer:
        array = np.zeros(list(constant.dims), np.float32)
        if constant.name == "b":
            array[0, :4] = [-100, 0, 100, 0]
        constant.CopyFrom(numpy_helper.from_array(array, constant.name))
    session = harness.session(model, provider_options=ON, **ALONE)
    feeds = layer.feeds(20_000, 1) | {"c": np.ones([1, 1, 1], np.float32)}
    (y_c,) = session.run(None, feeds)
    assert y_c.item() == 1


def quantized(units=8, zero=0, dtype=np.int8):
    rng = np.random.default_rng(0)
    scale = np.array([0.01], np.float32)

    def weights(rows):
        # Without VNNI, ONNX Runtime adds two products in 16 bits: those of larger int8 may saturate.
        return rng.integers(zero - 64, zero + 64, (1, rows, 4 * units)).astype(dtype)

    constants = {
        "w": weights(FEATURES),
        "r": weights(units),
        "b": rng.normal(size=(1, 8 * units)).astype(np.float32),
        "w_scale": scale,
        "w_zero": np.array([zero], dtype),
        "r_scale": scale,
        "r_zero": np.array([zero], dtype),
    }
    text = f"""(float[t,n,{FEATURES}] x) => (float[] y) {{
        y = com.microsoft.DynamicQuantizeLSTM <hidden_size = {units}>
            (x, w, r, b, "", "", "", "", w_scale, w_zero, r_scale, r_zero) }}"""
    model = harness.parsed(text, **constants)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return model


@pytest.mark.parametrize("dtype, zero", [(np.int8, 0), (np.uint8, 128)])
@pytest.mark.parametrize("prepacking", ["0", "1"])
def test_a_quantised_lstm(dtype, zero, prepacking):
    model = quantized(zero=zero, dtype=dtype)
    config = ALONE | {"session__disable_prepacking": prepacking}
    session = harness.session(model, provider_options=ON, **config)
    assert harness.assigned(session) == {harness.EP: ["DynamicQuantizeLSTM"]}
    x = np.random.default_rng(1).normal(size=(9, 2, FEATURES)).astype(np.float32)
    (expected,) = harness.session(model, harness.options(ep=False)).run(None, {"x": x})
    for _ in range(2):
        (found,) = session.run(None, {"x": x})
        # ONNX Runtime sums integers; a rounding of a state may fall to the other side.
        np.testing.assert_allclose(found, expected, atol=0.02)


@pytest.mark.parametrize("operator", GATES)
def test_layers_are_left_to_the_cpu_unless_asked_for(operator):
    layer = Layer(operator)
    for provider_options in ({}, {"layers": "off"}):
        session = harness.session(layer.model, provider_options=provider_options)
        assert harness.assigned(session) == {harness.CPU: [operator]}


def test_a_wrong_value_is_refused_with_the_right_ones():
    message = 'provider option "layers" is "yes", expected "on" or "off"'
    with pytest.raises(Exception, match=message):
        harness.session(Layer("RNN").model, provider_options={"layers": "yes"})


@pytest.mark.parametrize(
    "change, message",
    [
        ({"lens": np.array([8, 1, 1], np.int32)},
         "Invalid value/s in sequence_lens. All values must be .* seq_length. seq_length=7"),
        ({"lens": np.array([-1, 1, 1], np.int32)}, "Invalid value/s in sequence_lens"),
        ({"lens": np.array([1, 1], np.int32)},
         r"Input sequence_lens must have shape \{3\}. Actual:\{2\}"),
        ({"h": np.zeros([1, 2, 6], np.float32)},
         r"Input initial_h must have shape \{1,3,6\}. Actual:\{1,2,6\}"),
        ({"w": np.zeros([1, 24, 4], np.float32)},
         r"Input W must have shape \{1,24,5\}. Actual:\{1,24,4\}"),
        ({"b": np.zeros([1, 40], np.float32)},
         r"Input B must have shape \{1,8\*6\}. Actual:\{1,40\}"),
        ({"p": np.zeros([1, 20], np.float32)},
         r"Input P must have shape \{1,18\}. Actual:\{1,20\}"),
        ({"r": np.zeros([1, 24, 7], np.float32)},
         r"Input R must have shape \{1,24,6\}. Actual:\{1,24,7\}"),
    ],
)  # fmt: skip
def test_what_onnx_runtime_refuses_is_an_error_in_its_words(change, message):
    layer = Layer("LSTM", given=["b", "lens", "h", "c", "p"], weights_are_inputs=True)
    # Sizes that the model does not declare.
    for value in layer.model.graph.input:
        value.type.tensor_type.ClearField("shape")
    feeds = layer.feeds(7, 3) | change
    # Before 1.31 it looked at fewer sizes.
    sessions = [layer.session(), *([layer.plain()] if harness.HOST >= (1, 31) else [])]
    for session in sessions:
        with pytest.raises(Exception, match=message):
            session.run(None, feeds)
    right = layer.feeds(7, 3)
    compare(layer.session().run(None, right), layer.plain().run(None, right))


@pytest.mark.parametrize(
    "attributes, reason",
    [
        ({"activations": ["Sigmoid", "Tanh", "Cosine"]}, 'its activation is "Cosine", expected Affine, Elu'),
        ({"activations": ["Tanh"]}, "it has 1 activations, expected 3"),
        ({"clip": -1.0}, "its clip is -1, expected more than 0"),
        ({"layout": 2}, "its layout is 2, expected 0 or 1"),
    ],
)
def test_forms_that_are_not_taken_are_left_with_a_line_in_the_log(attributes, reason, capfd):
    layer = Layer("LSTM", **attributes)
    options = harness.options(provider_options=ON)
    options.log_severity_level = 1
    try:
        session = harness.session(layer.model, options)
        assert list(harness.assigned(session)) == [harness.CPU]
    except Exception as error:
        # ONNX Runtime's kernel may refuse it.
        assert harness.EP not in str(error)
    log = capfd.readouterr().err
    assert f'LSTM node "the_node" is left to other execution providers: {reason}' in log


@pytest.mark.parametrize("prepacking", ["0", "1"])
def test_weights_are_packed_with_and_without_prepacking(prepacking):
    layer = Layer("LSTM", "bidirectional", given=["b", "p"])
    session = layer.session(session__disable_prepacking=prepacking)
    feeds = layer.feeds(5, 2)
    expected = layer.plain().run(None, feeds)
    for _ in range(2):
        compare(session.run(None, feeds), expected)


#: The graphs around a layer: in a branch, and in a body.
AROUND = {
    "If": """(bool is_set) => (float[] last) {
        last = If (is_set) <then_branch: graph = body () => (float[] y_h) {},
        else_branch: graph = otherwise () => (float[] other) { other = Identity (zero) }> }""",
    "Loop": """(bool is_set) => (float[] last) {
        last = Loop (three, is_set, zero) <body: graph = body (int64 i, bool on, float[] before)
            => (bool goes_on, float[] after) { goes_on = Identity (on)  after = Add (before, y_h) }> }""",
}


def nested(layer, operator):
    """The layer in the body of a Loop or in a branch of an If, with weights of the outer graph."""
    model = harness.parsed(AROUND[operator], zero=np.zeros(1, np.float32), three=np.array(3))
    inner = layer.model.graph
    body = next(it.g for it in model.graph.node[0].attribute if it.g.name == "body")
    body.node.insert(0, inner.node[0])
    model.graph.input.append(inner.input[0])
    model.graph.initializer.extend(inner.initializer)
    return model


@pytest.mark.parametrize("operator", ["Loop", "If"])
@pytest.mark.parametrize("kind", GATES)
def test_layers_in_bodies(operator, kind):
    model = nested(Layer(kind, outputs=["", "y_h"]), operator)
    session = harness.session(model, provider_options=ON)
    # The nodes of bodies are not listed; the profile has them.
    feeds = {"x": Layer(kind).feeds(5, 2)["x"], "is_set": np.array(True)}
    expected = harness.session(model, harness.options(ep=False)).run(None, feeds)
    compare(session.run(None, feeds), expected)


def test_reversals_and_layers_run_without_the_cpu_provider():
    layer = Layer("GRU", given=["b", "lens"])
    (node,) = layer.model.graph.node
    (reversal,) = harness.nodes("reversed = ReverseSequence <batch_axis = 1, time_axis = 0> (x, long)")
    node.input[0] = "reversed"
    layer.model.graph.node.insert(0, reversal)
    layer.model.graph.input.append(helper.make_tensor_value_info("long", TensorProto.INT64, ["n"]))
    session = layer.session()
    feeds = layer.feeds(6, 3)
    feeds["long"] = feeds["lens"].astype(np.int64)
    compare(session.run(None, feeds), layer.plain().run(None, feeds))


def test_runs_at_the_same_time():
    layer = Layer("LSTM", "bidirectional", units=40)
    session = layer.session()
    feeds = [layer.feeds(20 + index, 1 + index, seed=index) for index in range(4)]
    expected = [session.run(None, it) for it in feeds]
    wrong = []

    def work(index):
        for _ in range(50):
            found = session.run(None, feeds[index])
            if list(map(harness.bits, found)) != list(map(harness.bits, expected[index])):
                wrong.append(index)

    threads = [threading.Thread(target=work, args=[index]) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_no_memory_grows_from_run_to_run():
    layer = Layer("GRU", "bidirectional", units=40, given=["b", "lens"])
    session = layer.session()
    feeds = layer.feeds(20, 4)
    for _ in range(50):
        session.run(None, feeds)
    growths = []
    for _ in range(3):
        before, _ = harness.held()
        for _ in range(300):
            session.run(None, feeds)
        growths.append(harness.held()[0] - before)
    # A run that another process holds up asks once and for all whether its caller ends it.
    assert min(growths) < 10_000


def test_the_saved_model_has_the_layer(tmp_path):
    layer = Layer("GRU")
    saved = str(tmp_path / "saved.onnx")
    options = harness.options(provider_options=ON, **ALONE)
    options.optimized_model_filepath = saved
    harness.session(layer.model, options)
    assert [node.op_type for node in onnx.load(saved).graph.node] == ["GRU"]
    feeds = layer.feeds(5, 2)
    again = harness.session(saved, harness.options(provider_options=ON, **ALONE))
    compare(again.run(None, feeds), layer.plain().run(None, feeds))


def test_misaligned_memory():
    """numpy may hold numbers at any address, and ONNX Runtime passes it on."""
    layer = Layer("LSTM", given=["b"], outputs=["y"])
    session, feeds = layer.session(), layer.feeds(3, 2)

    def misaligned(count):
        return np.zeros(4 * count + 1, np.uint8)[1:].view(np.float32)

    x, y = misaligned(3 * 2 * FEATURES), misaligned(3 * 2 * layer.units)
    x = x.reshape(3, 2, FEATURES)
    x[:] = feeds["x"]
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_numpy(x))
    y = y.reshape(3, 1, 2, layer.units)
    binding.bind_ortvalue_output("y", ort.OrtValue.ortvalue_from_numpy(y))
    session.run_with_iobinding(binding)
    compare([y], layer.plain().run(None, feeds))


def renamed(model, names):
    """The model with other bytes as names, which no text has."""
    data = model.SerializeToString()
    for old, new in names.items():
        assert len(old) == len(new) and data.count(old) >= 1
        data = data.replace(old, new)
    return data


@pytest.mark.parametrize("provider_options", [ON, {"loops": "layers"}])
def test_names_of_any_bytes(provider_options):
    """Layers whose names differ, though not as text, are not taken for each other."""
    nodes, results, constants = [], [], []
    forms = [("forward", b"\xff"), ("reverse", b"\xfe"), ("bidirectional", b"\xfd")]
    names = {}
    for index, (direction, byte) in enumerate(forms):
        layer = Layer("GRU", direction, outputs=["y"])
        (node,) = layer.model.graph.node
        inner = f"inner{index}zz"
        names[inner.encode()] = b"inner" + byte + b"zz"
        node.name, node.output[0] = inner, inner
        node.input[1:4] = [f"{name}{index}" for name in "wrb"]
        for constant in layer.model.graph.initializer:
            constant.name += str(index)
            constants.append(constant)
        nodes += [node, helper.make_node("Neg", [inner], [f"out{index}"])]
        results.append(helper.make_tensor_value_info(f"out{index}", TensorProto.FLOAT, None))
    x = layer.model.graph.input[0]
    graph = helper.make_graph(nodes, "layers", [x], results, constants)
    model = renamed(harness.model(graph), names)
    made = ort.InferenceSession(model, harness.options(provider_options=provider_options))
    assert harness.assigned(made)[harness.EP] == ["GRU"] * len(forms)
    feeds = layer.feeds(4, 2)
    expected = ort.InferenceSession(model, harness.options(ep=False)).run(None, feeds)
    compare(made.run(None, feeds), expected)


@pytest.mark.parametrize("mode", ["ORT_SEQUENTIAL", "ORT_PARALLEL"])
@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_ALL"])
def test_outputs_that_nothing_reads_are_not_made(mode, level):
    """ONNX Runtime plans memory for them, which later values of their size use again."""
    layer = Layer("LSTM", units=FEATURES)
    graph = layer.model.graph
    x = graph.input[0].type.tensor_type.shape.dim
    x[0].dim_value, x[1].dim_value = 7, 3
    del graph.output[2], graph.output[0]
    graph.node.extend(harness.nodes("""steps = Unsqueeze (x, axis)  sum = Add (steps, y_h)
        sine = Sin (sum)  product = Mul (sine, sum)"""))
    graph.initializer.append(numpy_helper.from_array(np.array([1]), "axis"))
    graph.output.append(helper.make_tensor_value_info("product", TensorProto.FLOAT, None))
    options = harness.options(provider_options=ON)
    options.execution_mode = getattr(ort.ExecutionMode, mode)
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    session, feeds = harness.session(layer.model, options), layer.feeds(7, 3)
    assert "LSTM" in harness.assigned(session)[harness.EP]
    for _ in range(3):
        compare(session.run(None, feeds), layer.plain().run(None, feeds))


def test_an_output_that_a_branch_reads_is_made():
    layer = Layer("GRU")
    graph = layer.model.graph
    graph.node.extend(harness.nodes("""z = If (which) <
        then_branch: graph = then () => (float[] negated) { negated = Neg (y) },
        else_branch: graph = other () => (float[] size) { size = Abs (y) }>"""))
    graph.input.append(helper.make_tensor_value_info("which", TensorProto.BOOL, []))
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, None))
    session = harness.session(layer.model, provider_options=ON)
    assert "GRU" in harness.assigned(session)[harness.EP]
    for which in (True, False):
        feeds = layer.feeds(7, 3) | {"which": np.array(which)}
        compare(session.run(None, feeds), layer.plain().run(None, feeds))
