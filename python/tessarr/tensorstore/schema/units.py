"""Physical units of dimensions: the length of one step.

A unit is a multiplier and the name of a base unit, such as ``4 nm`` or ``nm``. Tessarr does not
interpret the name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from tessarr._safe_repr import safe_repr
from tessarr.errors import ArgumentError
from tessarr.format.registry import set_public_module
from tessarr.index_space import IndexTransform
from tessarr.tensorstore.json.parse import to_plain_json
from tessarr.tensorstore.schema.propagate import propagate_values, propagate_values_back

__all__ = [
    "Unit",
    "UnitLike",
    "Units",
    "merge_units",
    "propagate_units",
    "propagate_units_back",
    "units_from_json",
    "units_of",
]

_SPACE: Final = " \t\n\v\f\r"
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


class Unit:
    """A physical unit: a multiplier, and the name of a base unit.

    ``Unit("4nm")``, ``Unit(4, "nm")`` or ``Unit(multiplier=4, base_unit="nm")``,
    ``Unit((4, "nm"))``, ``Unit(4)`` for one without dimension, or ``Unit(json=[4, "nm"])``.

    Raises
    ------
    ArgumentError
        If the JSON is not a valid unit.

    Examples
    --------
    >>> Unit("3.5 nm") * 2, str(Unit(4, "nm")), Unit("4nm").to_json()
    (Unit(7, "nm"), '4 nm', [4.0, 'nm'])
    """

    __slots__ = ("__weakref__", "_value")
    __hash__ = None  # type: ignore[assignment]

    _value: tuple[float, str]

    def __init__(
        self, unit: Any = ..., base_unit: Any = ..., *, multiplier: Any = ..., json: Any = ...
    ) -> None:
        if multiplier is not ...:
            if unit is not ...:
                raise TypeError("pass either unit or multiplier")
            unit = _number(multiplier)
        if json is not ...:
            if unit is not ... or base_unit is not ...:
                raise TypeError("json describes the whole unit: pass no other argument")
            parts = _parse_json(json)
        elif base_unit is not ...:
            if unit is ...:
                raise TypeError("base_unit needs a multiplier")
            parts = _parse_pair(unit, base_unit)
        else:
            parts = (1.0, "") if unit is ... else _parse_unit(unit)
        self._value = parts

    @property
    def _parts(self) -> tuple[float, str]:
        """The multiplier and the base unit; 1 if a subclass has not called `__init__`."""
        return getattr(self, "_value", (1.0, ""))

    def __getstate__(self) -> tuple[tuple[float, str], dict[str, Any] | None]:
        return self._parts, getattr(self, "__dict__", None)

    def __setstate__(self, state: tuple[tuple[float, str], dict[str, Any] | None]) -> None:
        self._value, attributes = state
        if attributes:
            vars(self).update(attributes)

    @property
    def multiplier(self) -> float:
        """The number of base units.

        Examples
        --------
        >>> Unit("4nm").multiplier
        4.0
        """
        return self._parts[0]

    @property
    def base_unit(self) -> str:
        """The name of the base unit; "" for a number without a unit.

        Examples
        --------
        >>> Unit("4nm").base_unit
        'nm'
        """
        return self._parts[1]

    def to_json(self) -> list[Any]:
        """Return a list of the multiplier and the base unit.

        Examples
        --------
        >>> Unit("4nm").to_json()
        [4.0, 'nm']
        """
        return [*self._parts]

    def __mul__(self, factor: float) -> Unit:
        return Unit(self.multiplier * _number(factor), self.base_unit)

    def __truediv__(self, divisor: float) -> Unit:
        number = _number(divisor)
        if number != 0:
            return Unit(self.multiplier / number, self.base_unit)
        infinite = math.copysign(math.inf, self.multiplier)
        return Unit(infinite if self.multiplier else math.nan, self.base_unit)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Unit):
            return NotImplemented
        return self.multiplier == other.multiplier and self.base_unit == other.base_unit

    def __str__(self) -> str:
        if not self.base_unit:
            return f"{self.multiplier:.6g}"
        if self.multiplier == 1:
            return self.base_unit
        return f"{self.multiplier:.6g} {self.base_unit}"

    def __repr__(self) -> str:
        quoted = self.base_unit.replace("\\", "\\\\").replace('"', '\\"')
        return f'Unit({self.multiplier:.6g}, "{quoted}")'


def _parse_unit(value: Any) -> tuple[float, str]:
    """Return the multiplier and the base unit of a string, a pair or a number."""
    if isinstance(value, (str, bytes)):
        return _parse_text(_as_text(value))
    if isinstance(value, (tuple, list)):
        if len(value) != 2:
            raise TypeError(f"{safe_repr(value)} is not a pair")
        return _parse_pair(*value)
    return _number(value), ""


def _parse_json(json: Any) -> tuple[float, str]:
    if isinstance(json, str) or _is_json_number(json):
        return _parse_unit(json)
    if isinstance(json, (tuple, list)) and len(json) == 2:
        multiplier, base_unit = json
        if _is_json_number(multiplier) and isinstance(base_unit, str):
            return _parse_pair(multiplier, base_unit)
    raise ArgumentError(f"{safe_repr(json)} is not a unit: give a string, or [multiplier, base]")


def _is_json_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _parse_pair(multiplier: Any, base_unit: Any) -> tuple[float, str]:
    if not isinstance(base_unit, (str, bytes)):
        raise TypeError(f"the base unit {safe_repr(base_unit)} is not a string")
    text = _as_text(base_unit)
    return _number(multiplier), text


def _parse_text(text: str) -> tuple[float, str]:
    """Return the leading number of a text, or 1, and the rest of the text."""
    text = text.strip(_SPACE)
    number = _NUMBER.match(text)
    if number and math.isfinite(multiplier := float(number[0])):
        return multiplier, text[number.end() :].lstrip(_SPACE)
    return 1.0, text


def _as_text(value: str | bytes) -> str:
    try:
        if isinstance(value, bytes):
            return bytes.decode(value)
        str.encode(value)  # raises for surrogates
    except UnicodeError as error:
        raise ArgumentError(f"the unit {safe_repr(value)} is not UTF-8") from error
    return str.__str__(value)  # a subclass may override `__str__`


def _number(value: Any) -> float:
    if isinstance(value, (str, bytes)):
        raise TypeError(f"{safe_repr(value)} is not a number")
    try:
        return math.ldexp(value, 0)  # unlike `float`, it does not parse buffers of bytes
    except OverflowError as error:
        raise ArgumentError(f"{safe_repr(value)} is beyond the range of a unit") from error


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


set_public_module("tessarr.tensorstore", Unit)
