"""`serve`: a store as plain Zarr over HTTP, from a thread of this process."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from tessarr._engine import as_bool
from tessarr._safe_repr import safe_repr
from tessarr.api.open import open as open_node
from tessarr.errors import ArgumentError, NotFoundError, StoreError, TessarrError
from tessarr.format.registry import set_public_module
from tessarr.store.resolve import get_folder, locate_node
from tessarr.store.wrappers.wrapper import PrefixStore
from tessarr.web.server import Server, check_packages, check_texts
from tessarr.web.store.links import VIEWER_ORIGINS, build_links, find_note
from tessarr.web.store.site import build_store_site

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

    from tessarr.array import Array
    from tessarr.group import Group
    from tessarr.store import Store
    from tessarr.store.resolve import StoreLike

__all__ = ["StoreServer", "serve"]

_ORIGIN: Final = re.compile(r"\*|https?://[^/?#\s]+")


class StoreServer:
    """A store that a thread of this process serves over HTTP.

    `serve` returns it. The server ends with the process, with `close`, or with the ``with`` block.
    """

    __slots__ = ("_links", "_note", "_server", "_url")

    def __init__(self, server: Server, url: str, links: Mapping[str, str], note: str) -> None:
        self._server = server
        self._url = url
        self._links = dict(links)
        self._note = note

    @property
    def url(self) -> str:
        """The address of the root of the store; it ends in "/"."""
        return self._url

    @property
    def links(self) -> dict[str, str]:
        """Addresses and code that open the store, by the name of the program."""
        return dict(self._links)

    @property
    def note(self) -> str:
        """Why programs cannot open the root or list its members, and a remedy; otherwise ""."""
        return self._note

    def wait(self) -> None:
        """Wait until another thread closes the server, or until Ctrl-C."""
        self._server.wait()

    def close(self) -> None:
        """Close all connections and the port."""
        self._server.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"StoreServer({self._url!r})"


def serve(
    store: StoreLike,
    *,
    path: str | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    token: bool = True,
    cors: Iterable[str] | None = None,
    listing: bool = False,
    allow_hosts: Iterable[str] = (),
    storage_options: Mapping[str, Any] | None = None,
) -> StoreServer:
    """Serve a store as plain Zarr over HTTP, read-only, for other programs and for browsers.

    Parameters
    ----------
    store : StoreLike
        The store, the array or the group, as for `tessarr.open`.
    path : str, optional
        A path in the store. No request reads keys outside of it; symbolic links are followed.
    host : str, default "127.0.0.1"
        The address to listen on. By default only this machine can connect.
    port : int, default 0
        The port; 0 means any free port.
    token : bool, default True
        Whether the address contains a random secret.
    cors : iterable of str, optional
        The origins of web pages that may read the store, such as ``"https://example.org"``; ``"*"``
        means all. By default the viewers in `StoreServer.links`, or none without a token.
    listing : bool, default False
        Whether paths that end in "/" have pages with their keys.
    allow_hosts : iterable of str, optional
        Further names of the server, such as that of a proxy. The server refuses requests for other
        names than these and its own.
    storage_options : mapping, optional
        As for `tessarr.open`.

    Returns
    -------
    StoreServer
        A context manager with the attribute ``url``.

    Raises
    ------
    NotFoundError
        If the folder is absent.
    ArgumentError
        If the address cannot be bound, or an argument is invalid.
    UnsupportedError
        If starlette or uvicorn is missing: ``pip install "tessarr[view]"``.

    Notes
    -----
    A request for a byte range reads only these bytes from the store, and large values are sent in
    blocks. Up to ``store.concurrency`` requests (at least 16) use the store concurrently.

    Examples
    --------
    >>> import tessarr
    >>> a = tessarr.create_array(None, shape=(3,), dtype="u1", fill_value=7)
    >>> with tessarr.serve(a) as server:
    ...     tessarr.open(server.url)[:]
    array([7, 7, 7], dtype=uint8)
    """
    check_packages()
    token, listing = as_bool(token, "token"), as_bool(listing, "listing")
    chosen: Iterable[str] = VIEWER_ORIGINS if token else ()
    if cors is not None:
        chosen = check_texts("cors", cors, "https://example.org")
    origins = [_normalize_origin(origin) for origin in chosen]
    root = _open_root(store, path, storage_options)
    node = _find_node(root)
    server = Server(host, port, allow_hosts)
    site = build_store_site(root, listing=listing, origins=origins)
    url = server.add(site, None if token else "", origins)
    server.start()
    links = build_links(url, node, listing=listing)
    return StoreServer(server, url, links, find_note(node, listing=listing))


def _normalize_origin(text: str) -> str:
    """Return an origin as browsers send it."""
    origin = text.rstrip("/").lower()
    if _ORIGIN.fullmatch(origin) is None:
        message = f'{safe_repr(text)} is not an origin: use "*", or a scheme and a host as in '
        raise ArgumentError(f'{message}"https://example.org"')
    return origin


def _open_root(
    store: StoreLike, path: str | None, storage_options: Mapping[str, Any] | None
) -> Store:
    """Return a store whose root is a path in the store."""
    opened, prefix = locate_node(store, "r", path, storage_options=storage_options)
    folder = get_folder(opened)
    location = None if folder is None else Path(folder, prefix)
    if location is not None and not location.is_dir():
        reason = (
            "it is a file, and neither a Zip file nor a database"
            if location.is_file()
            else "there is no such folder"
        )
        message = f"cannot serve {str(location)!r}: {reason}"
        raise NotFoundError(message, kind="node_not_found", path=prefix)
    return PrefixStore(opened, prefix) if prefix else opened


def _find_node(store: Store) -> Array | Group | None:
    """Return the node at the root; None if it is absent or unreadable.

    Raises
    ------
    StoreError
        If the store fails: a wrong name of a bucket is reported early.
    """
    try:
        return open_node(store, "r")
    except StoreError:
        raise
    except TessarrError:
        return None


set_public_module("tessarr", StoreServer)
