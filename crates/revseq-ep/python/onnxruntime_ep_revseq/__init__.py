"""Locates the shared library of ``RevSeqExecutionProvider``, and rewrites models.

This is a plugin execution provider for ONNX Runtime 1.24 or later. Register it
with::

    import onnxruntime
    import onnxruntime_ep_revseq

    onnxruntime.register_execution_provider_library(
        "revseq", onnxruntime_ep_revseq.get_library_path()
    )

The package neither contains nor imports ONNX Runtime.
"""

from pathlib import Path

from ._rewrite import Report, RewriteError, Step, rewrite

__all__ = [
    "Report",
    "RewriteError",
    "Step",
    "get_ep_name",
    "get_ep_names",
    "get_library_path",
    "rewrite",
]

_EP_NAME = "RevSeqExecutionProvider"


def get_library_path() -> str:
    """The absolute path of the shared library."""
    folder = Path(__file__).resolve().parent
    # Each platform has its own beginning and end of the name, and each wheel one library.
    for path in folder.glob("*revseq_ep.*"):
        return str(path)
    raise FileNotFoundError(
        f"no library of the provider is in {folder}: install onnxruntime-ep-revseq from its wheel"
    )


def get_ep_names() -> list[str]:
    """The names of the execution providers in the library: only one."""
    return [_EP_NAME]


def get_ep_name() -> str:
    """The name of the library's execution provider."""
    return _EP_NAME
