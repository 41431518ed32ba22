"""Fill values: every form of both formats, bit for bit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessarr import dtype
from tessarr.format.validation import Problems

NAMES = [
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *("float16", "float32", "float64", "complex64", "complex128", "r8", "r40"),
    *("M8[ns]", "m8[10s]", "S5", "record"),
]

RECORD = [("a", "u1"), ("b", "f8"), ("c", [("d", "S2"), ("e", "M8[s]"), ("f", "c8")])]


def parse(data_type, value, zarr_format=3):
    problems = Problems()
    fill = of(data_type).fill_from_json(value, zarr_format, "/fill_value", problems)
    assert (fill is None) == bool(problems.found)
    return fill if fill is not None else problems.found


def of(data_type):
    return dtype.to_data_type(
        RECORD if isinstance(data_type, str) and data_type == "record" else data_type
    )


def orders(name):
    data_type = of(name)
    if data_type.unit_bytes == 1:
        return [data_type]
    return [data_type.ordered(order) for order in ("little", "big")]


@pytest.mark.parametrize(
    ("name", "value", "bits"),
    [
        ("float16", "NaN", "7e00"),
        ("float32", "NaN", "7fc00000"),
        ("float64", "NaN", "7ff8000000000000"),
        ("float16", "0x7e01", "7e01"),
        ("float32", "0xff800001", "ff800001"),  # a signalling NaN
        ("float32", "0x80000000", "80000000"),
        ("float64", "0xFFF0000000000001", "fff0000000000001"),
        ("float32", "Infinity", "7f800000"),
        ("float64", "-Infinity", "fff0000000000000"),
        ("float32", -0.0, "80000000"),
        ("float64", 5e-324, "0000000000000001"),
        ("float32", 1, "3f800000"),
        ("float32", 0.1, "3dcccccd"),
        ("complex64", [1.0, "-Infinity"], "3f800000ff800000"),
        ("complex64", ["0x7fc00001", "NaN"], "7fc000017fc00000"),
        ("int64", -(2**63), "8000000000000000"),
        ("uint64", 2**64 - 1, "ffffffffffffffff"),
        ("int8", -1, "ff"),
        ("bool", True, "01"),
    ],
)
def test_format_3_fill_forms_have_expected_bits(name, value, bits):
    for data_type in orders(name):
        fill = parse(data_type, value)
        unit = data_type.unit_bytes
        units = [fill[i : i + unit] for i in range(0, len(fill), unit)]
        big = b"".join(u if data_type.big_endian else u[::-1] for u in units)
        assert big.hex() == bits
        again = parse(data_type, data_type.fill_to_json(fill, 3))
        assert again == fill


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("float32", "0x7fc0000"),
        ("float32", "0x07fc00000"),
        ("float32", "0x"),
        ("float32", "0xg"),
        ("float32", "nan"),
        ("float32", "+Infinity"),
        ("float32", 1e39),
        ("float32", 10**400),
        ("float16", 65520.0),
        ("float32", True),
        ("float32", None),
        ("float32", [1]),
        ("int8", 128),
        ("int8", 1.0),
        ("int8", "1.5"),
        ("int8", True),
        ("int8", None),
        ("uint64", -1),
        ("uint64", 2**64),
        ("bool", 2),
        ("bool", "maybe"),
        ("bool", None),
        ("complex64", [1]),
        ("complex64", [1, 2, 3]),
        ("complex64", True),
        ("complex64", "Infinity"),
        ("complex64", ["NaN", "x"]),
        ("r16", [1]),
        ("r16", [1, 256]),
        ("r16", [1, True]),
        ("r16", "AQ=="),
        ("r16", "!"),
        ("r16", 0),
    ],
)
def test_invalid_fill_value_problem_has_json_path(name, value):
    problems = parse(name, value)
    assert all(problem.loc.startswith("/fill_value") for problem in problems)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("|V3", "AQID", b"\1\2\3"),
        ("<f4", "NaN", np.float32("nan").tobytes()),
        ("|b1", False, b"\0"),
        (">i2", 258, b"\1\2"),
        ("<c16", ["NaN", -1.0], np.array(complex(math.nan, -1.0)).tobytes()),
    ],
)
def test_forms_of_format_2(name, value, expected):
    assert parse(name, value, 2) == expected


@pytest.mark.parametrize("value", ["0x7fc00001", "nan", "", True])
def test_format_2_has_no_hexadecimal_form(value):
    assert isinstance(parse("<f4", value, 2), list)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [("|b1", 0, b"\0"), ("|b1", 1, b"\1"), ("<i4", 5.0, b"\5\0\0\0"), ("|V2", 0, b"\0\0")],
)
def test_defects_of_old_writers_read_with_warning(name, value, expected):
    problems = Problems()
    fill = dtype.to_data_type(name).fill_from_json(value, 2, "/fill_value", problems)
    assert fill == expected
    assert len(problems) == 0
    assert len(problems.defects) == 1


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_format_3_keeps_all_bits(name, data):
    for data_type in orders(name):
        size = data_type.item_bytes
        fill = data.draw(st.binary(min_size=size, max_size=size))
        if name == "bool":
            fill = bytes([fill[0] & 1])
        assert parse(data_type, data_type.fill_to_json(fill, 3)) == fill


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_storable_fill_survives_format_2(name, data):
    for data_type in orders(name):
        size = data_type.item_bytes
        fill = data.draw(st.binary(min_size=size, max_size=size))
        if name == "bool":
            fill = bytes([fill[0] & 1])
        storable = data_type.storable_fill(fill, 2)
        assert parse(data_type, data_type.fill_to_json(storable, 2), 2) == storable
        if data_type.numpy.kind not in "fc" or not np.isnan(data_type.scalar(fill)):
            assert storable == fill


@pytest.mark.parametrize("name", NAMES)
def test_scalars_of_type_are_cast_bit_for_bit(name):
    for data_type in orders(name):
        fill = data_type.default_fill()
        assert data_type.cast_fill(data_type.scalar(fill)) == fill


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("int8", 128),
        ("int8", 1.5),
        ("int8", math.nan),
        ("int8", "1"),
        ("uint8", -1),
        ("float32", "x"),
        ("float32", 1e39),
        ("float32", 1j),
        ("bool", 2),
        ("bool", "true"),
        ("complex64", "x"),
        ("r16", b"xyz"),
        ("r16", 1),
        ("float32", np.zeros(2)),
    ],
)
def test_fill_value_that_type_changes_raises(name, value):
    with pytest.raises(ValueError, match=r"."):
        dtype.to_data_type(name).cast_fill(value)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("int8", 3.0, b"\3"),
        ("int8", np.int64(-1), b"\xff"),
        ("uint8", True, b"\1"),
        ("float32", 1, np.float32(1).tobytes()),
        ("float32", np.float64(0.1), np.float32(0.1).tobytes()),
        ("float32", "NaN", np.float32("nan").tobytes()),
        ("complex64", 2, np.complex64(2).tobytes()),
        ("complex64", [1, 2], np.complex64(1 + 2j).tobytes()),
        (
            "complex64",
            complex(math.inf, math.nan),
            np.complex64(complex(math.inf, math.nan)).tobytes(),
        ),
        ("bool", 1, b"\1"),
        ("r16", b"ab", b"ab"),
        ("r16", b"a", b"a\0"),
        ("r16", 0, b"\0\0"),
        ("r16", np.void(b"ab"), b"ab"),
    ],
)
def test_values_that_fit_are_accepted(name, value, expected):
    assert dtype.to_data_type(name).cast_fill(value) == expected


def test_payload_of_nan_scalar_is_preserved():
    value = np.frombuffer(b"\1\0\xc0\x7f", dtype="<f4")[0]
    assert dtype.to_data_type("float32").cast_fill(value) == b"\1\0\xc0\x7f"
