"""Which members of a group a copy takes: patterns that include and exclude paths."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, TypeVar

from tessarr.errors import ArgumentError
from tessarr.format.node_path import ancestors

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["EVERYTHING", "Choice"]

_Node = TypeVar("_Node")


@dataclass(frozen=True, slots=True)
class Choice:
    """Patterns of paths.

    A pattern matches the last names of a path: ``ref`` matches ``ref`` and ``a/ref``. With a slash
    in front it matches the whole path. In a name ``*``, ``?`` and ``[…]`` match as in a shell, and
    ``**`` stands for any number of names. A pattern that matches a group stands for all below it.

    Parameters
    ----------
    include
        Take only what matches one of these; everything, if there are none.
    exclude
        Leave out what matches one of these.

    Examples
    --------
    >>> choice = Choice.of(include="run*", exclude=["raw", "/run2"])
    >>> [path for path in ("run1/a", "run1/raw/x", "run2/a", "b") if choice.takes(path)]
    ['run1/a']
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    @classmethod
    def of(cls, include: str | Iterable[str] | None, exclude: str | Iterable[str] | None) -> Choice:
        """Return a choice of what a user gives: patterns, one or several.

        Raises
        ------
        ArgumentError
            If one of them is no text, or empty.
        """
        return cls(_patterns("include", include), _patterns("exclude", exclude))

    def takes(self, path: str) -> bool:
        """Tell whether a copy takes what is at a path."""
        if self.include and not _matches(self.include, path):
            return False
        return not _matches(self.exclude, path)

    def among(self, nodes: Mapping[str, _Node]) -> dict[str, _Node]:
        """Return the nodes that a copy takes, with the groups that hold them.

        Parameters
        ----------
        nodes
            Nodes by path; ``""`` is the one at the top, which is always taken.

        Raises
        ------
        ArgumentError
            If no node is included.
        """
        if not self.include and not self.exclude:
            return dict(nodes)
        taken = {path for path in nodes if path and self.takes(path)}
        if self.include and not taken:
            shown = ", ".join(map(repr, self.include))
            raise ArgumentError(f"include={shown}: no array or group of the source matches")
        holders = {above for path in taken for above in ancestors(path)}
        return {path: nodes[path] for path in nodes if not path or path in taken | holders}


EVERYTHING = Choice()
"""The choice of all nodes."""


def _patterns(name: str, given: Any) -> tuple[str, ...]:
    patterns = (given,) if isinstance(given, str) else given
    if patterns is None:
        return ()
    found = tuple(patterns) if isinstance(patterns, Iterable) else (patterns,)
    for pattern in found:
        if not isinstance(pattern, str) or not pattern.strip("/"):
            raise ArgumentError(
                f"{name}={given!r}: a pattern of paths is a text such as 'run*/raw'"
            )
    return found


def _matches(patterns: tuple[str, ...], path: str) -> bool:
    """Tell whether a path, or that of a group above it, matches one of some patterns."""
    names = path.split("/")
    return any(
        _fits(_parts(pattern), names[:count])
        for pattern in patterns
        for count in range(1, len(names) + 1)
    )


def _parts(pattern: str) -> list[str]:
    parts = [part for part in pattern.split("/") if part]
    return parts if pattern.startswith("/") else ["**", *parts]


def _fits(parts: list[str], names: list[str]) -> bool:
    """Tell whether names match the parts of a pattern.

    Examples
    --------
    >>> _fits(["**", "a", "**", "d*"], ["x", "a", "b", "c", "data"]), _fits(["a"], ["x", "a"])
    (True, False)
    """
    if not parts:
        return not names
    if parts[0] == "**":
        return any(_fits(parts[1:], names[at:]) for at in range(len(names) + 1))
    return bool(names) and fnmatchcase(names[0], parts[0]) and _fits(parts[1:], names[1:])
