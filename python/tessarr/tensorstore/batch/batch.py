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
    """What begins once: when a batch does, or when its result is wanted before.

    Parameters
    ----------
    begin
        Begins it, given what collects reads of arrays that begin with it, and what it shares.
    expected
        What it will ask for.
    reads
        Whether it reads arrays. It looks at what is expected before.
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
        """Return what begins it, to the first who asks; None where nobody wants it any more."""
        if not self._begin or self.future._state != PENDING:
            return None
        try:
            return self._begin.pop()
        except IndexError:  # another thread was faster
            return None


def _start_all(waiting: Sequence[_DeferredRead], reads: Reads) -> None:
    """Begin what waits, and reads of arrays: they share what they read.

    Where metadata have to be looked at before, a thread does that, and then begins everything:
    what is wanted of a chunk is told to all who read it before one of them does.
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
            except BaseException as error:  # noqa: BLE001 (told to whom it may concern)
                source = failed(error)
            result.append((future, source))
        if some is arrays and (arrays or reads):
            start_reads({**reads, **together.take()}, sharing)
        for future, source in result:
            future._forward(source)


class Batch:
    """Collects reads, which begin when it is submitted.

    They share what they read: a chunk that several touch is fetched and decoded once, a shard is
    opened once for all of them, its index read once, and what is close together in it is fetched
    together, as is what is read of a key. Keys, chunks and metadata that are the same are asked for
    once, through whichever caches, and in transactions. Bounds that have to be looked up are so
    when the reads begin.

    Notes
    -----
    A read whose result somebody waits for before begins at once. Nothing is kept from beginning
    by forgetting to submit: where nobody refers to the batch any more, it is submitted.

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
        """Begin all reads; no more can be added.

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
        """Begin all that was collected; nothing is added any more if it is the last time."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        reads = self._together.take(last=last)
        if waiting or reads:
            _start_all(waiting, reads)

    def _check(self) -> None:
        """Raise an error if it was submitted."""
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
        """Return the future of what `begin` gives, which is called when the batch is submitted.

        It is given what collects reads of arrays that begin with it, and what it shares with
        others, who are told what is `expected`. What `reads` arrays looks at that before others
        begin. That the batch was submitted is an error, but for what opens: that begins at once.
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
        if hasattr(self, "_lock") and not self._submitted:  # else it was refused, and never made
            self.submit()
