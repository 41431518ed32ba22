"""The viewer in a notebook: a frame with the page, from a server in this process."""

from __future__ import annotations

import os
from html import escape
from threading import Lock
from typing import TYPE_CHECKING

from tessarr._safe_repr import safe_repr
from tessarr.errors import ArgumentError
from tessarr.web.server import Server
from tessarr.web.viewer.site import build_viewer

if TYPE_CHECKING:
    from tessarr.array import Array
    from tessarr.group import Group

__all__ = ["ViewerFrame", "show"]

_lock = Lock()
_servers: dict[int, Server] = {}
"""The server of this process, by process number: a forked process has no thread for it."""


class ViewerFrame:
    """A page of the viewer, which notebooks show inline.

    Parameters
    ----------
    url
        The address of the page, which works until the process ends.
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
    site = build_viewer(node)
    with _lock:
        server = _servers.get(os.getpid())
        if server is None:
            server = Server()
            server.start()
            _servers[os.getpid()] = server
    return ViewerFrame(server.add(site), height)
