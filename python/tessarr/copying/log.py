"""Logs of the copy functions: a function, a file, or an object with ``write``."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

from tessarr.errors import ArgumentError, StoreError
from tessarr.store.paths import expand_user

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

__all__ = ["LogLike", "format_summary", "open_log"]

LogLike: TypeAlias = "Callable[[str], object] | str | os.PathLike[str] | Any | None"
"""A function for lines, the path of a file, an object with ``write``, or None."""


@contextmanager
def open_log(log: LogLike) -> Generator[Callable[[str], object]]:
    """Yield a function that writes a line.

    Examples
    --------
    >>> with open_log(print) as log_line:
    ...     log_line("copy a")
    copy a
    """
    if log is None:
        yield lambda _: None
    elif callable(log):
        yield log
    elif isinstance(log, str | os.PathLike):
        with _open_log(log) as file:
            yield lambda line: file.write(f"{line}\n")
    elif hasattr(log, "write"):
        yield lambda line: log.write(f"{line}\n")
    else:
        raise ArgumentError(f"log={log!r} is no function, no path, and nothing to write to")


def _open_log(log: str | os.PathLike[str]) -> TextIO:
    try:
        return Path(expand_user(log)).open("w", encoding="utf-8")
    except OSError as error:
        raise StoreError(
            f"cannot write log {log!r}: {error.strerror}", errno=error.errno
        ) from error
    except ValueError as error:
        raise ArgumentError(f"cannot write log {log!r}: {error}") from error


def format_summary(copied: int, skipped: int, copied_bytes: int | None) -> str:
    """Return the last line of a log; without bytes, that of a dry run.

    Examples
    --------
    >>> format_summary(3, 0, 800)
    'all done: 3 copied, 0 skipped, 800 bytes copied'
    """
    counts = f"{copied:,} copied, {skipped:,} skipped"
    if copied_bytes is None:
        return f"dry run: {counts}"
    return f"all done: {counts}, {copied_bytes:,} bytes copied"
