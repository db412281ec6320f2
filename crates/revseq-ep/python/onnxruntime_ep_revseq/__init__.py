"""Locates the shared library of ``RevSeqExecutionProvider``, and rewrites models.

This is a plugin execution provider for ONNX Runtime 1.24 or later on Linux
x86-64. Register it with::

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
_LIBRARY = "librevseq_ep.so"


def get_library_path() -> str:
    """The absolute path of the shared library."""
    path = Path(__file__).resolve().with_name(_LIBRARY)
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: install onnxruntime-ep-revseq from its wheel")
    return str(path)


def get_ep_names() -> list[str]:
    """The names of the execution providers in the library: only one."""
    return [_EP_NAME]


def get_ep_name() -> str:
    """The name of the library's execution provider."""
    return _EP_NAME
