"""Batches: reads that start together and share their requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from tessarr.tensorstore.batch.read_group import ReadGroup, start_reads, submitted_error
from tessarr.tensorstore.batch.shared_reads import SharedReads
from tessarr.tensorstore.future.executor import submit
from tessarr.tensorstore.future.future import PENDING, Future, failed

if TYPE_CHECKING:
    from tessarr.tensorstore.batch.read_group import Reads
    from tessarr.tensorstore.batch.shared_reads import ExpectedRead

__all__ = ["Batch"]

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
        self.future._begin = self._alone

    def _alone(self, _: object) -> None:
        _start_all([self], {})

    def take_start(self) -> _Start | None:
        """Return `begin` to the first caller; None to others, or after the future has ended."""
        if not self._begin or self.future._state != PENDING:
            return None
        try:
            return self._begin.pop()
        except IndexError:  # another thread was faster
            return None


def _start_all(waiting: Sequence[_DeferredRead], reads: Reads) -> None:
    """Start deferred reads and array reads, which share their requests.

    If array reads need metadata, a thread fetches the metadata and then starts all reads. All
    reads register the chunks that they need before the first read fetches one.
    """
    arrays: list[_Deferred] = []
    others: list[_Deferred] = []
    expected: list[ExpectedRead] = []
    looks = False
    for one in waiting:
        begin = one.take_start()
        if begin is not None:
            expected += one.expected
            looks = looks or (one.reads and len(one.expected) > 0)
            (arrays if one.reads else others).append((one.future, begin))
    sharing = SharedReads(expected if len(arrays) + len(others) + len(reads) > 1 else ())
    if not looks:
        _start_now(arrays, others, reads, sharing)
        return
    helped = submit(partial(_start_now, arrays, others, reads, sharing))
    for future in [*reads, *(future for future, _ in [*arrays, *others])]:
        future._work = future._work or helped


def _start_now(
    arrays: Sequence[_Deferred], others: Sequence[_Deferred], reads: Reads, sharing: SharedReads
) -> None:
    together = ReadGroup(waits=True)
    for some in (arrays, others):
        result = []
        for future, begin in some:
            try:
                source = begin(together, sharing)
            except BaseException as error:  # noqa: BLE001 (the future reports it)
                source = failed(error)
            result.append((future, source))
        if some is arrays and (arrays or reads):
            start_reads({**reads, **together.take()}, sharing)
        for future, source in result:
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

    __slots__ = ("__weakref__", "_lock", "_submitted", "_together", "_waiting")

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: list[_DeferredRead] = []
        self._submitted = False
        self._together = ReadGroup(waits=True)

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
        reads = self._together.take(last=last)
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
        raise TypeError("a batch cannot be copied: it is submitted once nobody refers to it")

    def __del__(self) -> None:
        if hasattr(self, "_lock") and not self._submitted:  # no lock: the constructor failed
            self.submit()
