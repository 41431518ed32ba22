"""Skipped nodes and attributes, and copied links, in the report of a copy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tessarr.format.user_warnings import warn_user

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["NOT_COPIED", "CopiedLink", "Skipped", "skip_attribute", "warn_of_skipped"]

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
