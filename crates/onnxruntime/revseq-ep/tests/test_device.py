"""The provider option `device`: a GPU if a session asks for one, and never unasked.

A software adapter is the same everywhere. Without one the tests that need it are skipped, by name,
except on CI, where that fails. The library under test is built with the feature `gpu`; the one in
REVSEQ_EP_FAULTY_LIBRARY is not.
"""

import os
import re
import subprocess
import sys

import numpy as np
import pytest
from onnx import TensorProto, helper

import harness
from harness import MODELS

MODEL = harness.reverse_sequence([5, 3, 2], batch_axis=1, time_axis=0)
X = np.arange(30, dtype=np.float32).reshape(5, 3, 2)
LENS = np.array([5, 0, 3], np.int64)
RIGHT = harness.expected(X, LENS, 0, 1)
SOFTWARE = {"device": "gpu:software"}
#: As the log names an adapter that is software.
ADAPTER = r"on \d+: .* \((vulkan|gl), software\)"


@pytest.fixture
def software():
    try:
        harness.session(MODEL, provider_options=SOFTWARE)
    except Exception as error:
        if "no software adapter" not in str(error):
            raise
        pytest.skip("no software adapter")


def verbose(device):
    options = harness.options(provider_options={"device": device} if device else {})
    options.log_severity_level = 0
    return options


@pytest.mark.parametrize("device", [None, "cpu"])
def test_the_cpu_is_the_default_device(device, capfd):
    session = harness.session(MODEL, verbose(device))
    harness.assert_on_ep(session, 1)
    assert harness.bits(session.run(None, {"x": X, "lens": LENS})[0]) == harness.bits(RIGHT)
    (line,) = re.findall(r".* ran out of place: .*", capfd.readouterr().err)
    assert not re.search(r"by .*, on ", line), line


def test_out_of_place(software, capfd):
    session = harness.session(MODEL, verbose("gpu:software"))
    harness.assert_on_ep(session, 1)
    for _ in range(2):
        assert harness.bits(session.run(None, {"x": X, "lens": LENS})[0]) == harness.bits(RIGHT)
    lines = re.findall(r".* ran out of place: .*", capfd.readouterr().err)
    assert len(lines) == 2 and all(re.search(ADAPTER, line) for line in lines), lines


def test_in_place(software, capfd):
    nodes = [
        helper.make_node("Neg", ["x"], ["a"]),
        helper.make_node(
            "ReverseSequence", ["a", "lens"], ["b"], name="n", batch_axis=1, time_axis=0
        ),
        helper.make_node("Neg", ["b"], ["y"]),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, 3, 2]),
        helper.make_tensor_value_info("lens", TensorProto.INT64, [3]),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [5, 3, 2])]
    model = harness.model(helper.make_graph(nodes, "graph", inputs, outputs))
    session = harness.session(model, verbose("gpu:software"))
    (y,) = session.run(None, {"x": X, "lens": LENS})
    assert harness.bits(y) == harness.bits(RIGHT)
    (line,) = re.findall(r".* ran in place: 120 bytes.*", capfd.readouterr().err)
    assert re.search(ADAPTER, line), line


@pytest.mark.parametrize("group", ["lengths", "page", "shapes", "subsequences"])
def test_models(software, group):
    count = 0
    for folder in sorted((MODELS / group).iterdir()):
        if not (folder / "model.onnx").is_file():
            continue
        session = harness.session(folder / "model.onnx", provider_options=SOFTWARE)
        names = [value.name for value in session.get_inputs()]
        for inputs, outputs in harness.data_sets(folder):
            results = session.run(None, dict(zip(names, inputs, strict=True)))
            for result, right in zip(results, outputs, strict=True):
                assert harness.bits(result) == harness.bits(right), folder
            count += 1
    assert count


def test_lengths_out_of_range_are_reported_as_on_the_cpu(software):
    session = harness.session(MODEL, provider_options=SOFTWARE)
    with pytest.raises(Exception, match='node "the_node": sequence length 6 at index 0'):
        session.run(None, {"x": X, "lens": np.array([6, 0, 3])})


def test_an_adapter_that_is_not_there_is_an_error_when_the_session_is_made():
    for device, wanted in [("gpu:no such adapter", '"no such adapter"'), ("gpu:99", "number 99")]:
        message = f'provider option "device" is "{device}": no {wanted} adapter; found '
        with pytest.raises(Exception, match=message):
            harness.session(MODEL, provider_options={"device": device})


def test_software_is_never_taken_for_hardware():
    try:
        harness.session(MODEL, provider_options={"device": "gpu"})
    except Exception as error:
        assert 'provider option "device" is "gpu": no hardware adapter; found ' in str(error)
    else:
        pytest.skip("there is hardware")


@pytest.mark.parametrize("device", ["", "CPU", "gpu:", "cuda"])
def test_other_values_are_refused(device):
    message = f'provider option "device" is "{device}", expected "cpu", .*"gpu:INDEX"'
    with pytest.raises(Exception, match=message):
        harness.session(MODEL, provider_options={"device": device})


SCRIPT = """
import os, sys
sys.path.insert(0, sys.argv[1])
import onnxruntime as ort
import harness

ort.register_execution_provider_library("revseq", os.environ["REVSEQ_EP_FAULTY_LIBRARY"])
model = harness.reverse_sequence([2, 3], batch_axis=0, time_axis=1)
harness.session(model, provider_options={"device": "cpu"})
try:
    # As a user has it, so with the Python binding's fallback.
    ort.InferenceSession(harness.load(model), harness.options(provider_options={"device": "gpu"}))
except Exception as error:
    print(error)
"""


def test_a_library_without_gpus_says_so():
    assert os.environ.get("REVSEQ_EP_FAULTY_LIBRARY"), "set REVSEQ_EP_FAULTY_LIBRARY"
    tests = str(harness.ROOT / "crates/onnxruntime/revseq-ep/tests")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, tests], capture_output=True, text=True, timeout=120
    )
    assert 'build revseq-ep with the feature "gpu"' in done.stdout, f"{done.stdout}\n{done.stderr}"
