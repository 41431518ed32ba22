"""Arrays of format 2: what a spec's ``metadata`` asks for, and the metadata that meets it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from tessarr import dtype as data_types
from tessarr.errors import ArgumentError, UnsupportedError
from tessarr.metadata import v2
from tessarr.metadata.node import ArrayMeta
from tessarr.problems import Problems
from tessarr.space import INFINITE, Dim, IndexDomain
from tessarr.tensorstore.choose import choose_one
from tessarr.tensorstore.chunk_layout import ChunkLayout
from tessarr.tensorstore.codec_spec import (
    NOTHING,
    OPEN,
    CodecSpec,
    Compression,
    compressor_from_json,
)
from tessarr.tensorstore.element import WHOLE, Field, element_of, stored_type
from tessarr.tensorstore.fill import new_fill, scalar_of
from tessarr.tensorstore.reading import (
    choice,
    compare,
    lengths,
    members_of,
    nothing_else,
    plain,
    refuse,
    take,
)
from tessarr.tensorstore.schema import Schema
from tessarr.tensorstore.through import merged_domains
from tessarr.types import JSONObject, Shape

__all__ = ["Zarr2", "chunk_layout_of", "codec_of"]

Order = Literal["C", "F"]


@dataclass(frozen=True, slots=True)
class Zarr2:
    """Constraints on metadata: members of ``.zarray``, of which any may be left out."""

    shape: Shape | None = None
    data_type: data_types.DataType | None = None
    chunks: Shape | None = None
    order: Order | None = None
    separator: str | None = None
    fill: Any = OPEN
    compression: Compression = NOTHING
    attributes: JSONObject = field(default_factory=dict)
    stated: JSONObject = field(default_factory=dict)

    driver = "zarr"

    @classmethod
    def read(cls, json: Any) -> Zarr2:
        """Return the constraints that JSON states; ``attributes`` may be among them.

        Raises
        ------
        ArgumentError
            If a member is not what it may be.
        """
        if isinstance(json, Zarr2):
            return json
        members = members_of(plain(json, "metadata"), "metadata")
        stated: JSONObject = {}
        if "zarr_format" in members:
            stated["zarr_format"] = choice(2)(members.pop("zarr_format"), "zarr_format")
        if "filters" in members:
            stated["filters"] = plain(members["filters"], "filters") or None
        compressor: Any = OPEN
        if "compressor" in members:
            compressor = compressor_from_json(members.pop("compressor"))
        found = cls(
            shape=take(members, "shape", lengths(0)),
            data_type=take(members, "dtype", _data_type),
            chunks=take(members, "chunks", lengths(1)),
            order=take(members, "order", choice("C", "F")),
            separator=take(members, "dimension_separator", choice(".", "/")),
            fill=members.pop("fill_value", OPEN),
            compression=Compression(compressor, members.pop("filters", None)),
            attributes=take(members, "attributes", members_of) or {},
            stated=stated,
        )
        nothing_else(members, "metadata")
        if found.shape is not None and found.chunks is not None:
            compare("metadata/chunks: rank", len(found.shape), len(found.chunks))
        if found.fill is not OPEN:
            if found.data_type is None:
                raise ArgumentError("fill_value: it needs dtype in the same object")
            found._fill_bytes()
        return found

    def _fill_bytes(self) -> bytes | None:
        assert self.data_type is not None
        if self.fill is None:
            return None
        problems = Problems()
        found = self.data_type.fill_from_json(self.fill, 2, "fill_value", problems)
        refuse(problems)
        return found

    def to_json(self) -> JSONObject:
        """Return the constraints as JSON."""
        result: JSONObject = dict(self.stated)
        if self.shape is not None:
            result["shape"] = list(self.shape)
        if self.chunks is not None:
            result["chunks"] = list(self.chunks)
        if self.data_type is not None:
            result["dtype"] = self.data_type.to_json(2)
            if self.fill is not OPEN:
                fill = self._fill_bytes()
                stated = None if fill is None else self.data_type.fill_to_json(fill, 2)
                if self.data_type.numpy.kind == "f" and isinstance(stated, int):
                    stated = float(stated)  # as TensorStore has it
                result["fill_value"] = stated
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
        """The number of dimensions of chunks, or None while it is open."""
        known = self.shape if self.shape is not None else self.chunks
        return None if known is None else len(known)

    def effective(self, schema: Schema, of: Field = WHOLE) -> Schema:
        """Return all that is known of an array: by the schema, and by these constraints.

        Raises
        ------
        ArgumentError
            If they contradict each other.
        """
        element = None if self.data_type is None else element_of(self.data_type, of)
        made = Schema(dtype=None if element is None else element.dtype, rank=schema.rank)
        inner = None if element is None else element.inner
        if self.rank is not None and inner is not None:
            made.update(rank=self.rank + len(inner))
        made.update(domain=self.domain(schema, made.rank, inner))
        made.update(chunk_layout=self.layout(schema, made.rank, inner))
        codec = CodecSpec.of_compression(self.compression)
        made.update(codec=codec if schema.codec is None else codec.merged(schema.codec))
        if self.fill is not OPEN and self.fill is not None:
            assert self.data_type is not None
            stated = self._fill_bytes()
            assert stated is not None
            made.update(fill_value=scalar_of(self.data_type, stated, of))
        fill = schema.fill_value if self.fill is OPEN else None
        units = schema.dimension_units
        left = Schema(dtype=schema.dtype, fill_value=fill, dimension_units=units)
        return made.merged(left)

    def domain(
        self, schema: Schema, rank: int | None = None, inner: Shape | None = None
    ) -> IndexDomain | None:
        """Return what is known of the domain, or None where nothing is.

        Parameters
        ----------
        schema
            The schema.
        rank
            The number of dimensions; by default that of the schema.
        inner
            The dimensions inside of an element; None where they are not known.

        Raises
        ------
        ArgumentError
            If the schema's domain is another one.
        """
        rank = schema.rank if rank is None else rank
        given = schema.domain
        chunked = self._chunked(rank, inner)
        if rank is None:
            return given
        unknown = chunked is None or (chunked > 0 and self.shape is None)
        if given is None and (unknown or (inner is None and rank != chunked)):
            return given
        known = rank - len(inner or ())
        shape = self.shape or ()
        shape = (*shape, *(INFINITE + 1 for _ in range(known - len(shape))))
        dims = [Dim.of(0, min(length, INFINITE + 1), "", (False, True)) for length in shape]
        dims += [Dim.of(0, length) for length in inner or ()]
        domain = IndexDomain(dims)
        if given is not None:
            domain = merged_domains(domain, given)
        marked = [
            Dim.of(dim.inclusive_min, dim.exclusive_max, dim.label, (False, k < known))
            for k, dim in enumerate(domain.dims)
        ]
        return IndexDomain(marked)

    def _chunked(self, rank: int | None, inner: Shape | None) -> int | None:
        """Return the number of dimensions of chunks, or None while it is open."""
        chunked = self.rank
        if rank is not None and inner is not None:
            chunked = rank - len(inner)
        wrong = chunked is not None and rank is not None and not 0 <= chunked <= rank
        if wrong or self.rank not in {None, chunked}:
            raise ArgumentError(f"rank {rank} does not match metadata, of rank {self.rank}")
        return chunked

    def layout(self, schema: Schema, rank: int | None, inner: Shape | None = None) -> ChunkLayout:
        """Return what is known of the layout of chunks.

        Raises
        ------
        ArgumentError
            If the schema asks for another one.
        """
        if rank is None:
            return schema.chunk_layout
        chunked = self._chunked(rank, inner)
        if chunked is None:
            return _with_chunks(schema.chunk_layout, rank, None, None, ())
        inner = inner or (0,) * (rank - chunked)
        return _with_chunks(schema.chunk_layout, rank, self.chunks, self.order, inner)

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
                raise ArgumentError("field: it needs dtype in metadata")
            if schema.dtype is None:
                raise ArgumentError("an array is created with a data type: give dtype")
            stored = stored_type(schema.dtype, self.driver)
        why = stored.refusal(2)
        if why is not None:
            raise UnsupportedError(
                f"dtype {stored}: {why}", kind="unsupported_data_type", extension=str(stored)
            )
        element = element_of(stored, of)
        schema = schema.merged(Schema(dtype=element.dtype))
        rank = schema.rank
        if self.rank is not None:
            rank = self.rank + len(element.inner)
        domain = self.domain(schema, rank, element.inner)
        if domain is None or not all(dim.finite for dim in domain.dims):
            raise ArgumentError("an array is created with a finite domain: give shape or domain")
        chunked = domain.rank - len(element.inner)
        layout = self.layout(schema, domain.rank, element.inner)
        compression = self.compression
        if schema.codec is not None:
            compression = CodecSpec.of_compression(compression).merged(schema.codec).compression
        compressor = compression.compressor
        if compressor is OPEN:
            compressor = compressor_from_json({"id": "blosc"})
        document: JSONObject = {
            "zarr_format": 2,
            "shape": list(domain.shape[:chunked]),
            "chunks": list(choose_one(layout, domain.dims)[:chunked]),
            "dtype": stored.to_json(2),
            "compressor": compressor,
            "filters": compression.filters or None,
            "order": _order(layout, chunked, len(element.inner)),
            "fill_value": self._new_fill(schema, stored),
        }
        document["dimension_separator"] = self.separator or "."
        meta = v2.read_array(document, dict(self.attributes), where="")
        self.check(meta, schema, of)
        return meta

    def _new_fill(self, schema: Schema, stored: data_types.DataType) -> Any:
        if self.fill is not OPEN:
            fill = self._fill_bytes()
        elif schema.fill_value is None:
            fill = None
        else:
            fill = new_fill(schema.fill_value, stored)
        return None if fill is None else stored.fill_to_json(fill, 2)

    def check(self, meta: ArrayMeta, schema: Schema, of: Field = WHOLE) -> None:
        """Refuse an array that does not meet what has to be.

        Raises
        ------
        ArgumentError
            If it does not.
        """
        self._check_members(meta)
        element = element_of(meta.data_type, of)
        rank = meta.rank + len(element.inner)
        compare("rank", schema.rank, rank)
        if schema.dtype is not None:
            compare("dtype", schema.dtype.name, element.dtype.name)
        if schema.domain is not None:
            Zarr2(shape=meta.shape).domain(schema, rank, element.inner)
        if schema.codec is not None:
            codec_of(meta).merged(schema.codec)
        if schema.fill_value is not None and not meta.data_type.numpy.names and not of.as_void:
            if meta.fill_value is None:
                raise ArgumentError("fill_value: the array has none")
            if new_fill(schema.fill_value, meta.data_type) != meta.fill_value:
                raise ArgumentError(
                    f"fill_value {schema.fill_value} does not match {meta.fill_scalar!r}"
                )
        layout = schema.chunk_layout
        if layout.rank >= 0:
            _with_chunks(layout, rank, meta.chunk_spec.shape, meta.order, element.inner)
            if any(layout.codec_chunk.shape or ()):
                raise ArgumentError("codec_chunk: a constraint on its shape is not supported")
        if any(unit is not None for unit in schema.dimension_units or ()):
            raise ArgumentError("dimension_units: format 2 does not have them")

    def _check_members(self, meta: ArrayMeta) -> None:
        compare("shape", self.shape, meta.shape)
        compare("chunks", self.chunks, meta.chunk_spec.shape)
        compare("order", self.order, meta.order)
        if self.data_type is not None:
            compare("dtype", self.data_type.to_json(2), meta.data_type.to_json(2))
        if self.fill is not OPEN and self._fill_bytes() != meta.fill_value:
            raise ArgumentError(
                f"metadata: fill_value {self.fill!r} does not match {meta.fill_scalar!r}"
            )
        separator = getattr(meta.chunk_key_encoding, "separator", ".")
        if getattr(meta.chunk_key_encoding, "stated", True):
            compare("dimension_separator", self.separator, separator)
        codec_of(meta).compression.merged(self.compression)
        for name, wanted in self.attributes.items():
            compare(f"attributes/{name}", wanted, meta.attributes.get(name))


def codec_of(meta: ArrayMeta) -> CodecSpec:
    """Return how the chunks of an array are encoded."""
    document = v2.to_json(meta)
    compressor = document["compressor"]
    if compressor is not None:
        compressor = compressor_from_json(compressor)
    return CodecSpec.of_compression(Compression(compressor, document["filters"]))


def chunk_layout_of(meta: ArrayMeta, inner: Shape = ()) -> ChunkLayout:
    """Return the layout of the chunks of an array."""
    rank = meta.rank + len(inner)
    return _with_chunks(ChunkLayout(), rank, meta.chunk_spec.shape, meta.order, inner)


def _order(layout: ChunkLayout, chunked: int, inner: int) -> Order:
    wish = layout.order
    if wish is None:
        return "C"
    for order in ("C", "F"):
        if wish.value == _axes(order, chunked, inner):
            return "F" if order == "F" else "C"
    if wish.hard:
        raise ArgumentError(f"inner_order {list(wish.value)}: format 2 has orders C and F alone")
    return "C"


def _axes(order: str, chunked: int, inner: int) -> Shape:
    axes = range(chunked)
    return (*(axes if order == "C" else reversed(axes)), *range(chunked, chunked + inner))


def _with_chunks(
    given: ChunkLayout, rank: int, chunks: Shape | None, order: Order | None, inner: Shape
) -> ChunkLayout:
    chunked = rank - len(inner)
    shape = (*(chunks or (0,) * chunked), *inner)
    order_of = None if order is None else _axes(order, chunked, len(inner))
    return given.merge(ChunkLayout.known(rank, shape, shape, order_of))


def _data_type(value: Any, what: str) -> data_types.DataType:
    problems = Problems()
    found = data_types.from_json(value, 2, what, problems)
    refuse(problems)
    assert found is not None
    return found
