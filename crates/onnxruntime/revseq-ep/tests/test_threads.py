"""Many threads in one session, and one session's threads."""

import concurrent.futures
import threading

import numpy as np
import pytest

import harness


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("intra_op", [1, 4])
def test_eight_threads_in_one_session(dynamic, intra_op):
    """Each thread has its own data, sizes and lengths; large and small ones alternate."""
    shapes = [(3, 2, 4), (400, 64, 16)] if dynamic else [(200, 64, 16)]
    model = harness.reverse_sequence(
        ["t", "b", "c"] if dynamic else list(shapes[0]),
        lengths_shape=["b"] if dynamic else None,
        batch_axis=1,
        time_axis=0,
    )
    session = harness.session(model, harness.options(threads=intra_op))
    harness.assert_on_ep(session, 1)
    start = threading.Barrier(8)

    def work(seed):
        rng = np.random.default_rng(seed)
        start.wait()
        for index in range(40):
            shape = shapes[index % len(shapes)]
            x = rng.random(shape, np.float32)
            lens = rng.integers(0, shape[0] + 1, shape[1])
            (y,) = session.run(None, {"x": x, "lens": lens})
            right = x.copy()
            for batch, length in enumerate(lens):
                right[:length, batch] = x[:length, batch][::-1]
            assert harness.bits(y) == harness.bits(right)
        return True

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


COUNT = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import onnxruntime as ort
import harness


def threads():
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("Threads:"))


ort.register_execution_provider_library("revseq", harness.library())
before = threads()
shape = [2000, 1000]
model = harness.reverse_sequence(shape, batch_axis=0, time_axis=1)
session = harness.session(model, harness.options(threads=int(sys.argv[2])))
harness.assert_on_ep(session, 1)
x = np.arange(2_000_000, dtype=np.float32).reshape(shape)
for _ in range(3):
    (y,) = session.run(None, {"x": x, "lens": np.full(2000, 1000)})
    assert harness.bits(y) == harness.bits(x[:, ::-1])
print(threads() - before)
"""


@pytest.mark.parametrize("intra_op", [1, 2, 4])
def test_only_the_sessions_own_threads(intra_op):
    """The work runs on the session's pool, which has the threads that were asked for.

    In a process of its own: other sessions' threads take a while to end.
    """
    done = harness.alone(COUNT, intra_op)
    # The caller's own thread is one of them.
    assert int(done.stdout) == intra_op - 1
