"""Metadata of arrays and groups, independent of the format: `ArrayMeta` and `GroupMeta`.

The model uses the terms of format 3. For format 2, order "F" is a transpose, the byte order is
that of the data type, filters and compressor are codecs around ``bytes``, and chunk keys have
the encoding "v2".
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

from tessarr.codec import ArraySpec, Chain, ShardingIndexed, Transpose
from tessarr.dtype import Boolean
from tessarr.format.chunk_grid import RegularGrid
from tessarr.format.validation import INT64_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    import numpy as np

    from tessarr.dtype import DataType
    from tessarr.errors import AccessError, DataError, MetadataError, UnsupportedError
    from tessarr.format.chunk_grid import ChunkGrid, Cuts
    from tessarr.format.chunk_key_encoding import ChunkKeyEncoding
    from tessarr.format.storage_transformer import StorageTransformer
    from tessarr.format.validation import Problems
    from tessarr.types import ChunkLengths, JSONObject, MemoryOrder, Missing, Shape, ZarrFormat

__all__ = [
    "ArrayMeta",
    "GroupMeta",
    "NodeOrError",
    "check_codecs",
    "check_sizes",
    "register_writer",
]


@dataclass(frozen=True, slots=True)
class ArrayMeta:
    """The complete and validated metadata of an array.

    Parameters
    ----------
    zarr_format : {2, 3}
        The format of the document.
    shape : tuple of int
        The shape of the array.
    data_type : DataType
        The type of its elements.
    chunk_grid : ChunkGrid
        The grid of chunks; for a sharded array, of shards.
    chunk_key_encoding : ChunkKeyEncoding
        The encoding of chunk keys.
    fill_value : bytes or None
        The fill value as bytes of one item; None (format 2 only) means no fill value.
    codecs : Chain
        The codecs of a chunk.
    attributes : dict
        The user's attributes. Nodes share this dictionary: change only that of `detached`.
    axis_names : tuple of (str or None), optional
        The names of the axes; always None in format 2.
    storage_transformers : tuple of StorageTransformer
        The storage transformers, from the array to the store.
    extra : dict
        Additional members with ``must_understand: false``.
    last_is_filter : bool
        Whether the last codec except ``bytes`` is a filter of format 2, so that no compressor
        exists.
    is_v1 : bool
        Whether the documents have format 1; the model then uses the terms of format 2.
    """

    zarr_format: ZarrFormat
    shape: Shape
    data_type: DataType
    chunk_grid: ChunkGrid
    chunk_key_encoding: ChunkKeyEncoding
    fill_value: bytes | None
    codecs: Chain
    attributes: JSONObject = field(default_factory=dict, hash=False)
    axis_names: tuple[str | None, ...] | None = None
    storage_transformers: tuple[StorageTransformer, ...] = ()
    extra: JSONObject = field(default_factory=dict, hash=False)
    last_is_filter: bool = False
    is_v1: bool = False
    derived: dict[Hashable, Any] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """Memo: values derived from these metadata."""
    shared: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Memo: values that metadata with another shape or other attributes share."""

    def __reduce__(self) -> tuple[Any, ...]:
        return ArrayMeta, _get_members(self)

    @property
    def document_format(self) -> Literal[1, 2, 3]:
        """The format of the documents."""
        return 1 if self.is_v1 else self.zarr_format

    @property
    def dimension_names(self) -> tuple[str | None, ...] | None:
        """The names of the axes, if any.

        Raises
        ------
        AttributeError
            In format 2, whose documents lack the member; xarray tells the formats apart by this.
        """
        if self.zarr_format == 2:
            raise AttributeError("format 2 has no dimension names")
        return self.axis_names

    def to_dict(self) -> JSONObject:
        """Return the JSON of the document; in format 2 with the attributes as a member.

        Examples
        --------
        >>> import tessarr
        >>> sorted(tessarr.zeros(3, zarr_format=2).metadata.to_dict())
        ['attributes', 'chunks', 'compressor', 'dtype', 'fill_value', 'filters', 'order', 'shape',
         'zarr_format']
        """
        return _to_dict(self)

    def resized(self, shape: Shape, chunk_grid: ChunkGrid) -> ArrayMeta:
        """Return the metadata with another shape and the grid for it."""
        new = replace(self, shape=shape, chunk_grid=chunk_grid)
        if chunk_grid is self.chunk_grid or chunk_grid == self.chunk_grid:
            object.__setattr__(new, "shared", self.shared)
        return new

    def with_attributes(self, attributes: JSONObject) -> ArrayMeta:
        """Return the metadata with other attributes."""
        new = replace(self, attributes=attributes)
        object.__setattr__(new, "shared", self.shared)
        return new

    def detached(self) -> ArrayMeta:
        """Return equal metadata with own copies of the dictionaries.

        Nodes share metadata through memos; a caller may change the dictionaries of the result.
        """
        new = _copy_dictionaries(self)
        object.__setattr__(new, "shared", self.shared)
        return new

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def chunk_spec(self) -> ArraySpec:
        """The chunk that the first codec encodes; the longest one if chunks differ."""
        return self._spec(next(self.chunk_grid.shapes()))

    @property
    def chunk_shape(self) -> Shape:
        """The shape of the smallest part that a read can load: a chunk or an innermost subchunk.

        If chunks differ, the longest length along each axis.
        """
        return _find_innermost_shape(self.codecs, self.chunk_spec)

    @property
    def chunks(self) -> ChunkLengths:
        """The lengths of the smallest parts that a read can load."""
        return self.chunk_shape if self.is_sharded else self.chunk_grid.lengths(self.shape)

    @property
    def chunk_cuts(self) -> tuple[Cuts, ...]:
        """The cuts into the smallest parts that a read can load."""
        return RegularGrid(self.chunk_shape).cuts if self.is_sharded else self.chunk_grid.cuts

    @property
    def is_sharded(self) -> bool:
        """Whether the chunks of the grid are shards."""
        return isinstance(self.codecs.array_bytes, ShardingIndexed)

    @property
    def parts(self) -> Shape:
        """The shape that divides each chunk of the grid: that of a subchunk, or of one element."""
        single = (1,) * self.rank
        sharding = self.codecs.array_bytes
        if not isinstance(sharding, ShardingIndexed):
            return single
        return _undo_transposes(self.codecs, sharding.chunk_shape) or single

    @property
    def shards(self) -> ChunkLengths | None:
        """The lengths of the shards, or None if the array is not sharded."""
        return self.chunk_grid.lengths(self.shape) if self.is_sharded else None

    @property
    def grid_shape(self) -> Shape:
        """The number of chunks of the grid along each axis."""
        return self.chunk_grid.grid_shape(self.shape)

    @property
    def order(self) -> MemoryOrder:
        """The order of the elements in the innermost chunks: "F" if all axes are reversed."""
        chain = self.codecs
        while isinstance(chain.array_bytes, ShardingIndexed):
            chain = chain.array_bytes.codecs
        reverse = tuple(reversed(range(self.rank)))
        for codec in chain.array_array:
            if isinstance(codec, Transpose) and codec.axes(self.rank) == reverse:
                return "F" if self.rank > 1 or self.zarr_format == 2 else "C"
        return "C"

    @property
    def fill_or_default(self) -> bytes:
        """The value of elements that no stored chunk holds."""
        return self.data_type.default_fill() if self.fill_value is None else self.fill_value

    @property
    def fill_scalar(self) -> Any:
        """The fill value as a result of indexing, such as a NumPy scalar, or None."""
        return None if self.fill_value is None else self.data_type.scalar(self.fill_value)

    def fill_element(self) -> np.ndarray[Any, Any] | None:
        """Return the fill value as an array of rank 0, or None."""
        return None if self.fill_value is None else self.data_type.single(self.fill_value)

    def description(
        self, *, store_fill: bool = False, missing: Missing = "fill"
    ) -> dict[str, object]:
        """Return the description of the array for the engine (`tessarr._engine.Description`).

        Parameters
        ----------
        store_fill : bool
            Whether to store chunks that contain only the fill value.
        missing : {"fill", "refuse_chunks", "refuse"}
            How reads treat missing chunks: "fill" returns the fill value, "refuse_chunks" raises
            an error, and "refuse" also raises an error for missing subchunks of a shard.
        """
        data_type, regular = self.data_type, self.chunk_grid.regular()
        return {
            "shape": self.shape,
            "grid": (
                [axis.runs for axis in self.chunk_grid.cuts]
                if regular is None
                else regular.chunk_shape
            ),
            "dtype": data_type.numpy,
            "item_bytes": data_type.item_bytes,
            "elements": data_type.elements,
            "is_bool": isinstance(data_type, Boolean),
            "keys": self.chunk_key_encoding.description(),
            "fill": self.fill_or_default,
            "store_fill": store_fill,
            "missing": missing,
            "chain": self._compile if regular is None else self._compile(regular.chunk_shape),
        }

    def _compile(self, chunk_shape: Shape) -> dict[str, object]:
        return self.codecs.compile(self._spec(chunk_shape), self.zarr_format)

    def _spec(self, chunk_shape: Shape) -> ArraySpec:
        return ArraySpec(chunk_shape, self.data_type, self.fill_value)


_get_members: Final = attrgetter(*(member.name for member in fields(ArrayMeta) if member.init))


@dataclass(frozen=True, slots=True)
class GroupMeta:
    """The metadata of a group.

    Parameters
    ----------
    zarr_format : {2, 3}
        The format of the document.
    attributes : dict
        The user's attributes. Nodes share this dictionary: change only that of `detached`.
    extra : dict
        Additional members with ``must_understand: false``.
    consolidated : JSON, optional
        The value of ``consolidated_metadata`` (format 3) or ``.zmetadata`` (format 2); see
        `tessarr.metadata.consolidated`.
    """

    zarr_format: ZarrFormat
    attributes: JSONObject = field(default_factory=dict, hash=False)
    extra: JSONObject = field(default_factory=dict, hash=False)
    consolidated: Any = field(default=None, hash=False)
    derived: dict[Hashable, Any] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """Memo: the consolidated metadata that these metadata contain."""

    def share_derived(self, other: GroupMeta) -> GroupMeta:
        """Use the memo of other metadata with the same consolidated metadata, and return these."""
        object.__setattr__(self, "derived", other.derived)
        return self

    def detached(self) -> GroupMeta:
        """Return equal metadata with own copies of the attributes and additional members."""
        return _copy_dictionaries(self).share_derived(self)

    @property
    def document_format(self) -> ZarrFormat:
        """The format of the documents."""
        return self.zarr_format

    def to_dict(self) -> JSONObject:
        """Return the JSON of the document; in format 2 with the attributes as a member.

        Examples
        --------
        >>> import tessarr
        >>> tessarr.create_group(attributes={"a": 1}).metadata.to_dict()
        {'zarr_format': 3, 'node_type': 'group', 'attributes': {'a': 1}}
        """
        return _to_dict(self)


NodeOrError: TypeAlias = (
    "ArrayMeta | GroupMeta | MetadataError | UnsupportedError | AccessError | DataError"
)
"""The result of a listing for a path: the metadata, or the error of reading it."""


T = TypeVar("T", ArrayMeta, GroupMeta)


def _copy_dictionaries(meta: T) -> T:
    attributes, extra = copy.deepcopy((meta.attributes, meta.extra))
    return replace(meta, attributes=attributes, extra=extra)


_writers: Final[dict[int, Callable[[Any], JSONObject]]] = {}


def register_writer(zarr_format: ZarrFormat, to_json: Callable[[Any], JSONObject]) -> None:
    """Register the function that returns the JSON of the document of metadata."""
    _writers[zarr_format] = to_json


def _to_dict(meta: ArrayMeta | GroupMeta) -> JSONObject:
    """Return the JSON of the documents of a node as one object."""
    document = _writers[meta.zarr_format](meta)
    if meta.zarr_format == 2:
        document["attributes"] = meta.attributes
    return copy.deepcopy(document)


def check_codecs(
    codecs: Chain, grid: ChunkGrid, spec: ArraySpec, loc: str, problems: Problems
) -> None:
    """Add problems for codecs that do not fit the chunks of a grid, up to the first bad shape.

    The function replaces the shape of `spec`.
    """
    before = len(problems.found)
    for shape in grid.shapes():
        codecs.check(replace(spec, shape=shape), loc, problems)
        if len(problems.found) > before:
            return


def check_sizes(
    shape: Shape, spec: ArraySpec, shape_loc: str, chunks_loc: str, problems: Problems
) -> None:
    """Add problems for an array size of more than 63 bits, and a chunk size of more than 62."""
    if math.prod(shape) > INT64_MAX:
        problems.add(shape_loc, "more than 2**63 - 1 elements", "too_large")
    if spec.size_bytes > INT64_MAX // 2:  # the limit of the engine
        problems.add(chunks_loc, "a chunk has more than 2**62 - 1 bytes", "too_large")


def _find_innermost_shape(chain: Chain, spec: ArraySpec) -> Shape:
    """Return the shape of the innermost chunk, in the axes of the chain's input."""
    sharding = chain.array_bytes
    if not isinstance(sharding, ShardingIndexed):
        return spec.shape
    inner = _find_innermost_shape(sharding.codecs, sharding.subchunk_spec(chain.encoded_spec(spec)))
    return _undo_transposes(chain, inner) or spec.shape


def _undo_transposes(chain: Chain, lengths: Shape) -> Shape | None:
    """Return lengths of a chain's encoded array in the axes of its input.

    None if the chain changes axes in another way than by transposes.
    """
    for codec in reversed(chain.array_array):
        if not isinstance(codec, Transpose):
            return None
        by_axis: dict[int, int] = dict(zip(codec.axes(len(lengths)), lengths, strict=True))
        lengths = tuple(by_axis[axis] for axis in range(len(lengths)))
    return lengths
