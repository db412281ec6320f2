"""Every model in models/, by the EP, against the outputs kept with it and against ONNX Runtime."""

import re

import numpy as np
import pytest

import harness
from harness import CPU, EP, MODELS

#: What ONNX Runtime 1.31.1's CPU EP does with each model, from the table in models/README.md.
CPU_DOES = dict(
    re.findall(r"^\| `([\w/]+)` \|.*\| ([\w ]+) \|$", (MODELS / "README.md").read_text(), re.M)
)
ALL = sorted(
    str(path.parent.relative_to(MODELS)) for path in MODELS.glob("*/*/model.onnx")
)

#: Models that no version of ONNX Runtime loads, whatever the EP: types and opsets it does not know.
REFUSED = {
    "backend/test_reversesequence_bfloat16": "opset|IR version",
    "opsets/opset28": "opset|IR version",
    "types/bfloat16": "opset|IR version",
    "types/complex64": "complex64",
    "types/complex128": "complex128",
}
#: The EP has no kernel for them.
STRINGS = "types/string"
if harness.HOST < (1, 26):
    REFUSED["opsets/opset26"] = "opset|IR version"


def test_the_table_and_the_folders_agree():
    assert set(CPU_DOES) == set(ALL) and len(ALL) > 100


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_onnx_runtime_does_not_load_is_refused_with_the_ep_too(name):
    with pytest.raises(Exception, match=REFUSED[name]):
        harness.session(MODELS / name / "model.onnx")


@pytest.mark.parametrize("name", [name for name in ALL if name not in REFUSED and name != STRINGS])
def test_model(name):
    folder = MODELS / name
    profiled = harness.Profiled(folder / "model.onnx", harness.options())
    cpu = None
    if CPU_DOES[name] == "runs" and harness.CPU_IS_RIGHT:
        cpu = harness.cpu_session(folder / "model.onnx")
    computes = name.startswith(("graphs/bilstm_", "exported/")) and name != "exported/tf_axes_2_3"
    names = [value.name for value in profiled.session.get_inputs()]
    count = 0
    for inputs, outputs in harness.data_sets(folder):
        count += 1
        feeds = dict(zip(names, inputs, strict=True))
        results = profiled.session.run(None, feeds)
        answers = [outputs] + ([cpu.run(None, feeds)] if cpu else [])
        for answer in answers:
            for result, right in zip(results, answer, strict=True):
                if computes:
                    np.testing.assert_allclose(result, right, rtol=1e-4, atol=1e-5)
                else:
                    assert harness.bits(result) == harness.bits(right)
    ran = profiled.providers()
    # One of its two data sets takes the branch without the operator.
    assert count and len(ran) >= (1 if name == "graphs/if_branch" else count)
    assert {where for _, where in ran} == {EP}, ran


def test_strings_are_left_to_the_cpu_and_the_log_says_why(capfd):
    folder = MODELS / STRINGS
    profiled = harness.Profiled(folder / "model.onnx", harness.options())
    line = "is left to other execution providers: input 0 has elements of type string"
    assert line in capfd.readouterr().err
    names = [value.name for value in profiled.session.get_inputs()]
    for inputs, outputs in harness.data_sets(folder):
        results = profiled.session.run(None, dict(zip(names, inputs, strict=True)))
        if harness.CPU_IS_RIGHT:
            for result, right in zip(results, outputs, strict=True):
                assert harness.bits(result) == harness.bits(right)
    assert {where for _, where in profiled.providers()} == {CPU}
