"""Values that differ from others in few members."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from tessarr.replacing import replacing


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int
    name: str = ""
    known: dict[str, int] = field(default_factory=dict, init=False, compare=False)


@dataclass
class Free:
    x: int
    y: int


def test_named_members_are_others_and_all_else_is_the_very_same() -> None:
    point = Point(1, 2, "here")
    moved = replacing(Point, "y", "x")(point, 5, 6)
    assert moved == replace(point, x=6, y=5) == Point(6, 5, "here")
    assert moved.known is point.known
    assert type(moved) is Point


def test_nothing_but_the_new_value_is_changed() -> None:
    point = Point(1, 2)
    again = replacing(Point)(point)
    assert again == point
    assert again is not point


def test_classes_without_slots() -> None:
    assert replacing(Free, "x")(Free(1, 2), 3) == Free(3, 2)


@pytest.mark.parametrize("others", [(), (1, 2)])
def test_as_many_values_are_given_as_were_named(others: tuple[int, ...]) -> None:
    with pytest.raises(TypeError, match=rf"{len(others)} members are given of 1"):
        replacing(Point, "x")(Point(1, 2), *others)
