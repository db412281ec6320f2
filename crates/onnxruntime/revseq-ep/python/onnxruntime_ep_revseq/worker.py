"""Sessions with ``RevSeqExecutionProvider``, in one process or in many workers.

::

    from onnxruntime_ep_revseq import worker

    session = worker.create_session("model.onnx", accelerate=True)

Neither a session nor its options can be pickled, so every worker of Ray, Spark and the like makes
its own::

    class Infer:
        def __init__(self, model):
            self.session = worker.create_session(model, threads=2)

The module imports ONNX Runtime only when a function is called.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import shutil
import socket
import sys
import tempfile
import threading
import warnings
import weakref
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args, get_type_hints

from ._report import LOOPS, ReportError, remember, report
from ._rewrite import RewriteError, flag, not_a_model, rewriting, source_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import onnxruntime

    from ._rewrite import Model, Report

__all__ = [
    "AssignmentError",
    "ProviderOptions",
    "RegistrationError",
    "RewriteWarning",
    "check_assignment",
    "create_session",
    "register",
]

#: The operators of the provider, with their domains.
_OPERATORS = {("", "ReverseSequence"), ("revseq", "ReverseSubsequences")}
_NAME = "revseq"
#: Where ONNX Runtime looks for the external data of a model that it gets as bytes.
_EXTERNAL_DATA_FOLDER = "session.model_external_initializers_file_folder_path"
#: The oldest ONNX Runtime that has plugin providers as this one needs them, and its oldest Python.
_OLDEST, _OLDEST_PYTHON = (1, 24), (3, 11)
#: The bytes of a model from which ONNX Runtime reads it from a file: Python's sessions keep the
#: bytes that they are made of.
_LARGE = 64 << 20
_lock = threading.RLock()
_sessions: weakref.WeakSet[onnxruntime.InferenceSession] = weakref.WeakSet()

# A process that is forked while another thread registers the library would have the locks of that
# thread, and nobody to release them: this one's, and those inside of ONNX Runtime.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
    )


class ProviderOptions(TypedDict, total=False):
    """The provider's options, for ``provider_options``."""

    #: What becomes of lengths out of range.
    lengths: Literal["reject", "clamp"]
    #: Whether the provider computes the LSTM, GRU and RNN nodes of the model.
    layers: Literal["on", "off"]
    #: Whether the provider replaces loops that are layers.
    loops: Literal["keep", "layers", "steps"]
    #: What the session vouches for, as to its loops.
    assume: Literal["right-padded"]


class RegistrationError(RuntimeError):
    """The library could not be registered; says why, and on which machine."""


class AssignmentError(RuntimeError):
    """Nodes of a model that the provider should run are with another one; says which, and why."""


class RewriteWarning(UserWarning):
    """A loop was left as it is; names it, and says why."""


def register() -> onnxruntime.OrtEpDevice:
    """Registers the library in this process unless it is, and returns the provider's device.

    It may be called any number of times, from any thread, and after a registration by others.
    What this function registered is unregistered when the interpreter exits.

    Raises ``RegistrationError``, and ``ModuleNotFoundError`` without ONNX Runtime.
    """
    onnxruntime = _onnxruntime()

    from . import get_library_path

    with _lock:
        if (device := _device()) is not None:
            return device
        try:
            onnxruntime.register_execution_provider_library(_NAME, get_library_path())
        # ONNX Runtime's own errors have no common base but Exception.
        except Exception as error:
            # Somebody else may have registered it since the look above.
            if (device := _device()) is not None:
                return device
            raise _registration_error(error) from error
        atexit.register(_unregister, os.getpid())
        device = _device()
        assert device is not None, "a registration without an error brings the device"
        return device


def _onnxruntime() -> Any:
    """ONNX Runtime, which is new enough."""
    try:
        import onnxruntime
    except ModuleNotFoundError as error:
        if error.name != "onnxruntime":
            raise
        message = "there is no ONNX Runtime: pip install 'onnxruntime-ep-revseq[ort]', or a build of it"
        raise ModuleNotFoundError(message + _python(), name=error.name) from None
    version = onnxruntime.__version__
    if tuple(int(number) for number in version.split(".")[:2]) < _OLDEST:
        raise _registration_error(
            f"it needs ONNX Runtime 1.24 or later, found {version}: "
            f"pip install -U onnxruntime, or the build of it that you use{_python()}"
        )
    return onnxruntime


def _python() -> str:
    """Says of a Python for which there is no such ONNX Runtime that it is too old."""
    if sys.version_info >= _OLDEST_PYTHON:
        return ""
    return "; ONNX Runtime 1.24 needs Python 3.11 or later, this is {}.{}".format(*sys.version_info)


def _registration_error(why: object) -> RegistrationError:
    where = f"{socket.gethostname()}, process {os.getpid()}"
    return RegistrationError(f"{where}: no {_ep_name()}: {why}")


def create_session(
    model: Model,
    *,
    accelerate: bool = False,
    threads: int = 0,
    rewrite: Literal["fast", False] | None = None,
    layers: bool | None = None,
    loops: bool | Literal["steps"] | None = None,
    provider_options: ProviderOptions | None = None,
    configure: Callable[[onnxruntime.SessionOptions], None] | None = None,
) -> onnxruntime.InferenceSession:
    """Makes a session on a model (its path or its bytes) whose nodes are with the provider.

    A model with external data is to be given by its path.

    With ``accelerate=True``, recurrent layers and loops run as fast as this package has them: as with
    ``loops="steps"``, and if loops are left that a rewrite replaces, or none is taken, as with
    ``rewrite="fast"`` besides, if that changes the model. A ``RewriteWarning`` names each loop that could be
    replaced and is left, and ``report(session)`` tells of all. What follows chooses single ways.

    ``threads`` is ``intra_op_num_threads``: give the CPUs that the worker has, since 0 takes all
    of the machine's. With ``rewrite="fast"``, loops that are recurrent layers run as LSTM, GRU and
    RNN; a ``RewriteWarning`` names each loop that is left. With ``layers=True``, the provider
    computes LSTM, GRU and RNN, and ONNX Runtime itself with ``layers=False``; by default the provider
    does with ``rewrite="fast"`` or ``loops=True``. With ``loops=True``, it computes loops that are such
    layers, though the model stays as it is; a ``RewriteWarning`` names each that could be replaced and is
    left, and ``report(session)`` tells of all. With ``loops="steps"``, loops that are no layers run as programs
    of their steps, too. ``provider_options`` are those of ``ProviderOptions``:
    ``lengths``, ``layers``, ``loops``, and ``assume`` for either. ``configure`` may set further
    session options.

    A rewritten model of more than 64 MB without external data is in a temporary file while ONNX
    Runtime loads it.

    Raises ``RegistrationError``, ``AssignmentError``, ``RewriteError``, ``MemoryError`` or
    ``OSError``, ``TypeError`` and ``ValueError`` for arguments of other types and values and for what is
    no model, and ``ModuleNotFoundError`` without ONNX Runtime.
    """
    if rewrite not in (None, False, "fast"):
        raise ValueError(f"rewrite is {rewrite!r}, expected None or 'fast'")
    if not isinstance(threads, int):
        raise TypeError(f"threads is {threads!r}, expected an int")
    if flag("accelerate", accelerate):
        if (rewrite, layers, loops) != (None, None, None):
            raise ValueError("accelerate=True chooses rewrite, layers and loops: give it alone, or these")
        loops = "steps"
    entries = _options(provider_options, layers, loops, rewrite)
    # The rewrite makes use of it, too; the provider takes it with loops only.
    assume = [entries["assume"]] if "assume" in entries else []
    replaces = entries.get("loops") in _REPLACING
    if not replaces:
        entries.pop("assume", None)
    device = register()
    model = source_of(model)
    computes_layers = entries.get("layers", "on" if replaces else "off") == "on"
    of_rewriting = {"assume": assume, "takes_empty": computes_layers}

    def make(loadable: str | bytes, folder: str | None = None) -> onnxruntime.InferenceSession:
        return _make(loadable, folder, device, entries, threads, configure)

    session = None if rewrite else make(model)
    warned = []
    if session is None or (accelerate and _is_left(session)):
        # A model that the rewrite refuses has a session all the same.
        refused = contextlib.nullcontext() if rewrite else contextlib.suppress(RewriteError)
        with refused, _rewritten(model, **of_rewriting) as (loadable, folder, rewritten):
            if rewrite:
                warned = [str(step) for step in rewritten.left_alone if step.operator in LOOPS]
            if rewrite or rewritten.rewritten:
                # Its memory is free before another one is made.
                session = None
                session = make(loadable, folder)
                remember(session, rewritten)
    assert session is not None, "one is made where none was"
    if replaces:
        warned += _kept(session)
    for line in warned:
        # Above: this function's caller.
        warnings.warn(line, RewriteWarning, stacklevel=2)
    return session


def _make(
    loadable: str | bytes,
    folder: str | None,
    device: onnxruntime.OrtEpDevice,
    entries: dict[str, str],
    threads: int,
    configure: Callable[[onnxruntime.SessionOptions], None] | None,
) -> onnxruntime.InferenceSession:
    """Makes a session with the provider; external data of bytes is in a folder."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    if folder is not None:
        options.add_session_config_entry(_EXTERNAL_DATA_FOLDER, folder)
    options.intra_op_num_threads = threads
    if configure is not None:
        configure(options)
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    options.add_provider_for_devices([device], entries)
    try:
        session = onnxruntime.InferenceSession(loadable, options)
    # ONNX Runtime's own errors have no common base but Exception.
    except Exception as error:
        if (what := not_a_model(loadable)) is not None:
            raise ValueError(what) from error
        raise
    # ONNX Runtime would answer some errors by running the model again without the provider.
    session.disable_fallback()
    check_assignment(session)
    _sessions.add(session)
    return session


def _is_left(session: onnxruntime.InferenceSession) -> bool:
    """Whether a rewrite may do what the provider does not: replace a loop that is left, or find layers that
    are none by name."""
    try:
        found = report(session)
    except ReportError:
        return False
    return not found.taken or any(left.could_be_replaced for left in found.left)


# The values of the option ``loops`` with which loops are replaced.
_REPLACING = ("layers", "steps")


def _kept(session: onnxruntime.InferenceSession) -> list[str]:
    """A line for each loop that could be replaced and stays, or for why that is not known."""
    try:
        return [str(left) for left in report(session).left if left.could_be_replaced]
    except ReportError as error:
        return [f"whether loops are replaced is not known: {error}"]


def _options(
    provider_options: ProviderOptions | None,
    layers: bool | None,
    loops: bool | Literal["steps"] | None,
    rewrite: Literal["fast", False] | None,
) -> dict[str, str]:
    """The provider's options, of which ``layers`` and ``loops`` may be arguments of their own."""
    options: dict[str, str] = {}
    # Checked here: ONNX Runtime says where in its source they were refused.
    for key, value in (provider_options or {}).items():
        if key not in ProviderOptions.__annotations__:
            known = ", ".join(ProviderOptions.__annotations__)
            raise ValueError(f"provider_options has {key!r}, expected {known}")
        if not isinstance(value, str):
            raise TypeError(f"provider_options[{key!r}] is {value!r}, expected a str")
        allowed = get_args(get_type_hints(ProviderOptions)[key])
        if value not in allowed:
            expected = " or ".join(map(repr, allowed))
            raise ValueError(f"provider_options[{key!r}] is {value!r}, expected {expected}")
        options[key] = value
    if loops is not None:
        if loops == "steps":
            options["loops"] = loops
        else:
            options["loops"] = "layers" if _switch("loops", loops) else "keep"
    if layers is not None:
        options["layers"] = "on" if _switch("layers", layers) else "off"
    elif rewrite == "fast":
        options.setdefault("layers", "on")
    if "assume" in options and options.get("loops") not in _REPLACING and not rewrite:
        raise ValueError(
            f"provider_options has 'assume': {options['assume']!r}, which is about loops that become layers, "
            "expected loops=True or rewrite='fast' beside it"
        )
    return options


def _switch(argument: str, value: object) -> bool:
    """A truth value, instead of which there may be a word among the provider's options."""
    if isinstance(value, str):
        raise TypeError(
            f"{argument} is {value!r}, expected True, False or None; "
            f"words go into provider_options={{{argument!r}: {value!r}}}"
        )
    return flag(argument, value)


@contextlib.contextmanager
def _rewritten(
    model: str | bytes, **of_rewriting: Any
) -> Iterator[tuple[str | bytes, str | None, Report]]:
    """The model with its recurrent loops as layers, as bytes or in a file that is removed at the end, the
    folder of its external data, and what was rewritten. Unless what computes them takes empty batches,
    these are an error: they end the process of ONNX Runtime.
    """
    folder = data = None
    try:
        with rewriting(model, fast=True, resolve_links=True, **of_rewriting) as result:
            if isinstance(model, str):
                data = result.data_folder or os.path.dirname(os.path.abspath(model))
            # External data of a model in a file has to be in the file's folder.
            loadable: str | bytes
            if result.size < _LARGE or result.has_external_data:
                loadable = result.to_bytes()
            else:
                folder = tempfile.mkdtemp(prefix="revseq-")
                loadable = os.path.join(folder, "model.onnx")
                _write(loadable, result.view())
            rewritten = result.report
        yield loadable, data, rewritten
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _write(path: str, content: memoryview) -> None:
    try:
        with open(path, "wb") as file:
            file.write(content)
    except OSError as error:
        size = f"{content.nbytes / 1e6:.0f} MB"
        why = f"{error.strerror}: the rewritten model of {size} is to go there (TMPDIR) while it loads"
        raise OSError(error.errno, why, path) from error


def check_assignment(session: onnxruntime.InferenceSession) -> int:
    """Counts the session's nodes that the provider runs.

    Raises ``AssignmentError``, which names them, if nodes of its operators are elsewhere. The
    session needs the option ``session.record_ep_graph_assignment_info``, as
    ``create_session`` sets it.
    """
    ours = 0
    elsewhere: list[tuple[str, str]] = []
    for subgraph in session.get_provider_graph_assignment_info():
        for node in subgraph.get_nodes():
            if (node.domain, node.op_type) not in _OPERATORS:
                continue
            if subgraph.ep_name == _ep_name():
                ours += 1
            else:
                elsewhere.append((subgraph.ep_name, f"{node.op_type} {node.name!r}"))
    if elsewhere:
        explained = "; ".join(_explained(*node) for node in elsewhere)
        raise AssignmentError(f"not with {_ep_name()}: {explained}")
    return ours


def _explained(ep_name: str, node: str) -> str:
    """Says why a node is with another provider, and what to do."""
    if ep_name == "CPUExecutionProvider":
        why = "its elements are strings, or of another type without a fixed size, which are left to it"
        way = "to allow that, make the session by"
    else:
        why = "it was added first"
        way = "to add it last, make the session by"
    return f"{node} is with {ep_name}: {why}; {way} onnxruntime.InferenceSession and register()"


def _ep_name() -> str:
    from . import get_ep_name

    return get_ep_name()


def _device() -> onnxruntime.OrtEpDevice | None:
    import onnxruntime

    found = (device for device in onnxruntime.get_ep_devices() if device.ep_name == _ep_name())
    return next(found, None)


def _unregister(registered_in: int) -> None:
    """Sessions first, the library last; a session that is still there keeps the library."""
    # A forked process has none of ONNX Runtime's threads, and ends without taking it down.
    if os.getpid() != registered_in:
        return
    gc.collect()
    if _sessions:
        return
    import onnxruntime

    onnxruntime.unregister_execution_provider_library(_NAME)
