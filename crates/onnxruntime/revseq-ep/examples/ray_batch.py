"""Runs a model over many sequences with Ray Data, RevSeqExecutionProvider in every worker.

    pip install "ray[data]==2.60.0" onnxruntime numpy onnxruntime_ep_revseq-*.whl
    python ray_batch.py model.onnx INPUT OUTPUT             # on this machine
    python ray_batch.py model.onnx INPUT OUTPUT --address auto   # on a cluster

INPUT is a folder of .npy files, or a Parquet file or a folder of those with the columns `id` and
`x`: a list of numbers, or of lists of `--features` numbers, a row. On a cluster all of the nodes
must see INPUT and OUTPUT under these paths.

The model takes a batch [N, T] or [N, T, features] and its lengths [N], and gives a batch
[N, T, ...], of which each row is cut to its length.

The unit of work is a file of OUTPUT. It is written under another name and renamed when it is
whole: a unit that is done twice, because its worker was lost, is there once, and a run that was
broken off goes on with the units that are missing. OUTPUT/rows has `id` and `y`; OUTPUT/rejected
has `id` and `reason` of the rows that were set aside. Readers of Parquet folders pass over what a
lost worker leaves, since its name begins with a dot.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import pathlib
import sys
import time
import uuid
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import ray
import ray.data


class Settings(NamedTuple):
    model: bytes
    output: str
    features: int = 0  # 0: a sequence is a vector
    longest: int = 16_000_000
    nan: bool = False
    batch: int = 64  # rows in a run of the model
    window: int = 4096  # rows among which those of like length are found
    cpus: int = 1


# --- The units of work: the same, in the same order, for the same INPUT.


def units(source: pathlib.Path, files: int) -> Iterator[dict[str, Any]]:
    """Up to `files` .npy files, or a row group of a Parquet file."""
    arrays = sorted(source.glob("*.npy")) if source.is_dir() else []
    tables = sorted(source.glob("*.parquet")) if source.is_dir() else [source]
    if not arrays and not tables:
        sys.exit(f"{source}: neither .npy nor .parquet files")
    for start in range(0, len(arrays), files):
        yield {"paths": [str(path) for path in arrays[start : start + files]], "group": -1}
    for path in tables:
        for group in range(pq.read_metadata(path).num_row_groups):
            yield {"paths": [str(path)], "group": group}


def name(unit: dict[str, Any]) -> str:
    """A name that another unit does not have, nor this one once its files have changed."""
    facts = [(path, os.stat(path).st_size, os.stat(path).st_mtime_ns) for path in unit["paths"]]
    return hashlib.sha256(json.dumps([facts, unit["group"]]).encode()).hexdigest()[:24]


# --- In the workers

REJECTED = pa.schema({"id": pa.string(), "reason": pa.string()})


class Infer:
    """One session an actor; each call does one unit."""

    def __init__(self, settings: Settings):
        # Only here: the driver needs neither ONNX Runtime nor the provider.
        from onnxruntime_ep_revseq import worker

        try:
            self.session = worker.create_session(settings.model, threads=settings.cpus)
        except worker.RegistrationError as error:
            node = ray.get_runtime_context().get_node_id()
            raise RuntimeError(f"Ray node {node}: {error}") from error
        self.settings = settings
        self.names = [value.name for value in self.session.get_inputs()]
        if len(self.names) != 2:
            raise ValueError(f"the model has inputs {self.names}, expected a batch and its lengths")
        self.dtype = element_type(self.session.get_inputs()[0].type)
        self.lengths_dtype = element_type(self.session.get_inputs()[1].type)
        y = self.session.get_outputs()[0]
        if len(y.shape) < 2:
            raise ValueError(f"the output has shape {y.shape}, expected [N, T, ...]")
        y_type = pa.from_numpy_dtype(element_type(y.type))
        for _ in y.shape[1:]:
            y_type = pa.large_list(y_type)
        self.rows = pa.schema({"id": pa.string(), "y": y_type})

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, list]:
        done = [self.unit(json.loads(text)) for text in batch["unit"]]
        return {key: [one[key] for one in done] for key in done[0]}

    def unit(self, unit: dict[str, Any]) -> dict[str, int]:
        counts = {"rows": 0, "rejected": 0, "elements": 0, "padded": 0}
        folder, file = pathlib.Path(self.settings.output), f"{unit['name']}.parquet"
        # The rows are renamed last: where they are, the unit is done.
        with (
            Part(folder / "rows" / file, self.rows) as rows,
            Part(folder / "rejected" / file, REJECTED) as rejected,
        ):
            for window in windows(self.read(unit), self.settings.window):
                good, bad = self.sort_out(window)
                rejected.write([i for i, _ in bad], [reason for _, reason in bad])
                ids, results = [], []
                # Of like length together: then little is padding.
                good.sort(key=lambda row: len(row[1]))
                for start in range(0, len(good), self.settings.batch):
                    chunk = good[start : start + self.settings.batch]
                    ids += [i for i, _ in chunk]
                    results += self.run([x for _, x in chunk], counts)
                rows.write(ids, lists(results) if results else [])
                counts["rows"] += len(good)
                counts["rejected"] += len(bad)
        return counts

    def read(self, unit: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        """(id, sequence, or the error that stands for it)"""
        if unit["group"] < 0:
            for path in unit["paths"]:
                try:
                    yield pathlib.Path(path).stem, np.load(path, allow_pickle=False)
                except (OSError, ValueError, EOFError) as error:
                    yield pathlib.Path(path).stem, error
            return
        with pq.ParquetFile(unit["paths"][0]) as file:
            columns = {"batch_size": self.settings.window, "columns": ["id", "x"]}
            for batch in file.iter_batches(row_groups=[unit["group"]], **columns):
                yield from zip(map(str, batch["id"].to_pylist()), sequences(batch["x"]))

    def sort_out(self, window: Iterable[tuple[str, Any]]):
        good, bad = [], []
        for i, x in window:
            x, reason = self.check(x)
            bad.append((i, reason)) if reason else good.append((i, x))
        return good, bad

    def check(self, x: Any) -> tuple[Any, str]:
        """The sequence as the model takes it, or why it does not."""
        features, longest = self.settings.features, self.settings.longest
        if isinstance(x, Exception):
            return None, f"unreadable: {x}"
        if x is None:
            return None, "no sequence"
        try:
            x = np.asarray(x)
        except ValueError as error:
            return None, f"is not of one shape: {error}"
        if not np.can_cast(x.dtype, self.dtype, "same_kind"):
            return None, f"holds {x.dtype}, expected {self.dtype}"
        with np.errstate(over="ignore"):
            x = x.astype(self.dtype, copy=False)
        shape = (len(x), features) if features and x.ndim else (x.size,)
        if x.shape != shape:
            wanted = f"[T, {features}]" if features else "[T]"
            return None, f"has shape {list(x.shape)}, expected {wanted}"
        if not 0 < len(x) <= longest:
            return None, f"has length {len(x)}, expected 1 to {longest}"
        if not self.settings.nan and x.dtype.kind == "f" and not np.isfinite(x).all():
            return None, f"is not finite at {np.argwhere(~np.isfinite(x))[0].tolist()}"
        return x, ""

    def run(self, xs: list[np.ndarray], counts: dict[str, int]) -> list[np.ndarray]:
        lengths = np.array([len(x) for x in xs], self.lengths_dtype)
        longest = int(lengths[-1])
        padded = np.zeros((len(xs), longest, *xs[0].shape[1:]), self.dtype)
        for row, x in zip(padded, xs):
            row[: len(x)] = x
        y = self.session.run(None, dict(zip(self.names, (padded, lengths))))[0]
        if y.shape[:2] != padded.shape[:2]:
            raise ValueError(f"the output has shape {y.shape} for a batch of {padded.shape}")
        counts["elements"] += int(lengths.sum())
        counts["padded"] += len(xs) * longest
        return [row[:length] for row, length in zip(y, lengths)]


class Part:
    """A Parquet file that is there when it is whole, and not before."""

    def __init__(self, path: pathlib.Path, schema: pa.Schema):
        self.path, self.schema = path, schema
        # Two workers may do the same unit at once, if one was thought lost.
        self.partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}")

    def write(self, *columns: Any) -> None:
        self.file.write_table(pa.table(list(columns), schema=self.schema))

    def __enter__(self) -> Part:
        self.file = pq.ParquetWriter(self.partial, self.schema)
        return self

    def __exit__(self, kind, value, trace) -> None:
        self.file.close()
        if kind is None:
            os.replace(self.partial, self.path)
        else:
            self.partial.unlink()


def element_type(onnx_type: str) -> np.dtype:
    """numpy's name of "tensor(float)" and the like"""
    name = onnx_type.removeprefix("tensor(").removesuffix(")")
    return np.dtype({"float": "float32", "double": "float64"}.get(name, name))


def windows(rows: Iterator, size: int) -> Iterator[list]:
    while window := list(itertools.islice(rows, size)):
        yield window


def sequences(column: pa.Array) -> Iterator[Any]:
    """A row at a time, without making a Python object of each number where they are flat."""
    flat = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    if flat and pa.types.is_primitive(column.type.value_type) and not column.values.null_count:
        values, offsets = column.values.to_numpy(), column.offsets.to_numpy()
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        for i, start in enumerate(offsets[:-1]):
            yield values[start : offsets[i + 1]] if valid[i] else None
    else:
        yield from column.to_pylist()


def lists(results: list[np.ndarray]) -> pa.Array:
    """A list a row, of numbers or of lists of as many numbers each."""
    values = np.concatenate(results)
    made = pa.array(values.ravel())
    for size in reversed(values.shape[1:]):
        made = pa.LargeListArray.from_arrays(np.arange(0, len(made) + 1, size), made)
    return pa.LargeListArray.from_arrays(np.cumsum([0, *map(len, results)]), made)


# --- In the driver


def infer(source: pathlib.Path, settings: Settings, actors: int, files: int = 4096) -> dict:
    """Does the units that are not done yet; returns the counts of this run."""
    output = pathlib.Path(settings.output)
    done = {path.name for path in (output / "rows").glob("*.parquet")}
    todo = [{**unit, "name": name(unit)} for unit in units(source, files)]
    left = [unit for unit in todo if f"{unit['name']}.parquet" not in done]
    total = {"units": len(left), "rows": 0, "rejected": 0, "elements": 0, "padded": 0}
    print(f"{len(todo) - len(left)} of {len(todo)} units were done before", flush=True)
    for folder in ("rows", "rejected"):
        (output / folder).mkdir(parents=True, exist_ok=True)
    if not left:
        return total
    items = [{"unit": json.dumps(unit)} for unit in left]
    started = time.monotonic()
    # A block for each unit: a lost worker loses only one unit.
    results = ray.data.from_items(items, override_num_blocks=len(items)).map_batches(
        Infer,
        fn_constructor_args=(settings,),
        batch_size=1,
        num_cpus=settings.cpus,
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=actors),
    )
    for count, result in enumerate(results.iter_rows(), 1):
        for key, value in result.items():
            total[key] += value
        rate = (total["rows"] + total["rejected"]) / (time.monotonic() - started)
        print(f"{count}/{len(left)} units, {total['rows']} rows, {total['rejected']} rejected, "
              f"{rate:,.0f} rows/s", flush=True)  # fmt: skip
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("input", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--address", help="of the cluster: auto; without it, this machine")
    parser.add_argument("--wheel", help="of onnxruntime_ep_revseq, for nodes without it")
    parser.add_argument("--actors", type=int, default=os.cpu_count(), help="at most")
    parser.add_argument("--cpus", type=int, default=1, help="of an actor, and its threads")
    parser.add_argument("--batch", type=int, default=64, help="rows in a run of the model")
    parser.add_argument("--window", type=int, default=4096, help="rows grouped by length")
    parser.add_argument("--features", type=int, default=0, help="of a step; 0: one number")
    parser.add_argument("--longest", type=int, default=16_000_000, help="steps of a sequence")
    parser.add_argument("--nan", action="store_true", help="accept NaN and infinity")
    given = parser.parse_args()
    shipped = {"py_modules": [given.wheel]} if given.wheel else None
    ray.init(given.address, runtime_env=shipped, log_to_driver=False)
    settings = Settings(given.model.read_bytes(), str(given.output.resolve()), given.features,
                        given.longest, given.nan, given.batch, given.window, given.cpus)  # fmt: skip
    total = infer(given.input.resolve(), settings, given.actors)
    saved = 1 - total["elements"] / max(total["padded"], 1)
    print(f"{total['rows']} rows, {total['rejected']} rejected, {saved:.1%} of the batches padding")


if __name__ == "__main__":
    main()
