"""What arrays say of themselves: properties of their metadata, and what is stored."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from tessarr import drive
from tessarr.codec import Bytes, ShardingIndexed
from tessarr.metadata.node import ArrayMeta
from tessarr.node import Node

if TYPE_CHECKING:
    import numpy as np

    from tessarr.codec import (
        ArrayArrayCodec,
        ArrayBytesCodec,
        BytesBytesCodec,
        Chain,
        Codec,
    )
    from tessarr.describe import ArrayInfo
    from tessarr.types import ChunkLengths, MemoryOrder, Shape

__all__ = ["Facts"]


class Facts(Node[ArrayMeta]):
    """What an array says of itself."""

    __slots__ = ()

    _kind = "array"

    if TYPE_CHECKING:
        _write_empty_chunks: bool
        _cache_metadata: bool
        _is_view: bool

        def refresh(self) -> None: ...
        def resize(self, *shape: int | tuple[int, ...], trim: bool = True) -> None: ...

    # How it was opened

    @property
    def metadata(self) -> ArrayMeta:
        """The metadata, whatever the format; not to be modified."""
        if not self._cache_metadata:
            self.refresh()
        return self._meta

    @property
    def cache_metadata(self) -> bool:
        """Whether metadata is that of when the array was opened, or read anew each time."""
        return self._cache_metadata

    @property
    def is_view(self) -> bool:
        """Whether this is a view: the stored chunks of an array, taken for something else."""
        return self._is_view

    @property
    def write_empty_chunks(self) -> bool:
        """Whether chunks that hold nothing but the fill value are stored."""
        return self._write_empty_chunks

    # What the metadata says

    @property
    def shape(self) -> Shape:
        """The lengths of the axes. Assigning resizes, as `resize` does."""
        return self.metadata.shape

    @shape.setter
    def shape(self, shape: Shape) -> None:
        self.resize(shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The data type of the elements."""
        return self.metadata.data_type.numpy

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.metadata.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.metadata.shape)

    @property
    def itemsize(self) -> int:
        """The bytes of one element."""
        return self.metadata.data_type.numpy.itemsize

    @property
    def nbytes(self) -> int:
        """The bytes of all elements, as they are in memory."""
        return self.size * self.itemsize

    @property
    def chunks(self) -> ChunkLengths:
        """The shape of the smallest part that is read by itself; in shards, of a subchunk.

        Where chunks of an axis have different lengths, these stand in a tuple, as Dask
        has it: ``((10, 20, 5), 4)``.
        """
        return self.metadata.chunks

    @property
    def shards(self) -> ChunkLengths | None:
        """The shape of a shard, which is written as one; None without shards."""
        return self.metadata.shards

    @property
    def read_chunk_sizes(self) -> tuple[tuple[int, ...], ...]:
        """Per axis the length of each of `chunks`, inside the array: what Dask calls chunks."""
        pairs = zip(self.metadata.chunk_cuts, self.shape, strict=True)
        return tuple(cuts.lengths(size) for cuts, size in pairs)

    @property
    def write_chunk_sizes(self) -> tuple[tuple[int, ...], ...]:
        """Per axis the length of each shard, or chunk if there are no shards, inside the array."""
        pairs = zip(self.metadata.chunk_grid.cuts, self.shape, strict=True)
        return tuple(cuts.lengths(size) for cuts, size in pairs)

    @property
    def cdata_shape(self) -> Shape:
        """The number of `chunks` along each axis."""
        pairs = zip(self.metadata.chunk_cuts, self.shape, strict=True)
        return tuple(cuts.count(size) for cuts, size in pairs)

    @property
    def nchunks(self) -> int:
        """The number of `chunks`, stored or not."""
        return prod(self.cdata_shape)

    @property
    def fill_value(self) -> Any:
        """What elements are that were never written; None (format 2) leaves that open."""
        return self.metadata.fill_scalar

    @property
    def order(self) -> MemoryOrder:
        """The layout of the elements within a stored chunk; results are always in C order."""
        return self.metadata.order

    @property
    def dimension_names(self) -> tuple[str | None, ...] | None:
        """The names of the axes, where there are any."""
        return self.metadata.dimension_names

    @property
    def codecs(self) -> tuple[Codec, ...]:
        """All codecs, in the order of encoding."""
        return self.metadata.codecs.codecs

    @property
    def filters(self) -> tuple[Codec, ...]:
        """What `chunks` go through first: codecs from arrays to arrays; all filters of format 2."""
        chain = self._chunk_codecs
        arrays: tuple[ArrayArrayCodec, ...] = chain.array_array
        if self.zarr_format == 3:
            return arrays
        if self.order == "F":
            arrays = arrays[1:]
        objects = () if isinstance(chain.array_bytes, Bytes) else (chain.array_bytes,)
        codecs = (*arrays, *objects, *chain.bytes_bytes)
        return codecs if self.metadata.last_is_filter else codecs[:-1]

    @property
    def serializer(self) -> ArrayBytesCodec:
        """The codec that makes bytes of `chunks`."""
        return self._chunk_codecs.array_bytes

    @property
    def compressors(self) -> tuple[BytesBytesCodec, ...]:
        """The codecs that the bytes of `chunks` go through; at most one in format 2."""
        rest = self._chunk_codecs.bytes_bytes
        if self.zarr_format == 3:
            return rest
        return () if self.metadata.last_is_filter else rest[-1:]

    @property
    def _chunk_codecs(self) -> Chain:
        chain = self.metadata.codecs
        while isinstance(chain.array_bytes, ShardingIndexed):
            chain = chain.array_bytes.codecs
        return chain

    # What is stored

    @property
    def nchunks_initialized(self) -> int:
        """The number of `chunks` that are stored; all chunks of a stored shard count.

        Costs one listing.
        """
        from tessarr.flow import measure
        from tessarr.store.transformed import chunk_store

        store, path = chunk_store(self._store, self._path, self.metadata.storage_transformers)
        return drive.run(measure.stored_chunks(path, self.metadata), store)

    @property
    def nbytes_stored(self) -> int:
        """The bytes of everything that is stored, metadata included.

        Costs one listing, and one request per key for its size.
        """
        from tessarr.flow import measure

        return drive.run(measure.stored_bytes(self._path), self._store)

    @property
    def info(self) -> ArrayInfo:
        """What there is to say about the array, as a table to print; costs one listing."""
        from tessarr.describe import ArrayInfo

        return ArrayInfo(
            name=self.name,
            meta=self.metadata,
            read_only=self._read_only,
            store=repr(self._store),
            stored_bytes=self.nbytes_stored,
            chunk_count=self.nchunks,
            stored_chunk_count=self.nchunks_initialized,
        )
