"""Variable-length elements: the bytes of numcodecs, and exchange with zarr-python."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr import codecs
from tessarr.codec import ArraySpec

numcodecs = pytest.importorskip("numcodecs", reason="numcodecs is not installed")
zarr = pytest.importorskip("zarr", reason="zarr-python is not installed")


def objects(*values: Any) -> np.ndarray[Any, Any]:
    return np.fromiter(values, object, len(values))


TEXT = objects("a", "", "日本語", "x" * 300, "\0", "é\0")
BYTES = objects(b"a", b"", b"\xff\0", bytes(300))
MIXED = objects(None, True, 1, -(2**40), 1.5, "é", [1, [2]], {"a": [None], "b": "c"})
NUMBERS = objects(*(np.arange(n, dtype="<i2") for n in (3, 0, 1)))

PAIRS = {
    "vlen-utf8": (codecs.VLenUTF8(), TEXT),
    "vlen-bytes": (codecs.VLenBytes(), BYTES),
    "vlen-array": (codecs.VLenArray("<i2"), NUMBERS),
    "json2": (codecs.JSON(), MIXED),
    "json2 indented": (codecs.JSON(indent=1, ensure_ascii=False, sort_keys=False), MIXED),
    "msgpack2": (codecs.MsgPack(), MIXED),
    "msgpack2 bytes": (codecs.MsgPack(raw=True, use_bin_type=False), BYTES),
    "pickle": (codecs.Pickle(), MIXED),
    "categorize": (codecs.Categorize(["a", "é"], object, "u1"), objects("é", "a", "x", "")),
    "categorize U": (codecs.Categorize(["a", "é"], "<U3", "<u2"), np.array(["é", "a", "x"], "<U3")),
}


def same(actual: Any, expected: Any) -> bool:
    pairs = zip(actual.reshape(-1), expected.reshape(-1), strict=True)
    return all(np.array_equal(a, b) if isinstance(b, np.ndarray) else a == b for a, b in pairs)


@pytest.mark.parametrize("name", PAIRS)
def test_variable_length_codecs_match_numcodecs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both libraries accept the configurations, and each decodes the other's output."""
    ours, values = PAIRS[name]
    monkeypatch.setattr("numcodecs.pickles.ALLOW_UNSAFE_PICKLE_DECODE", True, raising=False)
    theirs = numcodecs.get_codec(ours.get_config())
    assert type(ours).from_config(theirs.get_config()) == ours
    encoded = bytes(theirs.encode(values))
    if "pickle" not in name and "bytes" not in name:
        assert bytes(np.asarray(memoryview(ours.encode(values)))) == encoded
    data_type = ours.object_type() or tessarr.dtype.to_data_type(values.dtype)
    spec = ArraySpec(values.shape, data_type)
    data: Any = np.frombuffer(encoded, ours.astype) if "cat" in name else encoded
    result = ours.decode(data, spec)
    expected = np.asarray(theirs.decode(encoded))
    assert same(result, expected)
    assert same(
        np.asarray(theirs.decode(bytes(np.asarray(memoryview(ours.encode(values)))))), expected
    )


CASES = [
    *(
        (2, kind, compressor)
        for kind in ("text", "bytes")
        for compressor in (None, "zlib", "blosc")
    ),
    *((3, kind, compressor) for kind in ("text", "bytes") for compressor in (None, "zstd", "gzip")),
    (3, "text", "shards"),
    (3, "bytes", "shards"),
]


def values_of(kind: str) -> np.ndarray[Any, Any]:
    pool = TEXT if kind == "text" else BYTES
    values = pool[np.arange(7 * 5) ** 2 % len(pool)].reshape(7, 5)
    values[:3, :2] = pool[1]
    return values


@pytest.mark.parametrize(("zarr_format", "kind", "compressor"), CASES)
def test_zarr_python_reads_our_variable_length_arrays(
    tmp_path: Path, zarr_format: Any, kind: str, compressor: str | None
) -> None:
    """The peer reads all elements, including absent chunks, in both formats."""
    settings: dict[str, Any] = {"compressors": compressor}
    if compressor == "shards":
        settings = {"shards": (6, 4)}
    array = tessarr.create_array(
        tmp_path / "a",
        shape=(7, 5),
        chunks=(3, 2),
        dtype=str if kind == "text" else bytes,
        zarr_format=zarr_format,
        order="C" if compressor else "F",
        **settings,
    )
    array[...] = values_of(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = zarr.open_array(tmp_path / "a", mode="r")
        assert np.asarray(theirs[...], object).tolist() == values_of(kind).tolist()
        assert compressor == "shards" or array.nchunks_initialized < array.nchunks


@pytest.mark.parametrize(("zarr_format", "kind", "compressor"), CASES)
def test_variable_length_arrays_of_zarr_python_are_read(
    tmp_path: Path, zarr_format: Any, kind: str, compressor: str | None
) -> None:
    """zarr-python also reads the array after Tessarr changes it."""
    values = values_of(kind)
    settings: dict[str, Any] = {"shards": (6, 4)} if compressor == "shards" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = zarr.create_array(
            tmp_path / "a",
            shape=(7, 5),
            chunks=(3, 2),
            dtype=str if kind == "text" else zarr.dtype.VariableLengthBytes(),
            zarr_format=zarr_format,
            **settings,
        )
        theirs[...] = values
    array = tessarr.open_array(tmp_path / "a", mode="r+")
    assert array[...].tolist() == values.tolist()
    array[1, 1:4] = values[1, 1:4] = values[5, :3]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = zarr.open_array(tmp_path / "a", mode="r")
        assert np.asarray(theirs[...], object).tolist() == values.tolist()
