"""Batches: reads that start together and share their requests."""

from __future__ import annotations

import time
from _thread import allocate_lock
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

from tessarr import _engine
from tessarr._engine import CoalescingStore, PreparedRead
from tessarr.errors import ArgumentError
from tessarr.format.registry import set_public_module
from tessarr.store import MemoryStore, Store
from tessarr.store.wrappers.cache import PooledCacheStore
from tessarr.store.wrappers.staged import StagedStore
from tessarr.tensorstore.future.executor import submit
from tessarr.tensorstore.future.future import PENDING, Future, failed

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from tessarr.array import Array
    from tessarr.metadata.node import ArrayMeta

__all__ = ["Batch", "ExpectedRead", "ReadGroup", "SharedReads", "start_read"]


class ExpectedRead(NamedTuple):
    """A read that will follow.

    Parameters
    ----------
    place : Store
        The store below caches and transactions.
    key : str
        A key of `place`.
    span : tuple, optional
        The first byte, and the byte after the last one; by default the whole value.
    """

    place: Store
    key: str
    span: tuple[int, int | None] | None = None


class SharedReads:
    """The stores of a read group, which share fetched values between its reads.

    Later reads share nothing with the group, because stored values may have changed.

    Parameters
    ----------
    expected
        Reads that will follow, except chunk reads.
    """

    __slots__ = ("_stores", "began_s")

    began_s: float
    """The time at which the reads start, in seconds since 1970."""

    def __init__(self, expected: Iterable[ExpectedRead] = ()) -> None:
        self.began_s = time.time()
        self._stores: dict[Hashable, CoalescingStore] = {}
        for place, key, span in expected:
            shared = self._shared(place)
            if shared is not None:
                shared.expect(key, span)

    def _shared(self, place: Store) -> CoalescingStore | None:
        """Return the coalescing store of `place`; None for memory, which needs no requests."""
        if type(place) is PooledCacheStore:
            place = place.base_store
        if type(place) is MemoryStore:
            return None
        return self._stores.setdefault(place, CoalescingStore(place))

    @property
    def expects(self) -> bool:
        """Whether reads may share requests to any store."""
        return bool(self._stores)

    def of(self, store: Store, place: Store) -> tuple[Store, CoalescingStore] | None:
        """Return the store below `store` that equals `place`, and its coalescing store."""
        shared = self._shared(place)
        return None if shared is None else (_find_inner_store(store, place), shared)

    def through(self, store: Store, place: Store) -> Store:
        """Return `store` with the coalescing store of `place` in the position of `place`."""
        result = self.of(store, place) if self._stores else None
        return store if result is None else result[1].substitute(store, result[0])


def _find_inner_store(store: Store, place: Store) -> Store:
    """Return the store below `store` that equals `place`."""
    if type(place) is PooledCacheStore:
        place = place.base_store
    result: Any = store
    while not (result is place or result == place):
        for name in ("below", "store"):
            inner = getattr(result, name, None)
            if inner is not None:
                break
        else:
            return place
        result = inner
    inside: Store = result
    return inside


_Read: TypeAlias = "tuple[PreparedRead, Array, ArrayMeta, Store]"

Reads: TypeAlias = "dict[Future[Any], _Read]"
"""Reads by future, each with its array, the metadata and the store below caches."""


class ReadGroup:
    """Collects reads of arrays until they start.

    Parameters
    ----------
    waits
        Whether the reads wait until they are submitted. A read starts alone if a caller waits
        for its result earlier. Otherwise all reads start at the latest with the first such wait.
    """

    __slots__ = ("_lock", "_reads", "waits")

    def __init__(self, *, waits: bool = False) -> None:
        self.waits = waits
        self._lock = allocate_lock()
        self._reads: Reads | None = {}  # None after the batch is submitted

    def read(self, read: PreparedRead, array: Array, place: Store) -> Future[Any]:
        """Return the future of `read`; `place` is the store of `array` or a store below it."""
        future: Future[Any] = Future._pending()
        future._begin = self._begin_for
        with self._lock:
            if self._reads is None:
                raise submitted_error()
            self._reads[future] = read, array, array._meta, place
        return future

    def take(self, *, last: bool = False) -> Reads:
        """Return all collected reads; with `last`, accept no more reads."""
        with self._lock:
            reads = self._reads
            self._reads = None if last or reads is None else {}
        return reads or {}

    def begin(self) -> None:
        """Start all collected reads."""
        start_reads(self.take())

    def _begin_for(self, future: Future[Any]) -> None:
        """Start the read of `future`; without `waits`, start all reads."""
        if not self.waits:
            self.begin()
            return
        with self._lock:
            read = None if self._reads is None else self._reads.pop(future, None)
        if read is not None:
            start_reads({future: read})


def start_read(read: PreparedRead, *, soon: bool) -> Future[Any]:
    """Start one read and return its future.

    With `soon`, a small read may share an engine call with reads of the same array that follow
    before a worker is free.
    """
    future: Future[Any] = Future._pending()
    future._work = _engine.start_reads([read], [future], coalesce=soon).help
    return future


def start_reads(reads: Reads, sharing: SharedReads | None = None) -> None:
    """Start reads, which share requests through `sharing`."""
    pending = [future for future in reads if future._state == PENDING]
    if not pending:
        return
    parts, places = [reads[future] for future in pending], None
    if sharing is not None and (sharing.expects or not _is_one_read(parts)):
        places = [sharing.of(array._store, place) for _, array, _, place in parts]
    reading = _engine.start_reads([part[0] for part in parts], pending, locations=places)
    for future in pending:
        future._begin, future._work = None, reading.help


def _is_one_read(reads: list[_Read]) -> bool:
    """Return whether the engine runs `reads` as one: one array outside a transaction."""
    _, array, meta, _ = reads[0]
    same = all(read[1] is array and read[2] is meta for read in reads)
    return same and type(array._store) is not StagedStore


def submitted_error() -> ArgumentError:
    """Return the error for a read that is added to a submitted batch."""
    return ArgumentError("batch was already submitted")


_Start: TypeAlias = Callable[[ReadGroup, SharedReads], Future[Any]]
_Deferred: TypeAlias = tuple[Future[Any], _Start]


class _DeferredRead:
    """A read that starts once: with its batch, or earlier if a caller waits for the result.

    Parameters
    ----------
    begin
        Starts the read. Its arguments are the read group and the shared reads of the batch.
    expected
        The requests that the read will send.
    reads
        Whether it reads arrays; such a read fetches `expected` before other reads start.
    """

    __slots__ = ("_begin", "expected", "future", "reads")

    def __init__(self, begin: _Start, expected: Sequence[ExpectedRead], *, reads: bool) -> None:
        self._begin = [begin]
        self.expected, self.reads = expected, reads
        self.future: Future[Any] = Future._pending()
        self.future._begin = lambda _: _start_all([self], {})

    def take_start(self) -> _Start | None:
        """Return `begin` to the first caller; None to others, or after the future has ended."""
        if self.future._state != PENDING:
            return None
        with suppress(IndexError):  # another thread was faster
            return self._begin.pop()
        return None


def _start_all(waiting: Sequence[_DeferredRead], reads: Reads) -> None:
    """Start deferred reads and array reads, which share their requests.

    If array reads need metadata, a thread fetches the metadata and then starts all reads. All
    reads register the chunks that they need before the first read fetches one.
    """
    starts = [(read, read.take_start()) for read in waiting]
    due = [(read, begin) for read, begin in starts if begin is not None]
    arrays = [(read.future, begin) for read, begin in due if read.reads]
    others = [(read.future, begin) for read, begin in due if not read.reads]
    expected = [document for read, _ in due for document in read.expected]
    sharing = SharedReads(expected if len(due) + len(reads) > 1 else ())
    if not any(read.reads and read.expected for read, _ in due):
        _start_now(arrays, others, reads, sharing)
        return
    helped = submit(partial(_start_now, arrays, others, reads, sharing))
    for future in [*reads, *(read.future for read, _ in due)]:
        future._work = future._work or helped


def _start_now(
    arrays: Sequence[_Deferred], others: Sequence[_Deferred], reads: Reads, sharing: SharedReads
) -> None:
    group = ReadGroup(waits=True)
    for deferred in (arrays, others):
        sources = []
        for _, begin in deferred:
            try:
                sources.append(begin(group, sharing))
            except BaseException as error:  # noqa: BLE001 (the future reports it)
                sources.append(failed(error))
        if deferred is arrays and (arrays or reads):
            start_reads({**reads, **group.take()}, sharing)
        for (future, _), source in zip(deferred, sources, strict=True):
            future._forward(source)


class Batch:
    """Collects reads, which start together when the batch is submitted.

    The reads share their requests. The batch fetches and decodes a common chunk once, and reads
    the index of a common shard once. One coalesced read fetches neighbouring ranges of a shard
    or a value. Equal keys, chunks and metadata documents need one request, also through caches
    and in transactions. The batch resolves bounds when the reads start.

    Notes
    -----
    A read starts earlier if a caller waits for its result before the batch is submitted. Python
    submits a batch when it deletes the last reference to the batch.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> store = ts.KvStore.open("memory://").result()
    >>> store["a"] = b"1"
    >>> with ts.Batch() as batch:
    ...     future = store.read("a", batch=batch)
    >>> future.result().value
    b'1'
    """

    __slots__ = ("__weakref__", "_lock", "_read_group", "_submitted", "_waiting")

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: list[_DeferredRead] = []
        self._submitted = False
        self._read_group = ReadGroup(waits=True)

    def submit(self) -> None:
        """Start all reads; the batch then accepts no more reads.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> batch = ts.Batch()
        >>> future = ts.array([1, 2]).read(batch=batch)
        >>> batch.submit()
        >>> future.result()
        array([1, 2])
        """
        with self._lock:
            self._submitted = True
        self._begin(last=True)

    def _begin(self, *, last: bool = False) -> None:
        """Start all collected reads; with `last`, accept no more reads."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        reads = self._read_group.take(last=last)
        if waiting or reads:
            _start_all(waiting, reads)

    def _check(self) -> None:
        """Raise an error if the batch was submitted."""
        if self._submitted:
            raise submitted_error()

    def _defer(
        self,
        begin: _Start,
        expected: Sequence[ExpectedRead] = (),
        *,
        reads: bool = False,
        opens: bool = False,
    ) -> Future[Any]:
        """Return the future of `begin`, which runs when the batch is submitted.

        The arguments of `begin` are the read group and the shared reads of the batch, which know
        the `expected` requests of all reads. With `reads`, `begin` reads arrays and fetches
        `expected` before other reads start. A submitted batch raises an error, except with
        `opens`: then `begin` runs at once.
        """
        new = _DeferredRead(begin, expected, reads=reads)
        with self._lock:
            if not self._submitted:
                self._waiting.append(new)
                return new.future
        if not opens:
            raise submitted_error()
        new.future.force()
        return new.future

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.submit()

    def __reduce__(self) -> str:
        raise TypeError(
            "a batch cannot be copied: Python submits it when it deletes the last reference"
        )

    def __del__(self) -> None:
        if hasattr(self, "_lock") and not self._submitted:  # no lock: the constructor failed
            self.submit()


set_public_module("tessarr.tensorstore", Batch)
