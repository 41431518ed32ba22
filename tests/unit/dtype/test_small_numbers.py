"""Small integers and floats, and complex numbers of them, through ml_dtypes."""

from __future__ import annotations

import json
import math
import sys

import numpy as np
import pytest

import tessarr
from tessarr import dtype
from tessarr.errors import UnsupportedError
from tessarr.format.validation import Problems
from tessarr.stores import MemoryStore

ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")

INTEGERS = {"int2": (-2, 1), "uint2": (0, 3), "int4": (-8, 7), "uint4": (0, 15)}
# The canonical NaN of each, and its greatest number.
FLOATS = {
    "bfloat16": ("7fc0", 3.3895313892515355e38),
    "float8_e3m4": ("78", 15.5),
    "float8_e4m3": ("7c", 240.0),
    "float8_e4m3b11fnuz": ("80", 30.0),
    "float8_e4m3fn": ("7f", 448.0),
    "float8_e4m3fnuz": ("80", 240.0),
    "float8_e5m2": ("7e", 57344.0),
    "float8_e5m2fnuz": ("80", 57344.0),
    "float8_e8m0fnu": ("ff", 1.7014118346046923e38),
    "float6_e2m3fn": (None, 7.5),
    "float6_e3m2fn": (None, 28.0),
    "float4_e2m1fn": (None, 6.0),
}
COMPLEX = [f"complex_{name}" for name in FLOATS if name != "float8_e4m3fn"]
NAMES = [*INTEGERS, *FLOATS, *COMPLEX, "complex_float16"]


def fill(name, value):
    problems = Problems()
    data_type = dtype.to_data_type(name)
    result = data_type.fill_from_json(value, 3, "/f", problems)
    assert (result is None) == bool(problems.found)
    return None if result is None else result[::-1].hex()


@pytest.mark.parametrize("name", NAMES)
def test_names_survive(name):
    data_type = dtype.to_data_type(name)
    assert data_type.to_json(3) == data_type.name == name
    assert dtype.to_data_type(data_type.numpy) == data_type or name.startswith("complex_float")
    assert data_type.ordered("big") == data_type
    assert not data_type.big_endian
    lacks = name.startswith(("uint", "float6", "complex")) or name == "float8_e4m3"
    assert bool(data_type.refusal(2)) == lacks


@pytest.mark.parametrize(
    ("alias", "name"), [("complex_float32", "complex64"), ("complex_float64", "complex128")]
)
def test_other_names_of_core_types(alias, name):
    assert dtype.to_data_type(alias) == dtype.to_data_type(name)


@pytest.mark.parametrize("name", FLOATS)
def test_nan_has_bits_of_type(name):
    bits, _ = FLOATS[name]
    assert fill(name, "NaN") == bits
    if bits is not None:
        data_type = dtype.to_data_type(name)
        assert data_type.fill_to_json(bytes.fromhex(bits)[::-1], 3) == "NaN"
        assert data_type.cast_fill(math.nan)[::-1].hex() == bits


@pytest.mark.parametrize("name", FLOATS)
def test_infinity_requires_type_with_infinity(name):
    has = name in {"bfloat16", "float8_e3m4", "float8_e4m3", "float8_e5m2"}
    assert (fill(name, "Infinity") is not None) == has
    assert (fill(name, "-Infinity") is not None) == has


@pytest.mark.parametrize("name", FLOATS)
def test_numbers_beyond_greatest_are_refused(name):
    _, greatest = FLOATS[name]
    data_type = dtype.to_data_type(name)
    assert float(data_type.scalar(data_type.cast_fill(greatest))) == greatest
    assert fill(name, greatest) is not None
    for value in (greatest * 2, 1e39):
        assert fill(name, value) is None
        with pytest.raises(ValueError, match="does not fit"):
            data_type.cast_fill(value)


def test_float_type_without_zero_rejects_zero():
    assert fill("float8_e8m0fnu", 0.0) is None
    assert fill("float8_e8m0fnu", -1.0) is None
    assert fill("float8_e8m0fnu", 1) == "7f"


@pytest.mark.parametrize("name", FLOATS)
def test_bits_of_fill_values_survive(name):
    data_type = dtype.to_data_type(name)
    size = data_type.item_bytes
    for number in range(0, 256**size, 251 if size > 1 else 1):
        item = number.to_bytes(size, "little")
        if data_type.stray_bits:
            item = data_type.canonical(np.frombuffer(item, data_type.numpy)).tobytes()
        document = data_type.fill_to_json(item, 3)
        assert fill(name, document) == item[::-1].hex(), document
        assert data_type.cast_fill(data_type.scalar(item)) == item
    assert fill(name, "0x" + "01" * size) == "01" * size
    assert fill(name, "0x" + "01" * size + "0") is None
    assert fill(name, True) is None


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_have_their_limits(name):
    low, high = INTEGERS[name]
    data_type = dtype.to_data_type(name)
    for number in range(low, high + 1):
        item = data_type.cast_fill(number)
        assert fill(name, number) == item.hex()
        assert data_type.fill_to_json(item, 3) == number
        assert data_type.cast_fill(data_type.scalar(item)) == item
    for number in (low - 1, high + 1, 0.5, "x", None, True):
        assert fill(name, number) is None
    for number in (low - 1, high + 1, 0.5, "1"):
        with pytest.raises(ValueError, match=r"."):
            data_type.cast_fill(number)


def test_complex_fill_values():
    assert fill("complex_bfloat16", [1.0, "NaN"]) == "7fc03f80"
    assert fill("complex_float16", ["0x7e01", -1]) == "bc007e01"
    assert fill("complex_float8_e5m2", ["Infinity", "0x01"]) == "017c"
    assert fill("complex_float4_e2m1fn", [6, 7]) is None
    assert fill("complex_float4_e2m1fn", [6, 1, 1]) is None
    assert fill("complex_float4_e2m1fn", True) is None
    pair = dtype.to_data_type("complex_float8_e5m2")
    assert pair.fill_to_json(b"\x7c\x01", 3) == ["Infinity", 1.52587890625e-05]
    assert pair.cast_fill(1 + 2j) == pair.cast_fill((1, 2)) == pair.cast_fill([1.0, 2.0])
    assert pair.cast_fill(pair.scalar(b"\1\2")) == b"\1\2"
    half = dtype.to_data_type("complex_float16")
    assert half.cast_fill(half.scalar(b"\1\2\3\4")) == b"\1\2\3\4"


LAYOUTS = {
    "plain": {"chunks": (3, 4)},
    "shards": {"chunks": (1, 2), "shards": (4, 6)},
    "big F": {"chunks": (3, 4), "order": "F", "serializer": tessarr.codecs.Bytes("big")},
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", NAMES)
def test_elements_are_stored_and_read(name, layout):
    data_type = dtype.to_data_type(name)
    a = tessarr.create_array(None, shape=(7, 9), dtype=name, **LAYOUTS[layout])
    assert a.dtype == data_type.numpy
    raw = np.random.default_rng(1).bytes(63 * data_type.item_bytes)
    values = data_type.canonical(np.frombuffer(raw, data_type.numpy).reshape(7, 9))
    a[...] = values
    assert a[...].tobytes() == values.tobytes()
    a[2:4, ::2] = values[5:7, ::2]
    values = values.copy()
    values[2:4, ::2] = values[5:7, ::2]
    assert a[...].tobytes() == values.tobytes()
    assert a[::-2, 3].tobytes() == values[::-2, 3].tobytes()
    assert a[1, 1].tobytes() == values[1, 1].tobytes()


@pytest.mark.parametrize("name", [*INTEGERS, "float6_e3m2fn", "complex_float4_e2m1fn"])
def test_meaningless_bits_are_ignored_on_read(name):
    store: dict[str, bytes] = {}
    a = tessarr.create_array(store, shape=(4,), dtype=name, compressors=None, fill_value=None)
    item_bytes = a.dtype.itemsize
    store["c/0"] = b"\xff" * (4 * item_bytes)
    expected = dtype.to_data_type(name).canonical(np.frombuffer(store["c/0"], a.dtype))
    assert expected.tobytes() != store["c/0"]
    assert a[...].tobytes() == expected.tobytes()
    assert a[1:3].tobytes() == expected[1:3].tobytes()


def test_ml_dtypes_and_python_values_are_accepted():
    for data_type in (ml_dtypes.bfloat16, np.dtype(ml_dtypes.bfloat16), "bfloat16"):
        a = tessarr.create_array(None, shape=(3,), dtype=data_type, fill_value=1.5)
        a[1:] = [2, float("inf")]
        assert a[...].tolist() == [1.5, 2, math.inf]
        assert a.fill_value == 1.5
    a = tessarr.create_array(None, data=np.array([1, 2], ml_dtypes.int4))
    assert a.dtype == ml_dtypes.int4
    record = tessarr.create_array(None, shape=(2,), dtype=[("a", "u1"), ("b", ml_dtypes.bfloat16)])
    record["b"] = [1.5, 2.5]
    assert record["b"].tolist() == [1.5, 2.5]
    big = tessarr.create_array(
        None, shape=(2,), dtype=record.dtype, serializer=tessarr.codecs.Bytes("big")
    )
    big[...] = record[...]
    assert big[...].tobytes() == record[...].tobytes()
    assert "bfloat16" in repr(a) or "int4" in repr(a)


@pytest.mark.parametrize("name", ["uint4", "int2", "bfloat16", "float4_e2m1fn", "float8_e5m2"])
def test_format_2_has_names_of_tensorstore(name):
    store = MemoryStore()
    options = {"shape": (3,), "dtype": name, "zarr_format": 2, "fill_value": 1}
    if name == "uint4":
        with pytest.raises(UnsupportedError, match="format 2 has no such type"):
            tessarr.create_array(store, **options)
        return
    tessarr.create_array(store, **options)[1:] = [0, 1]
    document = json.loads(store[".zarray"])
    assert document["dtype"] == name
    assert document["fill_value"] == ("Ag==" if name == "float4_e2m1fn" else 1)
    again = tessarr.open_array(store)
    assert again.metadata.data_type == dtype.to_data_type(name)
    assert again[...].astype("f4").tolist() == [1, 0, 1]


@pytest.mark.parametrize("name", ["bfloat16", "int4", "complex_float8_e5m2"])
def test_missing_ml_dtypes_error_names_package(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(UnsupportedError, match=r"tessarr\[dtypes\]") as caught:
        dtype.to_data_type(name)
    assert caught.value.kind == "missing_package"
    assert caught.value.extension == name
