"""Runs that their caller ends: ``RunOptions.terminate``."""

import threading
import time

import numpy as np
import onnxruntime as ort
import pytest

import harness
from test_layers import ALONE, GATES, ON, Layer, compare

MESSAGE = "Exiting due to terminate flag being set to true."
MODEL = harness.MODELS / "exported/keras_bilstm_masked"


def ended(session, feeds, after, run_options=None):
    """The seconds that a run took which is ended after some, and its error."""
    run_options = run_options or ort.RunOptions()

    def end():
        time.sleep(after)
        run_options.terminate = True

    ending = threading.Thread(target=end)
    ending.start()
    begun = time.perf_counter()
    try:
        session.run(None, feeds, run_options)
        error = None
    except Exception as raised:
        error = str(raised)
    taken = time.perf_counter() - begun
    ending.join()
    return taken, error


def long_feeds(session, make):
    """Feeds whose run takes half a second or more, and its time."""
    size = 1000
    while True:
        feeds = make(size)
        begun = time.perf_counter()
        session.run(None, feeds)
        taken = time.perf_counter() - begun
        if taken > 0.5:
            return feeds, taken
        size *= 2


def check(session, feeds, whole, run_options=None):
    taken, error = ended(session, feeds, 0.05, run_options)
    assert error is not None and MESSAGE in error, error
    # Another process may hold the processor meanwhile.
    assert taken < 0.05 + 0.5 * whole, (taken, whole)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("operator", GATES)
def test_a_layer_ends_within(operator, threads):
    layer = Layer(operator, "bidirectional", units=48, given=["b", "h"])
    session = layer.session(threads=threads)
    feeds, whole = long_feeds(session, lambda steps: layer.feeds(steps, 2))
    check(session, feeds, whole)
    # The next run has nothing of the one that ended.
    short = layer.feeds(20, 2)
    compare(session.run(None, short), layer.plain().run(None, short))


def test_a_layer_ends_on_threads_of_a_parallel_session():
    layer = Layer("LSTM", units=48)
    options = harness.options(provider_options=ON, threads=1, **ALONE)
    options.execution_mode = ort.ExecutionMode.ORT_PARALLEL
    options.inter_op_num_threads = 2
    session = harness.session(layer.model, options)
    feeds, whole = long_feeds(session, lambda steps: layer.feeds(steps, 2))
    check(session, feeds, whole)


def keras(**kwargs):
    session = harness.session(
        MODEL / "model.onnx", provider_options={"loops": "layers"}, threads=1, **kwargs
    )
    (x,) = session.get_inputs()

    def feeds(steps):
        rng = np.random.default_rng(0)
        return {x.name: rng.normal(size=(3, steps, x.shape[2])).astype(np.float32)}

    assert "Loop" not in harness.assigned(session).get(harness.CPU, [])
    return session, feeds


def test_a_fused_loop_ends_within():
    session, make = keras()
    feeds, whole = long_feeds(session, make)
    check(session, feeds, whole)
    ((inputs, expected),) = list(harness.data_sets(MODEL))[:1]
    compare(session.run(None, dict(zip(make(1), inputs, strict=True))), expected)


def test_only_the_run_that_is_ended_ends():
    session, make = keras()
    feeds, whole = long_feeds(session, make)
    results = {}

    def run():
        results["other"] = session.run(None, feeds)

    expected = session.run(None, feeds)
    other = threading.Thread(target=run)
    other.start()
    taken, error = ended(session, feeds, 0.05)
    other.join()
    assert MESSAGE in error and taken < 0.05 + whole
    assert list(map(harness.bits, results["other"])) == list(map(harness.bits, expected))


def test_a_run_that_is_ended_before_it_begins_computes_nothing():
    session, make = keras()
    feeds, whole = long_feeds(session, make)
    run_options = ort.RunOptions()
    run_options.terminate = True
    begun = time.perf_counter()
    with pytest.raises(Exception, match=MESSAGE):
        session.run(None, feeds, run_options)
    assert time.perf_counter() - begun < 0.5 * whole
    run_options.terminate = False
    session.run(None, feeds, run_options)


def test_options_that_the_inner_session_does_not_know(tmp_path):
    """An adapter has inputs of the session around alone."""
    session, make = keras()
    feeds = make(5)
    (name,) = feeds
    adapter_file = ort.AdapterFormat()
    adapter_file.set_adapter_version(1)
    adapter_file.set_model_version(1)
    adapter_file.set_parameters({name: ort.OrtValue.ortvalue_from_numpy(feeds[name])})
    adapter_file.export_adapter(str(tmp_path / "adapter"))
    adapter = ort.LoraAdapter()
    adapter.Load(str(tmp_path / "adapter"))
    expected = session.run(None, feeds)
    run_options = ort.RunOptions()
    run_options.add_active_adapter(adapter)
    compare(session.run(None, feeds, run_options), expected)
    # Memory of the inner session is given back like that of the one around.
    run_options = ort.RunOptions()
    run_options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    compare(session.run(None, feeds, run_options), expected)
