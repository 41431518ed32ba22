"""Resolve the PATH argument of the command line to a hierarchy and a node in it.

A path can name a node inside a hierarchy, such as ``data.zarr/temperature``. The command searches
the parent folders for the root of the hierarchy. Changes can then update consolidated metadata in
parent groups, and messages can distinguish a wrong node name from a wrong folder.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from tessarr.api.open import open as open_node
from tessarr.array import Array
from tessarr.errors import ArgumentError, NotFoundError, TessarrError
from tessarr.flow import open as open_flow
from tessarr.flow.run import run_flow
from tessarr.flow.walk import BELOW
from tessarr.format.node_path import join
from tessarr.format.suggestions import did_you_mean
from tessarr.group import Group
from tessarr.metadata.node import GroupMeta
from tessarr.store.paths import expand_user
from tessarr.store.resolve import is_url, locate_node

if TYPE_CHECKING:
    import argparse

    from tessarr.flow.open import Node as NodeMeta
    from tessarr.store import Store
    from tessarr.store.resolve import Mode

__all__ = [
    "LOCATION_HELP",
    "add_json_option",
    "add_node_argument",
    "locate_argument",
    "open_array_argument",
    "open_node_argument",
    "split_location",
]

LOCATION_HELP: Final = "a folder, a file or a URL, also of a node inside of it: data.zarr/a/b"

_GROUP_DOCUMENTS: Final = ("zarr.json", ".zgroup")


def add_node_argument(parser: argparse.ArgumentParser, purpose: str = "") -> None:
    """Add the arguments that name a node."""
    parser.add_argument(
        "path", metavar="PATH", help=(f"{purpose}: " if purpose else "") + LOCATION_HELP
    )
    parser.add_argument("--node", metavar="NAME", help="the path of a node inside of PATH")


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """Add the option for JSON output."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def split_location(
    text: str, node: str | None = None, *, search_above: bool = False
) -> tuple[str, str]:
    """Split a location into the hierarchy and the path of the node in it.

    Parameters
    ----------
    text
        The path of a folder or a file, or a URL.
    node
        A path to append.
    search_above
        Whether to search for the hierarchy above a URL, too. This takes one or two requests per
        level; commands that change a node, and error messages, need it.

    Examples
    --------
    >>> split_location("memory://name/a", "b")
    ('memory://name/a', 'b')
    """
    below = (node or "").strip("/")
    if is_url(text):
        parts = urlsplit(text) if text.lower().startswith("file:") else None
        if parts is not None and parts.netloc in {"", "localhost"}:
            root, path = _split_path(unquote(parts.path, errors="surrogateescape"))
        else:
            root, path = _split_url(text) if search_above else (text, "")
        return (root if path else text), join(path, below) if below else path
    root, path = _split_path(str(expand_user(text)))
    return root, join(path, below) if below else path


def _split_path(text: str) -> tuple[str, str]:
    """Split the file-system path of a node into the hierarchy's path and the node's path."""
    target = Path(os.path.abspath(text))  # noqa: PTH100 (a link stays where it is)
    root = next((folder for folder in (target, *target.parents) if folder.exists()), target)
    if root.is_dir():
        # An absent path belongs to a hierarchy only if its nearest existing folder is a node.
        if not _is_node(root):
            return text, ""
        while root.parent != root and _is_group(root.parent):
            root = root.parent
    if root == target:
        return text, ""
    names = target.relative_to(root).parts
    location = Path(text)
    prefix = location.parents[len(names) - 1] if len(location.parts) > len(names) else root
    return str(prefix), "/".join(names)


def _split_url(url: str) -> tuple[str, str]:
    """Split the URL of a node into the hierarchy's URL and the node's path."""
    root = url.rstrip("/")
    names: list[str] = []
    while "::" not in root:
        parent, _, name = root.rpartition("/")
        if not parent.partition("://")[2]:
            break
        try:
            store, path = locate_node(parent, "r", None)
            if not isinstance(run_flow(open_flow.find_node(path), store), GroupMeta):
                break
        except Exception:  # noqa: BLE001 (file systems raise what they like; it is no hierarchy)
            break
        names.insert(0, name)
        root = parent
    return (root, "/".join(names)) if names else (url, "")


def _is_group(folder: Path) -> bool:
    return any((folder / name).is_file() for name in _GROUP_DOCUMENTS)


def _is_node(folder: Path) -> bool:
    return _is_group(folder) or (folder / ".zarray").is_file()


def locate_argument(text: str, node: str | None = None, mode: Mode = "r") -> tuple[Store, str]:
    """Return the store of a location and the path in it, without opening the node."""
    root, path = split_location(text, node, search_above=mode != "r")
    return locate_node(root, mode, path)


def open_node_argument(
    text: str, node: str | None = None, mode: Mode = "r", **settings: Any
) -> Array | Group:
    """Open the node at a location.

    Raises
    ------
    NotFoundError
        If the node is absent; the message suggests similar names.
    """
    root, path = split_location(text, node, search_above=mode != "r")
    try:
        return open_node(root, mode, path=path, **settings)
    except NotFoundError as error:
        hint = _suggest_node(*split_location(text, node, search_above=True))
        if not hint:
            raise
        message = f"{error.message.partition(BELOW)[0]}{hint}"
        raise NotFoundError(message, kind=error.kind, path=error.path) from error


def open_array_argument(text: str, node: str | None = None, mode: Mode = "r") -> Array:
    """Open the array at a location."""
    opened = open_node_argument(text, node, mode)
    if isinstance(opened, Array):
        return opened
    arrays = [name for name, _ in opened.arrays()]
    hint = f"; arrays in it are {_format_names(arrays)}" if arrays else ""
    raise ArgumentError(f"{text!r} is a group, and an array is needed{hint}")


def _suggest_node(root: str, path: str) -> str:
    """Return a hint for a location without a node."""
    try:
        if not is_url(root) and not Path(root).exists():
            folder = Path(root).absolute().parent
            names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
            return _suggest_names(Path(root).name, names, str(Path(root).parent / "x")[:-1])
        store, path_in_store = locate_node(root, "r", None)
        parent = run_flow(open_flow.find_node(path_in_store), store)
        if parent is None and not path and not is_url(root):
            return _suggest_nodes_inside(Path(root))
        for name in path.split("/") if path else ():
            if parent is None or not isinstance(
                group := _bind_node(parent, store, path_in_store), Group
            ):
                return ""
            child = run_flow(open_flow.find_node(join(path_in_store, name)), store)
            if child is None:
                where = f"{group.path}/" if group.path else ""
                return (
                    _suggest_names(name, list(group), where)
                    or f"; it has {_format_names(list(group))}"
                )
            parent, path_in_store = child, join(path_in_store, name)
    except (TessarrError, OSError):
        return ""  # failing to build a hint must not raise another error
    return ""


def _suggest_nodes_inside(folder: Path) -> str:
    """Return a hint with the nodes inside a folder."""
    if not folder.is_dir():
        return ""
    nodes = [
        str(entry)
        for entry in sorted(folder.iterdir())
        if (entry.is_dir() and _is_node(entry)) or entry.suffix in {".zip", ".ozx", ".zarr"}
    ]
    return f"; in this folder there are {_format_names(nodes)}" if nodes else ""


def _bind_node(meta: NodeMeta, store: Store, path: str) -> Array | Group:
    from tessarr.group import bind_node

    return bind_node(meta, store, path, read_only=True)


def _suggest_names(name: str, names: list[str], prefix: str) -> str:
    return did_you_mean(name, names, count=3, prefix="" if prefix == "./" else prefix)


def _format_names(names: list[str]) -> str:
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(map(repr, names[:8])) + more if names else "no members"
