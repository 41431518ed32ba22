"""Physical units of dimensions: what one step along a dimension is.

A unit is a multiplier and the name of a base unit, which is not interpreted: ``4 nm``, or ``nm``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from tessarr.errors import ArgumentError
from tessarr.space import IndexTransform
from tessarr.tensorstore.notation.reading import stated
from tessarr.tensorstore.schema.through import carried, carried_back

__all__ = [
    "Unit",
    "UnitLike",
    "Units",
    "merged_units",
    "unit_of",
    "units_before",
    "units_from_json",
    "units_of",
    "units_through",
]

_NUMBER: Final = re.compile(r"([-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?)\s*")
_SPACE: Final = " \t\n\v\f\r"


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Unit:
    """A physical unit: a multiplier, and the name of a base unit.

    ``Unit("4nm")``, ``Unit(4, "nm")`` or ``Unit(multiplier=4, base_unit="nm")``,
    ``Unit((4, "nm"))``, ``Unit(4)`` for one without dimension, or ``Unit(json=[4, "nm"])``.

    Raises
    ------
    ArgumentError
        If the JSON is not that of a unit.

    Examples
    --------
    >>> Unit("3.5 nm") * 2, str(Unit(4, "nm")), Unit("4nm").to_json()
    (Unit(7, "nm"), '4 nm', [4.0, 'nm'])
    """

    multiplier: float
    base_unit: str

    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        unit: Any = ...,
        base_unit: Any = ...,
        *,
        multiplier: Any = ...,
        json: Any = None,
    ) -> None:
        if unit is not ... and multiplier is not ...:
            raise TypeError("give one multiplier")
        given = unit if multiplier is ... else _number(multiplier)
        if given is ...:
            if base_unit is not ...:
                raise TypeError("a base unit stands after a multiplier, or alone")
            given = 1
        if json is not None:
            number, base = _from_json(json)
        elif base_unit is not ...:
            number, base = _pair(given, base_unit)
        elif isinstance(given, (tuple, list)):
            number, base = _pair(*given)
        else:
            text = given.decode() if isinstance(given, bytes) else given
            number, base = _parsed(text) if isinstance(text, str) else (_number(text), "")
        object.__setattr__(self, "multiplier", number)
        object.__setattr__(self, "base_unit", base)

    def to_json(self) -> list[Any]:
        """Return the multiplier and the base unit."""
        return [self.multiplier, self.base_unit]

    def __mul__(self, factor: float) -> Unit:
        return Unit(self.multiplier * _number(factor), self.base_unit)

    def __truediv__(self, divisor: float) -> Unit:
        number = _number(divisor)
        if number:
            return Unit(self.multiplier / number, self.base_unit)
        return Unit(self.multiplier * float("inf"), self.base_unit)

    def __str__(self) -> str:
        if not self.base_unit:
            return f"{self.multiplier:.6g}"
        return self.base_unit if self.multiplier == 1 else f"{self.multiplier:.6g} {self.base_unit}"

    def __repr__(self) -> str:
        quoted = self.base_unit.replace("\\", "\\\\").replace('"', '\\"')
        return f'Unit({self.multiplier:.6g}, "{quoted}")'

    def __reduce__(self) -> tuple[Any, ...]:
        return Unit, (self.multiplier, self.base_unit)


UnitLike: TypeAlias = "Unit | str | float | tuple[float, str] | None"
"""What states the unit of a dimension; None where it is not known."""

Units: TypeAlias = tuple[Unit | None, ...]
"""A unit per dimension."""


def _number(value: Any) -> float:
    if isinstance(value, (str, bytes)):
        raise TypeError(f"{value!r} is not a number")
    try:
        return float(value)
    except OverflowError as error:
        raise ArgumentError(f"{value!r} is beyond the range of a unit") from error


def _pair(multiplier: Any, base_unit: Any) -> tuple[float, str]:
    if isinstance(base_unit, bytes):
        base_unit = base_unit.decode()
    if not isinstance(base_unit, str):
        raise TypeError(f"the base unit {base_unit!r} is not a string")
    return _number(multiplier), base_unit


def _parsed(text: str) -> tuple[float, str]:
    stripped = text.strip(_SPACE)
    found = _NUMBER.match(stripped)
    if found is None or float(found[1]) in {float("inf"), -float("inf")}:
        return 1.0, stripped
    return float(found[1]), stripped[found.end() :]


def _from_json(value: Any) -> tuple[float, str]:
    if isinstance(value, str):
        return _parsed(value)
    if not isinstance(value, (list, tuple)):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ArgumentError(f"{value!r} is not a unit: give a string, or [multiplier, base]")
        return _number(value), ""
    pair = len(value) == 2 and isinstance(value[1], str)
    if not pair or isinstance(value[0], bool) or not isinstance(value[0], (int, float)):
        raise ArgumentError(f"{value!r} is not a unit: give a string, or [multiplier, base]")
    return _number(value[0]), value[1]


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
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise TypeError(f"dimension_units: {values!r} is not a list of units")
    return tuple(unit_of(value) for value in values)


def units_from_json(values: Any) -> Units:
    """Return the units that JSON states, one per dimension.

    Raises
    ------
    ArgumentError
        If it is not a list of units.
    """
    if not isinstance(values, (list, tuple)):
        raise ArgumentError(f"dimension_units: {values!r} is not a list of units")
    return tuple(None if value is None else Unit(json=stated(value)) for value in values)


def merged_units(old: Units, new: Units) -> Units:
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
            raise ArgumentError(
                f"dimension_units: {str(other)!r} of dimension {k} does not match {str(one)!r}"
            )
    return tuple(one if one is not None else other for one, other in zip(old, new, strict=True))


def units_through(units: Units, transform: IndexTransform) -> Units:
    """Return the units along the dimensions of a view."""
    rank = transform.input_rank
    if not any(units):
        return (None,) * rank
    if transform.unmoved:
        return units
    return carried(
        units, transform.lines(alone=True), rank, lambda unit, _, stride: unit * abs(stride)
    )


def units_before(units: Units, transform: IndexTransform) -> Units:
    """Return the units of what is viewed, from those of the view.

    Raises
    ------
    ArgumentError
        If a dimension of the view that has a unit is none of what is viewed.
    """
    return carried_back(
        units,
        transform,
        lambda unit, _, stride: unit / abs(stride),
        lambda _: True,
        "dimension_units",
    )
