"""ReverseSequence for ONNX Runtime 1.24 or later, and recurrent loops as layers.

A session whose ReverseSequence nodes run on ``RevSeqExecutionProvider``, and whose recurrent layers and
loops run as fast as this package has them::

    from onnxruntime_ep_revseq import create_session

    session = create_session("model.onnx", accelerate=True)

Which way is the fastest for a model, and by how much::

    from onnxruntime_ep_revseq import bench

    print(bench("model.onnx"))

With session options of your own::

    import onnxruntime
    from onnxruntime_ep_revseq import register

    options = onnxruntime.SessionOptions()
    options.add_provider_for_devices([register()], {})
    session = onnxruntime.InferenceSession("model.onnx", options)

What became of its loops::

    from onnxruntime_ep_revseq import report

    print(report(session))

A model that is rewritten for any runtime::

    from onnxruntime_ep_revseq import rewrite

    model, report = rewrite("model.onnx", portable=True)

The package contains no ONNX Runtime, and imports it only when a function needs it: use any build of
it, or install the extra ``ort``.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from ._bench import Bench, Way, bench
from ._report import Left, ReportError, SessionReport, Taken, report
from ._rewrite import Report, RewriteError, Step, rewrite
from .worker import (
    AssignmentError,
    ProviderOptions,
    RegistrationError,
    RewriteWarning,
    create_session,
    register,
)

if TYPE_CHECKING:
    __version__: str

__all__ = [
    "AssignmentError",
    "Bench",
    "Left",
    "ProviderOptions",
    "RegistrationError",
    "Report",
    "ReportError",
    "RewriteError",
    "RewriteWarning",
    "SessionReport",
    "Step",
    "Taken",
    "Way",
    "bench",
    "create_session",
    "get_ep_name",
    "get_ep_names",
    "get_library_path",
    "register",
    "report",
    "rewrite",
]

_EP_NAME = "RevSeqExecutionProvider"


def get_library_path() -> str:
    """Returns the absolute path of the shared library."""
    folder = Path(__file__).resolve().parent
    # Each platform has its own beginning and end of the name, and each wheel one library.
    for path in folder.glob("*revseq_ep.*"):
        return str(path)
    raise FileNotFoundError(
        f"no library of the provider is in {folder}: install onnxruntime-ep-revseq from its wheel"
    )


def get_ep_names() -> list[str]:
    """Returns the names of the execution providers in the library: only one."""
    return [_EP_NAME]


def get_ep_name() -> str:
    """Returns the name of the library's execution provider."""
    return _EP_NAME


def __getattr__(name: str) -> str:
    """Looks ``__version__`` up once it is asked for: it is that of the package as installed."""
    if name == "__version__":
        import importlib.metadata

        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version("onnxruntime-ep-revseq")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
