"""Resolve the PATH argument of the command line to a hierarchy and a node in it.

A path can name a node inside a hierarchy, such as ``data.zarr/temperature``. The command searches
the parent folders for the root of the hierarchy. Changes can then update consolidated metadata in
parent groups, and messages can distinguish a wrong node name from a wrong folder.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from tessarr._safe_repr import to_printable
from tessarr.api.open import open as open_node
from tessarr.array import Array
from tessarr.cli.storage_options import add_storage_options, get_storage_options
from tessarr.copying.file_store import FileStore
from tessarr.errors import ArgumentError, NotFoundError, TessarrError
from tessarr.flow import open as open_flow
from tessarr.flow.run import run_flow
from tessarr.flow.walk import BELOW
from tessarr.format.hints import did_you_mean
from tessarr.format.node_path import join
from tessarr.group import Group
from tessarr.metadata.node import GroupMeta
from tessarr.store.adapt import ForeignStore, adapt_store
from tessarr.store.file_signatures import detect_format
from tessarr.store.paths import expand_user
from tessarr.store.resolve import is_url, locate_node, open_store
from tessarr.store.wrappers.wrapper import PrefixStore

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from tessarr.flow.open import Node as NodeMeta
    from tessarr.store import Store
    from tessarr.store.resolve import Mode, StoreLike

__all__ = [
    "LOCATION_HELP",
    "NodeArgument",
    "add_json_option",
    "add_node_verb",
    "get_node_argument",
    "get_node_arguments",
]

LOCATION_HELP: Final = "a folder, a file or a URL; it may continue to a node: data.zarr/a/b"
_FILE_HELP: Final = "; or a file of HDF5, netCDF or NumPy (.npy)"

_GROUP_DOCUMENTS: Final = ("zarr.json", ".zgroup")


def add_node_verb(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    run: Callable[[argparse.Namespace], int],
    *,
    reads_files: bool = False,
    **texts: Any,
) -> argparse.ArgumentParser:
    """Add a verb with the arguments PATH, --node and --json, and with storage options.

    Parameters
    ----------
    verbs
        The verbs of the command.
    name
        The name of the verb.
    run
        Executes the verb and returns the exit code.
    reads_files
        Whether the help mentions files of other formats, which every verb opens that only reads.
    **texts
        The help, the description and the epilog.
    """
    parser = verbs.add_parser(name, **texts)
    location_help = LOCATION_HELP + (_FILE_HELP if reads_files else "")
    parser.add_argument("path", metavar="PATH", help=location_help)
    parser.add_argument("--node", metavar="NAME", help="the path of a node in PATH")
    add_json_option(parser)
    add_storage_options(parser)
    parser.set_defaults(run=run)
    return parser


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """Add the option for JSON output."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def get_node_argument(arguments: argparse.Namespace) -> NodeArgument:
    """Return the argument PATH of a verb with one location."""
    return get_node_arguments(arguments, "path")[0]


def get_node_arguments(arguments: argparse.Namespace, *names: str) -> list[NodeArgument]:
    """Return the locations that a verb takes.

    Parameters
    ----------
    arguments
        The parsed arguments.
    *names
        The names of the arguments. The option --node belongs to the first one.

    Raises
    ------
    ArgumentError
        If a storage option occurs twice, or its location is not a URL.
    """
    texts = {name: getattr(arguments, name) for name in names}
    options = get_storage_options(arguments, texts)
    nodes = [getattr(arguments, "node", None), *(None for _ in names[1:])]
    return [
        NodeArgument(text, node, options[name])
        for (name, text), node in zip(texts.items(), nodes, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class NodeArgument:
    """The location of a node, from the command line.

    Parameters
    ----------
    text
        The path of a folder or a file, or a URL.
    node
        A path to append.
    storage_options
        The storage options of the URL.
    """

    text: str
    node: str | None = None
    storage_options: Mapping[str, Any] = field(default_factory=dict)

    def split(self, *, search_above: bool = False) -> tuple[str, str]:
        """Split the location into the hierarchy and the path of the node in it.

        Parameters
        ----------
        search_above
            Whether to search for the hierarchy above a URL, too. This takes one or two requests
            per level; commands that change a node, and error messages, need it.

        Examples
        --------
        >>> NodeArgument("memory://name/a", "b").split()
        ('memory://name/a', 'b')
        """
        below = (self.node or "").strip("/")
        text = self.text
        if is_url(text):
            parts = urlsplit(text) if text.lower().startswith("file:") else None
            if parts is not None and parts.netloc in {"", "localhost"}:
                root, path = _split_path(unquote(parts.path, errors="surrogateescape"))
            elif search_above:
                root, path = _split_url(text, self.storage_options)
            else:
                root, path = text, ""
            return (root if path else text), join(path, below)
        root, path = _split_path(str(expand_user(text)))
        return root, join(path, below)

    def resolve(self, mode: Mode = "r", *, search_above: bool = False) -> tuple[StoreLike, str]:
        """Return the hierarchy as an argument of Tessarr's functions, and the path in it.

        Parameters
        ----------
        mode
            As for `tessarr.open`; it applies to a location with storage options.
        search_above
            As for `split`.
        """
        root, path = self.split(search_above=search_above)
        return self._open_store(root, mode), path

    def open_whole(self, mode: Mode = "r") -> StoreLike:
        """Return the location as an argument of functions without a path in the store."""
        return self._open_store(self.text, mode)

    def _open_store(self, root: str, mode: Mode) -> StoreLike:
        """Return the store of a URL with storage options; other locations stay unchanged."""
        if not self.storage_options:
            return root
        try:
            store, base = open_store(root, mode, storage_options=self.storage_options)
        except TypeError as error:
            raise ArgumentError(
                f"{root!r} has no storage options: these are for object stores, web servers and "
                "the file systems of fsspec"
            ) from error
        return PrefixStore(store, base) if base else store

    def locate(self, mode: Mode = "r") -> tuple[Store, str]:
        """Return the store and the path in it, without opening the node."""
        root, path = self.resolve(mode, search_above=mode != "r")
        return locate_node(root, mode, path)

    def open(self, mode: Mode = "r", **settings: Any) -> Array | Group:
        """Open the node, which may also be in a file of HDF5, netCDF or NumPy for reading.

        Raises
        ------
        NotFoundError
            If the node is absent; the message suggests similar names.
        """
        root, path = self.resolve(mode, search_above=mode != "r")
        if mode == "r" and isinstance(root, str) and detect_format(root) is not None:
            root = _open_file(root)
        try:
            return open_node(root, mode, path=path, **settings)
        except NotFoundError as error:
            hint = self._suggest_node(root)
            if not hint:
                raise
            message = f"{error.message.partition(BELOW)[0]}{hint}"
            raise NotFoundError(message, kind=error.kind, path=error.path) from error

    def open_array(self, mode: Mode = "r") -> Array:
        """Open the array."""
        opened = self.open(mode)
        if isinstance(opened, Array):
            return opened
        arrays = [name for name, _ in opened.arrays()]
        hint = f"; arrays in it are {_format_names(arrays)}" if arrays else ""
        raise ArgumentError(f"{self.text!r} is a group, and an array is needed{hint}")

    def _suggest_node(self, opened: StoreLike) -> str:
        """Return a hint for a location without a node; `opened` is its store or root."""
        try:
            if isinstance(opened, ForeignStore):  # a file of another format
                return _suggest_members(opened, "", self.split()[1])
            root, path = self.split(search_above=True)
            if not is_url(root) and not Path(root).exists():
                return _suggest_paths(Path(root))
            store, base = locate_node(root, "r", None, storage_options=self.storage_options)
            if not path and not is_url(root) and _find_node(store, base) is None:
                return _suggest_nodes_inside(Path(root))
            return _suggest_members(store, base, path)
        except (TessarrError, OSError):
            return ""  # failing to build a hint must not raise another error


def _open_file(path: str) -> Store:
    """Open a file of another format, and print which of its nodes it lacks as a store."""
    store = FileStore(path)
    for skipped in store.skipped:
        sys.stderr.write(f"tessarr: not shown: {to_printable(str(skipped))}\n")
    return adapt_store(store, read_only=True)


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


def _split_url(url: str, storage_options: Mapping[str, Any]) -> tuple[str, str]:
    """Split the URL of a node into the hierarchy's URL and the node's path."""
    root = url.rstrip("/")
    names: list[str] = []
    while "::" not in root:
        parent, _, name = root.rpartition("/")
        if not parent.partition("://")[2]:
            break
        try:
            store, path = locate_node(parent, "r", None, storage_options=storage_options)
            if not isinstance(_find_node(store, path), GroupMeta):
                break
        except Exception:  # noqa: BLE001 (file systems raise what they like; it is no hierarchy)
            break
        names.insert(0, name)
        root = parent
    return (root, "/".join(names)) if names else (url, "")


def _find_node(store: Store, path: str) -> NodeMeta | None:
    return run_flow(open_flow.find_node(path), store)


def _is_group(folder: Path) -> bool:
    return any((folder / name).is_file() for name in _GROUP_DOCUMENTS)


def _is_node(folder: Path) -> bool:
    return _is_group(folder) or (folder / ".zarray").is_file()


def _suggest_paths(path: Path) -> str:
    """Return a hint with names like that of an absent folder or file."""
    folder = path.absolute().parent
    names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    return _suggest_names(path.name, names, str(path.parent / "x")[:-1])


def _suggest_members(store: Store, base: str, path: str) -> str:
    """Return a hint with names of the first group that lacks the next name of a path."""
    parent = _find_node(store, base)
    for name in path.split("/") if path else ():
        if parent is None or not isinstance(group := _bind_node(parent, store, base), Group):
            return ""
        child = _find_node(store, join(base, name))
        if child is None:
            where = f"{group.path}/" if group.path else ""
            return (
                _suggest_names(name, list(group), where) or f"; it has {_format_names(list(group))}"
            )
        parent, base = child, join(base, name)
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
