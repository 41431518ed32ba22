"""Warnings that point to the line of user code that called Tessarr."""

from __future__ import annotations

import sys
import warnings
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tessarr.errors import TessarrWarning

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["remember_caller", "warn_user"]

_PACKAGE: Final = __file__[: -len("format/user_warnings.py")]

_CALLBACK_PACKAGES: Final = frozenset(
    {"asyncio", "collections", "concurrent", "contextlib", "functools", "threading"}
)
"""Packages of the standard library that call back into Tessarr: their frames are not the user's."""


class _Caller(NamedTuple):
    filename: str
    line: int
    names: dict[str, Any]
    """The global names of the module, in which `warnings` records the warnings it has shown."""


_remembered: ContextVar[_Caller | None] = ContextVar("tessarr_caller", default=None)


def warn_user(message: str, category: type[Warning] = TessarrWarning) -> None:
    """Warn at the innermost line outside Tessarr on the call stack.

    Parameters
    ----------
    message
        What is wrong, where, and what to do.
    category
        The class of the warning.

    Notes
    -----
    `warnings.warn` needs a ``stacklevel``, which depends on the call path; ``skip_file_prefixes``
    needs Python 3.12. A worker thread has no frame of user code, so `remember_caller` records the
    line before.
    """
    caller = _find_caller() or _remembered.get()
    if caller is None:
        warnings.warn(message, category, stacklevel=2)
        return
    registry = caller.names.setdefault("__warningregistry__", {})
    module = caller.names.get("__name__") or "<string>"
    # Without `module_globals`, which would request the source of an interactive module.
    warnings.warn_explicit(message, category, caller.filename, caller.line, module, registry)


def remember_caller() -> None:
    """Record the line of user code for warnings in this context, such as that of a new thread."""
    _remembered.set(_find_caller() or _remembered.get())


def _find_caller() -> _Caller | None:
    """Return the innermost line outside Tessarr, or None if there is no such frame."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_inside(frame):
        frame = frame.f_back
    if frame is None:
        return None
    return _Caller(frame.f_code.co_filename, frame.f_lineno, frame.f_globals)


def _is_inside(frame: FrameType) -> bool:
    if frame.f_code.co_filename.startswith(_PACKAGE):
        return True
    name = str(frame.f_globals.get("__name__", ""))
    return name.partition(".")[0] in _CALLBACK_PACKAGES
