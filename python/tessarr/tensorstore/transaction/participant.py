"""`Staging`: the changes of keys, arrays and other drivers that a transaction holds."""

from __future__ import annotations

from _thread import allocate_lock
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from tessarr.array.write_buffer import buffer_writes
from tessarr.errors import ArgumentError, ConflictError
from tessarr.flow.open import prefix_of
from tessarr.store import LocalStore, MemoryStore
from tessarr.store.wrappers.cache import PooledCacheStore
from tessarr.store.wrappers.staged import StagedStore
from tessarr.tensorstore.transaction.array_writes import StagedArrays, forget_keys, staged_store
from tessarr.tensorstore.transaction.read_cache import TransactionReadCache

if TYPE_CHECKING:
    from _thread import RLock
    from collections.abc import Callable

    from tessarr.array import Array
    from tessarr.metadata.node import ArrayMeta
    from tessarr.store import Store
    from tessarr.tensorstore.future.future import Future
    from tessarr.tensorstore.transaction.array_writes import StagedArray

__all__ = ["Change", "Staging"]


Change: TypeAlias = "Callable[[bytes | None], bytes | None]"
"""Returns the new value of a key from the current one; None means absent."""


class StagedChanges(Protocol):
    """Staged changes of a driver that are neither keys nor arrays."""

    def count_targets(self) -> int:
        """Return the number of values that change independently."""
        ...

    def commit(self) -> None:
        """Store the changes."""
        ...


_NOW: Final = float("inf")
_SMALL_BYTES: Final = 1 << 18  # of elements, which a thread encodes in less than a millisecond


class Staging:
    """The staged changes of one transaction.

    Parameters
    ----------
    lock
        The lock of the transaction, which callers of `close` and `abort` hold.
    atomic, repeatable
        The options of the transaction.
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
        "_unmet",
        "ending",
        "handles",
    )

    def __init__(self, lock: RLock, *, atomic: bool, repeatable: bool) -> None:
        self._closed_reason: str | None = None  # why the transaction accepts nothing more
        self._lock = lock
        self._stages: dict[Any, StagedStore] = {}  # by the store that each changes
        self._atomic, self._repeatable = atomic, repeatable
        self._changes: dict[tuple[int, str], list[Change]] = {}
        self._arrays: StagedArrays | None = None  # created with the first array
        self._other_changes: dict[Any, StagedChanges] = {}
        # created with the first store other than memory
        self._read_cache: TransactionReadCache | None = None
        # a write has a condition on the stored value at commit
        self._has_conditional_writes = False
        self._unmet: str | None = None  # the key of a write whose condition cannot hold
        self._after_commit: list[Callable[[], object]] = []
        self._after_any_end: list[Callable[[], object]] = []
        self._committed = False
        self.handles: dict[Any, tuple[Array, ArrayMeta]] = {}
        """The arrays of drivers in the transaction, and the committed metadata known then."""
        self.ending = allocate_lock()
        """Held while the transaction ends."""

    def _list_stages(self) -> list[StagedStore]:
        """Return the current stages; another thread can add one at any time."""
        return [*self._stages.values()]

    # Commit and abort

    def close(self, why: str) -> None:
        """Refuse all further operations."""
        self._closed_reason = why
        if self._arrays is not None:
            self._arrays.close()

    def abort(self) -> None:
        """Discard all changes."""
        for stage in self._list_stages():
            stage.abort()
        self._stages.clear()
        if self._read_cache is not None:
            if not self._committed:
                self._invalidate_caches()  # a read may have cached another writer's change
            self._read_cache.clear()
        self.handles.clear()
        self._changes.clear()
        if self._arrays is not None:
            self._arrays.clear()
        self._other_changes.clear()
        self._after_commit.clear()
        self._after_any_end.clear()

    def is_quick(self, file_bytes: int) -> bool:
        """Return whether a commit is faster than a hand-off to another thread.

        The changes are then in memory, or one file of a limited size, and the engine stores them
        without another request unless there is a conflict.
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
        """Store the changes; a repeated call skips those that are stored.

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
        self._changes.clear()  # releases the participants
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
                "the one that a conditional write requires; nothing was changed",
                key=unmet,
            )
        arrays = () if self._arrays is None else self._arrays.entries()
        written = [entry for entry in arrays if entry.overlay]
        _store_buffered_chunks(written)
        direct = not self._atomic and not self._repeatable
        for entry in written:
            stage = staged_store(entry.array)
            if not direct:
                settling = (
                    stage if self._read_cache is None else self._read_cache.chunk_stage(stage)
                )
                buffer_writes(entry.array, settling, entry.overlay)._store_write_buffer()
            elif stage.count_changes():
                # Chunks written over staged keys are committed as keys.
                buffer_writes(entry.array, stage, entry.overlay)._store_write_buffer(
                    overwriting=stage
                )
        if self._atomic:
            self.check_single_target()
        again = self._changes and not self._repeatable
        for stage in self._list_stages():
            conflict = self._committing_stage(stage).commit(
                self._atomic, partial(self._redo_changes, stage) if again else None
            )
            if conflict is not None:
                raise _commit_error(conflict)
        for entry in written:
            if entry.overlay:
                buffer_writes(
                    entry.array, self._target_store(entry.array), entry.overlay
                )._store_write_buffer()
        for others in self._other_changes.values():
            others.commit()

    def _committing_stage(self, stage: StagedStore) -> StagedStore:
        """Return the stage that commits staged keys."""
        if self._read_cache is None:
            return stage
        return self._read_cache.commit_stage(stage, compares=bool(self._changes))

    def _target_store(self, array: Array) -> Store:
        """Return the store that receives chunks."""
        stage = staged_store(array)
        return stage.below if self._read_cache is None else self._read_cache.below(stage)

    def _find_unmet(self) -> str | None:
        """Return a key with an unmet write condition, if the transaction has other changes."""
        stages = self._list_stages()
        changes = sum(stage.count_changes() for stage in stages)
        if changes == 1 and self._arrays is None and not self._other_changes:
            return None  # the write compares the value
        return next(filter(None, (stage.find_conflict() for stage in stages)), None)

    def check_single_target(self) -> None:
        """Raise an error if the changes affect several values."""
        with self._lock:
            several = sum(1 for stage in self._list_stages() if stage.count_changes())
            several += sum(others.count_targets() for others in self._other_changes.values())
        if several > 1:
            raise ArgumentError(
                f"Cannot write {several} places as single atomic transaction: several keys of one "
                "store in memory or in SQLite can be, or one chunk of a virtual_chunked; nothing "
                "was changed"
            )

    def _redo_changes(self, stage: StagedStore, key: str, current: bytes | None) -> Any:
        """Apply the changes to another writer's value; Ellipsis means a conflict."""
        changes = self._changes.get((stage.number, key))
        if changes is None:
            return ...
        for change in changes:
            current = change(current)
        return current

    # Joining the transaction

    def check(self) -> None:
        """Raise an error if the transaction accepts nothing more."""
        if self._closed_reason is not None:
            raise ArgumentError(f"Transaction not open ({self._closed_reason})")

    def store(self, store: Store, location: Store) -> StagedStore:
        """Return the stage of a location, with reads through `store`, a wrapper of it."""
        with self._lock:
            return self._cached_stage(self._stage(location), store, location, _NOW)

    def _stage(self, store: Store) -> StagedStore:
        """Return the stage for keys of a store."""
        if self._closed_reason is not None:
            self.check()
        location = store.base_store if type(store) is PooledCacheStore else store
        stage = self._stages.get(location)
        if stage is None:
            below = location
            if type(store) is PooledCacheStore and not self._atomic:
                # It also caches committed values.
                below = store.with_revalidation(_NOW if self._repeatable else None)
            new_stage = StagedStore(below, self._repeatable, self)
            stage = self._stages.setdefault(location, new_stage)
            if type(store) is PooledCacheStore:
                self._open_read_cache.register_pools(stage, store)
        return stage

    @property
    def _open_read_cache(self) -> TransactionReadCache:
        """The cache of the transaction's reads."""
        if self._read_cache is None:
            self._read_cache = TransactionReadCache(
                atomic=self._atomic, repeatable=self._repeatable
            )
        return self._read_cache

    def _cached_stage(
        self, stage: StagedStore, store: Store, location: Store, since: float
    ) -> StagedStore:
        """Return a stage with the same changes that reads through `store` or a cache."""
        if type(location) is MemoryStore and store is location:
            return stage
        return self._open_read_cache.array(stage, store, location, since)

    def has_part_of(self, store: Store) -> bool:
        """Return whether the transaction has a stage for a store."""
        location = store.base_store if type(store) is PooledCacheStore else store
        return self._closed_reason is None and location in self._stages

    # Keys

    def keys(self, store: Store, first: bytes, last: bytes, *, writes: bool) -> Store:
        """Return a store with the staged changes, to read or write keys in a range.

        Writes replace values unconditionally. The range excludes `last`; an empty `last` means no
        end.
        """
        with self._lock:
            stage = self._stage(store)
            if writes:
                self._forget(stage, first, last)
            elif self._arrays is not None:
                return self._arrays.overlay_keys(stage, first, last)
            return stage

    def key(self, store: Store, key: str, *, writes: bool) -> Store:
        """Return a store with the staged changes for one key, with cached reads."""
        with self._lock:
            if writes or self._arrays is None:
                return self.keys(store, *_key_range(key), writes=writes)
            stage = self._stage(store)
            keys = stage if self._read_cache is None else self._read_cache.keys(stage)
            shown = self._arrays.overlay_keys(keys, *_key_range(key))
            if shown is not keys and shown.count_changes():
                return shown
            return keys if keys.is_cached(key) else stage

    def _forget(self, stage: StagedStore, first: bytes, last: bytes) -> None:
        """Discard array changes of keys that a write replaces."""
        if self._arrays is not None:
            self._arrays.forget(stage, first, last)
        forget_keys(self._changes, stage, first, last)

    def forget_below(self, stage: StagedStore, prefix: str) -> None:
        """Discard changes of keys with a prefix, which the transaction deletes."""
        with self._lock:
            self._forget(stage, prefix.encode(), prefix.encode() + b"\xff")  # sorts after all text

    def write(
        self, store: Store, key: str, data: bytes | None, known: bytes
    ) -> tuple[bytes, float]:
        """Replace a value of a known version; with another version the commit fails.

        Return the generation of the new value, and its time.
        """
        with self._lock:
            stage = self._stage_key(store, key)
            self._forget(stage, *_key_range(key))
            try:
                stamp = stage.write_if(key, data, known)
            except ConflictError:  # another writer changed it after the transaction read it
                stamp = b"", 0.0
            if not stamp[0]:
                self._unmet = key
                return stage.write_versioned(key, data)
            self._has_conditional_writes = True
            return stamp

    def change(self, store: Store, key: str, change: Change) -> None:
        """Replace a value by a function of it; the commit repeats this after a conflict."""
        with self._lock:
            stage = self._stage_key(store, key)
            # Values that an array wrote do not depend on the stored value.
            is_all = (stage.number, key) in self._changes or not stage.is_staged(key)
            current = stage.get(key)
            while (new := change(current)) != current and not stage.replace(key, new, current):
                current = stage.get(key)
            if self._arrays is not None:
                self._arrays.replace(stage, *_key_range(key))
            if is_all:
                self.redo_on_conflict(stage, key, change)

    def _stage_key(self, store: Store, key: str) -> StagedStore:
        """Return the stage of a key, with the writes to its chunk."""
        stage = self._stage(store)
        if self._arrays is not None:
            keys = stage if self._read_cache is None else self._read_cache.keys(stage)
            self._arrays.stage_chunks(keys, *_key_range(key))
        return stage

    def redo_on_conflict(self, stage: StagedStore, key: str, change: Change) -> None:
        """Repeat a change at commit if another writer changed the value."""
        self._changes.setdefault((stage.number, key), []).append(change)

    def assume(self, stage: StagedStore, key: str, value: bytes, version: bytes) -> bool:
        """Replace a value that the commit compares; return False if that is not possible.

        A transaction with repeatable reads must send the read.
        """
        with self._lock:
            self.check()
            return not (self._repeatable or self._atomic) and stage.stage_if(key, value, version)

    def compare_at_commit(
        self,
        stage: StagedStore,
        key: str,
        seen: tuple[bytes, bytes | None],
        check: Change,
        *,
        now: bool = False,
    ) -> bool:
        """Compare a document at commit with an earlier read.

        Return False if the transaction changed the document, read other content, or has
        repeatable reads.

        Parameters
        ----------
        stage, key
            The document.
        seen
            The content, and its version if known.
        check
            Returns an acceptable new content, or raises an error. All checks of one document and
            class are equal.
        now
            Whether the read is new, so that a mismatch with an earlier read raises the error now.
        """
        with self._lock:
            self.check()
            relies = not self._repeatable and stage.expect_version(key, *seen)
            before = self._changes.get((stage.number, key), [])
            checks = [change for change in before if type(change) is type(check)]
            if relies and not checks:
                self.redo_on_conflict(stage, key, check)
            if now and not relies and len(checks) == len(before):  # checks only, no changes
                for change in checks:
                    change(seen[0])
            return relies

    # Arrays

    @property
    def arrays(self) -> StagedArrays:
        """The arrays in the transaction."""
        if self._arrays is None:
            with self._lock:
                if self._arrays is None:
                    self._arrays = StagedArrays(self._lock)
        return self._arrays

    def array(
        self,
        array: Array,
        location: Store | None = None,
        since: float = _NOW,
        *,
        reads: bool = True,
    ) -> Array:
        """Return an array in the transaction whose writes go to a write buffer.

        Parameters
        ----------
        array
            The array outside the transaction.
        location
            The store below caches; by default the array's store.
        since
            The time from which cached chunks count as fresh, in seconds since 1970.
        reads
            Whether the array is read; only then its reads are cached.
        """
        store = array._store
        location = store if location is None else location
        with self._lock:
            only = self._stage(location)
            writes_only = store is location and not reads
            stage = only if writes_only else self._cached_stage(only, store, location, since)
            return self.arrays.add(stage, array, only=only)

    def remembers(self, array: Array) -> bool:
        """Return whether reads of an array of the transaction are cached."""
        stage = staged_store(array)
        if isinstance(stage.below, MemoryStore):
            return True
        return all(stage is not only for only in self._list_stages())

    def watch(self, future: Future[Any]) -> None:
        """Invalidate caches if an operation finds that a read does not repeat."""
        future.add_done_callback(self._invalidate_on_conflict)

    def _invalidate_on_conflict(self, done: Future[Any]) -> None:
        if not done.cancelled() and isinstance(done.exception(), ConflictError):
            self._invalidate_caches()

    def _invalidate_caches(self) -> None:
        if self._repeatable and self._read_cache is not None:
            self._read_cache.invalidate()

    # Other drivers

    def join_changes(self, key: Any, make: Callable[[], StagedChanges]) -> Any:
        """Return the staged changes of a driver; `make` creates them."""
        with self._lock:
            self.check()
            changes = self._other_changes.get(key)
            if changes is None:
                changes = self._other_changes[key] = make()
            return changes

    def after(self, call: Callable[[], object], *, in_any_case: bool = False) -> None:
        """Call a function after the commit; with `in_any_case` also after a failed one."""
        (self._after_any_end if in_any_case else self._after_commit).append(call)


def _store_buffered_chunks(written: list[StagedArray]) -> None:
    """Store the chunks in blocks of buffered writes, which precede those of the transaction.

    The commit discards the chunks of arrays that it deletes.
    """
    for entry in written:
        stage, prefix = staged_store(entry.array), prefix_of(entry.array._path)
        if not stage.deletes_below(prefix):
            stage.store_buffered_chunks(prefix)


def _key_range(key: str) -> tuple[bytes, bytes]:
    """Return the range that contains one key."""
    return key.encode(), key.encode() + b"\0"


def _commit_error(conflict: int | str) -> ArgumentError | ConflictError:
    """Return the error of a commit: too many keys for an atomic change, or a conflict."""
    if isinstance(conflict, int):
        return ArgumentError(
            f"Cannot write {conflict} keys as single atomic transaction: that can be done "
            "in memory and in SQLite; nothing was changed"
        )
    return ConflictError(
        f'ABORTED: Error writing "{conflict}": Generation mismatch: others changed it '
        "after this transaction had read it; do everything again",
        key=conflict,
    )
