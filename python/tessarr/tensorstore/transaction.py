"""Transactions: changes that are staged, and made together or not at all."""

from __future__ import annotations

from _thread import RLock, get_ident
from dataclasses import dataclass, replace
from functools import partial
from threading import main_thread
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias

from tessarr.array.aside import Overlay, aside
from tessarr.errors import ArgumentError, ConflictError
from tessarr.resizing import reshaped
from tessarr.store.kept import RememberingStore, StagedStore
from tessarr.tensorstore.futures.future import Future
from tessarr.tensorstore.futures.promise import Promise
from tessarr.tensorstore.futures.threads import submit

if TYPE_CHECKING:
    from collections.abc import Callable

    from tessarr.array import Array
    from tessarr.metadata.node import ArrayMeta
    from tessarr.store import Store
    from tessarr.store.kept import CachePool
    from tessarr.types import Shape

__all__ = ["Transaction", "rebound"]


Change: TypeAlias = "Callable[[bytes | None], bytes | None]"
"""Makes the value of a key of the one that is there; None: it is absent."""

_Reshape: TypeAlias = "Callable[[Shape], Shape]"


class Aside(Protocol):
    """Changes that are neither of keys nor of arrays, until they are made."""

    def places(self) -> int:
        """Return how many things are changed, each by itself."""
        ...

    def commit(self) -> None:
        """Make the changes."""
        ...


@dataclass(slots=True)
class _Kept:
    """Elements that were written to an array, and the array that they are to be stored in."""

    overlay: Overlay
    array: Array


@dataclass(frozen=True, slots=True)
class _Made:
    """Metadata that were changed, those outside, and how the shape here comes of that there.

    Where all is new here, nothing outside matters, and there are none.
    """

    meta: ArrayMeta
    known: ArrayMeta | None = None
    changes: tuple[_Reshape, ...] = ()


def rebound(old: Transaction | None, new: Transaction | None) -> Transaction | None:
    """Return the transaction that takes the place of another.

    Raises
    ------
    ArgumentError
        If the other one is not committed: what is staged in it would be missed.
    """
    if old is not None and not old.commit_started:
        raise ArgumentError("it takes part in a transaction that is not committed yet")
    return new


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
        "_aside",
        "_atomic",
        "_changes",
        "_committing",
        "_future",
        "_in_the_end",
        "_lock",
        "_made",
        "_pools",
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
        self._arrays: dict[tuple[int, str], list[_Kept]] = {}
        self._changes: dict[tuple[int, str], list[Change]] = {}
        self._made: dict[tuple[int, str], _Made] = {}
        self._aside: dict[Any, Aside] = {}
        self._pools: set[CachePool] = set()
        self._in_the_end: list[Callable[[], object]] = []
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
        if self._closed():
            if self._stages or self._arrays or self._aside:
                self._future._work = partial(_help, submit(self._end))
            else:
                self._end()
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
        if _is_main():
            self.commit_async()
        elif self._closed():
            self._end()
        self._future.result()

    def _closed(self) -> bool:
        """Have nothing more take part; False if that is so already."""
        with self._lock:
            if not self.open:
                return False
            self._committing = True
            for kept in self._all():
                kept.overlay.close()
            return True

    def abort(self) -> None:
        """Give up the changes; without effect where they are being made already."""
        with self._lock:
            if not self.open:
                return
            self._aborted = True
            for stage in self._stages.values():
                stage.abort()
            for kept in self._all():
                kept.overlay.close()
                kept.overlay.clear()
            self._clear()
        self._promise.set_exception(ArgumentError("CANCELLED: Transaction aborted"))

    def _clear(self) -> None:
        self._stages.clear()
        for kept in (self._arrays, self._changes, self._made, self._aside, self._in_the_end):
            kept.clear()

    def _all(self) -> list[_Kept]:
        return [kept for some in self._arrays.values() for kept in some]

    def _end(self) -> None:
        """Make the changes, and tell how that ended."""
        error: BaseException | None = None
        try:
            self._commit()
        except BaseException as failure:  # noqa: BLE001 (told to who waits)
            error = failure
        with self._lock:
            stages, calls = list(self._stages.values()), list(self._in_the_end)
            self._clear()
        for stage in stages:
            stage.abort()  # what is left of them
        for pool in self._pools.difference(*(_pools(stage.below) for stage in stages)):
            pool.forget()
        try:
            for call in calls if error is None else ():
                call()
        except Exception as failure:  # noqa: BLE001 (told to who waits)
            error = failure
        if error is None:
            self._promise.set_result(None)
        else:
            self._promise.set_exception(error)

    def _commit(self) -> None:
        written = [kept for kept in self._all() if kept.overlay]
        direct = not self._atomic and not self._repeatable
        if not direct:
            for kept in written:
                kept.array._store_kept()
        self._check_atomic()
        for stage in self._stages.values():
            redo = None if self._repeatable else partial(self._redo, stage)
            found = stage.commit(self._atomic, redo)
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
            below = {id(stage): stage.below for stage in self._stages.values()}
            for kept in written:
                array = aside(kept.array, below[id(kept.array._store)], kept.overlay)
                array._store_kept()
        for others in self._aside.values():
            others.commit()

    def _check_atomic(self) -> None:
        """Raise an error if all has to be changed at once and is in several places."""
        if not self._atomic:
            return
        several = sum(1 for stage in self._stages.values() if stage.changes())
        several += sum(others.places() for others in self._aside.values())
        if several > 1:
            raise ArgumentError(
                f"Cannot write {several} places as single atomic transaction: several keys of one "
                "store in memory or in SQLite can be, or one chunk of a virtual_chunked; nothing "
                "was changed"
            )

    def _redo(self, stage: StagedStore, key: str, current: bytes | None) -> Any:
        """Return what changes make of what others have stored; Ellipsis: that is a conflict."""
        changes = self._changes.get((id(stage), key))
        if changes is None:
            return ...
        for change in changes:
            current = change(current)
        return current

    # Taking part

    def _check(self) -> None:
        if not self.open:
            why = "aborted" if self._aborted else "commit already started"
            raise ArgumentError(f"Transaction not open ({why})")

    def _staged(self, store: Store) -> Store:
        """Return a store that stages changes of `store`; it itself, if it is one of these."""
        with self._lock:
            self._check()
            if isinstance(store, StagedStore) and store.owner is self:
                return store
            self._pools |= _pools(store)
            place = store.asked if isinstance(store, RememberingStore) else store
            found = self._stages.get(place)
            if found is None:
                below = place
                if isinstance(store, RememberingStore) and not self._atomic:
                    below = store.fresh(
                        data=self._repeatable
                    )  # which also remembers what is committed
                found = self._stages[place] = StagedStore(below, self._repeatable)
                found.owner, found.below = self, below
            return found

    def _keys(self, store: Store, first: bytes, last: bytes, *, writes: bool) -> Store:
        """Return what stages changes of a store, for reads or writes of keys from one to another.

        The last is not among them; if it is empty, there is no end.
        """
        with self._lock:
            stage = self._staged(store)
            self._settle(stage, first, last)
            for known in (self._changes, self._made) if writes else ():
                for number, key in list(known):
                    behind = first <= key.encode() and (not last or key.encode() < last)
                    if number == id(stage) and behind:
                        del known[number, key]
            return stage

    def _change(self, store: Store, key: str, change: Change) -> None:
        """Replace a value by what a function makes of it; of what others make of it, in the end."""
        stage = self._staged(store)
        with self._lock:
            self._settle(stage, key.encode(), key.encode() + b"\0")
            current = stage.get(key)
            while (new := change(current)) != current and not stage.replace(key, new, current):
                current = stage.get(key)
            self._may_redo(stage, key, change)

    def _may_redo(self, stage: Store, key: str, change: Change) -> None:
        """Have a change that was made done again in the end, if others change the value, too."""
        self._changes.setdefault((id(stage), key), []).append(change)

    def _assume(self, stage: Store, key: str, value: bytes, version: bytes) -> bool:
        """Replace a value that was seen before, which is compared in the end; False: it is not.

        Reads that have to repeat have to be made.
        """
        with self._lock:
            self._check()
            assert isinstance(stage, StagedStore)
            return not (self._repeatable or self._atomic) and stage.assume(key, value, version)

    def _array(self, array: Array) -> Array:
        """Return an array in the transaction, where what is written is kept aside.

        Parameters
        ----------
        array
            In the store itself, or in what `_staged` made of it.
        """
        with self._lock:
            store = self._staged(array._store)
            kept = self._kept(store, array)
            if kept is None:
                kept = _Kept(overlay := Overlay(), aside(array, store, overlay))
                self._arrays.setdefault((id(store), array._path), []).append(kept)
            same = kept.array._meta is array._meta
            return kept.array if same else aside(array, store, kept.overlay)

    def _make(
        self,
        stage: Store,
        key: str,
        meta: ArrayMeta,
        known: ArrayMeta | None = None,
        *changes: _Reshape,
    ) -> None:
        """Have all handles that take part know what a document tells that was changed here.

        Parameters
        ----------
        stage, key
            The document.
        meta
            What it tells.
        known
            What is known of it outside; None: it is made here.
        *changes
            From the shape there to the shape here.
        """
        with self._lock:
            before = self._made.get((id(stage), key))
            new = known is None or (before is not None and before.known is None)
            all_changes = changes if before is None else (*before.changes, *changes)
            self._made[id(stage), key] = _Made(meta) if new else _Made(meta, known, all_changes)

    def _made_of(self, stage: Store, key: str, known: ArrayMeta) -> ArrayMeta | None:
        """Return what a document tells that was changed here; None if it was not.

        Parameters
        ----------
        stage, key
            The document.
        known
            What is known of it outside: what others made of it since is the same here, but for
            what was changed here.
        """
        if not self._made:
            return None
        with self._lock:
            made = self._made.get((id(stage), key))
            if made is not None and made.known is not None and made.known is not known:
                shape = known.shape
                for change in made.changes:
                    shape = change(shape)
                made = _Made(reshaped(known, shape), known, made.changes)
                self._made[id(stage), key] = made
            return None if made is None else made.meta

    def _kept(self, store: Store, array: Array) -> _Kept | None:
        """Return what keeps elements of the chunks that an array has."""
        for kept in self._arrays.get((id(store), array._path), ()):
            if _alike(kept.array._meta, array._meta):
                return kept
        return None

    def _resizable(self, array: Array) -> _Kept:
        """Return an array of the transaction once more, which is the one that is changed."""
        with self._lock:
            kept = self._kept(array._store, array)
            assert kept is not None
            kept.array = aside(array, array._store, kept.overlay)
            return kept

    def _settle(self, stage: Store, first: bytes, last: bytes) -> None:
        """Stage what was written to chunks that have the keys from one to another."""
        with self._lock:
            for (number, _), here in self._arrays.items():
                if number == id(stage):
                    for kept in here:
                        kept.array._store_kept(first, last)

    def _settle_array(self, array: Array) -> None:
        """Stage what was written to an array of the transaction."""
        with self._lock:
            for kept in self._arrays.get((id(array._store), array._path), ()):
                kept.array._store_kept()

    def _others(self, key: Any, make: Callable[[], Aside]) -> Any:
        """Return what keeps other changes aside, by whose they are."""
        with self._lock:
            self._check()
            found = self._aside.get(key)
            if found is None:
                found = self._aside[key] = make()
            return found

    def _after(self, call: Callable[[], object]) -> None:
        """Have a function called when all changes are made."""
        self._in_the_end.append(call)

    def _forget_below(self, store: Store, prefix: str) -> None:
        """Forget what was written to arrays that are deleted."""
        with self._lock:
            for (number, path), here in self._arrays.items():
                if number == id(store) and f"{path}/".removeprefix("/").startswith(prefix):
                    for kept in here:
                        kept.overlay.clear()

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


def _is_main() -> bool:
    """Whether this is the thread where Ctrl-C raises an error.

    That ends a wait, and not changes that have begun: others have to make them.
    """
    return get_ident() == main_thread().ident


def _help(work: Callable[[], object]) -> None:
    """Do work that no other thread has begun."""
    if not _is_main():
        work()


def _pools(store: Store) -> frozenset[CachePool]:
    """Return what remembers answers of a store, and changes that are made through it."""
    return store.pools if isinstance(store, RememberingStore) else frozenset()


def _alike(one: ArrayMeta, other: ArrayMeta) -> bool:
    """Whether two arrays keep the same elements in the same chunks, apart from their shapes."""
    return one is other or replace(one, shape=other.shape, attributes=other.attributes) == other
