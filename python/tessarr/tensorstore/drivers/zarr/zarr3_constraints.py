"""Constraints on arrays of format 3: `Zarr3`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from tessarr import codec
from tessarr._safe_repr import safe_repr
from tessarr.codec import ArraySpec
from tessarr.errors import ArgumentError
from tessarr.format import chunk_key_encoding
from tessarr.format.chunk_grid import RegularGrid
from tessarr.format.validation import Problems, read_extension
from tessarr.index_space import View
from tessarr.metadata.node import ArrayMeta
from tessarr.tensorstore.drivers.zarr.complete_codecs import CodecTarget, complete_chain
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
    raise_problems,
    read_items,
    read_object,
    refuse_unknown,
    take_member,
    text,
)
from tessarr.tensorstore.schema.choose_chunk_shape import (
    choose_chunk_shapes,
    unified_chunks,
)
from tessarr.tensorstore.schema.codec_chain_spec import SHARDING, ChainSpec
from tessarr.tensorstore.schema.codec_spec import OPEN, CodecSpec
from tessarr.tensorstore.schema.element_type import WHOLE, Element, Field, element_of
from tessarr.tensorstore.schema.layout_constraints import LayoutConstraints
from tessarr.tensorstore.schema.schema import Schema
from tessarr.tensorstore.schema.units import Unit, Units, merge_units
from tessarr.types import JSONObject, Shape

__all__ = ["Zarr3", "chain_of", "chunk_layout_of", "codec_of", "key_encoding_json", "units_of"]

Names = tuple[str | None, ...]
_UNITS: Final = "dimension_units"


@dataclass(frozen=True, slots=True)
class Zarr3(Constraints):
    """Constraints on metadata: members of ``zarr.json``, all optional."""

    key_encoding: chunk_key_encoding.ChunkKeyEncoding | None = None
    chain: ChainSpec | None = None
    names: Names | None = None
    units: Units | None = None
    extra: JSONObject = field(default_factory=dict)

    driver = "zarr3"
    zarr_format = 3
    unknown_inner = ()
    data_type_member = "data_type"

    @classmethod
    def read(cls, json: Any) -> Self:
        """Return the constraints of JSON members."""
        members = read_object(normalize_json(json, "metadata"), "metadata")
        explicit_defaults: JSONObject = {}
        take_member(members, "node_type", choice("array"))  # every spec has it
        if "zarr_format" in members:
            explicit_defaults["zarr_format"] = choice(3)(members.pop("zarr_format"), "zarr_format")
        attributes = take_member(members, "attributes", read_object)
        if read_items(members.pop("storage_transformers", []), "storage_transformers"):
            raise ArgumentError("storage_transformers: this driver supports none")
        constraints = cls(
            shape=take_member(members, "shape", lengths(0)),
            data_type=take_member(
                members, "data_type", lambda json, path: parse_data_type(json, 3, path)
            ),
            chunk_shape=take_member(members, "chunk_grid", _chunk_grid),
            key_encoding=take_member(members, "chunk_key_encoding", _key_encoding),
            fill=members.pop("fill_value", OPEN),
            chain=take_member(members, "codecs", ChainSpec.read),
            names=take_member(members, "dimension_names", _names),
            units=None if attributes is None else take_member(attributes, _UNITS, _units),
            attributes=attributes or {},
            explicit_defaults=explicit_defaults,
            extra=_extra(members),  # the remaining members
        )
        ranks = {name: len(part) for name, part in constraints._per_dimension().items()}
        if len(set(ranks.values())) > 1:
            raise ArgumentError(f"metadata: members differ in rank: {ranks}")
        if constraints.fill is not OPEN:
            constraints.fill_bytes()
        return constraints

    def _per_dimension(self) -> dict[str, tuple[Any, ...]]:
        parts: dict[str, tuple[Any, ...] | None] = {
            "shape": self.shape,
            "chunk_shape": self.chunk_shape,
            "dimension_names": self.names,
            _UNITS: self.units,
        }
        return {name: part for name, part in parts.items() if part is not None}

    def to_json(self) -> JSONObject:
        """Return the constraints as JSON."""
        result: JSONObject = dict(self.explicit_defaults)
        if self.shape is not None:
            result["shape"] = list(self.shape)
        if self.data_type is not None:
            result["data_type"] = self.data_type.to_json(3)
            fill = None if self.fill is OPEN else self.fill_bytes()
            if fill is not None:
                result["fill_value"] = self.data_type.fill_to_json(fill, 3)
        if self.chunk_shape is not None:
            result["chunk_grid"] = RegularGrid(self.chunk_shape).to_json()
        if self.key_encoding is not None:
            result["chunk_key_encoding"] = key_encoding_json(self.key_encoding)
        if self.chain is not None:
            result["codecs"] = self.chain.to_json()
        if any(name is not None for name in self.names or ()):
            result["dimension_names"] = list(self.names or ())
        attributes = dict(self.attributes)
        if self.units is not None:
            attributes[_UNITS] = [None if unit is None else str(unit) for unit in self.units]
        if attributes:
            result["attributes"] = attributes
        return {**result, **self.extra}

    def default_members(self) -> JSONObject:
        """Return members with the defaults that their JSON omits."""
        encoding = self.key_encoding
        return {} if encoding is None else {"chunk_key_encoding": encoding.to_json()}

    @property
    def rank(self) -> int | None:
        """The number of chunked dimensions, or None while it is open."""
        return next((len(part) for part in self._per_dimension().values()), None)

    @property
    def codec(self) -> CodecSpec:
        """The known encoding of chunks."""
        return CodecSpec._of("zarr3", self.chain)

    @property
    def dimension_names(self) -> Names | None:
        """The names of dimensions, or None while they are open."""
        return self.names

    @property
    def dimension_units(self) -> Units | None:
        """The units of dimensions, or None while they are open."""
        return self.units

    def element(self, schema: Schema, of: Field) -> Element | None:
        """Return the type of an element, or None while it is open."""
        if self.data_type is None:  # data types of schemas have no inner dimensions
            return None if schema.dtype is None else Element(schema.dtype, ())
        names = self.data_type.numpy.names
        several = names is not None and len(names) > 1 and of == WHOLE
        return None if several else element_of(self.data_type, of)

    def chunks(self, chunked: int | None, rank: int, inner: Shape) -> LayoutConstraints:
        """Return the known constraints on chunks."""
        return _known_layout(chunked, rank, self.chunk_shape, self.chain, inner)

    def choose_chunks(
        self, layout: LayoutConstraints, extent: View, chunked: int
    ) -> tuple[Shape, Shape]:
        """Return the shapes of read and write chunks."""
        leading = layout.leading(chunked)
        if self.chain is None or self.chain.sharding_levels > 0:
            return choose_chunk_shapes(leading.grids[:2], extent, chunked)
        # The codecs have no shards. The aspect ratio of codec chunks must fit, but chooses nothing.
        try:
            chunk_lengths, read = unified_chunks(leading, read_first=False)
        except ArgumentError as error:
            raise ArgumentError(
                f"{error}: {SHARDING} is not among the codecs, and without it no "
                "part of a write chunk can be read separately"
            ) from error
        _, _, codec = leading.grids
        chunk_lengths.merge(codec.hard()._replace(elements=None), "codec_chunk")
        return choose_chunk_shapes((chunk_lengths, read), extent, chunked)

    def _build_metadata(self, schema: Schema, new: NewArray) -> ArrayMeta:
        """Return the metadata of a new array."""
        rank = len(new.shape)
        chain = self.chain if schema.codec is None else self.codec._merge_with(schema.codec)._chain
        chain = chain or ChainSpec()
        if chain.sharding_levels == 0 and new.read != new.spec.shape:
            chain = chain.add_sharding(new.read)
        order = new.layout.leading(rank).order
        target = CodecTarget(new.spec.data_type, rank, new.read, order and order.value)
        return ArrayMeta(
            3,
            new.shape,
            new.spec.data_type,
            new.grid,
            self.key_encoding or chunk_key_encoding.DefaultKeys(),
            new.spec.fill,
            _read_codecs(complete_chain(chain, target), new.spec),
            self._new_attributes(schema, rank),
            self._new_names(new.labels, rank),
            extra=self.extra,
        )

    def _new_attributes(self, schema: Schema, rank: int) -> JSONObject:
        units = merge_units(self.units or (), (schema.dimension_units or ())[:rank])
        if units.count(None) == len(units):
            return self.attributes
        unit_texts = [None if unit is None else str(unit) for unit in units]
        return {**self.attributes, _UNITS: unit_texts}

    def _new_names(self, labels: tuple[str, ...], rank: int) -> Names | None:
        explicit_names = self.names if self.names is not None and _are_unique(self.names) else None
        if explicit_names is None and not any(labels):
            return None
        names = [
            label or ("" if explicit_names is not None and explicit_names[k] is not None else None)
            for k, label in enumerate(labels[:rank])
        ]
        return tuple(names) if any(name is not None for name in names) else None

    def check_members(self, meta: ArrayMeta) -> None:
        """Raise an error if the metadata does not have the members of the constraints."""
        self.check_common_members(meta, _chunk_shape(meta), meta.fill_or_default)
        if self.key_encoding is not None:
            expected, actual = self.key_encoding.to_json(), meta.chunk_key_encoding.to_json()
            check_equal("chunk_key_encoding", expected, actual)
        if self.chain is not None:
            try:
                chain_of(meta).merge(self.chain, strict=True)
            except ArgumentError as error:
                raise ArgumentError(f"metadata: codecs: {error}") from error
        if self.names is not None:
            check_equal("dimension_names", self.names, meta.axis_names or (None,) * meta.rank)
        for name, expected in self.extra.items():
            check_equal(name, expected, meta.extra.get(name))
        for unit, actual_unit in zip(self.units or (), units_of(meta), strict=False):
            if unit is not None and unit != actual_unit:
                raise ArgumentError(f"metadata: the unit {unit} does not match {actual_unit}")


def units_of(meta: ArrayMeta) -> Units:
    """Return the units in the attributes; invalid units count as unknown."""
    units = meta.attributes.get(_UNITS)
    nothing: Units = (None,) * meta.rank
    if not isinstance(units, list) or len(units) != meta.rank:
        return nothing
    return tuple(Unit(unit) if isinstance(unit, str) else None for unit in units)


def chain_of(meta: ArrayMeta) -> ChainSpec:
    """Return the codecs of an array, with the options that documents may omit."""
    return ChainSpec.read(meta.codecs.to_json()).with_defaults()


def _read_codecs(codecs_json: list[JSONObject], spec: ArraySpec) -> codec.Chain:
    """Return the codecs for chunks, with choices for all open options."""
    problems = Problems()
    codecs = codec.Chain.read(codecs_json, "/codecs", problems)
    problems.check("metadata")
    assert codecs is not None
    codecs.check(spec, "/codecs", problems)
    problems.check("metadata")
    return codecs.resolve(spec)


def key_encoding_json(encoding: chunk_key_encoding.ChunkKeyEncoding) -> Any:
    """Return a chunk key encoding as JSON, without a default separator."""
    if encoding in (chunk_key_encoding.DefaultKeys(), chunk_key_encoding.V2Keys()):
        return {"name": encoding.name}
    return encoding.to_json()


def codec_of(meta: ArrayMeta) -> CodecSpec:
    """Return the encoding of the chunks of an array."""
    return CodecSpec._of("zarr3", chain_of(meta))


def chunk_layout_of(meta: ArrayMeta, inner: Shape = ()) -> LayoutConstraints:
    """Return the chunk layout of an array."""
    rank = meta.rank + len(inner)
    return _known_layout(meta.rank, rank, _chunk_shape(meta), chain_of(meta), inner)


def _chunk_shape(meta: ArrayMeta) -> Shape | None:
    regular = meta.chunk_grid.regular()
    return None if regular is None else regular.chunk_shape


def _known_layout(
    chunked: int | None, rank: int, chunk: Shape | None, chain: ChainSpec | None, inner: Shape
) -> LayoutConstraints:
    order = read = None
    if chain is not None:
        chunked = rank - len(inner)
        order, read = chain.layout(chunked, chunk)
    return LayoutConstraints.known(
        rank,
        None if chunk is None else (*chunk, *inner),
        None if read is None else (*read, *inner),
        None if order is None else (*order, *range(rank - len(inner), rank)),
    )


def _are_unique(names: Names) -> bool:
    labels = [name for name in names if name]
    return len(set(labels)) == len(labels)


def _chunk_grid(value: Any, path: str) -> Shape:
    members = read_object(value, path)
    choice("regular")(members.pop("name", None), f"{path}/name")
    configuration = read_object(members.pop("configuration", None), f"{path}/configuration")
    shape = lengths(1)(configuration.pop("chunk_shape", None), f"{path}/chunk_shape")
    refuse_unknown(members, path)
    refuse_unknown(configuration, f"{path}/configuration")
    return shape


def _key_encoding(value: Any, path: str) -> chunk_key_encoding.ChunkKeyEncoding:
    problems = Problems()
    extension = read_extension(value, "chunk key encoding", path, problems)
    encoding = None
    if extension is not None:
        cls = chunk_key_encoding.find_key_encoding(extension.name)
        if cls is None:
            raise ArgumentError(
                f"{path}: there is no chunk key encoding {safe_repr(extension.name)}"
            )
        encoding = cls.from_json(extension.configuration)
    raise_problems(problems)
    assert encoding is not None
    return encoding


def _names(value: Any, path: str) -> Names:
    names = enumerate(read_items(value, path))
    return tuple(None if name is None else text(name, f"{path}/{k}") for k, name in names)


def _units(value: Any, path: str) -> Units:
    return tuple(_unit(unit, f"{path}/{k}") for k, unit in enumerate(read_items(value, path)))


def _unit(value: Any, path: str) -> Unit | None:
    return None if value is None else Unit(text(value, path))


def _extra(members: Mapping[str, Any]) -> JSONObject:
    for name, value in members.items():
        if not isinstance(value, Mapping) or value.get("must_understand") is not False:
            raise ArgumentError(
                f'metadata: {safe_repr(name)} is not known: add "must_understand": false'
            )
    return dict(members)
