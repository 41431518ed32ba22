"""Raw copies of chunks between arrays whose stored chunks have the same bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tessarr.flow.open import prefix_of
from tessarr.format.chunk_key_encoding import select_chunk_keys
from tessarr.metadata.convert import convert_metadata
from tessarr.metadata.node import ArrayMeta
from tessarr.transfer.execute import max_concurrency, run_tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tessarr.store import Store
    from tessarr.transfer.execute import TaskRunner

__all__ = ["copy_values", "find_chunk_keys", "has_same_chunks", "map_chunk_keys"]


def has_same_chunks(old: ArrayMeta, new: ArrayMeta) -> bool:
    """Return whether stored chunks of two arrays have the same bytes, under any keys.

    Examples
    --------
    >>> from tessarr.metadata.build import build_array_meta
    >>> two, three = (build_array_meta(shape=(4,), zarr_format=form) for form in (2, 3))
    >>> has_same_chunks(two, three), has_same_chunks(two, build_array_meta(shape=(4,), chunks=2))
    (True, False)
    """
    if old.storage_transformers or new.storage_transformers:
        return False
    if old.zarr_format != new.zarr_format:
        converted = convert_metadata(old, "", new.zarr_format).meta
        if not isinstance(converted, ArrayMeta):
            return False
        old = converted
    return _chunk_properties(old) == _chunk_properties(new)


def _chunk_properties(meta: ArrayMeta) -> tuple[object, ...]:
    return (meta.shape, meta.data_type, meta.chunk_grid, meta.fill_value, meta.codecs)


def find_chunk_keys(
    keys: Iterable[str], path: str, meta: ArrayMeta
) -> list[tuple[str, tuple[int, ...]]]:
    """Return the keys of chunks among some keys, each with its grid cell."""
    prefix, shape = prefix_of(path), meta.grid_shape
    return [
        (key, cell)
        for key, cell in select_chunk_keys(keys, prefix, meta.chunk_key_encoding, meta.rank)
        if all(index < count for index, count in zip(cell, shape, strict=True))
    ]


def map_chunk_keys(
    keys: Iterable[str], path: str, meta: ArrayMeta, new_path: str, new: ArrayMeta
) -> list[tuple[str, str]]:
    """Return the keys of chunks among some keys, each with its key in another array."""
    prefix, encode = prefix_of(new_path), new.chunk_key_encoding.encode
    return [(key, prefix + encode(cell)) for key, cell in find_chunk_keys(keys, path, meta)]


def copy_values(
    source: Store,
    target: Store,
    pairs: Sequence[tuple[str, str]],
    *,
    memory_bytes: int,
    numbers: Iterable[int] | None = None,
    done: Callable[[int], None] | None = None,
    run: TaskRunner | None = None,
) -> None:
    """Copy values from keys of one store to keys of another.

    Parameters
    ----------
    source, target
        The stores.
    pairs
        Pairs of old and new keys.
    memory_bytes
        The memory limit; a single larger value may exceed it.
    numbers
        The numbers of the pairs to copy; by default all.
    done
        Called with the number of each stored pair, in the calling thread.
    run
        The function that runs the tasks; by default `run_tasks`, in threads of this process.
    """
    target.store_buffered_chunks("")  # otherwise they would replace the copied values later
    # Chunks of one array have similar sizes: measure a sample.
    sampled_keys = [old for old, _ in pairs[:: max(len(pairs) // 16, 1)]]
    largest = max((source.size(key) or 0 for key in sampled_keys), default=0)
    concurrency = min(max_concurrency(), memory_bytes // max(largest, 1), len(pairs))
    work = range(len(pairs)) if numbers is None else numbers
    (run or run_tasks)(work, _ValueCopier(source, target, pairs), max(concurrency, 1), done)


@dataclass(frozen=True, slots=True)
class _ValueCopier:
    """Returns the function with which one thread copies values."""

    source: Store
    target: Store
    pairs: Sequence[tuple[str, str]]

    def __call__(self) -> Callable[[int], None]:
        return self._copy

    def _copy(self, number: int) -> None:
        old, new = self.pairs[number]
        value = self.source.get(old)
        if value is not None:
            self.target.put(new, value)
