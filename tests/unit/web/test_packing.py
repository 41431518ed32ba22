"""Values of packed elements and missing values, compared with xarray's rules (CF conventions)."""

from __future__ import annotations

import base64
import struct
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr.web.viewer.packing import find_packing
from unit.web.test_site import Client


def make_client(data: Any, attributes: dict[str, Any], **settings: Any) -> Client:
    return Client(tessarr.create_array(None, data=data, attributes=attributes, **settings))


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("i1", "<f4"), (">i2", "<f4"), ("u4", "<f8"), ("f4", "<f4"), ("f8", "<f8")],
)
def test_packed_elements_are_unpacked(dtype: str, expected: str) -> None:
    attributes = {"scale_factor": 0.5, "add_offset": 10, "_FillValue": 3}
    client = make_client(np.array([0, 1, 3], dtype), attributes)
    reply = client.get("values")
    assert reply.headers["tessarr-dtype"] == expected
    np.testing.assert_array_equal(reply.numbers, [10, 10.5, np.nan])
    assert client.get("values?selection=1").numbers == 10.5
    assert np.isnan(client.get("values?selection=2").numbers)
    assert client.node()["packing"] == ["scale_factor", "add_offset", "_FillValue"]
    assert client.node()["numbers"] == expected
    assert client.get("text").json["cells"][0][2] == str(np.dtype(dtype).type(3))


@pytest.mark.parametrize("dtype", ["i2", "f4"])
def test_large_offset_keeps_steps_of_elements(dtype: str) -> None:
    """32-bit floats near 1.6e9 are 128 apart."""
    attributes = {"scale_factor": 2.0, "add_offset": 1.6e9}
    client = make_client(np.array([0, 1, 2], dtype), attributes)
    assert client.get("values").numbers.tolist() == [1.6e9, 1.6e9 + 2, 1.6e9 + 4]
    assert client.node()["numbers"] == "<f8"


def test_values_beyond_range_are_infinite_without_a_warning() -> None:
    client = make_client(np.array([0, 1e20], "f4"), {"scale_factor": 1e30})
    assert client.get("values").numbers.tolist() == [0, np.inf]


def test_missing_values_do_not_count_in_reductions() -> None:
    client = make_client(np.array([1, 2, 1e20, 1e20], "f4"), {"missing_value": 1e20})
    mean = client.get("values?selection=::2&reduction=mean").numbers
    np.testing.assert_array_equal(mean, [1.5, np.nan])
    bounds = client.get("values?selection=::4&reduction=bounds").numbers
    np.testing.assert_array_equal(bounds, [[1, 2]])


def test_missing_value_of_xarray_in_format_3_is_base64() -> None:
    text = base64.b64encode(struct.pack("<d", -999.0)).decode()
    client = make_client(np.array([1, -999], "f8"), {"_FillValue": text})
    np.testing.assert_array_equal(client.get("values").numbers, [1, np.nan])


def test_missing_value_of_xarray_in_format_2_is_fill_value() -> None:
    attributes = {"_ARRAY_DIMENSIONS": ["x"]}
    data = np.array([0, 1e20], "f4")
    client = make_client(data, attributes, fill_value=1e20, zarr_format=2)
    np.testing.assert_array_equal(client.get("values").numbers, [0, np.nan])
    assert client.node()["packing"] == ["fill_value"]
    for other in (
        make_client(data, attributes, fill_value=0, zarr_format=2),
        make_client(data, {}, fill_value=1e20, zarr_format=2),
        make_client(np.array([0, 5]), attributes, fill_value=5, zarr_format=2),
    ):
        assert other.node()["packing"] == []


def test_lists_of_missing_values_are_applied() -> None:
    client = make_client(np.array([1, 2, 3]), {"missing_value": [2, 3, 2**70, 2.5, "x"]})
    np.testing.assert_array_equal(client.get("values").numbers, [1, np.nan, np.nan])


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"scale_factor": 1, "add_offset": 0.0},
        {"scale_factor": "2", "add_offset": [1]},
        {"scale_factor": 10**400, "add_offset": True},
        {"_FillValue": "AAAAAAAA+H8="},
        {"_FillValue": "no base64", "missing_value": None},
        {"_FillValue": {"a": 1}},
    ],
)
@pytest.mark.parametrize("dtype", ["i2", "f4"])
def test_other_attributes_change_nothing(dtype: str, attributes: dict[str, Any]) -> None:
    array = tessarr.create_array(None, data=np.array([1, 2], dtype), attributes=attributes)
    assert find_packing(array) is None


@pytest.mark.parametrize("dtype", ["bool", "complex64", "M8[s]", "U2", "bfloat16", [("a", "i4")]])
def test_other_data_types_have_no_packing(dtype: Any) -> None:
    attributes = {"scale_factor": 2.0, "_FillValue": 0}
    array = tessarr.create_array(None, shape=3, dtype=dtype, attributes=attributes)
    assert find_packing(array) is None
