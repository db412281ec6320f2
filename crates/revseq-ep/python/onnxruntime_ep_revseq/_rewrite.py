"""Rewriting models, by a function of the shared library. Needs neither onnx nor onnxruntime."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

_MODEL, _REPORT, _ERROR = range(3)
_RECEIVE = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t)


class RewriteError(ValueError):
    """A model cannot be rewritten: says which, and why."""


@dataclasses.dataclass(frozen=True)
class Step:
    """The result of a pass for one node."""

    #: The pass, such as ``recurrent-loop``.
    pass_name: str
    #: ``exact`` if the outputs are equal bit for bit, ``rounding`` if they are up to rounding.
    exactness: str
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
    exactness: str
    steps: tuple[Step, ...]
    #: The inputs that are gone, each with the initializer that it listed and that only replaced
    #: nodes read.
    removed_inputs: tuple[str, ...] = ()

    @property
    def rewritten(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.rewritten)

    @property
    def left_alone(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if not step.rewritten)

    def __str__(self) -> str:
        return "\n".join(map(str, self.steps))


def rewrite(
    model: str | os.PathLike[str] | bytes,
    fast: bool = True,
    portable: bool = False,
    assume: Sequence[str] = (),
    passes: Sequence[str] = (),
    runtime: str | None = None,
) -> tuple[bytes, Report]:
    """Rewrites an ONNX model (its path or its bytes) and reports each change.

    ``fast`` makes LSTM, GRU and RNN of the loops that are recurrent layers; ``portable`` leaves
    standard operators only; ``passes`` names single passes besides. ``runtime`` is what is to run
    the result, if it is another one, such as ``"openvino"`` (``revseq rewrite --help`` lists them).
    What cannot be proved from the graph is left alone, and the report says why;
    ``assume=["right-padded"]`` vouches that in every mask the steps that count come first, and
    ``"constant-initializers"`` that no caller replaces an initializer that is an input as well.

    The result refers to the same files of external data as the model, relative to its folder.

    Raises ``RewriteError`` if it is no model, or if there is no such pass, runtime or assumption, and
    ``OSError`` if the file cannot be read.
    """
    if isinstance(model, (bytes, bytearray, memoryview)):
        source, content = "the model", bytes(model)
    else:
        source = os.fspath(model)
        with open(source, "rb") as file:
            content = file.read()
    options: dict[str, Any] = {"fast": fast, "portable": portable}
    if runtime is not None:
        options["runtime"] = runtime
    options |= {"passes": list(passes), "assume": list(assume)}
    parts: dict[int, bytes] = {}
    encoded = json.dumps(options).encode()
    receive = _RECEIVE(lambda part, data, size: parts.update({part: ctypes.string_at(data, size)}))
    _function()(content, len(content), encoded, len(encoded), receive)
    if _ERROR in parts:
        raise RewriteError(f"{source}: {parts[_ERROR].decode()}")
    report = json.loads(parts[_REPORT])
    steps = tuple(map(_step, report["steps"]))
    return parts[_MODEL], Report(report["exactness"], steps, tuple(report["removed_inputs"]))


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


def _function() -> Any:
    from . import get_library_path

    function = ctypes.CDLL(get_library_path()).RevSeqRewrite
    size = ctypes.c_size_t
    function.argtypes = [ctypes.c_char_p, size, ctypes.c_char_p, size, _RECEIVE]
    function.restype = None
    return function
