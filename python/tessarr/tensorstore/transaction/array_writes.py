"""What transactions change of arrays: elements, and documents."""

from __future__ import annotations

from _thread import RLock
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tessarr.array.resize import reshaped
from tessarr.array.write_buffer import Overlay, aside
from tessarr.flow.open import MARKERS, prefix_of
from tessarr.store.wrappers.staged import StagedStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tessarr.array import Array
    from tessarr.metadata.node import ArrayMeta
    from tessarr.types import Shape

__all__ = ["Kept", "StagedArrays", "document_of", "forget", "stage_of"]

_Reshape: TypeAlias = "Callable[[Shape], Shape]"

_SLOWER: Final = 1 << 5  # with codecs: the slowest, zstd of level 22, takes 90 ns for each of 8 kB


@dataclass(slots=True)
class Kept:
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


class StagedArrays:
    """The arrays that take part in a transaction, by their stages and paths.

    Parameters
    ----------
    lock
        That of the transaction. Who calls `close`, `clear` and what takes a stage has it.
    """

    __slots__ = ("_kept", "_lock", "_made", "_replaced", "_resizing")

    def __init__(self, lock: RLock) -> None:
        self._lock = lock
        self._kept: dict[tuple[int, str], list[Kept]] = {}
        self._made: dict[tuple[int, str], _Made] = {}
        self._replaced: set[tuple[int, str]] = set()  # documents, as keys are: nobody read them yet
        self._resizing: dict[tuple[int, str], RLock] = {}

    # All of them

    def all(self) -> list[Kept]:
        """Return what is kept of each."""
        return [kept for here in self._kept.values() for kept in here]

    def close(self) -> None:
        """Have nothing more be written."""
        for kept in self.all():
            kept.overlay.close()

    def clear(self) -> None:
        """Give up all changes."""
        for kept in self.all():
            kept.overlay.clear()
        self._kept.clear()
        self._made.clear()

    def work_bytes(self) -> int | None:
        """Return how many bytes without codecs take as long to store; None: that cannot be told."""
        work = 0
        for kept in self.all():
            if not kept.array._is_native:
                return None
            encoded = max(kept.overlay.nbytes, kept.chunk_bytes)
            work += encoded * _SLOWER if kept.with_codecs else encoded
        return work

    # Elements

    def add(self, stage: StagedStore, array: Array, *, only: StagedStore) -> Array:
        """Return an array in a stage, where what is written is kept aside.

        Parameters
        ----------
        stage
            What stages its changes, and is asked for the rest of its chunks.
        array
            The array outside of the transaction.
        only
            What only stages, and remembers nothing that is read: it gives way to what does.
        """
        kept = self._find(stage, array)
        if kept is None:
            place = stage.number, document_of(array)
            if place not in self._made and stage.replaces(place[1]):
                self._replaced.add(place)
            overlay, size = Overlay(), array._meta.chunk_spec.size_bytes
            coded = bool(array._stages.compressors or array._stages.shard_codecs)
            kept = Kept(overlay, aside(array, stage, overlay), size, coded)
            self._kept.setdefault((stage.number, array._path), []).append(kept)
        if kept.array._store is only and stage is not only:
            kept.array = aside(kept.array, stage, kept.overlay)
        same = kept.array._meta is array._meta and kept.array._store is stage
        return kept.array if same else aside(array, stage, kept.overlay)

    def _find(self, stage: StagedStore, array: Array) -> Kept | None:
        """Return what keeps elements of the chunks that an array has."""
        for kept in self._kept.get((stage.number, array._path), ()):
            if _alike(kept.array._meta, array._meta):
                return kept
        return None

    def resizing(self, stage: StagedStore, key: str) -> RLock:
        """Return what is held by who changes the shape that a document tells.

        It is read and changed, and what is known of it follows: one after another.
        """
        return self._resizing.setdefault((stage.number, key), RLock())

    def resizable(self, array: Array) -> Kept:
        """Return an array of the transaction once more, which is the one that is changed."""
        with self._lock:
            stage = stage_of(array)
            kept = self._find(stage, array)
            assert kept is not None
            kept.array = aside(array, stage, kept.overlay)
            return kept

    def _in(self, stage: StagedStore) -> list[Kept]:
        some = (here for (number, _), here in self._kept.items() if number == stage.number)
        return [kept for here in some for kept in here]

    def settle(self, stage: StagedStore, first: bytes, last: bytes) -> None:
        """Stage what was written to chunks that have the keys from one to another."""
        for kept in self._in(stage):
            aside(kept.array, stage, kept.overlay)._store_kept(first, last)

    def forget(self, stage: StagedStore, first: bytes, last: bytes) -> None:
        """Forget what was written to such chunks, and what such documents tell."""
        for kept in self._in(stage):
            kept.array._forget_kept(first, last)
        self.replace(stage, first, last)
        for key in forget(self._made, stage, first, last):
            for kept in self._kept.get((stage.number, key.rpartition("/")[0]), ()):
                kept.overlay.unbound()

    def replace(self, stage: StagedStore, first: bytes, last: bytes) -> None:
        """Have such documents be read before an array is used again: they tell something else."""
        for kept in self._in(stage):
            key = document_of(kept.array)
            if _is_between(key, first, last):
                self._replaced.add((stage.number, key))

    def shown(self, stage: StagedStore, first: bytes, last: bytes) -> StagedStore:
        """Return a store to be read, which also has what was written to such chunks.

        It stays aside: so it can be put together with what others store until the end.
        """
        return _shown(stage, self._in(stage), first, last)

    def shown_array(self, array: Array) -> Array:
        """Return an array of the transaction in such a store, of the chunks that it has."""
        with self._lock:
            stage = stage_of(array)
            store = _shown(stage, self._kept.get((stage.number, array._path), []))
            return aside(array, store, Overlay())

    # Documents

    def make(self, stage: StagedStore, key: str, meta: ArrayMeta) -> None:
        """Have all handles that take part know what a document tells that is new here."""
        with self._lock:
            self._made[stage.number, key] = _Made(meta)
            self._replaced.discard((stage.number, key))

    def is_replaced(self, stage: StagedStore, key: str) -> bool:
        """Return whether a document was replaced as keys are, and not read since."""
        return (stage.number, key) in self._replaced

    def resize(
        self,
        array: Array,
        key: str,
        known: ArrayMeta,
        change: _Reshape,
        ends: Sequence[int | None],
    ) -> None:
        """Have all handles that take part know the shape that an array was given here.

        Parameters
        ----------
        array
            The array, in its stage.
        key
            Its document.
        known
            What is known of that outside.
        change
            From the shape there, or before, to the shape here.
        ends
            Where it ends, along axes of which that was said: who has begun to write by now may
            know of chunks that it has not any more.
        """
        with self._lock:
            place = stage_of(array).number, key
            before = self._made.get(place)
            if before is None:
                made = _Made(array._meta, known, (change,))
            elif before.known is None:
                made = _Made(array._meta)
            else:
                made = _Made(array._meta, known, (*before.changes, change))
            self._made[place] = made
            array._trim_kept(ends)

    def is_new(self, stage: StagedStore, key: str) -> bool:
        """Return whether a document is new here, whatever is outside."""
        made = self._made.get((stage.number, key))
        return made is not None and made.known is None

    def has_made(self, stage: StagedStore, key: str) -> bool:
        """Return whether what a document tells was changed here, and not replaced since."""
        return (stage.number, key) in self._made

    def made_of(self, stage: StagedStore, key: str, known: ArrayMeta) -> ArrayMeta | None:
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
            made = self._made.get((stage.number, key))
            if made is not None and made.known is not None and made.known is not known:
                shape = known.shape
                for change in made.changes:
                    shape = change(shape)
                made = _Made(reshaped(known, shape), known, made.changes)
                self._made[stage.number, key] = made
            return None if made is None else made.meta


def _shown(
    stage: StagedStore, some: list[Kept], first: bytes = b"", last: bytes = b""
) -> StagedStore:
    written = [kept for kept in some if kept.overlay]
    if not written:
        return stage
    made = StagedStore(stage, False)
    for kept in written:
        aside(kept.array, made, kept.overlay)._store_kept(first, last, stays=True)
    return made


def forget(
    known: dict[tuple[int, str], Any], stage: StagedStore, first: bytes, last: bytes
) -> list[str]:
    """Forget what is known of the keys of a stage from one to another; empty: there is no end.

    Return the keys of which something was.
    """
    here = [key for number, key in list(known) if number == stage.number]
    gone = [key for key in here if _is_between(key, first, last)]
    for key in gone:
        del known[stage.number, key]
    return gone


def stage_of(array: Array) -> StagedStore:
    """Return what stages changes of an array."""
    stage = array._store
    assert isinstance(stage, StagedStore)
    return stage


def document_of(array: Array) -> str:
    """Return the key of the metadata."""
    return prefix_of(array._path) + MARKERS[array._meta.zarr_format][0]


def _is_between(key: str, first: bytes, last: bytes) -> bool:
    return first <= key.encode() and (not last or key.encode() < last)


def _alike(one: ArrayMeta, other: ArrayMeta) -> bool:
    """Whether two arrays keep the same elements in the same chunks, apart from their shapes."""
    return one is other or replace(one, shape=other.shape, attributes=other.attributes) == other
