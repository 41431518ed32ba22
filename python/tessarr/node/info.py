"""Tables of `Array.info` and `Group.info`, and formatting of sizes and chunk lengths."""

from __future__ import annotations

from abc import abstractmethod
from copy import deepcopy
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tessarr.codec import Bytes
from tessarr.metadata.codec_roles import find_codec_roles
from tessarr.metadata.node import ArrayMeta, GroupMeta
from tessarr.node.axis_names import find_axis_names, format_name, format_shape

if TYPE_CHECKING:
    from tessarr.types import ChunkLengths, JSONObject

__all__ = [
    "ArrayInfo",
    "GroupInfo",
    "NodeInfo",
    "array_items",
    "array_to_json",
    "codec_lines",
    "format_array",
    "format_axis",
    "format_lengths",
    "format_size",
    "lengths_to_json",
]


Meta = TypeVar("Meta", ArrayMeta, GroupMeta)


def format_size(size_bytes: int) -> str:
    """Return a readable size: bytes below 1 KiB, else one decimal and a unit of 1024.

    Examples
    --------
    >>> format_size(323), format_size(400_000_000), format_size(1 << 40)
    ('323', '381.5M', '1.0T')
    """
    if size_bytes < 1024:
        return str(size_bytes)
    power = min((size_bytes.bit_length() - 1) // 10, 6)
    return f"{size_bytes / 1024**power:.1f}{'KMGTPE'[power - 1]}"


def format_axis(lengths: int | tuple[int, ...]) -> str:
    """Return readable chunk lengths of an axis; a long list loses its middle.

    Examples
    --------
    >>> format_axis(10), format_axis((1, 2, 3)), format_axis(tuple(range(1, 99)))
    ('10', '(1, 2, 3)', '(1, 2, 3, …, 98)')
    """
    if isinstance(lengths, int) or len(lengths) <= 8:
        return str(lengths)
    first, second, third, *_, last = lengths
    return f"({first}, {second}, {third}, …, {last})"


def format_lengths(lengths: ChunkLengths) -> str:
    """Return readable chunk lengths of all axes.

    Examples
    --------
    >>> format_lengths((10,)), format_lengths((10, (1, 2, 3)))
    ('(10,)', '(10, (1, 2, 3))')
    """
    comma = "," if len(lengths) == 1 else ""
    return f"({', '.join(map(format_axis, lengths))}{comma})"


def format_array(name: str, meta: ArrayMeta) -> str:
    """Return a description of an array in one line."""
    where = f"{name}, " if name != "/" else ""
    shards = f", shards={format_lengths(meta.shards)}" if meta.shards else ""
    chunks = format_lengths(meta.chunks)
    return (
        f"Array({where}{format_shape(meta)}, {meta.data_type.numpy}, chunks={chunks}{shards}, "
        f"order={meta.order})"
    )


@dataclass(frozen=True, slots=True, repr=False)
class NodeInfo(Generic[Meta]):
    """Information about an array or a group.

    Parameters
    ----------
    name
        The path, with a leading slash.
    meta
        The metadata.
    read_only
        Whether the node rejects changes.
    store
        A description of the store.
    store_type, chunk_store_type, synchronizer_type
        The names of the classes; None without a separate object.
    """

    name: str
    meta: Meta
    read_only: bool
    store: str
    store_type: str
    chunk_store_type: str | None
    synchronizer_type: str | None

    def asdict(self) -> JSONObject:
        """Return the information as plain JSON."""
        return {
            "path": self.name,
            "zarr_format": self.meta.zarr_format,
            "attributes": deepcopy(self.meta.attributes),
            "store": self.store,
            "read_only": self.read_only,
        }

    @abstractmethod
    def items(self) -> list[tuple[str, str]]:
        """Return the information as labels and values, as in zarr-python 2.18."""

    def store_items(self) -> list[tuple[str, str]]:
        """Return the classes of the stores and the synchronizer, as labels and values."""
        kinds = [
            ("Synchronizer type", self.synchronizer_type),
            ("Store type", self.store_type),
            ("Chunk store type", self.chunk_store_type),
        ]
        return [(label, text) for label, text in kinds if text is not None]

    def store_line(self) -> str:
        """Return `store_items` as the last line of the printed table."""
        kinds = (
            ("store", self.store_type),
            ("chunk_store", self.chunk_store_type),
            ("synchronizer", self.synchronizer_type),
        )
        return "; ".join(f"{label}: {kind}" for label, kind in kinds if kind is not None)

    def _repr_html_(self) -> str:
        from tessarr.format.html import render_block, render_table

        return render_block(type(self).__name__, self.name, render_table(self.items()))

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, slots=True, repr=False)
class ArrayInfo(NodeInfo[ArrayMeta]):
    """Information about an array; print it.

    Parameters
    ----------
    name, meta, read_only, store, store_type, chunk_store_type, synchronizer_type
        As for `NodeInfo`.
    stored_bytes
        The number of stored bytes, including metadata; None if the store refuses listings.
    chunk_count, stored_chunk_count
        The number of chunks, and the number of stored chunks; None if the store refuses listings.
    """

    stored_bytes: int | None
    chunk_count: int
    stored_chunk_count: int | None

    @property
    def size_bytes(self) -> int:
        """The bytes of all elements in memory."""
        return prod(self.meta.shape) * self.meta.data_type.item_bytes

    @property
    def ratio(self) -> float:
        """The ratio of the size in memory to the stored size; 0 without stored bytes."""
        return self.size_bytes / self.stored_bytes if self.stored_bytes else 0.0

    def codec_lines(self) -> list[tuple[str, str]]:
        """Return the codecs, each with its role."""
        return codec_lines(self.meta)

    def asdict(self) -> JSONObject:
        """Return the information as plain JSON."""
        return {
            "kind": "array",
            **super(ArrayInfo, self).asdict(),
            **array_to_json(self.meta),
            "size_bytes": self.size_bytes,
            "stored_bytes": self.stored_bytes,
            "ratio": round(self.ratio, 3),
            "chunk_count": self.chunk_count,
            "stored_chunk_count": self.stored_chunk_count,
        }

    def items(self) -> list[tuple[str, str]]:
        """Return the information as labels and values, as in zarr-python 2.18."""
        return [
            *([("Name", self.name)] if self.name != "/" else []),
            ("Type", "tessarr.Array"),
            *array_items(self.meta, read_only=self.read_only),
            *self.store_items(),
            ("No. bytes", _format_bytes(self.size_bytes)),
            *self._stored_items(),
        ]

    def _stored_items(self) -> list[tuple[str, str]]:
        if self.stored_bytes is None:
            return [("No. bytes stored", "unknown"), ("No. chunks", str(self.chunk_count))]
        return [
            ("No. bytes stored", _format_bytes(self.stored_bytes)),
            ("Storage ratio", f"{self.ratio:.1f}"),
            ("Chunks initialized", f"{self.stored_chunk_count}/{self.chunk_count}"),
        ]

    def __str__(self) -> str:
        sizes = f"nbytes: {format_size(self.size_bytes)}; "
        if self.stored_bytes is None:
            sizes += f"nbytes_stored: unknown; chunks: {self.chunk_count}"
        else:
            sizes += (
                f"nbytes_stored: {format_size(self.stored_bytes)}; ratio: {self.ratio:.1f}; "
                f"initialized: {self.stored_chunk_count}/{self.chunk_count}"
            )
        lines = [format_array(self.name, self.meta), sizes]
        before = None
        for role, codec in self.codec_lines():
            label = "filters: " if role == "filter" else f"{role}: "
            lines.append((" " * len(label) if role == before else label) + codec)
            before = role
        return "\n  ".join([*lines, self.store_line()])


def array_to_json(meta: ArrayMeta) -> JSONObject:
    """Return the metadata of an array, except attributes, as plain JSON."""
    fill = meta.fill_value
    return {
        "zarr_format": meta.document_format,
        "shape": list(meta.shape),
        "data_type": meta.data_type.to_json(meta.zarr_format),
        "chunks": lengths_to_json(meta.chunks),
        "shards": lengths_to_json(meta.shards),
        "order": meta.order,
        "fill_value": None if fill is None else meta.data_type.fill_to_json(fill, meta.zarr_format),
        "dimension_names": list(meta.axis_names) if meta.axis_names else None,
        "codecs": [codec.to_json(meta.zarr_format) for codec in _listed_codecs(meta)],
    }


def array_items(meta: ArrayMeta, *, read_only: bool) -> list[tuple[str, str]]:
    """Return the metadata as labels and values."""
    lines = codec_lines(meta)
    filters = [text for role, text in lines if role == "filter"]
    compressors = [text for role, text in lines if role == "compressor"]
    names = find_axis_names(meta)
    shown = [format_name(name) if name else "–" for name in names or ()]
    return [
        ("Zarr format", str(meta.document_format)),
        ("Data type", str(meta.data_type.numpy)),
        ("Fill value", str(meta.fill_scalar)),
        ("Shape", str(meta.shape)),
        *([] if names is None else [("Dimension names", ", ".join(shown))]),
        ("Chunk shape", format_lengths(meta.chunks)),
        *([] if meta.shards is None else [("Shard shape", format_lengths(meta.shards))]),
        ("Order", meta.order),
        ("Read-only", str(read_only)),
        *((f"Filter [{i}]", text) for i, text in enumerate(filters)),
        ("Compressor", ", ".join(compressors) or "None"),
    ]


def codec_lines(meta: ArrayMeta) -> list[tuple[str, str]]:
    """Return the codecs of an array, each with its role."""
    roles = find_codec_roles(meta)
    serializer = () if isinstance(roles.serializer, Bytes) else (roles.serializer,)
    kinds = (
        ("shard codec", roles.shard_codecs),
        ("filter", roles.filters),
        ("serializer", () if meta.zarr_format == 2 else serializer),
        ("compressor", roles.compressors),
    )
    return [(role, repr(codec)) for role, codecs in kinds for codec in codecs]


def _format_bytes(size_bytes: int) -> str:
    return str(size_bytes) if size_bytes <= 1024 else f"{size_bytes} ({format_size(size_bytes)})"


def lengths_to_json(lengths: ChunkLengths | None) -> list[int | list[int]] | None:
    """Return the lengths of chunks as plain JSON."""
    if lengths is None:
        return None
    return [axis if isinstance(axis, int) else list(axis) for axis in lengths]


def _listed_codecs(meta: ArrayMeta) -> list[Any]:
    """Return the codecs of the metadata document, which omits ``bytes`` in format 2."""
    if meta.zarr_format == 3:
        return list(meta.codecs.codecs)
    arrays = meta.codecs.array_array[meta.order == "F" :]
    serializer = meta.codecs.array_bytes
    objects = [] if isinstance(serializer, Bytes) else [serializer]
    return [*objects, *arrays, *meta.codecs.bytes_bytes]


@dataclass(frozen=True, slots=True, repr=False)
class GroupInfo(NodeInfo[GroupMeta]):
    """Information about a group; print it.

    Parameters
    ----------
    name, meta, read_only, store, store_type, chunk_store_type, synchronizer_type
        As for `NodeInfo`.
    arrays, groups, unreadable
        The names of the members.
    consolidated
        Whether the group uses consolidated metadata.
    """

    arrays: tuple[str, ...]
    groups: tuple[str, ...]
    unreadable: tuple[str, ...] = ()
    consolidated: bool = False

    @property
    def _zarr_format(self) -> int:
        """The format of the group, under the name that programs read of zarr-python 3."""
        return self.meta.document_format

    def asdict(self) -> JSONObject:
        """Return the information as plain JSON."""
        return {
            "kind": "group",
            **super(GroupInfo, self).asdict(),
            "arrays": list(self.arrays),
            "groups": list(self.groups),
            "unreadable": list(self.unreadable),
            "consolidated": self.consolidated,
        }

    def items(self) -> list[tuple[str, str]]:
        """Return the information as labels and values, as in zarr-python 2.18."""
        members = len(self.arrays) + len(self.groups) + len(self.unreadable)
        return [
            ("Name", self.name),
            ("Type", "tessarr.Group"),
            ("Zarr format", str(self.meta.zarr_format)),
            ("Read-only", str(self.read_only)),
            *self.store_items(),
            ("No. members", str(members)),
            ("No. arrays", str(len(self.arrays))),
            ("No. groups", str(len(self.groups))),
            *([("Arrays", ", ".join(self.arrays))] if self.arrays else []),
            *([("Groups", ", ".join(self.groups))] if self.groups else []),
            *([("Unreadable", ", ".join(self.unreadable))] if self.unreadable else []),
        ]

    def __str__(self) -> str:
        count = len(self.arrays) + len(self.groups) + len(self.unreadable)
        lines = [f"Group({self.name}, {count})"]
        kinds = (("arrays", self.arrays), ("groups", self.groups), ("unreadable", self.unreadable))
        for label, names in kinds:
            if names:
                line = f"  {label}: {len(names)}; {', '.join(names)}"
                lines.append(line if len(line) <= 80 else line[:77] + "...")
        return "\n".join([*lines, f"  {self.store_line()}"])
