"""Rewriting models from Python: onnxruntime_ep_revseq.rewrite, and sessions on the result."""

import os
import sys
import threading
import warnings
import zipfile

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper

import harness

MODEL = harness.ROOT / "models/exported/keras_bilstm_masked"


def data(name):
    files = sorted((MODEL / "test_data_set_0").glob(f"{name}_*.pb"))
    return [numpy_helper.to_array(onnx.load_tensor(str(file))) for file in files]


def check(session):
    inputs = {given.name: value for given, value in zip(session.get_inputs(), data("input"))}
    found, (expected, *_) = session.run(None, inputs)[0], data("output")
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def operators(model):
    return [node.op_type for node in onnx.load_model_from_string(model).graph.node]


@pytest.mark.parametrize(
    "arguments, are_ours",
    [
        ({}, True),
        ({"layers": True}, True),
        ({"layers": False}, False),
        ({"provider_options": {"layers": "off"}}, False),
        ({"provider_options": {"layers": "off"}, "layers": True}, True),
    ],
)
def test_the_provider_computes_layers_unless_told_otherwise(package, arguments, are_ours):
    session = package.create_session(MODEL / "model.onnx", threads=1, rewrite="fast", **arguments)
    found = harness.assigned(session)
    owner = harness.EP if are_ours else harness.CPU
    assert [ep for ep, nodes in found.items() if "LSTM" in nodes] == [owner]
    check(session)


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
    with pytest.raises(package.RewriteError, match='the model: there is no pass "swift"; the passes are'):
        package.rewrite((MODEL / "model.onnx").read_bytes(), passes=["swift"])
    with pytest.raises(package.RewriteError, match='there is no runtime "tensorrt" to rewrite for; there are'):
        package.rewrite(MODEL / "model.onnx", runtime="tensorrt")
    with pytest.raises(package.RewriteError, match='no assumption "sorted", expected "right-padded"'):
        package.rewrite(MODEL / "model.onnx", assume=["sorted"])
    with pytest.raises(FileNotFoundError):
        package.rewrite(tmp_path / "missing.onnx")
    with pytest.raises(IsADirectoryError if os.name == "posix" else package.RewriteError):
        package.rewrite(tmp_path)
    with pytest.raises(TypeError, match="type ModelProto, expected a path or bytes, such as model.Ser"):
        package.rewrite(onnx.load(MODEL / "model.onnx"))
    with pytest.raises(TypeError, match="the model is of type int, expected a path or bytes$"):
        package.rewrite(5)
    for model, error in [
        (MODEL / "missing.onnx", FileNotFoundError),
        (MODEL, IsADirectoryError if os.name == "posix" else PermissionError),
    ]:
        with pytest.raises(error):
            package.create_session(model)
    for make in [package.rewrite, package.create_session]:
        with pytest.raises(TypeError, match="expected a path or bytes, such as model.SerializeToString"):
            make(onnx.ModelProto())
    for arguments, words in [
        ({"runtime": 3}, "runtime is 3, expected a name such as 'openvino', or None"),
        ({"passes": 3}, "passes has 3, expected a name, or a list of names"),
        ({"assume": [None]}, "assume has None, expected a name, or a list of names"),
    ]:
        with pytest.raises(TypeError, match=words):
            package.rewrite(MODEL / "model.onnx", **arguments)
    session = lambda **options: package.create_session(MODEL / "model.onnx", **options)
    with pytest.raises(TypeError, match="threads is 'x', expected an int"):
        session(threads="x")
    with pytest.raises(ValueError, match="provider_options has 'lenghts', expected lengths, layers"):
        session(provider_options={"lenghts": "clamp"})
    with pytest.raises(TypeError, match=r"provider_options\['layers'\] is True, expected a str"):
        session(provider_options={"layers": True})
    for arguments, words in [
        ({"loops": "keep"}, r"loops is 'keep', expected True, False or None; words go into provider_options="),
        ({"layers": "off"}, r"layers is 'off', expected True, False or None; words go into provider_options="),
        ({"loops": 2}, "loops is 2, expected True or False"),
    ]:
        with pytest.raises(TypeError, match=words):
            session(**arguments)
    for arguments in [{"fast": "no"}, {"portable": "yes"}]:
        ((name, value),) = arguments.items()
        with pytest.raises(TypeError, match=f"{name} is '{value}', expected True or False"):
            package.rewrite(MODEL / "model.onnx", **arguments)
    for arguments in [{}, {"loops": False}, {"layers": True}]:
        with pytest.raises(ValueError, match="'assume': 'right-padded', which is about loops .* loops=True"):
            session(provider_options={"assume": "right-padded"}, **arguments)
    check(session(rewrite=False))
    content = (MODEL / "model.onnx").read_bytes()
    for given in [bytearray(content), memoryview(content)]:
        check(package.create_session(given))
        assert package.rewrite(given)[0] == package.rewrite(content)[0]
    with pytest.raises(ValueError, match="rewrite is 'portable', expected None or 'fast'"):
        package.worker.create_session(MODEL / "model.onnx", rewrite="portable")


def zipped(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("weights", "1")


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "it is empty"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "it is a PNG image"),
        (zipped, "it is a zip archive, perhaps of a PyTorch or Keras model: export it to ONNX"),
        (b"Thank you for your order.\n", "it is a text file"),
        (b"\x40\0\0\0\0\0\0\0{\"w\":{\"dtype\":\"F32\"}}", "it is a safetensors file, "),
    ],
    ids=["empty", "png", "zip", "text", "safetensors"],
)
def test_a_file_that_is_no_model_is_named(package, tmp_path, content, what):
    path = tmp_path / "x.onnx"
    content(path) if callable(content) else path.write_bytes(content)
    for given, source in ((path, "x.onnx"), (path.read_bytes(), "the model")):
        with pytest.raises(package.RewriteError) as caught:
            package.rewrite(given)
        assert f"{source}: it is not an ONNX model: {what}" in str(caught.value)


def test_arguments_of_any_type_that_can_be_meant(package):
    path = MODEL / "model.onnx"
    expected = package.rewrite(path, fast=True, assume=["right-padded"], passes=["transpose"])
    content = path.read_bytes()
    for given in (bytearray(content), memoryview(content)):
        assert package.rewrite(given, fast=1, assume="right-padded", passes="transpose") == expected


def test_a_runtime_has_its_passes(package):
    model, report = package.rewrite(MODEL / "model.onnx", runtime="openvino")
    layers = [node for node in onnx.load_model_from_string(model).graph.node if node.op_type == "LSTM"]
    assert layers and not any(len(layer.input) > 4 and layer.input[4] for layer in layers)
    assert any(step.pass_name == "sequence-lens" for step in report.rewritten)


def test_a_session_rewrites(package):
    path = MODEL / "model.onnx"
    for model in (path, str(path), path.read_bytes(), bytearray(path.read_bytes())):
        check(package.create_session(model, threads=1, rewrite="fast"))
    check(package.create_session(memoryview(path.read_bytes()), threads=1))


def test_an_assumption_is_the_rewrites_or_the_providers(package):
    path, assumed = MODEL / "model.onnx", {"assume": "right-padded"}
    session = package.create_session(path, rewrite="fast", provider_options=assumed)
    became = {taken.to for taken in package.report(session).taken}
    assert became == {f"LSTM, {way}, with the mask as lengths" for way in ("forward", "reverse")}
    check(session)
    check(package.create_session(path, loops=True, provider_options=assumed))


def test_data_in_other_files_is_found(package, tmp_path):
    model = onnx.load(MODEL / "model.onnx")
    path = tmp_path / "model.onnx"
    # Not the smallest: ONNX Runtime itself wants to see the values of axes.
    onnx.save_model(
        model, path, save_as_external_data=True, location="weights.bin", size_threshold=100
    )
    assert (tmp_path / "weights.bin").stat().st_size > 0
    check(package.worker.create_session(path, threads=1, rewrite="fast"))


def save_as_cache(model, root):
    """Saves a model with external data as caches do: files in one folder, links in another."""
    for folder in (root / "blobs", root / "snapshots/one"):
        folder.mkdir(parents=True)
    saved = root / "model.onnx"
    onnx.save_model(
        model, saved, save_as_external_data=True, location="e.data", size_threshold=100
    )
    for name, blob in (("model.onnx", "1111"), ("e.data", "2222")):
        (root / name).rename(root / "blobs" / blob)
        (root / "snapshots/one" / name).symlink_to(f"../../blobs/{blob}")
    return root / "snapshots/one/model.onnx"


@pytest.mark.skipif(os.name != "posix", reason="Windows may not let users make links")
def test_data_behind_links_of_a_cache_is_found(package, tmp_path):
    path = save_as_cache(onnx.load(MODEL / "model.onnx"), tmp_path)
    check(package.create_session(path, threads=1))
    session = package.create_session(path, threads=1, rewrite="fast")
    check(session)
    # Data elsewhere is refused, as it is without a rewrite.
    (tmp_path / "blobs/2222").rename(tmp_path / "3333")
    (path.parent / "e.data").unlink()
    (path.parent / "e.data").symlink_to("../../3333")
    with pytest.raises(package.RewriteError, match="a link leads out of the model's folder"):
        package.create_session(path, threads=1, rewrite="fast")


def run_alone(folder, body, **env):
    """Runs a body in a process of its own; returns what it printed."""
    harness.install(folder)
    return harness.alone(body, PYTHONPATH=str(folder), **env).stdout


def product(columns):
    """A model of a product with weights of 4 KB for each column."""
    weights = np.arange(1000 * columns, dtype=np.float32).reshape(1000, columns)
    return harness.parsed(f"(float[1,1000] x) => (float[1,{columns}] y) {{ y = MatMul (x, w) }}", w=weights)


LINUX = pytest.mark.skipif(sys.platform != "linux", reason="it asks Linux for what it needs")


@LINUX
def test_the_interpreter_ends_during_a_rewrite(package, tmp_path):
    """While the process is still there after the interpreter, a rewrite of it comes to its end."""
    path = tmp_path / "model.onnx"
    onnx.save_model(product(25000), path)
    run_alone(tmp_path, f"""
import ctypes, threading
import onnxruntime_ep_revseq
libc = ctypes.CDLL(None)
libc.__cxa_atexit(ctypes.cast(libc.usleep, ctypes.c_void_p), ctypes.c_void_p(3_000_000), None)
started = threading.Event()
def work():
    started.set()
    onnxruntime_ep_revseq.rewrite({str(path)!r})
threading.Thread(target=work, daemon=True).start()
started.wait()
""")


@LINUX
def test_a_lack_of_memory_is_a_memory_error(package, tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save_model(product(25000), path)
    printed = run_alone(tmp_path, f"""
import resource
import onnxruntime_ep_revseq
onnxruntime_ep_revseq.get_library_path()
onnxruntime_ep_revseq._library.package_library()
with open("/proc/self/statm") as file:
    taken = int(file.read().split()[0]) * resource.getpagesize()
_, hard = resource.getrlimit(resource.RLIMIT_AS)
content = open({str(path)!r}, "rb").read()
for megabytes in range(110, 800, 60):
    resource.setrlimit(resource.RLIMIT_AS, (taken + (megabytes << 20), hard))
    for model in ({str(path)!r}, content):
        try:
            model, _ = onnxruntime_ep_revseq.rewrite(model)
            print(len(model))
        except MemoryError as error:
            print(error)
        model = None
""").splitlines()
    assert f"{path}: not enough memory for " in printed[0]
    assert printed[-1] == printed[-2] == str(path.stat().st_size)


@LINUX
@pytest.mark.parametrize("form", ["path", "bytes"])
def test_a_session_keeps_no_copy_of_a_large_model(package, tmp_path, form):
    path, temporary = tmp_path / "model.onnx", tmp_path / "temporary"
    temporary.mkdir()
    onnx.save_model(product(50000), path)
    taken = [
        int(run_alone(tmp_path / str(rewrite), f"""
import os
import numpy as np
import onnxruntime_ep_revseq
model = {str(path)!r}
if {form!r} == "bytes":
    model = open(model, "rb").read()
session = onnxruntime_ep_revseq.create_session(model, threads=1, rewrite={rewrite!r})
assert session.run(None, {{"x": np.eye(1, 1000, dtype=np.float32)}})[0][0, :3].tolist() == [0, 1, 2]
assert not os.listdir(os.environ["TMPDIR"])
with open("/proc/self/status") as file:
    print(next(int(line.split()[1]) for line in file if line.startswith("RssAnon")))
""", TMPDIR=str(temporary)))
        for rewrite in (None, "fast")
    ]  # fmt: skip
    # The model has 200 MB.
    assert taken[1] < taken[0] + 50_000, taken


@LINUX
def test_a_large_model_without_room_for_a_file(package, tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save_model(product(20000), path)
    printed = run_alone(tmp_path, f"""
import resource
import onnxruntime_ep_revseq
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
try:
    onnxruntime_ep_revseq.create_session({str(path)!r}, rewrite="fast")
except OSError as error:
    print(error)
""", TMPDIR=str(tmp_path))
    assert "the rewritten model of 80 MB is to go there (TMPDIR) while it loads" in printed, printed
    assert not list(tmp_path.glob("revseq-*"))


def test_other_threads_go_on_while_a_model_is_copied(package):
    model = product(50000).SerializeToString()
    count, ends = 0, threading.Event()

    def work():
        nonlocal count
        while not ends.is_set():
            count += 1

    thread = threading.Thread(target=work)
    with package._rewrite.rewriting(model) as result:
        thread.start()
        before = count
        copied = result.to_bytes()
        during = count - before
        ends.set()
        thread.join()
    assert copied == model
    assert during > 1000


def test_a_loop_that_is_left_is_named(package):
    text = """(float[2] x) => (float[2] y) {
        [doubling] y = Loop (n, "", x) <body: graph = body (int64 i, bool c, float[2] s) => (bool d, float[2] t) {
            d = Identity (c)  t = Add (s, s) }> }"""
    model = harness.parsed(text, n=np.array(3)).SerializeToString()
    _, report = package.rewrite(model)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        session = package.worker.create_session(model, threads=1, rewrite="fast")
    assert session.run(None, {"x": np.ones(2, np.float32)})[0].tolist() == [8, 8]
    named = [str(warning.message) for warning in caught if warning.category is package.worker.RewriteWarning]
    assert named == [str(step) for step in report.left_alone if step.operator == "Loop"]
    assert all("doubling" in name for name in named)
    assert {warning.filename for warning in caught if warning.category is package.RewriteWarning} == {__file__}
