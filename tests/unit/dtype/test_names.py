"""Names of data types in both formats, and the names that users may pass."""

from __future__ import annotations

import numpy as np
import pytest

from tessarr import dtype
from tessarr.errors import ArgumentError, UnsupportedError
from tessarr.format.validation import Problems


def read(value, zarr_format):
    problems = Problems()
    return dtype.from_json(value, zarr_format, "/data_type", problems), problems.found


@pytest.mark.parametrize("name", ["bool", "int8", "uint64", "float16", "complex128", "r24"])
def test_names_of_format_3_survive(name):
    data_type, problems = read(name, 3)
    assert problems == []
    assert data_type.to_json(3) == data_type.name == name
    assert read({"name": name, "configuration": {}}, 3) == (data_type, [])
    assert data_type.numpy.isnative


@pytest.mark.parametrize("name", ["|b1", "|i1", "<u2", ">i8", "<f2", ">c16", "|V5"])
def test_typestrings_of_format_2_survive(name):
    data_type, problems = read(name, 2)
    assert problems == []
    assert data_type.to_json(2) == name
    assert data_type.numpy == np.dtype(name)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "i4",
        "|i4",
        "<i3",
        "<f5",
        "<b2",
        "|V",
        "|V0",
        "<M8",
        "<i04",
        "=i4",
        4,
        None,
        [],
        {},
        "<f4 ",
    ],
)
def test_invalid_typestring_raises(value):
    data_type, problems = read(value, 2)
    assert data_type is None
    assert problems[0].kind in {"invalid_value", "wrong_type"}


@pytest.mark.parametrize("value", ["r", "r0", "r7", "r-8", "r8a", "", 1, None, {"name": 1}, {}])
def test_invalid_type_name_is_problem(value):
    data_type, problems = read(value, 3)
    assert data_type is None
    assert len(problems) >= 1


@pytest.mark.parametrize(
    ("value", "zarr_format"),
    [
        *((name, 3) for name in ("float128", "Int32", "<i4")),
    ],
)
def test_other_types_are_named_as_unsupported(value, zarr_format):
    data_type, problems = read(value, zarr_format)
    assert data_type is None
    assert problems[0].kind == "unsupported_data_type"


@pytest.mark.parametrize("value", ["|O", [["a", "|O"]]])
def test_objects_without_codec_are_refused(value):
    data_type, problems = read(value, 2)
    assert data_type is None
    assert problems[0].kind == "missing_member"


def test_unknown_configuration_is_refused():
    _, problems = read({"name": "int8", "configuration": {"a": 1}}, 3)
    assert problems[0].loc == "/data_type/configuration/a"


@pytest.mark.parametrize(
    ("value", "name"),
    [(int, "int64"), (bool, "bool"), ("f4", "float32"), (np.dtype(">u2"), "uint16"), ("r8", "r8")],
)
def test_numpy_dtype_forms_are_accepted(value, name):
    assert dtype.to_data_type(value).name == name


def test_other_arguments_are_refused():
    with pytest.raises(ArgumentError):
        dtype.to_data_type("nonsense")
    with pytest.raises(UnsupportedError) as caught:
        dtype.to_data_type("g")
    assert caught.value.extension == "float128"
    with pytest.raises(UnsupportedError):
        dtype.to_data_type([("a", "g")])
    with pytest.raises(UnsupportedError):
        dtype.to_data_type("(2,)i4")
    with pytest.raises(ArgumentError):
        dtype.to_data_type("r7")


def test_byte_order_is_detected_and_dropped():
    big = dtype.to_data_type(">c16")
    assert big.big_endian
    assert big.unit_bytes == 8
    assert big.ordered("native").numpy.isnative
    assert dtype.to_data_type("uint8").big_endian is False
