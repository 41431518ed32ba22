"""Reads that begin together: by one call of the engine, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tessarr._engine import read_together
from tessarr.tensorstore.futures.promise import Promise

if TYPE_CHECKING:
    import numpy.typing as npt

    from tessarr.array import Array
    from tessarr.indexing.selection import Selection
    from tessarr.tensorstore.futures.future import Future

__all__ = ["Together"]


class Together:
    """Collects reads of arrays until they begin; at the latest when a result is wanted."""

    __slots__ = ("_futures", "_reads")

    def __init__(self) -> None:
        self._reads: list[tuple[Any, ...]] = []
        self._futures: list[Future[Any]] = []

    def read(
        self, array: Array, chosen: Selection, buffer: npt.NDArray[Any], parts: Any, result: Any
    ) -> Future[Any]:
        """Return the future of a result, which is there when `buffer` is filled."""
        promise, future = Promise.new()
        self._reads.append((array, chosen.axes, chosen.out_axes, buffer, parts, promise, result))
        self._futures.append(future)
        future._begin = self.begin
        return future

    def begin(self) -> None:
        """Begin all that was collected."""
        reads, self._reads = self._reads, []
        futures, self._futures = self._futures, []
        if reads:
            begun = read_together(reads)
            for future in futures:
                future._begin, future._work = None, begun.help
