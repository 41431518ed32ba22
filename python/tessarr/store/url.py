"""From what a user gives as a store to the store and a path in it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from tessarr._engine import Store
from tessarr.errors import ArgumentError
from tessarr.keys import node_path
from tessarr.options import current
from tessarr.registry import Registry
from tessarr.store.given import adapt
from tessarr.store.mapping import LocalStore, MemoryStore

if TYPE_CHECKING:
    from tessarr.store.protocol import FileSystemPath, StoreProtocol

__all__ = ["Opener", "StoreLike", "file_in", "is_file", "open_store", "register_store"]

StoreLike: TypeAlias = (
    "str | os.PathLike[str] | Store | Mapping[str, Any] | StoreProtocol | FileSystemPath | None"
)
"""What is understood as a store: see `open_store`."""

Opener: TypeAlias = "Callable[..., Any]"
"""Opens a URL: see `register_store`."""

_openers: Registry[Opener] = Registry("store", "tessarr.stores")

# Also chained URLs, whose first part may have nothing behind the scheme: "simplecache::s3://…".
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)(?:://|::(?=.*://))")


def open_store(
    store: StoreLike, mode: str = "a", *, storage_options: Mapping[str, Any] | None = None
) -> tuple[Store, str]:
    """Find the store that is meant, and the path in it.

    Nothing is read or created: a folder that does not exist is an empty store. Only a Zip
    file is opened, and created, at once.

    Parameters
    ----------
    store : str, os.PathLike, Store, mapping, object or None
        A path of a folder, or of a Zip file if it ends in ``.zip``; ``file:///path``
        (percent-encoded); ``memory://name`` or
        ``memory://name/path`` (one store per name in the process); ``sqlite:///path/of/file``;
        any other URL that fsspec knows, also a chained one; a ``upath.UPath``; an
        ``fsspec.FSMap``; a store; an array or a group, for where it is; a mapping of keys
        to bytes; an object with the methods of `tessarr.store.protocol.StoreProtocol`; None
        for a new store in memory.
    mode : {"r", "r+", "a", "w", "w-"}, default "a"
        With ``"r"`` the store that is made here refuses every change. A store that is
        given stays as it is.
    storage_options : mapping, optional
        Arguments of the file system of a URL, as fsspec takes them.

    Returns
    -------
    store : Store
    path : str
        The path of the node in the store; "" is the root.

    Raises
    ------
    UnsupportedError
        The scheme of the URL is not known.
    ArgumentError
        The URL is malformed.
    TypeError
        The object is nothing of the above, or takes no options.

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
        raise TypeError(f"storage_options are for URLs of other file systems, not for {store!r}")
    if store is None:
        return MemoryStore(), ""
    if isinstance(store, Store):
        return store, ""
    if isinstance(store, (str, os.PathLike)):
        return _at_path(os.fspath(store), mode)
    place: tuple[Store, str] | None = getattr(store, "_place", None)
    if place is not None:  # of an array or a group
        return place
    return adapt(store, read_only=read_only), ""


def _open_url(url: str, scheme: str, options: Mapping[str, Any], mode: str) -> tuple[Store, str]:
    from urllib.parse import unquote, urlsplit

    if scheme not in {"file", "memory"} or "::" in url:
        return _open_registered(url, scheme, options, read_only=mode == "r")
    if options:
        raise TypeError(f"storage_options are for URLs of other file systems, not for {url!r}")
    parts = urlsplit(url)
    if parts.query or parts.fragment:
        raise ArgumentError(
            f"cannot open {url!r}: it has a query or a fragment; write '?' as %3F and '#' as %23"
        )
    path = unquote(parts.path, errors="surrogateescape")
    if scheme == "memory":
        if not parts.netloc:
            raise ArgumentError(f"cannot open {url!r}: it lacks a name, as in memory://name")
        return MemoryStore(name=unquote(parts.netloc)), path.strip("/")
    if parts.netloc not in {"", "localhost"} or not path:
        raise ArgumentError(
            f"cannot open {url!r}: it names the host {parts.netloc!r}; "
            "the URL of a local file has three slashes, as in file:///path"
        )
    return _at_path(path, mode)


def is_file(store: Store) -> bool:
    """Return whether a file stands where the folder of a store should be."""
    from pathlib import Path

    return isinstance(store, LocalStore) and Path(store.path).is_file()


def _open_registered(
    url: str, scheme: str, options: Mapping[str, Any], *, read_only: bool
) -> tuple[Store, str]:
    opener = _openers.find(scheme)
    if opener is None:
        from tessarr.store.fsspec import FsspecStore

        return FsspecStore.from_url(url, options, read_only=read_only), ""
    if options:
        raise TypeError(f"storage_options are for URLs of other file systems, not for {url!r}")
    found = opener(url, read_only=read_only)
    opened, path = found if isinstance(found, tuple) else (found, "")
    return adapt(opened, read_only=read_only), node_path(path)


def register_store(scheme: str) -> Callable[[Opener], Opener]:
    """Register a function that opens URLs of a scheme; a decorator.

    It is called as ``opener(url, read_only=…)`` and returns a store, a mapping of keys to
    bytes or an object with the methods of `StoreProtocol`; or a tuple of that and the
    path of the node in it. With ``read_only`` it has to refuse changes, if it returns a
    `Store`; all else is made to.

    Parameters
    ----------
    scheme : str
        What URLs begin with, before ``://``: in lower case.

    Examples
    --------
    >>> @register_store("example")
    ... def open_example(url, *, read_only):
    ...     return {}, url.removeprefix("example://")
    >>> open_store("example://a/b")
    (ForeignStore(<dict>), 'a/b')
    """

    def add(opener: Opener) -> Opener:
        _openers.add(scheme, opener)
        return opener

    return add


def _at_path(path: str, mode: str) -> tuple[Store, str]:
    durable = current().durable
    if path.lower().endswith(".zip"):
        from tessarr.store.zip import is_zip, open_zip

        if is_zip(path):
            return open_zip(path, mode=mode, durable=durable)
    return LocalStore(path, read_only=mode == "r", durable=durable), ""


def file_in(url: str) -> tuple[str, str]:
    """Return the file that a URL of a store in a file names, and the path in it.

    Parameters
    ----------
    url : str
        ``scheme:///path/of/file``, ``scheme://relative/file``, or with a path inside
        ``scheme://path/inside::file`` where ``file`` is a path or a file URL.

    Examples
    --------
    >>> file_in("sqlite:///data/x.db"), file_in("sqlite://a/b::file:///data/x.db")
    (('/data/x.db', ''), ('/data/x.db', 'a/b'))
    """
    from urllib.parse import unquote

    inside, _, file = url.partition("::")
    first = unquote(inside.partition("://")[2], errors="surrogateescape")
    if not file:
        return first, ""
    scheme = _SCHEME.match(file)
    if scheme is None:
        return file, first
    if scheme[1].lower() != "file" or "::" in file:
        raise ArgumentError(f"cannot open {url!r}: {file!r} is no file of this machine")
    store, _ = open_store(file)
    return cast("LocalStore", store).path, first


@register_store("sqlite")
def _open_sqlite(url: str, *, read_only: bool) -> tuple[Store, str]:
    from tessarr.store.sqlite import SQLiteStore

    file, path = file_in(url)
    return SQLiteStore(file, read_only=read_only), path


@register_store("zip")
def _open_zip(url: str, *, read_only: bool) -> tuple[Store, str]:
    _, _, place = url.partition("::")
    if "://" in place and not place.startswith("file://"):
        from tessarr.store.fsspec import FsspecStore

        return FsspecStore.from_url(url, read_only=read_only), ""
    from tessarr.store.zip import open_zip

    file, path = file_in(url)
    store, folder = open_zip(file, mode="r" if read_only else "a", durable=current().durable)
    return store, "/".join(part for part in (folder, path) if part)
