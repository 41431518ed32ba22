"""Reads that begin together: by one call of the engine, side by side."""

from __future__ import annotations

from _thread import allocate_lock
from functools import partial
from typing import TYPE_CHECKING, Any

from tessarr._engine import read_together
from tessarr.array import bind
from tessarr.errors import ArgumentError
from tessarr.tensorstore.futures.future import PENDING
from tessarr.tensorstore.futures.promise import Promise

if TYPE_CHECKING:
    import numpy.typing as npt

    from tessarr.array import Array
    from tessarr.indexing.selection import Selection
    from tessarr.metadata.node import ArrayMeta
    from tessarr.tensorstore.futures.future import Future

__all__ = ["Together", "begun", "submitted"]


class Together:
    """Collects reads of arrays until they begin.

    Parameters
    ----------
    waits
        Whether they wait until they are submitted, all but one whose result is wanted before, which
        begins alone. Else they may begin at once, and do so at the latest when one is wanted.
    """

    __slots__ = ("_lock", "_reads", "waits")

    def __init__(self, *, waits: bool = False) -> None:
        self.waits = waits
        self._lock = allocate_lock()
        # What the engine is given for each, after the metadata of the array where they wait; None:
        # they were submitted.
        self._reads: dict[Future[Any], tuple[Any, ...]] | None = {}

    def read(
        self, array: Array, chosen: Selection, buffer: npt.NDArray[Any], parts: Any, result: Any
    ) -> Future[Any]:
        """Return the future of a result, which is there when `buffer` is filled."""
        promise, future = Promise.new()
        future._begin = partial(self._begin_one, future) if self.waits else self.begin
        with self._lock:
            if self._reads is None:
                raise submitted()
            meta = array._meta if self.waits else None
            self._reads[future] = (
                meta, array, chosen.axes, chosen.out_axes, buffer, parts, promise, result
            )  # fmt: skip
        return future

    def begin(self, *, last: bool = False) -> None:
        """Begin all that was collected; nothing is added any more if it is the last time."""
        with self._lock:
            reads = self._reads
            self._reads = None if last or reads is None else {}
        if reads:
            _begin(reads)

    def _begin_one(self, future: Future[Any]) -> None:
        with self._lock:
            read = None if self._reads is None else self._reads.pop(future, None)
        if read is not None:
            _begin({future: read})


def begun(
    array: Array,
    chosen: Selection,
    buffer: npt.NDArray[Any],
    parts: Any,
    result: Any,
    *,
    soon: bool,
) -> Future[Any]:
    """Return the future of a read that begins now, by itself.

    A small one may begin `soon`: together with those of the same array that are begun before a
    thread comes to it.
    """
    promise, future = Promise.new()
    read = (array, chosen.axes, chosen.out_axes, buffer, parts, promise, result)
    future._work = read_together([read], soon=soon).help
    return future


def _begin(reads: dict[Future[Any], tuple[Any, ...]]) -> None:
    wanted = {future: read for future, read in reads.items() if future._state == PENDING}
    if not wanted:
        return
    begun = read_together(
        [
            (array if meta is None or array._meta is meta else _as_it_was(array, meta), *rest)
            for meta, array, *rest in wanted.values()
        ]
    )
    for future in wanted:
        future._begin, future._work = None, begun.help


def _as_it_was(array: Array, meta: ArrayMeta) -> Array:
    """Return an array that has got other bounds since it was asked, with those of then."""
    return bind(meta, array._store, array._path, read_only=True, missing=array._missing)


def submitted() -> ArgumentError:
    """Return the error for what is added to a batch that was submitted."""
    return ArgumentError("batch was already submitted")
