"""ONNX's own backend tests of the operator, lowered to what ONNX Runtime loads."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.backend.test.case.node import collect_testcases

import harness

CASES = {case.name: case for case in collect_testcases("ReverseSequence")}
#: Opset 28 brings it, so it cannot be lowered; test_models.py has it as it is.
NOT_LOWERED = {"test_reversesequence_bfloat16"}


def test_these_are_all():
    names = {"test_reversesequence_time", "test_reversesequence_batch"}
    assert set(CASES) == names | NOT_LOWERED


@pytest.mark.parametrize("name", sorted(set(CASES) - NOT_LOWERED))
def test_backend(name):
    case = CASES[name]
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    model.ir_version = 8
    del model.opset_import[:]
    model.opset_import.append(helper.make_opsetid("", 10))
    session = harness.session(model, harness.options(session__disable_cpu_ep_fallback="1"))
    harness.assert_on_ep(session, 1)
    names = [value.name for value in session.get_inputs()]
    for inputs, outputs in case.data_sets:
        results = session.run(None, dict(zip(names, inputs, strict=True)))
        for result, right in zip(results, outputs, strict=True):
            assert harness.bits(result) == harness.bits(right)


def test_bfloat16_moves_where_a_schema_takes_it():
    """By `ReverseSubsequences`, between two casts: Python's arrays have no bfloat16."""
    nodes = [
        helper.make_node("Cast", ["x"], ["narrow"], to=TensorProto.BFLOAT16),
        helper.make_node(
            "ReverseSubsequences", ["narrow", "lens"], ["turned"], domain="revseq", axis=1
        ),
        helper.make_node("Cast", ["turned"], ["y"], to=TensorProto.FLOAT),
    ]
    graph = helper.make_graph(
        nodes,
        "bfloat16",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3]),
            helper.make_tensor_value_info("lens", TensorProto.INT32, [2, 1]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
    )
    session = harness.session(harness.model(graph))
    harness.assert_on_ep(session, 1)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    (y,) = session.run(None, {"x": x, "lens": np.array([[3], [2]], np.int32)})
    assert y.tolist() == [[2, 1, 0], [4, 3, 5]]
