"""What follows from the metadata of an open array: found out once for each document."""

from __future__ import annotations

from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr.array.memo import OfMetadata
from tessarr.codec import Bytes
from tessarr.flow.create import Wording, documents
from tessarr.indexing.fields import fields_of
from tessarr.metadata import v2, v3
from tessarr.metadata.codec_roles import stages
from tessarr.tensorstore.drivers.zarr import zarr2_constraints, zarr3_constraints
from tessarr.tensorstore.drivers.zarr.constraints import array_view
from tessarr.tensorstore.drivers.zarr.inner_dimensions import Inner
from tessarr.tensorstore.json.memo import RecallSame
from tessarr.tensorstore.schema.chunk_layout import ChunkLayout
from tessarr.tensorstore.schema.element_type import Field, element_of
from tessarr.tensorstore.schema.fill_value import scalar_of
from tessarr.tensorstore.schema.schema import Schema

if TYPE_CHECKING:
    import numpy.typing as npt

    from tessarr.dtype import DataType
    from tessarr.index_space import IndexDomain, IndexTransform
    from tessarr.indexing.fields import Fields
    from tessarr.metadata.node import ArrayMeta
    from tessarr.tensorstore.drivers.zarr.constraints import Constraints
    from tessarr.tensorstore.schema.codec_spec import CodecSpec
    from tessarr.tensorstore.schema.data_type import dtype as ElementType  # noqa: N812
    from tessarr.tensorstore.schema.units import Units
    from tessarr.types import JSONObject, Shape

__all__ = ["Facts", "facts_of"]

_SWIFT_BYTES: Final = 1 << 16
_KEPT_BYTES: Final = 1 << 14


class Kind:
    """What follows from metadata whatever their shape and fill value, and from what is looked at.

    Parameters
    ----------
    meta
        Metadata of that kind.
    field
        What is looked at of each element.
    """

    def __init__(self, meta: ArrayMeta, field: Field) -> None:
        self.meta, self.field = meta, field
        data_type = meta.data_type
        self.dtype, shape, self.numpy, self.stored, self.fields = _elements.of(data_type, field)
        self.inner = Inner(meta.rank, shape) if shape else None
        self.as_stored = self.stored == self.numpy
        self.parts = None if self.fields is None else self.fields.parts
        self.bits = _bits_of(data_type) if field.as_void else None
        """The bits that each byte of an element may have, where these are not all."""
        self.places = _places_of(meta) if field.as_void else None
        """Where in memory each byte of an element is that is stored, where they are turned."""
        one = self.fields is None and self.inner is None
        self.plain = one and self.as_stored and not self.stored.hasobject
        """Whether elements are as the engine reads them."""
        chunk = meta.chunk_shape
        small = prod(chunk) * data_type.item_bytes <= _SWIFT_BYTES
        self.swift: Shape = chunk if small else ()
        """The shape of chunks, where they are read at once."""

    @property
    def inner_shape(self) -> Shape:
        """The lengths of the dimensions inside of an element."""
        return () if self.inner is None else self.inner.shape

    @cached_property
    def chunk_layout(self) -> ChunkLayout:
        """The layout of chunks; not to be modified."""
        of_format = zarr3_constraints if self.meta.zarr_format == 3 else zarr2_constraints
        return ChunkLayout._of(of_format.chunk_layout_of(self.meta, self.inner_shape))

    @cached_property
    def codec(self) -> CodecSpec:
        """How chunks are encoded."""
        of_format = zarr3_constraints if self.meta.zarr_format == 3 else zarr2_constraints
        codec: CodecSpec = of_format.codec_of(self.meta)
        return codec

    @cached_property
    def dimension_units(self) -> Units:
        """The unit of each dimension."""
        meta = self.meta
        known = zarr3_constraints.units_of(meta) if meta.zarr_format == 3 else (None,) * meta.rank
        return (*known, *(None for _ in self.inner_shape))

    @cached_property
    def element(self) -> Schema:
        """The data type alone; not to be modified."""
        return Schema(dtype=self.dtype)

    @cached_property
    def wording(self) -> Wording:
        """The documents, in parts."""
        return Wording(self.meta)


class Facts:
    """What follows from metadata, and from what is looked at of each element; never changed.

    Parameters
    ----------
    meta
        The metadata.
    field
        What is looked at of each element.

    Examples
    --------
    >>> from tessarr.metadata.build import array_meta
    >>> from tessarr.tensorstore.schema.element_type import WHOLE
    >>> facts = facts_of(array_meta(shape=(3, 4), dtype="int8", compressors=None), WHOLE)
    >>> facts.domain, facts.kind.codec
    ({ [0, 3*), [0, 4*) }, CodecSpec({'codecs': [{'name': 'bytes'}], 'driver': 'zarr3'}))
    """

    kind: Kind
    shape: Shape
    _fill: bytes | None
    _meta: ArrayMeta | None
    _documents: dict[str, bytes] | None

    def __init__(self, meta: ArrayMeta, field: Field) -> None:
        self._set(meta, Kind(meta, field))
        self._meta = meta

    def _set(self, meta: ArrayMeta, kind: Kind) -> None:
        self.kind, self.shape, self._fill = kind, meta.shape, meta.fill_value
        # The metadata keep these: who kept each other would stay until somebody collects them.
        self._meta = self._documents = None

    @classmethod
    def again(cls, meta: ArrayMeta, known: Facts, like: ArrayMeta, _: Field) -> Facts:
        """Return what follows from metadata, by that of others that are alike."""
        made = object.__new__(cls)
        made._set(meta, known.kind)
        if meta.fill_value == like.fill_value and "fill_value" in vars(known):
            made.fill_value = known.fill_value
        return made

    @property
    def meta(self) -> ArrayMeta:
        """The metadata, or some that are equal."""
        if self._meta is None:
            like = self.kind.meta
            self._meta = like.alike(self.shape, like.chunk_grid, self._fill)
        return self._meta

    @cached_property
    def whole(self) -> IndexTransform:
        """The view of the whole domain."""
        kind = self.kind
        return array_view(self.shape, kind.meta.dimension_names, kind.inner_shape)

    @cached_property
    def domain(self) -> IndexDomain:
        """Where there are elements."""
        return self.whole.domain

    @cached_property
    def fill_value(self) -> npt.NDArray[Any] | None:
        """What elements are that are not stored, with the dimensions inside of an element."""
        if self._fill is None:
            return None
        found = scalar_of(self.kind.meta.data_type, self._fill, self.kind.field)
        if self.kind.places is not None:
            found = found[self.kind.places]
        found.setflags(write=False)
        return found

    @cached_property
    def schema(self) -> Schema:
        """All of it; not to be modified."""
        kind = self.kind
        return Schema(
            dtype=kind.dtype,
            domain=self.domain,
            chunk_layout=kind.chunk_layout,
            codec=kind.codec,
            fill_value=self.fill_value,
            dimension_units=kind.dimension_units,
        )

    @cached_property
    def metadata_json(self) -> JSONObject:
        """The metadata as the member ``metadata`` of a spec states them; not to be modified."""
        meta = self.meta
        if meta.zarr_format == 2:
            known = {name: v for name, v in v2.to_json(meta).items() if name not in meta.extra}
            return {
                **known,
                "compressor": self.kind.codec._compression.compressor,
                "dimension_separator": getattr(meta.chunk_key_encoding, "separator", "."),
            }
        document = v3.to_json(meta)
        document["codecs"] = zarr3_constraints.chain_of(meta).to_json()
        document["chunk_key_encoding"] = zarr3_constraints.key_encoding_json(
            meta.chunk_key_encoding
        )
        if not document["attributes"]:
            del document["attributes"]
        return document

    @property
    def documents(self) -> dict[str, bytes]:
        """The documents of a new array, by their names; not to be modified."""
        if self._documents is not None:
            return self._documents
        meta = self.kind.meta
        if self._meta is meta:
            found = documents(meta)
        else:
            found = self.kind.wording.of(self.shape, self._fill)
        if not meta.attributes:
            found.pop(v2.ATTRIBUTES, None)  # they are of no use to this interface
        if sum(map(len, found.values())) <= _KEPT_BYTES:  # attributes may be long
            self._documents = found
        return found

    @cached_property
    def constraints(self) -> Constraints:
        """The constraints that only these metadata meet."""
        form = zarr3_constraints.Zarr3 if self.meta.zarr_format == 3 else zarr2_constraints.Zarr2
        return form.read(self.metadata_json)

    @cached_property
    def known(self) -> dict[str, Any]:
        """What specs with these constraints need not find out anew."""
        return {"effective": self.schema, "outline": self.schema, "metadata": self.meta}


def _elements_of(
    data_type: DataType, field: Field
) -> tuple[ElementType, Shape, np.dtype[Any], np.dtype[Any], Fields | None]:
    """Return what is looked at of each element, its shape, and how NumPy finds it in what."""
    dtype, shape = element_of(data_type, field)
    if data_type.elements is not None:
        # The engine makes objects as well as NumPy's own text, which would become objects here.
        return dtype, shape, dtype.dtype, dtype.dtype, None
    fields, stored = None, data_type.numpy
    if stored.names and not field.as_void:
        fields = fields_of(field.name or stored.names[0], stored)
        stored = fields.dtype
    return dtype, shape, dtype.dtype, stored, fields


def _bits_of(data_type: DataType) -> npt.NDArray[np.uint8] | None:
    if data_type.name == "bool":
        return np.ones(1, np.uint8)
    if not data_type.stray_bits:
        return None
    full = np.full(data_type.item_bytes, 0xFF, np.uint8)
    return data_type.canonical(full.view(data_type.numpy)).view(np.uint8)


def _places_of(meta: ArrayMeta) -> npt.NDArray[np.intp] | None:
    data_type, serializer = meta.data_type, stages(meta).serializer
    if not isinstance(serializer, Bytes) or not serializer.swaps(data_type):
        return None
    places = np.arange(data_type.item_bytes)
    found = np.zeros_like(places)
    for shift in (0, 8, 16):  # of numbers below `MAX_ITEM_BYTES`
        digits = (places >> shift & 0xFF).astype(np.uint8)
        found |= data_type.swapped(digits.tobytes()).astype(np.intp) << shift
    return found


_elements: Final = RecallSame(_elements_of)

facts_of: Final = OfMetadata(Facts, Facts.again).of
"""Return what follows from metadata, or recall it."""
