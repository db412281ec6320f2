"""Shared by the tests of clusters: a model, its package, and tables of sequences."""

import os
import pathlib
import shutil

import numpy as np
import onnx
import pyarrow as pa
import pyarrow.parquet as pq
from onnx import TensorProto, helper

CRATE = pathlib.Path(__file__).resolve().parents[1]
EXAMPLES = CRATE / "examples"
PACKAGE = CRATE / "python/onnxruntime_ep_revseq"


def reverse(features=0) -> bytes:
    """ReverseSequence along axis 1."""
    shape = ["n", "t", features] if features else ["n", "t"]
    node = helper.make_node("ReverseSequence", ["x", "lens"], ["y"], batch_axis=0, time_axis=1)
    graph = helper.make_graph(
        [node],
        "reverse",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, shape),
            helper.make_tensor_value_info("lens", TensorProto.INT64, ["n"]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(made)
    return made.SerializeToString()


def package(folder: pathlib.Path, library: bool) -> pathlib.Path:
    """A folder with the package as the wheel installs it."""
    made = folder / "onnxruntime_ep_revseq"
    shutil.copytree(PACKAGE, made, ignore=shutil.ignore_patterns("__pycache__", "*revseq_ep.*"))
    if library:
        path = pathlib.Path(os.environ["REVSEQ_EP_LIBRARY"]).resolve(strict=True)
        (made / path.name).symlink_to(path)
    return folder


def lengths(count, longest, seed=7):
    return np.random.default_rng(seed).integers(1, longest + 1, count)


def table(rows, features=0) -> pa.Table:
    """Rows of consecutive numbers; the id determines where they start."""
    starts = np.cumsum([0, *rows])
    values = pa.array(np.arange(starts[-1] * max(features, 1), dtype=np.float32))
    if features:
        values = pa.FixedSizeListArray.from_arrays(values, features)
    x = pa.ListArray.from_arrays(starts.astype(np.int32), values)
    return pa.table({"id": [f"row {i}" for i in range(len(rows))], "x": x})


def rows(output: pathlib.Path) -> dict:
    """The rows by id, of which none may be there twice; those set aside are reasons."""
    read = pq.read_table(output / "rows")
    found = dict(zip(read["id"].to_pylist(), read["y"].to_pylist(), strict=True))
    assert len(found) == len(read)
    bad = pq.read_table(output / "rejected")
    reasons = dict(zip(bad["id"].to_pylist(), bad["reason"].to_pylist(), strict=True))
    assert len(reasons) == len(bad) and not set(reasons) & set(found)
    return found | reasons


def assert_reversed(output, source: pa.Table, reasons=0):
    """All rows are there, reversed, and so many others are set aside."""
    right = {
        i: x[::-1]
        for i, x in zip(source["id"].to_pylist(), source["x"].to_pylist(), strict=True)
    }
    found = rows(output)
    assert len(found) == len(right) + reasons
    assert {i: found.get(i) for i in right} == right
