"""What follows from the metadata of an open array: found out once for each document."""

from __future__ import annotations

from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, Final

from tessarr.array.recall import OfMetadata
from tessarr.flow.create import Wording, documents
from tessarr.indexing.fields import fields_of
from tessarr.metadata import v2, v3
from tessarr.tensorstore.drivers.zarr import zarr2, zarr3
from tessarr.tensorstore.drivers.zarr.constraints import array_view
from tessarr.tensorstore.drivers.zarr.inner import Inner
from tessarr.tensorstore.notation.recall import RecallSame
from tessarr.tensorstore.schema.chunk_layout import ChunkLayout
from tessarr.tensorstore.schema.element import Field, element_of
from tessarr.tensorstore.schema.fill import scalar_of
from tessarr.tensorstore.schema.schema import Schema

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from tessarr.dtype import DataType
    from tessarr.indexing.fields import Fields
    from tessarr.metadata.node import ArrayMeta
    from tessarr.space import IndexDomain, IndexTransform
    from tessarr.tensorstore.drivers.zarr.constraints import Constraints
    from tessarr.tensorstore.schema.codec_spec import CodecSpec
    from tessarr.tensorstore.schema.data_type import dtype as ElementType  # noqa: N812
    from tessarr.tensorstore.schema.units import Units
    from tessarr.types import JSONObject, Shape

__all__ = ["Facts", "facts_of"]

_SWIFT_BYTES: Final = 1 << 16
_KEPT_BYTES: Final = 1 << 14
_LASTING: Final = ("field", "dtype", "numpy", "fields", "stored", "inner", "swift", "codec",
                   "chunk_layout", "dimension_units", "element")  # fmt: skip


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
    >>> from tessarr.tensorstore.schema.element import WHOLE
    >>> facts = facts_of(array_meta(shape=(3, 4), dtype="int8", compressors=None), WHOLE)
    >>> facts.domain, facts.codec
    ({ [0, 3*), [0, 4*) }, CodecSpec({'codecs': [{'name': 'bytes'}], 'driver': 'zarr3'}))
    """

    def __init__(self, meta: ArrayMeta, field: Field) -> None:
        self._meta: ArrayMeta | None = meta
        self.field, self.shape = field, meta.shape
        data_type = meta.data_type
        self.dtype, shape, self.numpy, self.stored, self.fields = _elements.of(data_type, field)
        self.inner = Inner(meta.rank, shape) if shape else None
        chunk = meta.chunk_shape
        small = prod(chunk) * data_type.item_bytes <= _SWIFT_BYTES
        self.swift: Shape = chunk if small else ()  # chunks, where they are read at once
        self._like: Facts | None = None  # those of the first metadata that are alike
        self._fill = meta.fill_value
        self._documents: dict[str, bytes] | None = None

    @classmethod
    def again(cls, meta: ArrayMeta, known: Facts, like: ArrayMeta, _: Field) -> Facts:
        """Return what follows from metadata, by that of others that are alike."""
        made, found = object.__new__(cls), vars(known)
        vars(made).update({name: found[name] for name in _LASTING if name in found})
        # The metadata keep these: who kept each other would stay until somebody collects them.
        made._meta, made._like, made._documents = None, known, None
        made.shape, made._fill = meta.shape, meta.fill_value
        if meta.fill_value == like.fill_value and "fill_value" in found:
            made.fill_value = known.fill_value
        return made

    @property
    def meta(self) -> ArrayMeta:
        """The metadata, or some that are equal."""
        if self._meta is None:
            assert self._like is not None
            like = self._like.meta
            self._meta = like.alike(self.shape, like.chunk_grid, self._fill)
        return self._meta

    @cached_property
    def whole(self) -> IndexTransform:
        """The view of the whole domain."""
        named = self if self._like is None else self._like
        return array_view(self.shape, named.meta.dimension_names, self.inner_shape)

    @cached_property
    def domain(self) -> IndexDomain:
        """Where there are elements."""
        return self.whole.domain

    @property
    def inner_shape(self) -> Shape:
        """The lengths of the dimensions inside of an element."""
        return () if self.inner is None else self.inner.shape

    @cached_property
    def chunk_layout(self) -> ChunkLayout:
        """The layout of chunks; not to be modified."""
        of = zarr3.chunk_layout_of if self.meta.zarr_format == 3 else zarr2.chunk_layout_of
        return ChunkLayout.of(of(self.meta, self.inner_shape))

    @cached_property
    def codec(self) -> CodecSpec:
        """How chunks are encoded."""
        meta = self.meta
        return zarr3.codec_of(meta) if meta.zarr_format == 3 else zarr2.codec_of(meta)

    @cached_property
    def fill_value(self) -> npt.NDArray[Any] | None:
        """What elements are that are not stored, with the dimensions inside of an element."""
        if self.meta.fill_value is None:
            return None
        found = scalar_of(self.meta.data_type, self.meta.fill_value, self.field)
        found.flags.writeable = False
        return found

    @cached_property
    def dimension_units(self) -> Units:
        """The unit of each dimension."""
        meta = self.meta
        known = zarr3.units_of(meta) if meta.zarr_format == 3 else (None,) * meta.rank
        return (*known, *(None for _ in self.inner_shape))

    @cached_property
    def schema(self) -> Schema:
        """All of it; not to be modified."""
        return Schema(
            dtype=self.dtype,
            domain=self.domain,
            chunk_layout=self.chunk_layout,
            codec=self.codec,
            fill_value=self.fill_value,
            dimension_units=self.dimension_units,
        )

    @cached_property
    def element(self) -> Schema:
        """The data type alone; not to be modified."""
        return Schema(dtype=self.dtype)

    @cached_property
    def metadata_json(self) -> JSONObject:
        """The metadata as the member ``metadata`` of a spec states them; not to be modified."""
        meta = self.meta
        if meta.zarr_format == 2:
            known = {name: v for name, v in v2.to_json(meta).items() if name not in meta.extra}
            return {
                **known,
                "compressor": self.codec.compression.compressor,
                "dimension_separator": getattr(meta.chunk_key_encoding, "separator", "."),
            }
        document = v3.to_json(meta)
        document["codecs"] = zarr3.chain_of(meta).to_json()
        document["chunk_key_encoding"] = zarr3.key_encoding_json(meta.chunk_key_encoding)
        if not document["attributes"]:
            del document["attributes"]
        return document

    @cached_property
    def _wording(self) -> Wording:
        """The documents, in parts."""
        return Wording(self.meta)

    @property
    def documents(self) -> dict[str, bytes]:
        """The documents of a new array, by their names; not to be modified."""
        if self._documents is not None:
            return self._documents
        like = self._like
        if like is not None:
            found = like._wording.of(self.shape, self._fill)
        else:
            found = documents(self.meta)
        if not (like or self).meta.attributes:
            found.pop(v2.ATTRIBUTES, None)  # they are of no use to this interface
        if sum(map(len, found.values())) <= _KEPT_BYTES:  # attributes may be long
            self._documents = found
        return found

    @cached_property
    def constraints(self) -> Constraints:
        """The constraints that only these metadata meet."""
        form = zarr3.Zarr3 if self.meta.zarr_format == 3 else zarr2.Zarr2
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
    fields, stored = None, data_type.numpy
    if data_type.elements is None and stored.names and not field.as_void:
        fields = fields_of(field.name or stored.names[0], stored)
        stored = fields.dtype
    return dtype, shape, dtype.dtype, stored, fields


_elements: Final = RecallSame(_elements_of)

facts_of: Final = OfMetadata(Facts, Facts.again).of
"""Return what follows from metadata, or recall it."""
