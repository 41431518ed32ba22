"""From what a user gives as a store to the store and a path in it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tessarr._engine import Store
from tessarr.errors import ArgumentError, UnsupportedError
from tessarr.keys import node_path
from tessarr.options import current
from tessarr.registry import Registry
from tessarr.store.given import adapt
from tessarr.store.mapping import LocalStore, MemoryStore

if TYPE_CHECKING:
    from tessarr.store.protocol import StoreProtocol

__all__ = ["Opener", "StoreLike", "is_file", "open_store", "register_store"]

StoreLike: TypeAlias = "str | os.PathLike[str] | Store | Mapping[str, Any] | StoreProtocol | None"
"""What is understood as a store: see `open_store`."""

Opener: TypeAlias = "Callable[..., Any]"
"""Opens a URL: see `register_store`."""

_openers: Registry[Opener] = Registry("store", "tessarr.stores")

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def open_store(store: StoreLike, mode: str = "a") -> tuple[Store, str]:
    """Find the store that is meant, and the path in it.

    Nothing is read or created: a folder that does not exist is an empty store.

    Parameters
    ----------
    store : str, os.PathLike, Store, mapping, object or None
        A path of a folder; ``file:///path`` (percent-encoded); ``memory://name`` or
        ``memory://name/path`` (one store per name in the process); a store; a
        mapping of keys to bytes; an object with the methods of
        `tessarr.store.protocol.StoreProtocol`; None for a new store in memory.
    mode : {"r", "r+", "a", "w", "w-"}, default "a"
        With ``"r"`` the store that is made here refuses every change. A store that is
        given stays as it is.

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
        The object is nothing of the above.

    Examples
    --------
    >>> open_store("memory://scratch/a/b")
    (MemoryStore(name='scratch'), 'a/b')
    >>> open_store("file:///data/my%20array", mode="r")
    (LocalStore('/data/my array', read_only=True), '')
    """
    read_only = mode == "r"
    if store is None:
        return MemoryStore(), ""
    if isinstance(store, Store):
        return store, ""
    if isinstance(store, str):
        scheme = _SCHEME.match(store)
        if scheme is not None:
            return _open_url(store, scheme[1].lower(), read_only=read_only)
        return _folder(store, read_only=read_only), ""
    if isinstance(store, os.PathLike):
        return _folder(os.fspath(store), read_only=read_only), ""
    return adapt(store, read_only=read_only), ""


def _open_url(url: str, scheme: str, *, read_only: bool) -> tuple[Store, str]:
    from urllib.parse import unquote, urlsplit

    if scheme not in {"file", "memory"}:
        return _open_registered(url, scheme, read_only=read_only)
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
    return _folder(path, read_only=read_only), ""


def is_file(store: Store) -> bool:
    """Return whether a file stands where the folder of a store should be."""
    from pathlib import Path

    return isinstance(store, LocalStore) and Path(store.path).is_file()


def _open_registered(url: str, scheme: str, *, read_only: bool) -> tuple[Store, str]:
    opener = _openers.find(scheme)
    if opener is None:
        raise UnsupportedError(
            f"cannot open {url!r}: stores with the scheme {scheme!r} are not supported; "
            "known are paths, file:// and memory://, and what packages register",
            extension=scheme,
        )
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


def _folder(path: str, *, read_only: bool) -> LocalStore:
    return LocalStore(path, read_only=read_only, durable=current().durable)
