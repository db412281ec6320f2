"""No panic leaves the library: it becomes an error that says so.

These need a library built with the feature `fault-injection`, whose path is in
REVSEQ_EP_FAULTY_LIBRARY; it panics where the environment variable PLUGIN_PANIC says.
"""

import os

import pytest

import harness

START = """
import gc, os, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import onnxruntime as ort
import harness
import test_layers

library = os.environ["REVSEQ_EP_FAULTY_LIBRARY"]
# Enough for threads to share it, in rows that a library without optimisation copies quickly.
big = [10, 100, 1000]
x = np.zeros(big, np.float32)
sequence = harness.reverse_sequence(big, batch_axis=0, time_axis=1)
subsequences = harness.reverse_subsequences([4], 0)
layer = test_layers.Layer("GRU")


def custom_op():
    options = harness.options(ep=False)
    options.register_custom_ops_library(library)
    session = harness.session(subsequences, options)
    return session.run(None, {"x": x[0, 0, :4], "lens": np.zeros(1, np.uint32)})


def ep():
    if not harness.devices():
        ort.register_execution_provider_library("revseq", library)
    # As a user has it, so with the Python binding's fallback.
    session = ort.InferenceSession(harness.load(sequence), harness.options(threads=2))
    session.run(None, {"x": x, "lens": np.full(10, 100)})
    options = harness.options(provider_options={"layers": "on"})
    session = ort.InferenceSession(harness.load(layer.model), options)
    session.set_ep_dynamic_options({"ep.dynamic.revseq_report": "a key"})
    return session.run(None, layer.feeds(3, 2))
"""

EVERYWHERE = """
use, *places = sys.argv[2:]
use = {"custom_op": custom_op, "ep": ep}[use]
for place in places:
    os.environ["PLUGIN_PANIC"] = place
    for _ in range(3):
        try:
            use()
        except Exception as error:
            assert "revseq-ep panicked: " in str(error), error
            assert place in str(error), error
        else:
            raise AssertionError(f"{place}: nothing was raised")
    # Without the panic all is well again.
    os.environ["PLUGIN_PANIC"] = ""
    use()
    if harness.devices():
        gc.collect()
        ort.unregister_execution_provider_library("revseq")
print("well")
"""

PLACES = {
    "ep": ["factories", "devices", "ep", "capability", "create", "compute", "parallel", "layer",
           "dynamic_options"],
    "custom_op": ["custom_ops", "create", "compute"],
}

INFERENCE = """
os.environ["PLUGIN_PANIC"] = "infer"
assert custom_op()[0].shape == (4,)
print("well")
"""


@pytest.mark.parametrize("use", PLACES)
def test_a_panic_is_an_error(use):
    assert_well(EVERYWHERE, use, *PLACES[use])


def test_a_panic_while_shapes_are_inferred_leaves_them_unknown():
    """ONNX Runtime ignores an error there; the kernel finds the shape when it runs."""
    assert_well(INFERENCE)


def assert_well(script, *arguments):
    assert os.environ.get("REVSEQ_EP_FAULTY_LIBRARY"), "set REVSEQ_EP_FAULTY_LIBRARY"
    # Nobody reads backtraces, and each takes longer than the call that panics.
    done = harness.alone(START + script, *arguments, RUST_BACKTRACE="0")
    assert "well" in done.stdout, f"{done.stdout}\n{done.stderr}"
