"""Measure the cost of storing and reading a sample of an array with a layout.

The sample is a part of the array with a bounded number of bytes. Each layout writes it to a
temporary folder. A store there counts requests and bytes, and the decoding time excludes waits
for disks and networks.

The cost of the whole array follows: requests, bytes and decoding scale with the number of chunks
that a read touches. Requests and bytes take the time that the store's latency and bandwidth imply.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr.array.create import create_array
from tessarr.cli.advise_layouts import Access
from tessarr.errors import ArgumentError
from tessarr.flow import stored_sizes
from tessarr.flow.run import run_flow
from tessarr.store import LocalStore
from tessarr.store.wrappers.instrumented import CountingStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from tessarr.array import Array
    from tessarr.cli.advise_layouts import Layout
    from tessarr.types import JSONObject, Shape

__all__ = ["Cost", "Link", "Measurement", "Sample", "measure_layout", "take_sample"]

_REPEAT_BELOW_S: Final = 0.05
"""A faster read is timed again."""


@dataclass(frozen=True, slots=True)
class Link:
    """Latency, bandwidth and concurrency of a store.

    Parameters
    ----------
    latency_s
        The duration of a request.
    bytes_per_s
        The transfer rate.
    concurrency
        The number of concurrent requests.
    """

    latency_s: float
    bytes_per_s: float
    concurrency: int

    def seconds(self, requests: float, size_bytes: float) -> float:
        """Return the duration of some requests that transfer `size_bytes` in total."""
        rounds = max(requests / self.concurrency, min(requests, 1))
        return rounds * self.latency_s + size_bytes / self.bytes_per_s


@dataclass(frozen=True, slots=True)
class Sample:
    """A part of an array, in memory.

    Parameters
    ----------
    array
        The array.
    starts
        The index of the part's first element.
    values
        The elements of the part.
    share
        The fraction of the array's chunks that the store holds.
    """

    array: Array
    starts: Shape
    values: npt.NDArray[Any]
    share: float


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one read.

    Parameters
    ----------
    requests, size_bytes
        The requests to the store and the bytes that they return.
    seconds
        The duration, including `decoding_s`.
    """

    requests: int
    size_bytes: int
    decoding_s: float
    seconds: float

    def asdict(self) -> JSONObject:
        """Return the cost as plain JSON."""
        return {
            "requests": self.requests,
            "bytes": self.size_bytes,
            "decoding_s": self.decoding_s,
            "seconds": self.seconds,
        }


@dataclass(frozen=True, slots=True)
class Measurement:
    """The cost of storing and reading an array with one layout.

    Parameters
    ----------
    layout
        The layout.
    objects
        The number of objects in the store.
    stored_bytes
        The number of stored bytes.
    writing_s
        The duration of writing the whole array.
    reads
        The cost of each access pattern.
    """

    layout: Layout
    objects: int
    stored_bytes: int
    writing_s: float
    reads: tuple[Cost, ...]


def take_sample(array: Array, size_bytes: int) -> Sample:
    """Read a part of an array with at most `size_bytes`, at a stored chunk.

    Raises
    ------
    ArgumentError
        If the store holds no chunk of the array.
    """
    meta = array.metadata
    keys = run_flow(stored_sizes.list_keys(array.path), array._store)
    decoded = (meta.chunk_key_encoding.decode(key, meta.rank) for key in keys)
    grid = meta.grid_shape
    cells = sorted(
        cell
        for cell in decoded
        if cell is not None and all(index < count for index, count in zip(cell, grid, strict=True))
    )
    if not cells:
        raise ArgumentError(f"array {array.name!r} has no stored chunks, so there is no sample")
    middle = cells[len(cells) // 2]
    lengths = _limit_extent(array, max(size_bytes // max(array.itemsize, 1), 1))
    starts = []
    for cuts, index, length, size in zip(
        meta.chunk_grid.cuts, middle, lengths, array.shape, strict=True
    ):
        # Start at a chunk boundary, unless the part would then cross the array's edge.
        earliest = min(cuts.start(index), size - length)
        first = cuts.start(cuts.cell(earliest))
        starts.append(first if size - first >= length else earliest)
    region = tuple(slice(start, start + n) for start, n in zip(starts, lengths, strict=True))
    return Sample(array, tuple(starts), np.asarray(array[region]), len(cells) / prod(grid))


def _limit_extent(array: Array, max_elements: int) -> Shape:
    """Return the shape of a part of an array; the longest axes shrink first."""
    lengths = list(array.shape)
    while prod(lengths) > max_elements:
        longest = max(range(len(lengths)), key=lambda longest: lengths[longest])
        rest = prod(lengths) // lengths[longest]
        others = [length for axis, length in enumerate(lengths) if axis != longest]
        lengths[longest] = max(max_elements // rest, max(others, default=1) // 2, 1)
    return tuple(lengths)


def measure_layout(
    sample: Sample, layout: Layout, accesses: Sequence[Access], link: Link
) -> Measurement:
    """Write a sample with a layout, read it, and return the cost for the whole array.

    Raises
    ------
    TessarrError
        If the array cannot have this layout.
    """
    with TemporaryDirectory(prefix="tessarr-advise-") as folder:
        store = CountingStore(LocalStore(folder))
        stored = _create_array(sample, layout, store)
        started = perf_counter()
        stored[...] = sample.values
        encoding_s = perf_counter() - started
        size_bytes = run_flow(stored_sizes.measure_stored_bytes(""), store)
        keys = [access.move_into(sample.starts, stored.shape) for access in accesses]
        counts = [_measure_read(stored, store, key) for key in keys]
    shape = sample.array.shape
    objects = round(sample.share * prod(_count_chunks(shape, layout.shards or layout.chunks)))
    # The store holds whole chunks, even those that cross the array's edge.
    scale = _count_covered(shape, layout.chunks) / _count_covered(
        stored.shape, stored.metadata.chunk_shape
    )
    stored_bytes = round(size_bytes * scale * sample.share)
    writing_s = encoding_s * scale * sample.share + link.seconds(objects, stored_bytes)
    pairs = zip(counts, accesses, strict=True)
    reads = tuple(_extrapolate(count, access, layout, link) for count, access in pairs)
    return Measurement(layout, objects, stored_bytes, writing_s, reads)


def _count_chunks(shape: Shape, lengths: Shape) -> Shape:
    return tuple(-(-size // length) for size, length in zip(shape, lengths, strict=True))


def _count_covered(shape: Shape, chunks: Shape) -> int:
    return prod(_count_chunks(shape, chunks)) * prod(chunks)


def _create_array(sample: Sample, layout: Layout, store: CountingStore) -> Array:
    """Create an array for a sample; clip chunks to the sample's shape."""
    array, shape = sample.array, sample.values.shape
    chunks = tuple(min(length, n) for length, n in zip(layout.chunks, shape, strict=True))
    settings: dict[str, Any] = {}
    if layout.shards is not None:
        settings["shards"] = tuple(
            min(shard, -(-n // length) * length)
            for shard, n, length in zip(layout.shards, shape, chunks, strict=True)
        )
    if array.zarr_format == 3:
        settings["serializer"] = array.serializer
        # Use one folder: creating and removing many folders would distort the timing.
        settings["chunk_key_encoding"] = {"name": "default", "configuration": {"separator": "."}}
    else:
        settings["order"] = array.order
    return create_array(
        store,
        "",
        shape=shape,
        dtype=array.metadata.data_type,
        chunks=chunks,
        filters=array.filters or None,
        compressors=layout.compressors or None,
        fill_value=array.fill_value,
        zarr_format=3 if array.zarr_format == 3 else 2,
        **settings,
    )


@dataclass(frozen=True, slots=True)
class _ReadCount:
    """The cost of reading the sample."""

    requests: int
    size_bytes: int
    seconds: float
    elements: int
    """The elements of all chunks that the read touched."""
    objects: int
    """The chunks or shards that the read touched."""


def _measure_read(stored: Array, store: CountingStore, key: tuple[slice, ...]) -> _ReadCount:
    before = store.counts()
    seconds = _time_read(stored, key)
    after = store.counts()
    for _ in range(4):
        if seconds < _REPEAT_BELOW_S:
            seconds = min(seconds, _time_read(stored, key))
    access = Access("", tuple(range(part.start, part.stop, part.step) for part in key))
    chunk = stored.metadata.chunk_shape
    shard = next(stored.metadata.chunk_grid.shapes())
    return _ReadCount(
        after["reads"] - before["reads"],
        after["read_bytes"] - before["read_bytes"],
        seconds,
        max(access.count_chunks(chunk), 1) * prod(chunk),
        max(access.count_chunks(shard), 1),
    )


def _extrapolate(count: _ReadCount, access: Access, layout: Layout, link: Link) -> Cost:
    """Return the cost of a read of the whole array from the cost of reading the sample."""
    elements = access.count_chunks(layout.chunks) * prod(layout.chunks) / count.elements
    objects = access.count_chunks(layout.shards or layout.chunks) / count.objects
    requests = max(round(count.requests * objects), 1)
    size_bytes = round(count.size_bytes * elements)
    decoding_s = count.seconds * elements
    return Cost(requests, size_bytes, decoding_s, decoding_s + link.seconds(requests, size_bytes))


def _time_read(array: Array, key: tuple[slice, ...]) -> float:
    started = perf_counter()
    array[key]
    return perf_counter() - started
