"""Staged changes of arrays: elements in write buffers, and metadata documents."""

from __future__ import annotations

from _thread import RLock
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tessarr.array.resize import reshape_meta
from tessarr.array.write_buffer import WriteBuffer, buffer_writes
from tessarr.flow.open import MARKERS, prefix_of
from tessarr.store.wrappers.staged import StagedStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tessarr.array import Array
    from tessarr.metadata.node import ArrayMeta
    from tessarr.types import Shape

__all__ = ["StagedArray", "StagedArrays", "forget_keys", "metadata_key", "staged_store"]

_Reshape: TypeAlias = "Callable[[Shape], Shape]"

_CODEC_SLOWDOWN: Final = 1 << 5  # the slowest codec, zstd of level 22, takes 90 ns per byte


@dataclass(slots=True)
class StagedArray:
    """The write buffer of an array in a transaction.

    `chunk_bytes` is the size of a chunk: a partly written chunk is encoded completely.
    """

    overlay: WriteBuffer
    array: Array
    chunk_bytes: int
    with_codecs: bool


@dataclass(frozen=True, slots=True)
class _StagedMetadata:
    """Staged metadata, the committed metadata, and the changes of the shape between them.

    `known` is None if the committed metadata does not matter, as for a new array.
    """

    meta: ArrayMeta
    known: ArrayMeta | None = None
    changes: tuple[_Reshape, ...] = ()


class StagedArrays:
    """The arrays that take part in a transaction, by their stages and paths.

    Parameters
    ----------
    lock
        The transaction's lock. Callers of `close`, `clear` and of methods with a stage hold it.
    """

    __slots__ = ("_entries", "_lock", "_metadata", "_replaced", "_resizing")

    def __init__(self, lock: RLock) -> None:
        self._lock = lock
        self._entries: dict[tuple[int, str], list[StagedArray]] = {}
        self._metadata: dict[tuple[int, str], _StagedMetadata] = {}
        # documents that the transaction wrote as keys and has not read yet
        self._replaced: set[tuple[int, str]] = set()
        self._resizing: dict[tuple[int, str], RLock] = {}

    # All arrays

    def entries(self) -> list[StagedArray]:
        """Return the write buffers of all arrays."""
        return [entry for entries in self._entries.values() for entry in entries]

    def close(self) -> None:
        """Refuse further writes."""
        for entry in self.entries():
            entry.overlay.close()

    def clear(self) -> None:
        """Discard all changes."""
        for entry in self.entries():
            entry.overlay.clear()
        self._entries.clear()
        self._metadata.clear()

    def work_bytes(self) -> int | None:
        """Return the equivalent number of bytes without codecs to store; None if unknown."""
        work = 0
        for entry in self.entries():
            if not entry.array._is_native:
                return None
            encoded = max(entry.overlay.nbytes, entry.chunk_bytes)
            work += encoded * _CODEC_SLOWDOWN if entry.with_codecs else encoded
        return work

    # Elements

    def add(self, stage: StagedStore, array: Array, *, only: StagedStore) -> Array:
        """Return an array in a stage whose writes go to a write buffer.

        Parameters
        ----------
        stage
            Stages the changes, and reads the rest of the array's chunks.
        array
            The array outside the transaction.
        only
            A stage that caches no reads; a caching stage replaces it.
        """
        entry = self._find(stage, array)
        if entry is None:
            metadata_id = stage.number, metadata_key(array)
            if metadata_id not in self._metadata and stage.is_staged(metadata_id[1]):
                self._replaced.add(metadata_id)
            overlay, size = WriteBuffer(), array._meta.chunk_spec.size_bytes
            has_codecs = bool(array._codec_roles.compressors or array._codec_roles.shard_codecs)
            entry = StagedArray(overlay, buffer_writes(array, stage, overlay), size, has_codecs)
            self._entries.setdefault((stage.number, array._path), []).append(entry)
        if entry.array._store is only and stage is not only:
            entry.array = buffer_writes(entry.array, stage, entry.overlay)
        same = entry.array._meta is array._meta and entry.array._store is stage
        return entry.array if same else buffer_writes(array, stage, entry.overlay)

    def _find(self, stage: StagedStore, array: Array) -> StagedArray | None:
        """Return the write buffer with the chunks of an array."""
        for entry in self._entries.get((stage.number, array._path), ()):
            if _have_same_chunks(entry.array._meta, array._meta):
                return entry
        return None

    def resize_lock(self, stage: StagedStore, key: str) -> RLock:
        """Return the lock for changes of the shape in a document.

        A holder reads and changes the document and the known metadata in one step.
        """
        return self._resizing.setdefault((stage.number, key), RLock())

    def resizable(self, array: Array) -> StagedArray:
        """Return the write buffer of an array, with the array's current metadata."""
        with self._lock:
            stage = staged_store(array)
            entry = self._find(stage, array)
            assert entry is not None
            entry.array = buffer_writes(array, stage, entry.overlay)
            return entry

    def _in_stage(self, stage: StagedStore) -> list[StagedArray]:
        groups = (
            entries for (number, _), entries in self._entries.items() if number == stage.number
        )
        return [entry for entries in groups for entry in entries]

    def stage_chunks(self, stage: StagedStore, first: bytes, last: bytes) -> None:
        """Stage the writes to chunks with keys in a range."""
        for entry in self._in_stage(stage):
            buffer_writes(entry.array, stage, entry.overlay)._store_write_buffer(first, last)

    def forget(self, stage: StagedStore, first: bytes, last: bytes) -> None:
        """Discard writes to chunks in a range of keys, and metadata documents in it."""
        for entry in self._in_stage(stage):
            entry.array._discard_write_buffer(first, last)
        self.replace(stage, first, last)
        for key in forget_keys(self._metadata, stage, first, last):
            for entry in self._entries.get((stage.number, key.rpartition("/")[0]), ()):
                entry.overlay.clear_ends()

    def replace(self, stage: StagedStore, first: bytes, last: bytes) -> None:
        """Mark metadata documents in a range of keys as replaced: the next use reads them again."""
        for entry in self._in_stage(stage):
            key = metadata_key(entry.array)
            if _is_in_range(key, first, last):
                self._replaced.add((stage.number, key))

    def overlay_keys(self, stage: StagedStore, first: bytes, last: bytes) -> StagedStore:
        """Return a store to read that includes the writes to chunks in a range of keys.

        The writes stay in the buffer, to be merged with the stored chunks at commit.
        """
        return _overlay_store(stage, self._in_stage(stage), first, last)

    def overlay_array(self, array: Array) -> Array:
        """Return an array of the transaction in a store that includes its buffered writes."""
        with self._lock:
            stage = staged_store(array)
            store = _overlay_store(stage, self._entries.get((stage.number, array._path), []))
            return buffer_writes(array, store, WriteBuffer())

    # Documents

    def stage_metadata(self, stage: StagedStore, key: str, meta: ArrayMeta) -> None:
        """Set the metadata that all handles in the transaction use."""
        with self._lock:
            self._metadata[stage.number, key] = _StagedMetadata(meta)
            self._replaced.discard((stage.number, key))

    def is_document_replaced(self, stage: StagedStore, key: str) -> bool:
        """Return whether a document was replaced as a key and not read since."""
        return (stage.number, key) in self._replaced

    def resize(
        self,
        array: Array,
        key: str,
        known: ArrayMeta,
        change: _Reshape,
        ends: Sequence[int | None],
    ) -> None:
        """Record a resize in the transaction for all its handles.

        Parameters
        ----------
        array
            The array, in its stage.
        key
            Its document.
        known
            The committed metadata.
        change
            Maps the committed or the previous shape to the new one.
        ends
            The new length along each resized axis; the write buffer drops chunks beyond it.
        """
        with self._lock:
            metadata_id = staged_store(array).number, key
            before = self._metadata.get(metadata_id)
            if before is None:
                staged = _StagedMetadata(array._meta, known, (change,))
            elif before.known is None:
                staged = _StagedMetadata(array._meta)
            else:
                staged = _StagedMetadata(array._meta, known, (*before.changes, change))
            self._metadata[metadata_id] = staged
            array._trim_write_buffer(ends)

    def is_new(self, stage: StagedStore, key: str) -> bool:
        """Return whether the transaction created a document, whatever the store has."""
        staged = self._metadata.get((stage.number, key))
        return staged is not None and staged.known is None

    def has_staged_metadata(self, stage: StagedStore, key: str) -> bool:
        """Return whether the transaction changed a document, and did not replace it since."""
        return (stage.number, key) in self._metadata

    def staged_metadata(self, stage: StagedStore, key: str, known: ArrayMeta) -> ArrayMeta | None:
        """Return the staged metadata of a document, or None.

        Parameters
        ----------
        stage, key
            The document.
        known
            The committed metadata; the result includes its changes by other writers.
        """
        if not self._metadata:
            return None
        with self._lock:
            staged = self._metadata.get((stage.number, key))
            if staged is not None and staged.known is not None and staged.known is not known:
                shape = known.shape
                for change in staged.changes:
                    shape = change(shape)
                staged = _StagedMetadata(reshape_meta(known, shape), known, staged.changes)
                self._metadata[stage.number, key] = staged
            return None if staged is None else staged.meta


def _overlay_store(
    stage: StagedStore, entries: list[StagedArray], first: bytes = b"", last: bytes = b""
) -> StagedStore:
    written = [entry for entry in entries if entry.overlay]
    if not written:
        return stage
    overlay = StagedStore(stage, False)
    for entry in written:
        buffer_writes(entry.array, overlay, entry.overlay)._store_write_buffer(
            first, last, keep=True
        )
    return overlay


def forget_keys(
    mapping: dict[tuple[int, str], Any], stage: StagedStore, first: bytes, last: bytes
) -> list[str]:
    """Remove the keys of a stage in a range; an empty `last` means no end.

    Return the removed keys.
    """
    keys = [key for number, key in list(mapping) if number == stage.number]
    gone = [key for key in keys if _is_in_range(key, first, last)]
    for key in gone:
        del mapping[stage.number, key]
    return gone


def staged_store(array: Array) -> StagedStore:
    """Return the stage of an array."""
    stage = array._store
    assert isinstance(stage, StagedStore)
    return stage


def metadata_key(array: Array) -> str:
    """Return the key of the metadata document."""
    return prefix_of(array._path) + MARKERS[array._meta.zarr_format][0]


def _is_in_range(key: str, first: bytes, last: bytes) -> bool:
    return first <= key.encode() and (not last or key.encode() < last)


def _have_same_chunks(first: ArrayMeta, second: ArrayMeta) -> bool:
    """Return whether two arrays have the same chunks, apart from their shapes."""
    return (
        first is second
        or replace(first, shape=second.shape, attributes=second.attributes) == second
    )
