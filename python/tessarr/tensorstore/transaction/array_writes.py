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

__all__ = ["StagedArray", "StagedArrays", "forget_keys", "metadata_key", "staged_store"]

_Reshape: TypeAlias = "Callable[[Shape], Shape]"

_CODEC_SLOWDOWN: Final = (
    1 << 5
)  # with codecs: the slowest, zstd of level 22, takes 90 ns for each of 8 kB


@dataclass(slots=True)
class StagedArray:
    """Elements that were written to an array, and the array that they are to be stored in.

    Of a chunk that is written in part, all has to be encoded: so many bytes; and with codecs,
    which takes longer.
    """

    overlay: Overlay
    array: Array
    chunk_bytes: int
    with_codecs: bool


@dataclass(frozen=True, slots=True)
class _StagedMetadata:
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

    __slots__ = ("_entries", "_lock", "_metadata", "_replaced", "_resizing")

    def __init__(self, lock: RLock) -> None:
        self._lock = lock
        self._entries: dict[tuple[int, str], list[StagedArray]] = {}
        self._metadata: dict[tuple[int, str], _StagedMetadata] = {}
        self._replaced: set[tuple[int, str]] = set()  # documents, as keys are: nobody read them yet
        self._resizing: dict[tuple[int, str], RLock] = {}

    # All of them

    def entries(self) -> list[StagedArray]:
        """Return what is kept of each."""
        return [kept for here in self._entries.values() for kept in here]

    def close(self) -> None:
        """Have nothing more be written."""
        for kept in self.entries():
            kept.overlay.close()

    def clear(self) -> None:
        """Give up all changes."""
        for kept in self.entries():
            kept.overlay.clear()
        self._entries.clear()
        self._metadata.clear()

    def work_bytes(self) -> int | None:
        """Return how many bytes without codecs take as long to store; None: that cannot be told."""
        work = 0
        for kept in self.entries():
            if not kept.array._is_native:
                return None
            encoded = max(kept.overlay.nbytes, kept.chunk_bytes)
            work += encoded * _CODEC_SLOWDOWN if kept.with_codecs else encoded
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
            place = stage.number, metadata_key(array)
            if place not in self._metadata and stage.replaces(place[1]):
                self._replaced.add(place)
            overlay, size = Overlay(), array._meta.chunk_spec.size_bytes
            coded = bool(array._stages.compressors or array._stages.shard_codecs)
            kept = StagedArray(overlay, aside(array, stage, overlay), size, coded)
            self._entries.setdefault((stage.number, array._path), []).append(kept)
        if kept.array._store is only and stage is not only:
            kept.array = aside(kept.array, stage, kept.overlay)
        same = kept.array._meta is array._meta and kept.array._store is stage
        return kept.array if same else aside(array, stage, kept.overlay)

    def _find(self, stage: StagedStore, array: Array) -> StagedArray | None:
        """Return what keeps elements of the chunks that an array has."""
        for kept in self._entries.get((stage.number, array._path), ()):
            if _have_same_chunks(kept.array._meta, array._meta):
                return kept
        return None

    def resize_lock(self, stage: StagedStore, key: str) -> RLock:
        """Return what is held by who changes the shape that a document tells.

        It is read and changed, and what is known of it follows: one after another.
        """
        return self._resizing.setdefault((stage.number, key), RLock())

    def resizable(self, array: Array) -> StagedArray:
        """Return an array of the transaction once more, which is the one that is changed."""
        with self._lock:
            stage = staged_store(array)
            kept = self._find(stage, array)
            assert kept is not None
            kept.array = aside(array, stage, kept.overlay)
            return kept

    def _in_stage(self, stage: StagedStore) -> list[StagedArray]:
        some = (here for (number, _), here in self._entries.items() if number == stage.number)
        return [kept for here in some for kept in here]

    def stage_chunks(self, stage: StagedStore, first: bytes, last: bytes) -> None:
        """Stage what was written to chunks that have the keys from one to another."""
        for kept in self._in_stage(stage):
            aside(kept.array, stage, kept.overlay)._store_kept(first, last)

    def forget(self, stage: StagedStore, first: bytes, last: bytes) -> None:
        """Forget what was written to such chunks, and what such documents tell."""
        for kept in self._in_stage(stage):
            kept.array._forget_kept(first, last)
        self.replace(stage, first, last)
        for key in forget_keys(self._metadata, stage, first, last):
            for kept in self._entries.get((stage.number, key.rpartition("/")[0]), ()):
                kept.overlay.unbound()

    def replace(self, stage: StagedStore, first: bytes, last: bytes) -> None:
        """Have such documents be read before an array is used again: they tell something else."""
        for kept in self._in_stage(stage):
            key = metadata_key(kept.array)
            if _is_in_range(key, first, last):
                self._replaced.add((stage.number, key))

    def overlay_keys(self, stage: StagedStore, first: bytes, last: bytes) -> StagedStore:
        """Return a store to be read, which also has what was written to such chunks.

        It stays aside: so it can be put together with what others store until the end.
        """
        return _overlay_store(stage, self._in_stage(stage), first, last)

    def overlay_array(self, array: Array) -> Array:
        """Return an array of the transaction in such a store, of the chunks that it has."""
        with self._lock:
            stage = staged_store(array)
            store = _overlay_store(stage, self._entries.get((stage.number, array._path), []))
            return aside(array, store, Overlay())

    # Documents

    def stage_metadata(self, stage: StagedStore, key: str, meta: ArrayMeta) -> None:
        """Have all handles that take part know what a document tells that is new here."""
        with self._lock:
            self._metadata[stage.number, key] = _StagedMetadata(meta)
            self._replaced.discard((stage.number, key))

    def is_document_replaced(self, stage: StagedStore, key: str) -> bool:
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
            place = staged_store(array).number, key
            before = self._metadata.get(place)
            if before is None:
                made = _StagedMetadata(array._meta, known, (change,))
            elif before.known is None:
                made = _StagedMetadata(array._meta)
            else:
                made = _StagedMetadata(array._meta, known, (*before.changes, change))
            self._metadata[place] = made
            array._trim_kept(ends)

    def is_new(self, stage: StagedStore, key: str) -> bool:
        """Return whether a document is new here, whatever is outside."""
        made = self._metadata.get((stage.number, key))
        return made is not None and made.known is None

    def has_staged_metadata(self, stage: StagedStore, key: str) -> bool:
        """Return whether what a document tells was changed here, and not replaced since."""
        return (stage.number, key) in self._metadata

    def staged_metadata(self, stage: StagedStore, key: str, known: ArrayMeta) -> ArrayMeta | None:
        """Return what a document tells that was changed here; None if it was not.

        Parameters
        ----------
        stage, key
            The document.
        known
            What is known of it outside: what others made of it since is the same here, but for
            what was changed here.
        """
        if not self._metadata:
            return None
        with self._lock:
            made = self._metadata.get((stage.number, key))
            if made is not None and made.known is not None and made.known is not known:
                shape = known.shape
                for change in made.changes:
                    shape = change(shape)
                made = _StagedMetadata(reshaped(known, shape), known, made.changes)
                self._metadata[stage.number, key] = made
            return None if made is None else made.meta


def _overlay_store(
    stage: StagedStore, some: list[StagedArray], first: bytes = b"", last: bytes = b""
) -> StagedStore:
    written = [kept for kept in some if kept.overlay]
    if not written:
        return stage
    made = StagedStore(stage, False)
    for kept in written:
        aside(kept.array, made, kept.overlay)._store_kept(first, last, stays=True)
    return made


def forget_keys(
    known: dict[tuple[int, str], Any], stage: StagedStore, first: bytes, last: bytes
) -> list[str]:
    """Forget what is known of the keys of a stage from one to another; empty: there is no end.

    Return the keys of which something was.
    """
    here = [key for number, key in list(known) if number == stage.number]
    gone = [key for key in here if _is_in_range(key, first, last)]
    for key in gone:
        del known[stage.number, key]
    return gone


def staged_store(array: Array) -> StagedStore:
    """Return what stages changes of an array."""
    stage = array._store
    assert isinstance(stage, StagedStore)
    return stage


def metadata_key(array: Array) -> str:
    """Return the key of the metadata."""
    return prefix_of(array._path) + MARKERS[array._meta.zarr_format][0]


def _is_in_range(key: str, first: bytes, last: bytes) -> bool:
    return first <= key.encode() and (not last or key.encode() < last)


def _have_same_chunks(one: ArrayMeta, other: ArrayMeta) -> bool:
    """Whether two arrays keep the same elements in the same chunks, apart from their shapes."""
    return one is other or replace(one, shape=other.shape, attributes=other.attributes) == other
