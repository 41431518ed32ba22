"""Physical units of dimensions: the length of one step.

A unit is a multiplier and the name of a base unit, such as ``4 nm`` or ``nm``. Tessarr does not
interpret the name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from tessarr._safe_repr import safe_repr
from tessarr.errors import ArgumentError
from tessarr.index_space import IndexTransform
from tessarr.tensorstore.json.parse import to_plain_json
from tessarr.tensorstore.schema.propagate import propagate_values, propagate_values_back
from tessarr.tensorstore.schema.unit import Unit

__all__ = [
    "Unit",
    "UnitLike",
    "Units",
    "merge_units",
    "propagate_units",
    "propagate_units_back",
    "unit_of",
    "units_from_json",
    "units_of",
]

UnitLike: TypeAlias = "Unit | str | float | tuple[float, str] | None"
"""A unit in any supported form; None if the unit is unknown."""

Units: TypeAlias = tuple[Unit | None, ...]
"""The unit of each dimension."""


def unit_of(value: UnitLike) -> Unit | None:
    """Convert a value to a unit.

    Raises
    ------
    TypeError
        If the value is not a unit.
    """
    return value if value is None or isinstance(value, Unit) else Unit(value)


def units_of(values: Iterable[UnitLike]) -> Units:
    """Convert values to units, one per dimension.

    Raises
    ------
    TypeError
        If the values are not units.
    """
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise TypeError(f"dimension_units: {safe_repr(values)} is not a list of units")
    return tuple(unit_of(value) for value in values)


def units_from_json(values: Any) -> Units:
    """Return the units from JSON, one per dimension.

    Raises
    ------
    ArgumentError
        If the JSON is not a list of units.
    """
    if not isinstance(values, (list, tuple)):
        raise ArgumentError(f"dimension_units: {safe_repr(values)} is not a list of units")
    return tuple(None if value is None else Unit(json=to_plain_json(value)) for value in values)


def merge_units(old: Units, new: Units) -> Units:
    """Merge two lists of units.

    Raises
    ------
    ArgumentError
        If two units of a dimension differ.
    """
    if not old or not new:
        return old or new
    for k, (one, other) in enumerate(zip(old, new, strict=True)):
        if one is not None and other is not None and one != other:
            result, wanted = safe_repr(str(other)), safe_repr(str(one))
            raise ArgumentError(
                f"dimension_units: {result} of dimension {k} does not match {wanted}"
            )
    return tuple(one if one is not None else other for one, other in zip(old, new, strict=True))


def propagate_units(units: Units, transform: IndexTransform) -> Units:
    """Return the units of the dimensions of a view."""
    rank = transform.input_rank
    if not any(units):
        return (None,) * rank
    if transform._is_identity:
        return units
    return propagate_values(
        units, transform._linear_maps(alone=True), rank, lambda unit, _, stride: unit * abs(stride)
    )


def propagate_units_back(units: Units, transform: IndexTransform) -> Units:
    """Return the units of the base; `units` are the units of its view.

    Raises
    ------
    ArgumentError
        If a dimension with a unit is not a dimension of the base.
    """
    return propagate_values_back(
        units,
        transform,
        lambda unit, _, stride: unit / abs(stride),
        lambda _: True,
        "dimension_units",
    )
