"""Opening and creating by specs: modes, members, fields, pickling, resizing."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
import tessarr.stores
import tessarr.tensorstore as ts
from tessarr.errors import ArgumentError, ExistsError, NotFoundError
from tessarr.store.wrappers.instrumented import CountingStore
from tessarr.stores import LocalStore

RECORDS = [["a", "|u1"], ["b", "<i2"], ["c", "<f4", [2, 3]]]


@pytest.fixture
def context() -> ts.Context:
    return ts.Context()


def open_handle(context: ts.Context, driver: str = "zarr3", **options: Any) -> ts.TensorStore:
    spec = {"driver": driver, "kvstore": "memory://a/", **options.pop("members", {})}
    return ts.open(spec, context=context, **options).result()


def test_modes(context: ts.Context) -> None:
    with pytest.raises(NotFoundError):
        open_handle(context)
    with pytest.raises(ArgumentError, match="shape"):
        open_handle(context, create=True, dtype="int8")
    built = open_handle(context, create=True, dtype="int8", shape=[4, 5])
    built[...] = 7
    with pytest.raises(ExistsError, match="delete_existing"):
        open_handle(context, create=True, dtype="int8", shape=[4, 5])
    assert (
        open_handle(context, open=True, create=True, dtype="int8", shape=[4, 5])[1, 1]
        .read()
        .result()
        == 7
    )
    with pytest.raises(ArgumentError, match="dtype"):
        open_handle(context, dtype="int16")
    with pytest.raises(ArgumentError, match="delete_existing"):
        open_handle(context, delete_existing=True)
    again = open_handle(context, create=True, delete_existing=True, dtype="int8", shape=[3])
    assert again.kvstore.list().result() == [b"zarr.json"]
    assert not np.any(again)
    assert open_handle(context, read=True).mode == "r"


def test_assumed_metadata(context: ts.Context) -> None:
    assumed = open_handle(context, open=True, assume_metadata=True, dtype="int16", shape=[3])
    assumed[1] = 5
    assert assumed.kvstore.list().result() == [b"c/0"]
    assert assumed.read().result().tolist() == [0, 5, 0]
    with pytest.raises(ArgumentError, match="assume_metadata"):
        assumed.resize(exclusive_max=[4]).result()
    with pytest.raises(ArgumentError, match="assume_metadata"):
        open_handle(context, create=True, assume_metadata=True, dtype="int16", shape=[3])
    cached = open_handle(context, open=True, assume_cached_metadata=True, dtype="int16", shape=[3])
    assert cached.resolve().result().shape == (3,)
    with pytest.raises(NotFoundError):
        cached.resize(exclusive_max=[4]).result()


@pytest.mark.parametrize("driver", ["zarr3", "zarr"])
def test_auto_detects_format(tmp_path: Path, driver: str) -> None:
    built = ts.open(
        {"driver": driver, "kvstore": f"file://{tmp_path}"}, create=True, dtype="bool", shape=[2]
    ).result()
    for arguments in (
        f"file://{tmp_path}",
        built.kvstore,
        tessarr.stores.LocalStore(tmp_path),
        built.url,
    ):
        result = ts.open(arguments).result()
        assert result.spec().to_json()["driver"] == driver
        assert result.dtype == ts.bool
    with pytest.raises(NotFoundError, match=r"zarr\.json"):
        ts.open(f"file://{tmp_path}/other").result()
    with pytest.raises(ArgumentError, match="format"):
        ts.open(f"file://{tmp_path}", create=True, dtype="bool", shape=[2]).result()


@pytest.mark.parametrize(
    ("driver", "metadata"),
    [
        ("zarr", {"dtype": [["a", "<i2"], ["b", "<i2"]], "shape": [4]}),
        ("zarr", {"dtype": "<i2"}),
        ("zarr3", {"data_type": "r16"}),
        (
            "zarr3",
            {
                "data_type": {
                    "name": "struct",
                    "configuration": {"fields": [{"name": "a", "data_type": "int8"}]},
                }
            },
        ),
    ],
)
def test_missing_field_is_reported_immediately(driver: str, metadata: Any) -> None:
    with pytest.raises(ArgumentError, match="field 'x'"):
        ts.Spec({"driver": driver, "field": "x", "metadata": metadata})


def test_fields(context: ts.Context) -> None:
    members = {"metadata": {"dtype": RECORDS, "shape": [4, 5]}}
    with pytest.raises(ArgumentError, match="'a', 'b', 'c'"):
        open_handle(context, "zarr", members=members, create=True)
    b = open_handle(context, "zarr", members={**members, "field": "b"}, create=True)
    a = open_handle(context, "zarr", members={"field": "a"})
    b[1] = 7
    a[...] = 1
    np.testing.assert_array_equal(b[1].read().result(), np.full(5, 7, "i2"), strict=True)
    c = open_handle(context, "zarr", members={"field": "c"})
    assert c.shape == (4, 5, 2, 3)
    c[1, :, 0, :] = [1, 2, 3]
    c[2, 2, 1] = 5
    assert c[1, 2].read().result().tolist() == [[1, 2, 3], [0, 0, 0]]
    assert c.vindex[[0, 1], [2, 2], [0, 0], [1, 2]].read().result().tolist() == [0, 3]
    assert c[2, 2].read().result().tolist() == [[0, 0, 0], [5, 5, 5]]
    assert b[1, 2].read().result() == 7
    out = np.empty((2, 3), "f4")
    assert c[1, 0].read(out=out).result() is out
    assert out[0].tolist() == [1, 2, 3]


def test_open_as_void_reads_bytes(context: ts.Context) -> None:
    a = open_handle(context, create=True, dtype="uint16", shape=[3])
    a[...] = [1, 2, 3]
    raw = open_handle(context, members={"open_as_void": True})
    assert (raw.dtype, str(raw.domain)) == (ts.byte, "{ [0, 3*), [0, 2) }")
    assert raw[:, 0].read().result().view("u1").tolist() == [1, 2, 3]
    raw[0] = np.array([9, 1], "u1").view("V1")
    raw[1, 1] = np.array(4, "u1").view("V1")
    assert a.read().result().tolist() == [265, 1026, 3]


@pytest.mark.parametrize("dtype", ["|b1", "int4", [["x", "|b1"]], [["x", "|u1"], ["y", "int4"]]])
def test_void_write_stores_bytes_or_is_refused(context: ts.Context, dtype: Any) -> None:
    members: dict[str, Any] = {"metadata": {"dtype": dtype, "compressor": None}}
    if isinstance(dtype, list):
        members["field"] = "x"
    built = open_handle(context, "zarr", members=members, create=True, shape=[3])
    raw = open_handle(context, "zarr", members={"open_as_void": True})
    raw[...] = b"\1"
    raw.vindex[[0, 0, 2], [0, 0, 0]] = np.array([1, 0, 0], "u1").view("V1")
    before = built.kvstore.read("0").result().value
    assert bytearray(before[:: raw.shape[1]]) == b"\0\1\0"
    if dtype == [["x", "|b1"]]:
        raw[1] = b"a"
        assert built.kvstore.read("0").result().value == b"\0a\0"
        return
    with pytest.raises(ArgumentError, match="bits"):
        raw[1:] = np.full((2, raw.shape[1]), 0x61, "u1").view("V1")
    assert built.kvstore.read("0").result().value == before


@pytest.mark.parametrize("dtype", ["ustring", "string"])
def test_open_as_void_of_variable_length_is_refused(context: ts.Context, dtype: str) -> None:
    open_handle(context, create=True, dtype=dtype, shape=[3])
    with pytest.raises(ArgumentError, match="elements of any length"):
        open_handle(context, members={"open_as_void": True})


def test_big_endian_and_text_of_fixed_length(context: ts.Context) -> None:
    big = open_handle(
        context, "zarr", members={"metadata": {"dtype": ">i4", "shape": [4]}}, create=True
    )
    big[...] = [1, 2, 3, 4]
    result = big[::-1].read().result()
    np.testing.assert_array_equal(result, np.array([4, 3, 2, 1], "i4"), strict=True)
    text = ts.open(
        {"driver": "zarr", "kvstore": "memory://", "metadata": {"dtype": "|S3", "shape": [2]}},
        create=True,
    ).result()
    text[1] = np.array([b"a", b"b", b"c"])
    assert (text.dtype, text.shape) == (ts.char, (2, 3))
    assert text.read().result().tolist() == [[b"", b"", b""], [b"a", b"b", b"c"]]


def test_absent_chunks_read_as_fill(context: ts.Context) -> None:
    layout = ts.ChunkLayout(chunk_shape=[2])
    strict = {"fill_missing_data_reads": False, "store_data_equal_to_fill_value": True}
    store = open_handle(
        context, members=strict, create=True, dtype="int8", shape=[4], chunk_layout=layout
    )
    with pytest.raises(NotFoundError, match="c/0"):
        store.read().result()
    assert store.storage_statistics(query_not_stored=True).result().not_stored
    store[0] = 0
    assert store[:2].read().result().tolist() == [0, 0]
    statistics = store.storage_statistics(query_not_stored=True, query_fully_stored=True).result()
    assert (statistics.not_stored, statistics.fully_stored) == (False, False)
    part = store[:2].storage_statistics(query_fully_stored=True).result()
    assert (part.not_stored, part.fully_stored) == (None, True)


def test_pickles(tmp_path: Path) -> None:
    store = ts.open(f"file://{tmp_path}|zarr3:", create=True, dtype="int8", shape=[4]).result()
    store[...] = [1, 2, 3, 4]
    view = pickle.loads(pickle.dumps(store[1:3]))
    assert (view.read().result().tolist(), view.mode) == ([2, 3], "rw")
    spec = pickle.loads(pickle.dumps(store.spec()))
    assert spec == store.spec()
    with pytest.raises(ArgumentError, match="transaction"):
        pickle.dumps(store.with_transaction(ts.Transaction()))


def test_pickle_omits_defaults(tmp_path: Path) -> None:
    """A spec keeps shared resources of a context, and omits unshared resources."""
    url = f"file://{tmp_path}|zarr3:"
    alone = ts.open(url, create=True, dtype="int8", shape=[4]).result()
    context = ts.Context({"cache_pool": {"total_bytes_limit": 12345}})
    both = [alone, alone[1:3], ts.open(url, context=context).result(), ts.cast(alone, "int16")]
    pickles = [pickle.dumps(store) for store in both]
    assert [b"file_io" in item for item in pickles] == [False, False, True, False]
    for store, item in zip(both, pickles, strict=True):
        again = pickle.loads(item)
        specs = [each.spec(unbind_context=True).to_json() for each in (store, again)]
        specs[1].pop("assume_cached_metadata", None)
        specs[1].get("base", {}).pop("assume_cached_metadata", None)
        assert specs[0] == specs[1]


@pytest.mark.parametrize(("driver", "document"), [("zarr3", "zarr.json"), ("zarr", ".zarray")])
def test_context_shares_metadata(tmp_path: Path, driver: str, document: str) -> None:
    """The metadata cache works as TensorStore's: one request, or none without a staleness bound."""
    counting = CountingStore(LocalStore(tmp_path))

    def requests(**options: Any) -> tuple[ts.TensorStore, int]:
        before = counting.counts()["opens"]
        built = ts.open({"driver": driver, "kvstore": counting}, **options).result()
        return built, counting.counts()["opens"] - before

    shared, spec = ts.Context(), {"dtype": "int8", "shape": [4]}
    requests(create=True, **spec)
    first, requested = requests(context=shared)
    assert requested == 1  # also of format 2, where attributes are not needed
    assert requests(context=shared)[1] == 1
    assert requests(context=shared, recheck_cached_metadata=False)[1] == 0
    assert requests(context=shared, recheck_cached_metadata=1.0)[1] == 0
    assert requests(context=shared, recheck_cached_metadata=True)[1] == 1
    assert requests(recheck_cached_metadata=False)[1] == 1
    assert (tmp_path / document).exists()
    first.resize(exclusive_max=[9]).result()
    again, requested = requests(context=shared, recheck_cached_metadata=False, shape=[9])
    assert (again.shape, requested) == ((9,), 0)
    del first, again
    assert requests(context=shared, recheck_cached_metadata=False)[1] == 1
    pooled = ts.Context({"cache_pool": {"total_bytes_limit": 10**6}})
    assert [requests(context=pooled, recheck_cached_metadata=False)[1] for _ in "ab"] == [1, 0]


@pytest.mark.parametrize("url", ["memory", "file"])
def test_handles_of_context_share_changes(url: str, tmp_path: Path, context: ts.Context) -> None:
    store = {"driver": url, "path": f"{tmp_path}/a/"}
    spec = {"driver": "zarr3", "kvstore": store}
    new = {"create": True, "delete_existing": True, "context": context}
    first = ts.open(spec, **new, dtype="int8", shape=[6]).result()
    other = ts.open(spec, context=context).result()
    other.resize(exclusive_max=[8]).result()
    assert first.read().result().shape == (8,)
    ts.open(spec, **new, dtype="int8", shape=[4], chunk_layout=first.chunk_layout).result()
    assert first.read().result().shape == (4,)
    larger = first.resize(exclusive_max=[7]).result()
    ts.open(spec, **new, dtype="int8", shape=[6], chunk_layout=first.chunk_layout).result()
    assert larger.read().result().shape == (6,)  # the original metadata
    ts.open(spec, **new, dtype="int16", shape=[4]).result()
    for _ in range(2):
        with pytest.raises(ArgumentError, match="open it again"):
            first.read().result()
        with pytest.raises(ArgumentError, match="open it again"):
            first.write(1).result()
    with pytest.raises(ArgumentError, match="open it again"):
        first.resolve().result()
    assert ts.open(spec, context=context).result().read().result().dtype == "int16"


def test_handle_detects_replaced_array(tmp_path: Path) -> None:
    spec = {"driver": "zarr", "kvstore": f"file://{tmp_path}/a/"}
    new = {"create": True, "delete_existing": True, "dtype": "int8", "shape": [4]}
    careful = ts.open(spec, recheck_cached_metadata=True, **new).result()
    ts.open(spec, **new, chunk_layout=ts.ChunkLayout(chunk_shape=[2])).result()
    for _ in range(2):
        with pytest.raises(ArgumentError, match="open it again"):
            careful.read().result()


def test_fill_values_with_different_nan_bits(context: ts.Context) -> None:
    """The metadata cache compares constraints exactly, to the last bit."""
    stored = []
    for bits in (0x7FC00000, 0x7FC00001):
        fill = np.array(bits, "u4").view("f4")
        built = open_handle(context, create=True, delete_existing=True, dtype="float32", shape=[2],
                      fill_value=fill)  # fmt: skip
        stored.append(built.read().result().view("u4").tolist())
    assert stored == [[0x7FC00000] * 2, [0x7FC00001] * 2]


def test_document_of_another_name(tmp_path: Path) -> None:
    spec = {
        "driver": "zarr2",
        "kvstore": {"driver": "file", "path": f"{tmp_path}/a/"},
        "metadata_key": "meta.json",
        "key_encoding": "/",
    }
    built = ts.open(spec, create=True, dtype="int8", shape=[4, 5]).result()
    built[...] = 3
    assert built.kvstore.list().result() == [b"0/0", b"meta.json"]
    document = built.spec().to_json()
    assert document["metadata_key"] == "meta.json"
    assert document["metadata"]["dimension_separator"] == "/"
    with pytest.raises(ArgumentError, match="metadata_key"):
        _ = built.url
    smaller = built.resize(exclusive_max=[2, 5]).result()
    assert smaller.shape == ts.open(spec).result().shape == (2, 5)
    assert pickle.loads(pickle.dumps(smaller)).read().result().sum() == 30
    with ts.Transaction() as transaction:
        ts.open(spec, transaction=transaction).result()[0] = 4
    assert ts.open(spec).result()[:, 0].read().result().tolist() == [4, 3]
    with pytest.raises(NotFoundError, match="zarray"):
        ts.open({**spec, "metadata_key": ".zarray"}).result()
    again = ts.open(spec, create=True, delete_existing=True, dtype="int8", shape=[1]).result()
    assert again.kvstore.list().result() == [b"meta.json"]
    with pytest.raises(ArgumentError, match="does not match"):
        ts.Spec({**spec, "metadata": {"dimension_separator": "."}})


def test_dimension_separator_never_changes_keys(tmp_path: Path) -> None:
    """A document without a separator means "."; another separator would hide stored chunks."""
    spec = {"driver": "zarr2", "kvstore": f"file://{tmp_path}/"}
    built = ts.open(spec, create=True, dtype="int8", shape=[4, 5]).result()
    built[...] = 3
    document = json.loads((tmp_path / ".zarray").read_text())
    assert document.pop("dimension_separator", ".") == "."
    (tmp_path / ".zarray").write_text(json.dumps(document))
    with pytest.raises(ArgumentError, match="dimension_separator"):
        ts.open({**spec, "key_encoding": "/"}).result()
    assert ts.open({**spec, "key_encoding": "."}).result()[0, 0].read().result() == 3


def test_resizing_keeps_other_handles(context: ts.Context) -> None:
    layout = ts.ChunkLayout(chunk_shape=[2, 2])
    store = open_handle(context, create=True, dtype="int8", shape=[4, 4], chunk_layout=layout)
    store[...] = 1
    smaller = store.resize(exclusive_max=[2, None]).result()
    assert (smaller.shape, store.shape) == ((2, 4), (4, 4))
    assert store.resolve().result().shape == (2, 4)
    assert sorted(store.kvstore.list().result()) == [b"c/0/0", b"c/0/1", b"zarr.json"]
    assert store.read().result().shape == (2, 4)
    with pytest.raises(ArgumentError, match="outside"):
        store[3].read().result()
    with pytest.raises(ArgumentError, match="interval"):
        store.resize(exclusive_max=[-1, None]).result()
    with pytest.raises(ArgumentError, match="shrink_only"):
        store.resize(exclusive_max=[9, None], shrink_only=True).result()
    with pytest.raises(ArgumentError, match="resize_tied_bounds"):
        store[:, :2].resize(exclusive_max=[1, None]).result()
    with pytest.raises(ArgumentError, match="explicit"):
        store[:2].resize(exclusive_max=[1, None]).result()
    with pytest.raises(ArgumentError, match="1 bounds"):
        store.resize(exclusive_max=[1]).result()


def test_transactions(context: ts.Context) -> None:
    store = open_handle(context, create=True, dtype="int8", shape=[4])
    with ts.Transaction() as transaction:
        inside = store.with_transaction(transaction)
        inside[1] = 5
        longer = inside.resize(exclusive_max=[6]).result()
        longer[5] = 6
        assert longer.read().result().tolist() == [0, 5, 0, 0, 0, 6]
        assert not np.any(store)
    assert open_handle(context).read().result().tolist() == [0, 5, 0, 0, 0, 6]


def test_batches(context: ts.Context) -> None:
    store = open_handle(context, create=True, dtype="int8", shape=[4])
    with ts.Batch() as batch:
        future = store.read(batch=batch)
        again = ts.open(store.spec(retain_context=True), batch=batch)
        assert not future.done()
    assert future.result().tolist() == [0, 0, 0, 0]
    assert again.result().shape == (4,)


@pytest.mark.parametrize(
    "json",
    [
        {},
        [],
        None,
        3,
        "foo",
        "memory://a|zarr:",
        "memory://a|zarr3:?x",
        "memory://a|zarr3:|zarr2:",
        {"driver": 3},
        {"driver": "n5"},
        {"driver": "zarr3", "foo": 1},
        {"driver": "zarr3", "path": 3},
        {"driver": "zarr3", "path": "a"},
        {"driver": "zarr3", "open": 1},
        {"driver": "zarr3", "field": 1},
        {"driver": "zarr3", "field": "a", "open_as_void": True},
        {"driver": "zarr3", "recheck_cached_data": "x"},
        {"driver": "zarr3", "fill_missing_data_reads": "x"},
        {"driver": "zarr3", "rank": 3, "transform": {"input_rank": 2}},
        {"driver": "zarr3", "dtype": 3},
        {"driver": "zarr3", "metadata": {"data_type": "r16", "shape": [4]}, "dtype": "int8"},
    ],
)
def test_invalid_spec_is_refused(json: Any) -> None:
    with pytest.raises(ArgumentError):
        ts.Spec(json)


def test_staleness_bound_of_wrong_type() -> None:
    with pytest.raises(TypeError, match="recheck_cached_data"):
        ts.Spec("memory://a|zarr3:").update(recheck_cached_data="x")


def test_url_names_detected_format(tmp_path: Path) -> None:
    url = tmp_path.as_uri()
    assert ts.Spec(url).url == f"{url}|auto:"
    assert ts.Spec(f"{url}|cast:float32").url == f"{url}|auto:|cast:float32"
    assert ts.Spec(url.replace("file://", "file://localhost")) == ts.Spec(url)
    with pytest.raises(ArgumentError, match="authority"):
        ts.Spec("file://elsewhere/path")


def test_context_is_context() -> None:
    with pytest.raises(TypeError, match="Context"):
        ts.open("memory://|zarr3:", context={})  # type: ignore[arg-type]


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("driver", ["zarr3", "zarr"])
def test_bytes_of_element_are_dimension(driver: str, n: int) -> None:
    """A single byte is a dimension, too."""
    metadata: dict[str, Any] = {"shape": [4], "data_type": f"r{8 * n}"}
    if driver == "zarr":
        metadata = {"shape": [4], "chunks": [2], "dtype": f"|V{n}", "compressor": None}
    spec = {"driver": driver, "kvstore": "memory://", "metadata": metadata}
    store = ts.open(spec, create=True).result()
    assert store.shape == (4, n)
    assert store.read().result().tobytes() == bytes(4 * n)
    values = np.frombuffer(b"abcdefghijkl"[: 4 * n], "V1").reshape(4, n)
    store[...] = values
    assert (store.read().result() == values).all()
    assert (store[1:3, n - 1].read().result() == values[1:3, n - 1]).all()
    assert (store.vindex[[0, 3], [0, n - 1]].read().result() == values[[0, 3], [0, n - 1]]).all()


@pytest.mark.parametrize(("allowed", "mode"), [("read", "r"), ("write", "w")])
def test_pickle_keeps_mode(tmp_path: Path, allowed: str, mode: str) -> None:
    spec = {"driver": "zarr3", "kvstore": tmp_path.as_uri()}
    ts.open(spec, create=True, dtype="int8", shape=[2]).result()
    again = pickle.loads(pickle.dumps(ts.open(spec, **{allowed: True}).result()))
    assert (again.mode, again.readable, again.writable) == (mode, mode == "r", mode == "w")
    with pytest.raises(ValueError, match=r"reading|writing"):
        again.read().result() if mode == "w" else again.write(1).result()


@pytest.mark.parametrize("recheck", [True, False])
@pytest.mark.parametrize("memory", [True, False])
@pytest.mark.parametrize("driver", ["zarr", "zarr3"])
def test_deleted_array_leaves_cache(
    driver: str, memory: bool, recheck: bool, tmp_path: Path
) -> None:
    """Old chunks are neither read as part of the new array nor stored with its writes."""
    context = ts.Context({"cache_pool": {"total_bytes_limit": 1 << 20}})
    spec = {
        "driver": driver,
        "kvstore": "memory://a/" if memory else tmp_path.as_uri() + "/",
        "recheck_cached_data": recheck,
        "metadata": {"chunks": [2]} if driver == "zarr" else {},
        **({} if driver == "zarr" else {"schema": {"chunk_layout": {"chunk": {"shape": [2]}}}}),
    }
    options: dict[str, Any] = {"create": True, "dtype": "int16", "shape": [4], "context": context}
    old = ts.open(spec, **options).result()
    old[...] = 3
    assert old.read().result().tolist() == [3, 3, 3, 3]
    new = ts.open(spec, delete_existing=True, **options).result()
    assert [h.read().result().tolist() for h in (new, old)] == [[0, 0, 0, 0]] * 2
    new[0] = 5
    assert [h.read().result().tolist() for h in (new, old)] == [[5, 0, 0, 0]] * 2


@pytest.mark.parametrize("own", [False, True])
def test_create_with_sync_uses_another_thread(own: bool, tmp_path: Path) -> None:
    """Programs create many arrays concurrently, which wait for a slow disk in parallel."""
    context = ts.Context({"file_io_concurrency": {"limit": 4}}) if own else None
    begun: list[tuple[ts.Future[ts.TensorStore], bool]] = []

    def begin() -> None:
        spec = {"driver": "zarr3", "kvstore": f"file://{tmp_path}/a/"}
        new = ts.open(spec, open=True, create=True, dtype="int8", shape=[3], context=context)
        begun.append((new, new.done()))

    LocalStore(tmp_path).hold("a/zarr.json", begin)
    [(future, done)] = begun
    assert not done
    assert future.result().shape == (3,)
