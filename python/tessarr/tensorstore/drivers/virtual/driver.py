"""The driver ``virtual_chunked``: chunks that functions of the user read and write."""

from __future__ import annotations

import time
from _thread import allocate_lock
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from tessarr.errors import ArgumentError, SelectionError
from tessarr.space import Cells, Dim, IndexDomain, IndexTransform
from tessarr.space.domain import INFINITE
from tessarr.tensorstore.batch import Batch
from tessarr.tensorstore.context.caching import memory_of
from tessarr.tensorstore.context.chunk_cache import ChunkCache, ChunkShelf, Kept
from tessarr.tensorstore.driver import Driver
from tessarr.tensorstore.drivers.virtual.aside import ChunksAside
from tessarr.tensorstore.drivers.virtual.functions import (
    Functions,
    VirtualChunkedReadParameters,
    VirtualChunkedWriteParameters,
    stamp_of,
)
from tessarr.tensorstore.futures.after import after, all_done
from tessarr.tensorstore.futures.future import NOTHING, Future, finished
from tessarr.tensorstore.futures.start import begun
from tessarr.tensorstore.futures.threads import waiting
from tessarr.tensorstore.futures.writes import WriteFutures
from tessarr.tensorstore.in_memory import (
    assign,
    check_finite,
    checked,
    covers,
    empty,
    outside,
    selected,
)
from tessarr.tensorstore.schema.choose import alike, check_codec_chunk, choose
from tessarr.tensorstore.schema.chunk_layout import ChunkLayout

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from tessarr.space import View
    from tessarr.tensorstore.context.references import References
    from tessarr.tensorstore.driver import Using
    from tessarr.tensorstore.schema.schema import Schema

__all__ = ["RESOURCES", "VirtualDriver"]

RESOURCES: Final = {
    "cache_pool": "cache_pool",
    "data_copy_concurrency": "data_copy_concurrency",
}
"""The members of its spec that name resources."""

_ASIDE_BYTES: Final = 1 << 28
"""So many bytes of chunks that are read in a transaction are kept for it."""

_EMPTY: Final[dict[str, Any]] = {"string": b"", "ustring": "", "json": None}


class VirtualDriver(Driver):
    """Chunks by functions.

    Parameters
    ----------
    functions
        What reads and writes them.
    schema
        What there is: with a data type and a rank.
    references
        The resources that it has: a ``cache_pool`` with a limit keeps chunks.
    """

    __slots__ = (
        "_axes",
        "_cache",
        "_domain",
        "_layout",
        "_lock",
        "_order",
        "_origin",
        "_schema",
        "_shape",
        "functions",
        "references",
    )

    name = "virtual_chunked"

    def __init__(self, functions: Functions, schema: Schema, references: References) -> None:
        assert schema.rank is not None
        assert schema.dtype is not None
        self.functions = functions
        self.references = references
        self._schema = schema
        self.dtype = schema.dtype
        self._cache = ChunkCache(memory_of(references.resource("cache_pool")).chunks)
        self._lock = allocate_lock()
        domain = schema.domain
        if domain is None:
            domain = IndexDomain(schema.rank)
        self._domain = IndexDomain._of(
            tuple(Dim._of(d.inclusive_min, d.exclusive_max, d.label) for d in domain._dims)
        )
        layout = schema.chunk_layout
        given = layout.to_json()
        check_codec_chunk(schema._layout)
        extent = self._domain._as_view()
        self._shape, _ = choose(alike(schema._layout), extent, extent.rank)
        origin = layout.grid_origin or (None,) * schema.rank
        self._origin = tuple(
            _begin(dim, size) if one is None else one
            for one, dim, size in zip(origin, self._domain._dims, self._shape, strict=True)
        )
        order = given.get("inner_order", given.get("inner_order_soft_constraint"))
        plain = tuple(range(schema.rank))
        self._order: tuple[int, ...] = plain if order is None else tuple(order)
        self._axes = None if self._order == plain else [self._order.index(k) for k in plain]
        self._layout = ChunkLayout(
            inner_order=self._order, grid_origin=self._origin, chunk_shape=self._shape
        )

    @property
    def domain(self) -> IndexDomain:
        """Where there are elements."""
        return self._domain

    @property
    def readable(self) -> bool:
        """Whether there is a function that reads."""
        return self.functions.read is not None

    @property
    def writable(self) -> bool:
        """Whether there is a function that writes."""
        return self.functions.write is not None

    @property
    def chunk_layout(self) -> ChunkLayout:
        """The chunks."""
        return self._layout

    @property
    def dimension_units(self) -> tuple[Any, ...]:
        """Those that were given."""
        return tuple(self._schema.dimension_units or (None,) * self._domain.rank)

    def read(
        self, view: IndexTransform, out: npt.NDArray[Any] | None, using: Using
    ) -> Future[npt.NDArray[Any]]:
        """Have each chunk read, and copy what is wanted of it."""

        def work() -> Future[npt.NDArray[Any]]:
            check_finite(view)
            result = empty(view.domain.shape, self.dtype.dtype) if out is None else out
            if view.size == 0:
                return finished(result)
            # That of the read is submitted by now: what functions read is collected by another.
            batch = None if using.batch is None else Batch()
            parameters = VirtualChunkedReadParameters(batch, b"", time.time())
            aside = self._aside(using)
            cache = self._cache if aside is None else aside.cache
            known = partial(_known, cache, aside, parameters.staleness_bound)
            cells, under_way = self._chunks(view), []
            while (rest := checked(cells.unknown, known, result)) is not None:
                for box, inside, place in rest:
                    reading = self._read(cache, box, parameters, cache.get(box.origin))
                    if reading.called is None:
                        _copy(reading, inside, result, place, aside)
                    else:
                        under_way.append((reading, inside, place))
            if batch is not None:
                batch._begin()  # who was called may wait for what it reads

            def finish() -> Future[npt.NDArray[Any]]:
                for reading, inside, place in under_way:
                    _copy(reading, inside, result, place, aside)
                return finished(result)

            return after([reading.called for reading, *_ in under_way], finish)

        return begun(work) if using.batch is None else using.batch._later(lambda: begun(work))

    def write(self, view: IndexTransform, values: npt.NDArray[Any], using: Using) -> WriteFutures:
        """Have each chunk written; those of which only parts are written are read before."""
        aside = self._aside(using)

        def work() -> Future[None]:
            check_finite(view)
            if view.size == 0:
                return NOTHING
            chunks = [(*one, covers(one[1], one[0])) for one in self._chunks(view)]
            if aside is not None:
                assert using.transaction is not None
                for box, inside, place, _ in chunks:
                    aside.put(box, inside, selected(values, place))
                using.transaction._check_places()
                return NOTHING
            for box, *_, whole in chunks:
                if not whole:
                    self._check_known(self._cache.get(box.origin))
            ends = []
            for box, inside, place, whole in chunks:
                items = selected(values, place)
                if whole:
                    chunk = self._new(box, clear=False)
                    assign(chunk, inside, items)
                    ends.append(self._store(self._cache, box, chunk))
                else:
                    self._change(self._cache, box, partial(_assign, inside, items))
            return all_done(ends, lambda: None)

        done = begun(work)
        return WriteFutures._of(done, done)

    def _chunks(self, view: IndexTransform) -> Cells:
        """Give each chunk's domain, the part of a view in it, and where that is in the view."""
        try:
            return Cells(view._as_view(), self._domain._as_view(), self._origin, self._shape)
        except SelectionError as error:
            raise outside(error) from error

    def _new(self, box: View, *, clear: bool = True) -> npt.NDArray[Any]:
        """Return an array for a chunk, whose axes are in memory as the layout says."""
        order, shape, kind = self._order, box.shape, self.dtype
        made = (np.zeros if clear else np.empty)([shape[axis] for axis in order], kind.dtype)
        if clear and kind.name in _EMPTY:
            made[...] = _EMPTY[kind.name]
        return made if self._axes is None else made.transpose(self._axes)

    def _read(
        self,
        cache: ChunkCache,
        box: View,
        parameters: VirtualChunkedReadParameters,
        kept: Kept | None,
    ) -> _Reading:
        """Begin to read a chunk, of which one that is too old may be in the cache."""
        if kept is not None:
            parameters = VirtualChunkedReadParameters(
                parameters.batch, kept[1], parameters.staleness_bound
            )
        function = self.functions.read
        if function is None:
            raise ArgumentError("there is no function that reads chunks")
        chunk = self._new(box)
        called = self.functions.begin(function, IndexDomain._of_view(box), chunk, parameters)
        return _Reading(cache, box, chunk, called, kept)

    def _write(
        self, cache: ChunkCache, box: View, chunk: npt.NDArray[Any], expected: bytes
    ) -> _Writing:
        """Begin to write a chunk."""
        function = self.functions.write
        assert function is not None
        chunk.flags.writeable = False
        parameters = VirtualChunkedWriteParameters(expected)
        called = self.functions.begin(function, IndexDomain._of_view(box), chunk, parameters)
        return _Writing(cache, box, chunk, called, expected)

    def _store(self, cache: ChunkCache, box: View, chunk: npt.NDArray[Any]) -> Future[bool]:
        """Write a chunk."""
        writing = self._write(cache, box, chunk, b"")
        return after([writing.called], lambda: finished(writing.end()))

    def _change(
        self,
        cache: ChunkCache,
        box: View,
        change: Callable[[npt.NDArray[Any]], None],
    ) -> None:
        """Read a chunk, change a part of it, and write it, until nobody else did in between."""
        parameters = VirtualChunkedReadParameters()
        with waiting(), self._lock:  # others may be needed for what the first one waits for
            kept, last = cache.get(box.origin), None
            while True:
                if kept is None or kept[2] < parameters.staleness_bound:
                    self._check_known(None)
                    before, generation = self._read(cache, box, parameters, kept).end()
                else:
                    before, generation, _ = kept
                chunk = self._new(box, clear=False)
                chunk[...] = before
                change(chunk)
                if self._write(cache, box, chunk, generation).end():
                    return
                # It need not be given again if it is still this, which nobody believes twice.
                kept, last = (before, generation, -inf) if generation != last else None, generation
                parameters = VirtualChunkedReadParameters(staleness_bound=time.time())

    def _check_known(self, kept: Kept | None) -> None:
        """Refuse to change a chunk that is not in the cache, and cannot be read."""
        if kept is None and self.functions.read is None:
            raise ArgumentError(
                "parts of chunks cannot be written without a function that reads chunks"
            )

    def _aside(self, using: Using) -> ChunksAside | None:
        """Return what keeps aside what is written in a transaction."""
        if using.transaction is None:
            return None
        found: ChunksAside = using.transaction._staging.others(self, self._new_aside)
        return found

    def _new_aside(self) -> ChunksAside:
        """Return what does, and also keeps what is read meanwhile where nothing else does."""
        cache = self._cache
        if not cache.limit:
            cache = ChunkCache(ChunkShelf(_ASIDE_BYTES, int))
        store, change = partial(self._store, cache), partial(self._change, cache)
        return ChunksAside(self._new, store, change, cache)


def _known(
    cache: ChunkCache, aside: ChunksAside | None, bound: float, origins: list[tuple[int, ...]]
) -> list[npt.NDArray[Any] | None]:
    """Return the chunks that begin at origins: None for those that have to be read."""
    found = [kept[0] if kept and kept[2] >= bound else None for kept in cache.find(origins)]
    if aside is None:
        return found
    return [
        aside.whole(origin) if chunk is None else aside.over(origin, chunk)
        for origin, chunk in zip(origins, found, strict=True)
    ]


def _assign(inside: View, items: npt.NDArray[Any], chunk: npt.NDArray[Any]) -> None:
    assign(chunk, inside, items)


class _Reading(NamedTuple):
    """A chunk that is being read."""

    cache: ChunkCache
    box: View
    chunk: npt.NDArray[Any]
    called: Future[Any] | None
    """What tells the end; None where that is past."""
    kept: Kept | None
    """What was in the cache."""

    def end(self) -> tuple[npt.NDArray[Any], bytes]:
        """Wait for the chunk; return it, and its generation."""
        found, kept = self.chunk, self.kept
        generation, at = stamp_of(self.called and self.called.result())
        if kept is not None and kept[1] and generation in (b"", kept[1]):
            found, generation = kept[0], kept[1]
        self.cache.put(self.box.origin, found, generation, at)
        return found, generation


class _Writing(NamedTuple):
    """A chunk that is being written."""

    cache: ChunkCache
    box: View
    chunk: npt.NDArray[Any]
    called: Future[Any] | None
    expected: bytes
    """The generation before."""

    def end(self) -> bool:
        """Wait for the chunk; tell whether what was there before was as expected."""
        try:
            result = self.called and self.called.result()
            generation, at = stamp_of(result)
        except BaseException:
            self.cache.drop(self.box.origin)
            raise
        if result is not None and not generation:
            self.cache.drop(self.box.origin)
            return not self.expected
        self.cache.put(self.box.origin, self.chunk, generation, at)
        return True


def _copy(
    reading: _Reading,
    inside: View,
    result: npt.NDArray[Any],
    place: View,
    aside: ChunksAside | None,
) -> None:
    """Wait for a chunk, and copy what is wanted of it."""
    chunk, _ = reading.end()
    if aside is not None:
        chunk = aside.over(reading.box.origin, chunk)
    assign(result, place, selected(chunk, inside))


def _begin(dim: Dim, size: int) -> int:
    """Return where the first chunk from 0 on begins, if one begins where the dimension does."""
    return dim.inclusive_min % size if dim.inclusive_min > -INFINITE else 0
