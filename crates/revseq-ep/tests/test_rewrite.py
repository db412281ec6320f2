"""Rewriting models from Python: onnxruntime_ep_revseq.rewrite, and sessions on the result."""

import warnings

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper

import harness

MODEL = harness.ROOT / "models/exported/keras_bilstm_masked"


@pytest.fixture(scope="module")
def package(tmp_path_factory, monkeypatch_module):
    """The package as the wheel installs it."""
    folder = tmp_path_factory.mktemp("package")
    harness.install(folder)
    monkeypatch_module.syspath_prepend(folder)
    import onnxruntime_ep_revseq
    import onnxruntime_ep_revseq.worker

    return onnxruntime_ep_revseq


@pytest.fixture(scope="module")
def monkeypatch_module():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def data(name):
    files = sorted((MODEL / "test_data_set_0").glob(f"{name}_*.pb"))
    return [numpy_helper.to_array(onnx.load_tensor(str(file))) for file in files]


def check(session):
    inputs = {given.name: value for given, value in zip(session.get_inputs(), data("input"))}
    found, (expected, *_) = session.run(None, inputs)[0], data("output")
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def operators(model):
    return [node.op_type for node in onnx.load_model_from_string(model).graph.node]


def test_loops_become_layers(package):
    by_path, report = package.rewrite(MODEL / "model.onnx", assume=["right-padded"])
    by_bytes, _ = package.rewrite((MODEL / "model.onnx").read_bytes(), assume=("right-padded",))
    assert by_path == by_bytes
    assert "Loop" not in operators(by_path)
    assert report.exactness == "rounding" and report.rewritten
    assert all(str(step) in str(report).splitlines() for step in report.steps)
    session = ort.InferenceSession(by_path, providers=["CPUExecutionProvider"])
    check(session)


def test_errors_name_the_cause(package, tmp_path):
    path = tmp_path / "x.onnx"
    path.write_bytes(b"no model")
    with pytest.raises(package.RewriteError, match="x.onnx: it is not an ONNX model: "):
        package.rewrite(path)
    with pytest.raises(package.RewriteError, match='the model: there is no pass "swift"; the passes are'):
        package.rewrite((MODEL / "model.onnx").read_bytes(), passes=["swift"])
    with pytest.raises(package.RewriteError, match='there is no runtime "tensorrt" to rewrite for; there are'):
        package.rewrite(MODEL / "model.onnx", runtime="tensorrt")
    with pytest.raises(package.RewriteError, match='no assumption "sorted", expected "right-padded"'):
        package.rewrite(MODEL / "model.onnx", assume=["sorted"])
    with pytest.raises(FileNotFoundError):
        package.rewrite(tmp_path / "missing.onnx")
    with pytest.raises(ValueError, match="rewrite is 'portable', expected None or 'fast'"):
        package.worker.create_session(MODEL / "model.onnx", rewrite="portable")


def test_a_runtime_has_its_passes(package):
    model, report = package.rewrite(MODEL / "model.onnx", runtime="openvino")
    layers = [node for node in onnx.load_model_from_string(model).graph.node if node.op_type == "LSTM"]
    assert layers and not any(len(layer.input) > 4 and layer.input[4] for layer in layers)
    assert any(step.pass_name == "sequence-lens" for step in report.rewritten)


def test_a_session_rewrites(package):
    for _ in range(2):
        check(package.worker.create_session(MODEL / "model.onnx", threads=1, rewrite="fast"))


def test_data_in_other_files_is_found(package, tmp_path):
    model = onnx.load(MODEL / "model.onnx")
    path = tmp_path / "model.onnx"
    # Not the smallest: ONNX Runtime itself wants to see the values of axes.
    onnx.save_model(
        model, path, save_as_external_data=True, location="weights.bin", size_threshold=100
    )
    assert (tmp_path / "weights.bin").stat().st_size > 0
    check(package.worker.create_session(path, threads=1, rewrite="fast"))


def test_a_loop_that_is_left_is_named(package):
    one = numpy_helper.from_array(np.array(3), "n")
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2])
    info = onnx.helper.make_tensor_value_info
    body = onnx.helper.make_graph(
        [onnx.helper.make_node("Identity", ["c"], ["d"]), onnx.helper.make_node("Add", ["s", "s"], ["t"])],
        "body",
        [info("i", onnx.TensorProto.INT64, []), info("c", onnx.TensorProto.BOOL, []), info("s", 1, [2])],
        [info("d", onnx.TensorProto.BOOL, []), info("t", 1, [2])],
    )
    loop = onnx.helper.make_node("Loop", ["n", "", "x"], ["y"], name="doubling", body=body)
    graph = onnx.helper.make_graph([loop], "graph", [x], [y], [one])
    opset = [onnx.helper.make_opsetid("", 18)]
    model = onnx.helper.make_model(graph, opset_imports=opset, ir_version=9).SerializeToString()
    _, report = package.rewrite(model)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        session = package.worker.create_session(model, threads=1, rewrite="fast")
    assert session.run(None, {"x": np.ones(2, np.float32)})[0].tolist() == [8, 8]
    named = [str(warning.message) for warning in caught if warning.category is package.worker.RewriteWarning]
    assert named == [str(step) for step in report.left_alone if step.operator == "Loop"]
    assert all("doubling" in name for name in named)
