"""What became of a session's nodes, asked of its provider."""

from __future__ import annotations

import dataclasses
import json
import uuid
import weakref
from typing import TYPE_CHECKING, Any

from ._library import answer, load

if TYPE_CHECKING:
    from collections.abc import Iterator

    import onnxruntime

    from ._rewrite import Report, Step

#: The operators that a recurrent layer is exported as if it is not one of its own.
LOOPS = ("Loop", "Scan")
#: The option with which a session is asked to leave its report under a key.
_OPTION = "ep.dynamic.revseq_report"


#: What was rewritten before ONNX Runtime saw the model.
_rewrites: weakref.WeakKeyDictionary[onnxruntime.InferenceSession, Report] = weakref.WeakKeyDictionary()


class ReportError(RuntimeError):
    """A session has no report; says why."""


@dataclasses.dataclass(frozen=True)
class Taken:
    """A loop that runs as something else."""

    operator: str
    node: str
    #: The names of the nodes around the loop, from the outside in.
    graph: tuple[str, ...]
    #: What runs instead, such as ``LSTM, forward``.
    to: str

    def __str__(self) -> str:
        return f"{_place(self)} runs as {self.to}"


@dataclasses.dataclass(frozen=True)
class Left:
    """A node of the provider's operators, or a loop, that runs with another provider."""

    operator: str
    node: str
    #: The names of the nodes around the node, from the outside in.
    graph: tuple[str, ...]
    reason: str
    #: Whether it is a loop for which there is a replacement.
    could_be_replaced: bool

    def __str__(self) -> str:
        though = ", though it could be replaced" if self.could_be_replaced else ""
        return f"{_place(self)} stays{though}: {self.reason}"


@dataclasses.dataclass(frozen=True)
class SessionReport:
    """What became of a session's nodes. As text, a line for each that is taken or left."""

    #: The loops that run as something else.
    taken: tuple[Taken, ...]
    #: The nodes that the provider looked at, and left.
    left: tuple[Left, ...]
    #: The number of LSTM, GRU and RNN nodes of the model itself that the provider runs.
    layers: int
    #: The number of reversals that it runs.
    reversals: int
    #: How often the nodes that replace loops have run so far, all of them together.
    fused_runs: int

    def __str__(self) -> str:
        return "\n".join(map(str, (*self.taken, *self.left)))


def report(session: onnxruntime.InferenceSession) -> SessionReport:
    """Tells which loops of a session run as layers, and which nodes the provider left, and why.

    The session may be made in any way, and be in use. Loops are looked at with ``loops=True`` or
    ``rewrite="fast"`` alone.

    Raises ``ReportError`` if the provider is not in the session, and ``TypeError`` if it is none.
    """
    if not hasattr(session, "set_ep_dynamic_options"):
        raise TypeError(f"the session is of type {type(session).__name__}, expected an InferenceSession")
    key, refusal = uuid.uuid4().hex, None
    try:
        session.set_ep_dynamic_options({_OPTION: key})
    # Another provider of the session may know no such option; ONNX Runtime's errors have no base.
    except Exception as error:
        refusal = error
    for path in _libraries():
        try:
            library = load(path)
        except (OSError, AttributeError):
            continue
        with answer(library, library.RevSeqSessionReport(key.encode(), len(key))) as found:
            if found.error is None:
                return _with_rewrite(_read(found.text), _rewrites.get(session))
    from . import get_ep_name

    why = f": {refusal}" if refusal else "; create_session adds it, and so does register() to options"
    raise ReportError(f"the session has no {get_ep_name()}{why}")


def _libraries() -> Iterator[str]:
    """The paths of the libraries that may have made the provider: those that are registered, and ours."""
    import onnxruntime

    from . import get_ep_name, get_library_path

    for device in onnxruntime.get_ep_devices():
        if device.ep_name == get_ep_name() and "library_path" in device.ep_metadata:
            yield device.ep_metadata["library_path"]
    yield get_library_path()


def _read(text: str) -> SessionReport:
    found = json.loads(text)

    def place(entry: dict[str, Any]) -> tuple[str, str, tuple[str, ...]]:
        return entry["operator"], entry["node"], tuple(entry["graph"])

    return SessionReport(
        tuple(Taken(*place(it), it["to"]) for it in found["taken"]),
        tuple(Left(*place(it), it["reason"], it["could_be_replaced"]) for it in found["left"]),
        found["layers"],
        found["reversals"],
        found["fused_runs"],
    )


def remember(session: onnxruntime.InferenceSession, rewrite: Report) -> None:
    """Keeps what was rewritten for the session's report."""
    _rewrites[session] = rewrite


def _with_rewrite(found: SessionReport, rewrite: Report | None) -> SessionReport:
    """Adds the loops that were rewritten, and those that were not and that the provider did not look at."""
    steps = [step for step in rewrite.steps if step.operator in LOOPS] if rewrite else []
    looked_at = {*map(_place, found.taken), *map(_place, found.left)}
    taken = (Taken(step.operator, step.node, step.graph, step.text) for step in steps if step.rewritten)
    left = (
        Left(step.operator, step.node, step.graph, step.text, False)
        for step in steps
        if not step.rewritten and _place(step) not in looked_at
    )
    return dataclasses.replace(found, taken=(*taken, *found.taken), left=(*left, *found.left))


def _place(entry: Taken | Left | Step) -> str:
    return f"{' / '.join((*entry.graph, entry.node))} ({entry.operator})"
