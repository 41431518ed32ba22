"""Arrays: what stands between the user's brackets and the engine."""

from __future__ import annotations

import operator
from dataclasses import replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from tessarr import drive
from tessarr._engine import ArrayBase, Description
from tessarr.codec import Bytes, ShardingIndexed
from tessarr.errors import UnsupportedError
from tessarr.flow import open as open_flow
from tessarr.indexing import (
    Fields,
    Indexer,
    Selection,
    basic,
    block,
    broadcast_value,
    default,
    fields_of,
    mask,
    outer,
    points,
    read_target,
    split_fields,
)
from tessarr.metadata.node import ArrayMeta
from tessarr.node import Node
from tessarr.options import current

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from tessarr.codec import (
        ArrayArrayCodec,
        ArrayBytesCodec,
        BytesBytesCodec,
        Chain,
        Codec,
    )
    from tessarr.describe import ArrayInfo
    from tessarr.future import Future
    from tessarr.store import Store
    from tessarr.types import (
        ArrayLike,
        ChunkLengths,
        FieldsLike,
        MemoryOrder,
        SelectionLike,
        Shape,
    )

__all__ = ["Array", "bind"]

_Normalize: TypeAlias = "Callable[[Any, Shape], Selection]"


class Array(ArrayBase, Node[ArrayMeta]):
    """An array in a store, indexed like a NumPy array.

    Arrays are made by `tessarr.open_array`, `tessarr.create_array` and by
    groups. An array keeps the metadata it was opened with: where another
    program resizes it, open it again.

    Notes
    -----
    ``a[key]`` reads and ``a[key] = value`` writes, with NumPy's rules: integers,
    slices with any step, ``...``, ``None``, masks and integer arrays; of records
    also names of fields, alone or beside these: ``a["x", :10]``. What is read
    is always a new array, never a view. All methods may be called from many
    threads at a time. Reading touches the chunks of the selection only, and
    needs no memory beyond the result and a chunk per thread.

    Examples
    --------
    >>> import tessarr
    >>> a = tessarr.create_array(None, shape=(4, 6), dtype="i4", chunks=(2, 3))
    >>> a[1:3, ::2] = [[1, 2, 3], [4, 5, 6]]
    >>> a[2, 0]
    np.int32(4)
    >>> a[1]
    array([1, 0, 2, 0, 3, 0], dtype=int32)
    """

    __slots__ = (
        "__weakref__",
        "_copies",
        "_meta",
        "_path",
        "_read_only",
        "_store",
        "_write_empty_chunks",
    )

    _kind = "array"

    def __init__(  # noqa: PLR0917 (as the engine takes them)
        self,
        description: Description,
        store: Store,
        prefix: str,
        read_only: bool,
        meta: ArrayMeta,
        home: Store,
        path: str,
        write_empty_chunks: bool,
    ) -> None:
        # What the engine asks for, the store of the chunks too, it has got already, in
        # `__new__` (see `bind`).
        del description, store, prefix
        self._meta = meta
        self._store = home
        self._path = path
        self._read_only = read_only
        self._write_empty_chunks = write_empty_chunks
        self._copies = None

    # How it was opened

    @property
    def write_empty_chunks(self) -> bool:
        """Whether chunks that hold nothing but the fill value are stored."""
        return self._write_empty_chunks

    # What the metadata says

    @property
    def shape(self) -> Shape:
        """The lengths of the axes. Assigning resizes, as `resize` does."""
        return self._meta.shape

    @shape.setter
    def shape(self, shape: Shape) -> None:
        self.resize(shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The data type of the elements."""
        return self._meta.data_type.numpy

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._meta.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self._meta.shape)

    @property
    def itemsize(self) -> int:
        """The bytes of one element."""
        return self._meta.data_type.numpy.itemsize

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
        return self._meta.chunks

    @property
    def shards(self) -> ChunkLengths | None:
        """The shape of a shard, which is written as one; None without shards."""
        return self._meta.shards

    @property
    def read_chunk_sizes(self) -> tuple[tuple[int, ...], ...]:
        """Per axis the length of each of `chunks`, inside the array: what Dask calls chunks."""
        pairs = zip(self._meta.chunk_cuts, self.shape, strict=True)
        return tuple(cuts.lengths(size) for cuts, size in pairs)

    @property
    def write_chunk_sizes(self) -> tuple[tuple[int, ...], ...]:
        """Per axis the length of each shard, or chunk if there are no shards, inside the array."""
        pairs = zip(self._meta.chunk_grid.cuts, self.shape, strict=True)
        return tuple(cuts.lengths(size) for cuts, size in pairs)

    @property
    def cdata_shape(self) -> Shape:
        """The number of `chunks` along each axis."""
        pairs = zip(self._meta.chunk_cuts, self.shape, strict=True)
        return tuple(cuts.count(size) for cuts, size in pairs)

    @property
    def nchunks(self) -> int:
        """The number of `chunks`, stored or not."""
        return prod(self.cdata_shape)

    @property
    def fill_value(self) -> Any:
        """What elements are that were never written; None (format 2) leaves that open."""
        return self._meta.fill_scalar

    @property
    def order(self) -> MemoryOrder:
        """The layout of the elements within a stored chunk; results are always in C order."""
        return self._meta.order

    @property
    def dimension_names(self) -> tuple[str | None, ...] | None:
        """The names of the axes, where there are any."""
        return self._meta.dimension_names

    @property
    def codecs(self) -> tuple[Codec, ...]:
        """All codecs, in the order of encoding."""
        return self._meta.codecs.codecs

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
        return codecs if self._meta.last_is_filter else codecs[:-1]

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
        return () if self._meta.last_is_filter else rest[-1:]

    @property
    def _chunk_codecs(self) -> Chain:
        chain = self._meta.codecs
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

        store, path = chunk_store(self._store, self._path, self._meta.storage_transformers)
        return drive.run(measure.stored_chunks(path, self._meta), store)

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
            meta=self._meta,
            read_only=self._read_only,
            store=repr(self._store),
            stored_bytes=self.nbytes_stored,
            chunk_count=self.nchunks,
            stored_chunk_count=self.nchunks_initialized,
        )

    # Reading and writing

    def read(
        self, selection: SelectionLike = ..., out: npt.NDArray[Any] | None = None
    ) -> Future[Any]:
        """Start to read; wait with ``.result()`` or ``await``.

        Parameters
        ----------
        selection
            What might stand between the brackets; by default everything.
        out
            Where to put the result: a writable array of its shape and data type.

        Returns
        -------
        Future
            Of what ``a[selection]`` gives, or of `out`.

        Raises
        ------
        SelectionError
            At once, if the selection does not fit the array.
        ArgumentError
            At once, if `out` does not fit the selection.

        Examples
        --------
        >>> import tessarr
        >>> a = tessarr.create_array(None, shape=(9,), dtype="u1", fill_value=3)
        >>> rows, more = a.read(slice(2)), a.read(slice(2, 5))
        >>> rows.result(), more.result()
        (array([3, 3], dtype=uint8), array([3, 3, 3], dtype=uint8))
        """
        chosen, fields = self._choose(default, selection)
        buffer, finish = self._target(chosen, out, fields)
        from tessarr.future import Future

        future: Future[Any] = Future(finish)
        if buffer.size:
            parts = fields.parts if fields else None
            self._read_future(chosen.axes, chosen.out_axes, buffer, future, buffer, parts)
        else:
            future.set_result(buffer)
        return future

    def write(self, selection: SelectionLike, value: ArrayLike) -> Future[None]:
        """Start to write; wait with ``.result()`` or ``await``.

        Parameters
        ----------
        selection
            What might stand between the brackets.
        value
            Broadcast to the selection's shape. It must not be changed until the
            future is done.

        Returns
        -------
        Future
            Of None.

        Raises
        ------
        SelectionError, ArgumentError, ReadOnlyError
            At once, and before anything is stored.
        """
        self._check_writable()
        chosen, fields = self._choose(default, selection)
        ready = self._ready(chosen, value, fields)
        from tessarr.future import Future

        future: Future[None] = Future()
        if ready.size:
            parts = fields.parts if fields else None
            self._write_future(chosen.axes, chosen.out_axes, ready, future, parts)
        else:
            future.set_result(None)
        return future

    def _getitem(self, key: Any) -> Any:
        """Read what the engine does not parse itself (called by it)."""
        return self._get(default, key)

    def _setitem(self, key: Any, value: Any) -> None:
        """Write what the engine does not parse itself (called by it)."""
        self._set(default, key, value)

    def _get(
        self,
        normalize: _Normalize,
        key: Any,
        out: npt.NDArray[Any] | None = None,
        names: FieldsLike | None = None,
    ) -> Any:
        selection, fields = self._choose(normalize, key, names)
        buffer, finish = self._target(selection, out, fields)
        if buffer.size:
            parts = fields.parts if fields else None
            self._read(selection.axes, selection.out_axes, buffer, parts)
        return finish(buffer)

    def _set(
        self, normalize: _Normalize, key: Any, value: object, names: FieldsLike | None = None
    ) -> None:
        self._check_writable()
        selection, fields = self._choose(normalize, key, names)
        if fields is None and hasattr(value, "shape"):
            from tessarr import transfer

            if transfer.is_lazy(value, self.dtype):
                value = transfer.assign(self, selection, value)
                if value is None:  # region by region, that is
                    return
        ready = self._ready(selection, value, fields)
        if ready.size:
            parts = fields.parts if fields else None
            self._write(selection.axes, selection.out_axes, ready, parts)

    def _choose(
        self, normalize: _Normalize, key: Any, names: FieldsLike | None = None
    ) -> tuple[Selection, Fields | None]:
        """Return which elements a key selects, and which of their fields if not all."""
        if names is None and self.dtype.names is not None:
            key, names = split_fields(key)
        fields = None if names is None else fields_of(names, self.dtype)
        return normalize(key, self._meta.shape), fields

    def _target(
        self, selection: Selection, out: npt.NDArray[Any] | None, fields: Fields | None
    ) -> tuple[npt.NDArray[Any], Callable[[npt.NDArray[Any]], Any]]:
        if fields is None:
            return read_target(selection, self.dtype, out)
        return fields.target(selection, out)

    def _ready(
        self, selection: Selection, value: object, fields: Fields | None
    ) -> npt.NDArray[Any]:
        if fields is None:
            given = self._meta.data_type.given(value)
            return broadcast_value(given, selection, self.dtype)
        return fields.value(value, selection)

    # Other forms of indexing

    @property
    def oindex(self) -> Indexer:
        """Outer indexing: ``a.oindex[[0, 2], [1, 3]]`` takes columns 1 and 3 of rows 0 and 2."""
        return self._indexer(outer)

    @property
    def vindex(self) -> Indexer:
        """Indexing by points: ``a.vindex[[0, 2], [1, 3]]`` takes the elements (0, 1) and (2, 3)."""
        return self._indexer(points)

    @property
    def blocks(self) -> Indexer:
        """Indexing by chunks: ``a.blocks[0, 1:3]`` takes all of three chunks."""
        return self._indexer(self._block)

    def _indexer(self, normalize: _Normalize) -> Indexer:
        return Indexer(partial(self._get, normalize), partial(self._set, normalize))

    def _block(self, key: Any, shape: Shape) -> Selection:
        return block(key, shape, self._meta.chunk_cuts)

    def get_basic_selection(
        self,
        selection: SelectionLike = ...,
        *,
        out: npt.NDArray[Any] | None = None,
        fields: FieldsLike | None = None,
    ) -> Any:
        """Read by integers, slices, ``...`` and None; into `out`, if it is given.

        Of records, only `fields`: one name, or several.
        """
        return self._get(basic, selection, out, fields)

    def set_basic_selection(
        self, selection: SelectionLike, value: ArrayLike, *, fields: FieldsLike | None = None
    ) -> None:
        """Write by integers, slices, ``...`` and None; of records, only `fields`."""
        self._set(basic, selection, value, fields)

    def get_orthogonal_selection(
        self,
        selection: SelectionLike,
        *,
        out: npt.NDArray[Any] | None = None,
        fields: FieldsLike | None = None,
    ) -> Any:
        """Read as `oindex` does; into `out`, if it is given; of records, only `fields`."""
        return self._get(outer, selection, out, fields)

    def set_orthogonal_selection(
        self, selection: SelectionLike, value: ArrayLike, *, fields: FieldsLike | None = None
    ) -> None:
        """Write as `oindex` does; of records, only `fields`."""
        self._set(outer, selection, value, fields)

    def get_coordinate_selection(
        self,
        selection: SelectionLike,
        *,
        out: npt.NDArray[Any] | None = None,
        fields: FieldsLike | None = None,
    ) -> Any:
        """Read as `vindex` does; into `out`, if it is given; of records, only `fields`."""
        return self._get(points, selection, out, fields)

    def set_coordinate_selection(
        self, selection: SelectionLike, value: ArrayLike, *, fields: FieldsLike | None = None
    ) -> None:
        """Write as `vindex` does; of records, only `fields`."""
        self._set(points, selection, value, fields)

    def get_mask_selection(
        self,
        selection: ArrayLike,
        *,
        out: npt.NDArray[Any] | None = None,
        fields: FieldsLike | None = None,
    ) -> Any:
        """Read where a mask of the array's shape is true; `out` and `fields` as elsewhere."""
        return self._get(mask, selection, out, fields)

    def set_mask_selection(
        self, selection: ArrayLike, value: ArrayLike, *, fields: FieldsLike | None = None
    ) -> None:
        """Write where a mask of the array's shape is true; of records, only `fields`."""
        self._set(mask, selection, value, fields)

    def get_block_selection(
        self,
        selection: SelectionLike,
        *,
        out: npt.NDArray[Any] | None = None,
        fields: FieldsLike | None = None,
    ) -> Any:
        """Read as `blocks` does; into `out`, if it is given; of records, only `fields`."""
        return self._get(self._block, selection, out, fields)

    def set_block_selection(
        self, selection: SelectionLike, value: ArrayLike, *, fields: FieldsLike | None = None
    ) -> None:
        """Write as `blocks` does; of records, only `fields`."""
        self._set(self._block, selection, value, fields)

    # Changing the shape

    def resize(self, *shape: int | tuple[int, ...], trim: bool = True) -> None:
        """Change the shape: ``a.resize(20, 30)`` or ``a.resize((20, 30))``.

        Parameters
        ----------
        *shape
            The new lengths, as many as there are axes.
        trim
            When shrinking, set what falls outside within kept chunks to the fill
            value, so that it does not come back when the array grows again.
            False leaves it, as other libraries do.

        Raises
        ------
        ArgumentError
            If the number of axes differs or a length is negative.
        StoreError
            If somebody else resized the array in the meantime, or the store fails. If
            the new shape cannot be stored, nothing has changed.

        Notes
        -----
        The shape is stored first, in one atomic step; then chunks that are all
        outside are deleted (found by one listing), and kept ones trimmed.

        Examples
        --------
        >>> import tessarr
        >>> a = tessarr.create_array(None, shape=(4,), dtype="u1", chunks=(4,))
        >>> a[:] = 1
        >>> a.resize(2)
        >>> a.resize(4)
        >>> a[:]
        array([1, 1, 0, 0], dtype=uint8)
        """
        self._check_writable()
        from tessarr import resizing

        new = resizing.lengths(shape, self.ndim)
        resizing.resize(self, new, trim=trim, accept=self._set_meta)

    def append(self, data: ArrayLike, axis: int = 0) -> Shape:
        """Add data at the end of an axis.

        Parameters
        ----------
        data
            As long as the array along every other axis.
        axis
            Which axis grows.

        Returns
        -------
        tuple of int
            The new shape.

        Raises
        ------
        ArgumentError
            If the data does not fit.
        StoreError
            If the store fails, or somebody else resized the array in the
            meantime. The array has its old shape and contents then.

        Notes
        -----
        The data is stored first and the shape last, in one atomic step, so readers
        see all of the data or none. It is put after what is stored now, also where
        another program has appended since this array was opened. Who appends or
        resizes waits for others that do: threads, and with a folder processes.

        Examples
        --------
        >>> import tessarr
        >>> a = tessarr.create_array(None, shape=(0, 2), dtype="i4", chunks=(8, 2))
        >>> a.append([[1, 2], [3, 4]])
        (2, 2)
        """
        self._check_writable()
        from tessarr import resizing

        return resizing.append(self, data, axis, accept=self._set_meta)

    def _set_meta(self, meta: ArrayMeta) -> None:
        self._replace(_describe(meta, self._write_empty_chunks))
        self._meta = meta
        self._note_change()

    # Protocols

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("an array in a store cannot be had without a copy")
        data: npt.NDArray[Any] = self._get(basic, ...)
        return data if dtype is None else data.astype(dtype, copy=False)

    def __len__(self) -> int:
        if not self._meta.shape:
            raise TypeError("an array without axes has no length")
        return self._meta.shape[0]

    def __iter__(self) -> Iterator[Any]:
        """Yield the items along the first axis; each chunk is read once."""
        for slab in self._slabs():
            yield from slab

    def __contains__(self, item: object) -> bool:
        """Whether some element equals `item`; reads until it is found."""
        if not self._meta.shape:
            return bool(np.any(self[()] == item))
        return any(bool(np.any(slab == item)) for slab in self._slabs())

    def _slabs(self) -> Iterator[Any]:
        length = len(self)
        cuts = self._meta.chunk_cuts[0]
        cells = range(cuts.count(length))
        return (self[cuts.start(cell) : cuts.start(cell + 1)] for cell in cells)

    # As in NumPy, an array of one element is as good as that element.

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError(
                f"whether {self!r} is true is not clear: it has {self.size} elements. "
                "Ask for .size, compare with None, or read it and use .any() or .all()"
            )
        return bool(self._element())

    def __int__(self) -> int:
        return int(self._element())

    def __float__(self) -> float:
        return float(self._element())

    def __complex__(self) -> complex:
        return complex(self._element())

    def __index__(self) -> int:
        if self._meta.shape:
            raise TypeError("only an array of integers without axes can be an index")
        return operator.index(self._element())

    def _element(self) -> Any:
        if self.size != 1:
            raise TypeError(f"{self!r} has {self.size} elements: only one could be a number")
        return self[(0,) * self.ndim]

    def __repr__(self) -> str:
        from tessarr.describe import array_line

        return array_line(self.name, self._meta)

    def __reduce__(self) -> tuple[Any, ...]:
        from tessarr.flow.create import documents

        return _reopen, (
            documents(self._meta),
            self._store,
            self._path,
            self._read_only,
            self._write_empty_chunks,
            self._meta.is_v1,
        )


def bind(
    meta: ArrayMeta,
    store: Store,
    path: str,
    *,
    read_only: bool,
    write_empty_chunks: bool | None = None,
) -> Array:
    """Return the array that metadata describes, in a store; nothing is read.

    Parameters
    ----------
    meta, store, path
        What and where.
    read_only
        Whether it refuses to be changed.
    write_empty_chunks
        Whether chunks that hold nothing but the fill value are stored; by default
        as the options say.
    """
    options = current()
    if meta.codecs.runs_code and not options.allow_pickle:
        raise UnsupportedError(
            f"array {path or '/'!r} is pickled, and to read pickles is to run what their writer "
            "wants: if you trust it, open it with tessarr.options(allow_pickle=True)",
            kind="unsupported_codec",
            extension="pickle",
            path=path,
        )
    if write_empty_chunks is None:
        write_empty_chunks = options.write_empty_chunks
    if options.text != "auto" and meta.data_type.elements == "text":
        meta = replace(meta, data_type=meta.data_type.of_kind(options.text))
    chunks, below = store, path
    if meta.storage_transformers:
        from tessarr.store.transformed import chunk_store

        chunks, below = chunk_store(store, path, meta.storage_transformers)
    return Array(
        _describe(meta, write_empty_chunks),
        chunks,
        open_flow.prefix_of(below),
        read_only or store.read_only or meta.is_v1,
        meta,
        store,
        path,
        write_empty_chunks,
    )


_KEPT: Final = 512
_described: dict[tuple[int, bool], tuple[ArrayMeta, Description]] = {}


def _describe(meta: ArrayMeta, write_empty_chunks: bool) -> Description:
    """Compile metadata for the engine, or recall what it was compiled to."""
    key = (id(meta), write_empty_chunks)
    found = _described.get(key)
    if found is not None and found[0] is meta:
        return found[1]
    description = Description(meta.description(store_fill=write_empty_chunks))
    if len(_described) >= _KEPT:
        _described.clear()
    _described[key] = (meta, description)
    return description


def _reopen(  # noqa: PLR0917 (as they are pickled)
    documents: dict[str, bytes],
    store: Store,
    path: str,
    read_only: bool,
    write_empty_chunks: bool,
    is_v1: bool,
) -> Array:
    meta = open_flow.parse(documents, path)
    assert isinstance(meta, ArrayMeta)
    if is_v1:
        meta = replace(meta, is_v1=True)
    return bind(meta, store, path, read_only=read_only, write_empty_chunks=write_empty_chunks)
