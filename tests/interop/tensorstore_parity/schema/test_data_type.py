"""Data types match TensorStore's: names, values and conversions."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tessarr.tensorstore as ts
from sampling import label
from tessarr.dtype import to_data_type
from tessarr.errors import ArgumentError
from tessarr.tensorstore.schema.data_type import NAMES, of_stored

theirs = pytest.importorskip("tensorstore", reason="the package tensorstore is absent")

LIKE: list[Any] = [
    *NAMES,
    *("<i4", "i4", "b1", "?", "float", "long", "str", "S", "O", "bytes", "", "foo", "T"),
    *(int, float, complex, bool, str, bytes, object, list, type(None), type, np.ndarray),
    *(None, 5, np.float32(1), b"int32"),
    *(np.int8, np.float16, np.str_, np.bytes_, np.object_, np.void, np.longdouble, np.clongdouble),
    *(np.generic, np.integer, np.number),
    *(np.dtype(">i2"), np.dtype([("a", "i4")]), np.dtype("S7"), np.dtype("V")),
    *(ml_dtypes.bfloat16, ml_dtypes.int4, np.dtype(ml_dtypes.float8_e8m0fnu)),
]


def outcome(action: Any) -> Any:
    try:
        return action()
    except Exception as error:
        # Both packages raise an error for large values: Tessarr's is an OverflowError, too.
        return next(c for c in (TypeError, OverflowError, ValueError) if isinstance(error, c))


@pytest.mark.parametrize("like", LIKE, ids=label)
def test_data_type_arguments_match_tensorstore(like: Any) -> None:
    assert outcome(lambda: ts.dtype(like).name) == outcome(lambda: theirs.dtype(like).name)


@pytest.mark.parametrize("name", NAMES)
def test_names_classes_and_texts(name: str) -> None:
    actual, expected = getattr(ts, name), getattr(theirs, name)
    assert (actual.name, actual.to_json(), repr(actual)) == (
        expected.name,
        expected.to_json(),
        repr(expected),
    )
    assert actual.numpy_dtype == expected.numpy_dtype
    assert actual.type is (expected.type if name != "json" else np.object_)
    assert actual == name
    assert actual == ts.dtype(name)
    assert hash(actual) == hash(ts.dtype(name))
    assert actual != ("int8" if name != "int8" else np.uint8)
    assert pickle.loads(pickle.dumps(actual)) == copy.deepcopy(actual) == actual


VALUES: list[Any] = [
    *(3, 3.5, True, "3", "x", b"a", [1, 2], (1, 2), {"a": [1, (2,)]}, None, 1j, 2**40, 300, -1),
    *(float("inf"), np.int64(3), object(), {1: 2}, 2**70),
]


@pytest.mark.parametrize("name", ["int32", "uint8", "bool", "float32", "complex64", "bfloat16"])
@pytest.mark.parametrize("value", VALUES, ids=label)
def test_scalars(name: str, value: Any) -> None:
    if name == "bfloat16" and value in ("x", b"a"):  # TensorStore crashes
        with pytest.raises(ValueError, match="could not convert"):
            ts.bfloat16(value)
        return

    def build(package: Any) -> Any:
        result = outcome(lambda: getattr(package, name)(value))
        return (type(result), repr(result)) if not isinstance(result, type) else result

    assert build(ts) == build(theirs)


@pytest.mark.parametrize("name", ["string", "ustring", "json", "char", "byte"])
@pytest.mark.parametrize("value", VALUES, ids=label)
def test_objects(name: str, value: Any) -> None:
    if name in ("string", "byte") and value in (2**40, 2**70):
        value = 2  # as many bytes
    if name == "json" and value in ({1: 2}, b"a"):  # TensorStore converts them to {"1": 2} and [97]
        with pytest.raises(TypeError, match="JSON"):
            ts.json(value)
        return

    def build(package: Any) -> Any:
        result = outcome(lambda: getattr(package, name)(value))
        return (type(result), repr(result)) if not isinstance(result, type) else result

    assert build(ts) == build(theirs)


def test_equality_raises_no_exception() -> None:
    # TensorStore raises an error for invalid data types
    assert ts.int32 != "foo"
    assert ts.int32 != 5
    assert ts.int32 != np.longdouble
    assert np.dtype("int32") == ts.int32


def test_zarr_only_types_are_named() -> None:
    for like, name in [
        *((ml_dtypes.uint4, "uint4"), (ml_dtypes.float8_e4m3, "float8_e4m3")),
        *((np.dtype("<M8[25s]"), "datetime64[25s]"), (np.dtype(">m8[ns]"), "timedelta64[ns]")),
        *((np.dtype("<M8"), "datetime64"), (np.dtype(">U4"), "U4")),
    ]:
        assert ts.dtype(like).name == name
        assert ts.dtype(name).numpy_dtype == np.dtype(like).newbyteorder("=")
    for wrong in ["datetime64[0s]", "datetime64[x]", "U", "U0", "U99999999999"]:
        with pytest.raises(ArgumentError, match="not the name"):
            ts.dtype(wrong)


def test_arrays_of_data_type() -> None:
    assert np.zeros(2, ts.int32).dtype == np.int32
    assert np.zeros(2, ts.byte).dtype == np.dtype("V1")
    assert np.zeros(2, ts.char).dtype == np.dtype("S1")
    assert np.zeros(2, ts.ustring).dtype == np.dtype("O")


def test_data_types_of_stored_arrays() -> None:
    pairs: list[tuple[Any, str]] = [
        *((">f4", "float32"), ("string", "ustring"), ("bytes", "string"), ("r16", "byte")),
        *((np.dtype([("a", "i4")]), "byte"), ("float4_e2m1fn", "float4_e2m1fn"), ("S4", "char")),
    ]
    for stored, name in pairs:
        assert of_stored(to_data_type(stored)).name == name


def test_data_types_are_immutable() -> None:
    with pytest.raises(AttributeError, match="cannot be changed"):
        ts.int32.name = "int8"


@pytest.mark.parametrize(
    "name",
    ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e3m4", "int4", "int2", "float4_e2m1fn"],
)
def test_types_of_few_bits_in_format_2(name: str, tmp_path: Path) -> None:
    """NumPy and zarr-python lack these names: the document is TensorStore's."""
    for writer, reader in ((ts, theirs), (theirs, ts)):
        spec = {"driver": "zarr", "kvstore": f"file://{tmp_path}/{writer.__name__}/"}
        created = writer.open(spec, create=True, dtype=name, shape=[4], fill_value=1).result()
        created[:2] = 0
        again = reader.open(spec).result()
        assert again.dtype.name == name
        assert np.asarray(again.read().result(), "f4").tolist() == [0, 0, 1, 1]
        metadata = [array.spec().to_json()["metadata"] for array in (created, again)]
        assert metadata[0] == metadata[1]


ONE_BYTE: list[tuple[Any, str | None]] = [
    *(("|S1", None), ("|V1", None), ("|S2", None)),
    *(([["a", "|S1"], ["b", "|V1"]], "a"), ([["a", "|S1"], ["b", "|V1"]], "b")),
    ([["a", "|S1", [3]]], None),
]


@pytest.mark.parametrize(("dtype", "field"), ONE_BYTE, ids=label)
@pytest.mark.parametrize(
    "json", [{"shape": [2, 1]}, {"rank": 2}, {"rank": 1}, {}, {"dtype": "char"}], ids=repr
)
def test_void_bytes_are_last_dimension(dtype: Any, field: Any, json: Any) -> None:
    def build(package: Any) -> Any:
        metadata = {"dtype": dtype, **({} if "shape" in json else {"shape": [2]})}
        options = {} if field is None else {"field": field}
        spec = {"driver": "zarr", "kvstore": "memory://", "metadata": metadata, **options}
        array = package.open(spec, create=True, **json).result()
        return array.dtype.name, repr(array.domain), array.schema.to_json(), array.spec().to_json()

    assert outcome(lambda: build(ts)) == outcome(lambda: build(theirs))


@pytest.mark.parametrize("name", ["char", "byte", "json"])
@pytest.mark.parametrize("driver", ["zarr", "zarr3"])
def test_new_arrays_have_no_bytes_without_metadata(driver: str, name: str) -> None:
    for package in (ts, theirs):
        with pytest.raises(ValueError, match=name):
            spec = {"driver": driver, "kvstore": "memory://"}
            package.open(spec, create=True, dtype=name, shape=[2, 1]).result()


@pytest.mark.parametrize("package", [ts, theirs], ids=["ours", "theirs"])
@pytest.mark.parametrize(
    ("value", "name"), [(b"a", "char"), (b"a", "byte"), (b"\xff", "string")], ids=repr
)
def test_elements_without_json_have_repr_and_pickle(package: Any, value: Any, name: str) -> None:
    array = package.array(value, dtype=package.dtype(name))
    assert [repr(array), repr(array.spec())] == ["TensorStore(...)", "Spec(...)"]
    assert repr(package.stack([array])) == "TensorStore(...)"
    assert not array.spec() == array.spec()  # noqa: SIM201 (what is asked for)
    assert pickle.loads(pickle.dumps(array)).dtype.name == name
    assert pickle.loads(pickle.dumps(array.spec())).dtype.name == name
    with pytest.raises(ValueError, match=r"JSON|UTF-8"):
        array.spec().to_json()
