"""Properties of an array: its metadata, its codecs, and its stored size."""

from __future__ import annotations

import operator
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tessarr.errors import ArgumentError, StoreError
from tessarr.flow.run import run_flow
from tessarr.metadata.node import ArrayMeta
from tessarr.node.node import Node

if TYPE_CHECKING:
    from tessarr.codec import ArrayBytesCodec, Codec
    from tessarr.metadata.codec_roles import CodecRoles
    from tessarr.node.info import ArrayInfo
    from tessarr.types import ChunkLengths, MemoryOrder, Missing, Present, Shape

__all__ = ["ArrayProperties", "ScalarConversion", "ViewOrigin"]

ViewOrigin: TypeAlias = "tuple[Any, str, dict[str, Any]]"
"""The base array of a view, and the method and the arguments that created the view."""


class ScalarConversion:
    """Conversion of an array of one element to a number, as in NumPy."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def ndim(self) -> int: ...
        @property
        def size(self) -> int: ...

    def _read_first(self) -> Any:
        """Read the first element."""
        raise NotImplementedError

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError(
                f"whether {self!r} is true is not clear: it has {self.size} elements. "
                "Ask for .size, compare with None, or read it and use .any() or .all()"
            )
        return bool(self._read_first())

    def __int__(self) -> int:
        return int(self._read_single())

    def __float__(self) -> float:
        return float(self._read_single())

    def __complex__(self) -> complex:
        return complex(self._read_single())

    def __index__(self) -> int:
        if self.ndim:
            raise TypeError("only an array of integers without axes can be an index")
        return operator.index(self._read_single())

    def _read_single(self) -> Any:
        if self.size != 1:
            raise TypeError(f"{self!r} has {self.size} elements: only one could be a number")
        return self._read_first()


class ArrayProperties(ScalarConversion, Node[ArrayMeta]):
    """Properties of an array."""

    __slots__ = ()

    _kind = "array"

    if TYPE_CHECKING:
        _write_empty_chunks: bool
        _missing: Missing
        _chunk_cache_bytes: int | None
        _present: Present | None
        _cache_metadata: bool
        _view_origin: ViewOrigin | None

        def _set_fill_value(self, value: Any) -> None: ...
        def _set_read_only(self, read_only: bool) -> None: ...
        def refresh(self) -> None: ...
        def resize(self, *shape: int | tuple[int, ...]) -> None: ...

    def __eq__(self, other: object) -> bool:
        same = super().__eq__(other)
        viewed = getattr(other, "_view_origin", None)
        if same is not True or self._view_origin is viewed is None:
            return same
        both = self._view_origin is not None and viewed is not None
        return both and bool(self._meta == getattr(other, "_meta", None))

    __hash__ = Node.__hash__

    # Runtime settings

    @property
    def _metadata(self) -> ArrayMeta:
        """The metadata in the model of format 3. Do not modify it."""
        if not self._cache_metadata:
            self.refresh()
        return self._meta

    @property
    def cache_metadata(self) -> bool:
        """Whether the array caches its metadata; if False, every access reads it again."""
        return self._cache_metadata

    @property
    def is_view(self) -> bool:
        """Whether this is a view of another array."""
        return self._view_origin is not None

    @property
    def base(self) -> Any:
        """The array that this is a view of; None for other arrays."""
        return None if self._view_origin is None else self._view_origin[0]

    @property
    def read_only(self) -> bool:
        """Whether the array rejects changes. Assign to change it."""
        return self._read_only

    @read_only.setter
    def read_only(self, read_only: bool) -> None:
        self._set_read_only(bool(read_only))

    @property
    def write_empty_chunks(self) -> bool:
        """Whether chunks that hold only the fill value are stored."""
        return self._write_empty_chunks

    # Metadata

    @property
    def shape(self) -> Shape:
        """The lengths of the axes. Assigning resizes, as `resize` does."""
        return self._metadata.shape

    @shape.setter
    def shape(self, shape: Shape) -> None:
        self.resize(shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The data type of the elements."""
        return self._metadata.data_type.numpy

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._metadata.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self._metadata.shape)

    @property
    def itemsize(self) -> int:
        """The bytes of one element."""
        return self._metadata.data_type.numpy.itemsize

    @property
    def nbytes(self) -> int:
        """The bytes of all elements in memory."""
        return self.size * self.itemsize

    @property
    def chunks(self) -> ChunkLengths:
        """The shape of a chunk, or of a subchunk in a sharded array.

        If the chunks of an axis have different lengths, the axis has a tuple of all lengths, as in
        Dask: ``((10, 20, 5), 4)``.
        """
        return self._metadata.chunks

    @property
    def shards(self) -> ChunkLengths | None:
        """The shape of a shard, which is written as a whole; None without shards."""
        return self._metadata.shards

    @property
    def read_chunk_sizes(self) -> tuple[tuple[int, ...], ...]:
        """The lengths of all `chunks` along each axis, clipped to the array, as Dask's chunks."""
        pairs = zip(self._metadata.chunk_cuts, self.shape, strict=True)
        return tuple(cuts.lengths(size) for cuts, size in pairs)

    @property
    def write_chunk_sizes(self) -> tuple[tuple[int, ...], ...]:
        """The lengths of all shards (or chunks) along each axis, clipped to the array."""
        pairs = zip(self._metadata.chunk_grid.cuts, self.shape, strict=True)
        return tuple(cuts.lengths(size) for cuts, size in pairs)

    @property
    def cdata_shape(self) -> Shape:
        """The number of `chunks` along each axis."""
        pairs = zip(self._metadata.chunk_cuts, self.shape, strict=True)
        return tuple(cuts.count(size) for cuts, size in pairs)

    @property
    def nchunks(self) -> int:
        """The number of `chunks`, stored or not."""
        return prod(self.cdata_shape)

    @property
    def fill_value(self) -> Any:
        """The value of elements that are not stored; None in format 2 means an undefined value.

        Assigning changes the value of all elements that are not stored.
        """
        return self._metadata.fill_scalar

    @fill_value.setter
    def fill_value(self, value: Any) -> None:
        self._set_fill_value(value)

    @property
    def fillvalue(self) -> Any:
        """The same as `fill_value`, under h5py's name."""
        return self.fill_value

    @property
    def maxshape(self) -> tuple[None, ...]:
        """The maximum length of each axis: None, for unlimited axes."""
        return (None,) * self.ndim

    @property
    def order(self) -> MemoryOrder:
        """The layout of the elements within a stored chunk; results are always in C order."""
        return self._metadata.order

    @property
    def meta_array(self) -> np.ndarray[Any, Any]:
        """An empty array of the class of results, which is NumPy's, as in zarr-python 2."""
        return np.empty(())

    @property
    def dimension_names(self) -> tuple[str | None, ...] | None:
        """The names of the axes, if any."""
        return self._metadata.axis_names

    @property
    def codecs(self) -> tuple[Codec, ...]:
        """All codecs, in the order of encoding."""
        return self._metadata.codecs.codecs

    @property
    def filters(self) -> tuple[Codec, ...]:
        """The array-to-array codecs of `chunks`; in format 2 all filters."""
        return self._codec_roles.filters

    @property
    def serializer(self) -> ArrayBytesCodec | None:
        """The array-to-bytes codec of `chunks`; None in format 2, which has none."""
        return None if self._metadata.zarr_format == 2 else self._codec_roles.serializer

    @property
    def compressors(self) -> tuple[Codec, ...]:
        """The bytes-to-bytes codecs of `chunks`; at most one in format 2."""
        return self._codec_roles.compressors

    @property
    def compressor(self) -> Codec | None:
        """The single codec of `compressors`; None if it is empty.

        Raises
        ------
        ArgumentError
            If the array has several compressors, as format 3 allows.
        """
        compressors = self._codec_roles.compressors
        if len(compressors) > 1:
            raise ArgumentError(
                f"array {self.name!r} has {len(compressors)} compressors: see compressors"
            )
        return compressors[0] if compressors else None

    @property
    def compression(self) -> str | None:
        """The name of `compressor` in format 2, such as ``"blosc"``; None without a compressor."""
        codec = self.compressor
        return None if codec is None else codec.get_config()["id"]

    @property
    def compression_opts(self) -> dict[str, Any] | None:
        """The parameters of `compressor`, including its name; None without a compressor."""
        codec = self.compressor
        return None if codec is None else codec.get_config()

    @property
    def _codec_roles(self) -> CodecRoles:
        from tessarr.metadata.codec_roles import find_codec_roles

        return find_codec_roles(self._metadata)

    # Stored values

    @property
    def nchunks_initialized(self) -> int:
        """The number of stored `chunks`, with all subchunks of stored shards.

        The property takes one listing.
        """
        from tessarr.flow import stored_sizes
        from tessarr.store.wrappers.transformer_adapter import get_chunk_store

        store, path = get_chunk_store(self._store, self._path, self._metadata.storage_transformers)
        return run_flow(stored_sizes.count_stored_chunks(path, self._metadata), store)

    @property
    def nbytes_stored(self) -> int:
        """The number of stored bytes, including metadata.

        The property takes one listing. Stores whose listings lack sizes also need one request per
        key.
        """
        from tessarr.flow import stored_sizes

        return run_flow(stored_sizes.measure_stored_bytes(self._path), self._store)

    @property
    def initialized(self) -> int:
        """The same as `nchunks_initialized`."""
        return self.nchunks_initialized

    @property
    def info(self) -> ArrayInfo:
        """A table of information about the array, for printing; takes one listing.

        A store that refuses listings, such as many web servers, has no number of stored bytes.

        Examples
        --------
        >>> import tessarr
        >>> tessarr.zeros((100, 100), chunks=(10, 10), dtype="i4", zarr_format=2).info
        Array((100, 100), int32, chunks=(10, 10), order=C)
          nbytes: 39.1K; nbytes_stored: ...; ratio: ...; initialized: 0/100
          compressor: Blosc(cname='lz4', clevel=5, shuffle=1...)
          store: MemoryStore
        """
        from tessarr.node.info import ArrayInfo

        stored_bytes = stored_chunk_count = None
        try:
            stored_bytes, stored_chunk_count = self._measure_stored_values()
        except StoreError as error:
            if error.retryable:
                raise
        return ArrayInfo(
            **self._info_fields(),
            stored_bytes=stored_bytes,
            chunk_count=self.nchunks,
            stored_chunk_count=stored_chunk_count,
        )

    def _measure_stored_values(self) -> tuple[int, int]:
        """Return the number of stored bytes and of stored chunks."""
        from tessarr.flow import stored_sizes

        if self._metadata.storage_transformers:  # the chunks are in another store
            return self.nbytes_stored, self.nchunks_initialized
        return run_flow(stored_sizes.measure_array(self._path, self._metadata), self._store)

    def info_complete(self) -> ArrayInfo:
        """Return `info`, which always counts stored chunks and bytes."""
        return self.info

    def info_items(self) -> list[tuple[str, str]]:
        """Return `info` as labels and values, as in zarr-python 2.18."""
        return self.info.items()

    def digest(self, hashname: str = "sha1") -> bytes:
        """Return a checksum of all stored values: chunks, metadata and attributes.

        Parameters
        ----------
        hashname
            The name of an algorithm of `hashlib`.

        Raises
        ------
        ArgumentError
            If the algorithm is unknown.

        Notes
        -----
        Equal digests mean equal arrays. Arrays with equal elements but different encodings have
        different digests. The method takes one listing, and reads all stored chunks without
        decoding them.

        Examples
        --------
        >>> import tessarr
        >>> a, b = tessarr.zeros(3), tessarr.zeros(3)
        >>> a.digest() == b.digest(), len(a.hexdigest("sha256"))
        (True, 64)
        """
        from tessarr.array.digest import compute_digest

        return compute_digest(self._store, self._path, self._metadata, hashname)

    def hexdigest(self, hashname: str = "sha1") -> str:
        """Return `digest` in hexadecimal digits."""
        return self.digest(hashname).hex()
