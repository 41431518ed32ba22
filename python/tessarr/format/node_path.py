"""Paths of nodes in a hierarchy.

A *path* is the position of a node: names joined by ``/``; the path of the root is ``""``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tessarr.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tessarr.types import ZarrFormat

__all__ = [
    "DOCUMENT_NAMES",
    "STAGED",
    "ancestors",
    "check_path",
    "find_reserved_names",
    "is_node_name",
    "join",
    "normalize_path",
    "split",
]

_RESERVED: Final[dict[ZarrFormat, frozenset[str]]] = {
    2: frozenset({".zarray", ".zgroup", ".zattrs", ".zmetadata"}),
    3: frozenset({"zarr.json"}),
}
DOCUMENT_NAMES: Final = frozenset[str]().union(*_RESERVED.values())
"""The last part of the key of every metadata document."""
_PERIODS: Final = re.compile(r"\.+")
_PLAIN_PATH: Final = re.compile(r"[a-zA-Z0-9_-]+(?:/[a-zA-Z0-9_-]+)*")
"""Paths in normal form whose names are valid in all formats."""


STAGED: Final = ".__new.__lock"
"""The suffix of a folder in which a node is being built; listings skip such folders."""


def normalize_path(path: str, zarr_format: ZarrFormat | None = None) -> str:
    r"""Return the normal form of a path.

    The normal form has no slashes at its ends and no consecutive slashes. In format 2 a
    backslash means a slash; in format 3 it is an ordinary character.

    Parameters
    ----------
    path : str
        Names joined by ``/``.
    zarr_format : {2, 3}, optional
        The format whose rules apply; by default only names that both formats forbid raise an
        error.

    Raises
    ------
    ArgumentError
        ``invalid_path``, if a name is not allowed.

    Examples
    --------
    >>> normalize_path("/foo//bar/"), normalize_path("a\\b", 2), normalize_path("/")
    ('foo/bar', 'a/b', '')
    >>> normalize_path("a/../b")
    Traceback (most recent call last):
    tessarr.errors.ArgumentError: path 'a/../b' is not allowed: '..' is not a name
    """
    check_path(path)
    if _PLAIN_PATH.fullmatch(path):
        return path
    text = path.replace("\\", "/") if zarr_format == 2 else path
    names = [name for name in text.split("/") if name]
    for name in names:
        reason = _invalid_reason(name, zarr_format)
        if reason is not None:
            message = f"path {path!r} is not allowed: {reason}"
            raise ArgumentError(message, kind="invalid_path", path=path)
    return "/".join(names)


def check_path(path: object) -> None:
    """Raise a TypeError unless `path` is a string."""
    if not isinstance(path, str):
        raise TypeError(f"the path in a store is a string, not {type(path).__name__}")


def is_node_name(name: str, zarr_format: ZarrFormat) -> bool:
    """Tell whether `name` is a valid name of a node; listings skip other names.

    Examples
    --------
    >>> is_node_name("a", 3), is_node_name("...", 3), is_node_name("zarr.json", 3)
    (True, False, False)
    """
    return bool(name) and "/" not in name and _invalid_reason(name, zarr_format) is None


def find_reserved_names(path: str) -> list[str]:
    """Return the names in a path that format 3 reserves; nodes with such names are allowed.

    xarray stores an array without a name as ``__xarray_dataarray_variable__``.

    Examples
    --------
    >>> find_reserved_names("a/__b")
    ['__b']
    """
    return [name for name in path.split("/") if name.startswith("__")]


def _invalid_reason(name: str, zarr_format: ZarrFormat | None) -> str | None:
    if name in {".", ".."} or (zarr_format == 3 and _PERIODS.fullmatch(name)):
        return f"{name!r} is not a name"
    if zarr_format is not None and name in _RESERVED[zarr_format]:
        return f"{name!r} is the name of a metadata document"
    if zarr_format is not None and name.endswith(STAGED):
        return f"{name!r} ends in {STAGED!r}, which is reserved for nodes that are not complete"
    if "\0" in name:
        return f"{name!r} holds a NUL character"
    if not name.isascii() and any("\ud800" <= char <= "\udfff" for char in name):
        return f"{name!r} cannot be encoded as UTF-8"
    return None


def join(path: str, name: str) -> str:
    """Return the path of a node, or the key of a value, below the node at `path`.

    Examples
    --------
    >>> join("", "zarr.json"), join("foo", "bar"), join("foo", "")
    ('zarr.json', 'foo/bar', 'foo')
    """
    return f"{path}/{name}" if path and name else path or name


def split(path: str) -> tuple[str, str]:
    """Return the path of the parent and the name of the node at `path`.

    Examples
    --------
    >>> split("foo/bar/baz"), split("foo")
    (('foo/bar', 'baz'), ('', 'foo'))
    """
    parent, _, name = path.rpartition("/")
    return parent, name


def ancestors(path: str) -> Iterator[str]:
    """Yield the paths above `path`, beginning with the root.

    Examples
    --------
    >>> list(ancestors("foo/bar/baz")), list(ancestors(""))
    (['', 'foo', 'foo/bar'], [])
    """
    if path:
        yield ""
    position = path.find("/")
    while position >= 0:
        yield path[:position]
        position = path.find("/", position + 1)
