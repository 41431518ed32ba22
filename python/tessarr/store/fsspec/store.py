"""`FsspecStore`: a store on any file system of fsspec."""

from __future__ import annotations

import os
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Literal, Self
from weakref import WeakValueDictionary

from tessarr._engine import ForeignStore, LocalStore
from tessarr.errors import ArgumentError, NotFoundError, TessarrError, UnsupportedError
from tessarr.format.hints import did_you_mean, scheme_hint
from tessarr.format.registry import set_public_module
from tessarr.store.class_names import is_instance_of
from tessarr.store.fsspec.client_errors import build_store_error, find_hidden_failure
from tessarr.store.fsspec.files import Files, FileSettings, get_protocols
from tessarr.store.object.urls import hide_query
from tessarr.store.repr_mixin import DescribedStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["FSStore", "FsspecStore", "adapt_fsspec", "open_url"]

_MISSING_ERRORS: Final = (FileNotFoundError, IsADirectoryError, NotADirectoryError)
_READ_ONLY_SCHEMES: Final = frozenset(
    {"http", "https", "zip", "tar", "libarchive", "github", "data"}
)
_open_files: WeakValueDictionary[tuple[object, ...], Files] = WeakValueDictionary()
_open_files_lock: Final = Lock()
if hasattr(os, "register_at_fork"):  # a child must not inherit a held lock
    os.register_at_fork(
        before=_open_files_lock.acquire,
        after_in_parent=_open_files_lock.release,
        after_in_child=_open_files_lock.release,
    )


class FsspecStore(DescribedStore):
    """A store in a folder of a file system of fsspec.

    Parameters
    ----------
    fs : fsspec.AbstractFileSystem
        The file system, synchronous or not.
    path : str, default ""
        The folder in the file system, such as a bucket and a prefix.
    read_only : bool, default False
        Refuse every change. Web servers and archives are always read-only.
    allowed_exceptions : tuple of exception classes, optional
        The exceptions that mean an absent key; by default those for a missing file. Add
        `PermissionError` for servers that report absent files as forbidden.
    missing_status : tuple of int, default (404,)
        The HTTP status codes that mean an absent key, such as ``(403, 404)``. You can also pass
        it in the ``storage_options`` of a URL. Other statuses raise an error.
    concurrency : int, default 16
        The number of chunks that are fetched or stored concurrently. An operation holds this
        number of chunks in memory, and a few more that wait for decoding.

    Notes
    -----
    Requests go through fsspec and its client libraries, which takes several times the processor
    time of `S3Store`, `GCSStore`, `AzureStore` and `HTTPStore`.

    Writes are as atomic as those of the file system: object stores and memory replace a value in
    one step. fsspec has no conditional requests. Concurrent writers of parts of one chunk, and
    calls that resize or append to an array, lose no change in the threads of one process. Several
    processes can lose changes: give each process its own chunks, or use the classes of object
    stores. A shard that is replaced during a read of its parts can give an error or parts of both
    states. On the local file system the store has the guarantees of `LocalStore`. Listings do not
    come from fsspec's cache.

    Errors of the file system or its client library become a `StoreError` with the URL, `key` and
    `retryable`; the original error is its cause.

    Examples
    --------
    >>> from fsspec.implementations.memory import MemoryFileSystem
    >>> store = FsspecStore(MemoryFileSystem(), "/example")
    >>> store.put("a/b", b"1")
    >>> store.list(), store
    (['a/b'], FsspecStore('memory:///example'))
    """

    _files: Files | None
    """The files of a file system that is not local."""
    _text: str
    _user_store: object

    def __new__(
        cls,
        fs: Any,
        path: str = "",
        *,
        read_only: bool = False,
        allowed_exceptions: tuple[type[Exception], ...] | None = None,
        missing_status: Iterable[int] = (404,),
        concurrency: int = 16,
    ) -> Self:
        absent_statuses = _check_statuses(missing_status)
        arguments = {
            "fs": fs,
            "path": path,
            "read_only": read_only,
            "allowed_exceptions": allowed_exceptions,
            "missing_status": absent_statuses,
            "concurrency": concurrency,
        }
        settings = FileSettings(allowed_exceptions or _MISSING_ERRORS, absent_statuses, concurrency)
        return cls._build_over(fs, path, arguments, settings, read_only=read_only)

    @classmethod
    def _build_over(
        cls,
        fs: Any,
        path: str,
        arguments: dict[str, Any],
        settings: FileSettings,
        *,
        read_only: bool,
    ) -> Self:
        fs, path = _unwrap_filesystem(fs, path)
        schemes = get_protocols(fs)
        is_fixed = read_only or bool(schemes & _READ_ONLY_SCHEMES)
        files: Files | None = None
        if schemes & {"file", "local"}:
            store = cls._build(arguments, LocalStore(path or "/", read_only=is_fixed))
        else:
            files = _get_shared_files(fs, path, settings)
            store = cls._build(arguments, ForeignStore(files, read_only=is_fixed))
        store._files = files
        suffix = ", read_only=True" if read_only else ""
        store._text = f"{cls.__name__}({hide_query(fs.unstrip_protocol(path))!r}{suffix})"
        return store

    @classmethod
    def from_url(
        cls,
        url: str,
        storage_options: Mapping[str, Any] | None = None,
        *,
        read_only: bool = False,
        **settings: Any,
    ) -> Self:
        """Create the store of a URL, which may be a chained one.

        Parameters
        ----------
        url : str
            A URL for `fsspec.core.url_to_fs`: ``s3://bucket/path``,
            ``simplecache::https://host/path``.
        storage_options : mapping, optional
            Arguments of the file system.
        read_only, **settings
            As for the class.

        Raises
        ------
        UnsupportedError
            If the scheme is unknown, or needs a package that is missing.

        Examples
        --------
        >>> FsspecStore.from_url("memory://example/x")
        FsspecStore('memory:///example/x')
        """
        fs, path = _open_filesystem(url, storage_options or {})
        return cls(fs, path, read_only=read_only, **settings)

    @classmethod
    def from_upath(cls, upath: Any, **settings: Any) -> Self:
        """Create the store of a ``upath.UPath``; settings are those of the class."""
        return cls(upath.fs, upath.path, **settings)

    @classmethod
    def from_mapper(cls, fs_map: Any, **settings: Any) -> Self:
        """Create the store of an ``fsspec.FSMap``; settings are those of the class."""
        return cls(fs_map.fs, fs_map.root, **settings)

    @property
    def fs(self) -> Any:
        """The file system that the user passed."""
        return self._arguments["fs"]

    @property
    def path(self) -> str:
        """The folder in the file system."""
        path: str = self._arguments["path"]
        return path

    def __repr__(self) -> str:
        return self._text


class FSStore(FsspecStore):
    """A store on a file system of fsspec, with zarr-python 2's name and arguments.

    Parameters
    ----------
    url : str
        A URL, or a path in `fs`.
    normalize_keys : bool, default False
        Only False is supported: the store does not change keys.
    key_separator, dimension_separator : {".", "/"}, optional
        The default separator in chunk keys of new arrays of format 2.
    mode : str, default "w"
        "r" refuses every change; other modes allow changes and delete nothing.
    missing_exceptions, exceptions : tuple of exception classes, optional
        The exceptions that mean an absent key.
    fs : fsspec.AbstractFileSystem, optional
        The file system; by default that of the URL.
    check, create
        Without effect.
    **storage_options
        Arguments of the file system of the URL.

    Examples
    --------
    >>> FSStore("memory://example/y", mode="r")
    FSStore('memory:///example/y', read_only=True)
    """

    def __new__(
        cls,
        url: str,
        *,
        normalize_keys: bool = False,
        key_separator: Literal[".", "/"] | None = None,
        mode: str = "w",
        exceptions: tuple[type[Exception], ...] | None = None,
        dimension_separator: Literal[".", "/"] | None = None,
        fs: Any = None,
        check: bool = False,
        create: bool = False,
        missing_exceptions: tuple[type[Exception], ...] | None = None,
        **storage_options: Any,
    ) -> Self:
        del check, create
        if normalize_keys:
            raise ArgumentError("normalize_keys is not supported: the store does not change keys")
        separator = dimension_separator or key_separator
        if separator not in {None, ".", "/"}:
            raise ArgumentError(f"dimension_separator must be '.' or '/', not {separator!r}")
        if fs is None:
            fs, path = _open_filesystem(url, storage_options)
        elif storage_options:
            name = next(iter(storage_options))
            raise TypeError(f"FSStore() takes no {name!r} where a file system is given")
        else:
            path = url
        arguments = {
            "url": path,
            "fs": fs,
            "mode": mode,
            "dimension_separator": separator,
            "missing_exceptions": missing_exceptions or exceptions,
        }
        settings = FileSettings(missing_exceptions or exceptions or _MISSING_ERRORS)
        return cls._build_over(fs, path, arguments, settings, read_only=mode == "r")

    @property
    def path(self) -> str:
        """The folder in the file system."""
        path: str = self._arguments["url"]
        return path

    @property
    def dimension_separator(self) -> Any:
        """The separator in chunk keys of new arrays, or None."""
        return self._arguments["dimension_separator"]


def open_url(
    url: str, storage_options: Mapping[str, Any], *, read_only: bool
) -> tuple[FsspecStore, str]:
    """Return the store of a URL and the path in it; open a Zip file as a store."""
    from tessarr.store.single_file import ZIP_SUFFIXES

    storage_options = dict(storage_options)
    ours = {k: storage_options.pop(k) for k in ("missing_status",) if k in storage_options}
    if "::" in url or not url.lower().endswith(ZIP_SUFFIXES):
        return FsspecStore.from_url(url, storage_options, read_only=read_only, **ours), ""
    from tessarr.store.zip import find_only_folder

    options = {url.partition("://")[0]: storage_options} if storage_options else {}
    store = FsspecStore.from_url(f"zip::{url}", options, read_only=read_only, **ours)
    return store, find_only_folder(store)


def _check_statuses(missing_status: Iterable[int]) -> tuple[int, ...]:
    statuses = tuple(missing_status)
    if not all(type(status) is int and 400 <= status < 500 for status in statuses):
        raise ArgumentError(f"missing_status {statuses!r} are not status codes from 400 to 499")
    return tuple(sorted({404, *statuses}))


def adapt_fsspec(store: Any, *, read_only: bool) -> FsspecStore | None:
    """Return the store of an ``fsspec.FSMap`` or a ``upath.UPath``; None for other objects."""
    if is_instance_of(store, "fsspec.mapping"):
        adapted = FsspecStore.from_mapper(store, read_only=read_only)
    elif is_instance_of(store, "upath"):
        adapted = FsspecStore.from_upath(store, read_only=read_only)
    else:
        return None
    adapted._user_store = store
    return adapted


def _suggest_scheme(scheme: str) -> str:
    """Return a hint with schemes similar to an unknown one."""
    import fsspec

    return did_you_mean(scheme, [*fsspec.available_protocols(), "sqlite"])


def _open_filesystem(url: str, storage_options: Mapping[str, Any]) -> tuple[Any, str]:
    scheme = url.rsplit("::", maxsplit=1)[-1].split("://", maxsplit=1)[0].lower()
    shown = hide_query(url)
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise UnsupportedError(
            f"cannot open {shown!r}: URLs with the scheme {scheme!r} need the package fsspec"
            f"{scheme_hint(scheme)}",
            kind="missing_package",
            extension=scheme,
        ) from error
    try:
        fs, path = url_to_fs(url, **storage_options)
    except Exception as error:
        raised = _build_opening_error(error, shown, scheme)
        if raised is error:
            raise
        raise raised from error
    return fs, path


def _build_opening_error(error: Exception, url: str, scheme: str) -> Exception:
    """Return the error to raise if fsspec cannot open a URL."""
    if isinstance(error, ImportError):
        return UnsupportedError(
            f"cannot open {url!r}: {error}{scheme_hint(scheme)}",
            kind="missing_package",
            extension=scheme,
        )
    hidden = find_hidden_failure(error)
    if isinstance(hidden, Exception):
        return build_store_error(hidden, "open", repr(url))
    if isinstance(error, FileNotFoundError):  # the target of a chained file system must exist
        return NotFoundError(f"cannot open {url!r}: {error}")
    if not isinstance(error, ValueError) or isinstance(error, TessarrError):
        return build_store_error(error, "open", repr(url))
    if "protocol" not in str(error).lower():
        return ArgumentError(f"cannot open {url!r}: {error}")
    return UnsupportedError(
        f"cannot open {url!r}: stores with the scheme {scheme!r} are not supported: neither "
        f"Tessarr nor fsspec nor an installed package knows it{_suggest_scheme(scheme)}",
        extension=scheme,
    )


def _unwrap_filesystem(fs: Any, path: str) -> tuple[Any, str]:
    """Return the synchronous file system below wrappers that only rename paths."""
    while True:
        if is_instance_of(fs, "fsspec.implementations.dirfs"):
            path = "/".join(part for part in (fs.path.rstrip("/"), path.strip("/")) if part)
            fs = fs.fs
        elif is_instance_of(fs, "fsspec.implementations.asyn_wrapper"):
            fs = fs.sync_fs
        else:
            break
    if getattr(fs, "asynchronous", False):
        fs = type(fs)(*fs.storage_args, **{**fs.storage_options, "asynchronous": False})
    if not callable(getattr(fs, "cat_file", None)):
        raise TypeError(f"{type(fs).__qualname__} is no file system of fsspec")
    return fs, str(fs.get_mapper(path).root).rstrip("/")


def _get_shared_files(fs: Any, root: str, settings: FileSettings) -> Files:
    """Return the shared object for a location; its users share its locks.

    fsspec itself returns one file system for equal arguments, unless the class forbids it.
    """
    file_system: tuple[object, ...] = (id(fs),)  # while it is open, no other has its id
    if is_shareable := getattr(fs, "cachable", False):
        arguments = repr(fs.storage_args), repr(sorted(fs.storage_options.items()))
        file_system = type(fs), *arguments
    location = *file_system, root, settings
    with _open_files_lock:
        files = _open_files.get(location)
        if files is None:
            files = _open_files[location] = Files(fs, root, settings)
            files._location = f"{file_system!r}:{root.rstrip('/')}"
            if is_shareable:
                files.identity = repr(location)
    return files


set_public_module("tessarr.stores", FsspecStore, FSStore)
