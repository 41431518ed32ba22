"""Hard and soft constraints on single values and on rows of values.

Two different hard constraints on one value raise an error. A hard constraint replaces a soft one;
a soft constraint applies only to an unconstrained value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from tessarr._safe_repr import safe_repr
from tessarr.errors import ArgumentError, TooLargeError
from tessarr.index_space.dimension_names import as_integer
from tessarr.tensorstore.json.parse import as_float, read_items
from tessarr.types import JSONObject

__all__ = [
    "SOFT",
    "Constraint",
    "Row",
    "add_row_json",
    "check_keywords",
    "drop_empty_row",
    "get_value",
    "get_values",
    "hard_only",
    "hard_only_row",
    "merge_constraints",
    "merge_rows",
    "read_row",
    "row_of_values",
    "soften",
    "soften_row",
]

SOFT: Final = "_soft_constraint"
"""The suffix of the JSON members of soft constraints."""


class Constraint(NamedTuple):
    """A required or preferred value."""

    value: Any
    hard: bool


Row: TypeAlias = "tuple[Constraint | None, ...]"
"""The constraint of each dimension; empty if the rank is unknown."""


def merge_constraints(
    old: Constraint | None, new: Constraint | None, what: str
) -> Constraint | None:
    """Merge two constraints.

    Raises
    ------
    ArgumentError
        If both constraints are hard and differ.
    """
    if new is None or (old is not None and old.hard and not new.hard):
        return old
    if old is not None and old.hard and new.value != old.value:
        raise ArgumentError(
            f"{what}: the hard constraint {new.value} does not match the existing one, {old.value}"
        )
    return new if old is None or new.hard else old


def merge_rows(old: Row, new: Row, what: str) -> Row:
    """Merge two rows of constraints, dimension by dimension."""
    if not old or not new or old == new:
        return new or old
    return tuple(
        (one or other)
        if one is None or other is None
        else merge_constraints(one, other, f"{what} of dimension {k}")
        for k, (one, other) in enumerate(zip(old, new, strict=True))
    )


def read_row(values: Any, hard: bool, check: Callable[[Any], Constraint | None], what: str) -> Row:
    """Return the constraints of a JSON list, one per dimension.

    Raises
    ------
    ArgumentError
        If `check` rejects a value.
    """
    result = []
    for k, value in enumerate(read_items(values, what)):
        try:
            wish = None if value is None else check(value)
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ArgumentError(
                f"{what} of dimension {k}: {safe_repr(value)} is not valid"
            ) from error
        result.append(None if wish is None else Constraint(wish.value, wish.hard and hard))
    return tuple(result)


def hard_only(wish: Constraint | None) -> Constraint | None:
    """Return a constraint if it is hard, else None."""
    return wish if wish is not None and wish.hard else None


def hard_only_row(row: Row) -> Row:
    """Return a row with only its hard constraints."""
    return tuple(map(hard_only, row))


def row_of_values(values: Sequence[Any]) -> Row:
    """Return hard constraints from valid values; 0 and None are no constraint."""
    return tuple([Constraint(value, True) if value else None for value in values])


def soften(wish: Constraint | None) -> Constraint | None:
    """Return a constraint as a soft constraint."""
    return None if wish is None else Constraint(wish.value, False)


def soften_row(row: Row) -> Row:
    """Return a row with all constraints as soft constraints."""
    return tuple(map(soften, row))


def get_value(wish: Constraint | None, *, hard: bool) -> Any:
    """Return the hard or the soft value of a constraint, or None."""
    return wish.value if wish is not None and wish.hard == hard else None


def get_values(row: Row, rank: int, *, hard: bool) -> tuple[Any, ...] | None:
    """Return the hard or the soft values of a row; None if the rank is unknown."""
    if not row:
        return None if rank < 0 else (None,) * rank
    return tuple([wish.value if wish and wish.hard == hard else None for wish in row])


def drop_empty_row(row: Row) -> Row:
    """Return a row, or an empty row if all its dimensions are unconstrained."""
    return row if any(row) else ()


def add_row_json(result: JSONObject, name: str, row: Row) -> None:
    """Add the JSON members of a row."""
    for hard in {wish.hard for wish in row if wish is not None}:
        values = [get_value(wish, hard=hard) for wish in row]
        result[name if hard else name + SOFT] = values


def check_keywords(given: Mapping[str, Any]) -> None:
    """Raise an error for a keyword whose value has the wrong type.

    Raises
    ------
    TypeError
        If a value has the wrong type.
    """
    for name, value in given.items():
        bare = name.removesuffix(SOFT)
        try:
            if bare.endswith(("shape", "order", "origin")):
                _ = [one is None or as_integer(one) for one in read_items(value, name)]
            elif bare.endswith("aspect_ratio"):
                _ = [one is None or as_float(one, name) for one in read_items(value, name)]
            elif bare.endswith(("rank", "elements")):
                as_integer(value)
        except TooLargeError:
            raise
        except (TypeError, ValueError) as error:
            raise TypeError(f"{name}: {safe_repr(value)} is not of the right type") from error
