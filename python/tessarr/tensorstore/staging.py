"""What takes part in a transaction: changes that are kept aside until they are made."""

from __future__ import annotations

from _thread import allocate_lock
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from tessarr.array.aside import Overlay, aside
from tessarr.errors import ArgumentError, ConflictError
from tessarr.resizing import reshaped
from tessarr.store import LocalStore, MemoryStore
from tessarr.store.kept import RememberingStore, StagedStore

if TYPE_CHECKING:
    from _thread import RLock
    from collections.abc import Callable

    from tessarr.array import Array
    from tessarr.metadata.node import ArrayMeta
    from tessarr.store import Store
    from tessarr.store.kept import CachePool
    from tessarr.types import Shape

__all__ = ["Change", "Staging"]


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
    """Elements that were written to an array, and the array that they are to be stored in.

    Of a chunk that is written in part, all has to be encoded: so many bytes; and with codecs,
    which takes longer.
    """

    overlay: Overlay
    array: Array
    chunk_bytes: int
    with_codecs: bool


@dataclass(frozen=True, slots=True)
class _Made:
    """Metadata that were changed, those outside, and how the shape here comes of that there.

    Where all is new here, nothing outside matters, and there are none.
    """

    meta: ArrayMeta
    known: ArrayMeta | None = None
    changes: tuple[_Reshape, ...] = ()


_BRIEF_BYTES: Final = 1 << 18  # of elements, which a thread encodes in less than a millisecond
_SLOWER: Final = 1 << 5  # with codecs: the slowest, zstd of level 22, takes 90 ns for each of 8 kB


class Staging:
    """What takes part in a transaction.

    Parameters
    ----------
    lock
        That of the transaction. Who calls `close` and `abort` has it.
    over
        Why nothing more can take part; None while it can.
    atomic, repeatable
        As `Transaction` has them.
    """

    __slots__ = (
        "_arrays",
        "_aside",
        "_atomic",
        "_changes",
        "_in_any_case",
        "_in_the_end",
        "_lock",
        "_made",
        "_over",
        "_pools",
        "_repeatable",
        "_stages",
        "_unmet",
        "ending",
    )

    def __init__(
        self,
        lock: RLock,
        over: str | None,
        atomic: bool,
        repeatable: bool,
    ) -> None:
        self._lock, self._over = lock, over
        self._atomic, self._repeatable = atomic, repeatable
        self._stages: dict[Any, StagedStore] = {}
        self._arrays: dict[tuple[int, str], list[_Kept]] = {}
        self._changes: dict[tuple[int, str], list[Change]] = {}
        self._made: dict[tuple[int, str], _Made] = {}
        self._aside: dict[Any, Aside] = {}
        self._pools: frozenset[CachePool] = frozenset()
        self._unmet: str | None = None  # the key that is not what a write of it asks for
        self._in_the_end: list[Callable[[], object]] = []
        self._in_any_case: list[Callable[[], object]] = []
        self.ending = allocate_lock()
        """Held by who ends it."""

    # The end

    def close(self, why: str) -> None:
        """Have nothing more take part."""
        self._over = why
        if self._arrays:
            for kept in self._all():
                kept.overlay.close()

    def abort(self) -> None:
        """Give up all changes."""
        for stage in self._stages.values():
            stage.abort()
        self._stages.clear()
        if self._arrays:
            for kept in self._all():
                kept.overlay.clear()
        self._arrays.clear()
        self._changes.clear()
        self._made.clear()
        self._aside.clear()
        self._in_the_end.clear()
        self._in_any_case.clear()

    def is_brief(self, file_bytes: int) -> bool:
        """Whether the changes are made in less time than it takes to begin it in another thread.

        Then all of them are in memory, or they are one file of at most so many bytes, and the
        engine makes them without asking anybody.
        """
        if self._changes or self._aside or self._in_the_end or self._in_any_case:
            return False
        for stage in self._stages.values():
            if type(stage.below) is not MemoryStore:
                is_one = len(self._stages) == 1 and not self._arrays
                is_file = is_one and type(stage.below) is LocalStore
                return is_file and file_bytes > 0 and stage.is_small(file_bytes)
        if not self._arrays:
            return True
        elements = 0
        for kept in self._all():
            if not kept.array._is_native:
                return False
            encoded = max(kept.overlay.nbytes, kept.chunk_bytes)
            elements += encoded * _SLOWER if kept.with_codecs else encoded
        return elements <= _BRIEF_BYTES

    def commit(self) -> None:
        """Make the changes; those that are made already if it is called again are not made anew.

        Raises
        ------
        ConflictError, ArgumentError
            As `Transaction.commit_sync`.
        """
        try:
            self._commit()
        finally:
            for call in self._in_any_case:
                call()
            if self._pools:
                past = (_pools(stage.below) for stage in self._stages.values())
                for pool in self._pools.difference(*past):
                    pool.forget()  # what was changed past it
        self._changes.clear()  # nothing that took part is kept any longer
        self._in_any_case.clear()
        while self._in_the_end:
            self._in_the_end.pop(0)()

    def _all(self) -> list[_Kept]:
        return [kept for some in self._arrays.values() for kept in some]

    def _commit(self) -> None:
        if self._unmet is not None:
            raise ConflictError(
                f'ABORTED: Error writing "{self._unmet}": Generation mismatch: its value was not '
                "the one that a write of it asked for; nothing was changed",
                key=self._unmet,
            )
        written = [kept for kept in self._all() if kept.overlay] if self._arrays else []
        direct = not self._atomic and not self._repeatable
        if not direct:
            for kept in written:
                kept.array._store_kept()
        if self._atomic:
            self.check_places()
        again = self._changes and not self._repeatable
        for stage in self._stages.values():
            found = stage.commit(self._atomic, partial(self._redo, stage) if again else None)
            if found is not None:
                raise _refused(found)
        if written and direct:
            below = {id(stage): stage.below for stage in self._stages.values()}
            for kept in written:
                array = aside(kept.array, below[id(kept.array._store)], kept.overlay)
                array._store_kept()
        for others in self._aside.values():
            others.commit()

    def check_places(self) -> None:
        """Raise an error if what is changed is in several places."""
        with self._lock:
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

    def check(self) -> None:
        """Raise an error if nothing more can take part."""
        if self._over is not None:
            raise ArgumentError(f"Transaction not open ({self._over})")

    def store(self, store: Store) -> Store:
        """Return a store that stages changes of `store`; it itself, if it is one of these."""
        with self._lock:
            return self._stage(store)

    def _stage(self, store: Store) -> Store:
        if self._over is not None:
            self.check()
        if type(store) is StagedStore and store.owner is self:
            return store
        place = store
        if type(store) is RememberingStore:
            self._pools |= store.pools
            place = store.asked
        found = self._stages.get(place)
        if found is None:
            below = place
            if type(store) is RememberingStore and not self._atomic:
                below = store.fresh(data=self._repeatable)  # it also remembers what is committed
            found = self._stages[place] = StagedStore(below, self._repeatable)
            found.owner, found.below = self, below
        return found

    def keys(self, store: Store, first: bytes, last: bytes, *, writes: bool) -> Store:
        """Return what stages changes of a store, for reads or writes of keys from one to another.

        The last is not among them; if it is empty, there is no end.
        """
        with self._lock:
            stage = self._stage(store)
            if self._arrays:
                self._settle(stage, first, last)
            if writes and (self._changes or self._made):
                self._forget(stage, first, last)
            return stage

    def key(self, store: Store, key: str, *, writes: bool) -> Store:
        """Return the same for one key."""
        with self._lock:
            if self._arrays or self._changes or self._made:
                first = key.encode()
                return self.keys(store, first, first + b"\0", writes=writes)
            return self._stage(store)

    def _forget(self, stage: Store, first: bytes, last: bytes) -> None:
        """Forget what was changed of documents that are written as keys now."""
        for known in (self._changes, self._made):
            for number, key in list(known):
                behind = first <= key.encode() and (not last or key.encode() < last)
                if number == id(stage) and behind:
                    del known[number, key]

    def change(self, store: Store, key: str, change: Change) -> None:
        """Replace a value by what a function makes of it; of what others make of it, in the end."""
        stage = self.store(store)
        with self._lock:
            self._settle(stage, key.encode(), key.encode() + b"\0")
            current = stage.get(key)
            while (new := change(current)) != current and not stage.replace(key, new, current):
                current = stage.get(key)
            self.may_redo(stage, key, change)

    def refuse(self, key: str) -> None:
        """Have the commit fail: the value of a key is not the one that a write of it asks for."""
        self._unmet = key

    def may_redo(self, stage: Store, key: str, change: Change) -> None:
        """Have a change that was made done again in the end, if others change the value, too."""
        self._changes.setdefault((id(stage), key), []).append(change)

    def assume(self, stage: Store, key: str, value: bytes, version: bytes) -> bool:
        """Replace a value that was seen before, which is compared in the end; False: it is not.

        Reads that have to repeat have to be made.
        """
        with self._lock:
            self.check()
            assert isinstance(stage, StagedStore)
            return not (self._repeatable or self._atomic) and stage.assume(key, value, version)

    def array(self, array: Array) -> Array:
        """Return an array in the transaction, where what is written is kept aside.

        Parameters
        ----------
        array
            In the store itself, or in what `store` made of it.
        """
        with self._lock:
            store = self._stage(array._store)
            kept = self._kept(store, array)
            if kept is None:
                overlay, size = Overlay(), array._meta.chunk_spec.size_bytes
                coded = bool(array._stages.compressors or array._stages.shard_codecs)
                kept = _Kept(overlay, aside(array, store, overlay), size, coded)
                self._arrays.setdefault((id(store), array._path), []).append(kept)
            same = kept.array._meta is array._meta
            return kept.array if same else aside(array, store, kept.overlay)

    def make(
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

    def made_of(self, stage: Store, key: str, known: ArrayMeta) -> ArrayMeta | None:
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

    def resizable(self, array: Array) -> _Kept:
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

    def settle_array(self, array: Array) -> None:
        """Stage what was written to an array of the transaction."""
        with self._lock:
            for kept in self._arrays.get((id(array._store), array._path), ()):
                kept.array._store_kept()

    def others(self, key: Any, make: Callable[[], Aside]) -> Any:
        """Return what keeps other changes aside, by whose they are."""
        with self._lock:
            self.check()
            found = self._aside.get(key)
            if found is None:
                found = self._aside[key] = make()
            return found

    def after(self, call: Callable[[], object], *, in_any_case: bool = False) -> None:
        """Have a function called when all changes are made, or also where only some were."""
        (self._in_any_case if in_any_case else self._in_the_end).append(call)

    def forget_below(self, store: Store, prefix: str) -> None:
        """Forget what was written to arrays that are deleted."""
        with self._lock:
            for (number, path), here in self._arrays.items():
                if number == id(store) and f"{path}/".removeprefix("/").startswith(prefix):
                    for kept in here:
                        kept.overlay.clear()


def _pools(store: Store) -> frozenset[CachePool]:
    """Return what remembers answers of a store, and changes that are made through it."""
    return store.pools if isinstance(store, RememberingStore) else frozenset()


def _refused(found: int | str) -> ArgumentError | ConflictError:
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


def _alike(one: ArrayMeta, other: ArrayMeta) -> bool:
    """Whether two arrays keep the same elements in the same chunks, apart from their shapes."""
    return one is other or replace(one, shape=other.shape, attributes=other.attributes) == other
