"""Tree views of hierarchies as text and HTML: the results of `Group.tree`."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, NamedTuple

from tessarr.metadata.node import ArrayMeta
from tessarr.node.axis_names import format_shape
from tessarr.node.info import lengths_to_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tessarr.metadata.node import NodeOrError
    from tessarr.types import JSONObject

__all__ = ["Tree"]


class _Line(NamedTuple):
    """One line of a tree view."""

    path: str
    name: str
    depth: int
    lasts: tuple[bool, ...]
    """For this node and each node above it: whether it is the last member of its group."""
    has_members: bool


class Tree:
    """A tree view of a hierarchy, for printing and for notebooks.

    Parameters
    ----------
    name
        The name of the node at the top.
    members
        The metadata of all nodes below, by relative path, or the error of an unreadable node.
    expand
        Whether a notebook initially shows all groups unfolded; by default only the first level.
    max_nodes
        The maximum number of nodes to draw; None for all.

    Examples
    --------
    >>> import tessarr
    >>> g = tessarr.create_group(None)
    >>> _ = g.create_array("foo/bar", shape=(3,), dtype="i4")
    >>> g.tree()
    /
    └── foo
        └── bar (3,) int32
    """

    __slots__ = ("_expand", "_max_nodes", "_members", "_name")

    def __init__(
        self,
        name: str,
        members: Mapping[str, NodeOrError],
        *,
        expand: bool | None = None,
        max_nodes: int | None = None,
    ) -> None:
        self._name = name
        self._members = members
        self._expand = expand
        self._max_nodes = max_nodes

    def __len__(self) -> int:
        return len(self._members)

    @property
    def unreadable(self) -> tuple[str, ...]:
        """The paths of nodes that cannot be read."""
        return tuple(path for path, meta in self._members.items() if isinstance(meta, Exception))

    def asdict(self) -> JSONObject:
        """Return the hierarchy as plain JSON: paths with kinds, shapes and data types."""
        return {path: _node_to_json(meta) for path, meta in self._members.items()}

    def __str__(self) -> str:
        lines = [self._name]
        for path, name, _, lasts, _ in self._lines():
            rails = "".join("    " if last else "│   " for last in lasts[:-1])
            knot = "└── " if lasts[-1] else "├── "
            lines.append(f"{rails}{knot}{name}{_summarize(self._members[path])}")
        if self._omitted_count:
            lines.append(self._omitted_note)
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the tree view for a notebook, with foldable groups."""
        parts = [f'<div class="tessarr-tree"><style>{_STYLE}</style>']
        parts.append(f"<details open><summary><b>{escape(self._name)}</b></summary><ul>")
        depth = 0
        for path, name, line_depth, _, has_members in self._lines():
            parts.append("</ul></details></li>" * (depth - line_depth))
            depth = line_depth
            label = f"<b>{escape(name)}</b>{escape(_summarize(self._members[path]))}"
            if has_members:
                opened = " open" if self._expand else ""
                parts.append(f"<li><details{opened}><summary>{label}</summary><ul>")
                depth += 1
            else:
                parts.append(f"<li>{label}</li>")
        parts.append("</ul></details></li>" * depth + "</ul></details>")
        if self._omitted_count:
            parts.append(f"<p>{escape(self._omitted_note)}</p>")
        return "".join([*parts, "</div>"])

    @property
    def _omitted_count(self) -> int:
        return 0 if self._max_nodes is None else max(len(self._members) - self._max_nodes, 0)

    @property
    def _omitted_note(self) -> str:
        return f"… and {self._omitted_count} more: tree(max_nodes=None) shows all"

    def _lines(self) -> Iterator[_Line]:
        children: dict[str, list[str]] = {}
        for path in self._members:
            parent, _, name = path.rpartition("/")
            children.setdefault(parent, []).append(name)
        remaining = len(self._members) - self._omitted_count
        # A stack instead of recursion, because a hierarchy may be deep.
        stack = _ordered_members("", children.get("", []), ())
        while stack and remaining:
            remaining -= 1
            path, name, lasts = stack.pop()
            members = children.get(path, [])
            yield _Line(path, name, len(lasts) - 1, lasts, bool(members))
            stack += _ordered_members(path, members, lasts)


def _ordered_members(
    parent: str, names: list[str], lasts: tuple[bool, ...]
) -> list[tuple[str, str, tuple[bool, ...]]]:
    """Return the members of a group with their paths, the last one first."""
    prefix = f"{parent}/" if parent else ""
    return [(prefix + name, name, (*lasts, i == 0)) for i, name in enumerate(reversed(names))]


_STYLE = (
    ".tessarr-tree ul{list-style:none;margin:0;padding-left:1.5em}"
    ".tessarr-tree li{line-height:1.4}.tessarr-tree summary{cursor:pointer;display:list-item}"
)


def _summarize(meta: NodeOrError) -> str:
    if isinstance(meta, Exception):
        return f" – unreadable: {' '.join(str(meta).split())}"
    return f" {format_shape(meta)} {meta.data_type.numpy}" if isinstance(meta, ArrayMeta) else ""


def _node_to_json(meta: NodeOrError) -> JSONObject:
    if isinstance(meta, Exception):
        return {"kind": "unreadable", "error": meta.kind, "message": str(meta)}
    if not isinstance(meta, ArrayMeta):
        return {"kind": "group", "zarr_format": meta.zarr_format}
    return {
        "kind": "array",
        "zarr_format": meta.document_format,
        "shape": list(meta.shape),
        "data_type": meta.data_type.to_json(meta.zarr_format),
        "chunks": lengths_to_json(meta.chunks),
        "shards": lengths_to_json(meta.shards),
    }
