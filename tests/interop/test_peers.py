"""What Tessarr writes zarr-python and TensorStore read back equal, and the other way round."""

from __future__ import annotations

import json
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
    ],
    "compressor": list(COMPRESSORS),
    "sharding": ["none", "end", "start"],
    "order": ["C", "F"],
    "separator": ["/", "."],
    "fill": [0, 1, "nan"],
    "shape": [(), (7,), (9, 10), (5, 6, 7)],
}


def valid(row: dict[str, Any]) -> bool:
    v2 = row["zarr_format"] == 2
    dtype = np.dtype(row["dtype"])
    return not (
        (v2 and row["compressor"] in V3_ONLY)
        or (not v2 and row["compressor"] in V2_ONLY)
        or (v2 and row["sharding"] != "none")
        or (not v2 and not dtype.isnative)
        or (row["fill"] == "nan" and dtype.kind not in "fc")
        or (row["shape"] == () and row["order"] == "F")
    )


ROWS = pairwise(FACTORS, valid)
IDS = ["-".join(str(value).replace(" ", "_") for value in row.values()) for row in ROWS]


def values_of(row: dict[str, Any]) -> np.ndarray[Any, Any]:
    """Values with a block of fill, extremes and NaN among them."""
    dtype, shape = np.dtype(row["dtype"]), row["shape"]
    dice = np.random.default_rng(len(shape))
    raw = dice.integers(0, 250, shape)
    values = np.asarray(raw % 2 == 0 if dtype.kind == "b" else raw, dtype)
    if values.ndim:
        values[: values.shape[0] // 2] = np.array(fill_of(row), dtype)
    return values


def fill_of(row: dict[str, Any]) -> Any:
    return float("nan") if row["fill"] == "nan" else row["fill"]


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
        fill_value=fill_of(row),
        zarr_format=row["zarr_format"],
        **options,
    )


def by_tensorstore(path: Path, row: dict[str, Any]) -> Any:
    driver = "zarr3" if row["zarr_format"] == 3 else "zarr2"
    spec = {"driver": driver, "kvstore": {"driver": "file", "path": str(path)}}
    return tensorstore.open(spec, open=True).result()


def tensorstore_reads(row: dict[str, Any]) -> bool:
    """TensorStore refuses what zstd writes for numcodecs' "checksum" in format 2."""
    return not (row["zarr_format"] == 2 and row["compressor"] == "zstd checksum")


def zarr_writes(row: dict[str, Any]) -> bool:
    """zarr-python fails to write shards of rank 0."""
    return not (row["shape"] == () and row["sharding"] != "none")


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_peers_read_what_tessarr_writes(tmp_path: Path, row: dict[str, Any]) -> None:
    """All three read the same values from what Tessarr wrote."""
    path = tmp_path / "a"
    values = values_of(row)
    created(path, row)[...] = values
    np.testing.assert_array_equal(tessarr.open_array(path, mode="r")[...], values)
    np.testing.assert_array_equal(zarr.open_array(path, mode="r")[...], values)
    if tensorstore_reads(row):
        np.testing.assert_array_equal(by_tensorstore(path, row).read().result(), values)


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_tessarr_reads_what_peers_write(tmp_path: Path, row: dict[str, Any]) -> None:
    """Into an array of the same metadata each peer writes, and Tessarr reads it."""
    values = values_of(row)
    if zarr_writes(row):
        path = tmp_path / "zarr"
        array = created(path, row)
        zarr.open_array(path, mode="r+")[...] = values
        np.testing.assert_array_equal(array[...], values)
    if tensorstore_reads(row):
        path = tmp_path / "ts"
        array = created(path, row)
        by_tensorstore(path, row).write(values).result()
        np.testing.assert_array_equal(array[...], values)


def test_the_table_covers_every_pair() -> None:
    """The pairwise table is not a handful of rows."""
    assert len(ROWS) >= 150
    assert {json.dumps(row["shape"]) for row in ROWS} == {json.dumps(s) for s in FACTORS["shape"]}
