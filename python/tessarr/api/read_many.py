"""`read_many`: crops and samples of several arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tessarr.array import Array
from tessarr.array.read_many import read_pairs
from tessarr.errors import ArgumentError
from tessarr.format.registry import set_public_module

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tessarr.types import SelectionLike

__all__ = ["read_many"]


def read_many(
    reads: Iterable[tuple[Array, SelectionLike]], out: Any = None, *, stack: bool = False
) -> Any:
    """Read selections of several arrays in one call of the engine.

    Parameters
    ----------
    reads
        Pairs of an array and a selection, which is any key of the array.
    out
        The destinations: an array whose first axis has one entry for each selection, or a list of
        one destination for each selection, as for `Array.read`. By default new arrays.
    stack
        Whether the result is one new array instead of a list. All selections then have the same
        shape and data type.

    Returns
    -------
    list or numpy.ndarray
        A list with the value of ``array[selection]`` for each pair; with `stack`, one array whose
        first axis has one entry for each pair; or `out`.

    Raises
    ------
    SelectionError
        If a selection does not fit its array.
    ArgumentError
        If `out` does not fit the selections, or if `stack` is true and the shapes or data types
        differ.

    Notes
    -----
    The engine fetches and decodes each chunk or subchunk once, for all selections that touch it.
    Neighbouring subchunks of a shard need one request. Two arrays share chunks if they have the
    same path and metadata, and were opened from one store object. A selection of more than 65,536
    chunks, and an array in a block of buffered writes, share none.

    Long lists run in several groups, each of at most 8,192 selections that touch at most 262,144
    chunks. Different groups share chunks only through the chunk cache. All values are in memory at
    once, and beside them one chunk per thread and about 1 KB per selection. If a read fails, the
    contents of `out` are undefined.

    Examples
    --------
    >>> import tessarr
    >>> images = tessarr.array([[1, 2], [3, 4], [5, 6]])
    >>> labels = tessarr.array([7, 8, 9])
    >>> tessarr.read_many([(images, slice(1, 3)), (labels, 1)])
    [array([[3, 4], [5, 6]]), np.int64(8)]
    >>> tessarr.read_many([(images, 2), (images, 0)], stack=True)
    array([[5, 6], [1, 2]])
    """
    return read_pairs(list(map(_check_pair, reads)), out, stack=stack)


def _check_pair(pair: Any) -> tuple[Array, Any]:
    if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], Array)):
        raise ArgumentError(
            f"read_many takes pairs of a Tessarr array and a selection, not {type(pair).__name__}"
        )
    return pair


set_public_module("tessarr", read_many)
# `tessarr` imports the function lazily: this lets doctest find the examples.
__test__ = {"read_many": read_many}
