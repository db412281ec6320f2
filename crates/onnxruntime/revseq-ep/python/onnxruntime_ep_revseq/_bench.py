"""Which way to run a model is the fastest."""

from __future__ import annotations

import dataclasses
import multiprocessing.spawn
import pickle
import re
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._report import report
from ._rewrite import rewrite, source_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy
    import onnxruntime

    from ._report import SessionReport
    from ._rewrite import Model

#: The name of the way that the others are compared with, and the arguments of ``create_session`` of these.
_PLAIN = "onnxruntime"
_WAYS: dict[str, dict[str, Any]] = {
    "layers=on": {"layers": True},
    "loops=layers": {"loops": True},
    "loops=steps": {"loops": "steps"},
    "rewritten": {"rewrite": "fast", "layers": False},
    "rewritten, loops=steps": {"rewrite": "fast", "loops": "steps"},
}
#: Part of ONNX Runtime's time above which a way gains nothing that is worth a change.
_GAIN = 0.97
#: How far an output may be from the expected one: a part of it, and a distance besides.
_RELATIVE, _ABSOLUTE = 1e-4, 1e-5
#: The number of turns of each way, if its runs are short.
_TURNS = 8
#: The NumPy types of tensors that are made up, by ONNX Runtime's names.
_TYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    "tensor(int64)": "int64",
    "tensor(int32)": "int32",
    "tensor(bool)": "bool",
}


@dataclasses.dataclass(frozen=True)
class Way:
    """A way to run a model, and how long a run takes."""

    name: str
    #: The arguments of ``create_session``; ``None`` for ONNX Runtime with the model as it is.
    arguments: Mapping[str, Any] | None
    #: The median of the runs' times in seconds, and their number.
    seconds: float | None = None
    runs: int = 0
    #: The time as a part of that of ONNX Runtime with the model as it is.
    ratio: float | None = None
    #: The seconds that it took to make the session.
    load_seconds: float | None = None
    #: The most bytes of memory of a process that makes the session and runs it; on Linux only.
    peak_bytes: int | None = None
    #: What became of its loops.
    report: SessionReport | None = None
    #: Why there is no time, or that the outputs differ.
    reason: str | None = None

    def _cells(self) -> list[str]:
        if self.seconds is None or self.load_seconds is None:
            return [self.name, "", "", "", "", self.reason or ""]
        found, takes = self.report, []
        if found is not None:
            loops = sum(left.operator in ("Loop", "Scan") for left in found.left) + len(found.taken)
            takes = [f"{len(found.taken)} of {loops} loops"] if loops else []
            takes += [f"{found.layers} layers"] if found.layers else []
        ratio = "-" if self.ratio is None else f"{self.ratio:.3f}"
        peak = "-" if self.peak_bytes is None else f"{self.peak_bytes / (1 << 20):.3g} MiB"
        times = [f"{1e3 * self.seconds:.3g} ms", ratio, f"{1e3 * self.load_seconds:.3g} ms"]
        return [self.name, *times, peak, self.reason or ", ".join(takes)]


@dataclasses.dataclass(frozen=True)
class Bench:
    """The ways to run a model, with their times. As text, a table and the line of code of the fastest."""

    ways: tuple[Way, ...]
    model: str

    @property
    def fastest(self) -> Way | None:
        """The fastest way of right outputs; ``None`` if ONNX Runtime with the model as it is is as fast."""
        right = [way for way in self.ways if way.seconds is not None and way.reason is None]
        best = min(right, key=lambda way: way.seconds or 0.0, default=None)
        if best is None or best.arguments is None or (best.ratio is not None and best.ratio >= _GAIN):
            return None
        return best

    @property
    def code(self) -> str | None:
        """The line of code that makes a session of the fastest way."""
        if self.fastest is None:
            return None
        arguments = (self.fastest.arguments or {}).items()
        given = ", ".join(f"{name}={value!r}" for name, value in arguments)
        return f"onnxruntime_ep_revseq.create_session({self.model}, {given})"

    def __str__(self) -> str:
        rows = [["way", "a run", "ratio", "load", "peak", "takes"], *(way._cells() for way in self.ways)]
        # What has no times has its reason in their place.
        timed = [row for row in rows if row[1]]
        widths = [max(len(row[column]) for row in timed) for column in range(5)]
        widths[0] = max(len(row[0]) for row in rows)
        lines = [
            f"{row[0]:{widths[0]}}  "
            + ("  ".join(f"{row[it]:>{widths[it]}}" for it in (1, 2, 3, 4)) + "  " if row[1] else "")
            + row[5]
            for row in rows
        ]
        lines.append(self.code or "nothing is faster than ONNX Runtime with the model as it is")
        return "\n".join(line.rstrip() for line in lines)


def bench(
    model: Model,
    inputs: Mapping[str, numpy.ndarray[Any, Any]] | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
    seconds: float = 5.0,
    threads: int = 1,
) -> Bench:
    """Measures which way to run a model is the fastest: ONNX Runtime as it is, each option of the provider, and
    the model rewritten.

    All run in turns for ``seconds``, on the same ``inputs``, and their outputs are compared with those of ONNX
    Runtime. Then each runs once in a process of its own, which tells its peak memory. Inputs that are not given are made up: random floats, and integers of 1; ``sizes`` has those that
    the model leaves open, by name.

    Raises ``ValueError`` if an input is neither given nor can be made up, the first error if no way runs the
    model, and what ``create_session`` raises for arguments that are wrong.
    """
    source = source_of(model)
    prepared: list[_Prepared] = []
    failed: dict[str, Exception] = {}
    made_up: dict[str, numpy.ndarray[Any, Any]] | None = None
    for name, arguments in {_PLAIN: None, **_WAYS}.items():
        if name.startswith("rewritten") and not _is_rewritten(source):
            continue
        try:
            one = _prepare(name, arguments, source, threads)
            if made_up is None:
                made_up = _inputs(one.session, inputs or {}, sizes or {})
            one.outputs = one.session.run(None, made_up)
        except _InputError as error:
            raise ValueError(str(error)) from None
        # ONNX Runtime's own errors have no common base but Exception.
        except Exception as error:
            failed[name] = error
        else:
            prepared.append(one)
    if not prepared:
        raise next(iter(failed.values()))
    _in_turns(prepared, made_up or {}, seconds)
    shown = "model" if isinstance(source, bytes) else repr(source)
    by_name = {one.name: one for one in prepared}
    plain = by_name[_PLAIN].median() if _PLAIN in by_name else None
    return Bench(
        tuple(
            Way(name, _WAYS.get(name), reason=" ".join(str(failed[name]).split()))
            if name in failed
            else by_name[name].way(
                plain, prepared[0], _peak(_WAYS.get(name), source, threads, made_up or {})
            )
            for name in (_PLAIN, *_WAYS)
            if name in failed or name in by_name
        ),
        shown,
    )


class _InputError(Exception):
    """An input is missing."""


@dataclasses.dataclass
class _Prepared:
    """A session that is ready to be timed."""

    name: str
    session: onnxruntime.InferenceSession
    load: float
    report: SessionReport | None
    outputs: list[Any] = dataclasses.field(default_factory=list)
    times: list[float] = dataclasses.field(default_factory=list)

    def median(self) -> float:
        return statistics.median(self.times)

    def way(self, plain: float | None, expected: _Prepared, peak: int | None) -> Way:
        median = self.median()
        return Way(
            self.name,
            _WAYS.get(self.name),
            median,
            len(self.times),
            median / plain if plain else None,
            self.load,
            peak,
            self.report,
            _difference(expected.session, expected.outputs, self.outputs),
        )


def _is_rewritten(source: str | bytes) -> bool:
    """Whether a rewrite changes a model."""
    return bool(rewrite(source)[1].rewritten)


def _prepare(
    name: str,
    arguments: Mapping[str, Any] | None,
    source: str | bytes,
    threads: int,
) -> _Prepared:
    start = time.perf_counter()
    session = _session(arguments, source, threads)
    load = time.perf_counter() - start
    return _Prepared(name, session, load, None if arguments is None else report(session))


def _session(
    arguments: Mapping[str, Any] | None, source: str | bytes, threads: int
) -> onnxruntime.InferenceSession:
    """A session on ONNX Runtime as it is, or with arguments of ``create_session``."""
    import onnxruntime

    from .worker import create_session

    if arguments is None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    with warnings.catch_warnings():
        # The report has what stays.
        warnings.simplefilter("ignore")
        return create_session(source, threads=threads, **arguments)


#: The program of a process that tells its peak memory; modules are found where this process finds them.
_PROGRAM = """
import pickle, sys
sys.path[:] = pickle.load(sys.stdin.buffer)
from onnxruntime_ep_revseq import _bench
_bench._print_peak(*pickle.load(sys.stdin.buffer))
"""


def _peak(
    arguments: Mapping[str, Any] | None, source: str | bytes, threads: int, inputs: dict[str, Any]
) -> int | None:
    """The peak memory in bytes of a process that makes a session and runs it, where the system tells."""
    # As multiprocessing does, for programs that have Python within.
    python = multiprocessing.spawn.get_executable()
    if sys.platform != "linux" or not python:
        return None
    told = pickle.dumps(sys.path) + pickle.dumps((arguments, source, threads, inputs))
    process = subprocess.run([python, "-c", _PROGRAM], input=told, capture_output=True)
    found = re.search(rb"^VmHWM:\s*(\d+) kB$", process.stdout, re.MULTILINE)
    return 1024 * int(found[1]) if found else None


def _print_peak(
    arguments: Mapping[str, Any] | None, source: str | bytes, threads: int, inputs: dict[str, Any]
) -> None:
    """Makes a session, runs it, and prints what the system tells of this process."""
    _session(arguments, source, threads).run(None, inputs)
    print(Path("/proc/self/status").read_text())


def _inputs(
    session: onnxruntime.InferenceSession,
    given: Mapping[str, numpy.ndarray[Any, Any]],
    sizes: Mapping[str, int],
) -> dict[str, numpy.ndarray[Any, Any]]:
    """The inputs of a session: those that are given, and others made up."""
    import numpy

    declared = session.get_inputs()
    for name in {*given} - {it.name for it in declared}:
        expected = ", ".join(it.name for it in declared)
        raise _InputError(f"there is no input {name!r}, expected {expected}")
    inputs = dict(given)
    random = numpy.random.default_rng(0)
    for it in declared:
        if it.name in inputs:
            continue
        shape = [sizes.get(size, size) if isinstance(size, str) else size for size in it.shape]
        if it.type not in _TYPES or not all(isinstance(size, int) for size in shape):
            raise _InputError(
                f"input {it.name!r} is {it.type} {shape}: give inputs={{{it.name!r}: ...}}, or its sizes"
            )
        dtype = _TYPES[it.type]
        floats = dtype.startswith("float")
        values = random.uniform(-1, 1, shape) if floats else numpy.ones(shape)
        inputs[it.name] = values.astype(dtype)
    return inputs


def _in_turns(prepared: list[_Prepared], inputs: dict[str, Any], seconds: float) -> None:
    """Times each session in turns until a time has passed."""
    turn = seconds / (_TURNS * len(prepared))
    end = time.perf_counter() + seconds
    while True:
        for one in prepared:
            begin = time.perf_counter()
            one.session.run(None, inputs)
            now = time.perf_counter()
            # Short runs have an untimed one first: others ran in between.
            if now - begin >= turn / 2:
                one.times.append(now - begin)
            while not one.times or now - begin < turn:
                start = now
                one.session.run(None, inputs)
                now = time.perf_counter()
                one.times.append(now - start)
        if time.perf_counter() >= end:
            return


def _difference(
    session: onnxruntime.InferenceSession, expected: list[Any], got: list[Any]
) -> str | None:
    """The first output that differs by more than the tolerance."""
    import numpy

    for output, one, other in zip(session.get_outputs(), expected, got):
        try:
            numpy.testing.assert_allclose(other, one, _RELATIVE, _ABSOLUTE)
        # Lists, and tensors of strings, are no numbers.
        except (TypeError, ValueError):
            if not numpy.array_equal(one, other):
                return f"output {output.name!r} differs"
        except AssertionError:
            return f"output {output.name!r} differs"
    return None
