"""Writes to an array that are kept aside, element by element.

What is written goes to a second array in memory, and a mask says which elements that are. So
nothing need be read in order to write a part of a chunk, many writes of parts of a chunk make
one change of it in the end, and what others have written to the rest meanwhile stays.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from concurrent.futures import Future as Running
from concurrent.futures import wait
from dataclasses import replace
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from tessarr.array import bind
from tessarr.codec.bytes import Bytes
from tessarr.codec.chain import Chain
from tessarr.codec.sharding import ShardingIndexed
from tessarr.errors import ArgumentError
from tessarr.grid import RegularGrid
from tessarr.keys import DefaultKeys
from tessarr.metadata.build import array_meta
from tessarr.store import MemoryStore
from tessarr.tensorstore.future import start
from tessarr.tensorstore.threads import submit

if TYPE_CHECKING:
    import numpy.typing as npt

    from tessarr.array import Array
    from tessarr.metadata.node import ArrayMeta
    from tessarr.tensorstore.future import Promise
    from tessarr.types import Shape

__all__ = ["StagedArray"]

Box: TypeAlias = tuple[slice, ...]

_AT_ONCE_BYTES: Final = 1 << 28
"""The largest box that is moved as one."""

_WORKERS: Final = 8


class StagedArray:
    """An array, whose writes are kept aside.

    Parameters
    ----------
    array : Array
        What is read where nothing was written.
    """

    def __init__(self, array: Array) -> None:
        self._under = array
        self._lock = RLock()
        self._open = True
        meta: ArrayMeta = array.metadata
        self._store = MemoryStore()
        plain = _plain(meta)
        self._values = bind(plain, MemoryStore(), "", read_only=False, write_empty_chunks=True)
        mask = array_meta(
            shape=meta.shape,
            dtype="bool",
            chunks=plain.chunk_shape,
            compressors=None,
            zarr_format=3,
        )
        self._mask = bind(mask, self._store, "", read_only=False)
        self._written = False

    @property
    def shape(self) -> Shape:
        """The length of each axis."""
        return self._under.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The data type of the elements."""
        return self._under.dtype

    def _write_future(
        self,
        axes: Any,
        out_axes: Any,
        values: npt.NDArray[Any],
        promise: Promise[None],
        fields: Any,
    ) -> None:
        try:
            with self._lock:
                if not self._open:
                    raise ArgumentError("Transaction not open")  # noqa: TRY301 (told by the future)
                if fields is not None:  # the mask knows whole elements only
                    self.apply(self._under)
                    self._under._write_future(axes, out_axes, values, promise, fields)
                    return
                self._values._write(axes, out_axes, values)
                self._mask._write(axes, out_axes, np.broadcast_to(np.True_, values.shape))
                self._written = True
        except BaseException as error:  # noqa: BLE001 (told by the future)
            promise.set_exception(error)
        else:
            promise.set_result(None)

    def _read_future(  # noqa: PLR0917 (as the engine has it)
        self,
        axes: Any,
        out_axes: Any,
        out: npt.NDArray[Any],
        promise: Promise[Any],
        result: Any,
        fields: Any,
    ) -> None:
        if self._written and fields is not None:
            self.apply(self._under)
        if not self._written:
            self._under._read_future(axes, out_axes, out, promise, result, fields)
            return

        def work() -> None:
            mask = np.empty(out.shape, bool)
            with self._lock:
                self._mask._read(axes, out_axes, mask)
                if mask.all():
                    self._values._read(axes, out_axes, out)
                    return
                staged = np.empty(out.shape, out.dtype)
                self._values._read(axes, out_axes, staged)
            self._under._read(axes, out_axes, out)
            np.copyto(out, staged, where=mask)

        done = start(work)
        done.add_done_callback(
            lambda ended: (
                promise.set_result(result)
                if ended.exception() is None
                else promise.set_exception(ended.exception())
            )
        )

    # The end

    def close(self) -> None:
        """Refuse further writes."""
        with self._lock:
            self._open = False

    def apply(self, target: Array) -> None:
        """Write to an array what was written here; nothing is kept aside afterwards.

        Parameters
        ----------
        target
            An array of the same shape and data type.
        """
        with self._lock:
            if not self._written:
                return
            _together([self._mover(box, target) for box in self._boxes()])
            self._store.delete_prefix("c/")
            self._store.delete("c")
            self._written = False

    def _cells(self) -> set[tuple[int, ...]]:
        """Return the chunks of the array where something was written."""
        cuts = self._under.metadata.chunk_grid.cuts
        inner = self._values.metadata.chunk_shape
        keys = DefaultKeys()
        cells: set[tuple[int, ...]] = set()
        for key in self._store.list():
            if not key.startswith("c"):
                continue
            cell = keys.decode(key, len(inner))
            if cell is None:
                continue
            ranges = [
                range(cut.cell(at * size), cut.cell(min((at + 1) * size, end) - 1) + 1)
                for cut, at, size, end in zip(cuts, cell, inner, self.shape, strict=True)
            ]
            cells.update(itertools.product(*ranges))
        return cells

    def _box(self, first: tuple[int, ...], end: tuple[int, ...]) -> Box:
        cuts = self._under.metadata.chunk_grid.cuts
        return tuple(
            slice(cut.start(a), min(cut.start(b), size))
            for cut, a, b, size in zip(cuts, first, end, self.shape, strict=True)
        )

    def _boxes(self) -> list[Box]:
        """Return what to write as one, so that each chunk is in one box only.

        That is all, if all that was written is a box; else chunks, and rows of chunks all of
        which was written.
        """
        cells = sorted(self._cells())
        if not cells:
            return []
        around = self._box(
            tuple(map(min, zip(*cells, strict=True))),
            tuple(max(along) + 1 for along in zip(*cells, strict=True)),
        )
        count = math.prod(side.stop - side.start for side in around)
        if count * max(self.dtype.itemsize, 1) > _AT_ONCE_BYTES:
            return [self._box(cell, tuple(at + 1 for at in cell)) for cell in cells]
        mask = np.asarray(self._mask[around])
        part = _written_part(mask)
        if part is not None and mask[part].all():
            return [_moved(part, around)]
        boxes: list[Box] = []
        begin: tuple[int, ...] | None = None  # of a row of chunks that were written whole
        for at, cell in enumerate(cells):
            end = tuple(place + 1 for place in cell)
            box = self._box(cell, end)
            whole = bool(mask[_moved(box, around, -1)].all())
            begin = cell if begin is None else begin
            if whole and at + 1 < len(cells) and cells[at + 1] == (*cell[:-1], cell[-1] + 1):
                following = self._box(cells[at + 1], tuple(place + 1 for place in cells[at + 1]))
                if mask[_moved(following, around, -1)].all():
                    continue
            boxes.append(self._box(begin, end))
            begin = None
        return boxes

    def _mover(self, box: Box, target: Array) -> Callable[[], None]:
        def move() -> None:
            mask = np.asarray(self._mask[box])
            inner = _written_part(mask)
            if inner is None:
                return
            part = _moved(inner, box)
            values = self._values[part]
            chosen = mask[inner]
            if chosen.all():
                target[part] = values
                return
            where = np.nonzero(chosen)
            places = tuple(index + side.start for index, side in zip(where, part, strict=True))
            target.vindex[places] = values[where]

        return move


def _moved(box: Box, origin: Box, sign: int = 1) -> Box:
    """Return a box, counted from the origin of another one; or, with -1, the other way round."""
    return tuple(
        slice(side.start + sign * other.start, side.stop + sign * other.start)
        for side, other in zip(box, origin, strict=True)
    )


def _written_part(mask: npt.NDArray[np.bool_]) -> Box | None:
    """Return the smallest box of a mask in which all is that is true; None if nothing is."""
    if not mask.any():
        return None
    sides = []
    for axis in range(mask.ndim):
        others = tuple(other for other in range(mask.ndim) if other != axis)
        places = np.flatnonzero(mask.any(axis=others))
        sides.append(slice(int(places[0]), int(places[-1]) + 1))
    return tuple(sides)


def _together(tasks: list[Callable[[], None]]) -> None:
    """Do all of them, some at a time; raise the first error when all are done."""
    if len(tasks) < 2:
        for task in tasks:
            task()
        return
    left = iter(tasks)
    running: list[Running[None]] = []

    def work(done: Running[None]) -> None:
        try:
            for task in left_of():
                task()
        except BaseException as error:  # noqa: BLE001 (raised below)
            done.set_exception(error)
        else:
            done.set_result(None)

    lock = RLock()

    def left_of() -> Iterator[Callable[[], None]]:
        while True:
            with lock:
                task = next(left, None)
            if task is None:
                return
            yield task

    for _ in range(min(_WORKERS, len(tasks))):
        done: Running[None] = Running()
        running.append(done)
        submit(lambda done=done: work(done))  # type: ignore[misc]
    wait(running)
    for done in running:
        done.result()


def _plain(meta: ArrayMeta) -> ArrayMeta:
    """Return the metadata of an array of the same elements, as quickly stored as can be."""
    codec = meta.codecs.array_bytes
    while isinstance(codec, ShardingIndexed):
        codec = codec.codecs.array_bytes
    if meta.data_type.elements is None and not isinstance(codec, Bytes):
        codec = Bytes("little")
    return replace(
        meta,
        chunk_grid=RegularGrid(meta.chunk_shape),
        chunk_key_encoding=DefaultKeys(),
        codecs=Chain((codec,)),
        storage_transformers=(),
        attributes={},
        last_is_filter=False,
    )
