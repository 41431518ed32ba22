"""The functions with which users begin: open and create arrays and groups.

Modes are those of zarr-python and h5py:

====  =========================================================================
mode  meaning
====  =========================================================================
r     read only; has to exist
r+    read and write; has to exist
a     read and write; created if it does not exist
w     created; what exists is deleted first, with everything below it
w-    created; an error if it exists (also: x)
====  =========================================================================
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar, cast

from tessarr import drive
from tessarr.array import bind as bind_array
from tessarr.errors import ArgumentError, ExistsError, MetadataError, TessarrWarning
from tessarr.flow import open as open_flow
from tessarr.group import bind
from tessarr.keys import join, node_path
from tessarr.metadata.node import ArrayMeta, GroupMeta
from tessarr.options import current
from tessarr.store.url import is_file, open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tessarr.array import Array
    from tessarr.codec import CodecLike
    from tessarr.dtype.names import DataTypeLike
    from tessarr.flow.open import Kind
    from tessarr.group import Group
    from tessarr.keys import ChunkKeyEncoding
    from tessarr.store import Store
    from tessarr.store.url import StoreLike
    from tessarr.transformer import StorageTransformer
    from tessarr.types import ArrayLike, MemoryOrder, ShapeLike, ZarrFormat

__all__ = [
    "Mode",
    "array",
    "create_array",
    "create_group",
    "empty",
    "full",
    "locate",
    "ones",
    "open",
    "open_array",
    "open_group",
    "zeros",
]

T = TypeVar("T")

Mode: TypeAlias = Literal["r", "r+", "a", "w", "w-", "x"]

_MODES: Final = frozenset(("r", "r+", "a", "w", "w-", "x"))


def open(
    store: StoreLike = None,
    mode: Mode = "a",
    *,
    path: str | None = None,
    zarr_format: ZarrFormat | None = None,
    use_consolidated: bool | str | None = None,
    **settings: Any,
) -> Array | Group:
    """Open the array or group that is there, whatever its format.

    Parameters
    ----------
    store
        The path of a folder, ``file://…``, ``memory://name``, a store, a mapping of
        keys to bytes, or None for a new store in memory.
    mode
        r, r+, a, w or w-: see `tessarr.api`. With a, w and w- what is created is an
        array if a shape or data is given, else a group.
    path
        The path of the node in the store; by default the root.
    zarr_format
        The only format to look for, and that of what is created.
    use_consolidated
        As for `open_group`; True and a name open a group only.
    **settings
        For a new array, as for `create_array`; for a new group ``attributes``.

    Returns
    -------
    Array or Group

    Raises
    ------
    NotFoundError
        If it has to exist and does not.
    ExistsError
        If it must not exist and does.
    MetadataError
        If its metadata is broken; ``.problems`` are all of them.

    Examples
    --------
    >>> import tessarr
    >>> a = tessarr.open("memory://opened", mode="w", shape=(3,), dtype="i2")
    >>> tessarr.open("memory://opened", mode="r")
    Array((3,), int16, chunks=(3,), order=C)
    """
    if use_consolidated:
        return open_group(
            store, mode, path=path, zarr_format=zarr_format, use_consolidated=use_consolidated
        )
    opened, at = locate(store, mode, path, zarr_format)
    copies = _wants_copies(opened, mode, use_consolidated)
    is_array = settings.get("shape") is not None or settings.get("data") is not None
    creator: Callable[..., Array | Group] = create_array if is_array else create_group

    def bound(found: ArrayMeta | GroupMeta, *, read_only: bool) -> Array | Group:
        if isinstance(found, ArrayMeta):
            return bind_array(
                found,
                opened,
                at,
                read_only=read_only,
                write_empty_chunks=settings.get("write_empty_chunks"),
            )
        return _bind_group(found, opened, at, read_only=read_only, copies=copies)

    def create(*, overwrite: bool) -> Array | Group:
        return creator(opened, path=at, zarr_format=zarr_format, overwrite=overwrite, **settings)

    return _Opening(opened, at, zarr_format, None, copies=copies).node(mode, bound, create)


def open_array(
    store: StoreLike = None,
    mode: Mode = "a",
    *,
    path: str | None = None,
    zarr_format: ZarrFormat | None = None,
    write_empty_chunks: bool | None = None,
    **settings: Any,
) -> Array:
    """Open an array, or create it, as the mode says.

    Parameters
    ----------
    store, mode, path
        As for `open`.
    zarr_format
        The only format to look for, and that of a new array.
    write_empty_chunks
        Whether chunks that hold nothing but the fill value are stored; by default
        as the options say.
    **settings
        For a new array, as for `create_array`. Ignored where the array exists.

    Returns
    -------
    Array

    Raises
    ------
    NotFoundError
        If it has to exist and does not, or there is a group.
    ExistsError
        If it must not exist and does.
    MetadataError
        If its metadata is broken; ``.problems`` are all of them.
    TypeError
        If it is to be created and no shape is given, or a keyword is unknown.

    Notes
    -----
    An array of format 3 costs one request, one of format 2 three. Metadata that was
    read before and has not changed is not parsed again.

    Examples
    --------
    >>> import tessarr
    >>> tessarr.open_array(None, shape=(2, 2), dtype="u1")[0]
    array([0, 0], dtype=uint8)
    """
    opened, at = locate(store, mode, path, zarr_format)

    def bound(found: ArrayMeta, *, read_only: bool) -> Array:
        return bind_array(
            found, opened, at, read_only=read_only, write_empty_chunks=write_empty_chunks
        )

    def create(*, overwrite: bool) -> Array:
        return create_array(
            opened,
            path=at,
            overwrite=overwrite,
            write_empty_chunks=write_empty_chunks,
            zarr_format=zarr_format,
            **settings,
        )

    # Without a shape nothing can be created, so that something is missing.
    may_create = mode != "a" or "shape" in settings or "data" in settings
    opening = _Opening(opened, at, zarr_format, "array")
    return opening.node(mode, bound, create if may_create else None)


def open_group(
    store: StoreLike = None,
    mode: Mode = "a",
    *,
    path: str | None = None,
    zarr_format: ZarrFormat | None = None,
    attributes: Mapping[str, Any] | None = None,
    use_consolidated: bool | str | None = None,
) -> Group:
    """Open a group, or create it, as the mode says.

    Parameters
    ----------
    store, mode, path
        As for `open`.
    zarr_format
        The only format to look for, and that of a new group.
    attributes
        Of a new group. Ignored where the group exists.
    use_consolidated
        Whether members are those that the group's consolidated metadata names, which
        takes no further request. None: if it has such and is opened for reading only;
        for writing, members are looked up in the store, so that what others add shows.
        True: it has to have such. A string: the same, by that name in place of
        ``.zmetadata`` (format 2). False: it is ignored.

    Returns
    -------
    Group

    Raises
    ------
    NotFoundError
        If it has to exist and does not, or there is an array.
    ExistsError
        If it must not exist and does.
    MetadataError
        If its metadata is broken; ``.problems`` are all of them.

    Notes
    -----
    The copies in consolidated metadata may differ from the documents of the nodes, if a
    program other than Tessarr changed those; a node that is opened by its own path is what
    its own document says. See `tessarr.consolidate_metadata`.

    Examples
    --------
    >>> import tessarr
    >>> tessarr.open_group("memory://data", path="a/b")
    Group(/a/b, zarr_format=3)
    """
    opened, at = locate(store, mode, path, zarr_format)
    if use_consolidated:
        return _open_consolidated(opened, at, mode, zarr_format, use_consolidated)
    copies = _wants_copies(opened, mode, use_consolidated)

    def bound(found: GroupMeta, *, read_only: bool) -> Group:
        return _bind_group(found, opened, at, read_only=read_only, copies=copies)

    def create(*, overwrite: bool) -> Group:
        return create_group(
            opened, path=at, overwrite=overwrite, zarr_format=zarr_format, attributes=attributes
        )

    return _Opening(opened, at, zarr_format, "group", copies=copies).node(mode, bound, create)


def create_array(
    store: StoreLike = None,
    *,
    name: str | None = None,
    path: str | None = None,
    shape: ShapeLike | None = None,
    dtype: DataTypeLike | None = None,
    data: ArrayLike | None = None,
    chunks: Any = None,
    shards: Any = None,
    codecs: Iterable[CodecLike] | None = None,
    compressors: Any = "auto",
    filters: Any = "auto",
    serializer: Any = "auto",
    object_codec: CodecLike | None = None,
    fill_value: Any = "auto",
    order: MemoryOrder = "C",
    dimension_names: Sequence[str | None] | None = None,
    attributes: Mapping[str, Any] | None = None,
    zarr_format: ZarrFormat | None = None,
    chunk_key_encoding: ChunkKeyEncoding | Mapping[str, Any] | str | None = None,
    dimension_separator: Literal[".", "/"] | None = None,
    storage_transformers: Sequence[StorageTransformer | Mapping[str, Any] | str] = (),
    overwrite: bool = False,
    write_empty_chunks: bool | None = None,
) -> Array:
    """Create an array.

    Parameters
    ----------
    store
        Where, as for `open`.
    name, path
        The path of the array in the store, by either name; by default the root. The
        groups above it are created.
    shape
        Lengths of the axes; may be left out where `data` is given.
    dtype
        The data type; by default that of `data`, else float64.
    data
        What to write into the new array.
    chunks
        The shape of a chunk. None or True: chosen for you. An integer: that along
        each axis. In a sequence None and -1 mean the whole axis, as do axes left out; a list
        in it gives the lengths of all chunks of an axis, as in ``[[10, 20, 30], 5]`` (a
        rectilinear grid, format 3 only).
    shards
        The shape of a shard, which holds several chunks in one stored object: a
        multiple of the chunk shape. By default no shards. Lists of lengths as for chunks.
        Format 3 only.
    codecs
        All codecs in the order of encoding, instead of the next three. A codec is
        an object such as ``tessarr.codecs.Zstd(3)``, JSON such as
        ``{"name": "zstd", "configuration": {"level": 3}}``, or a name.
    compressors
        Codecs for the bytes of a chunk, or one codec. None or an empty list: none.
        By default Blosc with LZ4, level 5, and bytes shuffled.
    filters
        Codecs for the elements of a chunk before they become bytes.
    serializer
        The codec that makes bytes of elements. Format 3 only.
    object_codec
        Where `dtype` is object, the codec that makes bytes of the objects, such as
        ``tessarr.codecs.JSON()``. Not needed for text and bytes: their data types are
        ``str`` and ``bytes``.
    fill_value
        What elements are that were never written; by default zero. None leaves it
        open in format 2.
    order
        The layout of elements within a stored chunk: C, or F for the first axis fastest.
    dimension_names
        Names of the axes. Format 3 only.
    attributes
        What you want to say of the array; see `tessarr.attributes`.
    zarr_format
        2 or 3; by default as the options say, which is 3.
    chunk_key_encoding
        How chunks are called: "default" or "v2", or its JSON. Format 3 only.
    dimension_separator
        The separator in the names of chunks: by default "." in format 2, "/" in format 3.
    storage_transformers
        What stands between the array and its store, from the array on. Format 3 only.
    overwrite
        Delete the node that is there, with everything below it; everything is checked
        first. By default that there is one is an error.
    write_empty_chunks
        Whether chunks that hold nothing but the fill value are stored; by default
        as the options say, which is not.

    Returns
    -------
    Array
        Open for reading and writing.

    Raises
    ------
    ArgumentError
        If arguments are not valid, alone or together: the message names all of them.
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
    form = zarr_format or current().zarr_format
    opened, at = locate(store, "w", name if path is None else path, form)
    from tessarr import creating

    return creating.create_array(
        opened,
        at,
        shape=shape,
        dtype=dtype,
        data=data,
        chunks=chunks,
        shards=shards,
        codecs=codecs,
        compressors=compressors,
        filters=filters,
        serializer=serializer,
        object_codec=object_codec,
        fill_value=fill_value,
        order=order,
        dimension_names=dimension_names,
        attributes=attributes,
        zarr_format=form,
        chunk_key_encoding=chunk_key_encoding,
        dimension_separator=dimension_separator,
        storage_transformers=storage_transformers,
        overwrite=overwrite,
        write_empty_chunks=write_empty_chunks,
    )


def create_group(
    store: StoreLike = None,
    *,
    path: str | None = None,
    attributes: Mapping[str, Any] | None = None,
    zarr_format: ZarrFormat | None = None,
    overwrite: bool = False,
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
    from tessarr.flow import create
    from tessarr.metadata.build import attributes_of

    form = zarr_format or current().zarr_format
    opened, at = locate(store, "w", path, form)
    meta = GroupMeta(form, attributes_of(attributes, form))
    drive.run(create.create(at, meta, overwrite=overwrite), opened)
    return bind(meta, opened, at, read_only=False)


def full(shape: ShapeLike, fill_value: Any, *, store: StoreLike = None, **settings: Any) -> Array:
    """Create an array that reads as `fill_value`; nothing but metadata is stored.

    Parameters
    ----------
    shape, fill_value, store, **settings
        As for `create_array`.

    Examples
    --------
    >>> import tessarr
    >>> tessarr.full(3, 7, dtype="u1")[:]
    array([7, 7, 7], dtype=uint8)
    """
    return create_array(store, shape=shape, fill_value=fill_value, **settings)


def zeros(shape: ShapeLike, *, store: StoreLike = None, **settings: Any) -> Array:
    """Create an array that reads as 0, as `full` does.

    Examples
    --------
    >>> import tessarr
    >>> tessarr.zeros((2, 2), dtype="i4")[0]
    array([0, 0], dtype=int32)
    """
    return full(shape, 0, store=store, **settings)


def ones(shape: ShapeLike, *, store: StoreLike = None, **settings: Any) -> Array:
    """Create an array that reads as 1, as `full` does.

    Examples
    --------
    >>> import tessarr
    >>> tessarr.ones(2)[:]
    array([1., 1.])
    """
    return full(shape, 1, store=store, **settings)


def empty(shape: ShapeLike, *, store: StoreLike = None, **settings: Any) -> Array:
    """Create an array whose elements mean nothing before they are written, as `full` does.

    Format 2 states that; format 3 cannot, and has the default fill value.

    Examples
    --------
    >>> import tessarr
    >>> tessarr.empty(2, zarr_format=2).fill_value is None
    True
    """
    return full(shape, None, store=store, **settings)


def array(data: ArrayLike, *, store: StoreLike = None, **settings: Any) -> Array:
    """Create an array that holds `data`.

    Parameters
    ----------
    data, store, **settings
        As for `create_array`.

    Examples
    --------
    >>> import tessarr
    >>> tessarr.array([[1, 2], [3, 4]])[1]
    array([3, 4])
    """
    return create_array(store, data=data, **settings)


_KINDS: Final[dict[Kind | None, Any]] = {
    "array": ArrayMeta,
    "group": GroupMeta,
    None: (ArrayMeta, GroupMeta),
}


@dataclass(frozen=True, slots=True)
class _Opening:
    """What is to be opened: where, and of which format and kind; None means any."""

    store: Store
    path: str
    zarr_format: ZarrFormat | None
    kind: Kind | None
    copies: bool = False

    def node(
        self,
        mode: str,
        bound: Callable[..., T],
        create: Callable[..., T] | None,
    ) -> T:
        """Do what the mode says: return what is there, bound, or what is created.

        Parameters
        ----------
        mode
            r, r+, a, w or w-.
        bound
            Given the metadata that was found, and ``read_only``.
        create
            Given ``overwrite``; None where nothing can be created.
        """
        if mode in ("r", "r+", "a"):
            copies = ".zmetadata" if self.copies else None
            flow = open_flow.find(
                self.path, zarr_format=self.zarr_format, kind=self.kind, copies=copies
            )
            found = drive.run(flow, self.store)
            if isinstance(found, _KINDS[self.kind]):
                return bound(found, read_only=mode == "r")
            if found is not None or mode != "a" or self.store.read_only or create is None:
                raise open_flow.missing(
                    self.path,
                    self.kind,
                    self.zarr_format,
                    other=found is not None,
                    store=self.store,
                    hint=self._hint(mode),
                )
        assert create is not None
        try:
            return create(overwrite=mode == "w")
        except ExistsError:
            if mode != "a":
                raise
            # Somebody else created it in the meantime.
            return self.node("r+", bound, None)

    def _hint(self, mode: str) -> str:
        if is_file(self.store):
            return ", which is a file: a store is a folder"
        if mode == "a" and not self.store.read_only:
            return "; to create one, give its shape, or data"
        return ""


def _wants_copies(store: Store, mode: str, use_consolidated: bool | str | None) -> bool:
    return use_consolidated is None and (mode == "r" or store.read_only)


def _bind_group(
    meta: GroupMeta, store: Store, path: str, *, read_only: bool, copies: bool
) -> Group:
    """Return a group; by its consolidated metadata, if it is wanted and there is any."""
    found = None
    if copies and meta.consolidated is not None:
        from tessarr.metadata.consolidated import Consolidated

        try:
            found = Consolidated.of(meta, path)
        except MetadataError as error:
            warnings.warn(f"it is not used: {error}", TessarrWarning, stacklevel=3)
    return bind(meta, store, path, read_only=read_only, copies=found)


def _open_consolidated(
    store: Store, path: str, mode: str, zarr_format: ZarrFormat | None, name: bool | str
) -> Group:
    if mode not in ("r", "r+", "a"):
        raise ArgumentError(f"use_consolidated opens what exists: mode {mode!r} creates")
    from tessarr.flow import consolidate

    key = name if isinstance(name, str) else None
    meta, copies = drive.run(consolidate.find(path, zarr_format=zarr_format, name=key), store)
    return bind(meta, store, path, read_only=mode == "r", copies=copies)


def locate(
    store: StoreLike, mode: str, path: str | None, zarr_format: ZarrFormat | None = None
) -> tuple[Store, str]:
    """Return the store that is meant, and the path in it, normalised as the format says."""
    if mode not in _MODES:
        raise ArgumentError(f"mode {mode!r} is not one of 'r', 'r+', 'a', 'w' and 'w-'")
    if zarr_format not in (None, 2, 3):
        raise ArgumentError(f"zarr_format {zarr_format!r} is not 2 or 3")
    opened, at = open_store(store, cast("Any", mode))
    if path:
        at = join(at, path.strip("/"))
    return opened, node_path(at, zarr_format) if at else ""
