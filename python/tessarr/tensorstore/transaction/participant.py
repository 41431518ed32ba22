"""What takes part in a transaction: changes that are kept aside until they are made."""

from __future__ import annotations

from _thread import allocate_lock
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from tessarr.array.write_buffer import aside
from tessarr.errors import ArgumentError, ConflictError
from tessarr.store import LocalStore, MemoryStore
from tessarr.store.wrappers.cache import PooledCacheStore
from tessarr.store.wrappers.staged import StagedStore
from tessarr.tensorstore.transaction.array_writes import StagedArrays, forget_keys, staged_store
from tessarr.tensorstore.transaction.read_cache import TransactionReadCache

if TYPE_CHECKING:
    from collections.abc import Callable

    from tessarr._engine import TransactionBase
    from tessarr.array import Array
    from tessarr.metadata.node import ArrayMeta
    from tessarr.store import Store
    from tessarr.tensorstore.future.future import Future

__all__ = ["Change", "Staging"]


Change: TypeAlias = "Callable[[bytes | None], bytes | None]"
"""Makes the value of a key of the one that is there; None: it is absent."""


class StagedChanges(Protocol):
    """Changes that are neither of keys nor of arrays, until they are made."""

    def count_targets(self) -> int:
        """Return how many things are changed, each by itself."""
        ...

    def commit(self) -> None:
        """Make the changes."""
        ...


_NOW: Final = float("inf")
_SMALL_BYTES: Final = 1 << 18  # of elements, which a thread encodes in less than a millisecond


class Staging:
    """What takes part in a transaction.

    Parameters
    ----------
    transaction
        The one that it is of. Who calls `close` and `abort` has its lock.
    """

    __slots__ = (
        "_after_any_end",
        "_after_commit",
        "_arrays",
        "_atomic",
        "_changes",
        "_closed_reason",
        "_committed",
        "_has_conditional_writes",
        "_lock",
        "_other_changes",
        "_read_cache",
        "_repeatable",
        "_stages",
        "_transaction",
        "_unmet",
        "ending",
        "handles",
    )

    def __init__(self, transaction: TransactionBase) -> None:
        self._transaction = transaction
        self._closed_reason: str | None = None  # why nothing more can take part
        self._lock = transaction._lock
        self._stages: dict[Any, StagedStore] = transaction._stages
        self._atomic, self._repeatable = transaction._atomic, transaction._repeatable
        self._changes: dict[tuple[int, str], list[Change]] = {}
        self._arrays: StagedArrays | None = None  # made when one takes part
        self._other_changes: dict[Any, StagedChanges] = {}
        self._read_cache: TransactionReadCache | None = None  # made when more than memory is asked
        self._has_conditional_writes = False  # a write asks for what its key has below in the end
        self._unmet: str | None = None  # the key that cannot be what a write of it asks for
        self._after_commit: list[Callable[[], object]] = []
        self._after_any_end: list[Callable[[], object]] = []
        self._committed = False
        self.handles: dict[Any, tuple[Array, ArrayMeta]] = {}
        """The arrays as drivers have them here, and what was known outside by then."""
        self.ending = allocate_lock()
        """Held by who ends it."""

    def _list_stages(self) -> list[StagedStore]:
        """Return what stages changes by now: the engine may add one at any time."""
        return [*self._stages.values()]

    # The end

    def close(self, why: str) -> None:
        """Have nothing more take part."""
        self._closed_reason = why
        if self._arrays is not None:
            self._arrays.close()

    def abort(self) -> None:
        """Give up all changes."""
        for stage in self._list_stages():
            stage.abort()
        self._stages.clear()
        if self._read_cache is not None:
            if not self._committed:
                self._invalidate_caches()  # a read of a key may have found what others have changed
            self._read_cache.clear()
        self.handles.clear()
        self._changes.clear()
        if self._arrays is not None:
            self._arrays.clear()
        self._other_changes.clear()
        self._after_commit.clear()
        self._after_any_end.clear()

    def is_quick(self, file_bytes: int) -> bool:
        """Whether the changes are made in less time than it takes to begin it in another thread.

        Then all of them are in memory, or they are one file of at most so many bytes, and the
        engine makes them without asking anybody, unless others have changed the same.
        """
        if self._other_changes or self._after_commit or self._after_any_end:
            return False
        for stage in self._list_stages():
            if type(stage.below) is not MemoryStore:
                is_one = len(self._stages) == 1 and self._arrays is None
                is_file = is_one and type(stage.below) is LocalStore
                return is_file and file_bytes > 0 and stage.is_small(file_bytes)
        if self._arrays is None:
            return True
        work = self._arrays.work_bytes()
        return work is not None and work <= _SMALL_BYTES

    def commit(self) -> None:
        """Make the changes; those that are made already if it is called again are not made anew.

        Raises
        ------
        ConflictError, ArgumentError
            As `Transaction.commit_sync`.
        """
        try:
            self._commit()
            self._committed = True
        finally:
            for call in self._after_any_end:
                call()
            if self._read_cache is not None:
                self._read_cache.forget()
        self._changes.clear()  # nothing that took part is kept any longer
        self._after_any_end.clear()
        while self._after_commit:
            self._after_commit.pop(0)()

    def _commit(self) -> None:
        unmet = (
            self._find_unmet()
            if self._has_conditional_writes and self._unmet is None
            else self._unmet
        )
        if unmet is not None:
            raise ConflictError(
                f'ABORTED: Error writing "{unmet}": Generation mismatch: its value was not '
                "the one that a write of it asked for; nothing was changed",
                key=unmet,
            )
        arrays = () if self._arrays is None else self._arrays.entries()
        written = [kept for kept in arrays if kept.overlay]
        direct = not self._atomic and not self._repeatable
        for kept in written:
            stage = staged_store(kept.array)
            if not direct:
                settling = (
                    stage if self._read_cache is None else self._read_cache.chunk_stage(stage)
                )
                aside(kept.array, settling, kept.overlay)._store_kept()
            elif stage.changes():
                # Chunks that were written over what their keys are to have are changed as keys are.
                aside(kept.array, stage, kept.overlay)._store_kept(over=stage)
        if self._atomic:
            self.check_single_target()
        again = self._changes and not self._repeatable
        for stage in self._list_stages():
            found = self._committing_stage(stage).commit(
                self._atomic, partial(self._redo_changes, stage) if again else None
            )
            if found is not None:
                raise _commit_error(found)
        for kept in written:
            if kept.overlay:
                aside(kept.array, self._target_store(kept.array), kept.overlay)._store_kept()
        for others in self._other_changes.values():
            others.commit()

    def _committing_stage(self, stage: StagedStore) -> StagedStore:
        """Return what commits the changes of keys that are staged."""
        if self._read_cache is None:
            return stage
        return self._read_cache.commit_stage(stage, compares=bool(self._changes))

    def _target_store(self, array: Array) -> Store:
        """Return where chunks are changed in the end."""
        stage = staged_store(array)
        return stage.below if self._read_cache is None else self._read_cache.below(stage)

    def _find_unmet(self) -> str | None:
        """Return a key that is not what a write of it asks for, if anything else is changed."""
        stages = self._list_stages()
        changes = sum(stage.changes() for stage in stages)
        if changes == 1 and self._arrays is None and not self._other_changes:
            return None  # it is compared when it is changed
        return next(filter(None, (stage.unmet() for stage in stages)), None)

    def check_single_target(self) -> None:
        """Raise an error if what is changed is in several places."""
        with self._lock:
            several = sum(1 for stage in self._list_stages() if stage.changes())
            several += sum(others.count_targets() for others in self._other_changes.values())
        if several > 1:
            raise ArgumentError(
                f"Cannot write {several} places as single atomic transaction: several keys of one "
                "store in memory or in SQLite can be, or one chunk of a virtual_chunked; nothing "
                "was changed"
            )

    def _redo_changes(self, stage: StagedStore, key: str, current: bytes | None) -> Any:
        """Return what changes make of what others have stored; Ellipsis: that is a conflict."""
        changes = self._changes.get((stage.number, key))
        if changes is None:
            return ...
        for change in changes:
            current = change(current)
        return current

    # Taking part

    def check(self) -> None:
        """Raise an error if nothing more can take part."""
        if self._closed_reason is not None:
            raise ArgumentError(f"Transaction not open ({self._closed_reason})")

    def store(self, store: Store, place: Store) -> StagedStore:
        """Return what stages changes of a place, and asks `store`, which stands before it."""
        with self._lock:
            return self._cached_stage(self._stage(place), store, place, _NOW)

    def _stage(self, store: Store) -> StagedStore:
        """Return what stages changes of keys of a store."""
        if self._closed_reason is not None:
            self.check()
        place = store.asked if type(store) is PooledCacheStore else store
        found = self._stages.get(place)
        if found is None:
            below = place
            if type(store) is PooledCacheStore and not self._atomic:
                # It also remembers what is committed.
                below = store.fresh(_NOW if self._repeatable else None)
            made = StagedStore(below, self._repeatable, self._transaction)
            found = self._stages.setdefault(place, made)
            if type(store) is PooledCacheStore:
                self._open_read_cache.register_pools(found, store)
        return found

    @property
    def _open_read_cache(self) -> TransactionReadCache:
        """What the transaction has read."""
        if self._read_cache is None:
            self._read_cache = TransactionReadCache(
                atomic=self._atomic, repeatable=self._repeatable
            )
        return self._read_cache

    def _cached_stage(
        self, stage: StagedStore, store: Store, place: Store, since: float
    ) -> StagedStore:
        """Return what has the changes of a stage, and asks `store`, or what remembers."""
        if type(place) is MemoryStore and store is place:
            return stage
        return self._open_read_cache.array(stage, store, place, since)

    def has_part_of(self, store: Store) -> bool:
        """Return whether anything of a store takes part by now."""
        place = store.asked if type(store) is PooledCacheStore else store
        return self._closed_reason is None and place in self._stages

    # Keys

    def keys(self, store: Store, first: bytes, last: bytes, *, writes: bool) -> Store:
        """Return what stages changes of a store, for reads or writes of keys from one to another.

        Writes replace what the keys have, whatever that is. The last is not among them; if it is
        empty, there is no end.
        """
        with self._lock:
            stage = self._stage(store)
            if writes:
                self._forget(stage, first, last)
            elif self._arrays is not None:
                return self._arrays.overlay_keys(stage, first, last)
            return stage

    def key(self, store: Store, key: str, *, writes: bool) -> Store:
        """Return the same for one key: what was read of it need not be read again."""
        with self._lock:
            if not self._transaction._mixed:
                return self._stage(store)
            if writes or self._arrays is None:
                return self.keys(store, *_key_range(key), writes=writes)
            stage = self._stage(store)
            keys = stage if self._read_cache is None else self._read_cache.keys(stage)
            shown = self._arrays.overlay_keys(keys, *_key_range(key))
            if shown is not keys and shown.changes():
                return shown
            return keys if keys.remembers(key) else stage

    def _forget(self, stage: StagedStore, first: bytes, last: bytes) -> None:
        """Forget what was changed of keys that are replaced."""
        if self._arrays is not None:
            self._arrays.forget(stage, first, last)
        forget_keys(self._changes, stage, first, last)

    def forget_below(self, stage: StagedStore, prefix: str) -> None:
        """Forget what was changed of keys with a prefix, which are deleted."""
        with self._lock:
            self._forget(stage, prefix.encode(), prefix.encode() + b"\xff")  # in no text

    def write(self, store: Store, key: str, data: bytes | None, known: bytes) -> Any:
        """Replace a value that has a version; if it has another one, the commit fails.

        Return the stamp of the new value.
        """
        with self._lock:
            stage = self._stage_key(store, key)
            self._forget(stage, *_key_range(key))
            try:
                stamp = stage.write_asked(key, data, known)
            except ConflictError:  # others changed it after this transaction had read it
                stamp = None
            if stamp is None or not stamp.generation:
                self._unmet = key
                return stage.write_stamped(key, data)
            self._has_conditional_writes = True
            return stamp

    def change(self, store: Store, key: str, change: Change) -> None:
        """Replace a value by what a function makes of it; of what others make of it, in the end."""
        with self._lock:
            stage = self._stage_key(store, key)
            # What an array has written is not made of what others have stored.
            is_all = (stage.number, key) in self._changes or not stage.replaces(key)
            current = stage.get(key)
            while (new := change(current)) != current and not stage.replace(key, new, current):
                current = stage.get(key)
            if self._arrays is not None:
                self._arrays.replace(stage, *_key_range(key))
            if is_all:
                self.redo_on_conflict(stage, key, change)

    def _stage_key(self, store: Store, key: str) -> StagedStore:
        """Return what stages changes of a key, and has what was written to its chunk."""
        stage = self._stage(store)
        if self._arrays is not None:
            keys = stage if self._read_cache is None else self._read_cache.keys(stage)
            self._arrays.stage_chunks(keys, *_key_range(key))
        return stage

    def redo_on_conflict(self, stage: StagedStore, key: str, change: Change) -> None:
        """Have a change that was made done again in the end, if others change the value, too."""
        self._transaction._mixed = True
        self._changes.setdefault((stage.number, key), []).append(change)

    def assume(self, stage: StagedStore, key: str, value: bytes, version: bytes) -> bool:
        """Replace a value that was seen before, which is compared in the end; False: it is not.

        Reads that have to repeat have to be made.
        """
        with self._lock:
            self.check()
            return not (self._repeatable or self._atomic) and stage.assume(key, value, version)

    def compare_at_commit(
        self,
        stage: StagedStore,
        key: str,
        seen: tuple[bytes, bytes | None],
        check: Change,
        *,
        now: bool = False,
    ) -> bool:
        """Have it compared in the end whether a document is what it was when it was seen.

        False, and nothing: it was changed here, seen as something else, or reads have to repeat.

        Parameters
        ----------
        stage, key
            The document.
        seen
            What it was, and its version, if that is known.
        check
            Returns another one that others have made of it since if that is as good, or raises an
            error. All checks of a document, which are of one class, ask for the same.
        now
            Whether it was seen now, and so the error is raised now, where something else was seen
            before.
        """
        with self._lock:
            self.check()
            relies = not self._repeatable and stage.rely(key, *seen)
            before = self._changes.get((stage.number, key), [])
            checks = [change for change in before if type(change) is type(check)]
            if relies and not checks:
                self.redo_on_conflict(stage, key, check)
            if now and not relies and len(checks) == len(before):  # it was not changed here
                for change in checks:
                    change(seen[0])
            return relies

    # Arrays

    @property
    def arrays(self) -> StagedArrays:
        """Those that take part."""
        if self._arrays is None:
            with self._lock:
                if self._arrays is None:
                    self._transaction._mixed = True
                    self._arrays = StagedArrays(self._lock)
        return self._arrays

    def array(
        self,
        array: Array,
        place: Store | None = None,
        since: float = _NOW,
        *,
        reads: bool = True,
    ) -> Array:
        """Return an array in the transaction, where what is written to it is kept aside.

        Parameters
        ----------
        array
            The array outside of the transaction.
        place
            Where it is, below caches; by default its store.
        since
            From when on what was read of its chunks will do, in seconds since 1970.
        reads
            Whether anything may be read of it: only that is remembered.
        """
        store = array._store
        place = store if place is None else place
        with self._lock:
            only = self._stage(place)
            writes_only = store is place and not reads
            stage = only if writes_only else self._cached_stage(only, store, place, since)
            return self.arrays.add(stage, array, only=only)

    def remembers(self, array: Array) -> bool:
        """Return whether what is read of an array of the transaction need not be read again."""
        stage = staged_store(array)
        if isinstance(stage.below, MemoryStore):
            return True
        return all(stage is not only for only in self._list_stages())

    def watch(self, begun: Future[Any]) -> None:
        """Have caches forget what they know where something cannot be read as it was before."""
        begun.add_done_callback(self._invalidate_on_conflict)

    def _invalidate_on_conflict(self, done: Future[Any]) -> None:
        if not done.cancelled() and isinstance(done.exception(), ConflictError):
            self._invalidate_caches()

    def _invalidate_caches(self) -> None:
        if self._repeatable and self._read_cache is not None:
            self._read_cache.invalidate()

    # Others

    def join_changes(self, key: Any, make: Callable[[], StagedChanges]) -> Any:
        """Return what keeps other changes aside, by whose they are."""
        with self._lock:
            self.check()
            found = self._other_changes.get(key)
            if found is None:
                found = self._other_changes[key] = make()
            return found

    def after(self, call: Callable[[], object], *, in_any_case: bool = False) -> None:
        """Have a function called when all changes are made, or also where only some were."""
        (self._after_any_end if in_any_case else self._after_commit).append(call)


def _key_range(key: str) -> tuple[bytes, bytes]:
    """Return the range in which a key is alone."""
    return key.encode(), key.encode() + b"\0"


def _commit_error(found: int | str) -> ArgumentError | ConflictError:
    """Return the error of a commit: so many keys cannot be changed at once, or of a conflict."""
    if isinstance(found, int):
        return ArgumentError(
            f"Cannot write {found} keys as single atomic transaction: that can be done "
            "in memory and in SQLite; nothing was changed"
        )
    return ConflictError(
        f'ABORTED: Error writing "{found}": Generation mismatch: others changed it '
        "after this transaction had read it; do everything again",
        key=found,
    )
