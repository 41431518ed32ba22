"""Creation of similar arrays: the memo's facts hold, and no others."""

from __future__ import annotations

import gc
import json
import os
import pickle
import tracemalloc
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ts
from calls import record_calls
from tessarr.errors import ArgumentError, TooLargeError
from tessarr.flow import open as open_flow
from tessarr.metadata.node import ArrayMeta

FORMATS = pytest.mark.parametrize("name", ["zarr", "zarr3"])
NEW: dict[str, Any] = {"create": True, "delete_existing": True}


def _stored(array: ts.TensorStore) -> dict[str, Any]:
    name = "zarr.json" if array.spec().to_json()["driver"] == "zarr3" else ".zarray"
    result: dict[str, Any] = json.loads(array.kvstore.read(name).result().value)
    return result


def _calls(act: Callable[[], object]) -> Counter[str]:
    act()  # fills the memo
    return min((record_calls(act).names for _ in range(2)), key=Counter.total)


@FORMATS
def test_similar_arrays_are_garbage_collected(name: str) -> None:
    """Neither the memo of specs nor the values derived from metadata keep arrays alive."""
    lengths, context = count(100), ts.Context()

    def create() -> None:
        spec = {"driver": name, "kvstore": "memory://a/"}
        layout = ts.ChunkLayout(chunk_shape=[9])
        parts: Any = {"dtype": "int8", "shape": [next(lengths)], "chunk_layout": layout}
        assert ts.open(spec, context=context, **NEW, **parts).result().rank == 1

    def metadata() -> int:
        return sum(type(result) is ArrayMeta for result in gc.get_objects())

    create()
    gc.collect()
    gc.disable()
    try:
        before = metadata()
        for _ in range(20):
            create()
        gc.collect()
        assert metadata() < before + 5
    finally:
        gc.enable()


@FORMATS
def test_properties_outlive_metadata(name: str) -> None:
    """Properties belong to the metadata of their array, even after the metadata are gone."""
    stores = []
    for shape in ([5, 6], [7, 8]):
        spec = {"driver": name, "kvstore": "memory://", **NEW}
        layout = ts.ChunkLayout(chunk_shape=[4, 4])
        stores.append(ts.open(spec, dtype="int8", shape=shape, chunk_layout=layout).result())
    properties: Any = stores[1]._driver.properties
    meta = stores[1]._driver.array._metadata
    assert properties.meta is meta
    assert properties.metadata_json["shape"] == [7, 8]
    retained = stores[1].spec()
    assert retained.shape == (7, 8)
    again = ts.open(retained, context=ts.Context(), create=True, delete_existing=True).result()
    assert again._driver.array.metadata == meta  # type: ignore[attr-defined]


@FORMATS
def test_similar_arrays_equal_separate_ones(name: str) -> None:
    """Each is stored like the first of its kind, and reads back equally."""
    layout = ts.ChunkLayout(chunk_shape=[4, 5])
    kinds: list[dict[str, Any]] = [{"dtype": "int16"}, {"dtype": "float32", "chunk_layout": layout}]
    documents = {}
    for turn in range(2):
        cases = list(range(12))
        for k in cases if turn else reversed(cases):
            parts = {**kinds[k % 2], "shape": [7 + k % 3, 6], "fill_value": k // 6}
            built = ts.open(
                {"driver": name, "kvstore": f"memory://{turn}/"}, **NEW, **parts
            ).result()
            result = _stored(built), built.schema, built[1:3, 2].read().result().tolist()
            assert documents.setdefault(k, result) == result
            assert result[0]["shape"] == parts["shape"]
            assert built.fill_value == parts["fill_value"]


@FORMATS
def test_mismatching_shapes_of_metadata_and_schema_are_refused(name: str) -> None:
    """The error also occurs after the creation of another array with equal values."""
    for shape, explicit in ([4, 5], [4, 5]), ([4, 5], [4, 6]), ([6, 5], [6, 5]), ([6, 5], [5]):
        spec = {"driver": name, "kvstore": "memory://a/", **NEW, "metadata": {"shape": explicit}}
        if shape == explicit:
            assert ts.open(spec, dtype="int8", shape=shape).result().shape == (*shape,)
        else:
            with pytest.raises(ValueError, match=r"match|rank"):
                ts.open(spec, dtype="int8", shape=shape).result()


@pytest.mark.parametrize("shape", [[2, -1], [2, "3"], [2**64], "ab", [1.5], [[2]], {}, True])
@FORMATS
def test_invalid_metadata_shape_is_refused(name: str, shape: Any) -> None:
    spec = {"driver": name, "kvstore": "memory://a/", **NEW, "dtype": "int8"}
    ts.open({**spec, "metadata": {"shape": [2]}}).result()
    with pytest.raises(ValueError):
        ts.open({**spec, "metadata": {"shape": shape}}).result()


def test_codec_refuses_fill_value_at_each_create() -> None:
    cast = ts.CodecSpec(
        {
            "driver": "zarr3",
            "codecs": [{"name": "cast_value", "configuration": {"data_type": "int8"}}],
        }
    )
    spec = {"driver": "zarr3", "kvstore": "memory://a/", **NEW}
    for fill in (1, 1000, 2):
        parts: Any = {"dtype": "int16", "shape": [4], "codec": cast, "fill_value": fill}
        if fill < 100:
            assert ts.open(spec, **parts).result().fill_value == fill
        else:
            with pytest.raises(ValueError, match="fill value"):
                ts.open(spec, **parts).result()


@pytest.mark.parametrize("location", ["memory://a/", {"driver": "memory", "path": "a/"}])
@FORMATS
def test_duplicate_location_is_refused(name: str, location: Any) -> None:
    ts.Spec({"driver": name, "kvstore": location}).update(create=True)
    with pytest.raises(ValueError, match="twice"):
        ts.open({"driver": name, "kvstore": location}, kvstore="memory://b/")
    with pytest.raises(ValueError, match="kvstore"):
        ts.open({"driver": "cast", "base": {"driver": name}, "kvstore": location, "dtype": "int8"})


def test_later_change_of_location_does_not_change_spec() -> None:
    location = ts.KvStore.Spec("memory://a/")
    spec = ts.Spec({"driver": "zarr3", "kvstore": location})
    location.path = "b/"
    assert spec.kvstore.path == "a/"
    built = ts.open(spec, create=True, dtype="int8", shape=[2]).result()
    assert built.kvstore.path == "a/"


@FORMATS
def test_delete_existing_keeps_folder(name: str, tmp_path: Path) -> None:
    """The folder's content is gone, and the folder itself is the same."""
    spec = {"driver": name, "kvstore": f"file://{tmp_path}/a/"}
    for length in (3, 4):
        built = ts.open(spec, **NEW, dtype="int8", shape=[length, 2]).result()
        built[...] = 1
        (tmp_path / "a" / "below").mkdir()
        (tmp_path / "a" / "below" / "other").write_bytes(b"")
        folder = os.open(tmp_path / "a", os.O_RDONLY)
    try:
        ts.open(spec, **NEW, dtype="int8", shape=[5, 2]).result()
        assert os.listdir(folder) == ["zarr.json" if name == "zarr3" else ".zarray"]
    finally:
        os.close(folder)


def test_delete_existing_replaces_link_not_its_target(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "mine").write_bytes(b"1")
    (tmp_path / "a").symlink_to(tmp_path / "far")
    spec = {"driver": "zarr3", "kvstore": f"file://{tmp_path}/a/"}
    ts.open(spec, **NEW, dtype="int8", shape=[2]).result()
    assert (tmp_path / "far" / "mine").read_bytes() == b"1"
    assert not (tmp_path / "far" / "zarr.json").exists()


def _views(schema: ts.Schema) -> list[ts.Schema]:
    moved = ts.IndexTransform(schema.domain)[:, [0, 2]]
    return [
        schema,
        schema[1:3],
        schema[:, [0, 2]],
        schema[2],
        ts.Schema(schema),
        schema._propagate(moved),
    ]


def test_schema_fill_values_are_read_only() -> None:
    """Fill values of views and users' arrays are also read-only, because a memo holds schemas."""
    arguments = np.arange(3, dtype="int32")
    schema = ts.Schema(dtype="int32", shape=[4, 3], fill_value=arguments)
    arguments[...] = 9
    for view in _views(schema):
        fill = view.fill_value
        before = fill.tolist()
        with pytest.raises(ValueError, match="read-only"):
            fill[...] = 7
        with pytest.raises(ValueError, match="WRITEABLE"):
            fill.flags.writeable = True
        assert view.fill_value.tolist() == before
    assert schema.fill_value.tolist() == [0, 1, 2]


def test_layouts_of_views_are_independent() -> None:
    """A memo holds a view's layout, and a change by one user does not affect the other."""
    store = ts.open("memory://a/|zarr3:", create=True, dtype="int8", shape=[8, 6]).result()
    view, other = store[::2, 1:], store[::4]
    item, same = view.chunk_layout, view.chunk_layout
    assert item == same
    item.update(read_chunk_elements=5)
    assert (item.read_chunk.elements, same.read_chunk.elements) == (5, None)
    assert view.chunk_layout == same
    assert other.chunk_layout != same


@FORMATS
def test_rank_of_metadata_shape_is_checked(name: str) -> None:
    """The check also runs if the shape agrees with all other members."""
    spec = ts.Spec({"driver": name, "kvstore": "memory://a/", "metadata": {"shape": [4, 6]}})
    with pytest.raises(ValueError, match="rank"):  # more may be inside of elements of format 2
        ts.Spec(spec).update(rank=1)
    spec.update(rank=2)
    assert spec.shape == (4, 6)


@FORMATS
def test_keyword_error_is_single_error(name: str) -> None:
    with pytest.raises(ArgumentError, match="u1") as caught:
        ts.open({"driver": name, "kvstore": "memory://"}, create=True, dtype="u1", shape=[4])
    assert caught.value.__context__ is None


def test_documents_with_long_attributes_are_not_cached() -> None:
    size, number = 1 << 18, 16
    spec = {"driver": "zarr3", "kvstore": "memory://a/", **NEW, "dtype": "int8"}
    spec["metadata"] = {"shape": [2], "attributes": {"a": "x" * size}}
    ts.open(spec).result()
    tracemalloc.start()
    try:
        for _ in range(number):
            ts.open(spec).result()
        assert tracemalloc.get_traced_memory()[0] < number / 2 * size
    finally:
        tracemalloc.stop()


def test_metadata_with_long_attributes_are_not_cached() -> None:
    """The values derived from metadata live as long as the metadata."""
    size, number = 1 << 18, 16
    spec: dict[str, Any] = {"driver": "zarr3", "kvstore": "memory://a/", **NEW, "dtype": "int8"}
    store = ts.open(spec, shape=[3]).result()
    document = json.loads(store.kvstore["zarr.json"])
    tracemalloc.start()
    try:
        for n in range(number):
            document["attributes"] = {"a": f"{n:04}" * (size // 4)}
            store.kvstore["zarr.json"] = json.dumps(document).encode()
            opened = ts.open(store.spec(minimal_spec=True, retain_context=True)).result()
            assert opened.schema.dtype == ts.int8
            del opened, document["attributes"]
        open_flow._parsed_nodes.clear()  # the memo of documents has its own limit
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < number / 2 * size
    finally:
        tracemalloc.stop()


def test_pickled_metadata_have_no_derived_values() -> None:
    spec: dict[str, Any] = {"driver": "zarr3", "kvstore": "memory://", **NEW, "dtype": "int8"}
    store: Any = ts.open(spec, shape=[3]).result()
    meta = store._driver.array._metadata
    assert meta.derived
    again = pickle.loads(pickle.dumps(meta))
    assert again == meta
    assert not again.derived


def test_nan_with_any_bits_creates_array() -> None:
    """Format 2 has a name for only one NaN, which Tessarr stores for all."""
    odd = np.array([0x7FC00001], "u4").view("f4")[0]
    for name, bits in (("zarr", 0x7FC00000), ("zarr3", 0x7FC00001)):
        spec = {"driver": name, "kvstore": "memory://", **NEW, "dtype": "float32"}
        for fill in (odd, np.float32(1), odd):  # similar, too
            store = ts.open(spec, fill_value=fill, shape=[3]).result()
        assert store.fill_value is not None
        assert store.fill_value.view("u4") == bits


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("int4", np.uint64(2**64 - 1)), ("int64", float(2**63)), ("float32", 2**24 + 1), ("bool", 2)],
)
def test_fill_values_that_do_not_fit_are_refused(dtype: str, value: Any) -> None:
    with pytest.raises((ArgumentError, TooLargeError), match="does not fit"):
        ts.Schema(dtype=dtype, fill_value=value)


@pytest.mark.parametrize("said", ["metadata", "codec"])
def test_filters_may_omit_defaults(said: str) -> None:
    filters = [{"id": "delta", "dtype": "<i4"}]
    spec = {"driver": "zarr", "kvstore": "memory://"}
    explicit: Any = {"metadata": {"filters": filters}}
    if said == "codec":
        explicit = {"schema": {"codec": {"driver": "zarr", "filters": filters}}}
    store = ts.open({**spec, **explicit}, create=True, dtype="int32", shape=[4]).result()
    store[...] = [1, 2, 3, 4]
    assert store.read().result().tolist() == [1, 2, 3, 4]
    assert store.codec.to_json()["filters"] == [{**filters[0], "astype": "<i4"}]


def _filled(data_type: str, fill: Any) -> bytes:
    """Return the fill value of a new array of format 2 whose elements have a fixed length."""
    members = {"driver": "zarr", "kvstore": "memory://", "metadata": {"dtype": data_type}}
    built = ts.open(members, create=True, shape=[2, 3], fill_value=fill).result()
    result = built.fill_value
    assert result is not None
    return result.tobytes()


@pytest.mark.parametrize("fill", [2.5, np.inf, 1j, np.float32(2.5), np.array(2.5), 1, True])
@pytest.mark.parametrize("data_type", ["|S3", "<U3"])
def test_numbers_are_no_text(data_type: str, fill: Any) -> None:
    with pytest.raises(ValueError, match="fill_value"):
        _filled(data_type, fill)


@pytest.mark.parametrize("data_type", ["|S3", "|V3"])
@pytest.mark.parametrize("fill", [b"abc", np.void(b"abc"), np.array(b"abc")])
def test_bytes_by_keyword(data_type: str, fill: Any) -> None:
    assert _filled(data_type, fill) == b"abc"
    with pytest.raises(ValueError, match=r"4 bytes|does not fit"):
        _filled(data_type, b"abcd")


@pytest.mark.parametrize("options", [{"create": True}, {"open": True, "assume_metadata": True}])
def test_chunk_shape_of_rank_0_sets_rank(options: dict[str, bool]) -> None:
    spec: dict[str, Any] = {"driver": "zarr", "kvstore": "memory://"}
    built = ts.open({**spec, "metadata": {"chunks": []}}, dtype="float32", **options).result()
    assert (built.rank, built.dtype.name) == (0, "float32")
    with pytest.raises(ValueError, match="shape or domain"):
        ts.open({**spec, "metadata": {"chunks": [2]}}, dtype="float32", **options).result()
