"""The class `Array`, and `bind_array`, which creates an array object from metadata and a store."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import GenericAlias
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeVar

from tessarr._engine import ArrayBase
from tessarr.array.description import (
    check_pickles,
    describe_array,
    resolve_separator,
    use_text_type,
)
from tessarr.array.mutation import ArrayMutation
from tessarr.errors import ArgumentError
from tessarr.flow import open as open_flow
from tessarr.flow.run import run_flow
from tessarr.format.node_path import check_path, join, normalize_path
from tessarr.format.registry import set_public_module, with_keywords
from tessarr.metadata.node import ArrayMeta
from tessarr.options import current
from tessarr.store import open_store
from tessarr.store.adapt import split_store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Unpack

    from tessarr.array.async_array import AsyncArray
    from tessarr.array.keyword_types import ChunksLike, ConstructorSettings, OpenExistingSettings
    from tessarr.array.keywords import ArrayConfig
    from tessarr.array.properties import ViewOrigin
    from tessarr.array.small_reads import SmallReads
    from tessarr.codec import CodecLike
    from tessarr.dtype.names import DataTypeLike
    from tessarr.node.synchronizer import Synchronizer
    from tessarr.store import Store, StoreLike
    from tessarr.types import Missing, Present, ShapeLike, ZarrFormat

__all__ = ["Array", "bind_array"]

A = TypeVar("A", bound="Array")


class Array(ArrayMutation):
    """An array in a store, indexed like a NumPy array.

    `tessarr.open_array`, `tessarr.create_array` and groups return arrays; ``Array(store)`` opens an
    existing one.

    Parameters
    ----------
    store
        The store of the array, as for `tessarr.open`.
    path
        The path of the array in the store; by default the root.
    read_only
        Whether the array rejects changes.
    chunk_store
        The store of the chunks, if it differs from that of the metadata.
    synchronizer
        Locks for keys, held during writes: a `tessarr.ThreadSynchronizer`, a
        `tessarr.ProcessSynchronizer`, or any object whose ``[key]`` is a context manager.
    cache_metadata
        Whether the array caches its metadata until `refresh`. If False, every access reads it again
        (one request, or three in format 2), so that the array follows resizes by other programs.
    write_empty_chunks
        Whether chunks that hold only the fill value are stored; by default as in the options.
    missing
        The result of reading chunks that are not stored, as for `tessarr.create_array`.
    zarr_format
        The only format to look for.
    **settings
        ``config``, ``cache_attrs``, ``zarr_version``, ``meta_array`` and ``partial_decompress``,
        as for `tessarr.open_array`.

    Notes
    -----
    ``a[key]`` reads and ``a[key] = value`` writes, with NumPy's rules: integers, slices with any
    step, ``...``, ``None``, masks and integer arrays. Keys of records may have field names:
    ``a["x", :10]``. The result of a read is always a new array, never a view. All methods are
    thread-safe. A read touches only the chunks of the selection, and needs memory for the result
    and one chunk per thread.

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
        "_cache_metadata",
        "_chunk_cache_bytes",
        "_consolidated",
        "_meta",
        "_missing",
        "_path",
        "_present",
        "_read_only",
        "_small_reads",
        "_store",
        "_synchronizer",
        "_view_origin",
        "_write_empty_chunks",
    )

    __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)

    @with_keywords("tessarr.array.keyword_types")
    def __new__(  # noqa: PLR0917 (as in zarr-python)
        cls,
        store: StoreLike,
        path: str | None = None,
        read_only: bool = False,  # noqa: FBT002 (it has this place in zarr-python)
        chunk_store: StoreLike = None,
        synchronizer: Synchronizer | None = None,
        cache_metadata: bool = True,  # noqa: FBT002
        *,
        write_empty_chunks: bool | None = None,
        missing: Missing = "fill",
        zarr_format: ZarrFormat | None = None,
        **settings: Unpack[ConstructorSettings],
    ) -> Self:
        chunk_cache_bytes = None
        if settings:
            from tessarr.array.keywords import check_keywords, runtime_settings

            check_keywords(settings, cls.__name__, _OTHER_KEYWORDS)
            zarr_format = zarr_format or settings.get("zarr_version")
            runtime = runtime_settings(settings)
            cache_metadata = runtime.get("cache_metadata", cache_metadata)
            missing = runtime.get("missing", missing)
            if write_empty_chunks is None:
                write_empty_chunks = runtime.get("write_empty_chunks")
            chunk_cache_bytes = runtime.get("chunk_cache_bytes")
        mode = "r" if read_only else "r+"
        opened, node_path_ = open_store(store, mode)
        if chunk_store is not None:
            opened = split_store(opened, open_store(chunk_store, mode)[0])
        if path is not None:
            check_path(path)
        if path:
            node_path_ = normalize_path(join(node_path_, path.strip("/")), zarr_format)
        return bind_as(
            cls,
            run_flow(open_flow.open_array(node_path_, zarr_format=zarr_format), opened),
            opened,
            node_path_,
            read_only=read_only,
            write_empty_chunks=write_empty_chunks,
            synchronizer=synchronizer,
            cache_metadata=cache_metadata,
            missing=missing,
            chunk_cache_bytes=chunk_cache_bytes,
            present="document",
        )

    @classmethod
    @with_keywords("tessarr.array.keyword_types")
    def open(
        cls, store: StoreLike, path: str | None = None, **settings: Unpack[OpenExistingSettings]
    ) -> Self:
        """Open an existing array: the same as ``Array(store, path, …)``."""
        return cls(store, path, **settings)

    @classmethod
    def from_dict(cls, store_path: StoreLike, data: Mapping[str, Any]) -> Self:
        """Return the array that a metadata document describes, without I/O.

        Parameters
        ----------
        store_path
            The store of the array, as for `tessarr.open`, such as the `store_path` of a node.
        data
            The document ``zarr.json``, or the document ``.zarray`` with a member ``attributes``.

        Raises
        ------
        MetadataError
            If the document is not valid; ``.problems`` lists all problems.
        ArgumentError
            If the document does not describe an array.

        Examples
        --------
        >>> import json, tessarr
        >>> items = {}
        >>> a = tessarr.array([1, 2, 3], store=items)
        >>> tessarr.Array.from_dict(items, json.loads(items["zarr.json"]))[:]
        array([1, 2, 3])
        """
        from tessarr.metadata.from_user import read_user_metadata

        opened, node_path = open_store(store_path, "r+")
        meta = read_user_metadata(data, node_path)
        if not isinstance(meta, ArrayMeta):
            raise ArgumentError(f"no metadata of an array: {data!r}", path=node_path)
        return bind_as(
            cls,
            meta,
            opened,
            node_path,
            read_only=False,
            write_empty_chunks=None,
            synchronizer=None,
            cache_metadata=True,
        )

    @property
    def config(self) -> ArrayConfig:
        """The runtime settings, which are not stored."""
        from tessarr.array.keywords import ArrayConfig

        return ArrayConfig(
            self._write_empty_chunks,
            self._missing == "fill",
            chunk_cache_bytes=self._chunk_cache_bytes,
        )

    def with_config(self, config: ArrayConfig | Mapping[str, Any]) -> Self:
        """Return the same array with another `config`.

        Parameters
        ----------
        config
            A configuration, or some of its fields by name; those of zarr-python 3 work, too.

        Raises
        ------
        TypeError
            If a field is unknown.

        Examples
        --------
        >>> import tessarr
        >>> a = tessarr.zeros(4, chunks=2)
        >>> a.with_config({"write_empty_chunks": True})[:] = 0
        >>> a.nchunks_initialized
        2
        """
        from tessarr.array.keywords import config_settings

        runtime = config_settings(config)
        return bind_as(
            type(self),
            self._metadata,
            self._store,
            self._path,
            read_only=self._read_only,
            write_empty_chunks=runtime.get("write_empty_chunks", self._write_empty_chunks),
            missing=runtime.get("missing", self._missing),
            chunk_cache_bytes=runtime.get("chunk_cache_bytes", self._chunk_cache_bytes),
            synchronizer=self._synchronizer,
            cache_metadata=self._cache_metadata,
            present=self._present,
            viewed=self._view_origin,
        )

    @property
    def async_array(self) -> AsyncArray:
        """The same array with zarr-python 3's methods to ``await``."""
        from tessarr.array.async_array import AsyncArray

        return AsyncArray(self)

    # Views

    def view(  # noqa: PLR0917 (as in zarr-python)
        self,
        shape: ShapeLike | None = None,
        chunks: ChunksLike = None,
        dtype: DataTypeLike | None = None,
        fill_value: Any = None,
        filters: Sequence[CodecLike] | None = None,
        read_only: bool | None = None,
        synchronizer: Synchronizer | None = None,
    ) -> Self:
        """Return a view of the same stored chunks with another shape, data type or codecs.

        Parameters
        ----------
        shape, chunks
            The shape of the view, and its chunks, which must have as many bytes as the array's.
        dtype
            The data type of the decoded bytes.
        fill_value
            The value of elements that are not stored.
        filters
            The filters of the view, such as ``[]`` to read the stored bytes.
        read_only
            Whether the view rejects changes; by default that of the array.
        synchronizer
            As for `Array`; by default that of the array.

        Returns
        -------
        Array
            The view. A write to it writes to the array's chunks, with the view's filters and fill
            value. A view cannot be resized, and does not follow resizes of the array.

        Raises
        ------
        ArgumentError
            If the arguments are inconsistent.

        Notes
        -----
        The view does not check that the stored bytes are valid elements of its data type.

        Examples
        --------
        >>> import tessarr
        >>> a = tessarr.create_array(data=[1, 256, 3], dtype="u2", chunks=2)
        >>> a.view(shape=6, chunks=4, dtype="u1")[:]
        array([1, 0, 0, 1, 3, 0], dtype=uint8)
        """
        from tessarr.metadata.view import view_metadata

        changes: dict[str, Any] = {
            "shape": shape,
            "chunks": chunks,
            "dtype": dtype,
            "fill_value": fill_value,
            "filters": filters,
        }
        others = {"read_only": read_only, "synchronizer": synchronizer}
        return self._view("view", {**changes, **others}, view_metadata(self._metadata, **changes))

    def astype(self, dtype: DataTypeLike) -> Self:
        """Return a read-only view that casts elements when it reads them.

        Parameters
        ----------
        dtype
            The data type, as for NumPy's ``astype``.

        Raises
        ------
        UnsupportedError
            If one of the data types has elements of variable length, such as text.

        Notes
        -----
        The engine casts without the warnings of NumPy's ``astype``: a float outside the range of a
        smaller float type becomes infinite. A float outside the range of an integer type, such as
        NaN, has no defined result, as in NumPy. To get the warnings, cast the values that a read
        returns: ``array[:].astype(dtype)``.

        Examples
        --------
        >>> import tessarr
        >>> tessarr.create_array(data=[1e300, -2.5]).astype("f4")[:]
        array([ inf, -2.5], dtype=float32)
        >>> tessarr.create_array(data=[1.5, -2.5]).astype("i4")[:]
        array([ 1, -2], dtype=int32)
        """
        from tessarr.metadata.view import cast_metadata

        return self._view(
            "astype", {"dtype": dtype}, cast_metadata(self._metadata, dtype), read_only=True
        )

    def _create_small_reads(self) -> SmallReads:
        from tessarr.array.small_reads import SmallReads

        small_reads = self._small_reads = SmallReads(self._store)
        return small_reads

    def _view(
        self,
        method: str,
        arguments: dict[str, Any],
        meta: ArrayMeta,
        *,
        read_only: bool | None = None,
    ) -> Self:
        read_only_view = arguments.get("read_only", read_only)
        return bind_as(
            type(self),
            meta,
            self._store,
            self._path,
            read_only=self._read_only if read_only_view is None else read_only_view,
            write_empty_chunks=self._write_empty_chunks,
            missing=self._missing,
            chunk_cache_bytes=self._chunk_cache_bytes,
            synchronizer=arguments.get("synchronizer") or self._synchronizer,
            cache_metadata=True,
            present=self._present,
            viewed=(self, method, arguments),
        )

    def __repr__(self) -> str:
        from tessarr.node.info import format_array

        return format_array(self.name, self._meta)

    def _repr_html_(self) -> str:
        from tessarr.node.html import render_array

        return render_array(self.name, self._meta, self._store, read_only=self._read_only)

    def _ipython_key_completions_(self) -> list[str]:
        """Return the fields of records, for the completion of ``a["``."""
        return list(self._meta.data_type.numpy.names or ())

    def __reduce__(self) -> tuple[Any, ...]:
        if self._view_origin is not None:
            return type(self)._create_view, self._view_origin
        from tessarr.flow.create import dump_documents

        settings = {
            "read_only": self._read_only,
            "write_empty_chunks": self._write_empty_chunks,
            "missing": self._missing,
            "chunk_cache_bytes": self._chunk_cache_bytes,
            "synchronizer": self._synchronizer,
            "cache_metadata": self._cache_metadata,
            "present": self._present,
        }
        stored = dump_documents(self._meta), self._store, self._path, self._meta.is_v1
        return type(self)._unpickle, (*stored, settings)

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        from tessarr.array.token import compute_token

        return compute_token(self)

    @classmethod
    def _unpickle(
        cls,
        documents: dict[str, bytes],
        store: Store,
        path: str,
        is_v1: bool,
        settings: dict[str, Any],
    ) -> Self:
        meta = open_flow.parse_documents(documents, path)
        assert isinstance(meta, ArrayMeta)
        return bind_as(cls, replace(meta, is_v1=True) if is_v1 else meta, store, path, **settings)

    @classmethod
    def _create_view(cls, array: Array, method: str, arguments: dict[str, Any]) -> Array:
        view: Array = getattr(array, method)(**arguments)
        return view


def bind_as(
    cls: type[A],
    meta: ArrayMeta,
    store: Store,
    path: str,
    *,
    read_only: bool,
    write_empty_chunks: bool | None = None,
    synchronizer: Synchronizer | None = None,
    cache_metadata: bool = True,
    missing: Missing = "fill",
    chunk_cache_bytes: int | None = None,
    keeps_past: bool = False,
    present: Present | None = None,
    viewed: ViewOrigin | None = None,
) -> A:
    """Return the array that metadata describes, without I/O.

    Parameters
    ----------
    cls
        The class of the array.
    meta, store, path
        The metadata, the store and the path of the array.
    read_only
        Whether the array rejects changes.
    write_empty_chunks
        Whether chunks that hold only the fill value are stored; by default as in the options.
    synchronizer, cache_metadata
        As for `Array`.
    missing
        The result of reading chunks that are not stored: "fill", the fill value; "refuse_chunks",
        an error for a missing chunk; or "refuse", also an error for a subchunk that a shard lacks.
    chunk_cache_bytes
        The size of the array's own chunk cache; None: it shares the cache of the process.
    keeps_past
        Whether writes preserve elements beyond the shape in edge chunks, which other programs may
        have appended. With a synchronizer, writes always preserve them.
    present
        The file that must exist while the array is in use: its "document", or its "folder" if
        the metadata is a consolidated copy. None omits the check.
    viewed
        For a view: the base array, and the method and the arguments that created the view.
    """
    options = current()
    if meta.codecs.runs_code:
        check_pickles(meta, path)
    if write_empty_chunks is None:
        write_empty_chunks = options.write_empty_chunks
    if options.text != "auto" and meta.data_type.elements == "text":
        meta = use_text_type(meta, options.text)
    if meta.zarr_format == 2:
        meta = resolve_separator(meta, store)
    chunks, below = store, path
    if meta.storage_transformers:
        from tessarr.store.wrappers.transformer_adapter import get_chunk_store

        chunks, below = get_chunk_store(store, path, meta.storage_transformers)
    read_only = read_only or store.read_only or meta.is_v1
    description = describe_array(
        meta, write_empty_chunks, missing, casts=viewed is not None and read_only
    )
    prefix = open_flow.prefix_of(below)
    array = ArrayBase.__new__(cls, description, chunks, prefix, read_only, chunk_cache_bytes)
    array._meta = meta
    array._store = store
    array._path = path
    array._read_only = read_only
    array._write_empty_chunks = write_empty_chunks
    array._missing, array._chunk_cache_bytes = missing, chunk_cache_bytes
    array._synchronizer = synchronizer
    array._cache_metadata = cache_metadata
    array._view_origin = viewed
    array._consolidated = array._small_reads = None
    array._present = present
    if present is not None and not meta.storage_transformers:
        document = prefix + ("meta" if meta.is_v1 else _ARRAY_DOCUMENTS[meta.zarr_format])
        array._check_presence(
            path if present == "folder" else document,
            document,
            meta if viewed is None else _viewed_meta(viewed),
        )
    if synchronizer is not None:
        from tessarr.node.synchronizer import check_synchronizer

        check_synchronizer(synchronizer)
        array._disable_buffer()  # the locks are held only during a write
    if keeps_past or synchronizer is not None:
        array._keep_padding()
    if synchronizer is not None or not cache_metadata:
        array._configure(read_only, direct=False)
    return array


_ARRAY_DOCUMENTS: Final = {3: "zarr.json", 2: ".zarray"}
"""The document that marks an array, by format."""


def _viewed_meta(viewed: ViewOrigin) -> ArrayMeta:
    """Return the metadata of the stored array that a view is a view of."""
    array = viewed[0]
    while array._view_origin is not None:
        array = array._view_origin[0]
    meta: ArrayMeta = array._meta
    return meta


bind_array: Final = partial(bind_as, Array)
"""Return the `Array` that metadata describes, as `bind_as` does."""

_OTHER_KEYWORDS: Final = (
    "config",
    "cache_attrs",
    "zarr_version",
    "meta_array",
    "partial_decompress",
)
"""Further keywords of zarr-python's constructor."""


set_public_module("tessarr", Array)
