"""The nodes of a hierarchy as the viewer's page shows them."""

from __future__ import annotations

import math
import re
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from tessarr.api.open import open_group
from tessarr.array import Array
from tessarr.copying.file_store import FileStore
from tessarr.errors import NotFoundError, TessarrError
from tessarr.format.node_path import join, normalize_path
from tessarr.group import Group
from tessarr.node.info import array_items, format_size
from tessarr.node.node import StorePath, Unreadable
from tessarr.web.viewer.dimensions import describe_dimensions, read_coordinates
from tessarr.web.viewer.image import OmeImage, parse_image
from tessarr.web.viewer.packing import find_packing
from tessarr.web.viewer.values import find_number_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from tessarr.types import JSONObject

__all__ = ["Hierarchy"]

_MAX_OPEN_NODES: Final = 256
_MAX_SAFE_INTEGER: Final = 2**53 - 1
"""The largest integer that JavaScript represents exactly, with all smaller ones."""


class Hierarchy:
    """Reads the nodes below a root for the viewer.

    Paths of requests are relative to the root, and never leave it. Labels of axes may come from
    groups above the root, if it is not the root of its store.

    Parameters
    ----------
    root
        A group or an array.
    """

    def __init__(self, root: Array | Group) -> None:
        self.root = root
        self._nodes: dict[str, Array | Group] = {}
        self._lock = Lock()  # requests run in several threads

    def open(self, path: str, *, refresh: bool = False) -> Array | Group:
        """Return the node at a path.

        Parameters
        ----------
        path
            Names joined by ``/``; ``""`` is the root.
        refresh
            Whether to read the metadata again if the node is open.

        Raises
        ------
        ArgumentError
            If the path has a name that is not allowed, such as ``..``.
        NotFoundError
            If there is no such node.
        """
        path = normalize_path(path, 2 if self.root.zarr_format == 2 else None)
        if not path:
            return self.root
        node = None if refresh else self._nodes.get(path)
        if node is None:
            if isinstance(self.root, Array):
                message = f"there is no node {path!r}: the root is an array"
                raise NotFoundError(message, kind="node_not_found", path=path)
            node = self.root[path]
            self._remember(path, node)
        return node

    def _remember(self, path: str, node: Array | Group) -> None:
        """Keep a node open for further requests; forget the oldest one if there are too many."""
        with self._lock:
            while len(self._nodes) >= _MAX_OPEN_NODES:
                self._nodes.pop(next(iter(self._nodes)))
            self._nodes[path] = node

    def open_array(self, path: str) -> Array:
        """Return the array at a path."""
        node = self.open(path)
        if isinstance(node, Array):
            return node
        raise NotFoundError(f"{path!r} is a group", kind="array_not_found", path=path)

    def describe(self, path: str) -> JSONObject:
        """Return the description of a node as JSON, from metadata that it reads again.

        The members of a group include complete descriptions of arrays.

        A node that cannot be read has ``kind`` "unreadable" and a message. A group whose members
        cannot be listed has a message in ``problem``.
        """
        try:
            node = self.open(path, refresh=True)
        except NotFoundError:
            raise
        except TessarrError as error:
            own_path = normalize_path(path)
            name = own_path.rpartition("/")[2]
            return {"path": own_path, "name": name, **_describe_error(error)}
        return self._describe_node(normalize_path(path), node)

    def _describe_node(self, path: str, node: Array | Group) -> JSONObject:
        common = {
            "path": path,
            "name": node.basename or _store_name(node),
            "attributes": to_browser_json(dict(node.attrs)),
            "metadata": to_browser_json(node.metadata.to_dict()),
            "store": _format_store(node),
        }
        if isinstance(node, Array):
            return {**common, **self._describe_array(path, node)}
        return {**common, **self._describe_group(path, node)}

    def _describe_array(self, path: str, array: Array) -> JSONObject:
        image, levels = self.find_levels(path, array)
        size_bytes = math.prod(array.shape) * array.dtype.itemsize
        facts = [
            *array_items(array.metadata, read_only=True),
            ("No. chunks", str(array.nchunks)),
            ("No. bytes", f"{size_bytes:,} ({format_size(size_bytes)})"),
        ]
        return {
            "kind": "array",
            "facts": [list(item) for item in facts if item[0] != "Read-only"],
            **_describe_elements(array),
            "chunks": list(array.metadata.chunk_shape),
            "dimensions": describe_dimensions(array, image),
            "is_image": image is not None,
            "levels": [list(level.shape) for level in levels],
        }

    def _describe_group(self, path: str, group: Group) -> JSONObject:
        problem = None
        try:
            members = [self._describe_member(path, *member) for member in group.members()]
        except TessarrError as error:
            members, problem = [], str(error)
        image = parse_image(group.attrs.asdict(), normalize_path(path))
        facts = [
            ("Zarr format", str(group.zarr_format)),
            ("No. members", str(len(members))),
        ]
        return {
            "kind": "group",
            "facts": [list(item) for item in facts],
            "members": members,
            "problem": problem,
            "image": None if image is None else image.levels[0].path,
        }

    def _describe_member(
        self, group_path: str, name: str, node: Array | Group | Unreadable
    ) -> JSONObject:
        path = join(normalize_path(group_path), name)
        if isinstance(node, Unreadable):
            return {"path": path, "name": name, **_describe_error(node.error)}
        if isinstance(node, Array):
            self._remember(path, node)
            return self._describe_node(path, node)
        return {"path": path, "name": name, "kind": "group"}

    def find_levels(self, path: str, array: Array) -> tuple[OmeImage | None, list[Array]]:
        """Return the image that an array belongs to, and its levels if the array is the first one.

        Levels that cannot be opened are missing. An array without an image is its only level.
        """
        own_path = normalize_path(path)
        for group, group_path in self._groups_above(own_path, array, limit=2):
            image = parse_image(group.attrs.asdict(), group_path)
            if image is not None and own_path in [level.path for level in image.levels]:
                if len(image.axes) != array.ndim:
                    return None, [array]
                first = own_path == image.levels[0].path
                rest = image.levels[1:] if first else ()
                return image, [array, *self._open_arrays(level.path for level in rest)]
        return None, [array]

    def _open_arrays(self, paths: Iterator[str]) -> Iterator[Array]:
        for path in paths:
            try:
                node = self.open(path)
            except TessarrError:
                continue  # the page shows the error at the node itself
            if isinstance(node, Array):
                yield node

    def read_coordinates(self, path: str) -> list[JSONObject | None]:
        """Return positions and labels along each axis of an array, as `read_coordinates` does."""
        array = self.open_array(path)
        own_path = normalize_path(path)
        image, _ = self.find_levels(path, array)
        level = image.levels[0] if image is not None else None
        if image is not None:
            level = next(level for level in image.levels if level.path == own_path)
        groups = [group for group, _ in self._groups_above(own_path, array)]
        return read_coordinates(array, groups, image, level)

    def _groups_above(
        self, path: str, node: Array | Group, limit: int | None = None
    ) -> Iterator[tuple[Group, str]]:
        """Yield the groups above a node, the nearest first, with their relative paths.

        Groups above the root have the relative path of the root itself, an empty text, because no
        request can name them.
        """
        names = path.split("/") if path else []
        outside = (
            node.path.split("/")[: len(node.path.split("/")) - len(names)] if node.path else []
        )
        count = len(names) + len(outside) if names else len(outside)
        for distance in range(1, min(count, limit or count) + 1):
            try:
                if distance <= len(names):
                    above = "/".join(names[: len(names) - distance])
                    group = self.open(above)
                else:
                    above = ""
                    whole = "/".join(outside[: len(outside) - (distance - len(names))])
                    location: Any = StorePath(node.store, whole, node._store)
                    group = open_group(location, "r")
            except TessarrError:
                return
            if isinstance(group, Group):
                yield group, above


def _describe_elements(array: Array) -> JSONObject:
    dtype = array.dtype
    fields = [
        {"name": name, "numbers": find_number_type(dtype[name])} for name in dtype.names or ()
    ]
    packing = find_packing(array)
    return {
        "shape": list(array.shape),
        "dtype": _format_dtype(dtype),
        "item_bytes": dtype.itemsize,
        "numbers": find_number_type(dtype) if packing is None else packing.number_type,
        "packing": [] if packing is None else list(packing.names),
        "is_complex": dtype.kind == "c",
        "fields": fields,
    }


def _format_dtype(dtype: np.dtype[Any]) -> str:
    if dtype.names is not None:
        return f"record of {', '.join(dtype.names)}"
    return "text" if dtype.kind in "OT" else str(dtype)


def _describe_error(error: TessarrError) -> JSONObject:
    return {"kind": "unreadable", "error": error.kind, "message": str(error)}


def _format_store(node: Array | Group) -> str:
    """Return the repr of the store; that of most stores of other classes may be long."""
    return repr(node.store if isinstance(node.store, FileStore) else node._store)


def _store_name(node: Array | Group) -> str:
    """Return a short name of the root: the last part of its store's location, if it has one."""
    text = _format_store(node)
    location = re.search(r"['\"](.*?)/*['\"]", text)
    return (location[1].rpartition("/")[2] if location else "") or text


def to_browser_json(value: Any) -> Any:
    """Return JSON without numbers that browsers cannot represent: these become text.

    Examples
    --------
    >>> to_browser_json({"a": [float("nan"), 2**60, 1.5]})
    {'a': ['NaN', '1152921504606846976', 1.5]}
    """
    if isinstance(value, dict):
        return {str(name): to_browser_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_browser_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, int) and abs(value) > _MAX_SAFE_INTEGER:
        return str(value)
    return value
