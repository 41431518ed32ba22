"""Values in messages: short and printable, whatever their type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tessarr._safe_repr import safe_repr, truncate


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -3,
        1.5,
        float("nan"),
        "it's",
        b"\0",
        [],
        [1, [2]],
        (),
        (1,),
        (1, "a"),
        {},
        {"a": [1], 2: None},
        slice(1, None, 2),
        np.int8(3),
        np.zeros(3),
        Ellipsis,
    ],
)
def test_safe_repr_short_values_equal_repr(value: object) -> None:
    """Short values have Python's representation."""
    assert safe_repr(value) == repr(value)


def test_safe_repr_of_nested_lists_is_truncated() -> None:
    """The function supports any depth."""
    value: Any = {}
    for _ in range(200_000):
        value = [value]
    assert safe_repr(value) == "[" * 200 + "…"
    assert safe_repr({"a": (value,)}).startswith("{'a': ([[[[")


def test_safe_repr_of_cyclic_lists_is_truncated() -> None:
    """A list that contains itself is infinite."""
    value: list[Any] = [1]
    value.append(value)
    assert safe_repr(value).startswith("[1, [1, [1, ")


def test_safe_repr_of_huge_integer_counts_bits() -> None:
    """Python refuses to print integers with so many digits."""
    assert safe_repr(10**5000) == "an integer of 16610 bits"
    assert safe_repr([-(10**5000)]) == "[an integer of 16610 bits]"
    assert safe_repr(2**256 - 1) == str(2**256 - 1)


def test_safe_repr_of_long_values_is_truncated() -> None:
    """The text has a length limit, and the function inspects no more of the value."""
    for value in ("x" * 10**6, b"x" * 10**6, [0] * 10**6, np.zeros(1000), {"x" * 10**6: 1}):
        assert len(safe_repr(value)) == 201


def test_lone_surrogates_are_escaped() -> None:
    """The message is printable."""
    assert safe_repr("a\ud800") == r"'a\ud800'"


def test_safe_repr_of_failing_repr_names_type() -> None:
    """The error of an object's own method does not replace the message."""

    class Rude:
        def __repr__(self) -> str:
            raise OSError

    assert safe_repr([Rude()]) == "[an object of 'Rude']"


def test_truncate_stops_reading_pieces() -> None:
    """The function joins pieces until it has enough letters."""
    pieces = iter(["x"] * 1000)
    assert truncate(pieces) == "x" * 200 + "…"
    assert len(list(pieces)) == 799
