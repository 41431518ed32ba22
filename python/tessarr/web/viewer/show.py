"""The viewer in a notebook: a frame with the page, from a server in this process."""

from __future__ import annotations

import os
from html import escape
from secrets import token_urlsafe
from threading import Lock
from typing import TYPE_CHECKING, Final

from tessarr._safe_repr import safe_repr
from tessarr.errors import ArgumentError
from tessarr.web.server import Server
from tessarr.web.viewer.site import build_viewer

if TYPE_CHECKING:
    from tessarr.array import Array
    from tessarr.group import Group

__all__ = ["ViewerFrame", "show"]

_MAX_NODES: Final = 64
"""The number of nodes with an address, which their frames keep alive."""

_lock = Lock()
_servers: dict[int, _NodeServer] = {}
"""The server of this process, by process number: a forked process has no thread for it."""


class ViewerFrame:
    """A page of the viewer, which notebooks show inline.

    Parameters
    ----------
    url
        The address of the page, which works until the process ends or has shown 64 other nodes.
    height
        The height of the frame in pixels.
    """

    __slots__ = ("height", "url")

    def __init__(self, url: str, height: int) -> None:
        self.url = url
        self.height = height

    def __repr__(self) -> str:
        return f"ViewerFrame({self.url!r})"

    def _repr_html_(self) -> str:
        style = f"width: 100%; height: {self.height:d}px; border: 1px solid #d5dbe1"
        return f'<iframe src="{escape(self.url)}" style="{style}" title="Tessarr viewer"></iframe>'


class _NodeServer:
    """A server with an address for each of the nodes that were shown last."""

    def __init__(self) -> None:
        self._server = Server()
        self._server.start()
        self._tokens: list[tuple[Array | Group, str]] = []  # the node shown last is at the end

    def add(self, node: Array | Group) -> str:
        """Return the address of a node: an equal node has the same one."""
        site = build_viewer(node)
        known = next((item for item in self._tokens if item[0] == node), None)
        if known is not None:
            self._tokens.remove(known)
        while len(self._tokens) >= _MAX_NODES:
            _, oldest = self._tokens.pop(0)
            self._server.application.remove(oldest)
        token = token_urlsafe(24) if known is None else known[1]
        self._tokens.append((node, token))
        return self._server.add(site, token)


def show(node: Array | Group, height: int) -> ViewerFrame:
    """Return a frame that shows a node; the first call of the process starts the server.

    Parameters
    ----------
    node
        The node at the top.
    height
        The height of the frame in pixels.

    Raises
    ------
    ArgumentError
        If the height is not a positive integer.
    """
    if type(height) is not int or height < 1:
        raise ArgumentError(f"height {safe_repr(height)} is not a positive number of pixels")
    with _lock:
        server = _servers.get(os.getpid())
        if server is None:
            server = _servers[os.getpid()] = _NodeServer()
        return ViewerFrame(server.add(node), height)
