"""How fast the EP runs beside ONNX Runtime's CPU EP: interleaved, so that both meet the same machine.

    REVSEQ_EP_LIBRARY=… python bench.py

Prints medians and their ratio; a ratio below 1 means that the EP is faster.
"""

import statistics
import time

import numpy as np
import onnxruntime as ort

import harness


def medians(sessions, feeds, rounds, calls):
    """The median time of a call of each session, in seconds."""
    times = [[] for _ in sessions]
    bound = []
    for session in sessions:
        binding = session.io_binding()
        for name, value in feeds.items():
            binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(value))
        output = np.empty_like(feeds["x"])
        binding.bind_ortvalue_output("y", ort.OrtValue.ortvalue_from_numpy(output))
        bound.append((session, binding))
    for _ in range(rounds):
        for index, (session, binding) in enumerate(bound):
            start = time.perf_counter()
            for _ in range(calls):
                session.run_with_iobinding(binding)
            times[index].append((time.perf_counter() - start) / calls)
    return [statistics.median(each[rounds // 10 :]) for each in times]


def compare(label, model, feeds, threads, rounds, calls):
    sessions = [
        harness.session(model, harness.options(ep=ep, threads=threads)) for ep in (True, False)
    ]
    harness.assert_on_ep(sessions[0])
    ours, theirs = medians(sessions, feeds, rounds, calls)
    size = 2 * feeds["x"].nbytes
    print(
        f"{label:38} threads {threads}: EP {ours * 1e6:10.2f} us ({size / ours / 1e9:6.2f} GB/s), "
        f"CPU {theirs * 1e6:10.2f} us ({size / theirs / 1e9:6.2f} GB/s), "
        f"ratio {ours / theirs:.3f}"
    )


def main():
    ort.register_execution_provider_library("revseq", harness.library())
    print(f"ONNX Runtime {ort.__version__}")
    rng = np.random.default_rng(0)
    for shape in ([4, 4], [None, None]):
        model = harness.reverse_sequence(shape, lengths_shape=[shape[1]], time_axis=0, batch_axis=1)
        feeds = {"x": np.ones((4, 4), np.float32), "lens": np.array([1, 2, 3, 4])}
        compare(f"tiny, {shape}", model, feeds, 1, 400, 200)
    cases = {
        "time-major 512x32x512": ([512, 32, 512], 0, 1),
        "batch-major 32x512x512": ([32, 512, 512], 1, 0),
        "batch-major 4096x2048 (contiguous)": ([4096, 2048], 1, 0),
        "time-major 2048x4096 (columns)": ([2048, 4096], 0, 1),
    }
    for threads in (1, 2):
        for label, (shape, time_axis, batch_axis) in cases.items():
            model = harness.reverse_sequence(shape, time_axis=time_axis, batch_axis=batch_axis)
            feeds = {
                "x": rng.random(shape, np.float32),
                "lens": rng.integers(0, shape[time_axis] + 1, shape[batch_axis]),
            }
            compare(label, model, feeds, threads, 40, 1)


if __name__ == "__main__":
    main()
