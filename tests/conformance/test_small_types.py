"""Format 3: numbers of few bits, which ml_dtypes has for NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import tessarr
from conformance.sample_stores import (
    BIG,
    LITTLE,
    open_chunk_v3,
    open_v3,
    problems_v3,
    regular,
    rewrite_document,
)

BARE = {"name": "bytes"}

ml_dtypes = pytest.importorskip("ml_dtypes", reason="numbers of few bits are those of ml_dtypes")


def open_chunk(data_type, chunk, fill, count, codec=BARE):
    """Open an array of one chunk of `count` elements, which holds these bytes."""
    return open_chunk_v3([codec], data_type, fill, count=count, stored=chunk)


@pytest.mark.covers("X-INT4-01")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("int4", [0, 7, -8, -1, -1, 5]),
        ("uint4", [0, 7, 8, 15, 15, 5]),
        ("int2", [0, -1, 0, -1, -1, 1]),
        ("uint2", [0, 3, 0, 3, 3, 1]),
    ],
)
def test_small_integers_use_one_byte_and_ignore_upper_bits(name, expected):
    array = open_chunk(name, bytes([0x00, 0xF7, 0x08, 0x0F, 0xFF, 0x25]), 1, 6, BARE)
    assert array.dtype == np.dtype(getattr(ml_dtypes, name))
    assert array[...].astype(int).tolist() == expected
    array[0] = expected[1]
    assert tessarr.open_array(array.store, mode="r")[:2].astype(int).tolist() == [expected[1]] * 2
    assert rewrite_document(array)["data_type"] == name
    array.store.delete("c/0")
    assert array[...].astype(int).tolist() == [1] * 6


@pytest.mark.covers("X-INT4-01")
@pytest.mark.parametrize(
    ("name", "fill"),
    [("int4", 8), ("int4", -9), ("uint4", 16), ("uint4", -1), ("int2", 2), ("uint2", 4)],
)
def test_small_integers_have_to_fit(name, fill):
    problems = problems_v3(data_type=name, fill_value=fill, codecs=[BARE])
    assert list(problems) == ["/fill_value"]


QUIET = {
    "bfloat16": "7fc0",
    "float8_e4m3": "7c",
    "float8_e4m3fn": "7f",
    "float8_e5m2": "7e",
    "float8_e3m4": "78",
    "float8_e4m3fnuz": "80",
    "float8_e5m2fnuz": "80",
    "float8_e4m3b11fnuz": "80",
}


@pytest.mark.covers("X-BF16-01")
@pytest.mark.parametrize("name", QUIET)
def test_each_small_float_has_its_nan(name):
    array = open_chunk(name, None, "NaN", 2, LITTLE)
    assert array[0].tobytes()[::-1].hex().lstrip("0") in {QUIET[name], QUIET[name].lstrip("0")}
    assert np.isnan(array[...].astype(float)).all()
    assert rewrite_document(array)["fill_value"] == "NaN"


@pytest.mark.covers("X-BF16-01")
@pytest.mark.parametrize(("codec", "order"), [(LITTLE, "<"), (BIG, ">")])
def test_bfloat16(codec, order):
    bits = np.array([0x3F80, 0xC000, 0x7F80, 0x7FC1, 0x8000, 0x0001], order + "u2")
    array = open_chunk("bfloat16", bits.tobytes(), "0x7fc1", 6, codec)
    assert array[...].view("u2").tolist() == bits.tolist()
    assert array[:3].astype(float).tolist() == [1, -2, np.inf]
    array[3] = array[0]
    array[0] = array.fill_value
    expected = bits.copy()
    expected[[0, 3]] = 0x7FC1, 0x3F80
    assert array.store.get("c/0") == expected.tobytes()
    assert rewrite_document(array)["fill_value"] == "0x7fc1"


@pytest.mark.covers("X-BF16-01")
@pytest.mark.parametrize(
    "name", [*QUIET, "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"]
)
def test_every_pattern_of_small_float_survives(name):
    size = np.dtype(getattr(ml_dtypes, name)).itemsize
    count = 64 if "float6" in name else 16 if "float4" in name else 256
    data = np.arange(count, dtype=f"<u{size}").tobytes()
    array = open_chunk(name, data, 1.0, count, LITTLE)
    assert array[...].tobytes() == data
    array[...] = array[...]
    assert array.store.get("c/0") == data
    for fill in (0.5, 2, "0x" + "01" * size if count == 256 else 1.0):
        again = open_chunk(name, None, fill, 1, LITTLE)
        assert rewrite_document(again)["fill_value"] == fill or float(again[0]) == fill


@pytest.mark.covers("X-BF16-01")
@pytest.mark.parametrize(
    ("name", "fill"),
    [
        ("bfloat16", "nan"),
        ("bfloat16", "0x7fc00000"),
        ("bfloat16", 1e39),
        ("float8_e5m2", "0x100"),
        ("float8_e4m3fn", "Infinity"),
        ("float4_e2m1fn", "NaN"),
    ],
)
def test_fill_values_of_small_floats(name, fill):
    assert list(problems_v3(data_type=name, fill_value=fill)) == ["/fill_value"]


@pytest.mark.covers("X-BITR-01", "X-BF16-01")
def test_bitround_of_bfloat16():
    bits = np.array([0x3F81, 0x3F83, 0x4049, 0x7F80, 0x8000, 0x3F80], "<u2")
    codec = {"name": "bitround", "configuration": {"keepbits": 5}}
    array = open_v3(
        shape=[6],
        chunk_grid=regular(6),
        data_type="bfloat16",
        fill_value=0.0,
        codecs=[codec, LITTLE],
    )
    array[...] = bits.view(ml_dtypes.bfloat16)
    stored = np.frombuffer(array.store.get("c/0"), "<u2")
    assert [hex(number) for number in stored] == [
        *("0x3f80", "0x3f84", "0x4048", "0x7f80", "0x8000", "0x3f80")
    ]
