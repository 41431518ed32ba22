"""Transactions: staged changes that one commit stores."""

from __future__ import annotations

from _thread import RLock
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn, Self, TypeAlias

from tessarr.errors import ArgumentError, TessarrError
from tessarr.format.registry import set_public_module
from tessarr.tensorstore.future.executor import submit_uninterrupted
from tessarr.tensorstore.future.future import Future, failed, finished
from tessarr.tensorstore.future.promise import Promise
from tessarr.tensorstore.future.write_futures import WriteFutures
from tessarr.tensorstore.json.parse import as_bool, check_class
from tessarr.tensorstore.transaction.participant import Staging
from tessarr.tensorstore.transaction.pending import PendingOperations

if TYPE_CHECKING:
    from collections.abc import Callable

    from tessarr.tensorstore.transaction.pending import F

__all__ = ["Transaction", "replace_transaction", "run_in_transaction"]

_Errors: TypeAlias = "type[BaseException] | tuple[type[BaseException], ...]"

_SMALL_BYTES: Final = 1 << 16  # the size of a file that is stored faster than a thread starts


def run_in_transaction(transaction: Transaction | None, start_operation: Callable[[], F]) -> F:
    """Call `start_operation`, in `transaction` unless it is None, and return its future.

    The transaction commits after the future is done.
    """
    return start_operation() if transaction is None else transaction._run(start_operation)


def replace_transaction(old: Transaction | None, new: Transaction | None) -> Transaction | None:
    """Return `new` as the replacement of a transaction; None stands for no transaction.

    Raises
    ------
    ArgumentError
        If the old one is not committed, because its staged changes would be missing.
    """
    check_class(new, Transaction, "transaction")
    if old is not None and not old.commit_started:
        raise ArgumentError("it takes part in a transaction that is not committed yet")
    return new


class Transaction:
    """Stages changes of stores until a commit.

    Reads in the transaction see the changes; other reads see them after the commit. Many writes to
    parts of one chunk or shard become one change of it.

    Parameters
    ----------
    atomic : bool, default False
        Store all changes at once, or none. Every store can change one key atomically; memory and
        SQLite can change many.
    repeatable_read : bool, default False
        Refuse the commit if a value that the transaction read has changed since.

    Notes
    -----
    A commit waits for operations that started before it. Without `atomic`, it changes chunks one
    after another, each atomically. Elements that the transaction did not write keep other writers'
    changes. Keys of one memory store change together or not at all.

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

    __slots__ = (
        "__weakref__",
        "_atomic",
        "_committed",
        "_ended",
        "_error",
        "_future",
        "_lock",
        "_pending",
        "_promise",
        "_repeatable",
        "_sealed",
        "_staged",
    )

    def __init__(
        self,
        atomic: bool = False,  # noqa: FBT002 (TensorStore's signature)
        repeatable_read: bool = False,  # noqa: FBT002
    ) -> None:
        self._atomic = as_bool(atomic, "atomic")
        self._repeatable = as_bool(repeatable_read, "repeatable_read")
        self._lock = RLock()  # held for a check of the state and a change that depends on it
        self._committed: bool | None = None  # or aborted; None: it is open
        self._sealed = False  # no more stores can take part
        self._ended = False  # the commit or the abort is complete
        self._error: BaseException | None = None
        self._staged: Staging | None = None  # created with the first store
        self._pending: PendingOperations | None = None  # created with the first operation
        self._promise: Promise[None] | None = None
        self._future: Future[None] | None = None  # created on first use

    # Properties

    @property
    def atomic(self) -> bool:
        """Whether all changes are stored at once, or none.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.Transaction(atomic=True).atomic, ts.Transaction().atomic
        (True, False)
        """
        return self._atomic

    @property
    def open(self) -> bool:
        """Whether reads and writes can join the transaction.

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
        """Whether the transaction was aborted.

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
        """Whether a commit has started.

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
        """Done when the changes are stored; fails if they are not.

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
        """The staged changes."""
        if self._staged is None:
            with self._lock:
                if self._staged is None:
                    staged = Staging(self._lock, atomic=self._atomic, repeatable=self._repeatable)
                    if self._sealed:
                        staged.close(self._closed_reason)
                    self._staged = staged
        return self._staged

    def _run(self, start_operation: Callable[[], F]) -> F:
        """Call `start_operation`, and track its future if the transaction is open."""
        with self._lock:
            if self._sealed:
                pending = None
            else:
                pending = self._pending
                if pending is None:
                    pending = self._pending = PendingOperations(self._lock)
                pending.starting_count += 1
        if self._repeatable:
            start_operation = partial(self._start_watched, start_operation)
        return start_operation() if pending is None else pending.start_counted(start_operation)

    def _start_watched(self, start_operation: Callable[[], F]) -> F:
        result = start_operation()
        self._staging.watch(result.commit if isinstance(result, WriteFutures) else result)
        return result

    # Commit and abort

    def commit_async(self) -> Future[None]:
        """Start the commit; return `future`.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> store, transaction = ts.KvStore.open("memory://").result(), ts.Transaction()
        >>> store.with_transaction(transaction)["a"] = b"1"
        >>> transaction.commit_async().result()
        >>> store["a"]
        b'1'
        """
        self._start_commit(0)
        return self.future

    def commit_sync(self) -> None:
        """Commit the changes.

        Raises
        ------
        ConflictError
            If the condition of a change, or with `repeatable_read` of a read, does not hold.
        ArgumentError
            If the changes cannot be stored atomically, or the transaction was aborted.

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
        self._start_commit(_SMALL_BYTES)
        if not self._ended or self._error is not None:
            self.future.result()

    def _start_commit(self, file_bytes: int) -> None:
        """Start the commit; finish it here if it is quick.

        After Ctrl-C, another thread finishes the commit.

        Parameters
        ----------
        file_bytes
            The maximum size of a file that this thread stores, because the caller waits for it.
        """
        try:
            if not self._close(committed=True):
                return
            if self._seal():
                if self._staging.is_quick(file_bytes):
                    self._end()
                else:
                    self._resume()
        except BaseException:
            if self.commit_started:
                self._resume()
            raise

    def _resume(self) -> None:
        """Finish the commit in another thread."""
        self.future._work = submit_uninterrupted(partial(self._end, BaseException))

    def abort(self) -> None:
        """Discard the changes; no effect after the start of a commit.

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

    def _close(self, *, committed: bool) -> bool:
        """Close the transaction as committed or aborted; return False if it was not open."""
        with self._lock:
            if self._committed is not None:
                return False
            self._committed = committed
            return True

    def _abort_with(self, why: BaseException) -> None:
        with self._lock:
            if not self._close(committed=False):
                return
            self._close_staging()
        self._set_result(why)

    def _check_single_target(self) -> None:
        """Abort with an error if an atomic transaction has several values to change."""
        if self._atomic:
            try:
                self._staging.check_single_target()
            except ArgumentError as error:
                self._abort_with(error)
                raise

    def _seal(self) -> bool:
        """Close the transaction; return False if pending operations delay that."""
        with self._lock:
            pending = self._pending
            if pending is None or pending.is_idle(self._close_staging, self._resume):
                self._close_staging()
                return True
        pending.force()
        return False

    def _close_staging(self) -> None:
        """Refuse all further operations."""
        self._sealed = True
        if self._staged is not None:
            self._staged.close(self._closed_reason)

    @property
    def _closed_reason(self) -> str:
        """The reason why the transaction is closed."""
        return "aborted" if self.aborted else "commit already started"

    def _end(self, ends: _Errors = (TessarrError, MemoryError)) -> None:
        """Commit the changes and set the result; a repeated call finishes an interrupted commit.

        Parameters
        ----------
        ends
            Errors that end the commit. After any other exception, the caller repeats the call.
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
            self._set_result(self._error)

    def _set_result(self, error: BaseException | None) -> None:
        """Set the result of the transaction's future."""
        with self._lock:
            if self._staged is not None:
                self._staged.abort()  # discards the rest
            self._error, self._ended = error, True
            promise = self._promise
        if promise is None:
            return
        if error is None:
            promise.set_result(None)
        else:
            promise.set_exception(error)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a transaction belongs to its process: it cannot be pickled or copied")

    # Blocks

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.commit_sync()
        else:
            self.abort()

    def __aenter__(self) -> Future[Transaction]:
        return Future(self)

    def __aexit__(self, kind: type[BaseException] | None, *_: object) -> Future[None]:
        if kind is None:
            return self.commit_async()
        self.abort()
        return Future(None)


set_public_module("tessarr.tensorstore", Transaction)
