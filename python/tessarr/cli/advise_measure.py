"""Measure the cost of storing and reading a sample of an array with a layout.

The sample is a part of the array that fits into a bounded number of bytes. It is written with
each layout to a temporary folder, where requests and bytes are counted and decoding is timed
without waiting for disks and networks. What the whole array would cost follows: as many times the
bytes and the decoding as it has chunks to touch, and as many requests; requests and bytes
take the time that the latency and the bandwidth of the store say.
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
from tessarr.flow import measure
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
"""A read that is over sooner is timed again."""


@dataclass(frozen=True, slots=True)
class Link:
    """Latency, bandwidth and concurrency of a store.

    Parameters
    ----------
    latency_s
        The time of a request.
    bytes_per_s
        The rate at which bytes come.
    at_once
        How many requests are under way at a time.
    """

    latency_s: float
    bytes_per_s: float
    concurrency: int

    def seconds(self, requests: float, size_bytes: float) -> float:
        """Return the time that requests for so many bytes take."""
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
        Where the part begins.
    values
        Its elements.
    share
        Which share of the chunks of the array is stored at all.
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
        Requests to the store, and bytes that come from it.
    seconds
        The time, of which `decoding_s` is for decoding.
    """

    requests: int
    size_bytes: int
    decoding_s: float
    seconds: float

    def asdict(self) -> JSONObject:
        """Return it as plain JSON."""
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
        The way.
    objects
        How many objects it takes in the store.
    stored_bytes
        How many bytes.
    writing_s
        The time to write it all.
    reads
        What each way of reading costs.
    """

    layout: Layout
    objects: int
    stored_bytes: int
    writing_s: float
    reads: tuple[Cost, ...]


def take_sample(array: Array, size_bytes: int) -> Sample:
    """Read a part of an array of at most so many bytes, from where something is stored.

    Raises
    ------
    ArgumentError
        If nothing is stored.
    """
    meta = array.metadata
    keys = run_flow(measure.list_keys(array.path), array._store)
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
        # It begins where a chunk does, unless it would reach over the edge then.
        earliest = min(cuts.start(index), size - length)
        first = cuts.start(cuts.cell(earliest))
        starts.append(first if size - first >= length else earliest)
    region = tuple(slice(start, start + n) for start, n in zip(starts, lengths, strict=True))
    return Sample(array, tuple(starts), np.asarray(array[region]), len(cells) / prod(grid))


def _limit_extent(array: Array, max_elements: int) -> Shape:
    """Return lengths of a part of an array: of all axes the longest is made shorter."""
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
    """Write a sample with a layout, read it in some ways, and return what the whole costs.

    Raises
    ------
    TessarrError
        If the layout cannot be had for such an array.
    """
    with TemporaryDirectory(prefix="tessarr-advise-") as folder:
        store = CountingStore(LocalStore(folder))
        stored = _create_array(sample, layout, store)
        started = perf_counter()
        stored[...] = sample.values
        encoding_s = perf_counter() - started
        size_bytes = run_flow(measure.measure_stored_bytes(""), store)
        keys = [access.move_into(sample.starts, stored.shape) for access in accesses]
        counts = [_measure_read(stored, store, key) for key in keys]
    shape = sample.array.shape
    objects = round(sample.share * prod(_count_chunks(shape, layout.shards or layout.chunks)))
    # Whole chunks are stored, also where they reach over the edge.
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
    """Create an array for a sample; chunks that are longer than that are cut."""
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
        # One folder instead of many, which would take time of their own to make and remove.
        settings["chunk_key_encoding"] = {"name": "default", "configuration": {"separator": "."}}
    else:
        settings["order"] = array.order
    compressors = array.compressors if layout.compressors is None else layout.compressors
    return create_array(
        store,
        "",
        shape=shape,
        dtype=array.metadata.data_type,
        chunks=chunks,
        filters=array.filters or None,
        compressors=compressors or None,
        fill_value=array.fill_value,
        zarr_format=3 if array.zarr_format == 3 else 2,
        **settings,
    )


@dataclass(frozen=True, slots=True)
class _ReadCount:
    """What a read of the sample took."""

    requests: int
    size_bytes: int
    seconds: float
    elements: int
    """Elements of the chunks that it touched."""
    objects: int
    """Objects that it touched: chunks, or shards."""


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
    """Return what a read of the whole array costs, given what one of the sample took."""
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
