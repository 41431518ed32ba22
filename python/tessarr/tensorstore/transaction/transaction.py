"""Transactions: changes that are staged, and made together or not at all."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from tessarr._engine import TransactionBase, rebound
from tessarr.errors import ArgumentError, TessarrError
from tessarr.tensorstore.future.executor import submit_whole
from tessarr.tensorstore.future.future import Future, failed, finished
from tessarr.tensorstore.future.promise import Promise
from tessarr.tensorstore.future.write_futures import WriteFutures
from tessarr.tensorstore.transaction.participant import Staging
from tessarr.tensorstore.transaction.pending import PendingOperations

if TYPE_CHECKING:
    from collections.abc import Callable

    from tessarr.tensorstore.transaction.pending import F

__all__ = ["Transaction", "rebound", "run_in_transaction"]

_Errors: TypeAlias = "type[BaseException] | tuple[type[BaseException], ...]"

_ATTRIBUTES: Final = frozenset(
    {"_ended", "_error", "_future", "_mixed", "_promise", "_sealed", "_staged", "_pending"}
)
_SMALL_BYTES: Final = 1 << 16  # of a file, which is made before another thread has begun to


def run_in_transaction(transaction: Transaction | None, begin: Callable[[], F]) -> F:
    """Return the future that `begin` gives.

    The changes of the transaction, if there is one, are not made before its end.
    """
    return begin() if transaction is None else transaction._run(begin)


class Transaction(TransactionBase):
    """Stages changes of stores, which are made when it is committed.

    Nobody else sees them before, and reads that take part in it do. Many writes to parts of one
    chunk or shard make one change of it.

    Parameters
    ----------
    atomic : bool, default False
        Make all changes at once, or none. One key can be changed so in every store, many in
        memory and in SQLite.
    repeatable_read : bool, default False
        Make no changes if what was read in the transaction has changed since.

    Notes
    -----
    What has begun in it when it is committed belongs to it: the changes are made when that has
    ended. Where it is not atomic, chunks are changed one after another, each at once, and
    elements of a chunk that were not written keep what others have written to them meanwhile;
    keys of a store in memory are changed all at once, or none.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> store = ts.KvStore.open("memory://").result()
    >>> with ts.Transaction(atomic=True) as transaction:
    ...     staged = store.with_transaction(transaction)
    ...     staged["a"], staged["b"] = b"1", b"2"
    ...     print(staged["a"], "a" in store)
    b'1' False
    >>> store["a"], store["b"]
    (b'1', b'2')
    """

    _error: BaseException | None = None
    _staged: Staging | None = None  # made when more than keys in memory takes part
    _pending: PendingOperations | None = None  # made when something begins
    _promise: Promise[None] | None = None
    _future: Future[None] | None = None  # made when somebody asks for it

    def __setattr__(self, name: str, value: object) -> None:
        if name not in _ATTRIBUTES:  # no slots: most transactions set none of them
            raise AttributeError(f"a transaction has no {name!r} that can be set")
        super().__setattr__(name, value)

    # What it is

    @property
    def atomic(self) -> bool:
        """Whether all changes are made at once, or none.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.Transaction(atomic=True).atomic, ts.Transaction().atomic
        (True, False)
        """
        return self._atomic

    @property
    def open(self) -> bool:
        """Whether reads and writes may take part in it.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> transaction = ts.Transaction()
        >>> transaction.open, transaction.commit_sync(), transaction.open
        (True, None, False)
        """
        return self._committed is None

    @property
    def aborted(self) -> bool:
        """Whether it was given up.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> transaction = ts.Transaction()
        >>> transaction.abort()
        >>> transaction.aborted
        True
        """
        return self._committed is False

    @property
    def commit_started(self) -> bool:
        """Whether its changes are being made, or were.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> transaction = ts.Transaction()
        >>> transaction.commit_started, transaction.commit_sync(), transaction.commit_started
        (False, None, True)
        """
        return self._committed is True

    @property
    def future(self) -> Future[None]:
        """Done when its changes are made; an error if they are not.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> transaction = ts.Transaction()
        >>> future = transaction.future
        >>> future.done(), transaction.commit_sync(), future.done()
        (False, None, True)
        """
        with self._lock:
            if self._future is None:
                if not self._ended:
                    self._promise, self._future = Promise.new()
                else:
                    self._future = finished(None) if self._error is None else failed(self._error)
            return self._future

    @property
    def _staging(self) -> Staging:
        """What takes part."""
        if self._staged is None:
            with self._lock:
                if self._staged is None:
                    staged = Staging(self)
                    if self._sealed:
                        staged.close(self._closed_reason)
                    self._staged = staged
        return self._staged

    def _run(self, begin: Callable[[], F]) -> F:
        """Return the future that `begin` gives; it is under way then, if it still can be."""
        with self._lock:
            if self._sealed:
                under_way = None
            else:
                under_way = self._pending
                if under_way is None:
                    under_way = self._pending = PendingOperations(self._lock)
                under_way.starting_count += 1
        if self._repeatable:
            begin = partial(self._start_watched, begin)
        return begin() if under_way is None else under_way.start_counted(begin)

    def _start_watched(self, begin: Callable[[], F]) -> F:
        made = begin()
        self._staging.watch(made.commit if isinstance(made, WriteFutures) else made)
        return made

    # The end

    def commit_async(self) -> Future[None]:
        """Begin to make the changes; return `future`.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> store, transaction = ts.KvStore.open("memory://").result(), ts.Transaction()
        >>> store.with_transaction(transaction)["a"] = b"1"
        >>> transaction.commit_async().result()
        >>> store["a"]
        b'1'
        """
        self._begin(0)
        return self.future

    def commit_sync(self) -> None:
        """Make the changes.

        Raises
        ------
        ConflictError
            If something is not as it was when a change was decided on it; with
            `repeatable_read`, when it was read.
        ArgumentError
            If they have to be made at once and cannot; or the transaction was aborted.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> store, transaction = ts.KvStore.open("memory://").result(), ts.Transaction()
        >>> generation = store.write("a", b"1").result().generation
        >>> _ = store.with_transaction(transaction).write("a", b"2", if_equal=generation)
        >>> transaction.commit_sync()
        >>> store["a"]
        b'2'
        """
        self._begin(_SMALL_BYTES)
        if not self._ended or self._error is not None:
            self.future.result()

    def _begin(self, file_bytes: int) -> None:
        """Begin to make the changes; make them, if that takes no time.

        What Ctrl-C keeps from being made here, another thread makes.

        Parameters
        ----------
        file_bytes
            How large a file may be that is made here, too, as who calls waits for it.
        """
        if self._commit_alone():
            return
        try:
            with self._lock:
                if not self._close(True):
                    return
            if self._seal():
                if self._staging.is_quick(file_bytes):
                    self._end()
                else:
                    self._go_on()
        except BaseException:
            if self.commit_started:
                self._go_on()
            raise

    def _go_on(self) -> None:
        """Have another thread make the changes that are not made yet."""
        self.future._work = submit_whole(partial(self._end, BaseException))

    def abort(self) -> None:
        """Give up the changes; without effect where they are being made already.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> store, transaction = ts.KvStore.open("memory://").result(), ts.Transaction()
        >>> store.with_transaction(transaction)["a"] = b"1"
        >>> transaction.abort()
        >>> "a" in store
        False
        """
        self._abort_with(ArgumentError("CANCELLED: Transaction aborted"))

    def _abort_with(self, why: BaseException) -> None:
        with self._lock:
            if not self._close(False):
                return
            self._close_staging()
        self._tell(why)

    def _check_single_target(self) -> None:
        """Give up, with an error, if all changes have to be made at once and cannot."""
        if self._atomic:
            try:
                self._staging.check_single_target()
            except ArgumentError as error:
                self._abort_with(error)
                raise

    def _seal(self) -> bool:
        """Have nothing more take part; False: something is under way, and what follows is later."""
        with self._lock:
            under_way = self._pending
            if under_way is None or under_way.is_idle(self._close_staging, self._go_on):
                self._close_staging()
                return True
        under_way.force()
        return False

    def _close_staging(self) -> None:
        """Have nothing more take part."""
        self._sealed = True
        if self._staged is not None:
            self._staged.close(self._closed_reason)

    @property
    def _closed_reason(self) -> str:
        """Why nothing more can take part."""
        return "aborted" if self.aborted else "commit already started"

    def _end(self, ends: _Errors = (TessarrError, MemoryError)) -> None:
        """Make the changes, and tell how that ended; called again, do what is left of that.

        Parameters
        ----------
        ends
            The errors that end it. Others come from outside, and it is called again.
        """
        if not self._sealed and not self._seal():
            return
        staged = self._staging
        with staged.ending:
            if not self._ended and self._error is None:
                try:
                    staged.commit()
                except ends as error:
                    self._error = error
            self._tell(self._error)

    def _tell(self, error: BaseException | None) -> None:
        """Tell who waits how it ended."""
        with self._lock:
            if self._staged is not None or self._stages:
                self._staging.abort()  # what is left
            self._error, self._ended = error, True
            promise = self._promise
        if promise is None:
            return
        if error is None:
            promise.set_result(None)
        else:
            promise.set_exception(error)

    # Blocks

    def __aenter__(self) -> Future[Transaction]:
        return Future(self)

    def __aexit__(self, kind: type[BaseException] | None, *_: object) -> Future[None]:
        if kind is None:
            return self.commit_async()
        self.abort()
        return Future(None)
