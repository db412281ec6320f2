"""The EP reverses in place if there is no other reader of the data, and only then."""

import re

import numpy as np
import pytest
from onnx import TensorProto, helper

import harness

SHAPE = [5, 3, 2]
LENS = np.array([5, 0, 3], np.int64)
X = np.arange(30, dtype=np.float32).reshape(SHAPE)
RIGHT = harness.expected(X, LENS, 0, 1)


def build(nodes, outputs):
    graph = helper.make_graph(
        nodes,
        "graph",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE),
            helper.make_tensor_value_info("lens", TensorProto.INT64, [3]),
        ],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in outputs],
    )
    return harness.model(graph)


def reverse(input, output, name="the_node"):
    return helper.make_node(
        "ReverseSequence", [input, "lens"], [output], name=name, batch_axis=1, time_axis=0
    )


def neg(input, output):
    return helper.make_node("Neg", [input], [output])


def run(model, capfd):
    """A run's outputs, and for each of the EP's nodes whether it ran in place."""
    options = harness.options()
    options.log_severity_level = 0
    session = harness.session(model, options)
    capfd.readouterr()
    results = session.run(None, {"x": X, "lens": LENS})
    lines = re.findall(r'node "(\w*)" ran (in place|out of place): 120 bytes', capfd.readouterr().err)
    return results, {name: how == "in place" for name, how in lines}


def test_between_nodes_that_need_nothing_else(capfd):
    model = build([neg("x", "a"), reverse("a", "b"), neg("b", "y")], ["y"])
    (y,), in_place = run(model, capfd)
    assert harness.bits(y) == harness.bits(RIGHT)
    assert in_place == {"the_node": True}


def test_a_second_reader_still_sees_the_data(capfd):
    nodes = [neg("x", "a"), reverse("a", "b"), neg("b", "y"), neg("a", "z")]
    (y, z), in_place = run(build(nodes, ["y", "z"]), capfd)
    assert harness.bits(y) == harness.bits(RIGHT)
    assert harness.bits(z) == harness.bits(X)
    # Whoever of the two readers comes last may have the buffer.
    assert list(in_place) == ["the_node"]


def test_a_reader_that_comes_later_keeps_the_data(capfd):
    """The sum needs both, so the data has to outlive the reversal."""
    nodes = [
        neg("x", "a"),
        reverse("a", "b"),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    (y,), in_place = run(build(nodes, ["y"]), capfd)
    assert harness.bits(y) == harness.bits(-X - RIGHT)
    assert in_place == {"the_node": False}


def test_an_input_of_the_graph_is_left_alone(capfd):
    before = X.copy()
    (y,), in_place = run(build([reverse("x", "b"), neg("b", "y")], ["y"]), capfd)
    assert harness.bits(y) == harness.bits(-RIGHT)
    assert harness.bits(X) == harness.bits(before)
    assert in_place == {"the_node": False}


def test_an_output_of_the_graph_is_left_alone(capfd):
    (a, y), in_place = run(build([neg("x", "a"), reverse("a", "y")], ["a", "y"]), capfd)
    assert harness.bits(a) == harness.bits(-X)
    assert harness.bits(y) == harness.bits(-RIGHT)
    assert in_place == {"the_node": False}


def test_a_chain_stays_in_one_buffer(capfd):
    nodes = [neg("x", "a"), reverse("a", "b", "one"), reverse("b", "c", "two"), neg("c", "y")]
    (y,), in_place = run(build(nodes, ["y"]), capfd)
    assert harness.bits(y) == harness.bits(X)
    assert in_place == {"one": True, "two": True}


@pytest.mark.parametrize("ep", [True, False])
def test_subsequences(capfd, ep):
    """By the EP, and by the custom op on the CPU EP."""
    nodes = [
        neg("x", "a"),
        helper.make_node(
            "ReverseSubsequences", ["a", "ones"], ["b"], name="the_node", domain="revseq", axis=0
        ),
        neg("b", "y"),
    ]
    model = build(nodes, ["y"])
    ones = np.array([[[1, 2], [3, 4], [5, 6]]], np.uint32)
    model.graph.initializer.append(helper.make_tensor("ones", TensorProto.UINT32, [1, 3, 2], ones))
    # An input that the graph does not read cannot be fed.
    del model.graph.input[1]
    options = harness.options(ep=ep)
    if not ep:
        options.register_custom_ops_library(harness.library())
    options.log_severity_level = 0
    session = harness.session(model, options)
    capfd.readouterr()
    (y,) = session.run(None, {"x": X})
    assert harness.bits(y) == harness.bits(harness.expected(X, ones, 0))
    assert 'node "the_node" ran in place: 120 bytes' in capfd.readouterr().err
