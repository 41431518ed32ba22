"""Small stores, written byte by byte, for tests of single requirements."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr import stores

__all__ = [
    "BIG",
    "CRC",
    "LITTLE",
    "V2",
    "V3",
    "blosc",
    "chunk_keys",
    "crc32c",
    "document",
    "expect_defect",
    "expect_read_error",
    "expect_refusal",
    "expect_unsupported",
    "gzip",
    "has_same_bits",
    "named",
    "open_chunk_v2",
    "open_chunk_v3",
    "open_v2",
    "open_v3",
    "problems_v2",
    "problems_v3",
    "regular",
    "rewrite_document",
    "sharding",
    "store_v2",
    "store_v3",
    "transpose",
    "write_chunk",
    "zstd",
]

JSON = dict[str, Any]

LITTLE: JSON = {"name": "bytes", "configuration": {"endian": "little"}}
BIG: JSON = {"name": "bytes", "configuration": {"endian": "big"}}
CRC: JSON = {"name": "crc32c"}

V2: JSON = {
    "zarr_format": 2,
    "shape": [5, 4],
    "chunks": [2, 3],
    "dtype": "<i4",
    "compressor": None,
    "fill_value": 0,
    "order": "C",
    "filters": None,
}
V3: JSON = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [6, 4],
    "data_type": "int32",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [3, 2]}},
    "chunk_key_encoding": {"name": "default"},
    "fill_value": 0,
    "codecs": [LITTLE],
}


def regular(*lengths: int) -> JSON:
    return {"name": "regular", "configuration": {"chunk_shape": list(lengths)}}


def named(name: str, **configuration: Any) -> JSON:
    """Return the JSON of an extension."""
    return {"name": name, **({"configuration": configuration} if configuration else {})}


def transpose(*order: int) -> JSON:
    return {"name": "transpose", "configuration": {"order": list(order)}}


def gzip(level: int = 1) -> JSON:
    return {"name": "gzip", "configuration": {"level": level}}


def sharding(*chunk_shape: int, codecs: Any = (LITTLE,), index: Any = (LITTLE, CRC), **more: Any):
    configuration = {
        "chunk_shape": list(chunk_shape),
        "codecs": list(codecs),
        "index_codecs": list(index),
        **more,
    }
    return {"name": "sharding_indexed", "configuration": configuration}


_BLOSC: JSON = {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0}


def blosc(*without: str, **changes: Any) -> JSON:
    members = {name: item for name, item in (_BLOSC | changes).items() if name not in without}
    return {"name": "blosc", "configuration": members}


def zstd(**members: Any) -> JSON:
    return {"name": "zstd", "configuration": members}


def crc32c(data: bytes) -> bytes:
    """Compute CRC-32C bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return struct.pack("<I", crc ^ 0xFFFFFFFF)


def document(base: JSON, *without: str, **changes: Any) -> bytes:
    """Return the document with some members changed and others omitted."""
    members = {name: item for name, item in (base | changes).items() if name not in without}
    return json.dumps(members).encode()


def store_v2(
    stored: Mapping[str, bytes] | None = None, /, *without: str, zattrs: Any = None, **changes: Any
) -> tessarr.stores.MemoryStore:
    items = {".zarray": document(V2, *without, **changes), **(stored or {})}
    if zattrs is not None:
        items[".zattrs"] = zattrs if isinstance(zattrs, bytes) else json.dumps(zattrs).encode()
    return stores.MemoryStore(items)


def store_v3(
    stored: Mapping[str, bytes] | None = None, /, *without: str, **changes: Any
) -> tessarr.stores.MemoryStore:
    return stores.MemoryStore({"zarr.json": document(V3, *without, **changes), **(stored or {})})


def open_v2(
    stored: Mapping[str, bytes] | None = None, /, *without: str, zattrs: Any = None, **changes: Any
) -> tessarr.Array:
    return tessarr.open_array(store_v2(stored, *without, zattrs=zattrs, **changes), mode="r+")


def open_v3(
    stored: Mapping[str, bytes] | None = None, /, *without: str, **changes: Any
) -> tessarr.Array:
    return tessarr.open_array(store_v3(stored, *without, **changes), mode="r+")


def open_chunk_v2(
    stored: bytes | None = None,
    dtype: Any = "<i4",
    *,
    count: int = 6,
    fill: Any = None,
    **changes: Any,
) -> tessarr.Array:
    """Open an array of format 2 with one chunk of `count` elements, which holds these bytes."""
    items = {} if stored is None else {"0": stored}
    return open_v2(items, shape=[count], chunks=[count], dtype=dtype, fill_value=fill, **changes)


def open_chunk_v3(
    codecs: Any,
    data_type: Any = "int32",
    fill: Any = 0,
    *,
    count: int = 6,
    stored: bytes | None = None,
) -> tessarr.Array:
    """Open an array of format 3 with one chunk of `count` elements, which holds these bytes."""
    return open_v3(
        {} if stored is None else {"c/0": stored},
        shape=[count],
        chunk_grid=regular(count),
        data_type=data_type,
        fill_value=fill,
        codecs=codecs,
    )


def write_chunk(array: tessarr.Array, values: Any) -> bytes | None:
    """Write an array of one chunk, and return the stored bytes."""
    array[...] = values
    return array.store.get("0" if array.zarr_format == 2 else "c/0")


def _problems(open_: Any, without: tuple[str, ...], changes: JSON) -> dict[str, str]:
    with pytest.raises(tessarr.errors.MetadataError) as caught:
        open_(None, *without, **changes)
    return {problem.loc: problem.kind for problem in caught.value.problems}


def problems_v2(*without: str, **changes: Any) -> dict[str, str]:
    """Return the problems of a document of format 2 by location."""
    return _problems(open_v2, without, changes)


def problems_v3(*without: str, **changes: Any) -> dict[str, str]:
    """Return the problems of a document of format 3 by location."""
    return _problems(open_v3, without, changes)


def expect_refusal(items: Mapping[str, bytes]) -> tessarr.errors.MetadataError:
    """Return the MetadataError of opening a store with these items."""
    with pytest.raises(tessarr.errors.MetadataError) as caught:
        tessarr.open(stores.MemoryStore(items), mode="r")
    return caught.value


@contextmanager
def expect_unsupported(extension: str) -> Iterator[None]:
    """Expect an UnsupportedError with the name of an extension."""
    with pytest.raises(tessarr.errors.UnsupportedError) as caught:
        yield
    assert caught.value.extension == extension
    assert extension in str(caught.value)


@contextmanager
def expect_defect(text: str) -> Iterator[None]:
    """Expect exactly one warning about a defect."""
    with pytest.warns(tessarr.errors.TessarrWarning, match=text) as caught:
        yield
    assert len(caught) == 1


@contextmanager
def expect_read_error(kind: str | None = None, key: str | None = None) -> Iterator[None]:
    """Expect a DataError with the key and the chunk coordinates."""
    with pytest.raises(tessarr.errors.DataError) as caught:
        yield
    error = caught.value
    assert kind is None or error.kind == kind, error
    assert error.key if key is None else error.key == key
    assert error.chunk is not None


def chunk_keys(array: tessarr.Array | tessarr.Group) -> set[str]:
    """Return all keys except those of documents."""
    return {
        key
        for key in array.store.list("")
        if key.rpartition("/")[2] not in {"zarr.json", ".zarray", ".zattrs", ".zgroup"}
    }


def rewrite_document(array: tessarr.Array) -> JSON:
    """Return the document after an edit that does not concern the tests."""
    if array.zarr_format == 2:
        array.resize(tuple(length + 1 for length in array.shape))
        name = ".zarray"
    else:
        array.attrs["rewritten"] = True
        name = "zarr.json"
    document: JSON = json.loads(array.store.get(name) or b"")
    return document


def has_same_bits(values: Any, expected: Any) -> None:
    """Compare every bit, and type and shape."""
    values, expected = np.asarray(values), np.asarray(expected)
    assert (values.dtype, values.shape) == (expected.dtype, expected.shape)
    assert values.tobytes() == expected.tobytes()
