"""With an ONNX Runtime before 1.24 the library says which version it needs."""

import onnxruntime as ort
import pytest

import harness

pytestmark = pytest.mark.skipif(harness.HOST >= (1, 24), reason="this ONNX Runtime is new enough")

MESSAGE = rf"revseq-ep \S+ needs ONNX Runtime 1\.24 or later, found {ort.__version__}"


@pytest.mark.parametrize("time", range(3))
def test_registering_the_ep(time, capfd):
    with pytest.raises(Exception, match=MESSAGE):
        ort.register_execution_provider_library("revseq", harness.library())
    # ONNX Runtime complains itself of a version asked for that it lacks.
    assert "API version" not in capfd.readouterr().err


def test_the_package_says_how_to_get_a_newer_one(tmp_path, monkeypatch):
    harness.install(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    import onnxruntime_ep_revseq

    message = f"it needs ONNX Runtime 1.24 or later, found {ort.__version__}: pip install -U onnxruntime"
    with pytest.raises(onnxruntime_ep_revseq.RegistrationError, match=message):
        onnxruntime_ep_revseq.create_session("model.onnx")


def test_registering_the_custom_op():
    with pytest.raises(Exception, match=MESSAGE):
        ort.SessionOptions().register_custom_ops_library(harness.library())
