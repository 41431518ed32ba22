"""Nodes in words: sizes, and the tables of `Array.info` and `Group.info`."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tessarr.codec import Bytes, ShardingIndexed
from tessarr.metadata.node import ArrayMeta, GroupMeta

if TYPE_CHECKING:
    from tessarr.types import ChunkLengths, JSONObject

__all__ = [
    "ArrayInfo",
    "GroupInfo",
    "NodeInfo",
    "array_line",
    "axis_text",
    "human_bytes",
    "lengths_json",
]


Meta = TypeVar("Meta", ArrayMeta, GroupMeta)


def human_bytes(size_bytes: int) -> str:
    """Return a size to read: bytes below 1 KiB, else one decimal and a unit of 1024.

    Examples
    --------
    >>> human_bytes(323), human_bytes(400_000_000), human_bytes(1 << 40)
    ('323', '381.5M', '1.0T')
    """
    if size_bytes < 1024:
        return str(size_bytes)
    power = min((size_bytes.bit_length() - 1) // 10, 6)
    return f"{size_bytes / 1024**power:.1f}{'KMGTPE'[power - 1]}"


def axis_text(lengths: int | tuple[int, ...]) -> str:
    """Return the lengths of the chunks of an axis to read: long lists without their middle.

    Examples
    --------
    >>> axis_text(10), axis_text((1, 2, 3)), axis_text(tuple(range(1, 99)))
    ('10', '(1, 2, 3)', '(1, 2, 3, …, 98)')
    """
    if isinstance(lengths, int) or len(lengths) <= 8:
        return str(lengths)
    first, second, third, *_, last = lengths
    return f"({first}, {second}, {third}, …, {last})"


def _text(lengths: ChunkLengths) -> str:
    comma = "," if len(lengths) == 1 else ""
    return f"({', '.join(map(axis_text, lengths))}{comma})"


def array_line(name: str, meta: ArrayMeta) -> str:
    """Return an array in one line."""
    where = f"{name}, " if name != "/" else ""
    shards = f", shards={_text(meta.shards)}" if meta.shards else ""
    chunks = _text(meta.chunks)
    return (
        f"Array({where}{meta.shape}, {meta.data_type.numpy}, chunks={chunks}{shards}, "
        f"order={meta.order})"
    )


@dataclass(frozen=True, slots=True, repr=False)
class NodeInfo(Generic[Meta]):
    """What there is to say about an array or a group.

    Parameters
    ----------
    name
        The path, with a slash first.
    meta
        The metadata.
    read_only
        Whether it was opened for reading only.
    store
        The store in words.
    """

    name: str
    meta: Meta
    read_only: bool
    store: str

    def asdict(self) -> JSONObject:
        """Return what there is to say as plain JSON."""
        return {
            "path": self.name,
            "zarr_format": self.meta.zarr_format,
            "attributes": deepcopy(self.meta.attributes),
            "store": self.store,
            "read_only": self.read_only,
        }

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, slots=True, repr=False)
class ArrayInfo(NodeInfo[ArrayMeta]):
    """What there is to say about an array; print it.

    Parameters
    ----------
    name, meta, read_only, store
        As of every node.
    stored_bytes
        Bytes of everything that is stored, metadata included.
    chunk_count, stored_chunk_count
        How many chunks there are, and how many of them are stored.
    """

    stored_bytes: int
    chunk_count: int
    stored_chunk_count: int

    @property
    def size_bytes(self) -> int:
        """The bytes of all elements, as they are in memory."""
        return prod(self.meta.shape) * self.meta.data_type.item_bytes

    @property
    def ratio(self) -> float:
        """How much smaller the array is stored; 0 if nothing is."""
        return self.size_bytes / self.stored_bytes if self.stored_bytes else 0.0

    def codec_lines(self) -> list[tuple[str, str]]:
        """Return the codecs, each with what it is for."""
        chain = self.meta.codecs
        lines: list[tuple[str, str]] = []
        if isinstance(chain.array_bytes, ShardingIndexed):
            lines += [("shard codec", repr(codec)) for codec in chain.bytes_bytes]
            chain = chain.array_bytes.codecs
        filters = [("filter", repr(codec)) for codec in chain.array_array]
        rest = [("compressor", repr(codec)) for codec in chain.bytes_bytes]
        if self.meta.zarr_format == 2:
            last = len(rest) - (not self.meta.last_is_filter)
            filters += [("filter", text) for _, text in rest[:last]]
            del rest[: max(last, 0)]
            if self.meta.order == "F":
                del filters[0]
            if not isinstance(chain.array_bytes, Bytes):
                filters.insert(0, ("filter", repr(chain.array_bytes)))
        elif chain.array_bytes != Bytes() and not isinstance(chain.array_bytes, Bytes):
            filters.append(("serializer", repr(chain.array_bytes)))
        return [*lines, *filters, *rest]

    def asdict(self) -> JSONObject:
        """Return what there is to say as plain JSON."""
        meta = self.meta
        fill = meta.fill_value
        return {
            "kind": "array",
            **super(ArrayInfo, self).asdict(),
            "zarr_format": meta.stated_format,
            "shape": list(meta.shape),
            "data_type": meta.data_type.to_json(meta.zarr_format),
            "chunks": lengths_json(meta.chunks),
            "shards": lengths_json(meta.shards),
            "order": meta.order,
            "fill_value": None
            if fill is None
            else meta.data_type.fill_to_json(fill, meta.zarr_format),
            "dimension_names": list(meta.dimension_names) if meta.dimension_names else None,
            "codecs": [codec.to_json(meta.zarr_format) for codec in _stated(meta)],
            "size_bytes": self.size_bytes,
            "stored_bytes": self.stored_bytes,
            "ratio": round(self.ratio, 3),
            "chunk_count": self.chunk_count,
            "stored_chunk_count": self.stored_chunk_count,
        }

    def __str__(self) -> str:
        sizes = (
            f"nbytes: {human_bytes(self.size_bytes)}; "
            f"nbytes_stored: {human_bytes(self.stored_bytes)}; ratio: {self.ratio:.1f}; "
            f"initialized: {self.stored_chunk_count}/{self.chunk_count}"
        )
        lines = [
            array_line(self.name, self.meta),
            sizes,
            *(f"{what}: {codec}" for what, codec in self.codec_lines()),
            f"store: {self.store}",
        ]
        return "\n  ".join(lines)


def lengths_json(lengths: ChunkLengths | None) -> list[int | list[int]] | None:
    """Return the lengths of chunks as plain JSON."""
    if lengths is None:
        return None
    return [axis if isinstance(axis, int) else list(axis) for axis in lengths]


def _stated(meta: ArrayMeta) -> list[Any]:
    """Return the codecs that the metadata states; format 2 does not state ``bytes``."""
    if meta.zarr_format == 3:
        return list(meta.codecs.codecs)
    arrays = meta.codecs.array_array[meta.order == "F" :]
    makes_bytes = meta.codecs.array_bytes
    objects = [] if isinstance(makes_bytes, Bytes) else [makes_bytes]
    return [*objects, *arrays, *meta.codecs.bytes_bytes]


@dataclass(frozen=True, slots=True, repr=False)
class GroupInfo(NodeInfo[GroupMeta]):
    """What there is to say about a group; print it.

    Parameters
    ----------
    name, meta, read_only, store
        As of every node.
    arrays, groups, unreadable
        The names of the members.
    consolidated
        Whether they are known from consolidated metadata.
    """

    arrays: tuple[str, ...]
    groups: tuple[str, ...]
    unreadable: tuple[str, ...] = ()
    consolidated: bool = False

    def asdict(self) -> JSONObject:
        """Return what there is to say as plain JSON."""
        return {
            "kind": "group",
            **super(GroupInfo, self).asdict(),
            "arrays": list(self.arrays),
            "groups": list(self.groups),
            "unreadable": list(self.unreadable),
            "consolidated": self.consolidated,
        }

    def __str__(self) -> str:
        count = len(self.arrays) + len(self.groups) + len(self.unreadable)
        lines = [f"Group({self.name}, {count})"]
        kinds = (("arrays", self.arrays), ("groups", self.groups), ("unreadable", self.unreadable))
        for what, names in kinds:
            if names:
                line = f"  {what}: {len(names)}; {', '.join(names)}"
                lines.append(line if len(line) <= 80 else line[:77] + "...")
        lines.append(f"  store: {self.store}")
        return "\n".join(lines)
