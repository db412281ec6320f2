"""Sessions with ``RevSeqExecutionProvider`` in the workers of Ray, Spark and the like.

Neither a session nor its options can be pickled, so every worker makes its own::

    from onnxruntime_ep_revseq import worker

    class Infer:
        def __init__(self, model):
            self.session = worker.create_session(model, threads=2)

The module imports ONNX Runtime only when a function is called.
"""

from __future__ import annotations

import atexit
import gc
import os
import socket
import threading
import warnings
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import onnxruntime

__all__ = [
    "AssignmentError",
    "RegistrationError",
    "RewriteWarning",
    "check_assignment",
    "create_session",
    "register",
]

#: The operators of the provider, with their domains.
_OPERATORS = {("", "ReverseSequence"), ("revseq", "ReverseSubsequences")}
_NAME = "revseq"
#: The operators that a recurrent layer is exported as if it is not one of its own.
_LOOPS = {"Loop", "Scan"}
#: Where ONNX Runtime looks for the external data of a model that it gets as bytes.
_EXTERNAL_DATA_FOLDER = "session.model_external_initializers_file_folder_path"
_lock = threading.Lock()
_sessions: weakref.WeakSet[onnxruntime.InferenceSession] = weakref.WeakSet()


class RegistrationError(RuntimeError):
    """The library could not be registered; says on which machine."""


class AssignmentError(RuntimeError):
    """Nodes of a model that the provider should run are with another one."""


class RewriteWarning(UserWarning):
    """A loop was left as it is; names it, and says why."""


def register() -> onnxruntime.OrtEpDevice:
    """Registers the library in this process unless it is, and returns the provider's device.

    It may be called any number of times, from any thread, and after a registration by others.
    What this function registered is unregistered when the interpreter exits.
    """
    import onnxruntime

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
            where = f"{socket.gethostname()}, process {os.getpid()}"
            raise RegistrationError(f"{where}: no {_ep_name()}: {error}") from error
        atexit.register(_unregister, os.getpid())
        device = _device()
        assert device is not None, "a registration without an error brings the device"
        return device


def create_session(
    model: str | os.PathLike[str] | bytes,
    *,
    threads: int = 0,
    rewrite: str | None = None,
    provider_options: Mapping[str, str] | None = None,
    configure: Callable[[onnxruntime.SessionOptions], None] | None = None,
) -> onnxruntime.InferenceSession:
    """A session on a model (its path or its bytes) whose nodes are known to be with the provider.

    ``threads`` is ``intra_op_num_threads``: give the CPUs that the worker has, since 0 takes all
    of the machine's. With ``rewrite="fast"``, loops that are recurrent layers run as LSTM, GRU and
    RNN; a ``RewriteWarning`` names each loop that is left. ``configure`` may set further session
    options.

    Raises ``RegistrationError``, ``AssignmentError`` or ``RewriteError``.
    """
    if rewrite not in (None, "fast"):
        raise ValueError(f"rewrite is {rewrite!r}, expected None or 'fast'")
    device = register()
    import onnxruntime

    options = onnxruntime.SessionOptions()
    if rewrite:
        if not isinstance(model, bytes):
            folder = os.path.dirname(os.path.abspath(os.fspath(model)))
            options.add_session_config_entry(_EXTERNAL_DATA_FOLDER, folder)
        model = _rewrite(model)
    options.intra_op_num_threads = threads
    if configure is not None:
        configure(options)
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    options.add_provider_for_devices([device], dict(provider_options or {}))
    session = onnxruntime.InferenceSession(
        model if isinstance(model, bytes) else os.fspath(model), options
    )
    # ONNX Runtime would answer some errors by running the model again without the provider.
    session.disable_fallback()
    check_assignment(session)
    _sessions.add(session)
    return session


def _rewrite(model: str | os.PathLike[str] | bytes) -> bytes:
    """The model with its recurrent loops as layers; warns of those that are left."""
    from . import rewrite

    rewritten, report = rewrite(model, fast=True)
    for step in report.left_alone:
        if step.operator in _LOOPS:
            warnings.warn(str(step), RewriteWarning, stacklevel=3)
    return rewritten


def check_assignment(session: onnxruntime.InferenceSession) -> int:
    """The number of the session's nodes that the provider runs.

    Raises ``AssignmentError``, which names them, if nodes of its operators are elsewhere. The
    session needs the option ``session.record_ep_graph_assignment_info``, as
    ``create_session`` sets it.
    """
    ours, elsewhere = 0, []
    for subgraph in session.get_provider_graph_assignment_info():
        for node in subgraph.get_nodes():
            if (node.domain, node.op_type) not in _OPERATORS:
                continue
            if subgraph.ep_name == _ep_name():
                ours += 1
            else:
                elsewhere.append(f"{node.op_type} {node.name!r} is with {subgraph.ep_name}")
    if elsewhere:
        raise AssignmentError(f"not with {_ep_name()}: {'; '.join(elsewhere)}")
    return ours


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
