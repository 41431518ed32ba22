"""``tessarr view PATH``: show a hierarchy in a browser."""

from __future__ import annotations

import os
import sys
import webbrowser
from typing import TYPE_CHECKING, Final

from tessarr import _engine
from tessarr.cli.node_argument import LOCATION_HELP, get_node_argument
from tessarr.cli.storage_options import add_storage_options
from tessarr.options import configure, current

if TYPE_CHECKING:
    import argparse

__all__ = ["add_to"]

_CACHE_FACTOR: Final = 8
"""How much larger the chunk cache is than by default: the process serves the viewer only."""


def add_to(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to the command."""
    parser = verbs.add_parser(
        "view",
        help="show arrays in a browser",
        description="Show a hierarchy in a browser: the tree, attributes, and values as heat maps, "
        "lines and tables. The page is served to this machine until Ctrl-C, read-only, under an "
        "address with a secret token.",
        epilog="example: tessarr view data.zarr",
    )
    parser.add_argument("path", metavar="PATH", help=LOCATION_HELP)
    parser.add_argument("--node", metavar="NAME", help="the path of a node in PATH")
    add_server_options(parser)
    parser.add_argument("--no-open", action="store_true", help="print the address only")
    add_storage_options(parser)
    parser.set_defaults(run=_run)


def add_server_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that start a server."""
    parser.add_argument(
        "--port", type=int, default=0, help="the port to listen on; by default any free port"
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="the address to listen on; by default only this machine can connect",
    )
    parser.add_argument(
        "--allow-host",
        metavar="NAME",
        action="append",
        default=[],
        help="a further name of the server that browsers use, such as that of a proxy",
    )


def _run(arguments: argparse.Namespace) -> int:
    from tessarr.web.server import Server
    from tessarr.web.viewer.site import build_viewer

    node = get_node_argument(arguments).open()
    server = Server(arguments.host, arguments.port, arguments.allow_host)
    if current().chunk_cache_bytes is None:
        configure(chunk_cache_bytes=_CACHE_FACTOR * _engine.chunk_cache_bytes())
    url = server.add(build_viewer(node))
    print(f"{url}\nCtrl-C ends the server", flush=True)
    if not arguments.no_open and _has_desktop():
        webbrowser.open(url)
    server.run()
    return 0


def _has_desktop() -> bool:
    """Return whether a browser has a window: one for terminals would take over the terminal."""
    variables = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    return sys.platform != "linux" or any(os.environ.get(name) for name in variables)
