"""Public functions that create arrays and groups.

`create_array` documents every keyword; the other functions pass theirs on to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tessarr.errors import ArgumentError
from tessarr.format.registry import with_keywords
from tessarr.group import Group
from tessarr.store.resolve import locate_node

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Literal, Unpack

    from tessarr.array import Array
    from tessarr.array.keyword_types import (
        ArraySettings,
        ChunksLike,
        CodecsLike,
        CreateSettings,
        FromArraySettings,
        FullLikeSettings,
        LikeSettings,
        Settings,
        StoreSettings,
    )
    from tessarr.codec import CodecLike
    from tessarr.dtype.names import DataTypeLike
    from tessarr.store.resolve import StoreLike
    from tessarr.types import MemoryOrder, ShapeLike, ZarrFormat

__all__ = [
    "array",
    "create",
    "create_array",
    "create_group",
    "empty",
    "empty_like",
    "from_array",
    "full",
    "full_like",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
]


@with_keywords("tessarr.array.keyword_types")
def create_array(
    store: StoreLike = None,
    *,
    name: str | None = None,
    path: str | None = None,
    shape: ShapeLike | None = None,
    data: Any = None,
    chunk_store: StoreLike = None,
    storage_options: Mapping[str, Any] | None = None,
    **settings: Unpack[Settings],
) -> Array:
    """Create an array.

    All functions and methods that create an array take these keywords.

    Parameters
    ----------
    store
        The store, as for `open`.
    name, path
        The path of the array in the store, by either name; by default the root. Missing groups
        above it are created.
    chunk_store
        The store of the chunks, if it differs from `store`.
    storage_options
        Options of the file system of a URL, such as ``{"anon": True}``.
    shape
        Lengths of the axes; optional with `data`.
    dtype
        The data type; by default that of `data`, else float64.
    data
        The values of the new array. An array of Tessarr, zarr-python, h5py or Dask is read part by
        part. Masked elements are stored as `fill_value`.
    chunks
        The shape of a chunk. None, True or "auto": chosen for you. An integer: that along
        each axis. False or -1: one chunk. In a sequence None and -1 mean the whole axis, as do
        axes left out; a list in it gives the lengths of all chunks of an axis, as in
        ``[[10, 20, 30], 5]`` (a rectilinear grid, format 3 only).
    shards
        The shape of a shard, which holds several chunks in one stored object: a
        multiple of the chunk shape. By default no shards. "auto": chosen for you, of at
        most 64 MiB. A mapping has ``shape``, and ``index_location`` if that is not "end".
        Lists of lengths as for chunks. Format 3 only.
    codecs
        All codecs in the order of encoding, instead of the next three. A codec is
        an object such as ``tessarr.codecs.Zstd(3)``, JSON such as
        ``{"name": "zstd", "configuration": {"level": 3}}``, or a name.
    compressors
        Codecs for the bytes of a chunk, or one codec. None or an empty list: none.
        By default what the options say: Blosc with LZ4, level 5, and bytes shuffled.
    filters
        Codecs for the elements of a chunk before they become bytes.
    serializer
        The codec that converts elements to bytes. Format 3 only.
    object_codec
        The codec that converts objects to bytes where `dtype` is object, such as
        ``tessarr.codecs.JSON()``. Text and bytes do not need it: their data types are ``str`` and
        ``bytes``.
    fill_value
        The value of elements that were never written; by default zero, and for masked `data` its
        fill value, so that ``np.ma.masked_equal(a[:], a.fill_value)`` restores the mask. None
        leaves it undefined in format 2; masked elements are then an error.
    order
        The layout of elements within a stored chunk: C, or F for the first axis fastest.
    dimension_names
        Names of the axes. Format 3 only.
    attributes
        The attributes of the array; see `tessarr.node.attributes`.
    zarr_format
        2 or 3; by default as the options say, which is 3.
    chunk_key_encoding
        The encoding of chunk keys: "default" or "v2", its JSON, or name and separator: ``("v2",
        "/")``. In format 2 only "v2".
    dimension_separator
        The separator in chunk keys: by default "." in format 2, "/" in format 3.
    storage_transformers
        Extensions between the array and its store, the one next to the array first. Format 3 only.
    overwrite
        Delete an existing node, with everything below it, after all arguments are checked. By
        default an existing node is an error.
    write_data
        Whether `data` is written. If not, it determines only the shape and the data type.
    write_empty_chunks
        Whether chunks that hold only the fill value are stored; by default as in the options, which
        is False.
    missing
        The result of reading chunks that are not stored. "fill": the fill value. "refuse_chunks": a
        `NotFoundError` for a missing chunk or shard. "refuse": also a `NotFoundError` for a chunk
        that a shard lacks. Chunks that hold only the fill value are not stored, unless
        `write_empty_chunks` is true.
    config
        Runtime settings as in zarr-python: ``{"write_empty_chunks": True}``, or
        ``{"read_missing_chunks": False}`` for `missing` "refuse_chunks". ``chunk_cache_bytes`` is
        the size of the array's own chunk cache, see `tessarr.Options`. Other members have no
        effect.
    synchronizer, cache_metadata
        As for `open_array`.
    read_only
        Whether the returned array rejects changes.
    compressor, fillvalue, chunk_shape, zarr_version
        Names of zarr-python and h5py for `compressors`, `fill_value`, `chunks` and `zarr_format`.
    compression, compression_opts, shuffle, fletcher32, maxshape
        h5py's: "gzip" or another codec's name, or a level of gzip; what the codec takes; a
        byte shuffle before it, and a checksum. ``maxshape`` is not needed: every array may
        grow. In format 2, "gzip" is zlib's form of it, as zarr-python 2 has it.
    cache_attrs, meta_array, partial_decompress
        Keywords of zarr-python 2: ``cache_attrs=False`` implies ``cache_metadata=False``,
        `meta_array` must be a NumPy array, and ``partial_decompress`` has no effect.

    Returns
    -------
    Array
        Open for reading and writing.

    Raises
    ------
    ArgumentError
        If arguments are invalid or inconsistent; the message names all of them.
    TypeError
        If a keyword is unknown, or both shape and data are missing.
    ExistsError
        If a node exists at the path, or an array above it.
    UnsupportedError
        If a data type or codec is not supported.

    Examples
    --------
    >>> import tessarr
    >>> from tessarr.codecs import Zstd
    >>> tessarr.create_array(
    ...     "memory://new", path="a/b", shape=(100, 100), dtype="f4", chunks=(10, 10),
    ...     shards=(50, 50), compressors=Zstd(3), overwrite=True)
    Array(/a/b, (100, 100), float32, chunks=(10, 10), shards=(50, 50), order=C)
    """
    if name is not None and path is not None:
        raise TypeError("give name or path, not both: they mean the same")
    if isinstance(store, tuple | int):
        raise TypeError(
            f"create_array() takes the store first: write shape={store!r}, or tessarr.create"
        )
    from tessarr.array.create import CreationPlan
    from tessarr.array.keywords import parse_keywords

    keywords = parse_keywords(settings)
    resolved, node_path = locate_node(
        store,
        "w",
        name if path is None else path,
        keywords.meta["zarr_format"],
        chunk_store=chunk_store,
        storage_options=storage_options,
    )
    plan = CreationPlan.from_keywords(resolved, keywords, shape=shape, data=data)
    return plan.execute(node_path)


@with_keywords("tessarr.array.keyword_types")
def create(  # noqa: PLR0917 (the order that zarr-python 2 has)
    shape: ShapeLike,
    chunks: ChunksLike = None,
    dtype: DataTypeLike | None = None,
    compressor: CodecsLike = "auto",
    fill_value: Any = "auto",
    order: MemoryOrder | None = None,
    store: StoreLike = None,
    synchronizer: Any = None,
    overwrite: bool = False,  # noqa: FBT002
    path: str | None = None,
    chunk_store: StoreLike = None,
    filters: CodecsLike = "auto",
    cache_metadata: bool = True,  # noqa: FBT002
    *,
    mode: str | None = None,
    **settings: Unpack[CreateSettings],
) -> Array:
    """Create an array, with the argument order of zarr-python 2.

    Parameters
    ----------
    shape, chunks, dtype, compressor, fill_value, order, store, synchronizer, overwrite, \
    path, chunk_store, filters, cache_metadata, **settings
        As for `create_array`.
    mode
        As in zarr-python 3: "w" implies `overwrite`.

    Examples
    --------
    >>> import tessarr
    >>> tessarr.create((10000, 10000), (1000, 1000))
    Array((10000, 10000), float64, chunks=(1000, 1000), order=C)
    """
    if mode not in (None, "a", "r+", "w", "w-", "x"):
        raise ArgumentError(f"mode {mode!r} creates nothing")
    if mode in ("w-", "x") and overwrite:
        raise ArgumentError(f"mode {mode!r} keeps an existing node, and overwrite=True deletes it")
    keywords: dict[str, Any] = {**settings}
    if synchronizer is not None:
        keywords["synchronizer"] = synchronizer
    if not cache_metadata:
        keywords["cache_metadata"] = False
    return create_array(
        store,
        path=path,
        shape=shape,
        chunks=chunks,
        dtype=dtype,
        compressor=compressor,
        fill_value=fill_value,
        order=order,
        overwrite=overwrite or mode == "w",
        chunk_store=chunk_store,
        filters=filters,
        **keywords,
    )


def create_group(
    store: StoreLike = None,
    *,
    path: str | None = None,
    attributes: Mapping[str, Any] | None = None,
    zarr_format: ZarrFormat | None = None,
    overwrite: bool = False,
    chunk_store: StoreLike = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Group:
    """Create a group.

    Parameters
    ----------
    store
        Where, as for `open`.
    path
        The path of the group in the store; by default the root. The groups above it are
        created.
    attributes
        The attributes of the group.
    zarr_format
        2 or 3; by default as the options say, which is 3. With an explicit format, a group of the
        other format may exist at the path.
    overwrite
        Delete an existing node, with everything below it. By default an existing node is an error.
    chunk_store, storage_options
        As for `create_array`.

    Returns
    -------
    Group
        Open for reading and writing.

    Raises
    ------
    ExistsError
        If there is a node already, or an array above.

    Examples
    --------
    >>> import tessarr
    >>> tessarr.create_group(None, attributes={"title": "x"}).attrs["title"]
    'x'
    """
    return Group.from_store(
        store,
        path=path,
        attributes=attributes,
        zarr_format=zarr_format,
        overwrite=overwrite,
        chunk_store=chunk_store,
        storage_options=storage_options,
    )


@with_keywords("tessarr.array.keyword_types")
def full(shape: ShapeLike, fill_value: Any, **settings: Unpack[StoreSettings]) -> Array:
    """Create an array that reads as `fill_value`; nothing but metadata is stored.

    Parameters
    ----------
    shape, fill_value, **settings
        As for `create_array`, also ``store``.

    Examples
    --------
    >>> import tessarr
    >>> tessarr.full(3, 7, dtype="u1")[:]
    array([7, 7, 7], dtype=uint8)
    """
    return _create_filled(full, shape, fill_value, settings)


def _create_filled(
    function: Callable[..., Array], shape: ShapeLike, fill_value: Any, settings: StoreSettings
) -> Array:
    if settings:
        from tessarr.array.keywords import check_signature

        check_signature(settings, function)
    return create_array(shape=shape, fill_value=fill_value, **settings)


@with_keywords("tessarr.array.keyword_types")
def zeros(shape: ShapeLike, **settings: Unpack[StoreSettings]) -> Array:
    """Create an array that reads as 0, as `full` does.

    Examples
    --------
    >>> import tessarr
    >>> tessarr.zeros((2, 2), dtype="i4")[0]
    array([0, 0], dtype=int32)
    """
    return _create_filled(zeros, shape, "auto", settings)


@with_keywords("tessarr.array.keyword_types")
def ones(shape: ShapeLike, **settings: Unpack[StoreSettings]) -> Array:
    """Create an array that reads as 1, as `full` does.

    Examples
    --------
    >>> import tessarr
    >>> tessarr.ones(2)[:]
    array([1., 1.])
    """
    return _create_filled(ones, shape, 1, settings)


@with_keywords("tessarr.array.keyword_types")
def empty(shape: ShapeLike, **settings: Unpack[StoreSettings]) -> Array:
    """Create an array whose elements are undefined until they are written, as `full` does.

    Format 2 has no fill value then; format 3 has the default one.

    Examples
    --------
    >>> import tessarr
    >>> tessarr.empty(2, zarr_format=2).fill_value is None
    True
    """
    return _create_filled(empty, shape, None, settings)


@with_keywords("tessarr.array.keyword_types")
def array(data: Any, **settings: Unpack[ArraySettings]) -> Array:
    """Create an array that holds `data`, with its chunks if it has any.

    Parameters
    ----------
    data, **settings
        As for `create_array`, also ``store``.

    Examples
    --------
    >>> import tessarr
    >>> tessarr.array([[1, 2], [3, 4]])[1]
    array([3, 4])
    """
    from tessarr.array.keywords import check_signature
    from tessarr.array.like import chunks_of

    check_signature(settings, array)
    settings.setdefault("chunks", chunks_of(data))
    return create_array(data=data, **settings)


_NONE_ACTS: Final = frozenset(["compression", "compressor", "fill_value", "fillvalue"])
"""Settings of `from_array` whose value None differs from that of the other array."""


@with_keywords("tessarr.array.keyword_types")
def from_array(
    store: StoreLike = None,
    *,
    data: Any,
    chunks: ChunksLike | Literal["keep"] = "keep",
    shards: ChunksLike | Mapping[str, Any] | Literal["keep"] = "keep",
    filters: CodecsLike = "keep",
    compressors: CodecsLike = "keep",
    serializer: CodecLike | None = "keep",
    **settings: Unpack[FromArraySettings],
) -> Array:
    """Create an array with the data of another one, and with its settings as defaults.

    Parameters
    ----------
    store, **settings
        As for `create_array`.
    data
        The other array, of Tessarr, zarr-python, h5py, Dask, NumPy, …, which is read part by part.
    chunks, shards, filters, compressors, serializer
        As for `create_array`; "keep" for those of `data`.

    Examples
    --------
    >>> import tessarr
    >>> a = tessarr.ones((6, 6), chunks=(2, 6), attributes={"unit": "m"})
    >>> b = tessarr.from_array(data=a, chunks=(6, 2))
    >>> b, b.attrs["unit"], float(b[5, 5])
    (Array((6, 6), float64, chunks=(6, 2), order=C), 'm', 1.0)
    """
    from tessarr.array.keywords import check_signature
    from tessarr.array.like import settings_like
    from tessarr.metadata.attributes import allow_copied_tokens

    check_signature(settings, from_array)
    codecs_and_chunks = {"chunks": chunks, "shards": shards, "filters": filters}
    codecs_and_chunks |= {"compressors": compressors, "serializer": serializer}
    kept_names = {
        name
        for name, value in codecs_and_chunks.items()
        if isinstance(value, str) and value == "keep"
    }
    overrides = {name: value for name, value in codecs_and_chunks.items() if name not in kept_names}
    # zarr-python's default of most settings is None, which keeps what the other array has.
    keeps = {name for name, value in settings.items() if value is None and name not in _NONE_ACTS}
    overrides |= {name: value for name, value in settings.items() if name not in keeps}
    like = settings_like(data, overrides, with_metadata=True)
    del like["shape"]
    with allow_copied_tokens(copied="attributes" not in overrides):
        return create_array(store, data=data, **like)


@with_keywords("tessarr.array.keyword_types")
def full_like(a: Any, fill_value: Any = "keep", **settings: Unpack[FullLikeSettings]) -> Array:
    """Create an array like another one that reads as `fill_value`.

    Parameters
    ----------
    a
        An array of Tessarr, zarr-python, h5py, NumPy, … Arrays of Zarr libraries determine shape,
        data type, chunks, shards, codecs, order, format and dimension names; others the first
        three.
    fill_value
        As for `create_array`; by default that of `a`.
    **settings
        As for `create_array`, also ``store``; they override the settings of `a`.

    Examples
    --------
    >>> import tessarr
    >>> a = tessarr.zeros((4, 6), chunks=(2, 3), zarr_format=2)
    >>> b = tessarr.full_like(a, 5, dtype="i2")
    >>> b, b[0, 0], b.zarr_format
    (Array((4, 6), int16, chunks=(2, 3), order=C), np.int16(5), 2)
    """
    return _create_like(full_like, a, fill_value, settings)


def _create_like(
    function: Callable[..., Array], a: Any, fill_value: Any, settings: Mapping[str, Any]
) -> Array:
    from tessarr.array.keywords import check_signature
    from tessarr.array.like import fill_settings_like

    check_signature(settings, function)
    return create_array(**fill_settings_like(a, fill_value, settings))


@with_keywords("tessarr.array.keyword_types")
def zeros_like(a: Any, **settings: Unpack[LikeSettings]) -> Array:
    """Create an array like another one that reads as 0, as `full_like` does.

    Examples
    --------
    >>> import numpy as np, tessarr
    >>> tessarr.zeros_like(np.ones((2, 2), "i4"))[0]
    array([0, 0], dtype=int32)
    """
    return _create_like(zeros_like, a, "auto", settings)


@with_keywords("tessarr.array.keyword_types")
def ones_like(a: Any, **settings: Unpack[LikeSettings]) -> Array:
    """Create an array like another one that reads as 1, as `full_like` does.

    Examples
    --------
    >>> import numpy as np, tessarr
    >>> tessarr.ones_like(np.zeros((2, 2), "i4"))[0]
    array([1, 1], dtype=int32)
    """
    return _create_like(ones_like, a, 1, settings)


@with_keywords("tessarr.array.keyword_types")
def empty_like(a: Any, **settings: Unpack[LikeSettings]) -> Array:
    """Create an array like another one with undefined elements, as `full_like` does.

    Examples
    --------
    >>> import tessarr
    >>> tessarr.empty_like(tessarr.ones(2, zarr_format=2)).fill_value is None
    True
    """
    return _create_like(empty_like, a, None, settings)
