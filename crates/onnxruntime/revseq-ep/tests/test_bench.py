"""Which way to run a model is the fastest: onnxruntime_ep_revseq.bench."""

import sys

import numpy as np
import pytest

import harness
from test_loops import EXPORTED

KERAS = EXPORTED / "keras_bilstm_masked/model.onnx"


def test_each_way_has_its_time(package):
    x = np.random.default_rng(0).uniform(-1, 1, [2, 30, 8]).astype(np.float32)
    found = package.bench(str(KERAS), {"x": x}, seconds=0.3)
    plain, *others = found.ways
    assert (plain.name, plain.arguments, plain.ratio, plain.report) == ("onnxruntime", None, 1.0, None)
    assert [way.name for way in others] == [
        "layers=on",
        "loops=layers",
        "loops=steps",
        "rewritten",
        "rewritten, loops=steps",
    ]
    for way in found.ways:
        assert way.reason is None
        assert way.seconds > 0 and way.runs > 0 and way.load_seconds > 0
        assert way.ratio == pytest.approx(way.seconds / plain.seconds)
    assert [len(way.report.taken) for way in others] == [0, 4, 4, 4, 4]
    fastest = min(others, key=lambda way: way.seconds)
    assert found.fastest is fastest
    session = eval(found.code, {"onnxruntime_ep_revseq": package})
    assert len(package.report(session).taken) == 4
    lines = str(found).splitlines()
    assert len(lines) == 8 and lines[-1] == found.code
    assert lines[3].startswith("loops=layers ") and lines[3].endswith(" MiB  4 of 4 loops")


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells a process its peak memory")
def test_each_way_has_its_peak_memory(package):
    """A process of its own tells it; 8 million floats are more than the session needs besides."""
    (few, many) = (
        package.bench(of_any_length(), sizes={"t": size}, seconds=0.05).ways for size in (5, 1 << 22)
    )
    for small, large in zip(few, many):
        assert 10 << 20 < small.peak_bytes < large.peak_bytes - (32 << 20), small.name


def test_a_way_that_fails_has_its_reason(package):
    """ONNX Runtime refuses axes beyond 1, so nothing is a part of its time."""
    model = harness.reverse_sequence([2, 3, 4], lengths_shape=[3], batch_axis=1, time_axis=2)
    found = package.bench(model.SerializeToString(), seconds=0.05)
    plain, *others = found.ways
    assert plain.seconds is None and "Invalid time_axis" in plain.reason
    assert "\n" not in plain.reason and plain.reason in str(found)
    assert {way.ratio for way in others} == {None}
    assert found.fastest.name in ("layers=on", "loops=layers", "loops=steps")
    assert found.code.startswith("onnxruntime_ep_revseq.create_session(model, ")


def test_inputs_are_made_up_of_sizes(package):
    with pytest.raises(ValueError, match=r"input 'x' is tensor\(float\) \['t', 2\]: give inputs={'x': ...}"):
        package.bench(of_any_length(), seconds=0.05)
    with pytest.raises(ValueError, match="there is no input 'z', expected x, lens"):
        package.bench(of_any_length(), {"z": np.zeros(1)}, seconds=0.05)
    found = package.bench(of_any_length(), sizes={"t": 5}, seconds=0.05)
    assert all(way.seconds > 0 for way in found.ways)
    with pytest.raises(FileNotFoundError):
        package.bench("none.onnx")


def of_any_length() -> bytes:
    """A model that reverses sequences whose longest length is open."""
    model = harness.reverse_sequence(["t", 2], lengths_shape=[2], batch_axis=1, time_axis=0)
    return model.SerializeToString()
