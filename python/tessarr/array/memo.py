"""Recalling what was made of metadata."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from tessarr.metadata.node import ArrayMeta

__all__ = ["OfMetadata"]

T = TypeVar("T")


class OfMetadata(Generic[T]):
    """What was made of metadata, as long as there are these; of some alike it is made again.

    Parameters
    ----------
    make
        Makes it of metadata, and of what else it depends on.
    again
        Makes it of metadata, of what was made of others, of these, from which they differ in
        shape and fill value alone, and of what else it depends on.

    Notes
    -----
    It is kept with the metadata, so that large ones are not kept for its sake.

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

    __slots__ = ("_again", "_make")

    def __init__(self, make: Callable[..., T], again: Callable[..., T]) -> None:
        self._make, self._again = make, again

    def of(self, meta: ArrayMeta, *more: Any) -> T:
        """Return what is made of metadata, and of what else it depends on: hashable values."""
        key = (self, *more)
        found: T | None = meta.made.get(key)
        if found is not None:
            return found
        like = meta.kin.get(key)
        if like is None:
            found = self._make(meta, *more)
            meta.kin[key] = meta, found
        else:
            first, known = like
            found = self._again(meta, known, first, *more)
        meta.made[key] = found
        return found
