"""The driver ``virtual_chunked``: chunks that functions of the user read and write."""

from __future__ import annotations

import time
from _thread import allocate_lock
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from inspect import isawaitable, iscoroutine
from math import inf, prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr.errors import ArgumentError
from tessarr.space import Dim, IndexDomain, IndexTransform, OutputIndexMap
from tessarr.space.domain import INFINITE
from tessarr.tensorstore.choose import choose_one
from tessarr.tensorstore.chunk_layout import ChunkLayout
from tessarr.tensorstore.data_type import DTypeLike
from tessarr.tensorstore.driver import Driver
from tessarr.tensorstore.future import Future, WriteFutures, failed, start
from tessarr.tensorstore.in_memory import assign, check_finite, selected
from tessarr.tensorstore.kvstore import KvStore
from tessarr.tensorstore.parts import Cutter, Part
from tessarr.tensorstore.schema import Schema
from tessarr.tensorstore.store import TensorStore, handle

if TYPE_CHECKING:
    import asyncio

    import numpy.typing as npt

    from tessarr.tensorstore.batch import Batch
    from tessarr.tensorstore.context import Context
    from tessarr.tensorstore.data_type import dtype as DataType  # noqa: N812
    from tessarr.tensorstore.driver import Using
    from tessarr.tensorstore.units import UnitLike

__all__ = [
    "VirtualChunkedReadParameters",
    "VirtualChunkedWriteParameters",
    "VirtualDriver",
    "virtual_chunked",
]

Function = Callable[[IndexDomain, Any, Any], Any]

_EMPTY: Final[dict[str, Any]] = {"string": b"", "ustring": "", "json": None}


@dataclass(frozen=True, slots=True)
class VirtualChunkedReadParameters:
    """What a function that reads a chunk is told besides which, and where to."""

    batch: Batch | None = None
    """What the read is part of."""
    if_not_equal: bytes = b""
    """The generation of the chunk that is in the cache; the chunk need not be given if that is
    what it would be."""
    staleness_bound: float = -inf
    """How old the chunk may be, in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class VirtualChunkedWriteParameters:
    """What a function that writes a chunk is told besides which, and what."""

    if_equal: bytes = b""
    """The generation that what is replaced has to have, if this is not empty."""


def virtual_chunked(
    read_function: Function | None = None,
    write_function: Function | None = None,
    *,
    loop: asyncio.AbstractEventLoop | None = None,
    rank: int | None = None,
    dtype: DTypeLike | None = None,
    domain: IndexDomain | None = None,
    shape: Iterable[int] | None = None,
    chunk_layout: ChunkLayout | None = None,
    dimension_units: Iterable[UnitLike] | None = None,
    schema: Schema | None = None,
    context: Context | None = None,
    transaction: Any = None,
) -> TensorStore:
    """Return a handle whose chunks are read and written by functions.

    Parameters
    ----------
    read_function
        Called with the domain of a chunk, an array to be filled, and
        `VirtualChunkedReadParameters`. It may return a coroutine, and a
        `KvStore.TimestampedStorageGeneration`, which says how long the chunk may stay in the cache.
    write_function
        Called with the domain of a chunk, an array not to be changed, and
        `VirtualChunkedWriteParameters`, with the same results. Parts of chunks can only be written
        if there is a `read_function`.
    loop
        Where coroutines are run; by default the event loop that runs here.
    rank, dtype, domain, shape, chunk_layout, dimension_units, schema
        What the handle is, as for `open`. Chunks are chosen as those of a new array.
    context
        If it has a ``cache_pool`` with a limit, chunks that were read are kept in a cache.
    transaction
        What reads take part in.

    Raises
    ------
    ArgumentError
        If there is no function, no data type or no rank, or a constraint that means nothing.

    Notes
    -----
    Functions are called in threads of Tessarr, the chunks of one read or write one after the other,
    coroutines all at once.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> def squares(domain, chunk, parameters):
    ...     chunk[...] = np.array(list(domain[0])) ** 2
    >>> store = ts.virtual_chunked(squares, dtype=ts.int64, shape=[1000])
    >>> store[3:6].read().result()
    array([ 9, 16, 25])
    """
    if read_function is None and write_function is None:
        raise ArgumentError("give read_function, write_function, or both")
    for function in (read_function, write_function):
        if function is not None and not callable(function):
            raise TypeError(f"{function!r} is not a function")
    wanted = Schema()
    wanted.update(
        schema=schema,
        rank=rank,
        dtype=dtype,
        domain=domain,
        shape=shape,
        chunk_layout=chunk_layout,
        dimension_units=dimension_units,
    )
    if wanted.dtype is None:
        raise ArgumentError("the data type has to be given")
    if wanted.rank is None:
        raise ArgumentError("the rank has to be given")
    if wanted.fill_value is not None:
        raise ArgumentError("what functions read has no fill value")
    if wanted.codec is not None:
        raise ArgumentError("what functions read has no codec")
    if loop is None:
        loop = running_loop()
    driver = VirtualDriver(
        Functions(read_function, write_function, loop), wanted, _Cache(_limit(context))
    )
    return handle(driver, None, None, transaction)


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that runs here, or None."""
    import asyncio

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _limit(context: Context | None) -> int:
    if context is None:
        return 0
    pool = context["cache_pool"].to_json(include_defaults=True)
    limit = pool.get("total_bytes_limit", 0) if isinstance(pool, dict) else 0
    return int(limit)


@dataclass(frozen=True, slots=True)
class Functions:
    """What reads and writes chunks, and where coroutines of that are run."""

    read: Function | None
    write: Function | None
    loop: Any = None

    def begin(self, function: Function, *arguments: Any) -> Future[Any]:
        """Call a function; of what it raises the future tells."""
        try:
            found = function(*arguments)
            if isawaitable(found) and not isinstance(found, Future) and not iscoroutine(found):
                found = _awaited(found)  # whatever can be awaited, as a coroutine
            return Future(found, loop=self.loop)
        except Exception as error:  # noqa: BLE001 (the future tells it)
            return failed(error)

    def __reduce__(self) -> tuple[Any, ...]:
        return _functions, (self.read, self.write)


def _functions(read: Function | None, write: Function | None) -> Functions:
    return Functions(read, write, running_loop())


async def _awaited(work: Any) -> Any:
    return await work


def _stamp(found: Any) -> tuple[bytes, float]:
    """Return the generation and the time that a function returned."""
    if found is None:
        return b"", inf
    if isinstance(found, KvStore.TimestampedStorageGeneration):
        return found.generation, found.time
    raise TypeError(
        "a function of virtual_chunked returns None or a KvStore.TimestampedStorageGeneration, "
        f"not {found!r}"
    )


class _Cache:
    """Chunks that were read, as many as there is room for."""

    __slots__ = ("_bytes", "_chunks", "_lock", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._bytes = 0
        self._chunks: OrderedDict[Any, tuple[npt.NDArray[Any], bytes, float]] = OrderedDict()
        self._lock = allocate_lock()

    def get(self, key: Any) -> tuple[npt.NDArray[Any], bytes, float] | None:
        """Return a chunk, its generation, and when it was that."""
        if not self.limit:
            return None
        with self._lock:
            found = self._chunks.get(key)
            if found is not None:
                self._chunks.move_to_end(key)
            return found

    def put(self, key: Any, chunk: npt.NDArray[Any], generation: bytes, at: float) -> None:
        """Keep a chunk, which is not changed any more."""
        if chunk.nbytes > self.limit:
            return
        with self._lock:
            self._drop(key)
            self._chunks[key] = (chunk, generation, at)
            self._bytes += chunk.nbytes
            while self._bytes > self.limit:
                self._drop(next(iter(self._chunks)))

    def drop(self, key: Any) -> None:
        """Forget a chunk."""
        with self._lock:
            self._drop(key)

    def _drop(self, key: Any) -> None:
        found = self._chunks.pop(key, None)
        if found is not None:
            self._bytes -= found[0].nbytes

    def __reduce__(self) -> tuple[Any, ...]:
        return _Cache, (self.limit,)


class VirtualDriver(Driver):
    """Chunks by functions.

    Parameters
    ----------
    functions
        What reads and writes them.
    schema
        What there is: with a data type and a rank.
    cache
        What keeps chunks.
    """

    __slots__ = (
        "_cache",
        "_domain",
        "_functions",
        "_layout",
        "_lock",
        "_origin",
        "_schema",
        "_shape",
    )

    name = "virtual_chunked"
    by_value = True

    def __init__(self, functions: Functions, schema: Schema, cache: _Cache) -> None:
        assert schema.rank is not None
        self._functions = functions
        self._schema = schema
        self._cache = cache
        self._lock = allocate_lock()
        domain = schema.domain
        if domain is None:
            domain = IndexDomain(schema.rank)
        self._domain = IndexDomain.of(
            tuple(Dim.of(d.inclusive_min, d.exclusive_max, d.label) for d in domain.dims)
        )
        layout = schema.chunk_layout
        given = layout.to_json()
        self._shape = choose_one(layout, self._domain.dims)
        origin = layout.grid_origin or (None,) * schema.rank
        self._origin = tuple(
            _begin(dim, size) if one is None else one
            for one, dim, size in zip(origin, self._domain.dims, self._shape, strict=True)
        )
        order = given.get("inner_order", given.get("inner_order_soft_constraint"))
        self._layout = ChunkLayout(
            inner_order=list(range(schema.rank)) if order is None else order,
            grid_origin=self._origin,
            chunk_shape=self._shape,
        )

    @property
    def dtype(self) -> DataType:
        """The data type of the elements."""
        assert self._schema.dtype is not None
        return self._schema.dtype

    @property
    def domain(self) -> IndexDomain:
        """Where there are elements."""
        return self._domain

    @property
    def readable(self) -> bool:
        """Whether there is a function that reads."""
        return self._functions.read is not None

    @property
    def writable(self) -> bool:
        """Whether there is a function that writes."""
        return self._functions.write is not None

    @property
    def chunk_layout(self) -> ChunkLayout:
        """The chunks."""
        return self._layout

    @property
    def dimension_units(self) -> tuple[Any, ...]:
        """Those that were given."""
        return tuple(self._schema.dimension_units or (None,) * self._domain.rank)

    def __reduce__(self) -> tuple[Any, ...]:
        return VirtualDriver, (self._functions, self._schema, self._cache)

    def read(
        self, view: IndexTransform, out: npt.NDArray[Any] | None, using: Using
    ) -> Future[npt.NDArray[Any]]:
        """Have each chunk read, and copy what is wanted of it."""

        def work() -> npt.NDArray[Any]:
            check_finite(view)
            result = np.empty(view.domain.shape, self.dtype.dtype) if out is None else out
            if view.size == 0:
                return result
            cutter = Cutter(view)
            bound = time.time()
            reads = [
                (part, box, self._read(box, using, bound)) for box, part in self._chunks(cutter)
            ]
            for part, box, done in reads:
                chunk = done()[0]
                cutter.put(result, part, selected(chunk, _inside(cutter.view_of(part), box)))
            return result

        return start(work)

    def write(self, view: IndexTransform, values: npt.NDArray[Any], using: Using) -> WriteFutures:
        """Have each chunk written; those of which only parts are written are read before."""
        if using.transaction is not None:
            self._cannot("write in a transaction")

        def work() -> None:
            check_finite(view)
            if view.size == 0:
                return
            cutter = Cutter(view)
            chunks = list(self._chunks(cutter))
            covered = [_covers(cutter, part, box) for box, part in chunks]
            if self._functions.read is None and not all(covered):
                raise ArgumentError(
                    "parts of chunks cannot be written without a function that reads chunks"
                )
            waits: list[Callable[[], bool]] = []
            for (box, part), whole in zip(chunks, covered, strict=True):
                items = cutter.items(values, part)
                inner = _inside(cutter.view_of(part), box)
                if whole:
                    chunk = self._new(box)
                    assign(chunk, inner, items)
                    waits.append(self._write(box, chunk, b""))
                else:
                    self._change(box, inner, items, using)
            for wait in waits:
                wait()

        done = start(work)
        return WriteFutures._of(done, done)

    def _chunks(self, cutter: Cutter) -> Iterator[tuple[IndexDomain, Part]]:
        """Give the domain of each chunk that a view touches, and the part of the view there."""
        dims = self._domain.dims
        for k, (low, high) in enumerate(cutter.reach()):
            if low < dims[k].inclusive_min or high > dims[k].exclusive_max:
                raise ArgumentError(
                    f"dimension {k}: positions in [{low}, {high}) are not all in {dims[k]}",
                    kind="out_of_bounds",
                )
        for cell in cutter.grid(self._origin, self._shape):
            bounds = []
            for index, origin, size, dim in zip(cell, self._origin, self._shape, dims, strict=True):
                low = max(origin + index * size, dim.inclusive_min)
                high = min(origin + (index + 1) * size, dim.exclusive_max)
                bounds.append(Dim.of(low, high, dim.label))
            box = IndexDomain.of(tuple(bounds))
            part = cutter.within(
                cutter.whole, [(dim.inclusive_min, dim.exclusive_max) for dim in bounds]
            )
            if part is not None:
                yield box, part

    def _new(self, box: IndexDomain) -> npt.NDArray[Any]:
        """Return an array for a chunk, whose axes are in memory as the layout says."""
        order = self._layout.inner_order or tuple(range(box.rank))
        shape = box.shape
        kind = self.dtype
        made = np.zeros([shape[axis] for axis in order], kind.dtype)
        if kind.name in _EMPTY:
            made[...] = _EMPTY[kind.name]
        return made.transpose(np.argsort(order)) if box.rank else made

    def _read(
        self, box: IndexDomain, using: Using, bound: float
    ) -> Callable[[], tuple[npt.NDArray[Any], bytes]]:
        """Begin to read a chunk; what is returned waits for it, and gives its generation, too."""
        key = box.origin
        kept = self._cache.get(key)
        if kept is not None and kept[2] >= bound:
            return lambda: kept[:2]
        function = self._functions.read
        if function is None:
            raise ArgumentError("there is no function that reads chunks")
        chunk = self._new(box)
        old = b"" if kept is None else kept[1]
        parameters = VirtualChunkedReadParameters(using.batch, old, bound)
        called = self._functions.begin(function, box, chunk, parameters)

        def done() -> tuple[npt.NDArray[Any], bytes]:
            generation, at = _stamp(called.result())
            found = chunk
            if kept is not None and kept[1] and generation in (b"", kept[1]):
                found, generation = kept[0], kept[1]
            self._cache.put(key, found, generation, at)
            return found, generation

        return done

    def _write(
        self, box: IndexDomain, chunk: npt.NDArray[Any], expected: bytes
    ) -> Callable[[], bool]:
        """Begin to write a chunk; what is returned waits, and tells whether it was as expected."""
        function = self._functions.write
        assert function is not None
        chunk.flags.writeable = False
        called = self._functions.begin(
            function, box, chunk, VirtualChunkedWriteParameters(expected)
        )

        def done() -> bool:
            try:
                result = called.result()
                generation, at = _stamp(result)
            except BaseException:
                self._cache.drop(box.origin)
                raise
            if result is not None and not generation:
                self._cache.drop(box.origin)
                return not expected
            self._cache.put(box.origin, chunk, generation, at)
            return True

        return done

    def _change(
        self, box: IndexDomain, inner: IndexTransform, items: npt.NDArray[Any], using: Using
    ) -> None:
        """Read a chunk, change a part of it, and write it, until nobody else did in between."""
        with self._lock:
            while True:
                before, generation = self._read(box, using, -inf)()
                chunk = self._new(box)
                chunk[...] = before
                assign(chunk, inner, items)
                if self._write(box, chunk, generation)():
                    return


def _begin(dim: Dim, size: int) -> int:
    """Return where the first chunk from 0 on begins, if one begins where the dimension does."""
    return dim.inclusive_min % size if dim.inclusive_min > -INFINITE else 0


def _inside(view: IndexTransform, box: IndexDomain) -> IndexTransform:
    """Return a view of a chunk's array, whose indices begin at 0."""
    maps = []
    for one, origin in zip(view.output, box.origin, strict=True):
        offset = one.offset - origin
        if one.index_array is not None:
            maps.append(OutputIndexMap.by_array(one.index_array, offset, one.factor, one.within))
        elif one.input_dimension is not None:
            maps.append(OutputIndexMap.along(one.input_dimension, offset, one.factor))
        else:
            maps.append(OutputIndexMap.constant(offset))
    return IndexTransform.of(view.domain, tuple(maps))


def _covers(cutter: Cutter, part: Part, box: IndexDomain) -> bool:
    """Tell whether a part has every position of a chunk; False where that is not plain."""
    view = cutter.view_of(part)
    if view.size < box.size or any(one.index_array is not None for one in view.output):
        return False
    followed = {one.input_dimension for one in view.output if one.factor}
    shape = view.domain.shape
    repeats = prod(size for k, size in enumerate(shape) if k not in followed)
    return view.size == box.size * repeats
