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
from tessarr.tensorstore.schema.layout_constraints import NO_LAYOUT
from tessarr.tensorstore.schema.propagate import merge_domains
from tessarr.tensorstore.schema.units import merge_units

if TYPE_CHECKING:
    from tessarr.tensorstore.schema.schema import Schema

_CONSTRAINT_TYPES: Final[dict[str, type[Constraints]]] = {
    "zarr3": Zarr3,
    "zarr": Zarr2,
    "zarr2": Zarr2,
}

__all__ = ["check", "effective", "new_metadata", "read_constraints"]


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
    form = _CONSTRAINT_TYPES.get(driver)
    if form is None:
        raise ArgumentError(f"driver {safe_repr(driver)} is not 'zarr3' or 'zarr'")
    if metadata is None:
        return _NO_CONSTRAINTS[form]
    if isinstance(metadata, form):
        return metadata
    return form.read(metadata)


def effective(driver: str, metadata: Any, schema: Schema, field: Field = WHOLE) -> Schema:
    """Return the complete schema of a spec's array: domain, chunk layout, codec and so on.

    Raises
    ------
    ArgumentError
        If schema and metadata contradict each other.
    """
    constraints = read_constraints(driver, metadata)
    result = constraints.effective(schema, field)
    result.update(codec=constraints.codec_with(schema))
    result._layout.resolve()
    return result


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
    resolved, domain = constraints.resolve_constraints(schema, field)
    shape = domain.shape[: resolved.chunked]
    chunk_shapes = constraints.choose_chunks(resolved, domain._as_view())
    meta = constraints.create(schema, resolved, shape, chunk_shapes)
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
    _check_all_but_fill(meta, metadata, schema, field)
    _check_fill(meta, schema, field)


def _check_all_but_fill(meta: ArrayMeta, metadata: Any, schema: Schema, field: Field) -> None:
    """Raise an error if an array does not meet the constraints other than the fill value."""
    _check_chunks(meta, metadata, schema, field)
    if schema._is_empty:
        return
    properties = properties_of(meta, field)
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


def _check_chunks(meta: ArrayMeta, metadata: Any, schema: Schema, field: Field) -> None:
    """Raise an error if chunks, codecs or other metadata differ from the constraints."""
    constraints = read_constraints("zarr3" if meta.zarr_format == 3 else "zarr", metadata)
    if constraints is not _NO_CONSTRAINTS[type(constraints)]:
        constraints.check_members(meta)
    layout = schema._layout
    if layout is NO_LAYOUT and schema.codec is None:
        return
    properties = properties_of(meta, field)
    if layout.rank >= 0:
        layout.merged(properties.chunk_layout._constraints)
        check_codec_chunk(layout)
    if schema.codec is not None:
        properties.codec._merge_with(schema.codec)


def _check_fill(meta: ArrayMeta, schema: Schema, field: Field) -> None:
    fill = schema._fill
    if fill is None or meta.data_type.numpy.names or field.as_void:
        return
    if meta.fill_value is None and meta.zarr_format == 2:
        raise ArgumentError("fill_value: the array has none")
    if encode_fill(fill, meta.data_type) != meta.fill_or_default:
        raise ArgumentError(f"fill_value {fill} does not match {safe_repr(meta.fill_scalar)}")
