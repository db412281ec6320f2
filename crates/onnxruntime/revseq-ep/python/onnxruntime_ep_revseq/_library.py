"""The functions of the shared library that are not for ONNX Runtime, by ctypes."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class Bytes(ctypes.Structure):
    """Bytes that the library owns."""

    _fields_ = [("start", ctypes.c_void_p), ("size", ctypes.c_size_t)]


#: The kinds of an ``Answer``.
DONE, ERROR, OUT_OF_MEMORY = range(3)


class Answer(ctypes.Structure):
    """The library's ``Answer``, of which the last field is its own."""

    _fields_ = [("kind", ctypes.c_uint32), ("model", Bytes), ("content", Bytes)]

    @property
    def text(self) -> str:
        """What was asked for, or the error."""
        return ctypes.string_at(self.content.start, self.content.size).decode()

    @property
    def error(self) -> str | None:
        """Why there is no answer, if there is none."""
        return None if self.kind == DONE else self.text


@contextlib.contextmanager
def answer(library: Any, result: Any) -> Iterator[Answer]:
    """What a function of a library returned, which is freed at the end."""
    try:
        yield result.contents
    finally:
        library.RevSeqFree(result)


@functools.lru_cache(maxsize=None)
def load(path: str) -> Any:
    """The library in a file. In a process that has loaded it, it is that one.

    Raises ``OSError`` if it cannot be loaded, and ``AttributeError`` if it is older than a function.
    """
    library = ctypes.CDLL(path)
    size = ctypes.c_size_t
    library.RevSeqRewrite.argtypes = [ctypes.c_char_p, size, ctypes.c_char_p, size]
    library.RevSeqRewrite.restype = ctypes.POINTER(Answer)
    library.RevSeqSessionReport.argtypes = [ctypes.c_char_p, size]
    library.RevSeqSessionReport.restype = ctypes.POINTER(Answer)
    library.RevSeqFree.argtypes = [ctypes.POINTER(Answer)]
    library.RevSeqFree.restype = None
    return library


def package_library() -> Any:
    """The package's own library."""
    from . import get_library_path

    return load(get_library_path())
