"""Recalling what was made of metadata."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

if TYPE_CHECKING:
    from tessarr.metadata.node import ArrayMeta

__all__ = ["OfMetadata"]

T = TypeVar("T")
U = TypeVar("U")
_KEPT: Final = 512


class OfMetadata(Generic[T]):
    """What was made of metadata, while they are the very same; of some alike it is made again.

    Parameters
    ----------
    make
        Makes it of metadata, and of what else it depends on.
    again
        Makes it of metadata, of what was made of others, of these, from which they differ in
        shape and fill value alone, and of what else it depends on.

    Examples
    --------
    >>> from tessarr.metadata.build import array_meta
    >>> one = array_meta(shape=(3, 4), chunks=(2, 2), dtype="int8")
    >>> recalled = OfMetadata(lambda meta: meta.shape, lambda meta, made, _: (made, meta.shape))
    >>> recalled.of(one) is recalled.of(one)
    True
    >>> recalled.of(one.resized((5, 4), one.chunk_grid))
    ((3, 4), (5, 4))
    """

    __slots__ = ("_again", "_kept", "_like", "_make")

    def __init__(self, make: Callable[..., T], again: Callable[..., T]) -> None:
        self._make, self._again = make, again
        # What is kept has its metadata beside it, so that nothing else gets their ids.
        self._kept: dict[Hashable, tuple[ArrayMeta, T]] = {}
        self._like: dict[Hashable, tuple[ArrayMeta, T]] = {}

    def of(self, meta: ArrayMeta, *more: Any) -> T:
        """Return what is made of metadata, and of what else it depends on: hashable values."""
        key = (id(meta), *more)
        found = self._kept.get(key)
        if found is not None and found[0] is meta:
            return found[1]
        alike = (meta.kin, *more)
        found = self._like.get(alike)
        if found is None:
            made = self._make(meta, *more)
            _keep(self._like, alike, (meta, made))
        else:
            like, known = found
            made = self._again(meta, known, like, *more)
        _keep(self._kept, key, (meta, made))
        return made


def _keep(kept: dict[Hashable, U], key: Hashable, made: U) -> None:
    if len(kept) >= _KEPT:
        kept.clear()
    kept[key] = made
