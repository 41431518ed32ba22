"""Format 3: data types of the core, and their fill values."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tessarr
from conformance.sample_stores import (
    BIG,
    LITTLE,
    V3,
    document,
    expect_defect,
    expect_refusal,
    expect_unsupported,
    has_same_bits,
    open_v3,
    problems_v3,
    rewrite_document,
    sharding,
)
from tessarr import stores
from tessarr.metadata import v3

# Data types


CORE = {
    "bool": "?",
    **{f"{kind}{bits}": f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
    **{name: name for name in ("float16", "float32", "float64", "complex64", "complex128")},
    "r8": "V1",
    "r24": "V3",
}


def zero(data_type):
    """Return the fill value with all bytes zero."""
    if data_type == "bool":
        return False
    if data_type.startswith("complex"):
        return [0, 0]
    return [0] * (int(data_type[1:]) // 8) if data_type.startswith("r") else 0


@pytest.mark.covers("V3-TYPE-01")
@pytest.mark.parametrize("name", CORE)
def test_types_of_core(name):
    array = open_v3(data_type=name, fill_value=zero(name))
    assert array.dtype == np.dtype(CORE[name])
    size = array.dtype.itemsize
    data = bytes(range(6 * size)) if name != "bool" else bytes([0, 1, 1, 0, 0, 1])
    array.store.put("c/0/0", data)
    assert array[:3, :2].tobytes() == data
    assert rewrite_document(array)["data_type"] == name


@pytest.mark.covers("V3-TYPE-01")
@pytest.mark.parametrize(
    "name", ["<i4", "Int32", "INT32", "int", "int7", "uint128", "float", "f8", "boolean", "i4"]
)
def test_other_names_are_no_types(name):
    with expect_unsupported(name):
        open_v3(data_type=name)


@pytest.mark.covers("V3-TYPE-02")
@pytest.mark.parametrize("name", ["r", "r0", "r7", "r12", "r-8"])
def test_raw_types_have_multiple_of_8_bits(name):
    assert list(problems_v3(data_type=name, fill_value=[0])) == ["/data_type"]


@pytest.mark.covers("V3-TYPE-02")
@pytest.mark.parametrize("name", ["r8a", "R8", "r8.0"])
def test_names_similar_to_raw_types_are_unknown(name):
    with expect_unsupported(name):
        open_v3(data_type=name)


# Fill values


@pytest.mark.covers("V3-FILL-01")
@pytest.mark.parametrize("data_type", CORE)
def test_fill_value_null_is_default_of_type(data_type):
    """GDAL writes null for integers and complex numbers without a fill value."""
    with expect_defect("/fill_value: null, taken for the default of"):
        array = open_v3(data_type=data_type, fill_value=None)
    has_same_bits(array[0, 0], np.zeros((), CORE[data_type])[()])
    assert v3.to_json(array.metadata)["fill_value"] == zero(data_type)


@pytest.mark.covers("V3-FILL-02")
@pytest.mark.parametrize("value", [2, "maybe", "", [], 0.0, 1.0])
def test_booleans_are_true_or_false(value):
    assert list(problems_v3(data_type="bool", fill_value=value)) == ["/fill_value"]
    has_same_bits(open_v3(data_type="bool", fill_value=True)[0, 0], np.bool_(True))


@pytest.mark.covers("V3-FILL-02")
@pytest.mark.parametrize("value", [0, 1])
def test_booleans_of_zarrita(value):
    with expect_defect(f"written as {value}"):
        assert open_v3(data_type="bool", fill_value=value)[0, 0] == bool(value)


@pytest.mark.covers("V3-FILL-03")
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("kind", ["int", "uint"])
def test_integers_fit_their_type(kind, bits):
    info = np.iinfo(f"{kind}{bits}")
    for value in (int(info.min), int(info.max), 0):
        array = open_v3(data_type=f"{kind}{bits}", fill_value=value)
        has_same_bits(array[0, 0], info.dtype.type(value))
    for value in (int(info.min) - 1, int(info.max) + 1, 1.0, 1.5, "1.0", "x", True, [1]):
        assert list(problems_v3(data_type=f"{kind}{bits}", fill_value=value)) == ["/fill_value"]


@pytest.mark.covers("V3-FILL-03")
@pytest.mark.parametrize("text", [b"1.0", b"1e3", b"0.0", b"1E0"])
def test_integers_are_written_without_fraction_and_exponent(text):
    data = document(V3).replace(b'"fill_value": 0', b'"fill_value": ' + text)
    (problem,) = expect_refusal({"zarr.json": data}).problems
    assert problem.loc == "/fill_value"


@pytest.mark.covers("V3-FILL-04")
@pytest.mark.parametrize(
    ("data_type", "value", "bits"),
    [
        ("float32", 0.1, "3dcccccd"),
        ("float32", 1, "3f800000"),
        ("float32", 16777217, "4b800000"),  # a tie: to even
        ("float32", 16777219, "4b800002"),
        ("float32", -0.0, "80000000"),
        ("float32", 1e-45, "00000001"),
        ("float16", 2049, "6800"),
        ("float16", 2051, "6802"),
        ("float64", 9007199254740993, "4340000000000000"),
    ],
)
def test_floats_are_rounded_to_nearest(data_type, value, bits):
    result = np.asarray(open_v3(data_type=data_type, fill_value=value)[0, 0])
    assert result[()].tobytes()[::-1].hex() == bits


@pytest.mark.covers("V3-FILL-04")
@pytest.mark.parametrize(
    ("data_type", "value"),
    [("float16", 65520), ("float32", 1e39), ("float64", 10**400), ("float32", [0])],
)
def test_numbers_beyond_type_are_refused(data_type, value):
    assert list(problems_v3(data_type=data_type, fill_value=value)) == ["/fill_value"]


QUIET = {"float16": "7e00", "float32": "7fc00000", "float64": "7ff8000000000000"}


@pytest.mark.covers("V3-FILL-05")
@pytest.mark.parametrize("data_type", QUIET)
def test_nan_is_one_bit_pattern(data_type):
    array = open_v3(data_type=data_type, fill_value="NaN")
    assert array[0, 0].tobytes()[::-1].hex() == QUIET[data_type]
    assert rewrite_document(array)["fill_value"] == "NaN"
    for value, expected in (("Infinity", np.inf), ("-Infinity", -np.inf)):
        has_same_bits(
            open_v3(data_type=data_type, fill_value=value)[0, 0], np.array(expected, data_type)
        )


@pytest.mark.covers("V3-FILL-05")
@pytest.mark.parametrize(
    "value",
    ["+Infinity", "nan", "NAN", "inf", "-NaN", "1.", "", "+0", "1e400", "infinity", True],
)
def test_other_strings_are_no_floats(value):
    assert list(problems_v3(data_type="float32", fill_value=value)) == ["/fill_value"]


BITS = {
    "float16": ["7e01", "fe00", "7c01", "8000", "3c00", "0001"],
    "float32": ["7fc00001", "ff800001", "7f800001", "80000000", "3f800000", "00000001"],
    "float64": ["7ff8000000000001", "fff0000000000001", "8000000000000000", "3ff0000000000000"],
}
PATTERNS = [(data_type, digits) for data_type, all_ in BITS.items() for digits in all_]


@pytest.mark.covers("V3-FILL-06", "V3-FILL-08", "ALL-01")
@pytest.mark.parametrize(("data_type", "digits"), PATTERNS)
@pytest.mark.parametrize("codec", [LITTLE, BIG])
def test_hexadecimal_fill_values_keep_their_bits(data_type, digits, codec):
    array = open_v3(data_type=data_type, fill_value=f"0x{digits}", codecs=[codec])
    data = bytes.fromhex(digits)
    assert array[...].tobytes() == data[::-1] * 24
    # The fill value also applies to partial writes of chunks and to the document.
    array[0, 0] = 2
    stored = array.store.get("c/0/0")
    element = data if codec is BIG else data[::-1]
    assert stored[len(element) :] == element * 5
    again = tessarr.open_array(
        stores.MemoryStore({"zarr.json": json.dumps(rewrite_document(array)).encode()}), mode="r"
    )
    assert again[0, 1].tobytes() == data[::-1]


@pytest.mark.covers("V3-FILL-07")
@pytest.mark.parametrize(
    "value", ["0x", "0x0", "0xg", "0x3f8000000", "0x3f80", "0x3f8000000000000000", "3f800000"]
)
def test_hexadecimal_fill_values_have_as_many_digits_as_type(value):
    assert list(problems_v3(data_type="float32", fill_value=value)) == ["/fill_value"]


@pytest.mark.covers("V3-FILL-08")
@pytest.mark.parametrize("data_type", QUIET)
def test_nans_with_payload_are_written_as_their_bits(data_type):
    size = np.dtype(data_type).itemsize
    bits = int(QUIET[data_type], 16) + 5
    fill = np.frombuffer(bits.to_bytes(size, "little"), data_type)[0]
    array = tessarr.create_array(None, shape=(2,), dtype=data_type, fill_value=fill)
    written = json.loads(array.store.get("zarr.json"))["fill_value"]
    assert written == f"0x{bits:0{2 * size}x}"


@pytest.mark.covers("V3-FILL-09")
@pytest.mark.parametrize(
    ("value", "real", "imag"),
    [
        ([0, 1.5], "00000000", "3fc00000"),
        (["-Infinity", "NaN"], "ff800000", "7fc00000"),
        (["0x7fc00001", -0.0], "7fc00001", "80000000"),
    ],
)
def test_complex_numbers_are_two_floats(value, real, imag):
    array = open_v3(data_type="complex64", fill_value=value)
    assert array[0, 0].tobytes().hex() == (bytes.fromhex(imag + real)[::-1]).hex()
    assert rewrite_document(array)["fill_value"] == value


@pytest.mark.covers("V3-FILL-09")
@pytest.mark.parametrize(
    "value", [False, "Infinity", [0], [0, 1, 2], ["NaN", "x"], "1+2j", [[0, 1]]]
)
def test_invalid_complex_fill_value_is_refused(value):
    problems = problems_v3(data_type="complex64", fill_value=value)
    assert all(loc.startswith("/fill_value") for loc in problems)


@pytest.mark.covers("V3-FILL-10", "V3-BYTES-06")
@pytest.mark.parametrize("codec", [{"name": "bytes"}, LITTLE, BIG])
def test_raw_types_list_their_bytes(codec):
    array = open_v3(data_type="r24", fill_value=[1, 255, 0], codecs=[codec])
    assert array[0, 0].tobytes() == b"\x01\xff\0"
    assert rewrite_document(array)["fill_value"] == [1, 255, 0]
    array[0, 0] = np.void(b"abc")
    assert array.store.get("c/0/0") == b"abc" + 5 * b"\x01\xff\0"


@pytest.mark.covers("V3-FILL-10")
@pytest.mark.parametrize("value", [[1], [1, 2, 3], [1, 256], [1, -1], [1, 1.5], 0, "A"])
def test_invalid_raw_fill_value_is_refused(value):
    problems = problems_v3(data_type="r16", fill_value=value)
    assert all(loc.startswith("/fill_value") for loc in problems)


@pytest.mark.covers("V3-FILL-11")
@pytest.mark.parametrize("shards", [False, True])
def test_absent_chunk_reads_as_fill(shards):
    codecs = [sharding(1, 2, codecs=[LITTLE])] if shards else [LITTLE]
    array = open_v3(shape=[5, 3], fill_value=-7, codecs=codecs)
    assert (array[...] == -7).all()
    array[4, 2] = 1
    assert array[3:, 2:].tolist() == [[-7], [1]]
    if not shards:
        stored = np.frombuffer(array.store.get("c/1/1"), "<i4").reshape(3, 2)
        assert stored.tolist() == [[-7, -7], [1, -7], [-7, -7]]
