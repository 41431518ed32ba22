"""The codec `cast_value`: rounding, out-of-range values, mapped scalars."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessarr import codec, dtype
from tessarr.codec import ArraySpec
from tessarr.codec.casting import OUT_OF_RANGE, ROUNDINGS, UnrepresentableError, cast
from tessarr.codec.read import read_v3
from tessarr.codecs import (
    CastValue,
)
from tessarr.errors import ArgumentError, DataError
from tessarr.format.validation import Problems

# cast_value


def cast_by_python_numbers(value, target, rounding, outside):
    """Cast one number by the definition, with Python's fractions."""
    from fractions import Fraction

    if target.kind in "iu":
        info = np.iinfo(target)
        exact = Fraction(value)
        whole = exact.numerator // exact.denominator
        rest = exact - whole
        up = {
            "nearest-even": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1),
            "nearest-away": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and exact > 0),
            "towards-zero": rest > 0 and exact < 0,
            "towards-positive": rest > 0,
            "towards-negative": False,
        }[rounding]
        number = whole + up
        if info.min <= number <= info.max:
            return number
        if outside == "clamp":
            return int(info.min if number < 0 else info.max)
        if outside == "wrap":
            number %= 1 << info.bits
            return number - (1 << info.bits) if number > info.max else number
        return None
    raise AssertionError(target)


NUMBERS = st.one_of(
    st.floats(-300, 300, width=32),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-300, 300).map(lambda n: n / 2),
    st.sampled_from((2.0**63, -(2.0**63), 2.0**64, 2.0**53 + 2, 1e300, 0.49999999999999994)),
)


@given(
    st.lists(NUMBERS, max_size=6),
    st.sampled_from(("i1", "u1", "i2", "u4", "i8", "u8")),
    st.sampled_from(ROUNDINGS),
    st.sampled_from((None, *OUT_OF_RANGE)),
)
def test_cast_of_floats_to_integers(numbers, name, rounding, outside):
    target = np.dtype(name)
    expected = [cast_by_python_numbers(number, target, rounding, outside) for number in numbers]
    array = np.array(numbers, "f8")
    if None in expected:
        with pytest.raises(UnrepresentableError):
            cast(array, target, rounding, outside)
    else:
        result = cast(array, target, rounding, outside)
        assert result.dtype == target
        assert result.astype(object).tolist() == expected


@given(
    st.lists(st.integers(-(2**63), 2**64 - 1), max_size=6),
    st.sampled_from(("i8", "u8", "i4", "u2")),
    st.sampled_from(("i1", "u1", "i2", "u4", "i8", "u8")),
    st.sampled_from((None, *OUT_OF_RANGE)),
)
def test_cast_of_integers_to_integers(numbers, source, name, outside):
    info, target = np.iinfo(source), np.dtype(name)
    numbers = [number for number in numbers if info.min <= number <= info.max]
    expected = [
        cast_by_python_numbers(number, target, "towards-zero", outside) for number in numbers
    ]
    array = np.array(numbers, source)
    if None in expected:
        with pytest.raises(UnrepresentableError):
            cast(array, target, outside=outside)
    else:
        assert cast(array, target, outside=outside).astype(object).tolist() == expected


def directed(value, target, rounding):
    """Return a number as another type, rounded in a direction; infinite if it is too large."""
    exact, near = Fraction(value), target.type(value)
    limit = Fraction(2) ** int(np.finfo(target).maxexp)
    if abs(exact) >= limit:
        return target.type(np.copysign(np.inf, float(exact)))
    number = limit if near == np.inf else -limit if near == -np.inf else Fraction(float(near))
    if number == exact:
        return near
    other = np.nextafter(near, target.type("-inf" if number > exact else "inf"))
    below, above = (other, near) if number > exact else (near, other)
    if rounding == "towards-zero":
        return below if exact > 0 else above
    if rounding == "nearest-away":
        beside = Fraction(float(other))
        tie = abs(beside - exact) == abs(number - exact)
        return max(near, other, key=abs) if tie else near
    return {"towards-negative": below, "towards-positive": above}.get(rounding, near)


@given(
    st.one_of(
        st.lists(NUMBERS, max_size=6).map(lambda n: np.array(n, "f8")),
        st.lists(st.integers(-(2**63), 2**63 - 1), max_size=6).map(lambda n: np.array(n, "i8")),
        st.lists(st.integers(0, 2**64 - 1), max_size=6).map(lambda n: np.array(n, "u8")),
    ),
    st.sampled_from(("f2", "f4", "f8")),
    st.sampled_from(ROUNDINGS),
)
def test_cast_to_floats_gives_right_neighbour(array, name, rounding):
    target = np.dtype(name)
    with np.errstate(all="ignore"):
        expected = [directed(value, target, rounding) for value in array.tolist()]
    assert cast(array, target, rounding, "clamp").tolist() == [float(n) for n in expected]


def test_cast_out_of_range_of_floats():
    big = np.array([1e39, -1e39, 3.4028235e38, np.inf, np.nan])
    result = cast(big, np.dtype("f4"), "towards-zero", "clamp")
    expected = np.array([np.inf, -np.inf, 3.4028235e38, np.inf, np.nan], "f4")
    np.testing.assert_array_equal(result, expected)
    with pytest.raises(UnrepresentableError):
        cast(big, np.dtype("f4"))
    with pytest.raises(UnrepresentableError):  # infinity has no integer, clamped or not
        cast(big[3:4], np.dtype("i4"), outside="clamp")
    assert cast(np.array([np.finfo("f4").max * (1 + 1e-9)]), np.dtype("f4"), "towards-zero")[0] == (
        np.finfo("f4").max
    )


NAN_MAP = {"encode": [["NaN", 0], ["+Infinity", 1]], "decode": [[0, "NaN"], [0, 5]]}


def test_cast_value_maps_scalars_first():
    array = np.array([np.nan, np.inf, 3.0, 255.0])
    codec = CastValue("uint8", scalar_map=NAN_MAP)
    np.testing.assert_array_equal(codec.encode(array), [0, 1, 3, 255])
    back = codec.decode(
        codec.encode(array), ArraySpec(array.shape, dtype.to_data_type(array.dtype))
    )
    np.testing.assert_array_equal(back, [np.nan, 1, 3, 255])
    document = codec.to_json(3)
    assert document["configuration"]["scalar_map"] == NAN_MAP
    assert read_v3(document, "", Problems()) == codec
    with pytest.raises(ArgumentError, match="does not fit uint8"):
        codec.encode(np.array([256.0]))
    with pytest.raises(DataError, match="does not fit int8"):
        CastValue("int16").decode(np.array([300], "i2"), ArraySpec((1,), dtype.to_data_type("i1")))


def test_example_of_numpy_compatibility():
    chain = {"data_type": "uint8", "rounding": "towards-zero", "out_of_range": "wrap"}
    chain["scalar_map"] = {"encode": [["NaN", 0], ["-Infinity", 0]]}
    chain_codec = codec.to_codec({"name": "cast_value", "configuration": chain})
    array = np.array([1.9, 256.5, -1.0, np.nan, -np.inf])
    np.testing.assert_array_equal(chain_codec.encode(array), [1, 0, 255, 0, 0])


SMALL_FLOATS = (
    *("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "float6_e2m3fn"),
    *("float4_e2m1fn", "float8_e8m0fnu"),
)


@given(
    st.lists(NUMBERS, max_size=8).map(lambda n: np.array(n, "f8")),
    st.sampled_from(SMALL_FLOATS),
    st.sampled_from(ROUNDINGS),
)
def test_cast_to_small_floats_rounds(array, name, rounding):
    pytest.importorskip("ml_dtypes")
    target = dtype.to_data_type(name).numpy
    patterns = np.arange(2 ** (8 * target.itemsize), dtype=f"u{target.itemsize}")
    with np.errstate(invalid="ignore"):
        every = patterns.view(target).astype("f8")
    finite = sorted(set(every[np.isfinite(every)].tolist()))
    array = array[(array >= finite[0]) & (array <= finite[-1])]
    actual = cast(array, target, rounding)
    assert actual.dtype == target
    for value, result in zip(array.tolist(), actual.astype("f8").tolist(), strict=True):
        below = max(number for number in finite if number <= value)
        above = min(number for number in finite if number >= value)
        assert result in (below, above)
        down, up = Fraction(value) - Fraction(below), Fraction(above) - Fraction(value)
        if below == above:
            continue
        if rounding == "towards-zero":
            assert result == (below if value > 0 else above)
        elif rounding in ("towards-positive", "towards-negative"):
            assert result == (above if rounding == "towards-positive" else below)
        elif up != down:
            assert result == (below if down < up else above)
        elif rounding == "nearest-away":
            assert abs(result) == max(abs(below), abs(above))


def test_small_types_are_cast():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    int4, e4m3, e5m2 = (
        np.dtype(getattr(ml_dtypes, n)) for n in ("int4", "float8_e4m3fn", "float8_e5m2")
    )
    big = np.array([100.0, -9.0, 7.4])
    assert cast(big, int4, outside="clamp").astype(int).tolist() == [7, -8, 7]
    assert cast(big, int4, outside="wrap").astype(int).tolist() == [4, 7, 7]
    with pytest.raises(UnrepresentableError):
        cast(big, int4)
    assert cast(np.array([7, -8], int4), np.dtype("f4")).tolist() == [7, -8]
    assert cast(np.array([1e6, -1e6]), e4m3, outside="clamp").astype(float).tolist() == [448, -448]
    assert cast(np.array([1e6]), e5m2, outside="clamp").astype(float).tolist() == [np.inf]
    assert np.isnan(cast(np.array([np.nan]), e4m3).astype(float))
    with pytest.raises(UnrepresentableError):
        cast(np.array([np.inf]), e4m3, outside="clamp")
    with pytest.raises(UnrepresentableError):
        cast(np.array([1e6]), e5m2)
    assert np.signbit(cast(np.array([-0.0, -1e-30]), e5m2).astype(float)).all()
    huge = np.array([2**60 + 2**52 + 1, 2**60 + 2**52], "i8")  # just above a tie, and a tie
    assert cast(huge, np.dtype(ml_dtypes.bfloat16)).astype(float).tolist() == [
        2.0**60 + 2**53,
        2.0**60,
    ]
