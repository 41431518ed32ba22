"""Patterns that include members of a group in a copy, or exclude them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, TypeVar

from tessarr.errors import ArgumentError
from tessarr.format.node_path import ancestors

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ALL_MEMBERS", "MemberFilter"]

_Node = TypeVar("_Node")


@dataclass(frozen=True, slots=True)
class MemberFilter:
    """Patterns of paths.

    A pattern matches the last names of a path: ``ref`` matches ``ref`` and ``a/ref``. With a
    leading slash it matches the whole path. In a name ``*``, ``?`` and ``[…]`` match as in a shell,
    and ``**`` matches any number of names. A pattern that matches a group applies to all nodes
    below it.

    Parameters
    ----------
    include
        Include only members that match one of these; by default all.
    exclude
        Exclude members that match one of these.

    Examples
    --------
    >>> member_filter = MemberFilter.from_patterns(include="run*", exclude=["raw", "/run2"])
    >>> list(filter(member_filter.is_included, ["run1/a", "run1/raw/x", "run2/a", "b"]))
    ['run1/a']
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    @classmethod
    def from_patterns(
        cls, include: str | Iterable[str] | None, exclude: str | Iterable[str] | None
    ) -> MemberFilter:
        """Return a filter from one or several patterns of the user.

        Raises
        ------
        ArgumentError
            If a pattern is not a string, or is empty.
        """
        return cls(_parse_patterns("include", include), _parse_patterns("exclude", exclude))

    def is_included(self, path: str) -> bool:
        """Return whether a path is included."""
        if self.include and not _matches(self.include, path):
            return False
        return not _matches(self.exclude, path)

    def select_nodes(self, nodes: Mapping[str, _Node]) -> dict[str, _Node]:
        """Return the included nodes, with the groups above them.

        Parameters
        ----------
        nodes
            Nodes by path; the filter always includes the top node ``""``.

        Raises
        ------
        ArgumentError
            If no node is included.
        """
        if not self.include and not self.exclude:
            return dict(nodes)
        included = {path for path in nodes if path and self.is_included(path)}
        if self.include and not included:
            patterns = ", ".join(map(repr, self.include))
            raise ArgumentError(f"include={patterns}: no array or group of the source matches")
        holders = {above for path in included for above in ancestors(path)}
        return {path: nodes[path] for path in nodes if not path or path in included | holders}


ALL_MEMBERS = MemberFilter()
"""A filter that includes all nodes."""


def _parse_patterns(name: str, value: Any) -> tuple[str, ...]:
    patterns = (value,) if isinstance(value, str) else value
    if patterns is None:
        return ()
    result = tuple(patterns) if isinstance(patterns, Iterable) else (patterns,)
    for pattern in result:
        if not isinstance(pattern, str) or not pattern.strip("/"):
            raise ArgumentError(
                f"{name}={value!r}: a pattern of paths is a text such as 'run*/raw'"
            )
    return result


def _matches(patterns: tuple[str, ...], path: str) -> bool:
    """Return whether a path, or that of a group above it, matches a pattern."""
    names = path.split("/")
    return any(
        _matches_names(_split_pattern(pattern), names[:count])
        for pattern in patterns
        for count in range(1, len(names) + 1)
    )


def _split_pattern(pattern: str) -> list[str]:
    parts = [part for part in pattern.split("/") if part]
    return parts if pattern.startswith("/") else ["**", *parts]


def _matches_names(parts: list[str], names: list[str]) -> bool:
    """Return whether names match the parts of a pattern.

    Examples
    --------
    >>> _matches_names(["**", "a", "**", "d*"], ["x", "a", "b", "c", "data"])
    True
    >>> _matches_names(["a"], ["x", "a"])
    False
    """
    if not parts:
        return not names
    if parts[0] == "**":
        return any(_matches_names(parts[1:], names[start:]) for start in range(len(names) + 1))
    return bool(names) and fnmatchcase(names[0], parts[0]) and _matches_names(parts[1:], names[1:])
