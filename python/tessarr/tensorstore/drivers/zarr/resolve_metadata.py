"""Conversion of constraints to metadata, and checks of metadata against constraints; no I/O.

A spec's constraints are its schema and its ``metadata``: `Constraints`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tessarr._safe_repr import safe_repr
from tessarr.errors import ArgumentError
from tessarr.metadata.node import ArrayMeta
from tessarr.tensorstore.drivers.zarr.array_properties import properties_of
from tessarr.tensorstore.drivers.zarr.constraints import Constraints
from tessarr.tensorstore.drivers.zarr.zarr2_constraints import Zarr2
from tessarr.tensorstore.drivers.zarr.zarr3_constraints import Zarr3
from tessarr.tensorstore.json.parse import check_equal
from tessarr.tensorstore.schema.choose_chunk_shape import check_codec_chunk
from tessarr.tensorstore.schema.codec_spec import OPEN
from tessarr.tensorstore.schema.element_type import WHOLE, Field
from tessarr.tensorstore.schema.fill_value import encode_fill
from tessarr.tensorstore.schema.propagate import merge_domains
from tessarr.tensorstore.schema.units import merge_units

if TYPE_CHECKING:
    from tessarr.tensorstore.schema.schema import Schema

__all__ = ["check", "new_metadata", "read_constraints"]


def read_constraints(driver: str, metadata: Any = None) -> Constraints:
    """Return the constraints of the member ``metadata`` of a spec.

    Parameters
    ----------
    driver : {"zarr3", "zarr", "zarr2"}
        The driver.
    metadata : dict or Constraints, optional
        The member; by default no constraints.

    Raises
    ------
    ArgumentError
        If a member is invalid.

    Examples
    --------
    >>> read_constraints("zarr3", {"codecs": ["gzip"]}).to_json()
    {'codecs': [{'name': 'gzip'}]}
    """
    form = Zarr3 if driver == "zarr3" else Zarr2
    if metadata is None:
        return _NO_CONSTRAINTS[form]
    return metadata if isinstance(metadata, form) else form.read(metadata)


def new_metadata(driver: str, metadata: Any, schema: Schema, field: Field = WHOLE) -> ArrayMeta:
    """Return the metadata of a new array, with choices for all open properties.

    Parameters
    ----------
    driver : {"zarr3", "zarr", "zarr2"}
        The driver.
    metadata : dict or Constraints, optional
        The member ``metadata`` of the spec.
    schema
        The schema of the driver's dimensions, not of a view.
    field
        The field of each element that the schema describes.

    Raises
    ------
    ArgumentError, MetadataError
        If constraints contradict each other, or leave shape or data type open.
    UnsupportedError
        If the format does not have such an array.

    Examples
    --------
    >>> from tessarr.tensorstore.schema.schema import Schema
    >>> meta = new_metadata("zarr3", {}, Schema(dtype="uint16", shape=[1000, 2000, 3000]))
    >>> meta.chunk_shape, meta.codecs.to_json()
    ((101, 101, 101), [{'name': 'bytes', 'configuration': {'endian': 'little'}}])
    """
    constraints = read_constraints(driver, metadata)
    meta = constraints.create(schema, field)
    _check_all_but_fill(meta, constraints, schema, field)
    if constraints.fill is not OPEN:  # otherwise the fill value is the schema's
        _check_fill(meta, schema, field)
    return meta


_NO_CONSTRAINTS: Final[dict[type[Constraints], Constraints]] = {Zarr3: Zarr3(), Zarr2: Zarr2()}


def check(meta: ArrayMeta, metadata: Any, schema: Schema, field: Field = WHOLE) -> None:
    """Raise an error if an existing array does not meet the constraints.

    Raises
    ------
    ArgumentError
        If it does not.
    """
    constraints = read_constraints("zarr3" if meta.zarr_format == 3 else "zarr", metadata)
    _check_all_but_fill(meta, constraints, schema, field)
    _check_fill(meta, schema, field)


def _check_all_but_fill(
    meta: ArrayMeta, constraints: Constraints, schema: Schema, field: Field
) -> None:
    """Raise an error if an array does not meet the constraints other than the fill value."""
    if constraints is not _NO_CONSTRAINTS[type(constraints)]:
        constraints.check_members(meta)
    if schema._is_empty:
        return
    properties = properties_of(meta, field)
    layout = schema._layout
    if layout.rank >= 0:
        layout.merge(properties.chunk_layout._constraints)
        check_codec_chunk(layout)
    if schema.codec is not None:
        properties.codec._merge_with(schema.codec)
    check_equal("rank", schema.rank, properties.domain.rank)
    if schema.dtype is not None:
        check_equal("dtype", schema.dtype.name, properties.dtype.name)
    if schema.domain is not None:
        merge_domains(properties.domain, schema.domain)
    units = schema.dimension_units or ()
    if units.count(None) < len(units):
        if meta.zarr_format == 2:
            raise ArgumentError("dimension_units: format 2 cannot store them")
        merge_units(properties.dimension_units, units)


def _check_fill(meta: ArrayMeta, schema: Schema, field: Field) -> None:
    fill = schema._fill
    if fill is None or meta.data_type.numpy.names or field.as_void:
        return
    if meta.fill_value is None and meta.zarr_format == 2:
        raise ArgumentError("fill_value: the array has none")
    if encode_fill(fill, meta.data_type) != meta.fill_or_default:
        raise ArgumentError(f"fill_value {fill} does not match {safe_repr(meta.fill_scalar)}")
