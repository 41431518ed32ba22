"""Text, bytes, dates, records: their names, faults and fill values in both formats."""

from __future__ import annotations

import datetime as dt
import math

import numpy as np
import pytest

from tessarr import dtype
from tessarr.errors import ArgumentError, UnsupportedError
from tessarr.format.validation import Problems


def read(value, zarr_format=3):
    """Return the data type of a valid document, or the locations of its problems."""
    problems = Problems()
    data_type = dtype.from_json(value, zarr_format, "/d", problems)
    if problems.found:
        return [(problem.loc, problem.kind) for problem in problems.found]
    assert read_again(data_type, zarr_format) == data_type
    return data_type


def read_again(data_type, zarr_format):
    problems = Problems()
    dtype_again = dtype.from_json(data_type.to_json(zarr_format), zarr_format, "", problems)
    assert not problems.found
    assert not problems.defects
    return dtype_again


def fill(data_type, value, zarr_format=3):
    problems = Problems()
    result = data_type.fill_from_json(value, zarr_format, "/f", problems)
    assert (result is None) == bool(problems.found)
    if result is None:
        return [(problem.loc, problem.kind) for problem in problems.found]
    return result, len(problems.defects)


def named(name, **configuration):
    return {"name": name, "configuration": configuration}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (named("fixed_length_utf32", length_bytes=12), "<U3"),
        (named("null_terminated_bytes", length_bytes=3), "S3"),
        (named("raw_bytes", length_bytes=3), "V3"),
        (named("numpy.datetime64", unit="ns", scale_factor=1), "M8[ns]"),
        (named("numpy.datetime64", unit="as", scale_factor=2**31 - 1), "M8[2147483647as]"),
        (named("numpy.timedelta64", unit="\u03bcs", scale_factor=25), "m8[25us]"),
        (named("numpy.timedelta64", unit="\u00b5s", scale_factor=25), "m8[25us]"),
        (named("numpy.datetime64", unit="generic", scale_factor=1), "M8"),
        (
            named("struct", fields=[{"name": "a", "data_type": "int8"}]),
            [("a", "i1")],
        ),
        (
            named("structured", fields=[["a", "int8"], {"name": "b", "data_type": "r16"}]),
            [("a", "i1"), ("b", "V2")],
        ),
    ],
)
def test_format_3_names_map_to_numpy_types(value, expected):
    assert read(value).numpy == np.dtype(expected)
    assert dtype.to_data_type(value) == read(value)


@pytest.mark.parametrize(
    "value",
    [
        *("<U3", ">U3", "|S3", "|V3", "<M8[25s]", ">m8[ns]", "<M8[Y]"),
        [["a", "<i4"], ["b", ">f8", [2, 3]], ["c", [["d", "|S2"], ["e", "<M8[s]", [1]]]]],
    ],
)
def test_format_2_types_are_written_unchanged(value):
    assert read(value, 2).to_json(2) == value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (named("fixed_length_utf32", length_bytes=6), ("/length_bytes", "invalid_value")),
        (named("fixed_length_utf32", length_bytes=0), ("/length_bytes", "invalid_value")),
        (named("fixed_length_utf32", length_bytes=2**40), ("/length_bytes", "invalid_value")),
        ("fixed_length_utf32", ("", "missing_member")),
        (named("null_terminated_bytes", length_bytes=True), ("/length_bytes", "wrong_type")),
        (named("raw_bytes", length_bytes=1, x=1), ("/x", "unknown_member")),
        (named("numpy.datetime64", unit="ns", scale_factor=0), ("/scale_factor", "invalid_value")),
        (named("numpy.datetime64", unit="q", scale_factor=1), ("/unit", "invalid_value")),
        (named("numpy.datetime64", unit=[], scale_factor=1), ("/unit", "invalid_value")),
        (
            named("numpy.datetime64", unit="generic", scale_factor=2),
            ("/scale_factor", "invalid_value"),
        ),
        (named("struct", fields=[]), ("/fields", "invalid_value")),
        (named("struct", fields={}), ("/fields", "wrong_type")),
        (named("struct", fields=[["a", "int8"]]), ("/fields/0", "wrong_type")),
        (named("structured", fields=[["a"]]), ("/fields/0", "invalid_value")),
        (named("struct", fields=[{"name": "a"}]), ("/fields/0", "missing_member")),
        (
            named("struct", fields=[{"name": "", "data_type": "int8"}]),
            ("/fields/0/name", "invalid_value"),
        ),
        (
            named("struct", fields=[{"name": 1, "data_type": "int8"}]),
            ("/fields/0/name", "wrong_type"),
        ),
        (
            named("struct", fields=[{"name": "a", "data_type": "int8"}] * 2),
            ("/fields/1", "invalid_value"),
        ),
        (
            named("struct", fields=[{"name": "a", "data_type": named("raw_bytes")}]),
            ("/fields/0/data_type/configuration", "missing_member"),
        ),
    ],
)
def test_format_3_problems_have_json_path(value, expected):
    loc, kind = expected
    path = "/d" if isinstance(value, str) else "/d/configuration"
    assert (path + loc, kind) in read(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([], ("/d", "invalid_value")),
        (["a"], ("/d/0", "invalid_value")),
        ([["a"]], ("/d/0", "invalid_value")),
        ([["a", "<i4", [2], 1]], ("/d/0", "invalid_value")),
        ([[1, "<i4"]], ("/d/0/0", "wrong_type")),
        ([["", "<i4"]], ("/d/0/0", "invalid_value")),
        ([["a", 4]], ("/d/0/1", "invalid_value")),
        ([["a", "|i4"]], ("/d/0/1", "invalid_value")),
        ([["a", "<i4", [-1]]], ("/d/0/2/0", "invalid_value")),
        ([["a", "<i4", [0]]], ("/d/0/2/0", "invalid_value")),
        ([["a", "<i4", [2**62, 2**62]]], ("/d", "too_large")),
        ([["a", "<i4", [1] * 40]], ("/d/0/2", "too_large")),
        ([["a", "<i4"], ["a", "<i4"]], ("/d/1", "invalid_value")),
        ("<U9999999", ("/d", "too_large")),
        ("<M8[0s]", ("/d", "invalid_value")),
        ("<M8[q]", ("/d", "invalid_value")),
        ("<M8[10D/3]", ("/d", "invalid_value")),
        ("<m4[s]", ("/d", "invalid_value")),
    ],
)
def test_format_2_problems_have_json_path(value, expected):
    assert expected in read(value, 2)


def test_record_nesting_is_limited():
    value = "<i4"
    for _ in range(33):
        value = [["a", value]]
    assert ("/d/0", "too_large") in read(value, 2)


@pytest.mark.parametrize(
    ("name", "zarr_format", "value", "expected", "defects"),
    [
        ("<U3", 2, "\u65e5", "\u65e5\0\0".encode("utf-32-le"), 0),
        (">U2", 2, "ab", "ab".encode("utf-32-be"), 0),
        ("<U2", 2, 0, bytes(8), 1),
        ("<U2", 3, "", bytes(8), 0),
        ("S3", 2, "YWIA", b"ab\0", 0),
        ("S3", 2, "YWI=", b"ab\0", 0),  # not padded, as GDAL writes
        ("S3", 2, "", bytes(3), 0),
        ("S3", 2, 0, bytes(3), 1),
        ("S3", 3, "YWI=", b"ab\0", 0),
        ("M8[s]", 3, "NaT", b"\0\0\0\0\0\0\0\x80", 0),
        ("M8[s]", 2, -(2**63), b"\0\0\0\0\0\0\0\x80", 0),
        (">m8[s]", 2, 5, b"\0\0\0\0\0\0\0\5", 0),
        ([("a", ">i2"), ("b", "S1")], 2, "AAF4", b"\0\1x", 0),
        ([("a", ">i2"), ("b", "S1")], 2, 0, bytes(3), 1),
        ([("a", "u1"), ("b", "f4")], 3, {"a": 1, "b": "0x7fc00001"}, b"\1\1\0\xc0\x7f", 0),
        ([("a", [("b", "u1")])], 3, {"a": {"b": 7}}, b"\7", 0),
        ([("a", "u1"), ("b", "u1")], 3, "AQI=", b"\1\2", 1),
    ],
)
def test_forms_of_fill_values(name, zarr_format, value, expected, defects):
    assert fill(dtype.to_data_type(name), value, zarr_format) == (expected, defects)


@pytest.mark.parametrize(
    ("name", "zarr_format", "value", "loc"),
    [
        ("<U2", 3, "abc", ""),
        ("<U2", 3, 0, ""),
        ("<U2", 2, ["a"], ""),
        ("S2", 2, "abcd", ""),
        ("S2", 2, "x", ""),
        ("S2", 3, 0, ""),
        ("M8[s]", 3, "2020-01-01", ""),
        ("M8[s]", 3, 1.5, ""),
        ("M8[s]", 3, 2**63, ""),
        ("M8[s]", 2, True, ""),
        ([("a", "u1"), ("b", "f4")], 3, {"a": 1}, ""),
        ([("a", "u1")], 3, {"a": 1, "b": 1}, "/b"),
        ([("a", "u1")], 3, {"a": 256}, "/a"),
        ([("a", "u1")], 3, None, ""),
        ([("a", "u1")], 3, [1], ""),
        ([("a", "u1")], 2, {"a": 1}, ""),
        ([("a", "u1")], 2, "AQI=", ""),
        ([("a", "u1")], 2, 1, ""),
    ],
)
def test_invalid_fill_value_problem_has_json_path(name, zarr_format, value, loc):
    assert fill(dtype.to_data_type(name), value, zarr_format)[0][0] == "/f" + loc


def test_default_fill_of_dates_is_nat():
    for name in ("M8[s]", ">m8[D]"):
        data_type = dtype.to_data_type(name)
        assert np.isnat(data_type.scalar(data_type.default_fill()))
    assert (
        dtype.to_data_type("M8[s]").fill_to_json(dtype.to_data_type("M8[s]").default_fill(), 3)
        == "NaT"
    )
    assert dtype.to_data_type("M8[s]").fill_to_json(
        dtype.to_data_type("M8[s]").default_fill(), 2
    ) == -(2**63)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("M8[D]", "2020-01-02", np.datetime64("2020-01-02", "D")),
        ("M8[s]", dt.date(2020, 1, 2), np.datetime64("2020-01-02T00", "s")),
        ("M8[ns]", np.datetime64("2020-01-02", "D"), np.datetime64("2020-01-02", "ns")),
        (">M8[s]", 7, np.datetime64(7, "s")),
        ("M8[s]", np.int64(7), np.datetime64(7, "s")),
        ("M8[s]", "NaT", np.datetime64("NaT", "s")),
        ("m8[ms]", np.timedelta64("NaT", "s"), np.timedelta64("NaT", "ms")),
        ("m8[ms]", dt.timedelta(seconds=2), np.timedelta64(2000, "ms")),
        ("<U3", "ab", np.str_("ab")),
        (">U3", np.str_("ab"), np.str_("ab")),
        ("<U3", 0, np.str_("")),
        ("S3", b"abc", np.bytes_(b"abc")),
        ("S3", "ab", np.bytes_(b"ab")),
        ("S3", 0, np.bytes_(b"")),
    ],
)
def test_user_fill_values_are_cast(name, value, expected):
    data_type = dtype.to_data_type(name)
    result = data_type.scalar(data_type.cast_fill(value))
    assert result == expected or (np.isnat(result) and np.isnat(expected))
    assert result.dtype.kind == data_type.numpy.kind


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("M8[D]", np.datetime64("2020-01-02T03", "h")),
        ("M8[ns]", np.datetime64("9999-01-01", "D")),  # beyond 64 bits of nanoseconds
        ("M8[s]", 1.5),
        ("M8[s]", np.timedelta64(1, "s")),
        ("m8[s]", "1 s"),
        ("m8[s]", 2**63),
        ("<U3", "abcd"),
        ("<U3", b"a"),
        ("<U3", 1),
        ("S3", b"abcd"),
        ("S3", "\u65e5"),
        ("S3", 1),
        ([("a", "u1"), ("b", "u1")], (1,)),
        ([("a", "u1"), ("b", "u1")], {"a": 1}),
        ([("a", "u1"), ("b", "u1")], (1, 256)),
        ([("a", "u1"), ("b", "u1")], b"a"),
        ([("a", "u1"), ("b", "u1")], 1),
    ],
)
def test_fill_value_that_type_changes_raises(name, value):
    with pytest.raises(ValueError, match=r"."):
        dtype.to_data_type(name).cast_fill(value)


@pytest.mark.parametrize(
    "value",
    [
        (1, (2.5, "xy"), [1, 2]),
        {"a": 1, "b": {"c": 2.5, "d": b"xy"}, "e": [1, 2]},
        [1, [2.5, "xy"], np.array([1, 2])],
        np.array((1, (2.5, b"xy"), [1, 2]), [("a", "i8"), ("b", "f4,S4"), ("e", "i1", 2)])[()],
    ],
)
def test_user_record_forms_are_cast(value):
    record = [("a", "u1"), ("b", [("c", ">f4"), ("d", "S2")]), ("e", "<i2", (2,))]
    data_type = dtype.to_data_type(record)
    if isinstance(value, np.void):
        value = {"a": value["a"], "b": tuple(value["b"].tolist()), "e": value["e"]}
    expected = np.array((1, (2.5, b"xy"), [1, 2]), record)
    assert data_type.cast_fill(value) == expected.tobytes()
    assert data_type.cast_fill(expected) == expected.tobytes()
    assert data_type.cast_fill(0) == bytes(data_type.item_bytes)


def test_records_of_numpy_are_packed():
    aligned = np.dtype([("a", "u1"), ("b", "f8")], align=True)
    data_type = dtype.to_data_type(aligned)
    assert (aligned.itemsize, data_type.item_bytes) == (16, 9)
    record = np.array((1, 2.0), aligned)
    assert data_type.cast_fill(record) == np.array((1, 2.0), data_type.numpy).tobytes()


@pytest.mark.parametrize(
    ("record", "unit_bytes", "big"),
    [
        ([("a", "<f4"), ("b", "<i4")], 4, False),
        ([("a", ">f4"), ("b", ">c8")], 4, True),
        ([("a", "<f4"), ("b", "u1")], 0, False),
        ([("a", ">f4"), ("b", [("c", ">f8"), ("d", "S2")])], 0, True),
        ([("a", "<f4"), ("b", ">f4")], 1, False),
        ([("a", "u1"), ("b", "S3")], 1, False),
    ],
)
def test_byte_order_of_records(record, unit_bytes, big):
    data_type = dtype.to_data_type(record)
    assert (data_type.unit_bytes, data_type.big_endian) == (unit_bytes, big)
    items = np.arange(3 * data_type.item_bytes, dtype=np.uint8)
    if unit_bytes != 1:
        other = data_type.ordered("little" if big else "big")
        assert other.big_endian != big
        swapped = data_type.swapped(items).view(other.numpy)
        assert swapped.tobytes() == items.view(data_type.numpy).astype(other.numpy).tobytes()


def test_unsupported_reason_per_format():
    assert dtype.to_data_type("M8").refusal(3) is None
    assert "without a unit" in dtype.to_data_type([("a", "M8")]).refusal(2)
    assert "'a'" in dtype.to_data_type([("a", "i4", 2)]).refusal(3)


def test_objects_without_type_raise():
    with pytest.raises(ArgumentError, match="length_bytes"):
        dtype.to_data_type({"name": "raw_bytes"})
    with pytest.raises(UnsupportedError):
        dtype.to_data_type({"name": "nonsense"})
    with pytest.raises(UnsupportedError):
        dtype.to_data_type("S")
    with pytest.raises(UnsupportedError):
        dtype.to_data_type(f"S{2**25}")
    assert math.isnan(dtype.to_data_type([("a", "f4")]).scalar(b"\0\0\xc0\x7f")["a"])
