"""Rewriting models, by a function of the shared library. Needs neither onnx nor onnxruntime."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import json
import os
import stat
from typing import TYPE_CHECKING, Any, Literal

from ._library import OUT_OF_MEMORY, answer, package_library

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Union

    from ._library import Bytes

    #: A model: its path, or its bytes.
    Model = Union[str, os.PathLike[str], bytes, bytearray, memoryview]

#: What a caller may vouch for.
Assumption = Literal["right-padded", "constant-initializers"]


class RewriteError(ValueError):
    """A model cannot be rewritten: says which, and why."""


@dataclasses.dataclass(frozen=True)
class Step:
    """The result of a pass for one node."""

    #: The pass, such as ``recurrent-loop``.
    pass_name: str
    #: ``exact`` if the outputs are equal bit for bit, ``rounding`` if they are up to rounding.
    exactness: Literal["exact", "rounding"]
    #: The names of the nodes around the node, from the outside in, or of its function.
    graph: tuple[str, ...]
    #: The node's name, or its operator and place.
    node: str
    operator: str
    #: Whether the node was rewritten. Otherwise it is as it was.
    rewritten: bool
    #: The node's replacement, or why it was left alone.
    text: str

    def __str__(self) -> str:
        place = " / ".join((*self.graph, self.node))
        outcome = "" if self.rewritten else "left alone: "
        return f"{place} ({self.operator}): {self.pass_name}: {outcome}{self.text}"


@dataclasses.dataclass(frozen=True)
class Report:
    """The changes to a model, node by node. As text, a line a node."""

    #: ``exact`` or ``rounding``, for the whole model.
    exactness: Literal["exact", "rounding"]
    steps: tuple[Step, ...]
    #: The inputs that are gone, each with the initializer that it listed and that only replaced
    #: nodes read.
    removed_inputs: tuple[str, ...] = ()

    @property
    def rewritten(self) -> tuple[Step, ...]:
        """The steps of nodes that were rewritten."""
        return tuple(step for step in self.steps if step.rewritten)

    @property
    def left_alone(self) -> tuple[Step, ...]:
        """The steps of nodes that a pass applies to but left alone."""
        return tuple(step for step in self.steps if not step.rewritten)

    def __str__(self) -> str:
        return "\n".join(map(str, self.steps))


def rewrite(
    model: Model,
    fast: bool = True,
    portable: bool = False,
    assume: Assumption | Sequence[Assumption] = (),
    passes: str | Sequence[str] = (),
    runtime: str | None = None,
) -> tuple[bytes, Report]:
    """Rewrites an ONNX model (its path or its bytes) and reports each change.

    ``fast`` makes LSTM, GRU and RNN of the loops that are recurrent layers; ``portable`` leaves
    standard operators only; ``passes`` names single passes besides. ``runtime`` is what is to run
    the result, if it is another one, such as ``"openvino"`` (``revseq rewrite --help`` lists them).
    What cannot be proved from the graph is left alone, and the report says why;
    ``assume="right-padded"`` vouches that in every mask the steps that count come first, and
    ``"constant-initializers"`` that no caller replaces an initializer that is an input as well.

    The result refers to the same files of external data as the model, relative to its folder.

    Raises ``RewriteError`` if it is no model, or if there is no such pass, runtime or assumption,
    ``TypeError`` if an argument is of another type, ``OSError`` if the file cannot be read, and
    ``MemoryError`` if there is not enough memory.
    """
    options: dict[str, Any] = {"fast": flag("fast", fast), "portable": flag("portable", portable)}
    if runtime is not None:
        if not isinstance(runtime, str):
            raise TypeError(f"runtime is {runtime!r}, expected a name such as 'openvino', or None")
        options["runtime"] = runtime
    options["passes"] = _names("passes", passes)
    options["assume"] = _names("assume", assume)
    with rewriting(model, **options) as result:
        return result.to_bytes(), result.report


def flag(argument: str, value: object) -> bool:
    """A truth value, or a number that is meant as one."""
    if isinstance(value, str) or value not in (True, False):
        raise TypeError(f"{argument} is {value!r}, expected True or False")
    return bool(value)


def _names(argument: str, names: str | Sequence[str]) -> list[str]:
    """A list of names, of which one may be given by itself."""
    if isinstance(names, str):
        return [names]
    try:
        listed = list(names)
    except TypeError:
        listed = [names]
    for name in listed:
        if not isinstance(name, str):
            raise TypeError(f"{argument} has {name!r}, expected a name, or a list of names")
    return listed


def source_of(model: Model) -> str | bytes:
    """The path of a model whose file can be read, or its bytes."""
    if isinstance(model, bytes):
        return model
    if isinstance(model, (bytearray, memoryview)):
        return bytes(model)
    if not isinstance(model, (str, os.PathLike)):
        hint = ", such as model.SerializeToString()" if hasattr(model, "SerializeToString") else ""
        raise TypeError(
            f"the model is of type {type(model).__name__}, expected a path or bytes{hint}"
        )
    path = os.fspath(model)
    kind = os.stat(path).st_mode
    if stat.S_ISREG(kind) or stat.S_ISDIR(kind):
        # Python's errors say which file, and have classes of their own.
        with open(path, "rb"):
            pass
    return path


# Its own prototype, since those of `ctypes.pythonapi` are shared by the whole process.
_new_bytes = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_char_p, ctypes.c_ssize_t)(
    ("PyBytes_FromStringAndSize", ctypes.pythonapi)
)


@dataclasses.dataclass(frozen=True)
class Rewriting:
    """A rewritten model, in memory of the library."""

    report: Report
    #: The folder where the model's external data is, if a link of the model's leads there.
    data_folder: str | None
    has_external_data: bool
    _model: Bytes

    @property
    def size(self) -> int:
        """The model's size in bytes."""
        return int(self._model.size)

    def view(self) -> memoryview:
        """The model, as long as this exists."""
        return memoryview((ctypes.c_ubyte * self.size).from_address(self._model.start))

    def to_bytes(self) -> bytes:
        """A copy of the model."""
        # A large copy takes a while, in which other threads go on: unlike `bytes(view)`, a
        # function called by ctypes has no need of the interpreter's lock.
        copied: bytes = _new_bytes(None, self.size)
        ctypes.memmove(ctypes.c_char_p(copied), self._model.start, self.size)
        return copied


@contextlib.contextmanager
def rewriting(model: Model, **options: Any) -> Iterator[Rewriting]:
    """Rewrites a model with the options of the library's ``RevSeqRewrite``; frees it at the end."""
    given = source_of(model)
    if isinstance(given, bytes):
        source, content = "the model", given
    else:
        source, content = given, os.fsencode(given)
        options["is_path"] = True
    del given
    encoded = json.dumps(options).encode()
    library = package_library()
    with answer(library, library.RevSeqRewrite(content, len(content), encoded, len(encoded))) as found:
        del content
        if found.error is not None:
            error = MemoryError if found.kind == OUT_OF_MEMORY else RewriteError
            raise error(f"{source}: {found.error}")
        report = json.loads(found.text)
        steps = tuple(map(_step, report["steps"]))
        yield Rewriting(
            Report(report["exactness"], steps, tuple(report["removed_inputs"])),
            report["data_folder"],
            report["has_external_data"],
            found.model,
        )


def not_a_model(model: str | bytes) -> str | None:
    """What a file or bytes are instead of a model, as far as the library can tell."""
    try:
        with rewriting(model):
            return None
    except RewriteError as error:
        return str(error) if "it is not an ONNX model" in str(error) else None


def _step(step: dict[str, Any]) -> Step:
    rewritten = step["result"] == "rewritten"
    return Step(
        pass_name=step["pass"],
        exactness=step["exactness"],
        graph=tuple(step["graph"]),
        node=step["node"],
        operator=step["operator"],
        rewritten=rewritten,
        text=step["to"] if rewritten else step["reason"],
    )
