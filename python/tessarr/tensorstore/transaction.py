"""Transactions: changes that are staged, and made together or not at all."""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, Any, Self

from tessarr.array import bind
from tessarr.errors import ArgumentError, ConflictError
from tessarr.store.kept import StagedStore
from tessarr.tensorstore.future import Future, Promise, start
from tessarr.tensorstore.staging import StagedArray

if TYPE_CHECKING:
    from tessarr.array import Array
    from tessarr.store import Store

__all__ = ["Transaction"]


class Transaction:
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
    Where it is not atomic, chunks are changed one after another, each at once, and elements of
    a chunk that were not written keep what others have written to them meanwhile.

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
        "_aborted",
        "_arrays",
        "_atomic",
        "_committing",
        "_future",
        "_lock",
        "_promise",
        "_repeatable",
        "_stages",
    )

    def __init__(
        self,
        atomic: bool = False,  # noqa: FBT002 (as TensorStore has it)
        repeatable_read: bool = False,  # noqa: FBT002
    ) -> None:
        self._atomic = bool(atomic)
        self._repeatable = bool(repeatable_read)
        self._stages: dict[Any, StagedStore] = {}
        self._arrays: dict[Any, tuple[Array, StagedArray]] = {}
        self._lock = RLock()
        self._committing = self._aborted = False
        self._promise: Promise[None]
        self._future: Future[None]
        self._promise, self._future = Promise.new()

    # What it is

    @property
    def atomic(self) -> bool:
        """Whether all changes are made at once, or none."""
        return self._atomic

    @property
    def open(self) -> bool:
        """Whether reads and writes may take part in it."""
        return not self._committing and not self._aborted

    @property
    def aborted(self) -> bool:
        """Whether it was given up."""
        return self._aborted

    @property
    def commit_started(self) -> bool:
        """Whether its changes are being made, or were."""
        return self._committing

    @property
    def future(self) -> Future[None]:
        """Done when its changes are made; an error if they are not."""
        return self._future

    # The end

    def commit_async(self) -> Future[None]:
        """Begin to make the changes; return `future`."""
        with self._lock:
            if self.open:
                self._committing = True
                for _, staged in self._arrays.values():
                    staged.close()
                start(self._commit).add_done_callback(self._tell)
        return self._future

    def commit_sync(self) -> None:
        """Make the changes.

        Raises
        ------
        ConflictError
            If something is not as it was when a change was decided on it; with
            `repeatable_read`, when it was read.
        ArgumentError
            If they have to be made at once and cannot; or the transaction was aborted.
        """
        self.commit_async().result()

    def abort(self) -> None:
        """Give up the changes; without effect where they are being made already."""
        with self._lock:
            if not self.open:
                return
            self._aborted = True
            for stage in self._stages.values():
                stage.abort()
            for _, staged in self._arrays.values():
                staged.close()
            self._stages.clear()
            self._arrays.clear()
        self._promise.set_exception(ArgumentError("CANCELLED: Transaction aborted"))

    def _tell(self, done: Future[None]) -> None:
        error = done.exception()
        with self._lock:
            stages = list(self._stages.values())
            self._stages.clear()
            self._arrays.clear()
        for stage in stages:
            stage.abort()  # what is left of them
        if error is None:
            self._promise.set_result(None)
        else:
            self._promise.set_exception(error)

    def _commit(self) -> None:
        arrays = list(self._arrays.values())
        direct = not self._atomic and not self._repeatable
        if not direct:
            for array, staged in arrays:
                staged.apply(self._over(array))
        changing = [stage for stage in self._stages.values() if stage.changes()]
        if self._atomic and len(changing) > 1:
            raise ArgumentError("Cannot write several stores as single atomic transaction")
        for stage in self._stages.values():
            found = stage.commit(self._atomic)
            if isinstance(found, int):
                raise ArgumentError(
                    f"Cannot write {found} keys as single atomic transaction: that can be done "
                    "in memory and in SQLite; nothing was changed"
                )
            if found is not None:
                raise ConflictError(
                    f'ABORTED: Error writing "{found}": Generation mismatch: others changed it '
                    "after this transaction had read it; do everything again",
                    key=found,
                )
        if direct:
            for array, staged in arrays:
                staged.apply(self._below(array))

    # Taking part

    def _check(self) -> None:
        if not self.open:
            why = "aborted" if self._aborted else "commit already started"
            raise ArgumentError(f"Transaction not open ({why})")

    def _staged(self, store: Store) -> Store:
        """Return a store that stages changes of `store`; it itself, if it is one of these."""
        with self._lock:
            self._check()
            if any(stage is store for stage in self._stages.values()):
                return store
            found = self._stages.get(store)
            if found is None:
                found = self._stages[store] = StagedStore(store, self._repeatable)
            return found

    def _array(self, array: Array) -> StagedArray:
        """Return what stages writes to an array, and reads what is staged.

        Parameters
        ----------
        array
            In the store itself, or in what `_staged` made of it.
        """
        with self._lock:
            self._check()
            over = self._over(array)
            key = (over._store, array._path)
            found = self._arrays.get(key)
            if found is not None and found[0].metadata == array.metadata:
                return found[1]
            if found is not None:  # it has another shape now, or is seen as something else
                found[1].apply(self._over(found[0]))
            staged = StagedArray(over)
            self._arrays[key] = (array, staged)
            return staged

    def _over(self, array: Array) -> Array:
        """Return an array in the store that stages its changes."""
        stage = self._stages.get(array._store)
        if stage is None and any(one is array._store for one in self._stages.values()):
            return array
        store = array._store if self._committing else self._staged(array._store)
        return _again(array, stage if stage is not None else store)

    def _below(self, array: Array) -> Array:
        """Return an array in the store itself."""
        for store, stage in self._stages.items():
            if stage is array._store:
                return _again(array, store)
        return array

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


def _again(array: Array, store: Store) -> Array:
    return bind(
        array.metadata,
        store,
        array._path,
        read_only=False,
        write_empty_chunks=array.config.write_empty_chunks,
    )
