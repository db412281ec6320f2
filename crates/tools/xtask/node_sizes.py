"""Write ONNX's own tests of nodes with open sizes, and with data of other sizes that ONNX Runtime takes.

Each axis of an input gets a symbol of its own. Behind the test's own data set come sets of the same data with
axes of one size changed together, and each axis alone, also to 0; their outputs are ONNX Runtime's. A test runs
in a process of its own, because ONNX Runtime crashes on some sizes.
"""

import copy
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnxruntime
from node_tests import write
from onnx import TensorProto, numpy_helper
from onnx.backend.test.case.node import collect_testcases

# The most data sets of a test, and the seconds that it may take.
SETS = 24
SECONDS = 40

# Tests whose outputs in ONNX Runtime are no reference.
LEFT_OUT = {
    "test_attention_3d_local_window": "batches of two sizes are read as one",
    "test_batchnorm_epsilon_training_mode": "a mean of nothing is NaN, and elsewhere 0",
    "test_batchnorm_example_training_mode": "the same",
    "test_qlinearmatmul_2D_int8_float32": "sums of nothing are memory that was not written",
    "test_qlinearmatmul_2D_uint8_float32": "the same",
    "test_qlinearmatmul_3D_int8_float32": "the same",
    "test_qlinearmatmul_3D_uint8_float32": "the same",
    "test_resize_downsample_scales_cubic_align_corners": "a size is rounded before corners are aligned",
    "test_resize_downsample_scales_linear_align_corners": "the same",
    "test_scan_sum": "the state after no step is memory that was not written",
}


def resized(value: np.ndarray, sizes: dict[int, int]) -> np.ndarray:
    """Return a value with other sizes of some axes, of repeated elements."""
    for axis, size in sizes.items():
        if value.shape[axis]:
            value = np.take(value, np.arange(size) % value.shape[axis], axis=axis)
        else:
            shape = [*value.shape]
            shape[axis] = size
            value = np.full(shape, "" if value.dtype == object else 1, value.dtype)
    return np.ascontiguousarray(value) if value.ndim else value


def others(inputs: list[np.ndarray]) -> Iterator[list[np.ndarray]]:
    """Yield the inputs in other sizes."""
    for size in sorted({size for value in inputs for size in value.shape}):
        for other in sorted({size + 1, max(size - 1, 0), 2 * size + 1, 0} - {size}):
            yield [
                resized(value, {axis: other for axis, it in enumerate(value.shape) if it == size})
                for value in inputs
            ]
    for place, value in enumerate(inputs):
        for axis, size in enumerate(value.shape):
            for other in sorted({size + 1, 1, 0} - {size}):
                yield [
                    resized(it, {axis: other}) if index == place else it
                    for index, it in enumerate(inputs)
                ]


def has_numpy_type(value: object) -> bool:
    """Return whether a value is an array whose type NumPy has itself."""
    return isinstance(value, np.ndarray) and value.dtype.kind in "biufO"


def write_sizes(folder: Path, case: object) -> None:
    """Write a test, if ONNX Runtime runs it with open sizes."""
    inputs, _ = case.data_sets[0]
    inputs = [numpy_helper.to_array(it) if isinstance(it, TensorProto) else it for it in inputs]
    inputs = [np.asarray(it) if isinstance(it, np.generic) else it for it in inputs]
    model = copy.deepcopy(case.model)
    if not all(map(has_numpy_type, inputs)) or len(inputs) != len(model.graph.input):
        return
    for place, info in enumerate(model.graph.input):
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            dim.Clear()
            dim.dim_param = f"s{place}_{axis}"
    for info in model.graph.output:
        info.type.tensor_type.ClearField("shape")
    sets = []
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString())
        names = [info.name for info in model.graph.input]
        for values in [inputs, *others(inputs)]:
            try:
                outputs = session.run(None, dict(zip(names, values, strict=True)))
            except Exception:  # noqa: BLE001, it may refuse these sizes for any reason
                if not sets:
                    return
                continue
            if not all(map(has_numpy_type, outputs)):
                return
            sets.append((values, outputs))
    except Exception:  # noqa: BLE001, it may lack the operator
        return
    write(folder, case.name, model, sets[:SETS])


def main() -> None:
    onnxruntime.set_default_logger_severity(4)
    folder = Path(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    for case in collect_testcases(None):
        if case.name in LEFT_OUT or not case.data_sets:
            continue
        child = os.fork()
        if child == 0:
            signal.alarm(SECONDS)
            write_sizes(folder, case)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            print(f"{case.name}: ONNX Runtime crashed, or took too long")
            shutil.rmtree(folder / case.name, ignore_errors=True)


if __name__ == "__main__":
    main()
