"""Arrays of format 3: what a spec's ``metadata`` asks for, and the metadata that meets it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tessarr import dtype as data_types
from tessarr import keys
from tessarr.errors import ArgumentError
from tessarr.grid import RegularGrid
from tessarr.metadata import v3
from tessarr.metadata.node import ArrayMeta
from tessarr.problems import Problems, read_extension
from tessarr.space import INFINITE, Dim, IndexDomain
from tessarr.tensorstore.chain import Chain, Wanted
from tessarr.tensorstore.choose import choose, choose_one
from tessarr.tensorstore.chunk_layout import ChunkLayout
from tessarr.tensorstore.codec_spec import OPEN, CodecSpec
from tessarr.tensorstore.element import WHOLE, Element, Field, element_of, stored_type
from tessarr.tensorstore.fill import new_fill, scalar_of
from tessarr.tensorstore.reading import (
    choice,
    compare,
    items,
    lengths,
    members_of,
    nothing_else,
    plain,
    refuse,
    take,
)
from tessarr.tensorstore.schema import Schema
from tessarr.tensorstore.through import merged_domains
from tessarr.tensorstore.units import Unit, Units, merged_units
from tessarr.types import JSONObject, Shape

__all__ = ["Zarr3", "chain_of", "chunk_layout_of", "codec_of", "key_encoding_json", "units_of"]

Names = tuple[str | None, ...]
_UNITS: Final = "dimension_units"


@dataclass(frozen=True, slots=True)
class Zarr3:
    """Constraints on metadata: members of ``zarr.json``, of which any may be left out."""

    shape: Shape | None = None
    data_type: data_types.DataType | None = None
    chunk_shape: Shape | None = None
    key_encoding: keys.ChunkKeyEncoding | None = None
    fill: Any = OPEN
    chain: Chain | None = None
    names: Names | None = None
    units: Units | None = None
    attributes: JSONObject = field(default_factory=dict)
    extra: JSONObject = field(default_factory=dict)
    stated: JSONObject = field(default_factory=dict)

    driver = "zarr3"

    @classmethod
    def read(cls, json: Any) -> Zarr3:
        """Return the constraints that JSON states.

        Raises
        ------
        ArgumentError
            If a member is not what it may be.
        """
        if isinstance(json, Zarr3):
            return json
        members = members_of(plain(json, "metadata"), "metadata")
        stated: JSONObject = {}
        for name, only in (("zarr_format", 3), ("node_type", "array")):
            if name in members:
                stated[name] = choice(only)(members.pop(name), name)
        attributes = take(members, "attributes", members_of)
        found = cls(
            shape=take(members, "shape", lengths(0)),
            data_type=take(members, "data_type", _data_type),
            chunk_shape=take(members, "chunk_grid", _chunk_grid),
            key_encoding=take(members, "chunk_key_encoding", _key_encoding),
            fill=members.pop("fill_value", OPEN),
            chain=take(members, "codecs", Chain.read),
            names=take(members, "dimension_names", _names),
            units=None if attributes is None else take(attributes, _UNITS, _units),
            attributes=attributes or {},
            stated=stated,
        )
        if items(members.pop("storage_transformers", []), "storage_transformers"):
            raise ArgumentError("storage_transformers: there are none that this driver has")
        found = replace(found, extra=_extra(members))
        ranks = {name: len(part) for name, part in found._per_dimension().items()}
        if len(set(ranks.values())) > 1:
            raise ArgumentError(f"metadata: members differ in rank: {ranks}")
        if found.fill is not OPEN:
            found._fill_bytes()
        return found

    def _per_dimension(self) -> dict[str, tuple[Any, ...]]:
        parts: dict[str, tuple[Any, ...] | None] = {
            "shape": self.shape,
            "chunk_shape": self.chunk_shape,
            "dimension_names": self.names,
            _UNITS: self.units,
        }
        return {name: part for name, part in parts.items() if part is not None}

    def _fill_bytes(self) -> bytes:
        if self.data_type is None:
            raise ArgumentError("fill_value: it needs data_type in the same object")
        return _fill_bytes(self.data_type, self.fill)

    def to_json(self) -> JSONObject:
        """Return the constraints as JSON."""
        result: JSONObject = dict(self.stated)
        if self.shape is not None:
            result["shape"] = list(self.shape)
        if self.data_type is not None:
            result["data_type"] = self.data_type.to_json(3)
            if self.fill is not OPEN:
                result["fill_value"] = self.data_type.fill_to_json(self._fill_bytes(), 3)
        if self.chunk_shape is not None:
            result["chunk_grid"] = RegularGrid(self.chunk_shape).to_json()
        if self.key_encoding is not None:
            result["chunk_key_encoding"] = key_encoding_json(self.key_encoding)
        if self.chain is not None:
            result["codecs"] = self.chain.to_json()
        if self.names is not None:
            result["dimension_names"] = list(self.names)
        attributes = dict(self.attributes)
        if self.units is not None:
            attributes[_UNITS] = [None if unit is None else str(unit) for unit in self.units]
        if attributes:
            result["attributes"] = attributes
        return {**result, **self.extra}

    @property
    def rank(self) -> int | None:
        """The number of dimensions of chunks, or None while it is open."""
        return next((len(part) for part in self._per_dimension().values()), None)

    def element(self, schema: Schema, of: Field) -> Element | None:
        """Return what an element is, or None while it is open."""
        if self.data_type is not None:
            return element_of(self.data_type, of)
        return None if schema.dtype is None else Element(schema.dtype, ())

    def effective(self, schema: Schema, of: Field = WHOLE) -> Schema:
        """Return all that is known of an array: by the schema, and by these constraints.

        Raises
        ------
        ArgumentError
            If they contradict each other.
        """
        names = None if self.data_type is None else self.data_type.numpy.names
        several = names is not None and len(names) > 1 and of == WHOLE
        element = None if several else self.element(schema, of)
        made = Schema(dtype=None if element is None else element.dtype, rank=schema.rank)
        inner = () if element is None else element.inner
        if self.rank is not None:
            made.update(rank=self.rank + len(inner))
        made.update(domain=self.domain(schema, inner))
        made.update(chunk_layout=self.layout(schema, made.rank, inner))
        chain = CodecSpec.of_chain(self.chain)
        made.update(codec=chain if schema.codec is None else chain.merged(schema.codec))
        if self.units is not None:
            made.update(dimension_units=(*self.units, *(None for _ in inner)))
        if self.fill is not OPEN and not several:
            assert self.data_type is not None
            scalar = scalar_of(self.data_type, self._fill_bytes(), of)
            made.update(fill_value=scalar)
        fill = schema.fill_value if made.fill_value is None else None
        units = schema.dimension_units
        left = Schema(dtype=schema.dtype, fill_value=fill, dimension_units=units)
        return made.merged(left)

    def domain(self, schema: Schema, inner: Shape = ()) -> IndexDomain | None:
        """Return what is known of the domain, or None where nothing is.

        Raises
        ------
        ArgumentError
            If the schema's domain is another one.
        """
        given = schema.domain
        if self.shape is None and self.names is None and given is None:
            return IndexDomain(0) if schema.rank == 0 else None
        rank = self.rank
        if rank is None:
            rank = (given.rank if given is not None else schema.rank or 0) - len(inner)
        if rank < 0:
            raise ArgumentError(f"rank {schema.rank} is too small for elements of shape {inner}")
        shape = self.shape or (INFINITE + 1,) * rank
        names = self.names or (None,) * rank
        if len(names) != rank or not _unique(names):
            names = (None,) * rank
        dims = [
            Dim.of(0, min(length, INFINITE + 1), name or "", (False, True))
            for length, name in zip(shape, names, strict=True)
        ]
        dims += [Dim.of(0, length) for length in inner]
        domain = IndexDomain(dims)
        if given is not None:
            domain = merged_domains(given, domain)
        marked = [
            Dim.of(dim.inclusive_min, dim.exclusive_max, dim.label, (False, k < rank))
            for k, dim in enumerate(domain.dims)
        ]
        return IndexDomain(marked)

    def layout(self, schema: Schema, rank: int | None, inner: Shape = ()) -> ChunkLayout:
        """Return what is known of the layout of chunks.

        Raises
        ------
        ArgumentError
            If the schema asks for another one.
        """
        given = schema.chunk_layout
        if rank is None:
            return given
        return _with_chunks(given, rank, self.chunk_shape, self.chain, inner)

    def create(self, schema: Schema, of: Field = WHOLE) -> ArrayMeta:
        """Return the metadata of a new array.

        Raises
        ------
        ArgumentError, MetadataError
            If constraints contradict each other, or leave shape or data type open.
        """
        stored = self.data_type
        if stored is None:
            if of != WHOLE:
                raise ArgumentError("field: it needs data_type in metadata")
            if schema.dtype is None:
                raise ArgumentError("an array is created with a data type: give dtype")
            stored = stored_type(schema.dtype, self.driver)
        element = element_of(stored, of)
        schema = schema.merged(Schema(dtype=element.dtype))
        inner = element.inner
        domain = self.domain(schema, inner)
        if domain is None or not all(dim.finite for dim in domain.dims):
            raise ArgumentError("an array is created with a finite domain: give shape or domain")
        rank = domain.rank - len(inner)
        layout = self.layout(schema, domain.rank, inner).leading(rank)
        if self.chain is not None and self.chain.height == 0:
            read = write = choose_one(
                layout, domain.dims[:rank]
            )  # it says that there are no shards
        else:
            read, write = choose(layout, domain.dims[:rank])
        chain = self.chain
        if schema.codec is not None:
            chain = CodecSpec.of_chain(chain).merged(schema.codec).chain
        chain = chain or Chain()
        if read != write and chain.height == 0:
            chain = chain.sharded(read)
        order = None if layout.order is None else layout.order.value
        document: JSONObject = {
            "zarr_format": 3,
            "node_type": "array",
            "shape": list(domain.shape[:rank]),
            "data_type": stored.to_json(3),
            "chunk_grid": RegularGrid(write).to_json(),
            "chunk_key_encoding": (self.key_encoding or keys.DefaultKeys()).to_json(),
            "fill_value": self._new_fill(schema, stored),
            "codecs": chain.complete(Wanted(stored, rank, read, order)),
            "attributes": self._new_attributes(schema, rank),
            **self.extra,
        }
        names = self._new_names(domain, rank)
        if names is not None:
            document["dimension_names"] = names
        meta = v3.read(document, where="")
        assert isinstance(meta, ArrayMeta)
        self.check(meta, schema, of)
        return meta

    def _new_fill(self, schema: Schema, stored: data_types.DataType) -> Any:
        if self.fill is not OPEN:
            return stored.fill_to_json(self._fill_bytes(), 3)
        if schema.fill_value is None:
            return stored.fill_to_json(stored.default_fill(), 3)
        if stored.numpy.names:
            raise ArgumentError("fill_value: that of records is given in metadata")
        return stored.fill_to_json(new_fill(schema.fill_value, stored), 3)

    def _new_attributes(self, schema: Schema, rank: int) -> JSONObject:
        units = merged_units(self.units or (), (schema.dimension_units or ())[:rank])
        if not any(unit is not None for unit in units):
            return dict(self.attributes)
        stated = [None if unit is None else str(unit) for unit in units]
        return {**self.attributes, _UNITS: stated}

    def _new_names(self, domain: IndexDomain, rank: int) -> list[str | None] | None:
        stated = self.names if self.names is not None and _unique(self.names) else None
        names = [
            label or ("" if stated is not None and stated[k] is not None else None)
            for k, label in enumerate(domain.labels[:rank])
        ]
        return names if any(name is not None for name in names) else None

    def check(self, meta: ArrayMeta, schema: Schema, of: Field = WHOLE) -> None:
        """Refuse an array that does not meet what has to be.

        Raises
        ------
        ArgumentError
            If it does not.
        """
        self._check_members(meta)
        _check_schema(meta, schema, of)

    def _check_members(self, meta: ArrayMeta) -> None:
        if self.data_type is not None:
            compare("data_type", self.data_type.to_json(3), meta.data_type.to_json(3))
        if self.fill is not OPEN and self._fill_bytes() != _fill_of(meta):
            raise ArgumentError(
                f"metadata: fill_value {self.fill!r} does not match {meta.fill_scalar!r}"
            )
        compare("shape", self.shape, meta.shape)
        compare("chunk_shape", self.chunk_shape, _chunk_shape(meta))
        if self.key_encoding is not None:
            wanted, found = self.key_encoding.to_json(), meta.chunk_key_encoding.to_json()
            compare("chunk_key_encoding", wanted, found)
        if self.chain is not None:
            try:
                chain_of(meta).merged(self.chain, strict=True)
            except ArgumentError as error:
                raise ArgumentError(f"metadata: codecs: {error}") from error
        if self.names is not None:
            compare("dimension_names", self.names, meta.dimension_names or (None,) * meta.rank)
        for name, wanted in self.attributes.items():
            compare(f"attributes/{name}", wanted, meta.attributes.get(name))
        for name, wanted in self.extra.items():
            compare(name, wanted, meta.extra.get(name))
        for one, other in zip(self.units or (), units_of(meta), strict=False):
            if one is not None and one != other:
                raise ArgumentError(f"metadata: the unit {one} does not match {other}")


def _check_schema(meta: ArrayMeta, schema: Schema, of: Field) -> None:
    element = element_of(meta.data_type, of)
    rank = meta.rank + len(element.inner)
    compare("rank", schema.rank, rank)
    if schema.dtype is not None:
        compare("dtype", schema.dtype.name, element.dtype.name)
    if schema.domain is not None:
        known = Zarr3(shape=meta.shape, names=meta.dimension_names or (None,) * meta.rank)
        known.domain(schema, element.inner)
    layout = schema.chunk_layout
    if layout.rank >= 0:
        if any(layout.codec_chunk.shape or ()):
            raise ArgumentError("codec_chunk: a constraint on its shape is not supported")
        chain = chain_of(meta)
        _with_chunks(layout, rank, _chunk_shape(meta), chain, element.inner)
    if schema.fill_value is not None and not meta.data_type.numpy.names and not of.as_void:
        wanted = new_fill(schema.fill_value, meta.data_type)
        if wanted != _fill_of(meta):
            raise ArgumentError(
                f"fill_value {schema.fill_value} does not match {meta.fill_scalar!r}"
            )
    if schema.codec is not None:
        codec_of(meta).merged(schema.codec)
    if schema.dimension_units is not None:
        units = (*units_of(meta), *(None for _ in element.inner))
        merged_units(units, schema.dimension_units)


def units_of(meta: ArrayMeta) -> Units:
    """Return the units that attributes state; what is no unit counts as not known."""
    stated = meta.attributes.get(_UNITS)
    nothing: Units = (None,) * meta.rank
    if not isinstance(stated, list) or len(stated) != meta.rank:
        return nothing
    return tuple(Unit(unit) if isinstance(unit, str) else None for unit in stated)


def chain_of(meta: ArrayMeta) -> Chain:
    """Return the codecs of an array, with the options that documents may leave out."""
    return Chain.read(meta.codecs.to_json()).stated()


def key_encoding_json(encoding: keys.ChunkKeyEncoding) -> Any:
    """Return a chunk key encoding as JSON, without a separator that is the usual one."""
    if encoding in (keys.DefaultKeys(), keys.V2Keys()):
        return {"name": encoding.name}
    return encoding.to_json()


def codec_of(meta: ArrayMeta) -> CodecSpec:
    """Return how the chunks of an array are encoded."""
    return CodecSpec.of_chain(chain_of(meta))


def chunk_layout_of(meta: ArrayMeta, inner: Shape = ()) -> ChunkLayout:
    """Return the layout of the chunks of an array."""
    chain = chain_of(meta)
    rank = meta.rank + len(inner)
    return _with_chunks(ChunkLayout(), rank, _chunk_shape(meta), chain, inner)


def _chunk_shape(meta: ArrayMeta) -> Shape | None:
    regular = meta.chunk_grid.regular()
    return None if regular is None else regular.chunk_shape


def _fill_of(meta: ArrayMeta) -> bytes:
    return meta.data_type.default_fill() if meta.fill_value is None else meta.fill_value


def _with_chunks(
    given: ChunkLayout, rank: int, chunk: Shape | None, chain: Chain | None, inner: Shape
) -> ChunkLayout:
    """Return a layout, and what is known of chunks: of all dimensions, or all but the inner."""
    rank -= len(inner)
    order, read = (None, None) if chain is None else chain.layout(rank, chunk)
    more: Shape = () if given.rank == rank else inner
    found = ChunkLayout.known(
        rank + len(more),
        None if chunk is None else (*chunk, *more),
        None if read is None else (*read, *more),
        None if order is None else (*order, *range(rank, rank + len(more))),
    )
    return given.merge(found)


def _fill_bytes(stored: data_types.DataType, value: Any) -> bytes:
    problems = Problems()
    fill = stored.fill_from_json(value, 3, "fill_value", problems)
    if fill is None:
        refuse(problems)
    assert fill is not None
    return fill


def _unique(names: Names) -> bool:
    told = [name for name in names if name]
    return len(set(told)) == len(told)


def _data_type(value: Any, what: str) -> data_types.DataType:
    problems = Problems()
    found = data_types.from_json(value, 3, what, problems)
    refuse(problems)
    assert found is not None
    return found


def _chunk_grid(value: Any, what: str) -> Shape | None:
    members = members_of(value, what)
    if "name" in members:
        choice("regular")(members.pop("name"), f"{what}/name")
    configuration = members_of(members.pop("configuration", {}), f"{what}/configuration")
    shape = take(configuration, "chunk_shape", lengths(1))
    nothing_else(members, what)
    nothing_else(configuration, f"{what}/configuration")
    return shape


def _key_encoding(value: Any, what: str) -> keys.ChunkKeyEncoding:
    problems = Problems()
    extension = read_extension(value, "chunk key encoding", what, problems)
    found = None
    if extension is not None:
        cls = keys.find_key_encoding(extension.name)
        if cls is None:
            raise ArgumentError(f"{what}: there is no chunk key encoding {extension.name!r}")
        found = cls.from_json(extension.configuration)
    refuse(problems)
    assert found is not None
    return found


def _names(value: Any, what: str) -> Names:
    names = items(value, what)
    for k, name in enumerate(names):
        if name is not None and not isinstance(name, str):
            raise ArgumentError(f"{what}/{k}: {name!r} is not a string or null")
    return tuple(names)


def _units(value: Any, what: str) -> Units:
    return tuple(_unit(unit, f"{what}/{k}") for k, unit in enumerate(items(value, what)))


def _unit(value: Any, what: str) -> Unit | None:
    if value is not None and not isinstance(value, str):
        raise ArgumentError(f"{what}: {value!r} is not a string or null")
    return None if value is None else Unit(value)


def _extra(members: Mapping[str, Any]) -> JSONObject:
    for name, value in members.items():
        if not isinstance(value, Mapping) or value.get("must_understand") is not False:
            raise ArgumentError(f'metadata: {name!r} is not known: add "must_understand": false')
    return dict(members)
