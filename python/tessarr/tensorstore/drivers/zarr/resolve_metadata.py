"""From constraints to metadata, and whether metadata meet constraints: no I/O here.

Constraints of a spec are its schema and its ``metadata``: `Constraints`.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final

from tessarr._safe_repr import safe_repr
from tessarr.errors import ArgumentError
from tessarr.format.validation import INT64_MAX
from tessarr.index_space import View
from tessarr.metadata.node import ArrayMeta
from tessarr.tensorstore.drivers.zarr.array_properties import facts_of
from tessarr.tensorstore.drivers.zarr.constraints import Constraints
from tessarr.tensorstore.drivers.zarr.zarr2_constraints import Zarr2
from tessarr.tensorstore.drivers.zarr.zarr3_constraints import Zarr3
from tessarr.tensorstore.json.memo import Recall, key_of
from tessarr.tensorstore.json.parse import compare
from tessarr.tensorstore.schema.choose_chunk_shape import check_codec_chunk
from tessarr.tensorstore.schema.codec_spec import OPEN
from tessarr.tensorstore.schema.element_type import WHOLE, Field
from tessarr.tensorstore.schema.fill_value import new_fill
from tessarr.tensorstore.schema.layout_constraints import NO_LAYOUT
from tessarr.tensorstore.schema.propagate import merged_domains
from tessarr.tensorstore.schema.units import merged_units

if TYPE_CHECKING:
    from collections.abc import Hashable

    from tessarr.tensorstore.drivers.zarr.constraints import Settled
    from tessarr.tensorstore.schema.schema import Schema
    from tessarr.types import Shape

_FORMS: Final[dict[str, type[Constraints]]] = {"zarr3": Zarr3, "zarr": Zarr2, "zarr2": Zarr2}

__all__ = ["Alikes", "check", "check_chunks", "effective", "new_metadata", "read_constraints"]

_CUTS: Final = 16  # so many shapes of chunks of arrays that are alike are recalled


def read_constraints(driver: str, metadata: Any = None) -> Constraints:
    """Return the constraints that the member ``metadata`` of a spec states.

    Parameters
    ----------
    driver : {"zarr3", "zarr", "zarr2"}
        The driver.
    metadata : dict or Constraints, optional
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
    form = _FORMS.get(driver)
    if form is None:
        raise ArgumentError(f"driver {safe_repr(driver)} is not 'zarr3' or 'zarr'")
    if metadata is None:
        return _NOTHING[form]
    if isinstance(metadata, form):
        return metadata
    key = key_of((form.driver, metadata))
    found = _read.find(key)
    if found is None:
        found = form.read(metadata)
        _read.keep(key, found)
    return found


def effective(driver: str, metadata: Any, schema: Schema, field: Field = WHOLE) -> Schema:
    """Return all that a spec says of its array: domain, chunk layout, codec and so on.

    Raises
    ------
    ArgumentError
        If schema and metadata contradict each other.
    """
    wanted = read_constraints(driver, metadata)
    found = wanted.effective(schema, field)
    found.update(codec=wanted.codec_with(schema))
    found._layout.found()
    return found


def new_metadata(driver: str, metadata: Any, schema: Schema, field: Field = WHOLE) -> ArrayMeta:
    """Return the metadata of a new array, with everything chosen that was left open.

    Parameters
    ----------
    driver : {"zarr3", "zarr", "zarr2"}
        The driver.
    metadata : dict or Constraints, optional
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
    >>> from tessarr.tensorstore.schema.schema import Schema
    >>> meta = new_metadata("zarr3", {}, Schema(dtype="uint16", shape=[1000, 2000, 3000]))
    >>> meta.chunk_shape, meta.codecs.to_json()
    ((101, 101, 101), [{'name': 'bytes', 'configuration': {'endian': 'little'}}])
    """
    return Alikes().metadata(read_constraints(driver, metadata), schema, field)


class Alikes:
    """New arrays that specs ask for which differ in shape and fill value alone."""

    __slots__ = ("_found", "ranks")

    def __init__(self) -> None:
        self._found: dict[Hashable, Alike] = {}
        self.ranks: set[int] = set()
        """Of what shapes that metadata state it is known that they agree with all else."""

    def metadata(self, constraints: Constraints, schema: Schema, field: Field) -> ArrayMeta:
        """Return the metadata of a new array.

        Raises
        ------
        ArgumentError, MetadataError, UnsupportedError
            As `new_metadata` does.
        """
        shape, domain = constraints.shape, schema.domain
        if domain is not None:  # what both state has to be the same
            shape = domain._mere_shape if shape is None else None
        if shape is None:
            return Alike().metadata(constraints, schema, field, None)
        by = domain is None, len(shape)
        found = self._found.get(by)
        if found is None:
            found = self._found[by] = Alike()
        return found.metadata(constraints, schema, field, shape)


class Alike:
    """New arrays of one rank: what is found of one holds for all.

    What is found out and checked depends on the shape only by the chunks that are chosen for it,
    and by its size.
    """

    __slots__ = ("_checked", "_made", "_settled")

    def __init__(self) -> None:
        self._settled: Settled | None = None
        self._checked = False
        self._made: Recall[ArrayMeta] = Recall(_CUTS)

    def metadata(
        self,
        constraints: Constraints,
        schema: Schema,
        field: Field,
        shape: Shape | None,
    ) -> ArrayMeta:
        """Return the metadata of a new array.

        Parameters
        ----------
        constraints, schema, field
            What is asked for; of all but the shape and the fill value, the same each time.
        shape
            The shape, if it is known to be finite and to begin at the origin.
        """
        settled, domain = self._settled, schema.domain
        if settled is None or shape is None:
            settled, domain = constraints.settle(schema, field)
            shape = domain.shape[: settled.chunked]
            if settled.chunked == domain.rank:  # else lengths of the schema are those of elements
                self._settled = settled
        view = View.of_array(shape, None, ()) if domain is None else domain._as_view()
        cut = constraints.cut(settled, view)
        made = self._like(constraints, schema, shape, cut)
        if made is None:
            made = constraints.create(schema, settled, shape, cut)
            if settled is self._settled and self._checked:
                check_chunks(made, constraints, schema, field)
            else:
                _check_parts(made, constraints, schema, field)
                self._checked = True
            if 0 not in cut[1]:  # else the grid depends on the shape
                self._made.keep(cut, made)
        if constraints.fill is not OPEN:  # else it was made of that of the schema
            _check_fill(made, schema, field)
        return made

    def _like(
        self,
        constraints: Constraints,
        schema: Schema,
        shape: Shape,
        cut: tuple[Shape, Shape],
    ) -> ArrayMeta | None:
        """Return the metadata by those of another array of such chunks, or None."""
        like = self._made.find(cut)
        if like is None or prod(shape) > INT64_MAX:
            return None
        fill = like.fill_value
        if constraints.fill is OPEN:  # else it is the same each time
            fill = constraints.new_fill(schema, like.data_type)
            if fill != like.fill_value and like.codecs.minds_fill:
                return None
        return like.alike(shape, like.chunk_grid, fill)


_NOTHING: Final[dict[type[Constraints], Constraints]] = {Zarr3: Zarr3(), Zarr2: Zarr2()}
_read: Final = Recall[Constraints]()
"""Constraints that were read."""


def check(meta: ArrayMeta, metadata: Any, schema: Schema, field: Field = WHOLE) -> None:
    """Refuse an existing array that does not meet what has to be.

    Raises
    ------
    ArgumentError
        If it does not.
    """
    _check_parts(meta, metadata, schema, field)
    _check_fill(meta, schema, field)


def _check_parts(meta: ArrayMeta, metadata: Any, schema: Schema, field: Field) -> None:
    """Refuse an array that is not as it has to be, whatever its fill value."""
    check_chunks(meta, metadata, schema, field)
    if schema._says_nothing:
        return
    facts = facts_of(meta, field)
    compare("rank", schema.rank, facts.domain.rank)
    if schema.dtype is not None:
        compare("dtype", schema.dtype.name, facts.kind.dtype.name)
    if schema.domain is not None:
        merged_domains(facts.domain, schema.domain)
    units = schema.dimension_units or ()
    if units.count(None) < len(units):
        if meta.zarr_format == 2:
            raise ArgumentError("dimension_units: format 2 does not have them")
        merged_units(facts.kind.dimension_units, units)


def check_chunks(meta: ArrayMeta, metadata: Any, schema: Schema, field: Field = WHOLE) -> None:
    """Refuse an existing array whose chunks are cut or encoded otherwise, or other metadata.

    Raises
    ------
    ArgumentError
        If they are not as they have to be.
    """
    constraints = read_constraints("zarr3" if meta.zarr_format == 3 else "zarr", metadata)
    if constraints is not _NOTHING[type(constraints)]:
        constraints.check_members(meta)
    layout = schema._layout
    if layout is NO_LAYOUT and schema.codec is None:
        return
    facts = facts_of(meta, field)
    if layout.rank >= 0:
        layout.merged(facts.kind.chunk_layout._constraints)
        check_codec_chunk(layout)
    if schema.codec is not None:
        facts.kind.codec._merged(schema.codec)


def _check_fill(meta: ArrayMeta, schema: Schema, field: Field) -> None:
    asked = schema._fill
    if asked is None or meta.data_type.numpy.names or field.as_void:
        return
    if meta.fill_value is None and meta.zarr_format == 2:
        raise ArgumentError("fill_value: the array has none")
    if new_fill(asked, meta.data_type) != meta.fill_or_default:
        raise ArgumentError(f"fill_value {asked} does not match {safe_repr(meta.fill_scalar)}")
