"""``tessarr serve PATH``: serve a store as plain Zarr over HTTP."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from tessarr.cli.node_argument import add_node_verb, get_node_argument
from tessarr.cli.output import format_json
from tessarr.cli.view import add_server_options
from tessarr.errors import NotFoundError

if TYPE_CHECKING:
    import argparse

    from tessarr.web.store.server import StoreServer

__all__ = ["add_to"]


def add_to(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to the command."""
    parser = add_node_verb(
        verbs,
        "serve",
        _run,
        help="serve a store over HTTP",
        description="Serve a store as plain Zarr over HTTP to this machine until Ctrl-C, "
        "read-only, under an address with a secret token. Other programs, and viewers in a "
        "browser, read it there; the command prints how.",
        epilog="example: tessarr serve data.zarr --port 8000",
    )
    add_server_options(parser)
    parser.add_argument(
        "--no-token", action="store_true", help="leave the secret out of the address"
    )
    parser.add_argument(
        "--cors",
        metavar="ORIGIN",
        action="append",
        help="an origin of web pages that may read the store, such as https://example.org, or *; "
        "by default those of the printed viewers, and none with --no-token; you can repeat the "
        "option",
    )
    parser.add_argument(
        "--listing",
        action="store_true",
        help="show the keys of a folder at its address, so that programs list members of groups",
    )


def _run(arguments: argparse.Namespace) -> int:
    from tessarr.web.store.server import serve

    location = get_node_argument(arguments)
    store, path = location.resolve()
    try:
        server = serve(
            store,
            path=path,
            host=arguments.host,
            port=arguments.port,
            token=not arguments.no_token,
            cors=arguments.cors,
            listing=arguments.listing,
            allow_hosts=arguments.allow_host,
        )
    except NotFoundError:
        location.open()  # raises the error with similar names
        raise
    with server:
        if arguments.json:
            facts = {"url": server.url, "links": server.links, "note": server.note}
            print(format_json(facts), flush=True)
        else:
            _print_links(server)
        with suppress(KeyboardInterrupt):  # the end that the output names
            server.wait()
    return 0


def _print_links(server: StoreServer) -> None:
    rows = {"address": server.url, **server.links}
    width = max(map(len, rows))
    for name, text in rows.items():
        print(f"{name:{width}}  {text}")
    if server.note:
        print(f"note: {server.note}")
    print("Ctrl-C ends the server", flush=True)
