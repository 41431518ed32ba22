"""Conversion of arrays and hierarchies to another format, with the same chunks."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tessarr
from stores.failing import Stopping
from tessarr import codecs
from tessarr.codecs import Blosc, Crc32c, GZip, Transpose, Zlib, Zstd
from tessarr.errors import ArgumentError, ExistsError, NotFoundError, UnsupportedError
from tessarr.extensions import StorageTransformer, register_transformer
from tessarr.stores import LocalStore, MemoryStore

DATA = np.arange(35).reshape(5, 7)

PLAIN: dict[str, dict[str, Any]] = {
    "default": {},
    "none": {"compressors": None},
    "order F": {"order": "F", "dtype": "f8"},
    "big-endian": {"dtype": ">i4"},
    "big-endian, order F": {"dtype": ">c8", "order": "F"},
    "bool": {"dtype": "?", "fill_value": True},
    "one byte": {"dtype": "u1", "compressors": Zstd(3)},
    "NaN": {"dtype": "f4", "fill_value": np.nan, "compressors": GZip(1)},
    "negative zero": {"dtype": ">f8", "fill_value": -0.0},
    "blosc": {"compressors": Blosc("zstd", 3, 2), "dtype": "i2"},
    "checksum": {"compressors": [Zstd(1), Crc32c()]},
    "text": {"dtype": "U4"},
    "bytes": {"dtype": "S5"},
    "dates": {"dtype": "M8[25s]"},
    "durations": {"dtype": ">m8[ms]"},
    "raw": {"dtype": "V3"},
    "records": {"dtype": [("a", "<i4"), ("b", "<f8"), ("c", "S3")]},
    "big-endian records": {"dtype": [("a", ">i4"), ("b", ">f8")]},
}


def values(dtype: np.dtype[Any]) -> Any:
    if dtype.names:
        out = np.zeros(DATA.shape, dtype)
        for name in dtype.names:
            out[name] = values(dtype[name])
        return out
    if dtype.kind in "Mm":
        return DATA.astype("i8").astype(dtype.newbyteorder("="))
    if dtype.kind == "V":
        return np.frombuffer(np.arange(35 * 3, dtype="u1").tobytes(), dtype).reshape(5, 7)
    return DATA.astype(dtype.newbyteorder("="))


def snapshot(store: Any) -> dict[str, bytes]:
    return {key: bytes(store.get(key)) for key in store.list("")}


def chunks_of(store: Any) -> dict[str, bytes]:
    documents = {"zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"}
    result = snapshot(store)
    return {key: result[key] for key in result if key.rpartition("/")[2] not in documents}


def filled(store: Any, zarr_format: Any, **settings: Any) -> tessarr.Array:
    if zarr_format == 3:
        settings.setdefault("chunk_key_encoding", "v2")
    a = tessarr.create_array(
        store, shape=(5, 7), chunks=(2, 3), zarr_format=zarr_format,
        **{"dtype": "i4", **settings}, attributes={"z": 1, "a": [None, {"x": 1.0}]},
    )  # fmt: skip
    a[:4] = values(a.dtype)[:4]  # the last row of chunks keeps the fill value
    return a


@pytest.mark.covers("ALL-10")
@pytest.mark.parametrize("separator", [".", "/"])
@pytest.mark.parametrize("name", PLAIN)
def test_convert_in_place_round_trip_restores_documents(name: str, separator: str) -> None:
    """Chunks keep their bytes and values; format 2 returns to its original documents."""
    store = MemoryStore()
    a = filled(store, 2, **PLAIN[name], dimension_separator=separator)
    before, chunks, documents = a[...], chunks_of(store), snapshot(store)
    result = tessarr.convert(store, to=3)
    assert result.done
    assert not any(node.notes or node.problems for node in result.nodes), result
    new = tessarr.open_array(store)
    assert new.zarr_format == 3
    assert new.dtype == a.dtype.newbyteorder("=")
    np.testing.assert_array_equal(new[...], before)
    assert new.attrs.asdict() == {"z": 1, "a": [None, {"x": 1.0}]}
    assert chunks_of(store) == chunks
    assert [key for key in store.list("") if key not in chunks] == ["zarr.json"]
    new[4] = new[3]  # the new metadata and the old metadata encode the same bytes
    back = tessarr.convert(store, to=2)
    assert back.done
    again = tessarr.open_array(store)
    np.testing.assert_array_equal(again[...], new[...])
    actual = snapshot(store)
    assert json.loads(actual[".zarray"]) == json.loads(documents[".zarray"])
    assert json.loads(actual[".zattrs"]) == json.loads(documents[".zattrs"])
    assert "zarr.json" not in actual


def hierarchy(zarr_format: Any, **settings: Any) -> MemoryStore:
    store = MemoryStore()
    root = tessarr.create_group(store, zarr_format=zarr_format, attributes={"t": 1})
    if zarr_format == 3:
        settings.setdefault("chunk_key_encoding", "v2")
    for path in ("a", "b/c", "b/d/e"):
        array = root.create_array(path, shape=(5, 7), chunks=(2, 3), dtype="i4", **settings)
        array[...] = DATA
    root["b"].attrs["k"] = "v"
    return store


def same(store: Any, zarr_format: int) -> None:
    root = tessarr.open_group(store, "r", use_consolidated=False)
    nodes = dict(root.members(None))
    assert list(nodes) == ["a", "b", "b/c", "b/d", "b/d/e"]
    assert {node.zarr_format for node in nodes.values()} == {root.zarr_format} == {zarr_format}
    assert root.attrs.asdict() == {"t": 1}
    assert nodes["b"].attrs.asdict() == {"k": "v"}
    for path in ("a", "b/c", "b/d/e"):
        np.testing.assert_array_equal(nodes[path][...], DATA)


@pytest.mark.parametrize("consolidated", [False, True])
@pytest.mark.parametrize("to", [2, 3])
def test_hierarchies(to: Any, consolidated: bool) -> None:
    store = hierarchy(5 - to)
    if consolidated:
        tessarr.consolidate_metadata(store)
    result = tessarr.convert(store, to=to)
    assert [node.path for node in result.nodes] == ["", "a", "b", "b/c", "b/d", "b/d/e"]
    same(store, to)
    names = {key.rpartition("/")[2] for key in store.list("")}
    assert ("zarr.json" in names) == (to == 3)
    assert bool(names & {".zarray", ".zgroup", ".zattrs"}) == (to == 2)
    if consolidated:
        assert tessarr.open_group(store, "r").consolidated
        assert tessarr.consolidated_differences(store) == {}
    else:
        assert not tessarr.open_group(store, "r").consolidated
    unchanged = snapshot(store)
    assert tessarr.convert(store, to=to).possible
    assert snapshot(store) == unchanged


@pytest.mark.parametrize("to", [2, 3])
def test_dry_run_changes_nothing(to: Any) -> None:
    store = hierarchy(5 - to)
    before = snapshot(store)
    result = tessarr.convert(store, to=to, dry_run=True)
    assert (result.possible, result.done) == (True, False)
    assert "/b/d/e: array, format" in str(result)
    assert result.asdict()["nodes"][0]["before"] == 5 - to
    assert snapshot(store) == before


def test_convert_with_keep_leaves_old_documents() -> None:
    store = hierarchy(2)
    before = snapshot(store)
    tessarr.convert(store, to=3, keep=True)
    assert before.items() <= snapshot(store).items()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same(store, 3)
        assert tessarr.open_group(store, zarr_format=2)["a"].zarr_format == 2
    tessarr.convert(store, to=3)  # finishes it
    same(store, 3)


@pytest.mark.parametrize(("to", "move"), [(3, False), (2, False), (2, True)])
def test_interrupted_conversion_is_completed(to: Any, move: bool) -> None:
    source = snapshot(hierarchy(5 - to, **({"chunk_key_encoding": "default"} if move else {})))
    for steps in range(1000):
        items = Stopping(source)
        items.changes_left = steps
        try:
            tessarr.convert(items, to=to, move_chunks=move)
        except OSError:
            items.changes_left = 10**6
        else:
            break
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            root = tessarr.open_group(items, "r")
            for path in ("a", "b/c", "b/d/e"):
                np.testing.assert_array_equal(root[path][...], DATA)
            for path, node in root.members(None):
                assert node.attrs.asdict() == ({"k": "v"} if path == "b" else {})
        tessarr.convert(items, to=to, move_chunks=move)
        same(items, to)
        if not move:
            assert set(items) - set(source) == {
                key for key in items if key.rpartition("/")[2] in NEW[to]
            }
    assert steps > 12
    same(items, to)
    if move:
        assert not any("c/" in key.removeprefix("b/c/") for key in items)


NEW = {3: {"zarr.json"}, 2: {".zarray", ".zgroup", ".zattrs"}}


# Features without an equivalent


@register_transformer
@dataclass(frozen=True)
class Below(StorageTransformer):
    """A transformer that stores chunks one level deeper."""

    name = "tests.converting.below"

    @classmethod
    def from_json(cls, configuration: Any) -> Below:
        return cls()

    def to_json(self) -> Any:
        return {"name": self.name}

    def key(self, key: str) -> str:
        return f"below/{key}"


LACKING_IN_2: dict[str, tuple[dict[str, Any], str]] = {
    "shards": ({"shards": (4, 6)}, "/codecs/0: format 2 has no shards"),
    "three axes": (
        {"shape": (2, 3, 4), "chunks": (1, 3, 2), "filters": [Transpose((1, 2, 0))]},
        "/codecs/0: format 2 has no order of axes",
    ),
    "rectilinear": ({"chunks": [[2, 3], [4, 3]]}, "/chunk_grid: format 2 has no chunks of diff"),
    "storage transformers": (
        {"storage_transformers": [Below()]},
        "/storage_transformers/0: format 2 has no storage transformer 'tests.converting.below'",
    ),
    "NaN with payload": ({"dtype": "f4", "fill_value": "0x7fc00001"}, "/fill_value: format 2 has"),
}


@pytest.mark.parametrize("name", LACKING_IN_2)
def test_convert_without_equivalent_lists_problems_and_changes_nothing(name: str) -> None:
    settings, reason = LACKING_IN_2[name]
    store = MemoryStore()
    root = tessarr.create_group(store)
    root.create_array("fine", shape=3, chunk_key_encoding="v2")
    defaults = {"shape": (5, 7), "chunks": (2, 3), "dtype": "i4", "chunk_key_encoding": "v2"}
    root.create_array("x/y", **{**defaults, **settings})
    before = snapshot(store)
    with pytest.raises(UnsupportedError, match="nothing has changed") as caught:
        tessarr.convert(store, to=2)
    assert caught.value.kind == "no_equivalent"
    assert "/x/y: " + reason in str(caught.value)
    assert snapshot(store) == before
    result = tessarr.convert(store, to=2, dry_run=True)
    assert not result.possible
    assert {node.path for node in result.nodes if node.problems} == {"x/y"}
    assert reason in str(result)
    assert snapshot(store) == before


def test_lists_of_equal_lengths_are_regular_grid() -> None:
    store = MemoryStore()
    settings: dict[str, Any] = {"shape": (6, 8), "dtype": "i4", "chunk_key_encoding": "v2"}
    tessarr.create_array(store, chunks=[[3, 3], [4, 4]], **settings)[:] = 7
    tessarr.convert(store, to=2)
    again = tessarr.open_array(store)
    assert (again.zarr_format, again.chunks, again[5, 7]) == (2, (3, 4), 7)


def test_convert_of_default_keys_to_format_2_needs_move_chunks() -> None:
    store = hierarchy(3, chunk_key_encoding="default")
    before = snapshot(store)
    with pytest.raises(UnsupportedError, match="move_chunks=True"):
        tessarr.convert(store, to=2)
    assert snapshot(store) == before
    tessarr.convert(store, to=2, move_chunks=True)
    same(store, 2)
    assert sorted(chunks_of(store).values()) == sorted(
        before[key] for key in before if not key.endswith("zarr.json")
    )


@pytest.mark.parametrize("name", ["...", "zarr.json"])
def test_convert_of_invalid_names_to_format_3_raises(name: str) -> None:
    store = MemoryStore()
    tessarr.create_group(store, path=f"a/{name}", zarr_format=2)
    before = snapshot(store)
    with pytest.raises(UnsupportedError, match="is not allowed"):
        tessarr.convert(store, to=3)
    assert snapshot(store) == before


def test_convert_of_mixed_order_records_to_format_3_raises() -> None:
    for dtype in ([("a", "<i4"), ("b", ">i4")], [("a", "<i4", (2,))]):
        store = MemoryStore()
        tessarr.create_array(store, shape=2, dtype=dtype, zarr_format=2)
        with pytest.raises(UnsupportedError, match="/dtype"):
            tessarr.convert(store, to=3)


def test_convert_notes_do_not_prevent_conversion() -> None:
    store = MemoryStore()
    tessarr.create_array(store, shape=2, fill_value=None, zarr_format=2)
    document = json.loads(bytes(store.get(".zarray") or b""))
    store.put(".zarray", json.dumps({**document, "_nczarr": {}}).encode())
    result = tessarr.convert(store, to=3)
    notes = "\n".join(result.nodes[0].notes)
    assert "/fill_value: null" in notes
    assert "'_nczarr'" in notes


def test_names_of_axes() -> None:
    """The names are an attribute in format 2, as in xarray."""
    store = MemoryStore()
    a = tessarr.create_array(store, shape=(2, 3), zarr_format=2, attributes={"u": "m"})
    a.attrs["_ARRAY_DIMENSIONS"] = ["y", "x"]
    tessarr.convert(store, to=3)
    new = tessarr.open_array(store)
    assert new.dimension_names == ("y", "x")
    assert new.attrs.asdict() == {"u": "m"}
    tessarr.convert(store, to=2)
    old = tessarr.open_array(store)
    assert old.attrs.asdict() == {"u": "m", "_ARRAY_DIMENSIONS": ["y", "x"]}
    other = MemoryStore()
    tessarr.create_array(other, shape=(2, 3), dimension_names=["y", None], chunk_key_encoding="v2")
    assert "left out" in str(tessarr.convert(other, to=2))
    clash = MemoryStore()
    tessarr.create_array(
        clash, shape=2, dimension_names=["y"], attributes={"_ARRAY_DIMENSIONS": ["x"]},
        chunk_key_encoding="v2",
    )  # fmt: skip
    with pytest.raises(UnsupportedError, match="/dimension_names"):
        tessarr.convert(clash, to=2)


def test_part_of_hierarchy_is_converted_with_whole() -> None:
    store = hierarchy(2)
    with pytest.raises(UnsupportedError, match="from its root"):
        tessarr.convert(store, to=3, path="b")
    target = MemoryStore()
    tessarr.convert(store, target, to=3, path="b")
    assert [path for path, _ in tessarr.open_group(target).members(None)] == ["c", "d", "d/e"]


def test_convert_with_differing_documents_raises() -> None:
    store = hierarchy(2)
    store.put("a/zarr.json", b'{"zarr_format": 3, "node_type": "group"}')
    before = snapshot(store)
    with pytest.raises(UnsupportedError, match="delete one of the two"):
        tessarr.convert(store, to=3)
    assert snapshot(store) == before


def test_convert_unreadable_node_raises() -> None:
    store = hierarchy(2)
    store.put("b/c/.zarray", b"{")
    with pytest.raises(UnsupportedError, match=r"/b/c: .*not JSON"):
        tessarr.convert(store, to=3)


def test_format_1() -> None:
    meta = {
        "zarr_format": 1, "shape": [3], "chunks": [2], "dtype": "<i2", "compression": "zlib",
        "compression_opts": 1, "fill_value": 9, "order": "C",
    }  # fmt: skip
    for to in (2, 3):
        store = MemoryStore({"meta": json.dumps(meta).encode(), "attrs": b'{"a": 1}'})
        store.put("0", Zlib(1).encode(np.array([1, 2], "<i2")))
        if to == 3:
            assert "numcodecs.zlib" in str(tessarr.convert(store, to=3)) + str(
                store.get("zarr.json")
            )
        else:
            tessarr.convert(store, to=to)  # type: ignore[arg-type]
        a = tessarr.open_array(store)
        assert (a.zarr_format, a[...].tolist(), a.attrs["a"]) == (to, [1, 2, 9], 1)
        assert store.get("meta") is None
        assert store.get("attrs") is None


def test_wrong_arguments() -> None:
    store = hierarchy(2)
    for settings in ({"to": 1}, {"to": 3, "recode": True}, {"to": 3, "target": store}):
        with pytest.raises(ArgumentError):
            tessarr.convert(store, **settings)  # type: ignore[arg-type]
    with pytest.raises(NotFoundError):
        tessarr.convert(MemoryStore(), to=3)


# To a target


@pytest.mark.parametrize("consolidated", [False, True])
@pytest.mark.parametrize("before", [2, 3])
@pytest.mark.parametrize("to", [2, 3])
def test_convert_to_target_store(tmp_path: Any, before: int, to: Any, consolidated: bool) -> None:
    store = hierarchy(before, **({"chunk_key_encoding": "default"} if before == 3 else {}))
    if consolidated:
        tessarr.consolidate_metadata(store)
    untouched = snapshot(store)
    target = tmp_path / "target"
    result = tessarr.convert(store, target, to=to)
    assert result.done
    assert snapshot(store) == untouched
    same(target, to)
    assert tessarr.open_group(target, "r").consolidated == consolidated
    if consolidated:
        assert tessarr.consolidated_differences(target) == {}
    assert sorted(chunks_of(LocalStore(target)).values()) == sorted(chunks_of(store).values())
    with pytest.raises(ExistsError, match="overwrite=True"):
        tessarr.convert(store, target, to=to)
    tessarr.convert(store, target, to=to, overwrite=True)
    same(target, to)


def test_convert_with_recode_encodes_arrays_again() -> None:
    store = MemoryStore()
    root = tessarr.create_group(store)
    x = root.create_array(
        "x", shape=(9, 7), chunks=(2, 3), shards=(4, 6), dtype="f4", fill_value=np.nan,
        dimension_names=["y", "x"], attributes={"u": 1},
    )  # fmt: skip
    x[:5] = np.arange(35).reshape(5, 7)
    root.create_array("plain", data=[1, 2, 3])
    target = MemoryStore()
    with pytest.raises(UnsupportedError):
        tessarr.convert(store, target, to=2)
    assert target.list("") == []
    result = tessarr.convert(store, target, to=2, recode=True)
    assert "re-encoded" in str(result)
    new = tessarr.open_group(target)["x"]
    assert (new.zarr_format, new.chunks) == (2, (2, 3))
    np.testing.assert_array_equal(new[...], x[...])
    assert new.attrs.asdict() == {"u": 1, "_ARRAY_DIMENSIONS": ["y", "x"]}
    assert tessarr.open_group(target)["plain"][...].tolist() == [1, 2, 3]


def test_convert_with_recode_encodes_objects_with_their_type() -> None:
    store, target = MemoryStore(), MemoryStore()
    root = tessarr.create_group(store, zarr_format=2)
    letters = codecs.Categorize(labels=["a", "b"], dtype=object)
    text = root.create_array("text", shape=3, dtype=object, object_codec=letters)
    text[:] = ["a", "b", "a"]
    result = tessarr.convert(store, target, to=3, recode=True)
    assert result.possible
    assert tessarr.open_group(target)["text"][:].tolist() == ["a", "b", "a"]

    root.create_array("json", shape=3, dtype=object, object_codec=codecs.JSON())
    with pytest.raises(UnsupportedError, match="/json: /dtype: format 3 has no type"):
        tessarr.convert(store, MemoryStore(), to=3, recode=True)


def test_failed_conversion_removes_target() -> None:
    class Full(dict[str, bytes]):
        def __setitem__(self, key: str, value: bytes) -> None:
            if key.startswith("b/d"):
                raise OSError("no space")
            super().__setitem__(key, value)

    target = Full()
    with pytest.raises(OSError, match="no space"):
        tessarr.convert(hierarchy(2), target, to=3)
    assert target == {}


@pytest.mark.parametrize("dtype", ["<i4", ">i4", ">f4", "<f8"])
def test_filters_have_byte_order_of_elements(dtype: str) -> None:
    """In format 2 the filters contain it, in format 3 the codec bytes defines it."""
    store = MemoryStore()
    kind = dtype[1:]
    filters: list[dict[str, Any]] = [{"id": "delta", "dtype": dtype, "astype": dtype}]
    if kind == "f8":
        filters.insert(0, {"id": "fixedscaleoffset", "offset": 2, "scale": 8, "dtype": "<f8"})
    a = tessarr.create_array(
        store, shape=(9,), chunks=(4,), dtype=dtype, filters=filters, zarr_format=2
    )
    a[:] = np.arange(9) * 3
    chunks = chunks_of(store)
    tessarr.convert(store, to=3)
    new = tessarr.open_array(store)
    np.testing.assert_array_equal(new[...], np.arange(9) * 3)
    delta = json.loads(bytes(store.get("zarr.json") or b""))["codecs"][-3]["configuration"]
    assert delta["dtype"] == f"<{kind}"
    new[:] = np.arange(9) * 3
    assert chunks_of(store) == chunks
    tessarr.convert(store, to=2)
    np.testing.assert_array_equal(tessarr.open_array(store)[...], np.arange(9) * 3)
    assert json.loads(bytes(store.get(".zarray") or b""))["filters"][-1]["dtype"] == dtype


def test_convert_of_filter_of_other_type_to_format_3_raises() -> None:
    for dtype, seen in ((">i4", "<i4"), (">i4", ">i2")):
        store = MemoryStore()
        filters = [{"id": "delta", "dtype": seen}]
        tessarr.create_array(store, shape=4, dtype=dtype, filters=filters, zarr_format=2)
        with pytest.raises(UnsupportedError, match="/filters/0: 'delta' takes elements"):
            tessarr.convert(store, to=3)


@pytest.mark.parametrize("dtype", [">i2", ">f4"])
def test_filters_with_byte_order_in_format_3(dtype: str) -> None:
    """Another migration tool copies them unchanged: values are equal, bytes may differ."""
    store = MemoryStore()
    filters = [{"id": "delta", "dtype": dtype, "astype": dtype}]
    a = tessarr.create_array(
        store, shape=(9,), chunks=(4,), dtype=dtype, filters=filters, zarr_format=2
    )
    a[:] = np.arange(9) * 3
    chunks = chunks_of(store)
    tessarr.convert(store, to=3)
    document = bytes(store.get("zarr.json") or b"").replace(
        f'"<{dtype[1:]}"'.encode(), f'"{dtype}"'.encode()
    )
    store.put("zarr.json", document)
    new = tessarr.open_array(store)
    np.testing.assert_array_equal(new[...], np.arange(9) * 3)
    new[:] = np.arange(9) * 3
    assert chunks_of(store) == chunks


@pytest.mark.parametrize("shards", [None, 40_000])
def test_convert_progress_reaches_total(shards: int | None) -> None:
    """The progress counts bytes of all arrays: copied chunks and rewritten values."""
    store, target = MemoryStore(), MemoryStore()
    group = tessarr.create_group(store)
    values = np.arange(400_000, dtype="i4")
    a = group.create_array("a", shape=values.shape, dtype="i4", chunks=10_000, shards=shards)
    a[:] = values
    group.create_array("b", data=np.arange(10, dtype="i4"), chunks=1)
    calls: list[tuple[int, int]] = []
    with tessarr.options(copy_bytes=400_000):
        tessarr.convert(store, target, to=2, recode=True, progress=lambda *far: calls.append(far))
    assert {total for _, total in calls} == {1_600_040}
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    assert calls[-1][0] == 1_600_040
    assert len([done for done, _ in calls if done < 1_600_000]) > 2
    np.testing.assert_array_equal(tessarr.open_array(target, path="a")[:], values)
