"""Public functions that create arrays and groups.

`create_array` documents every keyword; the other functions pass theirs on to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tessarr.errors import ArgumentError
from tessarr.group import Group
from tessarr.options import current
from tessarr.store.resolve import locate_node

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Unpack

    from tessarr.array import Array
    from tessarr.array.keywords import Settings, StoreSettings
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

    All functions that create an array, and the methods of groups, take these keywords.

    Parameters
    ----------
    store
        Where, as for `open`.
    name, path
        The path of the array in the store, by either name; by default the root. The
        groups above it are created.
    chunk_store
        Where the chunks are to be, if not in `store`.
    storage_options
        What the file system of a URL is to know, such as ``{"anon": True}``.
    shape
        Lengths of the axes; may be left out where `data` is given.
    dtype
        The data type; by default that of `data`, else float64.
    data
        What to write into the new array. An array of Tessarr, zarr-python, h5py or Dask is
        read part by part. Masked elements are stored as `fill_value`.
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
        The codec that makes bytes of elements. Format 3 only.
    object_codec
        Where `dtype` is object, the codec that makes bytes of the objects, such as
        ``tessarr.codecs.JSON()``. Not needed for text and bytes: their data types are
        ``str`` and ``bytes``.
    fill_value
        What elements are that were never written; by default zero, and for masked `data`
        the fill value of that: ``np.ma.masked_equal(a[:], a.fill_value)`` is masked again.
        None leaves it open in format 2; masked elements are an error then.
    order
        The layout of elements within a stored chunk: C, or F for the first axis fastest.
    dimension_names
        Names of the axes. Format 3 only.
    attributes
        What you want to say of the array; see `tessarr.node.attributes`.
    zarr_format
        2 or 3; by default as the options say, which is 3.
    chunk_key_encoding
        How chunks are called: "default" or "v2", its JSON, or name and separator:
        ``("v2", "/")``. In format 2 only the latter.
    dimension_separator
        The separator in the names of chunks: by default "." in format 2, "/" in format 3.
    storage_transformers
        What stands between the array and its store, from the array on. Format 3 only.
    overwrite
        Delete the node that is there, with everything below it; everything is checked
        first. By default that there is one is an error.
    write_data
        Whether `data` is written. If not, the array is only made to take it.
    write_empty_chunks
        Whether chunks that hold nothing but the fill value are stored; by default
        as the options say, which is not.
    missing
        What is read where nothing is stored. "fill": the fill value. "refuse_chunks": where a
        chunk or shard is missing that is a `NotFoundError`. "refuse": also where a shard lacks
        a chunk. Chunks of nothing but the fill value are not stored, unless
        `write_empty_chunks` is true.
    config
        The same as zarr-python has it, ``{"write_empty_chunks": True}``; with
        ``{"read_missing_chunks": False}`` is `missing` "refuse_chunks". Its other members make no
        difference here.
    synchronizer, cache_metadata
        As for `open_array`.
    read_only
        Whether the array that is returned refuses to be changed.
    compressor, fillvalue, chunk_shape, zarr_version
        What zarr-python and h5py call `compressors`, `fill_value`, `chunks` and `zarr_format`, too.
    compression, compression_opts, shuffle, fletcher32, maxshape
        h5py's: "gzip" or another codec's name, or a level of gzip; what the codec takes; a
        byte shuffle before it, and a checksum. ``maxshape`` is not needed: every array may
        grow. In format 2, "gzip" is zlib's form of it, as zarr-python 2 has it.
    cache_attrs, meta_array, partial_decompress
        Of zarr-python 2: with ``cache_attrs=False`` metadata is not kept either, `meta_array`
        has to be NumPy's, and blocks of Blosc are decoded by themselves in any case.

    Returns
    -------
    Array
        Open for reading and writing.

    Raises
    ------
    ArgumentError
        If arguments are not valid, alone or together: the message names all of them.
    TypeError
        If a keyword is not known, or there is neither a shape nor data.
    ExistsError
        If there is a node already, or an array above.
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
    from tessarr.array import create as creating

    zarr_format_ = (
        settings.get("zarr_format") or settings.get("zarr_version") or current().zarr_format
    )
    resolved, node_path = locate_node(
        store,
        "w",
        name if path is None else path,
        zarr_format_,
        chunk_store=chunk_store,
        storage_options=storage_options,
    )
    return creating.create_array(resolved, node_path, shape=shape, data=data, **settings)


def create(  # noqa: PLR0917 (the order that zarr-python 2 has)
    shape: ShapeLike,
    chunks: Any = None,
    dtype: Any = None,
    compressor: Any = "auto",
    fill_value: Any = "auto",
    order: MemoryOrder | None = None,
    store: StoreLike = None,
    synchronizer: Any = None,
    overwrite: bool = False,  # noqa: FBT002
    path: str | None = None,
    chunk_store: StoreLike = None,
    filters: Any = "auto",
    cache_metadata: bool = True,  # noqa: FBT002
    *,
    mode: str | None = None,
    **settings: Any,
) -> Array:
    """Create an array, with the order of arguments that zarr-python 2 has.

    Parameters
    ----------
    shape, chunks, dtype, compressor, fill_value, order, store, synchronizer, overwrite, \
    path, chunk_store, filters, cache_metadata, **settings
        As for `create_array`.
    mode
        As zarr-python 3 has it: with "w" `overwrite` is true.

    Examples
    --------
    >>> import tessarr
    >>> tessarr.create((10000, 10000), (1000, 1000))
    Array((10000, 10000), float64, chunks=(1000, 1000), order=C)
    """
    if mode not in (None, "a", "r+", "w", "w-", "x"):
        raise ArgumentError(f"mode {mode!r} creates nothing")
    if synchronizer is not None:
        settings["synchronizer"] = synchronizer
    if not cache_metadata:
        settings["cache_metadata"] = False
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
        **settings,
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
        What you want to say of the group.
    zarr_format
        2 or 3; by default as the options say, which is 3.
    overwrite
        Delete the node that is there, with everything below it. By default that
        there is one is an error.
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
    return create_array(shape=shape, fill_value=fill_value, **settings)


def zeros(shape: ShapeLike, **settings: Unpack[StoreSettings]) -> Array:
    """Create an array that reads as 0, as `full` does.

    Examples
    --------
    >>> import tessarr
    >>> tessarr.zeros((2, 2), dtype="i4")[0]
    array([0, 0], dtype=int32)
    """
    return create_array(shape=shape, **settings)


def ones(shape: ShapeLike, **settings: Unpack[StoreSettings]) -> Array:
    """Create an array that reads as 1, as `full` does.

    Examples
    --------
    >>> import tessarr
    >>> tessarr.ones(2)[:]
    array([1., 1.])
    """
    return create_array(shape=shape, fill_value=1, **settings)


def empty(shape: ShapeLike, **settings: Unpack[StoreSettings]) -> Array:
    """Create an array whose elements mean nothing before they are written, as `full` does.

    Format 2 states that; format 3 cannot, and has the default fill value.

    Examples
    --------
    >>> import tessarr
    >>> tessarr.empty(2, zarr_format=2).fill_value is None
    True
    """
    return create_array(shape=shape, fill_value=None, **settings)


def array(data: Any, **settings: Any) -> Array:
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
    from tessarr.array.like import chunks_of

    settings.setdefault("chunks", chunks_of(data))
    return create_array(data=data, **settings)


def from_array(
    store: StoreLike = None,
    *,
    data: Any,
    chunks: Any = "keep",
    shards: Any = "keep",
    filters: Any = "keep",
    compressors: Any = "keep",
    serializer: Any = "keep",
    **settings: Any,
) -> Array:
    """Create an array from another one: with its data, and all its settings but those given.

    Parameters
    ----------
    store, **settings
        As for `create_array`.
    data
        The other array: of Tessarr, zarr-python, h5py, Dask, NumPy, … It is read part by part.
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
    from tessarr.array.like import settings_like
    from tessarr.metadata.attributes import allow_copied_tokens

    codecs_and_chunks = {"chunks": chunks, "shards": shards, "filters": filters}
    codecs_and_chunks |= {"compressors": compressors, "serializer": serializer}
    kept_names = {
        name
        for name, value in codecs_and_chunks.items()
        if isinstance(value, str) and value == "keep"
    }
    overrides = {name: value for name, value in codecs_and_chunks.items() if name not in kept_names}
    # zarr-python's default of these is None, which keeps what the other array has.
    overrides |= {name: value for name, value in settings.items() if value is not None}
    like = settings_like(data, overrides, with_metadata=True)
    del like["shape"]
    with allow_copied_tokens(copied="attributes" not in overrides):
        return create_array(store, data=data, **like)


def full_like(a: Any, fill_value: Any = "keep", **settings: Any) -> Array:
    """Create an array like another one that reads as `fill_value`.

    Parameters
    ----------
    a
        An array of Tessarr, zarr-python, h5py, NumPy, … Of a Zarr library it gives
        shape, data type, chunks, shards, codecs, layout, format and the names of axes;
        of others the first three.
    fill_value
        As for `create_array`; by default that of `a`.
    **settings
        As for `create_array`, also ``store``: what is to be otherwise.

    Examples
    --------
    >>> import tessarr
    >>> a = tessarr.zeros((4, 6), chunks=(2, 3), zarr_format=2)
    >>> b = tessarr.full_like(a, 5, dtype="i2")
    >>> b, b[0, 0], b.zarr_format
    (Array((4, 6), int16, chunks=(2, 3), order=C), np.int16(5), 2)
    """
    from tessarr.array.like import fill_settings_like

    return create_array(**fill_settings_like(a, fill_value, settings))


def zeros_like(a: Any, **settings: Any) -> Array:
    """Create an array like another one that reads as 0, as `full_like` does.

    Examples
    --------
    >>> import numpy as np, tessarr
    >>> tessarr.zeros_like(np.ones((2, 2), "i4"))[0]
    array([0, 0], dtype=int32)
    """
    return full_like(a, "auto", **settings)


def ones_like(a: Any, **settings: Any) -> Array:
    """Create an array like another one that reads as 1, as `full_like` does.

    Examples
    --------
    >>> import numpy as np, tessarr
    >>> tessarr.ones_like(np.zeros((2, 2), "i4"))[0]
    array([1, 1], dtype=int32)
    """
    return full_like(a, 1, **settings)


def empty_like(a: Any, **settings: Any) -> Array:
    """Create an array like another one whose elements mean nothing yet, as `full_like` does.

    Examples
    --------
    >>> import tessarr
    >>> tessarr.empty_like(tessarr.ones(2, zarr_format=2)).fill_value is None
    True
    """
    return full_like(a, None, **settings)
