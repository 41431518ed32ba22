"""Codecs of numcodecs: zarr-python reads Tessarr's arrays, and Tessarr reads zarr-python's."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr import codecs

zarr = pytest.importorskip("zarr", reason="zarr-python is not installed")
theirs = pytest.importorskip("zarr.codecs.numcodecs", reason="zarr-python is too old")
numcodecs = pytest.importorskip("numcodecs")

RAW = [{"id": 3, "dist": 4}, {"id": 33, "preset": 1}]
INTEGERS = np.arange(200, dtype="i4").reshape(20, 10)
FLOATS = np.linspace(0, 1, 200).reshape(20, 10)
CHUNKS = (7, 5)

# Tessarr's codec, the name of zarr-python's class, and its parameters.
BYTES_BYTES: list[tuple[Any, str, dict[str, Any]]] = [
    (codecs.Blosc("zstd", 3, 2), "Blosc", {"cname": "zstd", "clevel": 3, "shuffle": 2}),
    (codecs.LZ4(2), "LZ4", {"acceleration": 2}),
    (codecs.Zstd(3), "Zstd", {"level": 3}),
    (codecs.Zlib(3), "Zlib", {"level": 3}),
    (codecs.GZip(-1), "GZip", {"level": -1}),
    (codecs.BZ2(3), "BZ2", {"level": 3}),
    (codecs.LZMA(preset=1), "LZMA", {"preset": 1}),
    (codecs.LZMA(format=3, filters=RAW), "LZMA", {"format": 3, "filters": RAW}),
    (codecs.Shuffle(2), "Shuffle", {"elementsize": 2}),
    (codecs.CRC32(), "CRC32", {}),
    (codecs.CRC32("end"), "CRC32", {"location": "end"}),
    (codecs.Crc32c("start"), "CRC32C", {"location": "start"}),
    (codecs.Adler32(), "Adler32", {}),
    (codecs.Fletcher32(), "Fletcher32", {}),
    (codecs.JenkinsLookup3(), "JenkinsLookup3", {}),
]
ARRAY_ARRAY: list[tuple[np.ndarray[Any, Any], Any, str, dict[str, Any]]] = [
    (INTEGERS, codecs.Delta(), "Delta", {"dtype": "int32"}),
    (INTEGERS, codecs.Delta("i4", "i2"), "Delta", {"dtype": "i4", "astype": "i2"}),
    (FLOATS, codecs.Delta(), "Delta", {"dtype": "f8"}),
    (
        FLOATS,
        codecs.BitRound(5, spelling="numcodecs.bitround"),
        "BitRound",
        {"keepbits": 5},
    ),
    (
        FLOATS,
        codecs.FixedScaleOffset(0, 1000, astype="u2"),
        "FixedScaleOffset",
        {"offset": 0, "scale": 1000, "astype": "u2"},
    ),
    (FLOATS, codecs.Quantize(3), "Quantize", {"digits": 3}),
    (FLOATS, codecs.AsType("f4"), "AsType", {"encode_dtype": "f4", "decode_dtype": "f8"}),
    (INTEGERS % 3 == 0, codecs.PackBitsV2(), "PackBits", {}),
]
ARRAY_BYTES: list[tuple[Any, str, dict[str, Any], str]] = [
    (codecs.PCodec(4), "PCodec", {"level": 4}, "pcodec"),
    (codecs.ZFPY(tolerance=0.001), "ZFPY", {"mode": 4, "tolerance": 0.001}, "zfpy"),
    (codecs.ZFPY(3, precision=20), "ZFPY", {"mode": 3, "precision": 20}, "zfpy"),
]

pytestmark = pytest.mark.filterwarnings("ignore::Warning")


def ours_and_theirs(
    path: Path, array: np.ndarray[Any, Any], zarr_format: int, ours: dict[str, Any], peer: Any
) -> None:
    """Store an array with both libraries, and read each array with the other library."""
    created = tessarr.create_array(
        path / "ours",
        shape=array.shape,
        dtype=array.dtype,
        chunks=CHUNKS,
        zarr_format=zarr_format,  # type: ignore[arg-type]
        **ours,
    )
    created[...] = array
    expected = created[...]
    values = zarr.open_array(path / "ours", mode="r")[...]
    assert (values.dtype, values.tobytes()) == (expected.dtype, expected.tobytes())
    other = zarr.create_array(
        path / "theirs",
        shape=array.shape,
        dtype=array.dtype,
        chunks=CHUNKS,
        zarr_format=zarr_format,
        **peer,
    )
    other[...] = array
    values = tessarr.open_array(path / "theirs", mode="r")
    assert values[...].tobytes() == other[...].tobytes()
    assert values[...].tobytes() == expected.tobytes()


@pytest.mark.parametrize(("ours", "name", "parameters"), BYTES_BYTES)
def test_numcodecs_compressors_are_exchanged(
    tmp_path: Path, ours: Any, name: str, parameters: dict[str, Any]
) -> None:
    peer = getattr(theirs, name)(**parameters)
    ours_and_theirs(tmp_path / "3", INTEGERS, 3, {"compressors": ours}, {"compressors": peer})
    codec = numcodecs.get_codec({"id": peer.to_dict()["name"].split(".")[1], **parameters})
    ours_and_theirs(tmp_path / "2", INTEGERS, 2, {"compressors": ours}, {"compressors": codec})


@pytest.mark.parametrize(("array", "ours", "name", "parameters"), ARRAY_ARRAY)
def test_numcodecs_filters_are_exchanged(
    tmp_path: Path, array: np.ndarray[Any, Any], ours: Any, name: str, parameters: dict[str, Any]
) -> None:
    peer = getattr(theirs, name)(**parameters)
    ours_and_theirs(tmp_path / "3", array, 3, {"filters": ours}, {"filters": peer})
    configuration = {"dtype": array.dtype.str, **parameters}
    if name in {"BitRound", "AsType", "PackBits"}:
        configuration = parameters
    codec = numcodecs.get_codec({"id": peer.to_dict()["name"].split(".")[1], **configuration})
    ours_and_theirs(tmp_path / "2", array, 2, {"filters": ours}, {"filters": codec})


@pytest.mark.parametrize(("ours", "name", "parameters", "package"), ARRAY_BYTES)
def test_numcodecs_serializers_are_exchanged(
    tmp_path: Path, ours: Any, name: str, parameters: dict[str, Any], package: str
) -> None:
    pytest.importorskip(package)
    peer = getattr(theirs, name)(**parameters)
    ours_and_theirs(tmp_path / "3", FLOATS, 3, {"serializer": ours}, {"serializer": peer})
    codec = numcodecs.get_codec({"id": package, **parameters})
    ours_and_theirs(tmp_path / "2", FLOATS, 2, {"compressors": ours}, {"compressors": codec})


def test_numcodecs_codecs_in_shards_are_exchanged(tmp_path: Path) -> None:
    ours = {"filters": codecs.Delta(), "compressors": [codecs.Shuffle(), codecs.Zlib(1)]}
    peer = {
        "filters": [theirs.Delta(dtype="i4")],
        "compressors": [theirs.Shuffle(elementsize=4), theirs.Zlib(level=1)],
    }
    shards = {"shards": (14, 10)}
    ours_and_theirs(tmp_path, INTEGERS, 3, {**ours, **shards}, {**peer, **shards})
    document = json.loads((tmp_path / "ours" / "zarr.json").read_bytes())
    inner = document["codecs"][0]["configuration"]["codecs"]
    assert [codec["name"].rpartition(".")[2] for codec in inner] == [
        "delta",
        "bytes",
        "shuffle",
        "zlib",
    ]


@pytest.mark.parametrize(
    ("array", "ours", "name", "parameters"),
    [
        (INTEGERS, codecs.ScaleOffset(-5, 2), "ScaleOffset", {"offset": -5, "scale": 2}),
        (FLOATS, codecs.ScaleOffset(0.5, 2.0), "ScaleOffset", {"offset": 0.5, "scale": 2.0}),
        (INTEGERS, codecs.CastValue("int16"), "CastValue", {"data_type": "int16"}),
    ],
)
def test_zarr_python_codecs_are_registered(
    tmp_path: Path, array: np.ndarray[Any, Any], ours: Any, name: str, parameters: dict[str, Any]
) -> None:
    peer = getattr(importlib.import_module("zarr.codecs"), name, None)
    if peer is None or (name == "CastValue" and not importlib.util.find_spec("cast_value_rs")):
        pytest.skip("the installed zarr-python lacks the codec")
    ours_and_theirs(tmp_path, array, 3, {"filters": ours}, {"filters": peer(**parameters)})
