"""Boxes as JSON: the bounds and labels of all dimensions, each as a list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tessarr.errors import ArgumentError
from tessarr.space.domain import INFINITE, MAX_RANK, Box, Dim, check_labels

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tessarr.types import JSONObject

__all__ = ["box_from_json", "box_to_json"]

Bound: TypeAlias = "tuple[int, bool]"
"""A bound, and whether it is implicit."""


def box_to_json(dims: Box, prefix: str = "") -> JSONObject:
    """Return the members that state a box, each with `prefix` before its name, in order."""
    result: JSONObject = {}
    if any(d.exclusive_max <= INFINITE or not d.implicit_upper for d in dims):
        result[f"{prefix}exclusive_max"] = [
            _bound_json(d.exclusive_max, d.implicit_upper) for d in dims
        ]
    if any(d.inclusive_min != -INFINITE or not d.implicit_lower for d in dims):
        result[f"{prefix}inclusive_min"] = [
            _bound_json(d.inclusive_min, d.implicit_lower) for d in dims
        ]
    labels = [d.label for d in dims]
    if any(labels):
        result[f"{prefix}labels"] = labels
    if not result:
        result[f"{prefix}rank"] = len(dims)
    return result


def _bound_json(bound: int, implicit: bool) -> Any:
    text = "-inf" if bound == -INFINITE else "+inf" if bound > INFINITE else bound
    return [text] if implicit else text


_ENDS: Final = ("exclusive_max", "inclusive_max", "shape")
_COLUMNS: Final = ("inclusive_min", *_ENDS, "labels")


def box_from_json(members: Mapping[str, Any], prefix: str = "") -> Box | None:
    """Return the box that members state, or None where nothing is said of its rank.

    Raises
    ------
    ArgumentError
        If the members contradict each other, or are no bounds.
    """
    given = {
        name: members[prefix + name] for name in _COLUMNS if members.get(prefix + name) is not None
    }
    rank = _rank(given, members.get(f"{prefix}rank"), prefix)
    if rank is None:
        return None
    lowers: list[Bound] = [(0, False) if "shape" in given else (-INFINITE, True)] * rank
    if "inclusive_min" in given:
        lowers = _bounds(given["inclusive_min"], f"{prefix}inclusive_min", -INFINITE)
    uppers = _uppers(given, lowers, prefix)
    dims: list[Dim] = []
    for (lower, first), (upper, last) in zip(lowers, uppers, strict=True):
        if not -INFINITE <= lower <= upper <= INFINITE + 1:
            what = f"[{lower}, {upper}) is not an interval of indices"
            raise ArgumentError(f"dimension {len(dims)}: {what}")
        dims.append(Dim.of(lower, upper, "", (first, last)))
    if "labels" not in given:
        return tuple(dims)
    for label in given["labels"]:
        if not isinstance(label, str):
            raise ArgumentError(f"{prefix}labels: {label!r} is not a string")
    pairs = zip(dims, given["labels"], strict=True)
    return check_labels([dim.labelled(label) for dim, label in pairs])


def _rank(given: Mapping[str, Any], rank: Any, prefix: str) -> int | None:
    """Return the length of all columns."""
    for name, value in given.items():
        if not isinstance(value, (list, tuple)):
            raise ArgumentError(f"{prefix}{name}: {value!r} is not a list")
        if rank is not None and len(value) != rank:
            raise ArgumentError(f"{prefix}{name}: {len(value)} items, the rank is {rank}")
        rank = len(value)
    if rank is None:
        return None
    if isinstance(rank, float) and rank.is_integer():
        rank = int(rank)
    if not isinstance(rank, int) or isinstance(rank, bool) or not 0 <= rank <= MAX_RANK:
        raise ArgumentError(f"{prefix}rank: {rank!r} is not an integer from 0 to {MAX_RANK}")
    return rank


def _uppers(given: Mapping[str, Any], lowers: list[Bound], prefix: str) -> list[Bound]:
    """Return the exclusive upper bounds, in whichever way they are given."""
    ends = [name for name in _ENDS if name in given]
    if not ends:
        return [(INFINITE + 1, True)] * len(lowers)
    if len(ends) > 1:
        raise ArgumentError(f"give one of {', '.join(prefix + name for name in ends)}")
    found = _bounds(given[ends[0]], prefix + ends[0], INFINITE + 1)
    if ends[0] == "exclusive_max":
        return found
    past = [1 if ends[0] == "inclusive_max" else lower for lower, _ in lowers]
    return [
        (bound if bound > INFINITE else bound + by, implicit)
        for (bound, implicit), by in zip(found, past, strict=True)
    ]


def _bounds(values: Any, name: str, infinite: int) -> list[Bound]:
    """Return bounds; ``[bound]`` is an implicit one, and a string stands for the infinite one."""
    return [
        (value, False) if type(value) is int else _bound(value, f"{name}[{k}]", infinite)
        for k, value in enumerate(values)
    ]


def _bound(value: Any, name: str, infinite: int) -> Bound:
    implicit = isinstance(value, (list, tuple)) and len(value) == 1
    bound = value[0] if implicit else value
    if bound == ("-inf" if infinite < 0 else "+inf"):
        return infinite, implicit
    if isinstance(bound, float) and bound.is_integer():
        bound = int(bound)
    if not isinstance(bound, int) or isinstance(bound, bool):
        raise ArgumentError(f"{name}: {value!r} is not an index")
    return bound, implicit
