"""The operators of linear attention on the provider: the option ``layers``."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import harness

ON = {"layers": "on"}
MICROSOFT = "com.microsoft"
RULES = ["linear", "gated", "delta", "gated_delta"]


@pytest.fixture(autouse=True)
def opset_27(monkeypatch):
    """ONNX Runtime 1.31 and 1.32 take opset 27 only if they are told to."""
    monkeypatch.setenv("ALLOW_RELEASED_ONNX_OPSET_ONLY", "0")


def model(operator, feeds, types, domain="", **attributes) -> onnx.ModelProto:
    """One node; `feeds` has None where an input is left out."""
    node = helper.make_node(
        operator,
        [name if value is not None else "" for name, value in feeds.items()],
        ["y", "state", "update"][: len(types)],
        domain=domain,
        **attributes,
    )
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in feeds.items()
        if value is not None
    ]
    outputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), None)
        for name, dtype in zip(node.output, types, strict=True)
    ]
    opsets = [helper.make_opsetid("", 24 if domain else 27), helper.make_opsetid(MICROSOFT, 1)]
    graph = helper.make_graph([node], "attention", inputs, outputs)
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def given(feeds):
    return {name: value for name, value in feeds.items() if value is not None}


def on_ep(made, feeds, threads=2):
    """Runs a model on the provider, which has to take its node."""
    session = harness.session(made, provider_options=ON, threads=threads)
    assert harness.assigned(session) == {harness.EP: [made.graph.node[0].op_type]}
    return session.run(None, given(feeds))


def close(actual, expected, tolerance):
    for one, other in zip(actual, expected, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        np.testing.assert_allclose(
            one.astype(np.float64), other.astype(np.float64), rtol=tolerance, atol=tolerance
        )


def attention(
    rule, batch=2, steps=9, queries=2, states=2, key=8, value=5, by_key=False, shared=False,
    past=True, window=0, dtype=np.float32, state=None,
):  # fmt: skip
    """The inputs of a LinearAttention."""
    rng = np.random.default_rng(steps * key)
    normal = lambda *shape: rng.normal(size=shape).astype(dtype)
    keys = rng.normal(size=(batch, steps, states, key))
    keys /= np.linalg.norm(keys, axis=-1, keepdims=True)
    of_state = ([window] if window else []) + [batch, states, key, value]
    decays = states * (key if by_key else 1)
    decays = -np.abs(normal(batch, steps, decays)) if rule.startswith("gated") else None
    betas = 1 if shared else states
    betas = np.abs(normal(batch, steps, betas)) / 2 if rule.endswith("delta") else None
    feeds = {
        "query": normal(batch, steps, queries * key),
        "key": keys.reshape(batch, steps, states * key).astype(dtype),
        "value": normal(batch, steps, states * value),
        "past_state": normal(*of_state).astype(state or dtype) if past else None,
        "decay": decays,
        "beta": betas,
    }
    while feeds[list(feeds)[-1]] is None:
        feeds.popitem()
    return feeds


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("form", [
    {},
    {"past": False},
    {"queries": 6},
    {"queries": 3, "states": 1},
    {"by_key": True, "shared": True},
    {"steps": 1, "key": 16, "value": 64},
    {"steps": 0},
    {"batch": 0},
    {"value": 100, "key": 33},
], ids=str)  # fmt: skip
def test_linear_attention_is_that_of_onnx(rule, form):
    feeds = attention(rule, **form)
    heads = {"q_num_heads": form.get("queries", 2), "kv_num_heads": form.get("states", 2)}
    made = model("LinearAttention", feeds, [np.float32] * 2, update_rule=rule, **heads)
    close(on_ep(made, feeds), ReferenceEvaluator(made).run(None, given(feeds)), 1e-5)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("form", [
    {},
    {"queries": 1},
    {"steps": 70, "by_key": True},
], ids=str)  # fmt: skip
def test_linear_attention_is_that_of_onnx_runtime(rule, form):
    feeds = attention(rule, **form)
    heads = {"q_num_heads": form.get("queries", 2), "kv_num_heads": 2}
    made = model(
        "LinearAttention", feeds, [np.float32] * 2, MICROSOFT, update_rule=rule, scale=0.3, **heads
    )
    expected = harness.cpu_session(made).run(None, given(feeds))
    close(on_ep(made, feeds), expected, 1e-5)


def windows(expected, feeds, axis):
    """The outputs with a window: the states after the last steps, which `expected` gives for less steps."""
    window, steps = len(feeds["past_state"]), list(feeds.values())[0].shape[axis]
    feeds = feeds | {"past_state": feeds["past_state"][-1]}
    y, last = expected(feeds, steps)
    before = [
        expected(feeds, steps - slot)[1] if slot < steps else np.zeros_like(last)
        for slot in range(window - 1, 0, -1)
    ]
    return [y, np.stack([*before, last])]


# ONNX Runtime computes them on CUDA alone.
@pytest.mark.parametrize("window, steps", [(3, 9), (8, 4), (1, 2)])
def test_a_window_has_the_states_after_the_last_tokens(window, steps):
    feeds = attention("gated_delta", window=window, steps=steps)
    heads = {"q_num_heads": 2, "kv_num_heads": 2}
    made = model(
        "LinearAttention", feeds, [np.float32] * 2, MICROSOFT, state_window=window, **heads
    )

    def expected(feeds, steps):
        feeds = {
            name: value if name == "past_state" else value[:, :steps]
            for name, value in feeds.items()
        }
        onnx_s = model("LinearAttention", feeds, [np.float32] * 2, **heads)
        return ReferenceEvaluator(onnx_s).run(None, feeds)

    close(on_ep(made, feeds), windows(expected, feeds, 1), 1e-5)


@pytest.mark.parametrize("state", [np.float16, np.float32])
def test_half_floats_are_computed_in_floats(state):
    feeds = attention("gated_delta", dtype=np.float16, state=state)
    heads = {"q_num_heads": 2, "kv_num_heads": 2}
    made = model("LinearAttention", feeds, [np.float16, state], **heads)
    floats = {name: value.astype(np.float32) for name, value in feeds.items()}
    expected = model("LinearAttention", floats, [np.float32] * 2, **heads)
    y, present = ReferenceEvaluator(expected).run(None, floats)
    close(on_ep(made, feeds), [y.astype(np.float16), present.astype(state)], 2e-3)


def test_a_state_may_be_replaced_in_place():
    """Streaming models bind one buffer as the state before and after a step."""
    feeds = attention("gated_delta", steps=1)
    made = model("LinearAttention", feeds, [np.float32] * 2, q_num_heads=2, kv_num_heads=2)
    y, expected = ReferenceEvaluator(made).run(None, feeds)
    session = harness.session(made, provider_options=ON)
    state = ort.OrtValue.ortvalue_from_numpy(feeds["past_state"])
    binding = session.io_binding()
    for name, value in feeds.items():
        if name != "past_state":
            binding.bind_cpu_input(name, value)
    binding.bind_ortvalue_input("past_state", state)
    binding.bind_ortvalue_output("state", state)
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    close([binding.copy_outputs_to_cpu()[1], state.numpy()], [y, expected], 1e-5)


def convolution(steps=9, channels=6, taps=4, last=False, past=True, dilation=1, window=0):
    """The inputs of a CausalConvWithState."""
    rng = np.random.default_rng(steps)
    normal = lambda *shape: rng.normal(size=shape).astype(np.float32)
    sizes = lambda steps: [2, steps, channels] if last else [2, channels, steps]
    state = ([window] if window else []) + sizes((taps - 1) * dilation)
    return {
        "input": normal(*sizes(steps)),
        "weight": normal(channels, 1, taps),
        "bias": normal(channels),
        "past_state": normal(*state) if past else None,
    }


@pytest.mark.parametrize("activation", ["none", "silu"])
@pytest.mark.parametrize("form", [
    {}, {"steps": 1}, {"steps": 300, "channels": 40}, {"past": False}, {"steps": 2},
], ids=str)  # fmt: skip
def test_a_convolution_is_that_of_onnx(activation, form):
    feeds = convolution(**form)
    made = model("CausalConvWithState", feeds, [np.float32] * 2, activation=activation)
    close(on_ep(made, feeds), ReferenceEvaluator(made).run(None, given(feeds)), 1e-5)


@pytest.mark.parametrize("form", [
    {"last": True},
    {"last": True, "steps": 1},
    {"dilation": 3},
    {"dilation": 2, "last": True},
], ids=str)  # fmt: skip
def test_a_convolution_is_that_of_onnx_runtime(form):
    feeds = convolution(**form)
    made = model(
        "CausalConvWithState", feeds, [np.float32] * 2, MICROSOFT,
        activation="swish", channels_last=int(form.get("last", False)),
        dilation=form.get("dilation", 1),
    )  # fmt: skip
    expected = harness.cpu_session(made).run(None, given(feeds))
    close(on_ep(made, feeds), expected, 1e-5)


@pytest.mark.parametrize("window, steps", [(3, 9), (8, 4), (1, 2)])
def test_a_window_has_the_elements_before_the_last_steps(window, steps):
    feeds = convolution(steps=steps, window=window)
    made = model(
        "CausalConvWithState", feeds, [np.float32] * 2, MICROSOFT, state_window=window
    )

    def expected(feeds, steps):
        feeds = feeds | {"input": feeds["input"][:, :, :steps]}
        onnx_s = model("CausalConvWithState", feeds, [np.float32] * 2)
        return ReferenceEvaluator(onnx_s).run(None, feeds)

    close(on_ep(made, feeds), windows(expected, feeds, 2), 1e-5)


def test_a_gate_is_that_of_onnx_runtime():
    rng = np.random.default_rng(0)
    normal = lambda *shape: rng.normal(size=shape).astype(np.float32)
    feeds = {"a": normal(2, 7, 3) * 9, "dt_bias": normal(3), "decay_scale": normal(3)}
    feeds["b"] = normal(2, 7, 3)
    made = model("LinearAttentionGate", feeds, [np.float32] * 2, MICROSOFT)
    close(on_ep(made, feeds), harness.cpu_session(made).run(None, feeds), 1e-5)


def delta_net(
    rule, lengths=(3, 0, 5), even=None, heads=2, group=2, key=6, value=5, by_key=False, packed=False,
    past=True, gate=None, bias=None, count=None, active=None, dtype=np.float32, rates=np.float32,
):  # fmt: skip
    """The inputs of a GatedDeltaNet; `even` has the axes of the tokens of sequences of one length."""
    rng = np.random.default_rng(key + value)
    normal = lambda *shape: rng.normal(size=shape).astype(np.float32)
    tokens, batch = even or [sum(lengths)], (even or [len(lengths)])[0]
    if packed or len(tokens) == 1 and even:
        past, batch = True, 2 if even else batch
    states = heads * group
    keys = normal(*tokens, heads, key)
    keys /= np.linalg.norm(keys, axis=-1, keepdims=True)
    parts = [normal(*tokens, heads, key), keys, normal(*tokens, states, value)]
    decays = [states, key] if by_key else [states]
    decay = -np.abs(normal(*tokens, *decays)) if rule.startswith("gated") else None
    beta = np.abs(normal(*tokens, states)) / 2 if rule.endswith("delta") else None
    if packed:
        flat = [part.reshape(*tokens, -1) for part in parts]
        parts = [np.concatenate(flat, axis=-1), None, None]
    as_numbers = lambda value, dtype: None if value is None else value.astype(dtype)
    counts = np.array([2, 1, 9][:batch], np.int32)
    feeds = {
        **dict(zip(["query", "key", "value"], [as_numbers(part, dtype) for part in parts])),
        "cu_seqlens": None if even else np.cumsum([0, *lengths]).astype(np.int32),
        "decay": as_numbers(decay, rates),
        "beta": as_numbers(beta, rates),
        "initial_state": normal(batch, states, value, key) if past else None,
        "a_log": normal(states) if gate else None,
        "dt_bias": normal(*(bias or [states])) if gate else None,
        "capture_count": counts if count else None,
        "state_update_active": None if active is None else np.array([active], np.int32),
    }
    while feeds[list(feeds)[-1]] is None:
        feeds.popitem()
    return feeds


# ONNX Runtime has its kernels from 1.32 on.
packed_kernels = pytest.mark.skipif(
    harness.HOST < (1, 32), reason="this ONNX Runtime has no kernels of packed sequences"
)


@packed_kernels
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("form, attributes", [
    ({}, {}),
    ({"past": False}, {"scale": 0.3}),
    ({"packed": True}, {}),
    ({"packed": True, "even": [2, 3]}, {}),
    ({"even": [2, 4], "past": False}, {}),
    ({"even": [8]}, {}),
    ({"even": [2, 1], "key": 32, "value": 100}, {}),
    ({"lengths": [1, 70], "group": 1, "key": 64, "value": 64}, {}),
    ({"by_key": True}, {}),
    ({}, {"qk_l2_norm": 1, "beta_activation": "sigmoid"}),
    ({"gate": True}, {"gate_activation": "softplus"}),
    ({"gate": True}, {"gate_activation": "qwen"}),
    ({"gate": True, "by_key": True}, {"gate_activation": "softplus"}),
    ({"gate": True, "by_key": True, "bias": [4, 6]}, {"gate_activation": "softplus"}),
    ({"gate": True, "by_key": True, "bias": [24]}, {"gate_activation": "sigmoid"}),
    ({"gate": True}, {"gate_activation": "kda", "gate_lower_bound": -2.0}),
    ({"count": True}, {"state_update_capacity": 4}),
    ({"count": True, "by_key": True, "active": 1}, {"state_update_capacity": 2, "qk_l2_norm": 1}),
    ({"count": True, "active": 0}, {"state_update_capacity": 3}),
], ids=str)  # fmt: skip
def test_a_gated_delta_net_is_that_of_onnx_runtime(rule, form, attributes):
    if form.get("by_key") and not rule.startswith("gated"):
        form = {name: value for name, value in form.items() if name not in ("by_key", "bias")}
    feeds = delta_net(rule, **form)
    types = [np.float32] * (3 if form.get("count") else 2)
    made = model("GatedDeltaNet", feeds, types, MICROSOFT, update_rule=rule, **attributes)
    expected = harness.cpu_session(made).run(None, given(feeds))
    close(on_ep(made, feeds), expected, 1e-5)


@packed_kernels
@pytest.mark.parametrize("rates", [np.float16, np.float32])
def test_a_gated_delta_net_of_half_floats_has_a_state_of_floats(rates):
    feeds = delta_net("gated_delta", count=True, dtype=np.float16, rates=rates)
    types = [np.float16, np.float32, np.float32]
    made = model("GatedDeltaNet", feeds, types, MICROSOFT, state_update_capacity=3)
    expected = harness.cpu_session(made).run(None, feeds)
    actual = on_ep(made, feeds)
    close(actual[:1], expected[:1], 2e-3)
    close(actual[1:], expected[1:], 1e-5)


@packed_kernels
def test_offsets_that_do_not_fit_are_an_error_with_the_token():
    feeds = delta_net("gated_delta")
    made = model("GatedDeltaNet", feeds, [np.float32] * 2, MICROSOFT)
    feeds["cu_seqlens"][2] = 9
    session = harness.session(made, provider_options=ON)
    with pytest.raises(Exception, match="cu_seqlens is 9 at index 2, expected 3 to 8"):
        session.run(None, feeds)


@packed_kernels
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("form, attributes", [
    ({}, {}),
    ({}, {"activation": "silu"}),
    ({"bias": False}, {"activation": "swish", "dilation": 2}),
    ({"lengths": [1, 1, 1, 1]}, {}),
    ({"lengths": [300, 1], "channels": 70}, {"activation": "silu"}),
    ({"taps": 1}, {}),
    ({"count": True}, {"state_update_capacity": 3}),
    ({"count": True}, {"state_update_capacity": 8, "dilation": 3}),
], ids=str)  # fmt: skip
def test_a_packed_convolution_is_that_of_onnx_runtime(form, attributes, dtype):
    lengths, channels = form.get("lengths", [3, 0, 6]), form.get("channels", 6)
    taps = form.get("taps", 4)
    rng = np.random.default_rng(channels)
    normal = lambda *shape: rng.normal(size=shape).astype(dtype)
    state = (taps - 1) * attributes.get("dilation", 1)
    counts = np.array([2, 1, 9], np.int32)
    feeds = {
        "input": normal(sum(lengths), channels),
        "weight": normal(channels, 1, taps),
        "cumulative_sequence_length": np.cumsum([0, *lengths]).astype(np.int32),
        "bias": normal(channels) if form.get("bias", True) else None,
        "initial_state": normal(len(lengths), channels, state),
        **({"capture_count": counts} if form.get("count") else {}),
    }
    types = [dtype] * (3 if form.get("count") else 2)
    made = model("VarlenCausalConvWithState", feeds, types, MICROSOFT, **attributes)
    expected = harness.cpu_session(made).run(None, given(feeds))
    close(on_ep(made, feeds), expected, 1e-5 if dtype == np.float32 else 5e-3)


def test_what_is_not_computed_is_left():
    """ONNX Runtime has the kernels of windows of two axes on CUDA alone."""
    rng = np.random.default_rng(0)
    normal = lambda *shape: rng.normal(size=shape).astype(np.float32)
    feeds = {"input": normal(1, 4, 6, 7), "weight": normal(4, 1, 2, 3)}
    made = model("CausalConvWithState", feeds, [np.float32] * 2, MICROSOFT, ndim=2)
    with pytest.raises(Exception, match="CPU CausalConvWithState only supports ndim=1"):
        harness.session(made, provider_options=ON)


def test_without_the_option_nothing_is_taken():
    feeds = convolution()
    made = model("CausalConvWithState", feeds, [np.float32] * 2, MICROSOFT)
    session = harness.session(made)
    assert harness.assigned(session) == {harness.CPU: ["CausalConvWithState"]}
    y = session.run(None, feeds)
    close(on_ep(made, feeds), y, 1e-5)


def test_sizes_that_do_not_fit_are_an_error_with_the_sizes():
    feeds = attention("gated_delta")
    made = model("LinearAttention", feeds, [np.float32] * 2, q_num_heads=2, kv_num_heads=2)
    for value in made.graph.input:
        for axis, size in enumerate(value.type.tensor_type.shape.dim):
            size.dim_param = f"{value.name}{axis}"
    session = harness.session(made, provider_options=ON)
    feeds["decay"] = feeds["decay"][:, :-1]
    with pytest.raises(Exception, match=r"decay has shape \[2, 8, 2\], expected \[2, 9, 2\]"):
        session.run(None, feeds)
