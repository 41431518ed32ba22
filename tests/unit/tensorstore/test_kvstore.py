"""Key-value stores: specs, URLs, reads, conditions, ranges."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import tessarr.tensorstore as ts
from stores import servers
from stores.kinds import KINDS
from tessarr.store.wrappers.instrumented import CountingStore
from tessarr.stores import LocalStore, MemoryStore
from tessarr.tensorstore.kvstore import local

Range = ts.KvStore.KeyRange


SPECS: dict[str, Callable[[Path], Any]] = {
    "file": lambda folder: f"file://{folder}/",
    "file, mapped": lambda folder: _files(folder, file_io_mode={"mode": "memmap"}),
    "file, direct": lambda folder: _files(folder, file_io_mode={"mode": "direct"}),
    "file, lock files": lambda folder: _files(folder, file_io_locking={"mode": "lockfile"}),
    "file, one at a time": lambda folder: _files(folder, file_io_concurrency={"limit": 1}),
    "memory": lambda folder: "memory://",
    "mapping": lambda folder: {"driver": "tessarr", "store": {}},
    "zip": lambda folder: f"file://{folder}/a.zip|zip:",
    "zip in memory": lambda folder: "memory://a.zip|zip:",
    "zip in a zip": lambda folder: f"file://{folder}/a.zip|zip:b.zip|zip:",
    "stack": lambda folder: {
        "driver": "kvstack",
        "layers": [
            {"base": f"file://{folder}/", "prefix": ""},
            {"base": "memory://bs/", "prefix": "b", "strip_prefix": 0},
        ],
    },
    **KINDS,
}


def _files(folder: Path, **resources: Any) -> Any:
    return {"driver": "file", "path": f"{folder}/", **resources}


@pytest.fixture(params=[*SPECS, "s3", "gcs"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ts.KvStore:
    kind = request.param
    if kind in SPECS:
        spec = SPECS[kind](tmp_path)
    else:
        spec = servers.kvstore_spec(kind, request.getfixturevalue(kind), f"{tmp_path.name}/")
    return ts.KvStore.open(spec).result()


def test_kvstore_mapping_methods_read_and_write(store: ts.KvStore) -> None:
    store["a"] = b"1"
    store[b"b/c"] = "text"
    assert (store[b"a"], store["b/c"]) == (b"1", b"text")
    assert "a" in store
    assert "b" not in store
    with pytest.raises(KeyError):
        store["b"]
    assert store.list().result() == [b"a", b"b/c"]
    store["a"] = None
    del store["b/c"]
    del store["absent"]
    assert store.list().result() == []


def test_reading_parts(store: ts.KvStore) -> None:
    store["a"] = b"0123456789"
    for span in (slice(2, 5), slice(None, 3), slice(7, None), slice(-4, None), slice(3, 3)):
        assert store.read("a", byte_range=span).result().value == b"0123456789"[span]
    for bad in (slice(0, 11), slice(11, None), slice(-11, None)):
        with pytest.raises(ValueError, match="OUT_OF_RANGE"):
            store.read("a", byte_range=bad).result()
    for bad in (slice(0, -1), slice(2, 1)):
        with pytest.raises(ValueError, match="Unsupported"):
            store.read("a", byte_range=bad)
    for bad in (slice(0, 2, 2), 5):
        with pytest.raises(TypeError):
            store.read("a", byte_range=bad)  # type: ignore[arg-type] # ty: ignore


def test_generations_distinguish_values(store: ts.KvStore) -> None:
    first = store.write("a", b"1").result().generation
    read = store.read("a").result()
    assert (read.state, read.value) == ("value", b"1")
    assert store.read("a", if_not_equal=read.stamp.generation).result().state == "unspecified"
    assert store.read("a", if_not_equal=first).result().state == "unspecified"
    second = store.write("a", b"2").result().generation
    assert second != first
    assert store.read("a", if_not_equal=first).result().value == b"2"
    missing = store.read("b").result()
    assert missing.state == "missing"
    assert store.write("a", None).result().generation == missing.stamp.generation


def test_writes_with_condition(store: ts.KvStore) -> None:
    missing = store.read("a").result().stamp.generation
    first = store.write("a", b"1", if_equal=missing).result().generation
    assert first
    assert store.write("a", b"2", if_equal=missing).result().generation == b""
    assert store["a"] == b"1"
    assert store.write("a", b"3", if_equal=first).result().generation
    assert store.write("a", None, if_equal=first).result().generation == b""
    assert store["a"] == b"3"


def test_ranges_of_keys(store: ts.KvStore) -> None:
    for key in ("a", "b", "b/c", "c"):
        store[key.replace("b/c", "bb/c")] = b"1"
    assert store.list(Range("b")).result() == [b"b", b"bb/c", b"c"]
    assert store.list(Range("b", "c")).result() == [b"b", b"bb/c"]
    assert store.list(Range("c", "b")).result() == []
    assert store.list(Range("bb"), strip_prefix_length=3).result() == [b"c", b""]
    below = store / "bb"
    assert below.list().result() == [b"/c"]
    store.delete_range(Range("b", "c")).result()
    assert store.list().result() == [b"a", b"c"]
    store.delete_range(Range()).result()
    assert store.list().result() == []


def test_folders_beside_path_are_not_listed(tmp_path: Path) -> None:
    counting = CountingStore(LocalStore(tmp_path))
    store = ts.KvStore.open(counting).result()
    for key in ("data", "data1/x", "data2/é/y", "other/z", "dat"):
        store[key] = b"1"
    before = counting.counts()["lists"]
    assert (store / "data").list().result() == [b"", b"1/x", "2/é/y".encode()]
    assert counting.counts()["lists"] - before == 3


def test_paths_are_put_together() -> None:
    spec = ts.KvStore.Spec("memory://s")
    assert [(spec / name).path for name in ("t", "/t", "")] == ["s/t", "s/t", "s"]
    assert (spec + "t").path == "st"
    store = ts.KvStore.open(spec).result()
    (store / "x")["y"] = b"1"
    assert store.list().result() == [b"/xy"]
    other = store.copy()
    other.path = "s/x"
    assert (other["y"], store.path) == (b"1", "s")
    assert copy.copy(other).path == "s/x"


def test_paths_are_checked_at_requests(tmp_path: Path) -> None:
    """A part that is no valid key may become one; as with TensorStore."""
    store = ts.KvStore.open(f"file://{tmp_path}/").result()
    hidden = (store / ".") + "hidden"
    assert hidden.path == f"{tmp_path}/.hidden"
    hidden["/a"] = b"1"
    assert store.list().result() == [b".hidden/a"]
    above = store / ".." / "a"
    assert above.path == f"{tmp_path}/../a"
    assert (store.spec() / "..").path == f"{tmp_path}/.."
    above.path = f"{tmp_path}/a//"
    for location in (store / ".." / "a", above):
        for ask in (location.list(), location.read("b"), location.write("b", b"")):
            with pytest.raises(ValueError, match="key"):
                ask.result()
        with pytest.raises(ValueError, match="path"):
            ts.open({"driver": "zarr3"}, kvstore=location).result()


def test_copies_of_ranges(store: ts.KvStore) -> None:
    store["a/x"] = b"1"
    store["a/y"] = b"2"
    target = ts.KvStore.open("memory://t/").result()
    (store / "a/").experimental_copy_range_to(target, Range("y")).result()
    (store / "a/").experimental_copy_range_to(store / "b/").result()
    assert target.list().result() == [b"y"]
    assert store.list().result() == [b"a/x", b"a/y", b"b/x", b"b/y"]


def test_memory_kvstore_belongs_to_context() -> None:
    context = ts.Context()
    ts.KvStore.open("memory://a/", context=context).result()["x"] = b"1"
    assert ts.KvStore.open("memory://", context=context).result()["a/x"] == b"1"
    assert ts.KvStore.open("memory://").result().list().result() == []


def test_kvstore_context_survives_copies() -> None:
    """Copies of the store also have the context, even if several threads request it at once."""
    store = ts.KvStore.open("memory://a/").result()
    store["x"] = b"1"
    others = [store, store.copy(), store / "b", store.with_transaction(ts.Transaction())]
    with ThreadPoolExecutor() as threads:
        specs = [*threads.map(lambda one: one.spec(retain_context=True), others)]
    for spec in specs:
        spec.path = "a/"
        assert spec == specs[0]
        assert ts.KvStore.open(spec).result()["x"] == b"1"
    again = pickle.loads(pickle.dumps((store.spec(retain_context=True), store / "c")))
    assert again[0] / "c" == again[1].spec(retain_context=True)
    other = ts.KvStore.open("memory://a/").result()
    assert other.list().result() == []
    assert other.spec(retain_context=True) != specs[0]
    assert other.spec() == store.spec()


def test_changed_spec_does_not_change_opened_kvstore() -> None:
    spec = ts.KvStore.Spec("memory://a/")
    store = ts.KvStore.open(spec).result()
    store["x"] = b"1"
    spec.path = "b/"
    spec.update(context=ts.Context())
    assert store.url == "memory://a/"
    assert ts.KvStore.open(store.spec(retain_context=True)).result()["x"] == b"1"


def test_kvstore_spec_names_shared_resources() -> None:
    context = ts.Context({"memory_key_value_store#a": {}})
    spec = ts.KvStore.Spec(
        {"driver": "memory", "path": "x/", "memory_key_value_store": "memory_key_value_store#a"}
    )
    store = ts.KvStore.open(spec, context=context).result()
    store["k"] = b"1"
    assert store.spec() == ts.KvStore.Spec("memory://x/")
    retained = store.spec(retain_context=True)
    assert ts.KvStore.open(retained).result()["k"] == b"1"
    assert retained.to_json() == {
        "context": {"memory_key_value_store#a": {}},
        "driver": "memory",
        "memory_key_value_store": "memory_key_value_store#a",
        "path": "x/",
    }
    unbound = store.spec(unbind_context=True)
    assert ts.KvStore.open(unbound).result().list().result() == []
    first, other = spec.copy(), spec.copy()
    first.update(context=context)
    other.update(context=ts.Context({"memory_key_value_store#a": {}}))
    assert first == first.copy()
    assert first != other
    first.update(strip_context=True)
    assert first.to_json() == {"driver": "memory", "path": "x/"}
    with pytest.raises(ValueError, match="not defined"):
        ts.KvStore.open(spec)


def test_unpickled_kvstore_is_open(tmp_path: Path) -> None:
    store = ts.KvStore.open(f"file://{tmp_path}/").result()
    store["a"] = b"1"
    assert pickle.loads(pickle.dumps(store))["a"] == b"1"
    for value in (store.spec(), store.read("a").result().stamp, Range("a")):
        assert pickle.loads(pickle.dumps(value)) == value
        assert copy.deepcopy(value) == value


@pytest.mark.parametrize(
    "json",
    [
        5,
        {"path": "x"},
        {"driver": "other"},
        {"driver": "memory", "extra": 1},
        {"driver": "memory", "memory_key_value_store": None},
        {"driver": "memory", "atomic": 3},
        {"driver": "file", "path": "a//b"},
        {"driver": "file", "path": "../a"},
        {"driver": "file", "path": 5},
        {"driver": "zip"},
        {"driver": "zip", "base": 5},
        {"driver": "http"},
        {"driver": "http", "base_url": "ftp://x"},
        {"driver": "s3"},
        {"driver": "gcs", "bucket": "b"},
        "/tmp/x",
        "memory:",
        "file://host/x",
        "file:///x?y",
        "file:///x#y",
        "other://x",
        "file:///x|zarr3:",
        "zip:x",
    ],
)
def test_other_specs_are_refused(json: object) -> None:
    with pytest.raises(ValueError, match=r"Expected|Invalid|Error|extra|must|URL|url"):
        ts.KvStore.Spec(json)


@pytest.mark.parametrize("key", ["", "/", "a//b", "../x", "a/", ".", "a/../b", "a.__lock", b"\xff"])
def test_invalid_keys_are_refused_except_in_memory(store: ts.KvStore, key: str | bytes) -> None:
    if store.spec().to_json()["driver"] == "memory" and isinstance(key, str):
        store[key] = b"1"
        assert store.list().result() == [key.encode()]
        return
    with pytest.raises(ValueError, match="key"):
        store[key] = b"1"
    with pytest.raises(ValueError, match="key"):
        store.read(key).result()


def test_specs_with_all_members() -> None:
    spec = ts.KvStore.Spec({"driver": "file", "path": "tmp/data/", "file_io_sync": True})
    assert spec.to_json(include_defaults=True) == {
        "context": {},
        "driver": "file",
        "file_io_concurrency": "file_io_concurrency",
        "file_io_locking": "file_io_locking",
        "file_io_mode": "file_io_mode",
        "file_io_retries": "file_io_retries",
        "file_io_sync": True,
        "path": "tmp/data/",
    }
    assert ts.KvStore.Spec("https://h:80/p?q=1").url == "https://h:80/p?q=1"
    assert ts.KvStore.Spec("gs://my-bucket/a b").url == "gs://my-bucket/a%20b"
    with pytest.raises(NotImplementedError):
        _ = ts.KvStore.Spec(MemoryStore()).url


def test_relative_paths_follow_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = ts.KvStore.open({"driver": "file", "path": "x/"}).result()
    store["a"] = b"1"
    assert (tmp_path / "x" / "a").read_bytes() == b"1"
    assert store.list().result() == [b"a"]
    assert store.spec().path == "x/"


def test_stores_in_json_compare_by_identity() -> None:
    """Equal stores in JSON, such as empty ones, are different stores."""
    first = ts.KvStore.open({"driver": "tessarr", "store": {}}).result()
    first["a"] = b"1"
    assert ts.KvStore.open({"driver": "tessarr", "store": {}}).result().list().result() == []
    spec = ts.KvStore.Spec({"driver": "memory", "path": "a/"})
    spec.path = "b/"
    assert ts.KvStore.Spec({"driver": "memory", "path": "a/"}).path == "a/"


def test_store_is_read_together(store: ts.KvStore) -> None:
    store["a"] = b"1"
    with ts.Batch() as batch:
        futures = [store.read(key, batch=batch) for key in ("a", "b")]
    assert [future.result().state for future in futures] == ["value", "missing"]
    with pytest.raises(ValueError, match="submitted"):
        store.read("a", batch=batch)
    batch.submit()  # a second call has no effect
    early = ts.Batch()
    assert store.read("a", batch=early).result(timeout=10).value == b"1"
    forgotten = ts.Batch()
    future = store.read("a", batch=forgotten)
    del forgotten, early
    assert future.result(timeout=10).value == b"1"


def test_kvstore_threads_share_result(tmp_path: Path) -> None:
    """The generation is a digest of the value, which the first user computes."""
    store = ts.KvStore.open(f"file://{tmp_path}/").result()
    store["a"] = bytes(2_000_000)
    result = store.read("a").result()
    with ThreadPoolExecutor(4) as pool:
        stamps = list(pool.map(lambda _: (result.stamp.generation, len(result.value)), range(8)))
    assert len(set(stamps)) == 1


class Claim:
    """A value, and the store that contains it, that claims a length beyond any memory."""

    size, version = 1 << 62, b"1"

    def open_value(self, key: str) -> Claim:
        return self

    def get(self, key: str) -> bytes:
        return b""

    def list(self, prefix: str) -> list[str]:
        return ["a"]

    def read(self, offset: int, count: int) -> bytes:
        raise AssertionError("it has no room")

    def put(self, key: str, data: bytes) -> None: ...

    def delete(self, key: str) -> None: ...


def test_byte_range_beyond_memory_raises() -> None:
    store = ts.KvStore.open({"driver": "tessarr", "store": Claim()}).result()
    with pytest.raises(MemoryError):
        store.read("a", byte_range=slice(1, None)).result()


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_read_opens_file_once(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any thread may read it; a ranged read of a large file reads only the range."""
    root = CountingStore(LocalStore("/"))
    monkeypatch.setattr(local, "limit_concurrency", lambda *_: root)
    store = ts.KvStore.open(f"file://{tmp_path}/").result()
    (tmp_path / "a").write_bytes(value := os.urandom(size))

    def read_counted(**options: Any) -> tuple[Any, ...]:
        before = root.counts()
        result = store.read("a", **options).result()
        counted = [root.counts()[name] - before[name] for name in ("opens", "reads", "read_bytes")]
        return result, *counted

    os.utime(tmp_path / "a", ns=(0, time.time_ns() + 10**12))  # its age is no evidence
    part, *counts = read_counted(byte_range=slice(5, 9))
    assert (part.value, *counts) == (value[5:9], 1, 1, 4 if size > 1 << 16 else size)
    whole, *counts = read_counted()
    assert (whole.value, *counts) == (value, 1, 1, size)
    known = whole.stamp.generation
    assert part.stamp.generation == known
    same, *counts = read_counted(if_not_equal=known)
    assert (same.state, *counts) == ("unspecified", 1, 1, size)


def test_partial_read_of_replaced_file_has_own_generation(tmp_path: Path) -> None:
    """Another process changes the file in place before a user needs the generation."""
    store = ts.KvStore.open(f"file://{tmp_path}/").result()
    (tmp_path / "a").write_bytes(b"1" * 100_000)
    os.utime(tmp_path / "a", ns=(0, time.time_ns() + 10**12))
    part = store.read("a", byte_range=slice(5, 9)).result()
    (tmp_path / "a").write_bytes(b"2" * 100_000)
    assert part.value == b"1111"
    assert not store.write("a", b"3", if_equal=part.stamp.generation).result().generation
    assert store.read("a", if_not_equal=part.stamp.generation).result().state == "value"


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_results_are_pickled(protocol: int) -> None:
    store = ts.KvStore.open("memory://").result()
    store["a"] = b"1"
    result = store.read("a").result()
    again = pickle.loads(pickle.dumps(result, protocol))
    assert (again.state, again.value, again.stamp) == (result.state, result.value, result.stamp)


def test_results_keep_no_file_open(tmp_path: Path) -> None:
    """A user may hold thousands of parts of files whose age is no evidence."""
    store = ts.KvStore.open(f"file://{tmp_path}/").result()
    (tmp_path / "a").write_bytes(b"1" * 100_000)
    os.utime(tmp_path / "a", ns=(0, time.time_ns() + 10**12))
    before = len(os.listdir("/dev/fd"))
    results = [
        store.read("a", byte_range=slice(offset, offset + 1)).result() for offset in range(20)
    ]
    assert len(os.listdir("/dev/fd")) == before
    assert len({result.stamp.generation for result in results}) == 1


@pytest.mark.parametrize("options", [{}, {"byte_range": slice(0, 1)}, {"if_not_equal": b"?"}])
def test_stamp_is_from_before_read(options: dict[str, Any]) -> None:
    """Changes during a read come after its time stamp."""
    read: list[float] = []

    class Noting(dict[str, bytes]):
        def __getitem__(self, key: str) -> bytes:
            read.append(time.time())
            return super().__getitem__(key)

    store = ts.KvStore.open({"driver": "tessarr", "store": Noting(a=b"1")}).result()
    result = store.read("a", **options).result()
    assert result.stamp.time <= read[0]


def test_kvstore_has_no_constructor() -> None:
    with pytest.raises(TypeError, match=r"KvStore\.open"):
        ts.KvStore()


def test_kvstore_in_open_transaction_is_collected() -> None:
    """Only the transaction, neither committed nor aborted, refers to the store."""
    transaction = ts.Transaction()
    store = ts.KvStore.open("memory://", transaction=transaction).result()
    transaction.future.add_done_callback(store.__contains__)
    gone = weakref.ref(transaction)
    del transaction, store
    gc.collect()
    assert gone() is None


def test_kvstore_threads_read_written_values() -> None:
    """Requests for small values in memory hold the GIL; large values release it."""
    store = ts.KvStore.open("memory://").result()
    sizes = (0, 1, 1 << 16, (1 << 16) + 1)

    def work(name: str) -> None:
        for size in sizes * 50:
            store[name] = bytes(size)
            assert store[name] == bytes(size)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, "abcd"))
    assert store.list().result() == [b"a", b"b", b"c", b"d"]
