"""The examples in Rust and C++, against the ONNX Runtime of this environment.

The Rust examples, built by `cargo build -p revseq-ep --examples`, are in the folder
REVSEQ_EP_RUST_EXAMPLES.
The folder of onnxruntime_c_api.h, which the wheels of ONNX Runtime lack, is in
REVSEQ_ORT_INCLUDE; without it the C++ example is not tried.
"""

import os
import pathlib
import shutil
import subprocess

import numpy as np
import onnxruntime as ort
import pytest

import harness

MODEL = "shapes/rank3_batch0_time2"
CAPI = pathlib.Path(ort.__file__).parent / "capi"


def onnxruntime_library():
    (library,) = CAPI.glob("libonnxruntime.so.1.*")
    return library


def right():
    x = np.arange(30, dtype=np.float32).reshape(3, 2, 5)
    return harness.expected(x, [2, 2, 2], 2, 0).ravel().tolist()


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def rust_example(name):
    folder = os.environ.get("REVSEQ_EP_RUST_EXAMPLES")
    assert folder, "set REVSEQ_EP_RUST_EXAMPLES"
    return pathlib.Path(folder) / name


def test_rust():
    model = harness.MODELS / MODEL / "model.onnx"
    printed = run(rust_example("rust"), onnxruntime_library(), harness.library(), model)
    assert printed.splitlines()[-1] == f"[3, 2, 5]: {right()}"


def test_rust_rewrites():
    model = harness.MODELS / "exported/keras_gru_bidirectional/model.onnx"
    *steps, result = run(rust_example("rewrite"), onnxruntime_library(), model).splitlines()
    assert sum("Loop" in step and "Rewritten" in step for step in steps) == 2
    assert_result(model, result)


def test_rust_with_loops():
    model = harness.MODELS / "exported/keras_bilstm_masked/model.onnx"
    printed = run(rust_example("mixed"), onnxruntime_library(), harness.library(), model)
    *nodes, result = printed.splitlines()
    providers = {(provider, operator): int(count) for provider, count, operator in map(str.split, nodes)}
    assert providers[harness.EP, "ReverseSequence"] == 4
    assert providers[harness.EP, "Loop"] == 4
    assert (harness.CPU, "ReverseSequence") not in providers
    assert_result(model, result)


def assert_result(model, result):
    """An example printed the outputs for ones, of sizes of 4 where the model leaves them open."""
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    sizes = [[size if isinstance(size, int) else 4 for size in it.shape] for it in session.get_inputs()]
    names = [given.name for given in session.get_inputs()]
    x = {name: np.ones(size, np.float32) for name, size in zip(names, sizes)}
    expected = session.run(None, x)[0]
    shape, values = result.split("]: [")
    assert [int(size) for size in shape[1:].split(",")] == list(expected.shape)
    found = [float(value) for value in values.rstrip("]").split(",")]
    np.testing.assert_allclose(found, expected.ravel(), rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(
    "REVSEQ_ORT_INCLUDE" not in os.environ,
    reason="REVSEQ_ORT_INCLUDE is not set: no header of ONNX Runtime to compile the C++ example",
)
def test_cpp(tmp_path):
    library = tmp_path / "libonnxruntime.so.1"
    library.symlink_to(onnxruntime_library())
    source = harness.ROOT / "crates/onnxruntime/revseq-ep/examples/cpp.cpp"
    example = tmp_path / "example"
    run(shutil.which("c++"), "-std=c++17", "-Wall", "-Wextra", "-Werror",
        f"-I{os.environ['REVSEQ_ORT_INCLUDE']}", source, library, f"-Wl,-rpath,{tmp_path}",
        "-o", example)  # fmt: skip
    printed = run(example, harness.library(), harness.MODELS / MODEL / "model.onnx")
    assert [float(number) for number in printed.split()] == right()
    model = harness.MODELS / "exported/keras_bilstm_masked/model.onnx"
    printed = run(example, harness.library(), model, "loops")
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    x = np.arange(4 * 4 * 8, dtype=np.float32).reshape(4, 4, 8)
    found = np.array([float(number) for number in printed.split()])
    np.testing.assert_allclose(found, session.run(None, {given.name: x})[0].ravel(), rtol=1e-3)
