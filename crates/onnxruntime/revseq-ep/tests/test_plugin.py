"""The example of the crate ep-plugin: a provider of one operator."""

import json
import os
import pathlib
import subprocess
import sys

import harness

# A process of its own, since a library stays loaded.
SCRIPT = """
import sys
import numpy as np
import onnxruntime as ort
ort.register_execution_provider_library("negate", sys.argv[1])
devices = [it for it in ort.get_ep_devices() if it.ep_name == "NegateExecutionProvider"]
options = ort.SessionOptions()
options.add_provider_for_devices(devices, {})
options.enable_profiling = True
options.profile_file_prefix = sys.argv[3]
session = ort.InferenceSession(sys.argv[2], options)
for sizes in ([2, 3], [0, 3]):
    x = np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes) - 2
    y, whole = session.run(None, {"x": x, "n": np.array([3, -4])})
    np.testing.assert_array_equal(y, -x)
    np.testing.assert_array_equal(whole, [-3, 4])
print(open(session.end_profiling()).read())
"""


def test_a_provider_of_one_operator(tmp_path):
    folder = os.environ.get("REVSEQ_EP_RUST_EXAMPLES")
    assert folder, "set REVSEQ_EP_RUST_EXAMPLES"
    (library,) = pathlib.Path(folder).glob("*negate.[sd][oly]*")
    model = harness.parsed("""(float[N,3] x, int64[2] n) => (float[] y, int64[] whole) {
        [floats] y = Neg (x)  [integers] whole = Neg (n) }""")
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, library, path, tmp_path / "profile"],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    # The kernel is for floats.
    events = {event["name"]: event["args"] for event in json.loads(run.stdout)}
    assert events["floats_kernel_time"]["provider"] == "NegateExecutionProvider"
    assert events["integers_kernel_time"]["provider"] == "CPUExecutionProvider"
