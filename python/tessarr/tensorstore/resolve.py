"""From constraints to metadata, and from metadata to what handles tell: no I/O here.

Constraints of a spec are its schema and its ``metadata``, which the driver's own class reads:
`Zarr3` or `Zarr2`.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from tessarr.errors import ArgumentError
from tessarr.metadata import v2, v3
from tessarr.metadata.node import ArrayMeta
from tessarr.space import INFINITE, Dim, IndexDomain
from tessarr.space.domain import check_labels
from tessarr.tensorstore import zarr2, zarr3
from tessarr.tensorstore.chunk_layout import ChunkLayout
from tessarr.tensorstore.codec_spec import CodecSpec
from tessarr.tensorstore.element import WHOLE, Field, element_of
from tessarr.tensorstore.fill import scalar_of
from tessarr.tensorstore.schema import Schema
from tessarr.tensorstore.units import Units
from tessarr.tensorstore.zarr2 import Zarr2
from tessarr.tensorstore.zarr3 import Zarr3
from tessarr.types import JSONObject

__all__ = [
    "Constraints",
    "check",
    "chunk_layout_of",
    "codec_of",
    "constraints_of",
    "domain_of",
    "effective",
    "fill_value_of",
    "metadata_json",
    "new_metadata",
    "read_constraints",
    "schema_of",
    "units_of",
]

Constraints: TypeAlias = "Zarr2 | Zarr3"
"""What ``metadata`` asks for."""


def read_constraints(driver: str, metadata: Any = None) -> Constraints:
    """Return the constraints that the member ``metadata`` of a spec states.

    Parameters
    ----------
    driver : {"zarr3", "zarr", "zarr2"}
        The driver.
    metadata : dict, Zarr2 or Zarr3, optional
        The member; by default nothing is asked for.

    Raises
    ------
    ArgumentError
        If a member is not what it may be.

    Examples
    --------
    >>> read_constraints("zarr3", {"codecs": ["gzip"]}).to_json()
    {'codecs': [{'name': 'gzip'}]}
    """
    given = {} if metadata is None else metadata
    if driver == "zarr3":
        return Zarr3.read(given)
    if driver in ("zarr", "zarr2"):
        return Zarr2.read(given)
    raise ArgumentError(f"driver {driver!r} is not 'zarr3' or 'zarr'")


def effective(driver: str, metadata: Any, schema: Schema, field: Field = WHOLE) -> Schema:
    """Return all that a spec says of its array: domain, chunk layout, codec and so on.

    Raises
    ------
    ArgumentError
        If schema and metadata contradict each other.
    """
    return read_constraints(driver, metadata).effective(schema, field)


def new_metadata(driver: str, metadata: Any, schema: Schema, field: Field = WHOLE) -> ArrayMeta:
    """Return the metadata of a new array, with everything chosen that was left open.

    Parameters
    ----------
    driver : {"zarr3", "zarr", "zarr2"}
        The driver.
    metadata : dict, Zarr2 or Zarr3, optional
        The member ``metadata`` of the spec.
    schema
        The schema, of what the driver has: not of a view of it.
    field
        What of each element the schema is of.

    Raises
    ------
    ArgumentError, MetadataError
        If constraints contradict each other, or leave shape or data type open.
    UnsupportedError
        If the format does not have such an array.

    Examples
    --------
    >>> meta = new_metadata("zarr3", {}, Schema(dtype="uint16", shape=[1000, 2000, 3000]))
    >>> meta.chunk_shape, meta.codecs.to_json()
    ((101, 101, 101), [{'name': 'bytes', 'configuration': {'endian': 'little'}}])
    """
    return read_constraints(driver, metadata).create(schema, field)


def check(meta: ArrayMeta, metadata: Any, schema: Schema, field: Field = WHOLE) -> None:
    """Refuse an existing array that does not meet what has to be.

    Raises
    ------
    ArgumentError
        If it does not.
    """
    read_constraints(_driver(meta), metadata).check(meta, schema, field)


def constraints_of(meta: ArrayMeta) -> Constraints:
    """Return the constraints that only this metadata meets."""
    return read_constraints(_driver(meta), metadata_json(meta))


def domain_of(meta: ArrayMeta, field: Field = WHOLE) -> IndexDomain:
    """Return the domain of an array: bounds that resizing moves are implicit."""
    names = meta.dimension_names or (None,) * meta.rank
    told = [name for name in names if name]
    if len(set(told)) < len(told):
        names = (None,) * meta.rank
    dims = [
        Dim.of(0, min(length, INFINITE + 1), name or "", (False, True))
        for length, name in zip(meta.shape, names, strict=True)
    ]
    dims += [Dim.of(0, length) for length in element_of(meta.data_type, field).inner]
    return IndexDomain.of(check_labels(dims) if told else tuple(dims))


def chunk_layout_of(meta: ArrayMeta, field: Field = WHOLE) -> ChunkLayout:
    """Return the layout of the chunks of an array."""
    inner = element_of(meta.data_type, field).inner
    if meta.zarr_format == 3:
        return zarr3.chunk_layout_of(meta, inner)
    return zarr2.chunk_layout_of(meta, inner)


def codec_of(meta: ArrayMeta) -> CodecSpec:
    """Return how the chunks of an array are encoded."""
    return zarr3.codec_of(meta) if meta.zarr_format == 3 else zarr2.codec_of(meta)


def units_of(meta: ArrayMeta, field: Field = WHOLE) -> Units:
    """Return the unit of each dimension, or None where it is not known."""
    known = zarr3.units_of(meta) if meta.zarr_format == 3 else (None,) * meta.rank
    return (*known, *(None for _ in element_of(meta.data_type, field).inner))


def fill_value_of(meta: ArrayMeta, field: Field = WHOLE) -> Any:
    """Return the fill value, with the dimensions inside of an element; None if there is none."""
    if meta.fill_value is None:
        return None
    return scalar_of(meta.data_type, meta.fill_value, field)


def schema_of(meta: ArrayMeta, field: Field = WHOLE) -> Schema:
    """Return all that a schema tells of an array."""
    return Schema(
        dtype=element_of(meta.data_type, field).dtype,
        domain=domain_of(meta, field),
        chunk_layout=chunk_layout_of(meta, field),
        codec=codec_of(meta),
        fill_value=fill_value_of(meta, field),
        dimension_units=units_of(meta, field),
    )


def metadata_json(meta: ArrayMeta) -> JSONObject:
    """Return the metadata as the member ``metadata`` of a spec states it."""
    if meta.zarr_format == 2:
        document = v2.to_json(meta)
        separator = getattr(meta.chunk_key_encoding, "separator", ".")
        compressor = codec_of(meta).compression.compressor
        return {**document, "compressor": compressor, "dimension_separator": separator}
    document = v3.to_json(meta)
    document["codecs"] = zarr3.chain_of(meta).to_json()
    document["chunk_key_encoding"] = zarr3.key_encoding_json(meta.chunk_key_encoding)
    if not document["attributes"]:
        del document["attributes"]
    return document


def _driver(meta: ArrayMeta) -> str:
    return "zarr3" if meta.zarr_format == 3 else "zarr"
