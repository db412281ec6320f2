"""The EP reverses in place if there is no other reader of the data, and only then."""

import re

import numpy as np
import pytest

import harness

SHAPE = [5, 3, 2]
LENS = np.array([5, 0, 3], np.int64)
X = np.arange(30, dtype=np.float32).reshape(SHAPE)
RIGHT = harness.expected(X, LENS, 0, 1)


def build(*nodes, outputs="y"):
    values = ", ".join(f"float[5,3,2] {name}" for name in outputs)
    return harness.parsed(f"(float[5,3,2] x, int64[3] lens) => ({values}) {{ {' '.join(nodes)} }}")


def reverse(input, output, name="the_node"):
    return f"[{name}] {output} = ReverseSequence <batch_axis = 1, time_axis = 0> ({input}, lens)"


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
    (y,), in_place = run(build("a = Neg (x)", reverse("a", "b"), "y = Neg (b)"), capfd)
    assert harness.bits(y) == harness.bits(RIGHT)
    assert in_place == {"the_node": True}


def test_a_second_reader_still_sees_the_data(capfd):
    nodes = ["a = Neg (x)", reverse("a", "b"), "y = Neg (b)", "z = Neg (a)"]
    (y, z), in_place = run(build(*nodes, outputs="yz"), capfd)
    assert harness.bits(y) == harness.bits(RIGHT)
    assert harness.bits(z) == harness.bits(X)
    # Whoever of the two readers comes last may have the buffer.
    assert list(in_place) == ["the_node"]


def test_a_reader_that_comes_later_keeps_the_data(capfd):
    """The sum needs both, so the data has to outlive the reversal."""
    (y,), in_place = run(build("a = Neg (x)", reverse("a", "b"), "y = Add (a, b)"), capfd)
    assert harness.bits(y) == harness.bits(-X - RIGHT)
    assert in_place == {"the_node": False}


def test_an_input_of_the_graph_is_left_alone(capfd):
    before = X.copy()
    (y,), in_place = run(build(reverse("x", "b"), "y = Neg (b)"), capfd)
    assert harness.bits(y) == harness.bits(-RIGHT)
    assert harness.bits(X) == harness.bits(before)
    assert in_place == {"the_node": False}


def test_an_output_of_the_graph_is_left_alone(capfd):
    (a, y), in_place = run(build("a = Neg (x)", reverse("a", "y"), outputs="ay"), capfd)
    assert harness.bits(a) == harness.bits(-X)
    assert harness.bits(y) == harness.bits(-RIGHT)
    assert in_place == {"the_node": False}


def test_a_chain_stays_in_one_buffer(capfd):
    model = build("a = Neg (x)", reverse("a", "b", "one"), reverse("b", "c", "two"), "y = Neg (c)")
    (y,), in_place = run(model, capfd)
    assert harness.bits(y) == harness.bits(X)
    assert in_place == {"one": True, "two": True}


@pytest.mark.parametrize("ep", [True, False])
def test_subsequences(capfd, ep):
    """By the EP, and by the custom op on the CPU EP."""
    ones = np.array([[[1, 2], [3, 4], [5, 6]]], np.uint32)
    text = """(float[5,3,2] x) => (float[5,3,2] y) {
        a = Neg (x)
        [the_node] b = revseq.ReverseSubsequences <axis = 0> (a, ones)
        y = Neg (b) }"""
    model = harness.parsed(text, ones=ones)
    options = harness.options(ep=ep)
    if not ep:
        options.register_custom_ops_library(harness.library())
    options.log_severity_level = 0
    session = harness.session(model, options)
    capfd.readouterr()
    (y,) = session.run(None, {"x": X})
    assert harness.bits(y) == harness.bits(harness.expected(X, ones, 0))
    assert 'node "the_node" ran in place: 120 bytes' in capfd.readouterr().err
