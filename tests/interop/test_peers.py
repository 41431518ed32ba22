"""Exchange of arrays with zarr-python and TensorStore in both directions."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from interop.pairs import pairwise
from tessarr import codecs

tensorstore = pytest.importorskip("tensorstore", reason="TensorStore is not installed")
zarr = pytest.importorskip("zarr", reason="zarr-python is not installed")

COMPRESSORS: dict[str, Any] = {
    "none": [],
    "blosc lz4": codecs.Blosc(cname="lz4", clevel=5, shuffle=1),
    "blosc zstd bits": codecs.Blosc(cname="zstd", clevel=3, shuffle=2),
    "blosc blosclz": codecs.Blosc(cname="blosclz", clevel=9, shuffle=0),
    "blosc lz4hc": codecs.Blosc(cname="lz4hc", clevel=4, shuffle=1),
    "blosc zlib": codecs.Blosc(cname="zlib", clevel=1, shuffle=1),
    "zstd": codecs.Zstd(level=3),
    "gzip": codecs.GZip(level=4),
    "zlib": codecs.Zlib(level=2),
    "zstd checksum": codecs.Zstd(level=1, checksum=True),
    "crc32c": codecs.Crc32c(),
    "gzip crc32c": [codecs.GZip(level=1), codecs.Crc32c()],
}
V2_ONLY = {"zlib"}
V3_ONLY = {"crc32c", "gzip crc32c"}

FACTORS: dict[str, list[Any]] = {
    "zarr_format": [2, 3],
    "dtype": [
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "complex64", "complex128", ">i2", ">u4", ">f8", ">c8"),
        *("<U3", ">U2", "|S4", "|V3", "<M8[ns]", ">M8[10s]", "<m8[D]"),
        *("bfloat16", "int4", "int2", "float8_e5m2"),
    ],
    "compressor": list(COMPRESSORS),
    "sharding": ["none", "end", "start"],
    "order": ["C", "F"],
    "separator": ["/", "."],
    "fill": [0, 1, "nan"],
    "shape": [(), (7,), (9, 10), (5, 6, 7)],
}


@cache
def numpy_dtype(name: str) -> np.dtype[Any]:
    return tessarr.create_array(None, shape=(), dtype=name).dtype


def dtype_of(row: dict[str, Any]) -> np.dtype[Any]:
    return numpy_dtype(row["dtype"])


def is_small(row: dict[str, Any]) -> bool:
    """Return whether the type comes from ml_dtypes."""
    return dtype_of(row).isbuiltin == 2


def valid(row: dict[str, Any]) -> bool:
    v2 = row["zarr_format"] == 2
    dtype = dtype_of(row)
    return not (
        (v2 and row["compressor"] in V3_ONLY)
        or (not v2 and row["compressor"] in V2_ONLY)
        or (v2 and row["sharding"] != "none")
        or (not v2 and not dtype.isnative)
        or (row["fill"] == "nan" and dtype.kind not in "fcmM")
        or (v2 and is_small(row))
        or (row["shape"] == () and row["order"] == "F")
    )


ROWS = pairwise(FACTORS, valid)
IDS = ["-".join(str(value).replace(" ", "_") for value in row.values()) for row in ROWS]


def values_of(row: dict[str, Any]) -> np.ndarray[Any, Any]:
    """Return values with a block of fill, extremes and NaN."""
    dtype, shape = dtype_of(row), row["shape"]
    dice = np.random.default_rng(len(shape))
    raw = dice.integers(0, 250, shape)
    if dtype.kind in "USV" and not is_small(row):
        data = dice.integers(65, 91, math.prod(shape) * dtype.itemsize, np.uint8)
        if dtype.kind == "U":
            data = data[: data.size // 4].astype(f"{dtype.byteorder}u4")
        values = np.frombuffer(data.tobytes(), dtype).reshape(shape).copy()
    else:
        values = np.asarray(
            raw % 4 if is_small(row) else raw % 2 == 0 if dtype.kind == "b" else raw
        )
        values = values.astype(dtype)
    if values.ndim:
        values[: values.shape[0] // 2] = np.frombuffer(fill_of(row), dtype)[0]
    return values


def fill_of(row: dict[str, Any]) -> bytes:
    """Return the fill value as the bytes of one element."""
    dtype, fill = dtype_of(row), row["fill"]
    if fill == "nan":
        return np.array("NaT" if dtype.kind in "mM" else np.nan, dtype).tobytes()
    if dtype.kind in "USV" and not is_small(row):
        text = "ab" if fill else ""
        raw = text.encode("utf-32-be" if dtype.str[0] == ">" else "utf-32-le")
        return (raw if dtype.kind == "U" else text.encode()).ljust(dtype.itemsize, b"\0")
    return np.array(fill).astype(dtype).tobytes()


def chunks_of(row: dict[str, Any]) -> tuple[int, ...]:
    return tuple(min(size, 2 + axis) for axis, size in enumerate(row["shape"]))


def created(path: Path, row: dict[str, Any]) -> tessarr.Array:
    options: dict[str, Any] = {}
    compressors = COMPRESSORS[row["compressor"]]
    chunks = chunks_of(row)
    if row["zarr_format"] == 2:
        options = {
            "order": row["order"],
            "dimension_separator": row["separator"],
            "compressors": compressors,
            "chunks": chunks,
        }
    else:
        listed = compressors if isinstance(compressors, list) else [compressors]
        chain: list[Any] = [codecs.Bytes(), *listed]
        if row["order"] == "F":
            chain.insert(0, codecs.Transpose(order=tuple(reversed(range(len(chunks))))))
        outer = chunks
        if row["sharding"] != "none":
            outer = tuple(2 * size for size in chunks)
            chain = [
                codecs.ShardingIndexed(
                    chunk_shape=chunks, codecs=chain, index_location=row["sharding"]
                )
            ]
        options = {
            "chunks": outer,
            "codecs": chain,
            "chunk_key_encoding": {
                "name": "default",
                "configuration": {"separator": row["separator"]},
            },
        }
    return tessarr.create_array(
        path,
        shape=row["shape"],
        dtype=row["dtype"],
        fill_value=np.frombuffer(fill_of(row), dtype_of(row))[0],
        zarr_format=row["zarr_format"],
        **options,
    )


def by_tensorstore(path: Path, row: dict[str, Any]) -> Any:
    driver = "zarr3" if row["zarr_format"] == 3 else "zarr2"
    spec = {"driver": driver, "kvstore": {"driver": "file", "path": str(path)}}
    return tensorstore.open(spec, open=True).result()


def tensorstore_reads(row: dict[str, Any]) -> bool:
    """Return whether TensorStore reads arrays with this data type and codec.

    TensorStore refuses zstd output for numcodecs' "checksum" in format 2. It lacks text and dates,
    and treats bytes as an additional dimension.
    """
    checksum = row["zarr_format"] == 2 and row["compressor"] == "zstd checksum"
    return not checksum and (is_small(row) or dtype_of(row).kind not in "USVmM")


def zarr_reads(row: dict[str, Any]) -> bool:
    """Return whether zarr-python has the type: it lacks those of ml_dtypes, and ``r24``."""
    return not is_small(row) and not (row["zarr_format"] == 3 and dtype_of(row).kind == "V")


def zarr_writes(row: dict[str, Any]) -> bool:
    """Return whether zarr-python writes the array: it fails with shards of rank 0."""
    return zarr_reads(row) and not (row["shape"] == () and row["sharding"] != "none")


def assert_same(actual: Any, expected: np.ndarray[Any, Any]) -> None:
    """Assert equal values; NaNs are equal, but ml_dtypes compare by bits."""
    if expected.dtype.isbuiltin == 2:
        actual, expected = (np.asarray(a).reshape(-1).view(np.uint8) for a in (actual, expected))
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_peers_read_what_tessarr_writes(tmp_path: Path, row: dict[str, Any]) -> None:
    """All three peers read the values that Tessarr wrote."""
    path = tmp_path / "a"
    values = values_of(row)
    created(path, row)[...] = values
    assert_same(tessarr.open_array(path, mode="r")[...], values)
    if zarr_reads(row):
        assert_same(zarr.open_array(path, mode="r")[...], values)
    if tensorstore_reads(row):
        assert_same(by_tensorstore(path, row).read().result(), values)


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_tessarr_reads_what_peers_write(tmp_path: Path, row: dict[str, Any]) -> None:
    """Each peer writes to an array of the same metadata, and Tessarr reads it."""
    values = values_of(row)
    if zarr_writes(row):
        path = tmp_path / "zarr"
        array = created(path, row)
        zarr.open_array(path, mode="r+")[...] = values
        assert_same(array[...], values)
    if tensorstore_reads(row):
        path = tmp_path / "ts"
        array = created(path, row)
        by_tensorstore(path, row).write(values).result()
        assert_same(array[...], values)


RECORD_V2 = np.dtype([("a", "<i4"), ("b", ">f8"), ("c", "|S3"), ("d", "<u8")])
RECORD_V3 = np.dtype([("x", "<f4"), ("y", "<u2"), ("z", "|i1")])


def records(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    dice = np.random.default_rng(1)
    values = np.zeros((5, 6), dtype)
    for name in dtype.names or ():
        if dtype[name].names is None:
            values[name] = dice.integers(0, 100, (5, 6)).astype(dtype[name])
    return values


def test_records_of_format_2_are_exchanged_with_zarr(tmp_path: Path) -> None:
    """Byte orders of fields and fill values have the same meaning."""
    values = records(RECORD_V2)
    fill = np.array((1, 2.5, b"ab", 4), RECORD_V2)[()]
    a = tessarr.create_array(
        tmp_path, shape=(5, 9), dtype=RECORD_V2, zarr_format=2, chunks=(2, 4), fill_value=fill
    )
    a[:, :6] = values
    other = zarr.open_array(tmp_path, mode="r+")
    assert other.dtype == RECORD_V2
    assert other[...].tobytes() == a[...].tobytes()
    assert other[0, 8] == fill
    other[:, 6] = values[:, 0]
    assert a[:, 6].tobytes() == values[:, 0].tobytes()


@pytest.mark.parametrize("endian", ["little", "big"])
def test_records_of_format_3_are_exchanged_with_tensorstore(tmp_path: Path, endian: Any) -> None:
    """TensorStore reads and writes one field at a time; the other fields are unchanged."""
    values = records(RECORD_V3)
    a = tessarr.create_array(
        tmp_path,
        shape=(5, 6),
        dtype=RECORD_V3,
        chunks=(2, 4),
        fill_value={"x": "NaN", "y": 7, "z": -1},
        serializer=codecs.Bytes(endian),
    )
    a[:4] = values[:4]
    for name in ("x", "y", "z"):
        kvstore = {"driver": "file", "path": str(tmp_path)}
        spec = {"driver": "zarr3", "kvstore": kvstore, "field": name}
        other = tensorstore.open(spec, open=True).result()
        np.testing.assert_array_equal(other.read().result(), a[name])
        other[0].write(values[name][1]).result()
        np.testing.assert_array_equal(a[name, 0], values[name][1])
    np.testing.assert_array_equal(a[2:4], values[2:4])


def test_pairwise_table_covers_every_pair() -> None:
    """The pairwise table has many rows."""
    assert len(ROWS) >= 150
    assert {json.dumps(row["shape"]) for row in ROWS} == {json.dumps(s) for s in FACTORS["shape"]}
