"""Arrays of format 1: reads, and migration to format 2."""

from __future__ import annotations

import base64
import bz2
import json
import lzma
import pickle
import warnings
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tessarr
from stores.failing import Stopping
from tessarr.errors import (
    ExistsError,
    MetadataError,
    NotFoundError,
    ReadOnlyError,
    TessarrWarning,
    UnsupportedError,
)
from tessarr.stores import MemoryStore

META: dict[str, Any] = {
    "zarr_format": 1,
    "shape": [5, 3],
    "chunks": [2, 2],
    "dtype": "<i2",
    "compression": "none",
    "compression_opts": None,
    "fill_value": 7,
    "order": "C",
}
VALUES = np.arange(15, dtype="<i2").reshape(5, 3)


def written(
    compress: Callable[[bytes], bytes] = bytes, attrs: bytes | None = b"{}", **changes: Any
) -> MemoryStore:
    """Write an array exactly as in the specification."""
    meta = META | changes
    store = MemoryStore({"meta": json.dumps(meta).encode()})
    if attrs is not None:
        store.put("attrs", attrs)
    padded = np.full((6, 4), -1, meta["dtype"])
    padded[:5, :3] = VALUES
    for i in range(3):
        for j in range(2):
            if (i, j) != (1, 1):  # absent: reads as fill
                chunk = padded[2 * i : 2 * i + 2, 2 * j : 2 * j + 2]
                store.put(f"{i}.{j}", compress(chunk.tobytes(order=meta["order"])))
    return store


EXPECTED = VALUES.copy()
EXPECTED[2:4, 2:] = 7


@pytest.mark.covers("V1-STORE-01", "V1-CHUNK-01", "V1-CHUNK-02", "V1-META-03")
@pytest.mark.parametrize("mode", ["r", "r+", "a"])
def test_v1_array_is_read_only(mode: Any) -> None:
    """Edge chunks are whole, absent chunks have the fill value, other members have no effect."""
    store = written(more=1, attrs=b'{"a": [1, null]}')
    a = tessarr.open_array(store, mode)
    assert (a.zarr_format, a.shape, a.chunks, a.dtype) == (1, (5, 3), (2, 2), np.dtype("<i2"))
    np.testing.assert_array_equal(a[...], EXPECTED)
    assert a.attrs.asdict() == {"a": [1, None]}
    assert a.read_only
    for change in (lambda: a.attrs.put({}), lambda: a.resize(1, 1), lambda: a.append(VALUES)):
        with pytest.raises(ReadOnlyError, match="migrate_1to2"):
            change()
    with pytest.raises(ReadOnlyError):
        a[0, 0] = 1
    assert a.info.asdict()["zarr_format"] == 1
    again = pickle.loads(pickle.dumps(a))
    assert again.zarr_format == 1
    assert again.read_only
    assert isinstance(tessarr.open(store, mode), tessarr.Array)
    with pytest.raises(NotFoundError):
        tessarr.open_group(store, "r")


def test_v1_array_below_path_opens() -> None:
    inner = written()
    store = MemoryStore({f"deep/er/{key}": inner.get(key) or b"" for key in inner.list("")})
    np.testing.assert_array_equal(tessarr.open_array(store, "r", path="deep/er")[...], EXPECTED)
    tessarr.migrate_1to2(store, path="deep/er")
    assert not any(key.endswith(("/meta", "/attrs")) for key in store.list(""))


@pytest.mark.covers("V1-ATTR-01")
def test_attributes_may_be_absent() -> None:
    assert tessarr.open_array(written(attrs=None), "r").attrs.asdict() == {}
    with pytest.raises(MetadataError, match="'attrs'"):
        tessarr.open_array(written(attrs=b"[]"), "r")


@pytest.mark.covers("V1-COMP-01", "V1-COMP-02", "V1-COMP-03", "V1-COMP-04", "V1-MIG-02")
@pytest.mark.parametrize(
    ("compression", "options", "compress", "compressor"),
    [
        ("none", None, bytes, None),
        (None, None, bytes, None),
        ("zlib", 3, zlib.compress, {"id": "zlib", "level": 3}),
        ("gzip", 3, zlib.compress, {"id": "zlib", "level": 3}),
        ("bz2", 9, bz2.compress, {"id": "bz2", "level": 9}),
        (
            "lzma",
            {"format": 1, "check": 0, "preset": None, "filters": None},
            lambda data: lzma.compress(data, check=lzma.CHECK_NONE),
            {"id": "lzma", "format": 1, "check": 0, "preset": None, "filters": None},
        ),
        (
            "blosc",
            {"cname": "lz4", "clevel": 0, "shuffle": 1},
            lambda data: tessarr.codecs.Blosc("lz4", 5, 1).encode(data),
            {"id": "blosc", "cname": "lz4", "clevel": 0, "shuffle": 1},
        ),
    ],
)
def test_compressors(
    compression: Any, options: Any, compress: Callable[[bytes], bytes], compressor: Any
) -> None:
    store = written(compress, compression=compression, compression_opts=options)
    np.testing.assert_array_equal(tessarr.open_array(store, "r")[...], EXPECTED)
    migrated = tessarr.migrate_1to2(store)
    np.testing.assert_array_equal(migrated[...], EXPECTED)
    document = json.loads(bytes(store.get(".zarray") or b""))
    assert document["compressor"] == compressor
    assert document["filters"] is None


@pytest.mark.covers("V1-META-01", "V1-META-02", "V1-DTYPE-01", "V1-ORDER-01", "V1-COMP-01")
@pytest.mark.parametrize(
    ("changes", "location"),
    [
        *(({name: None}, f"/{name}") for name in ("shape", "chunks", "dtype", "order")),
        ({"dtype": "i2"}, "/dtype"),
        ({"dtype": [["a"]]}, "/dtype"),
        ({"order": "K"}, "/order"),
        ({"chunks": [2]}, "/chunks"),
        ({"shape": [-1, 1]}, "/shape/0"),
        ({"compression": "zlib", "compression_opts": 12}, "/compression_opts"),
        ({"compression": "zlib", "compression_opts": {}}, "/compression_opts"),
        ({"compression": "bz2", "compression_opts": 0}, "/compression_opts"),
        ({"compression": "blosc", "compression_opts": 1}, "/compression_opts"),
        ({"compression": "blosc", "compression_opts": {"cname": "x"}}, "/compression_opts/cname"),
        ({"compression": 3}, "/compression"),
        ({"fill_value": "x"}, "/fill_value"),
    ],
)
def test_v1_invalid_metadata_raises(changes: dict[str, Any], location: str) -> None:
    """The error has the location in the document of format 1."""
    with pytest.raises(MetadataError) as caught:
        tessarr.open_array(_broken(changes), "r")
    assert caught.value.key == "meta"
    assert any(problem.loc.startswith(location) for problem in caught.value.problems)


@pytest.mark.parametrize(
    ("changes", "defect"),
    [
        ({"compression_opts": "3"}, "/compression_opts: the text '3', taken for 3"),
        ({"compression_opts": 3, "fill_value": "7"}, "/fill_value: the text '7', taken for 7"),
    ],
)
def test_numbers_in_text_are_read_with_warning(changes: dict[str, Any], defect: str) -> None:
    """The tolerance of the reader applies to all formats."""
    store = written(zlib.compress, compression="zlib", **changes)
    with pytest.warns(TessarrWarning, match=defect):
        array = tessarr.open_array(store, "r")
    np.testing.assert_array_equal(array[...], EXPECTED)


def _broken(changes: dict[str, Any]) -> MemoryStore:
    return MemoryStore({"meta": json.dumps(META | changes).encode()})


@pytest.mark.covers("V1-META-01")
@pytest.mark.parametrize("name", [name for name in META if name != "zarr_format"])
def test_every_member_is_required(name: str) -> None:
    meta = {other: value for other, value in META.items() if other != name}
    with pytest.raises(MetadataError, match=f"'{name}' is missing"):
        tessarr.open_array(MemoryStore({"meta": json.dumps(meta).encode()}), "r")


def test_unknown_compressor() -> None:
    with pytest.raises(UnsupportedError, match="'zip'") as caught:
        tessarr.open_array(_broken({"compression": "zip"}), "r")
    assert caught.value.extension == "zip"


@pytest.mark.covers("V1-META-02")
@pytest.mark.parametrize(
    "document", [b"", b"text", b"[1]", b'{"zarr_format": 2}', b'{"zarr_format": "1"}', b'{"a": 1}']
)
def test_v1_foreign_file_named_meta_is_ignored(document: bytes) -> None:
    """These files are no arrays, and users can create a new array beside them."""
    store = MemoryStore({"meta": document})
    with pytest.raises(NotFoundError):
        tessarr.open(store, "r")
    with pytest.raises(NotFoundError):
        tessarr.migrate_1to2(store)
    tessarr.create_array(store, shape=1)
    assert store.get("meta") == document


@pytest.mark.covers("V1-META-04", "V1-MIG-03")
@pytest.mark.parametrize(
    ("dtype", "fill", "value"),
    [
        ("<f8", "NaN", "NaN"),
        ("<f4", "-Infinity", "-Infinity"),
        ("<f4", "1.5", 1.5),
        ("|S3", '"ab"', base64.b64encode(b"ab\0").decode()),
        ("<i8", str(2**63 - 1), 2**63 - 1),
        ([["a", "<i4"], ["b", "<f8"]], "[3, 0.5]", base64.b64encode(
            np.array((3, 0.5), "<i4,<f8").tobytes()).decode()),
        ("|b1", "true", True),
        ("<i4", "null", None),
    ],
)  # fmt: skip
def test_fill_values(dtype: Any, fill: str, value: Any) -> None:
    text = json.dumps(META | {"dtype": dtype, "fill_value": "@", "shape": [2], "chunks": [2]})
    store = MemoryStore({"meta": text.replace('"@"', fill).encode()})
    before = tessarr.open_array(store, "r")[...]
    migrated = tessarr.migrate_1to2(store)
    np.testing.assert_array_equal(migrated[...], before)
    assert json.loads(bytes(store.get(".zarray") or b""))["fill_value"] == value


@pytest.mark.covers("V1-ORDER-01", "V1-ORDER-02")
def test_v1_order_f_by_specification_and_by_zarr_python_1() -> None:
    by_letter = written(order="F")
    with pytest.warns(TessarrWarning, match=r"migrate_1to2\(order='C'\)"):
        np.testing.assert_array_equal(tessarr.open_array(by_letter, "r")[...], EXPECTED)
    as_it_was = written()
    document = json.dumps(META | {"order": "F"}).encode()
    as_it_was.put("meta", document)
    migrated = tessarr.migrate_1to2(as_it_was, order="C")
    np.testing.assert_array_equal(migrated[...], EXPECTED)
    assert migrated.order == "C"
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Blosc leaves no ambiguity
        blosc = {
            "compression": "blosc",
            "compression_opts": {"cname": "lz4", "clevel": 1, "shuffle": 0},
        }
        tessarr.open_array(_broken({"order": "F", **blosc}), "r")
        tessarr.open_array(_broken({"order": "F", "chunks": [1, 2]}), "r")


@pytest.mark.covers("V1-MIG-01")
def test_migrate_1to2_keeps_chunks() -> None:
    store = written(attrs=b'{"b": 1, "a": NaN}')
    chunks = {key: store.get(key) for key in store.list("") if "." in key}
    a = tessarr.migrate_1to2(store)
    assert a.zarr_format == 2
    assert not a.read_only
    assert str(a.attrs.asdict()) in {"{'b': 1, 'a': nan}", "{'a': nan, 'b': 1}"}
    np.testing.assert_array_equal(a[...], EXPECTED)
    assert {key: store.get(key) for key in store.list("") if key[0] != "."} == chunks
    assert sorted(set(store.list("")) - set(chunks)) == [".zarray", ".zattrs"]
    a[0, 0] = 99
    assert tessarr.open_array(store)[0, 0] == 99


@pytest.mark.covers("V1-MIG-04")
def test_migrate_1to2_other_format_raises() -> None:
    empty = MemoryStore()
    v2, v3 = MemoryStore(), MemoryStore()
    tessarr.create_array(v2, shape=1, zarr_format=2)
    tessarr.create_group(v3)
    for store in (empty, v2, v3):
        before = {key: store.get(key) for key in store.list("")}
        with pytest.raises(NotFoundError, match="format 1"):
            tessarr.migrate_1to2(store)
        assert {key: store.get(key) for key in store.list("")} == before
    both = written()
    for key in v2.list(""):
        both.put(key, v2.get(key) or b"")
    before = {key: both.get(key) for key in both.list("")}
    with pytest.raises(ExistsError, match=r"'\.zarray'"):
        tessarr.migrate_1to2(both)
    assert {key: both.get(key) for key in both.list("")} == before


@pytest.mark.covers("V1-MIG-01")
def test_interrupted_migration_loses_nothing_and_is_finished() -> None:
    source = written(attrs=b'{"a": 1}')
    for steps in range(4):
        items = Stopping()
        items.changes_left = 1000
        for key in source.list(""):
            items[key] = source.get(key) or b""
        items.changes_left = steps
        with pytest.raises(OSError, match="stopped"):
            tessarr.migrate_1to2(items)
        result = tessarr.open_array(items, "r")
        np.testing.assert_array_equal(result[...], EXPECTED)
        assert result.attrs.asdict() == {"a": 1}
        items.changes_left = 1000
        np.testing.assert_array_equal(tessarr.migrate_1to2(items)[...], EXPECTED)
        assert sorted(key for key in items if not key[0].isdigit()) == [".zarray", ".zattrs"]


def test_new_node_over_v1_array_deletes_chunks() -> None:
    store = written()
    for create in (tessarr.create_array, tessarr.open_array):
        with pytest.raises(ExistsError):
            create(store, **({"mode": "w-"} if create is tessarr.open_array else {}), shape=(5, 3))
    created = tessarr.create_array(
        store, shape=(5, 3), chunks=(2, 2), zarr_format=2, overwrite=True
    )
    assert store.get("meta") is None
    assert not np.any(created[...])


def test_newer_formats_take_precedence_over_v1() -> None:
    """A broken document is an error, and the search stops."""
    store = written()
    store.put(".zgroup", b'{"zarr_format": 2}')
    assert tessarr.open(store, "r").zarr_format == 2
    store.put(".zgroup", b"{")
    with pytest.raises(MetadataError):
        tessarr.open(store, "r")
    broken = MemoryStore({"meta": b'{"zarr_format": 1,'})
    with pytest.raises(MetadataError, match="not JSON"):
        tessarr.open(broken, "r")
