"""Responses with values of each data type: numbers, text, or one error that names the cause."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tessarr
from tessarr.errors import (
    AccessError,
    ArgumentError,
    DataError,
    MetadataError,
    NotFoundError,
    OutOfMemoryError,
    SelectionError,
    StoreError,
    TooLargeError,
    UnsupportedError,
)
from unit.web.test_site import Client

NUMBERS = [
    ("bool", "|u1"),
    ("int8", "|i1"),
    (">i2", "<i2"),
    ("int32", "<i4"),
    (">i8", "<f8"),
    ("uint8", "|u1"),
    (">u2", "<u2"),
    ("uint32", "<u4"),
    ("uint64", "<f8"),
    (">f2", "<f4"),
    ("float32", "<f4"),
    (">f8", "<f8"),
    (">c8", "<f8"),
    ("complex128", "<f8"),
    ("M8[s]", "<f8"),
    (">m8[ms]", "<f8"),
    ("bfloat16", "<f4"),
    ("int2", "<f4"),
    ("int4", "<f4"),
    ("uint2", "<f4"),
    ("uint4", "<f4"),
    ("float4_e2m1fn", "<f4"),
    ("float6_e2m3fn", "<f4"),
    ("float6_e3m2fn", "<f4"),
    ("float8_e3m4", "<f4"),
    ("float8_e4m3", "<f4"),
    ("float8_e4m3fnuz", "<f4"),
    ("float8_e5m2", "<f4"),
    ("float8_e5m2fnuz", "<f4"),
]

OPTIONAL = {"name": "zarrs.optional", "configuration": {"name": "int16", "configuration": {}}}

OTHERS: list[tuple[Any, Any]] = [
    ("U3", np.array(["a", "ü"])),
    ("S3", np.array([b"a", b"\xff"])),
    (str, np.array(["a", "ü"], object)),
    (bytes, np.array([b"a", b"\xff"], object)),
    ("V3", np.array([b"abc", b"def"], "V3")),
    ("r16", np.array([b"ab", b"de"], "V2")),
    ([("n", "i4"), ("s", "U2")], np.array([(1, "a"), (2, "b")], [("n", "i4"), ("s", "U2")])),
    (OPTIONAL, np.array([(1, True), (0, False)], [("value", "i2"), ("valid", "?")])),
]


def make_array(dtype: Any, data: Any, **settings: Any) -> tessarr.Array:
    array = tessarr.create_array(None, shape=2, dtype=dtype, **settings)
    array[:] = data
    return array


@pytest.mark.parametrize(("dtype", "expected"), NUMBERS)
def test_numbers_of_each_type_have_types_of_browser(dtype: str, expected: str) -> None:
    numpy_type = getattr(ml_dtypes, dtype, dtype)
    client = Client(make_array(dtype, np.array([0, 1]).astype(numpy_type)))
    reply = client.get("values")
    assert reply.headers["tessarr-dtype"] == expected
    assert reply.numbers.tolist() == [0, 1]
    assert client.node()["numbers"] == expected
    for reduction, result in {"mean": [0.5], "bounds": [[0, 1]]}.items():
        reduced = client.get(f"values?selection=::2&reduction={reduction}").numbers
        assert reduced.tolist() == result


@pytest.mark.parametrize(("dtype", "data"), OTHERS, ids=lambda value: str(value)[:20])
def test_elements_without_numbers_are_one_error_and_have_text(dtype: Any, data: Any) -> None:
    client = Client(make_array(dtype, data))
    assert client.node()["numbers"] is None
    for query in ("values", "values?reduction=mean", "values?levels=1&selection=1"):
        reply = client.get(query)
        assert (reply.status, reply.json["error"]) == (422, "unsupported")
        assert "request them as text" in reply.json["message"]
    text = client.get("text")
    assert text.status == 200
    assert all(len(column) == 2 for column in text.json["cells"])


def test_objects_are_one_error_and_have_text() -> None:
    data = np.array([{"a": 1}, [2, 3]], object)
    settings: Any = {"object_codec": tessarr.codecs.JSON(), "zarr_format": 2}
    client = Client(make_array(object, data, **settings))
    assert client.get("values").status == 422
    assert client.get("text").json["cells"] == [["{'a': 1}", "[2, 3]"]]


def test_ragged_rows_are_one_error_and_have_text() -> None:
    rows = np.empty(2, object)
    rows[:] = [np.array([1, 2], "i4"), np.array([], "i4")]
    client = Client(make_array("array:i4", rows, zarr_format=2))
    assert client.get("values").status == 422
    assert client.get("text").json["cells"] == [["[1 2]", "[]"]]


@pytest.mark.parametrize(("field", "status"), [("n", 200), ("s", 422), ("v", 422), ("x", 400)])
def test_field_without_numbers_is_an_error(field: str, status: int) -> None:
    dtype = np.dtype([("n", "i4"), ("s", "S2"), ("v", "f4", (3,))])
    client = Client(make_array(dtype, np.zeros(2, dtype), zarr_format=2))
    reply = client.get(f"values?field={field}")
    assert reply.status == status


def test_damaged_chunk_is_an_error_of_the_data(tmp_path: Path) -> None:
    array = tessarr.create_array(tmp_path, data=np.arange(100))
    (tmp_path / "c" / "0").write_bytes(b"damaged")
    reply = Client(array).get("values")
    assert reply.status == 422
    assert "cannot decode chunk (0,)" in reply.json["message"]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ArgumentError("x"), 400),
        (SelectionError("x"), 400),
        (NotFoundError("x"), 404),
        (TooLargeError("x"), 413),
        (OutOfMemoryError("x"), 413),
        (DataError("x"), 422),
        (MetadataError("x"), 422),
        (UnsupportedError("x"), 422),
        (AccessError("x"), 502),
        (StoreError("x"), 502),
        (RuntimeError("x"), 500),
    ],
)
def test_each_error_has_its_status(
    monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    def fail(*_: Any) -> Any:
        raise error

    monkeypatch.setattr("tessarr.web.viewer.values._read", fail)
    reply = Client(tessarr.zeros(3)).get("values")
    assert reply.status == status
    assert "x" in reply.json["message"]
