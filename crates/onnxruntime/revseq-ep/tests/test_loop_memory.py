"""Where there is too little memory for a loop's layer, the loop stays or the session is an error."""


import harness

BODY = """
import gc, resource, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import onnx
import onnxruntime as ort
import harness
from test_layers import compare
from test_loops import LAYERS, Rnn, loops

ort.register_execution_provider_library("revseq", harness.library())
rnn = Rnn(units=2000, features=64)
# So small that rounding does not grow: where memory is lacking, the loop may stay.
rnn.constants["r"] *= np.float32(0.02)
feeds = rnn.feed(50, 10)
# Protobuf's memory is not what is limited.
onnx.save(rnn.model(), sys.argv[2])


def make():
    options = harness.options(provider_options=LAYERS, threads=1)
    options.log_severity_level = 4
    return harness.session(sys.argv[2], options)


def with_megabytes(count, work):
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", encoding="ascii") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (count << 20), hard))
    try:
        return work()
    except Exception as error:
        return error
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


session = make()
right = session.run(None, feeds)
lacked = 0
for count in (0, 1, 2, 4, 8, 16, 20, 24, 32, 40, 48, 64, 128):
    del session
    gc.collect()
    session = with_megabytes(count, make)
    if isinstance(session, Exception):
        lacked += 1
        session = make()
    lacked += loops(session) == (0, 1)
    found = with_megabytes(count, lambda: session.run(None, feeds))
    ran = not isinstance(found, Exception)
    compare(found if ran else session.run(None, feeds), right)
# The last had enough.
assert lacked and ran and loops(session) == (1, 1), (lacked, found, loops(session))
"""


def test_a_loop_with_too_little_memory(tmp_path):
    harness.alone(BODY, tmp_path / "model.onnx", RUST_BACKTRACE="0")
