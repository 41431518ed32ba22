"""The report and the log of a copy: skipped nodes and attributes, and copied links."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeAlias

from tessarr.errors import ArgumentError, StoreError
from tessarr.format.user_warnings import warn_user
from tessarr.store.paths import expand_user

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

__all__ = [
    "NOT_COPIED",
    "CopiedLink",
    "LogLike",
    "Skipped",
    "format_summary",
    "open_log",
    "skip_attribute",
    "warn_of_skipped",
]

NOT_COPIED: Final = "not copied: "
"""The start of the warning about skipped nodes."""

_MAX_NAMED: Final = 10


@dataclass(frozen=True, slots=True)
class Skipped:
    """A node or an attribute that a copy skipped.

    Parameters
    ----------
    path
        The path of the node from the top node.
    reason
        The reason why it cannot be copied.
    attribute
        The name of the attribute; None for the node itself.

    Examples
    --------
    >>> print(Skipped("a/b", "a reference", "target"))
    /a/b, attribute 'target': a reference
    """

    path: str
    reason: str
    attribute: str | None = None

    def __str__(self) -> str:
        where = f"/{self.path}"
        if self.attribute is not None:
            where += f", attribute {self.attribute!r}"
        return f"{where}: {self.reason}"


@dataclass(frozen=True, slots=True)
class CopiedLink:
    """A link of an HDF5 file that became a copy of its target, as Zarr has no links.

    Parameters
    ----------
    path
        The path of the link from the top node.
    kind
        "soft", "hard" or "external".
    target
        The target of the link: a path in the file, or ``file:path``.

    Examples
    --------
    >>> print(CopiedLink("b", "soft", "/a"))
    /b: a copy of /a (soft link)
    """

    path: str
    kind: str
    target: str

    def __str__(self) -> str:
        return f"/{self.path}: a copy of {self.target} ({self.kind} link)"


def skip_attribute(skipped: list[Skipped], path: str) -> Callable[[str, str], None]:
    """Return a function that records a skipped attribute of a node with the reason.

    Examples
    --------
    >>> skipped = []
    >>> skip_attribute(skipped, "a")("target", "a reference")
    >>> skipped
    [Skipped(path='a', reason='a reference', attribute='target')]
    """

    def skip(attribute: str, reason: str) -> None:
        skipped.append(Skipped(path, reason, attribute))

    return skip


def warn_of_skipped(skipped: Sequence[Skipped]) -> None:
    """Warn about skipped nodes and attributes, if any."""
    if not skipped:
        return
    text = "; ".join(map(str, skipped[:_MAX_NAMED]))
    more_count = len(skipped) - _MAX_NAMED
    suffix = f"; and {more_count:,} more" if more_count > 0 else ""
    warn_user(f"{NOT_COPIED}{text}{suffix}")


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
        raise ArgumentError(f"log must be a function, a path or an object with write, not {log!r}")


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
