"""Cases from other projects' test suites, and ONNX Runtime's own answer where it has one."""

import json

import numpy as np
import pytest
from onnx import TensorProto, helper

import harness

CASES = json.loads((harness.ROOT / "tests/data/peer_cases.json").read_text())
#: ONNX Runtime has no tensors of complex numbers.
NOT_IN_ONNX_RUNTIME = {"complex64", "complex128"}


def dtypes(case):
    return case.get("dtypes") or [case["dtype"]]


RUNS = [
    pytest.param(case, dtype, id=f"{case['name']}-{dtype}")
    for case in CASES
    for dtype in dtypes(case)
    if dtype not in NOT_IN_ONNX_RUNTIME
]


def tensor_type(dtype):
    if dtype == "string":
        return TensorProto.STRING
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def data(case, dtype):
    shape = case["shape"]
    values = case["input"]
    if isinstance(values, str):
        assert values == "iota"
        values = np.arange(np.prod(shape, dtype=np.int64))
    return np.array(values, object if dtype == "string" else dtype).reshape(shape)


def build(case, dtype):
    """A case's model and its feeds."""
    x = data(case, dtype)
    code = tensor_type(dtype)
    if case.get("op"):
        lens = np.array(case["sequence_lens"], case["lens_dtype"]).reshape(case["lens_shape"])
        model = harness.reverse_subsequences(
            case["shape"],
            case["time_axis"],
            code,
            lengths_dtype=tensor_type(case["lens_dtype"]),
        )
        return model, {"x": x, "lens": lens}
    if "reverse_axes" in case:
        return flip(case, code), {"x": x}
    # The lengths are int64 in ONNX, whatever the source has.
    lens = np.array(case["sequence_lens"], np.int64)
    lens = lens.reshape(case.get("lens_shape", lens.shape))
    attributes = {
        key: case[key] for key in ("batch_axis", "time_axis") if case[key] is not None
    }
    # Shapes that contradict each other must not stop ONNX Runtime before the EP sees them.
    model = harness.reverse_sequence(
        case["shape"], code, lengths_shape=[None] * lens.ndim, **attributes
    )
    return model, {"x": x, "lens": lens}


def flip(case, code):
    """How tf2onnx writes a flip: along each axis, moved to the front and back."""
    shape, text, constants, value = case["shape"], "", {}, "x"
    if len(shape) == 1:
        text, shape, value, constants = "wide = Unsqueeze (x, two)", [*shape, 1], "wide", {"two": [1]}
    for index, axis in enumerate(axis % len(shape) for axis in case["reverse_axes"]):
        order = list(range(len(shape)))
        order[0], order[axis] = order[axis], order[0]
        moved = [shape[dimension] for dimension in order]
        constants[f"lens{index}"] = np.full(moved[1], moved[0])
        text += f"""
            there{index} = Transpose <perm = {order}> ({value})
            flipped{index} = ReverseSequence <batch_axis = 1, time_axis = 0> (there{index}, lens{index})
            back{index} = Transpose <perm = {order}> (flipped{index})"""
        value = f"back{index}"
    last = f"Squeeze ({value}, two)" if len(case["shape"]) == 1 else f"Identity ({value})"
    model = harness.parsed(f"(x) => (y) {{ {text} y = {last} }}", **constants)
    for it in (model.graph.input[0], model.graph.output[0]):
        it.CopyFrom(helper.make_tensor_value_info(it.name, code, case["shape"]))
    return model


def right_answer(case, x):
    values = case["expected"]
    if isinstance(values, str):
        if "flip" in values:
            return np.flip(x, [axis % x.ndim for axis in case["reverse_axes"]])
        assert values == "rule:reference"
        return harness.expected(
            x, case["sequence_lens"], case["time_axis"], case["batch_axis"]
        )
    return np.array(values, x.dtype).reshape(x.shape)


def fails(case):
    return case["expected"] == "error" or "error" in case


@pytest.mark.parametrize("case, dtype", [run for run in RUNS if not fails(run.values[0])])
def test_answer(case, dtype):
    model, feeds = build(case, dtype)
    session = harness.session(model)
    if dtype == "string":
        assert harness.assigned(session) == {harness.CPU: ["ReverseSequence"]}
    else:
        harness.assert_on_ep(session, len(case.get("reverse_axes", [0])))
    (result,) = session.run(None, feeds)
    axes = [case["batch_axis"], case["time_axis"]]
    assert harness.bits(result) == harness.bits(right_answer(case, feeds["x"]))
    cpu_has_it = "ort_error" not in case and "op" not in case and set(axes) <= {0, 1, None}
    if cpu_has_it and harness.CPU_IS_RIGHT:
        (cpu,) = harness.cpu_session(model).run(None, feeds)
        assert harness.bits(result) == harness.bits(cpu)


@pytest.mark.parametrize("case, dtype", [run for run in RUNS if fails(run.values[0])])
def test_error_names_the_node(case, dtype):
    model, feeds = build(case, dtype)
    # ONNX Runtime checks known shapes itself; here they are unknown.
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.ClearField("shape")
    # In the library's words: ONNX Runtime's own name the node as well.
    with pytest.raises(Exception, match='Reverse(Sequence|Subsequences) node "the_node": '):
        harness.session(model).run(None, feeds)


@pytest.mark.parametrize(
    "case, dtype", [run for run in RUNS if "clamp_expected" in run.values[0]]
)
def test_answer_when_lengths_clamp(case, dtype):
    model, feeds = build(case, dtype)
    session = harness.session(model, provider_options={"lengths": "clamp"})
    harness.assert_on_ep(session, 1)
    (result,) = session.run(None, feeds)
    right = np.array(case["clamp_expected"], dtype).reshape(case["shape"])
    assert harness.bits(result) == harness.bits(right)


def test_every_case_is_tested():
    untested = [case["name"] for case in CASES if set(dtypes(case)) <= NOT_IN_ONNX_RUNTIME]
    assert untested == ["testComplex64Basic", "testComplex128Basic"]
    assert len(CASES) == 69
