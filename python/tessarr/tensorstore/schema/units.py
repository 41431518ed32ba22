"""Physical units of dimensions: the length of one step.

A unit is a multiplier and the name of a base unit, which is not interpreted: ``4 nm``, or ``nm``.
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
"""What states the unit of a dimension; None where it is not known."""

Units: TypeAlias = tuple[Unit | None, ...]
"""A unit per dimension."""


def unit_of(value: UnitLike) -> Unit | None:
    """Return the unit that is stated.

    Raises
    ------
    TypeError
        If it is not one.
    """
    return value if value is None or isinstance(value, Unit) else Unit(value)


def units_of(values: Iterable[UnitLike]) -> Units:
    """Return the units that are stated, one per dimension.

    Raises
    ------
    TypeError
        If they are not units.
    """
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise TypeError(f"dimension_units: {safe_repr(values)} is not a list of units")
    return tuple(unit_of(value) for value in values)


def units_from_json(values: Any) -> Units:
    """Return the units that JSON states, one per dimension.

    Raises
    ------
    ArgumentError
        If it is not a list of units.
    """
    if not isinstance(values, (list, tuple)):
        raise ArgumentError(f"dimension_units: {safe_repr(values)} is not a list of units")
    return tuple(None if value is None else Unit(json=to_plain_json(value)) for value in values)


def merge_units(old: Units, new: Units) -> Units:
    """Return what is known of the units by both.

    Raises
    ------
    ArgumentError
        If they differ.
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
    """Return the units along the dimensions of a view."""
    rank = transform.input_rank
    if not any(units):
        return (None,) * rank
    if transform._is_identity:
        return units
    return propagate_values(
        units, transform._linear_maps(alone=True), rank, lambda unit, _, stride: unit * abs(stride)
    )


def propagate_units_back(units: Units, transform: IndexTransform) -> Units:
    """Return the units of what is viewed, from those of the view.

    Raises
    ------
    ArgumentError
        If a dimension of the view that has a unit is none of what is viewed.
    """
    return propagate_values_back(
        units,
        transform,
        lambda unit, _, stride: unit / abs(stride),
        lambda _: True,
        "dimension_units",
    )
