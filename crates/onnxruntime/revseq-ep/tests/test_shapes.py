"""Types, ranks, axes, empty and unknown sizes, and where lengths come from."""

import itertools

import numpy as np
import pytest
from onnx import helper

import harness

TYPES = [
    np.float32, np.float64, np.float16, np.bool_,
    np.int8, np.int16, np.int32, np.int64,
    np.uint8, np.uint16, np.uint32, np.uint64,
]  # fmt: skip
LENGTHS_TYPES = [np.uint32, np.uint64, np.int32, np.int64]


def code(dtype):
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def values(rng, shape, dtype):
    """Any bits, so also NaNs of any payload; but booleans are 0 or 1."""
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(dtype)
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.frombuffer(rng.bytes(count), dtype).reshape(shape)


def check(session, x, lens, time_axis, batch_axis=None):
    (y,) = session.run(None, {"x": x, "lens": lens})
    assert harness.bits(y) == harness.bits(harness.expected(x, lens, time_axis, batch_axis))


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("axes", [(0, 1), (1, 0), (2, 1), (0, 2), (-1, -3)])
def test_types_and_axes(dtype, axes):
    batch_axis, time_axis = axes
    shape = [4, 5, 3]
    model = harness.reverse_sequence(
        shape, code(dtype), batch_axis=batch_axis, time_axis=time_axis
    )
    session = harness.session(model, session__disable_cpu_ep_fallback="1")
    harness.assert_on_ep(session, 1)
    rng = np.random.default_rng(7)
    for _ in range(4):
        lens = rng.integers(0, shape[time_axis] + 1, shape[batch_axis])
        check(session, values(rng, shape, dtype), lens, time_axis, batch_axis)


@pytest.mark.parametrize("rank", range(2, 7))
def test_every_pair_of_axes(rank):
    shape = [2, 3, 2, 4, 2, 3][:rank]
    rng = np.random.default_rng(rank)
    for batch_axis, time_axis in itertools.permutations(range(rank), 2):
        model = harness.reverse_sequence(shape, batch_axis=batch_axis, time_axis=time_axis)
        session = harness.session(model)
        harness.assert_on_ep(session, 1)
        lens = rng.integers(0, shape[time_axis] + 1, shape[batch_axis])
        check(session, values(rng, shape, np.float32), lens, time_axis, batch_axis)


@pytest.mark.parametrize("lengths", LENGTHS_TYPES, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.__name__)
def test_subsequences(dtype, lengths):
    shape = [3, 4, 2]
    rng = np.random.default_rng(3)
    for axis in (0, 1, 2, -2):
        model = harness.reverse_subsequences(
            shape, axis, code(dtype), lengths_dtype=code(lengths)
        )
        session = harness.session(model, session__disable_cpu_ep_fallback="1")
        harness.assert_on_ep(session, 1)
        lens_shape = list(shape)
        lens_shape[axis] = 1
        # Some are longer than the axis, and clamp.
        lens = rng.integers(0, shape[axis] + 3, lens_shape).astype(lengths)
        check(session, values(rng, shape, dtype), lens, axis)


def test_bfloat16():
    """By `ReverseSubsequences`, between two casts: Python's arrays have no bfloat16."""
    model = harness.parsed("""(float[2,3] x, int32[2,1] lens) => (float[2,3] y) {
        narrow = Cast <to = 16> (x)
        turned = revseq.ReverseSubsequences <axis = 1> (narrow, lens)
        y = Cast <to = 1> (turned) }""")
    session = harness.session(model)
    harness.assert_on_ep(session, 1)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    check(session, x, np.array([[3], [2]], np.int32), 1)


def test_sizes_known_only_at_run_time():
    """Shapes that come and go, each with its own plan, in one session."""
    model = harness.reverse_sequence(
        ["time", "batch", "inner"], lengths_shape=["batch"], batch_axis=1, time_axis=0
    )
    session = harness.session(model)
    harness.assert_on_ep(session, 1)
    rng = np.random.default_rng(1)
    shapes = [(3, 2, 4), (5, 1, 1), (3, 2, 4), (0, 2, 4), (3, 0, 4), (3, 2, 0), (1, 1, 1), (9, 7, 5)]
    for shape in shapes * 2:
        lens = rng.integers(0, shape[0] + 1, shape[1])
        check(session, values(rng, shape, np.float32), lens, 0, 1)


def test_rank_known_only_at_run_time():
    model = harness.parsed("""(float[] x, int64[] lens) => (float[] y) {
        y = ReverseSequence <batch_axis = -1, time_axis = -2> (x, lens) }""")
    session = harness.session(model)
    harness.assert_on_ep(session, 1)
    rng = np.random.default_rng(1)
    for shape in [(3, 2), (4, 3, 2), (2, 2, 3, 2)]:
        lens = rng.integers(0, shape[-2] + 1, shape[-1])
        check(session, values(rng, shape, np.float32), lens, len(shape) - 2, len(shape) - 1)


@pytest.mark.parametrize("shape", [(0, 3, 2), (3, 0, 2), (3, 2, 0), (0, 0, 0)])
def test_empty(shape):
    model = harness.reverse_sequence(list(shape), batch_axis=0, time_axis=1)
    session = harness.session(model)
    harness.assert_on_ep(session, 1)
    check(session, np.zeros(shape, np.float32), np.zeros(shape[0], np.int64), 1, 0)
    for axis in range(3):
        session = harness.session(harness.reverse_subsequences(list(shape), axis))
        harness.assert_on_ep(session, 1)
        lens = [1 if at == axis else size for at, size in enumerate(shape)]
        check(session, np.zeros(shape, np.float32), np.zeros(lens, np.uint32), axis)


def test_large_enough_for_threads():
    """Sizes at which the kernels split their work, for each strategy."""
    rng = np.random.default_rng(5)
    cases = [([64, 16, 300], 1, 0), ([600, 700], 1, 0), ([700, 600], 0, 1), ([9, 40, 1000], 2, 0)]
    for shape, time_axis, batch_axis in cases:
        model = harness.reverse_sequence(shape, batch_axis=batch_axis, time_axis=time_axis)
        session = harness.session(model, harness.options(threads=4))
        harness.assert_on_ep(session, 1)
        x = values(rng, shape, np.float32)
        lens = rng.integers(0, shape[time_axis] + 1, shape[batch_axis])
        (y,) = session.run(None, {"x": x, "lens": lens})
        right = x.copy()
        for batch, length in enumerate(lens):
            part = np.moveaxis(right, (batch_axis, time_axis), (0, 1))[batch]
            part[:length] = part[:length][::-1].copy()
        assert harness.bits(y) == harness.bits(right)


def test_lengths_from_an_initializer():
    lens = [3, 0, 2]
    model = harness.reverse_sequence(
        [4, 3, 2], lengths=np.array(lens, np.int64), batch_axis=1, time_axis=0
    )
    session = harness.session(model)
    harness.assert_on_ep(session, 1)
    x = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
    (y,) = session.run(None, {"x": x})
    assert harness.bits(y) == harness.bits(harness.expected(x, lens, 0, 1))


def test_lengths_computed_in_the_graph():
    text = """(float[t,b] x, float[t,b] mask) => (float[t,b] y) {
        sum = ReduceSum <keepdims = 0, axes = [0]> (mask)
        lens = Cast <to = 7> (sum)
        y = ReverseSequence <batch_axis = 1, time_axis = 0> (x, lens) }"""
    session = harness.session(harness.parsed(text, opset=12))
    harness.assert_on_ep(session, 1)
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    lens = [4, 1, 2]
    mask = (np.arange(4)[:, None] < np.array(lens)).astype(np.float32)
    (y,) = session.run(None, {"x": x, "mask": mask})
    assert harness.bits(y) == harness.bits(harness.expected(x, lens, 0, 1))
