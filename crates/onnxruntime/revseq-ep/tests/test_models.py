"""Every model in models/, by the EP, against the outputs kept with it and against ONNX Runtime."""

import re

import numpy as np
import pytest

import harness
from harness import CPU, EP, MODELS

#: The result of ONNX Runtime 1.31.1's CPU EP for each model, from the table in models/README.md.
CPU_DOES = dict(
    re.findall(r"^\| `([\w/]+)` \|.*\| ([\w ]+) \|$", (MODELS / "README.md").read_text(), re.M)
)
ALL = sorted(
    str(path.parent.relative_to(MODELS)) for path in MODELS.glob("*/*/model.onnx")
)

#: Models that ONNX Runtime does not load, whatever the EP: types and opsets it does not know.
REFUSED = {"types/complex64": "complex64", "types/complex128": "complex128"}
if harness.HOST < (1, 32):
    # ONNX Runtime 1.32 is the first to know opset 28 and IR 14.
    REFUSED |= {
        "backend/test_reversesequence_bfloat16": "opset|IR version",
        "opsets/opset28": "opset|IR version",
        "types/bfloat16": "opset|IR version",
    }
#: Loops and layers alone: they have no node of the EP's.
WITHOUT = {name for name in ALL if name.startswith(("loops/", "recurrent/"))} | {
    "exported/keras_lstm_gru_simplernn",
    "exported/keras_lstm_stacked_masked",
    "exported/tf_beam_search",
    "forms/scan_version_8",
}
#: The EP has no kernel for them.
STRINGS = "types/string"
if harness.HOST < (1, 26):
    REFUSED["opsets/opset26"] = "opset|IR version"


def test_the_table_and_the_folders_agree():
    assert set(CPU_DOES) == set(ALL) and len(ALL) > 100


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_models_that_onnx_runtime_rejects_are_rejected_with_the_ep_too(name):
    with pytest.raises(Exception, match=REFUSED[name]):
        harness.session(MODELS / name / "model.onnx")


@pytest.mark.parametrize("name", [name for name in ALL if name not in REFUSED and name != STRINGS])
def test_model(name):
    folder = MODELS / name
    profiled = harness.Profiled(folder / "model.onnx", harness.options())
    cpu = None
    if CPU_DOES[name] == "runs" and harness.CPU_IS_RIGHT:
        cpu = harness.cpu_session(folder / "model.onnx")
    computed = ("graphs/bilstm_", "recurrent/", "exported/", "forms/")
    computes = name.startswith(computed) and name != "exported/tf_axes_2_3"
    names = [value.name for value in profiled.session.get_inputs()]
    count = 0
    for inputs, outputs in harness.data_sets(folder):
        count += 1
        feeds = dict(zip(names, inputs, strict=True))
        results = harness.run(profiled.session, feeds, outputs)
        answers = [outputs] + ([cpu.run(None, feeds)] if cpu else [])
        for answer in answers:
            for result, right in zip(results, answer, strict=True):
                if computes:
                    np.testing.assert_allclose(result, right, rtol=1e-4, atol=1e-5)
                else:
                    assert harness.bits(result) == harness.bits(right)
    ran = profiled.providers()
    if name in WITHOUT:
        assert count and not ran, ran
        return
    # One of its two data sets takes the branch without the operator.
    assert count and len(ran) >= (1 if name == "graphs/if_branch" else count)
    assert {where for _, where in ran} == {EP}, ran


def test_strings_are_left_to_the_cpu_and_the_log_says_why(capfd):
    folder = MODELS / STRINGS
    line = "is left to other execution providers: input 0 has elements of type string"
    # Nothing is wrong, so it is no warning.
    harness.session(folder / "model.onnx")
    assert line not in capfd.readouterr().err
    options = harness.options()
    options.log_severity_level = 1
    profiled = harness.Profiled(folder / "model.onnx", options)
    assert line in capfd.readouterr().err
    names = [value.name for value in profiled.session.get_inputs()]
    count = 0
    for inputs, outputs in harness.data_sets(folder):
        # A length of 1 keeps everything as well, and that every CPU EP is right about.
        x, *lengths = inputs
        feeds = [x, *(np.maximum(lens, 1) for lens in lengths)]
        results = profiled.session.run(None, dict(zip(names, feeds, strict=True)))
        for result, right in zip(results, outputs, strict=True):
            assert harness.bits(result) == harness.bits(right)
        count += 1
    assert count
    assert {where for _, where in profiled.providers()} == {CPU}
