"""Constraints on arrays of format 2: `Zarr2`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, Self, TypeAlias

from tessarr.codec import ArraySpec, Chain, Codec
from tessarr.codec.read import read_v2
from tessarr.errors import ArgumentError
from tessarr.format.chunk_key_encoding import Separator, V2Keys
from tessarr.format.validation import Problems
from tessarr.index_space import View
from tessarr.metadata import v2
from tessarr.metadata.node import ArrayMeta
from tessarr.tensorstore.drivers.zarr.constraints import (
    Constraints,
    NewArray,
    parse_data_type,
)
from tessarr.tensorstore.json.parse import (
    check_equal,
    choice,
    lengths,
    normalize_json,
    read_object,
    refuse_unknown,
    take_member,
)
from tessarr.tensorstore.schema.choose_chunk_shape import (
    choose_chunk_shapes,
    unified_chunks,
)
from tessarr.tensorstore.schema.codec_spec import (
    NOTHING,
    OPEN,
    CodecSpec,
    Compression,
    compressor_from_json,
    filters_from_json,
)
from tessarr.tensorstore.schema.layout_constraints import LayoutConstraints
from tessarr.tensorstore.schema.schema import Schema
from tessarr.types import JSONObject, Shape

__all__ = ["Zarr2", "chunk_layout_of", "codec_of"]

Order = Literal["C", "F"]
FiltersAndCompressor: TypeAlias = "tuple[list[Codec], Codec | None]"
"""Filters and compressor."""


@dataclass(frozen=True, slots=True)
class Zarr2(Constraints):
    """Constraints on metadata: members of ``.zarray``, all optional."""

    order: Order | None = None
    separator: Separator | None = None
    compression: Compression = NOTHING

    driver = "zarr"
    zarr_format = 2
    unknown_inner = None
    data_type_member = "dtype"

    @classmethod
    def read(cls, json: Any) -> Self:
        """Return the constraints of JSON members, which may include ``attributes``."""
        members = read_object(normalize_json(json, "metadata"), "metadata")
        explicit_defaults: JSONObject = {}
        filters = None
        if "zarr_format" in members:
            explicit_defaults["zarr_format"] = choice(2)(members.pop("zarr_format"), "zarr_format")
        if "filters" in members:
            filters = explicit_defaults["filters"] = (
                filters_from_json(members.pop("filters")) or None
            )
        compressor: Any = OPEN
        if "compressor" in members:
            compressor = compressor_from_json(members.pop("compressor"))
        constraints = cls(
            shape=take_member(members, "shape", lengths(0)),
            data_type=take_member(
                members, "dtype", lambda json, path: parse_data_type(json, 2, path)
            ),
            chunk_shape=take_member(members, "chunks", lengths(1)),
            fill=members.pop("fill_value", OPEN),
            attributes=take_member(members, "attributes", read_object) or {},
            explicit_defaults=explicit_defaults,
            order=take_member(members, "order", choice("C", "F")),
            separator=take_member(members, "dimension_separator", choice(".", "/")),
            compression=Compression(compressor, filters),
        )
        refuse_unknown(members, "metadata")
        if constraints.shape is not None and constraints.chunk_shape is not None:
            check_equal(
                "metadata/chunks: rank", len(constraints.shape), len(constraints.chunk_shape)
            )
        if constraints.fill is not OPEN:
            constraints.fill_bytes()
        return constraints

    def to_json(self) -> JSONObject:
        """Return the constraints as JSON."""
        result: JSONObject = dict(self.explicit_defaults)
        if self.shape is not None:
            result["shape"] = list(self.shape)
        if self.chunk_shape is not None:
            result["chunks"] = list(self.chunk_shape)
        if self.data_type is not None:
            result["dtype"] = self.data_type.to_json(2)
            if self.fill is not OPEN:
                fill = self.fill_bytes()
                fill_json = None if fill is None else self.data_type.fill_to_json(fill, 2)
                if self.data_type.numpy.kind == "f" and isinstance(fill_json, int):
                    fill_json = float(fill_json)  # as TensorStore has it
                result["fill_value"] = fill_json
        if self.order is not None:
            result["order"] = self.order
        if self.separator is not None:
            result["dimension_separator"] = self.separator
        if self.compression.compressor is not OPEN:
            result["compressor"] = self.compression.compressor
        if self.attributes:
            result["attributes"] = self.attributes
        return result

    @property
    def rank(self) -> int | None:
        """The number of chunked dimensions, or None while it is open."""
        known = self.shape if self.shape is not None else self.chunk_shape
        return None if known is None else len(known)

    @property
    def codec(self) -> CodecSpec:
        """The known encoding of chunks."""
        return CodecSpec._of("zarr", compression=self.compression)

    def chunks(self, chunked: int | None, rank: int, inner: Shape) -> LayoutConstraints:
        """Return the known constraints on chunks."""
        if chunked is None:
            return _known_layout(rank, rank, None, None, ())
        return _known_layout(chunked, rank, self.chunk_shape, self.order, inner)

    def choose_chunks(
        self, layout: LayoutConstraints, extent: View, chunked: int
    ) -> tuple[Shape, Shape]:
        """Return the chunk shape as the shape of read and write chunks."""
        # The inner dimensions of elements count as dimensions of chunks.
        read, write = choose_chunk_shapes(unified_chunks(layout), extent, extent.rank)
        return read[:chunked], write[:chunked]

    def _build_metadata(self, schema: Schema, new: NewArray) -> ArrayMeta:
        """Return the metadata of a new array."""
        rank, spec = len(new.shape), new.spec
        compression = self.compression
        if schema.codec is not None:
            compression = self.codec._merge_with(schema.codec)._compression
        compressor = _BLOSC if compression.compressor is OPEN else compression.compressor
        parts = _read_codecs(compressor, compression.filters or [])
        return ArrayMeta(
            2,
            new.shape,
            spec.data_type,
            new.grid,
            _KEYS[self.separator],
            spec.fill,
            _settle(parts, spec, _memory_order(new.layout, rank)),
            self.attributes,
            last_is_filter=parts[1] is None and bool(parts[0]),
        )

    def check_members(self, meta: ArrayMeta) -> None:
        """Raise an error if the metadata does not have the members of the constraints."""
        self.check_common_members(meta, meta.chunk_spec.shape, meta.fill_value)
        check_equal("order", self.order, meta.order)
        # A document without the member means "."; other keys would count as missing chunks.
        separator = getattr(meta.chunk_key_encoding, "separator", ".")
        check_equal("dimension_separator", self.separator, separator)
        codec_of(meta)._compression.merge(self.compression)


def _read_codecs(compressor: Any, filters: list[Any]) -> FiltersAndCompressor:
    """Return the filters and the compressor that JSON describes."""
    problems = Problems(strict=True)
    codecs = [
        read_v2(one, f"/filters/{k}", problems, first=k == 0) for k, one in enumerate(filters)
    ]
    last = compressor and read_v2(compressor, "/compressor", problems, first=not filters)
    problems.check("metadata")
    return [one for one in codecs if one is not None], last


def _settle(parts: FiltersAndCompressor, spec: ArraySpec, order: Order) -> Chain:
    """Return the codecs for chunks, with choices for all open options."""
    problems = Problems()
    v2.check_codecs(spec, *parts, problems)
    problems.check("metadata")
    return v2.build_chain(order == "F", len(spec.shape), *parts).resolve(spec, 2)


_BLOSC: Final = compressor_from_json({"id": "blosc"})
_KEYS: Final = {None: V2Keys("."), ".": V2Keys("."), "/": V2Keys("/")}


def codec_of(meta: ArrayMeta) -> CodecSpec:
    """Return the encoding of the chunks of an array."""
    _, filters, compressor = v2.split_chain(meta.codecs, meta.rank, meta.last_is_filter)
    compressor_json = None if compressor is None else compressor_from_json(compressor.to_json(2))
    compression = Compression(compressor_json, [codec.to_json(2) for codec in filters] or None)
    return CodecSpec._of("zarr", compression=compression)


def chunk_layout_of(meta: ArrayMeta, inner: Shape = ()) -> LayoutConstraints:
    """Return the chunk layout of an array."""
    rank = meta.rank + len(inner)
    return _known_layout(meta.rank, rank, meta.chunk_spec.shape, meta.order, inner)


def _memory_order(layout: LayoutConstraints, chunked: int) -> Order:
    order_constraint = layout.order
    if order_constraint is None:
        return "C"
    inner = layout.rank - chunked
    for order in ("C", "F"):
        if order_constraint.value == _axes(order, chunked, inner):
            return "F" if order == "F" else "C"
    if order_constraint.hard:
        raise ArgumentError(
            f"inner_order {list(order_constraint.value)}: format 2 has only the orders C and F"
        )
    return "C"


def _axes(order: str, chunked: int, inner: int) -> Shape:
    axes = range(chunked)
    return (*(axes if order == "C" else reversed(axes)), *range(chunked, chunked + inner))


def _known_layout(
    chunked: int, rank: int, chunks: Shape | None, order: Order | None, inner: Shape
) -> LayoutConstraints:
    shape = (*(chunks or (0,) * (rank - len(inner))), *inner) if chunks or inner else None
    axes = None if order is None else _axes(order, chunked, len(inner))
    return LayoutConstraints.known(rank, shape, shape, axes)
