"""Resolve the user's store arguments to a store and a path in it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from tessarr._engine import Store
from tessarr.errors import ArgumentError, ExistsError
from tessarr.format.node_path import check_path, join, normalize_path
from tessarr.format.registry import Registry
from tessarr.format.validation import check_zarr_format
from tessarr.options import current
from tessarr.store.adapt import adapt_store, split_store
from tessarr.store.class_names import is_instance_of
from tessarr.store.local import LocalStore
from tessarr.store.memory import MemoryStore

if TYPE_CHECKING:
    from tessarr.store.protocol import FileSystemPath, StoreProtocol
    from tessarr.types import ZarrFormat

__all__ = [
    "FILE_SUFFIXES",
    "ICECHUNK_REMEDY",
    "Mode",
    "Opener",
    "StoreLike",
    "get_folder",
    "is_icechunk",
    "is_url",
    "locate_node",
    "open_store",
    "refuse_icechunk",
    "register_store",
]

StoreLike: TypeAlias = (
    "str | os.PathLike[str] | Store | Mapping[str, Any] | StoreProtocol | FileSystemPath | None"
)
"""The values that `open_store` accepts as a store."""

Mode: TypeAlias = Literal["r", "r+", "a", "w", "w-", "x"]
"""Modes of opening: see `tessarr.api.open`."""

Opener: TypeAlias = "Callable[..., Any]"
"""A function that opens a URL: see `register_store`."""

_MODES: Final = frozenset(("r", "r+", "a", "w", "w-", "x"))

_openers: Registry[Opener] = Registry("store", "tessarr.stores")

_FILE_SCHEMES: Final = frozenset({"sqlite", "zip"})
FILE_SUFFIXES: Final = (".zip", ".ozx", ".sqlite", ".sqlite3", ".db")
"""Suffixes of paths that may name a file rather than a folder."""

_ICECHUNK_FOLDERS: Final = ("refs", "transactions")
"""Folders of Icechunk repositories beside ``snapshots``: of version 1, and of version 2."""
ICECHUNK_REMEDY: Final = (
    "it looks like an Icechunk repository: open it with icechunk.Repository.open, and pass the "
    "store of a session"
)
"""The hint for a folder that `is_icechunk` recognizes."""

# A chained URL may begin with a bare scheme ("simplecache::s3://…") and may end with a path
# ("zip::data.zip"). Only known schemes may precede a path, because "a::b" is a folder.
_CHAINED_SCHEMES: Final = (
    "async_wrapper|blockcache|cached|dir|filecache|libarchive|reference|simplecache|sqlite|tar|zip"
)
_SCHEME: Final = re.compile(
    rf"((?i:{_CHAINED_SCHEMES})(?=::)|[A-Za-z][A-Za-z0-9+.-]*(?=://|::.*://))(?:://|::)"
)


def locate_node(
    store: StoreLike,
    mode: str,
    path: str | None,
    zarr_format: ZarrFormat | None = None,
    *,
    chunk_store: StoreLike = None,
    storage_options: Mapping[str, Any] | None = None,
) -> tuple[Store, str]:
    """Resolve a store argument and a path to a store and a path in it.

    Parameters
    ----------
    store, mode, path, zarr_format, chunk_store, storage_options
        As for `tessarr.open_array`.

    Raises
    ------
    ArgumentError
        If the mode, the format or the path is invalid.
    ExistsError
        If the mode creates a node and the folder is an Icechunk repository.

    Examples
    --------
    >>> locate_node("memory://scratch/a", "r", "b")
    (MemoryStore(name='scratch'), 'a/b')
    """
    if mode not in _MODES:
        raise ArgumentError(f"mode {mode!r} is not one of 'r', 'r+', 'a', 'w' and 'w-'")
    if zarr_format is not None:
        check_zarr_format(zarr_format)
    opened, path_in_store = open_store(store, mode, storage_options=storage_options)
    if mode in ("w", "w-", "x"):
        refuse_icechunk(opened)
    if chunk_store is not None:
        chunks, chunk_path = open_store(chunk_store, mode)
        if chunk_path:
            raise ArgumentError(f"chunk_store {chunk_store!r} names a path, which is {path!r}")
        opened = split_store(opened, chunks)
    if path is not None:
        check_path(path)
    if path:
        path_in_store = _join_path(opened, path_in_store, path.strip("/"))
    return opened, normalize_path(path_in_store, zarr_format) if path_in_store else ""


def is_icechunk(has_folder: Callable[[str], bool]) -> bool:
    """Return whether a folder is an Icechunk repository.

    Parameters
    ----------
    has_folder
        A function that returns whether the folder contains a folder with this name.

    Examples
    --------
    >>> is_icechunk({"snapshots", "transactions"}.__contains__)
    True
    """
    return has_folder("snapshots") and any(map(has_folder, _ICECHUNK_FOLDERS))


def refuse_icechunk(store: Store) -> None:
    """Raise an error if the store, where a node is to be created, is an Icechunk repository.

    Raises
    ------
    ExistsError
        If the folder of the store is a repository.
    """
    folder = get_folder(store)
    if folder is None:
        return
    if is_icechunk(lambda name: os.path.isdir(f"{folder}/{name}")):  # noqa: PTH112 (pathlib is slow)
        raise ExistsError(f"cannot create a node in {store!r}: {ICECHUNK_REMEDY}")


def _join_path(store: Store, base: str, path: str) -> str:
    """Join two paths; `path` may already begin with the root folder of a Zip file."""
    joined = join(base, path)
    folder = getattr(store, "root_folder", "")
    if not folder or base != folder or not f"{path}/".startswith(f"{folder}/"):
        return joined
    return joined if any(store.list_dir(f"{joined}/")) else path


def is_url(text: str) -> bool:
    """Return whether a string is a URL rather than a path.

    Examples
    --------
    >>> is_url("s3://bucket/x"), is_url("zip::/x.zip"), is_url("reference::refs.json")
    (True, True, True)
    >>> is_url("/a/b"), is_url("a::b"), is_url("./zip::x")
    (False, False, False)
    """
    return _SCHEME.match(text) is not None


def open_store(
    store: StoreLike, mode: str = "a", *, storage_options: Mapping[str, Any] | None = None
) -> tuple[Store, str]:
    """Resolve a store argument to a store and a path in it.

    The function performs no I/O, except for opening or creating a Zip file. An absent folder is an
    empty store.

    Parameters
    ----------
    store : str, os.PathLike, Store, mapping, object or None
        One of:

        - The path of a folder, of a Zip file, or of an SQLite database, with ``~`` for the home
          folder. The content or the suffix ``.zip`` or ``.ozx`` identifies a Zip file. The suffix
          ``.sqlite`` or ``.sqlite3``, or ``.db`` of an existing file, identifies a database.
        - A URL: ``file:///path`` (percent-encoded); ``memory://name`` or ``memory://name/path``
          (one store per name in the process); ``sqlite:///path/of/file``;
          ``zip:///path/of/file``, or ``zip://path/inside::file`` with a path inside.
        - A URL of an object store: ``s3://bucket/path``, ``gs://bucket/path``,
          ``az://container/path``, or ``https://host/path`` of a web server or of a cloud; or the
          URL of a Zip file there, for reading.
        - Any other URL of fsspec, also a chained one such as ``reference::refs.json`` and
          ``simplecache::s3://bucket/x``, or the URL of a Zip file for reading.
        - A ``upath.UPath``, an ``fsspec.FSMap``, a store, or a mapping of keys to bytes.
        - A ``zarr.abc.store.Store``, also of Icechunk or VirtualiZarr; an object store of obstore
          or with the methods of obspec.
        - An array or a group of Tessarr or zarr-python, or a ``StorePath``, for its location.
        - An object with the methods of `tessarr.store.protocol.StoreProtocol`.
        - None, for a new store in memory.
    mode : {"r", "r+", "a", "w", "w-"}, default "a"
        With ``"r"``, a store that this function creates refuses every change. The mode does not
        affect a `Store` argument.
    storage_options : mapping, optional
        Options of the object store, see `tessarr.stores.S3Store`, or arguments of fsspec's file
        system for the URL.

    Returns
    -------
    store : Store
    path : str
        The path of the node in the store; "" is the root.

    Raises
    ------
    UnsupportedError
        If the scheme of the URL is unknown.
    ArgumentError
        If the URL is malformed.
    TypeError
        If the object has another type, or does not support `storage_options`.

    Examples
    --------
    >>> open_store("memory://scratch/a/b")
    (MemoryStore(name='scratch'), 'a/b')
    >>> open_store("file:///data/my%20array", mode="r")
    (LocalStore('/data/my array', read_only=True), '')
    """
    read_only = mode == "r"
    options = storage_options or {}
    scheme = _SCHEME.match(store) if isinstance(store, str) else None
    if scheme is not None:
        return _open_url(cast("str", store), scheme[1].lower(), options, mode)
    if options:
        raise _build_options_error(store)
    if store is None:
        return MemoryStore(), ""
    if isinstance(store, Store):
        return store, ""
    if isinstance(store, (str, os.PathLike)):
        return _open_path(os.fspath(store), mode)
    location: tuple[Store, str] | None = getattr(store, "_place", None)
    if location is not None:  # the location of an array or a group
        return location
    path = ""
    if is_instance_of(store, "zarr"):
        from tessarr.store.zarr_python import get_zarr_python_location

        store, path = get_zarr_python_location(store)
    return adapt_store(store, read_only=read_only), path


def _open_url(url: str, scheme: str, options: Mapping[str, Any], mode: str) -> tuple[Store, str]:
    from urllib.parse import unquote, urlsplit

    if scheme in _FILE_SCHEMES:
        from tessarr.store import single_file

        opened = single_file.open_url(url, mode=mode, durable=current().durable)
        if opened is not None:
            if options:
                raise _build_options_error(url)
            return opened
    if scheme not in {"file", "memory"} or "::" in url:
        return _open_registered(url, scheme, options, read_only=mode == "r")
    if options:
        raise _build_options_error(url)
    parts = urlsplit(url)
    if parts.query or parts.fragment:
        raise ArgumentError(
            f"cannot open {url!r}: it has a query or a fragment; write '?' as %3F and '#' as %23"
        )
    path = unquote(parts.path, errors="surrogateescape")
    if scheme == "memory":
        if not parts.netloc:
            raise ArgumentError(f"cannot open {url!r}: it lacks a name, as in memory://name")
        name = unquote(parts.netloc)
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise ArgumentError(f"cannot open {url!r}: its name cannot be encoded") from error
        return MemoryStore(name=name), path.strip("/")
    if parts.netloc not in {"", "localhost"} or not path:
        raise ArgumentError(
            f"cannot open {url!r}: it names the host {parts.netloc!r}; "
            "the URL of a local file has three slashes, as in file:///path"
        )
    return _open_path(path, mode)


def _build_options_error(store: object) -> TypeError:
    return TypeError(f"storage_options are for URLs of other file systems, not for {store!r}")


def get_folder(store: Store) -> str | None:
    """Return the path of a `LocalStore`; None for other stores."""
    return store.path if isinstance(store, LocalStore) else None


def _open_registered(
    url: str, scheme: str, options: Mapping[str, Any], *, read_only: bool
) -> tuple[Store, str]:
    opener = _openers.find(scheme)
    if opener is None:
        from tessarr.store.object.urls import SCHEMES

        if scheme in SCHEMES and "::" not in url:
            from tessarr.store.object.open import open_object_url, open_object_zip

            opened_zip = open_object_zip(url, options)
            return opened_zip or (open_object_url(url, options, read_only=read_only), "")
        from tessarr.store.fsspec.store import open_url

        return open_url(url, options, read_only=read_only)
    if options:
        raise _build_options_error(url)
    result = opener(url, read_only=read_only)
    opened, path = result if isinstance(result, tuple) else (result, "")
    return adapt_store(opened, read_only=read_only), normalize_path(path)


def register_store(scheme: str) -> Callable[[Opener], Opener]:
    """Register a function that opens URLs with a scheme, as a decorator.

    Tessarr calls ``opener(url, read_only=…)``. The opener returns a store, a mapping of keys to
    bytes or an object with the methods of `StoreProtocol`. It may also return a tuple of such an
    object and a path. If ``read_only`` is true, a returned `Store` must refuse changes; Tessarr
    wraps other objects so that they refuse changes.

    Parameters
    ----------
    scheme : str
        The part of URLs before ``://``, in lower case.

    Examples
    --------
    >>> @register_store("example")
    ... def open_example(url, *, read_only):
    ...     return {}, url.removeprefix("example://")
    >>> open_store("example://a/b")
    (ForeignStore(<dict>), 'a/b')
    """

    def add(opener: Opener) -> Opener:
        _openers[scheme] = opener
        return opener

    return add


def _open_path(path: str, mode: str) -> tuple[Store, str]:
    if not path.isascii():
        from tessarr.store.paths import check_path as check_file_path

        check_file_path(path)
    durable = current().durable
    if path.startswith("~"):
        from tessarr.store.paths import expand_user

        path = str(expand_user(path))
    if path.lower().endswith(FILE_SUFFIXES) or os.path.isfile(path):  # noqa: PTH113 (slow)
        from tessarr.store import single_file

        opened = single_file.open_path(path, mode=mode, durable=durable)
        if opened is not None:
            return opened
    try:
        return LocalStore(path, read_only=mode == "r", durable=durable), ""
    except UnicodeEncodeError as error:
        raise ArgumentError(f"{path!a} is not the path of a folder: {error.reason}") from error
