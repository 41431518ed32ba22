"""Properties of an array that follow from its metadata document; a memo keeps them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tessarr.array.small_reads import small_chunk_shape
from tessarr.codec import Bytes
from tessarr.flow.create import dump_documents
from tessarr.indexing.fields import Fields, find_fields
from tessarr.metadata import v2, v3
from tessarr.metadata.codec_roles import find_codec_roles
from tessarr.tensorstore.drivers.zarr import zarr2_constraints, zarr3_constraints
from tessarr.tensorstore.drivers.zarr.constraints import Constraints, build_array_view
from tessarr.tensorstore.drivers.zarr.inner_dimensions import InnerDimensions
from tessarr.tensorstore.schema.chunk_layout import ChunkLayout
from tessarr.tensorstore.schema.element_type import Field, element_of
from tessarr.tensorstore.schema.fill_value import decode_fill
from tessarr.tensorstore.schema.schema import Schema

if TYPE_CHECKING:
    import numpy.typing as npt

    from tessarr.dtype import DataType
    from tessarr.index_space import IndexDomain, IndexTransform
    from tessarr.metadata.node import ArrayMeta
    from tessarr.tensorstore.schema.codec_spec import CodecSpec
    from tessarr.tensorstore.schema.data_type import dtype as ElementType  # noqa: N812
    from tessarr.tensorstore.schema.units import Units
    from tessarr.types import JSONObject, Shape

__all__ = ["ArrayProperties", "properties_of"]


class ArrayProperties:
    """Properties that depend on the metadata of an array and on the field; a value.

    Parameters
    ----------
    meta
        The metadata.
    field
        The field of each element.

    Examples
    --------
    >>> from tessarr.metadata.build import build_array_meta
    >>> from tessarr.tensorstore.schema.element_type import WHOLE
    >>> meta = build_array_meta(shape=(3, 4), dtype="int8", compressors=None)
    >>> properties = properties_of(meta, WHOLE)
    >>> properties.domain, properties.codec
    ({ [0, 3*), [0, 4*) }, CodecSpec({'codecs': [{'name': 'bytes'}], 'driver': 'zarr3'}))
    """

    def __init__(self, meta: ArrayMeta, field: Field) -> None:
        self.meta, self.field = meta, field
        data_type = meta.data_type
        self.dtype, shape, self.numpy, self.stored, self.fields = _elements_of(data_type, field)
        self.inner = InnerDimensions(meta.rank, shape) if shape else None
        self.as_stored = self.stored == self.numpy
        self.parts = None if self.fields is None else self.fields.parts
        self.bits = _valid_bits(data_type) if field.as_void else None
        """The valid bits of each byte of an element, unless all bits are valid."""
        self.places = _byte_order_of(meta) if field.as_void else None
        """The position in memory of each stored byte of an element, if the codec swaps bytes."""
        simple = self.fields is None and self.inner is None
        self.plain = simple and self.as_stored and not self.stored.hasobject
        """Whether the engine reads the elements without conversion."""
        self.small_chunk_shape: Shape = small_chunk_shape(meta)
        """The shape of chunks that are small enough to be read without a thread."""

    @property
    def inner_shape(self) -> Shape:
        """The lengths of the dimensions inside an element."""
        return () if self.inner is None else self.inner.shape

    @property
    def _of_format(self) -> Any:
        """The module of the metadata's format."""
        return zarr3_constraints if self.meta.zarr_format == 3 else zarr2_constraints

    @cached_property
    def chunk_layout(self) -> ChunkLayout:
        """The layout of chunks; not to be modified."""
        return ChunkLayout._of(self._of_format.chunk_layout_of(self.meta, self.inner_shape))

    @cached_property
    def codec(self) -> CodecSpec:
        """The encoding of chunks."""
        codec: CodecSpec = self._of_format.codec_of(self.meta)
        return codec

    @cached_property
    def dimension_units(self) -> Units:
        """The unit of each dimension."""
        meta = self.meta
        known = zarr3_constraints.units_of(meta) if meta.zarr_format == 3 else (None,) * meta.rank
        return (*known, *(None for _ in self.inner_shape))

    @cached_property
    def element(self) -> Schema:
        """A schema of the data type only; not to be modified."""
        return Schema(dtype=self.dtype)

    @cached_property
    def full_view(self) -> IndexTransform:
        """The view of the whole domain."""
        return build_array_view(self.meta.shape, self.meta.axis_names, self.inner_shape)

    @cached_property
    def domain(self) -> IndexDomain:
        """The domain of the array."""
        return self.full_view.domain

    @cached_property
    def fill_value(self) -> npt.NDArray[Any] | None:
        """The fill value, with the dimensions inside an element."""
        meta = self.meta
        if meta.fill_value is None:
            return None
        value = decode_fill(meta.data_type, meta.fill_value, self.field)
        if self.places is not None:
            value = value[self.places]
        value.setflags(write=False)
        return value

    @cached_property
    def schema(self) -> Schema:
        """The schema of the array; not to be modified."""
        return Schema(
            dtype=self.dtype,
            domain=self.domain,
            chunk_layout=self.chunk_layout,
            codec=self.codec,
            fill_value=self.fill_value,
            dimension_units=self.dimension_units,
        )

    @cached_property
    def metadata_json(self) -> JSONObject:
        """The member ``metadata`` of a spec of the array; not to be modified."""
        meta = self.meta
        if meta.zarr_format == 2:
            known = {name: v for name, v in v2.to_json(meta).items() if name not in meta.extra}
            return {
                **known,
                "compressor": self.codec._compression.compressor,
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
        """The metadata documents of a new array, by their names."""
        new = dump_documents(self.meta)
        if not self.meta.attributes:
            new.pop(v2.ATTRIBUTES, None)  # empty attributes need no document
        return new

    @cached_property
    def constraints(self) -> Constraints:
        """The constraints that only this metadata meets."""
        form = zarr3_constraints.Zarr3 if self.meta.zarr_format == 3 else zarr2_constraints.Zarr2
        return form.read(self.metadata_json)

    @cached_property
    def derived(self) -> dict[str, Any]:
        """Values that specs with these constraints need not derive again."""
        return {"effective": self.schema, "outline": self.schema, "metadata": self.meta}


def properties_of(meta: ArrayMeta, field: Field) -> ArrayProperties:
    """Return the properties of an array; the metadata holds the memo."""
    key = ArrayProperties, field
    properties: ArrayProperties | None = meta.derived.get(key)
    if properties is None:
        properties = meta.derived[key] = ArrayProperties(meta, field)
    return properties


def _elements_of(
    data_type: DataType, field: Field
) -> tuple[ElementType, Shape, np.dtype[Any], np.dtype[Any], Fields | None]:
    """Return the data type, shape, NumPy types and fields of an element."""
    dtype, shape = element_of(data_type, field)
    if data_type.elements is not None:
        # The engine fills objects as well as NumPy's text type, which would become objects here.
        return dtype, shape, dtype.dtype, dtype.dtype, None
    fields, stored = None, data_type.numpy
    if stored.names and not field.as_void:
        fields = find_fields(field.name or stored.names[0], stored)
        stored = fields.dtype
    return dtype, shape, dtype.dtype, stored, fields


def _valid_bits(data_type: DataType) -> npt.NDArray[np.uint8] | None:
    if data_type.name == "bool":
        return np.ones(1, np.uint8)
    if not data_type.stray_bits:
        return None
    full = np.full(data_type.item_bytes, 0xFF, np.uint8)
    return data_type.canonical(full.view(data_type.numpy)).view(np.uint8)


def _byte_order_of(meta: ArrayMeta) -> npt.NDArray[np.intp] | None:
    data_type, serializer = meta.data_type, find_codec_roles(meta).serializer
    if not isinstance(serializer, Bytes) or not serializer.swaps(data_type):
        return None
    positions = np.arange(data_type.item_bytes)
    order = np.zeros_like(positions)
    for shift in (0, 8, 16):  # of numbers below `MAX_ITEM_BYTES`
        digits = (positions >> shift & 0xFF).astype(np.uint8)
        order |= data_type.swapped(digits.tobytes()).astype(np.intp) << shift
    return order
