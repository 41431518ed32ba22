"""Where a node is: the store and the path that a user means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from tessarr.errors import ArgumentError
from tessarr.format.node_path import check_path, join, node_path
from tessarr.store.adapt import split
from tessarr.store.url import open_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tessarr.store import Store
    from tessarr.store.url import StoreLike
    from tessarr.types import ZarrFormat

__all__ = ["Mode", "locate"]

Mode: TypeAlias = Literal["r", "r+", "a", "w", "w-", "x"]
"""What may happen to what is there: see `tessarr.api.open`."""

_MODES: Final = frozenset(("r", "r+", "a", "w", "w-", "x"))


def locate(
    store: StoreLike,
    mode: str,
    path: str | None,
    zarr_format: ZarrFormat | None = None,
    *,
    chunk_store: StoreLike = None,
    storage_options: Mapping[str, Any] | None = None,
) -> tuple[Store, str]:
    """Return the store that is meant, and the path in it, normalised as the format says.

    Parameters
    ----------
    store, mode, path, zarr_format, chunk_store, storage_options
        As for `tessarr.open_array`.

    Raises
    ------
    ArgumentError
        If the mode, the format or the path is not allowed.

    Examples
    --------
    >>> locate("memory://scratch/a", "r", "b")
    (MemoryStore(name='scratch'), 'a/b')
    """
    if mode not in _MODES:
        raise ArgumentError(f"mode {mode!r} is not one of 'r', 'r+', 'a', 'w' and 'w-'")
    if zarr_format not in (None, 2, 3):
        raise ArgumentError(f"zarr_format {zarr_format!r} is not 2 or 3")
    opened, at = open_store(store, mode, storage_options=storage_options)
    if chunk_store is not None:
        chunks, below = open_store(chunk_store, mode)
        if below:
            raise ArgumentError(f"chunk_store {chunk_store!r} names a path, which is {path!r}")
        opened = split(opened, chunks)
    if path is not None:
        check_path(path)
    if path:
        at = _below(opened, at, path.strip("/"))
    return opened, node_path(at, zarr_format) if at else ""


def _below(store: Store, at: str, path: str) -> str:
    """Return the path of a node below `at`; that of a packed folder may be in it already."""
    joined = join(at, path)
    packed = getattr(store, "packed", "")
    if not packed or at != packed or not f"{path}/".startswith(f"{packed}/"):
        return joined
    return joined if any(store.list_dir(f"{joined}/")) else path
