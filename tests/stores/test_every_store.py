"""Tests of the behaviour that every store shares."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import pickle
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

import tessarr
from sampling import examples
from stores.kinds import KINDS, SHARED
from tessarr.errors import ArgumentError, DataError
from tessarr.store import MemoryStore, Store
from tessarr.stores import AzureStore, DirectoryStore, PrefixStore, TempStore, ZipStore
from tessarr.tensorstore.kvstore.values import read_versioned

if TYPE_CHECKING:
    from collections.abc import Callable

ESCAPING = [
    "",
    "/",
    "/etc/passwd",
    ".",
    "..",
    "../x",
    "a/..",
    "a/../../x",
    "a/./b",
    "a//b",
    "a/",
    "a\0b",
]


def test_put_get_replace_delete(store: Store) -> None:
    """A key holds the value of its last put, and no value after a delete."""
    assert store.get("a/b") is None
    assert store.size("a/b") is None
    store.put("a/b", b"old and long")
    store.put("a/b", b"new")
    assert store.get("a/b") == b"new"
    assert store.size("a/b") == 3
    store.delete("a/b")
    store.delete("a/b")
    store.delete("never/was")
    assert store.get("a/b") is None


def test_limits_bound_concurrent_requests(store: Store) -> None:
    """A value above the limit raises an error; a value of exactly the limit is returned."""
    store.put("k", b"12345")
    assert store.get("k", limit=5) == store.get("k", limit=None) == b"12345"
    with pytest.raises(DataError, match="has 5 bytes, at most 4 are allowed") as caught:
        store.get("k", limit=4)
    assert (caught.value.kind, caught.value.key) == ("too_large", "k")
    assert store.get("absent", limit=0) is None
    assert store.get("absent", b"") == b""


def test_update_stores_result_of_function(store: Store) -> None:
    seen: list[bytes | None] = []

    def make(new_value: bytes | None) -> Any:
        def noted(old: bytes | None) -> bytes | None:
            seen.append(old)
            return new_value

        return noted

    for new_value in (b"one", b"other", None, None):
        store.change("a/b", make(new_value))
        assert store.get("a/b") == new_value
    assert seen == [None, b"one", b"other", None]


def test_update_with_same_value_keeps_it(store: Store) -> None:
    store.put("a", b"value")
    store.change("a", lambda old: old)
    with pytest.raises(DataError, match="at most 4") as caught:
        store.change("a", lambda _: b"", limit=4)
    assert caught.value.kind == "too_large"
    with pytest.raises(ZeroDivisionError) as raised:
        store.change("a", lambda old: b"" * (1 // (old is None)))
    assert not hasattr(raised.value, "__notes__")
    store.change("a", lambda old: old, limit=5)
    assert store.get("a") == b"value"


def test_held_key_excludes_other_holders(store: Store) -> None:
    """Only one holder of a key runs at a time; the lock file is removed afterwards."""
    running: list[int] = []
    most: list[int] = []

    def work() -> str:
        running.append(1)
        time.sleep(0.002)
        most.append(len(running))
        store.put("folder/other", b"1")  # other keys are free
        running.pop()
        return "done"

    with ThreadPoolExecutor(4) as pool:
        results = [pool.submit(store.hold, "folder/held", work) for _ in range(20)]
        assert {result.result(30) for result in results} == {"done"}
    assert set(most) == {1}
    assert store.list() == ["folder/other"]
    assert store.hold("folder/other", lambda: 1) == 1
    with pytest.raises(ArgumentError):
        store.hold("../outside", work)


def test_error_under_held_key_propagates(store: Store) -> None:
    """The exception propagates unchanged, and the key is free again."""

    def fail() -> None:
        raise LookupError("mine")

    for _ in range(2):
        with pytest.raises(LookupError, match="mine") as caught:
            store.hold("k", fail)
        assert not hasattr(caught.value, "__notes__")


@pytest.mark.parametrize("size", [0, 1, 4096, 3_000_001])
def test_values_of_any_size_round_trip(store: Store, size: int) -> None:
    """Empty and large values round-trip."""
    value = np.random.default_rng(size).bytes(size)
    store.put("k", value)
    assert store.get("k") == value
    assert store.size("k") == size


@pytest.mark.parametrize(
    "value",
    [
        bytearray(b"abcd"),
        memoryview(b"abcd"),
        np.frombuffer(b"abcd", "<u2"),
        memoryview(b"a-b-c-d")[::2],
    ],
)
def test_put_accepts_any_buffer(store: Store, value: Any) -> None:
    """A store holds the bytes of any buffer in C order."""
    store.put("k", value)
    assert store.get("k") == b"abcd"


@pytest.mark.parametrize("value", ["text", 1, None, [1, 2]])
def test_put_of_non_buffer_raises_type_error(store: Store, value: Any) -> None:
    """A store stores nothing for an object without bytes."""
    with pytest.raises(TypeError):
        store.put("k", value)
    assert store.list() == []


def test_replace_requires_expected_value(store: Store) -> None:
    """``replace`` changes a value only if the current value equals the expected one."""
    assert not store.replace("k", b"1", b"0")
    assert store.replace("k", b"1", None)
    assert not store.replace("k", b"2", None)
    assert not store.replace("k", b"2", b"11")
    assert store.get("k") == b"1"
    assert store.replace("k", b"2", b"1")
    assert not store.replace("k", None, b"1")
    assert store.replace("k", None, b"2")
    assert store.replace("k", None, None)
    assert store.get("k") is None


def test_listings(store: Store) -> None:
    """A listing holds the keys below the prefix, sorted as whole strings."""
    keys = ["a", "b-c/x", "b.c", "b/c/d", "b/c/e", "b/z", "c0/x", "c/y", "é/x", "zarr.json"]
    for key in keys:
        store.put(key, b"v")
    assert store.list() == sorted(keys)
    assert store.list("b/") == ["b/c/d", "b/c/e", "b/z"]
    assert store.list("a/") == store.list("nothing/") == []
    assert store.list_dir() == (["a", "b.c", "zarr.json"], ["b-c/", "b/", "c/", "c0/", "é/"])
    assert store.list_dir("b/") == (["b/z"], ["b/c/"])
    assert store.list_dir("nothing/") == ([], [])


def test_ranges_of_keys(store: Store) -> None:
    """A range compares bytes, which may be invalid UTF-8; its prefix may end inside a name."""
    keys = ["a", "b-c/x", "b.c", "b/c/d", "b/c/e", "b/z", "c0/x", "c/y", "é/x", "zarr.json"]
    for key in keys:
        store.put(key, b"v")
    sizes = [b"", b"b", b"b/c/e", b"c", b"\xc3", b"\xff"]
    for start in ("", "b", "b/", "b/c", "b.", "z", "é", "nothing"):
        for first in (None, *sizes):
            for end in (None, *sizes):
                held = [key.encode() for key in sorted(keys) if key.startswith(start)]
                chosen = [
                    key for key in held if (first or b"") <= key and not b"" < (end or b"") <= key
                ]
                assert store.list_range(start, first, end) == chosen
    assert store.list_range("b/c", strip=2) == [b"c/d", b"c/e"]
    with pytest.raises(ArgumentError):
        store.list_range("../a")


def test_open_value_has_version(store: Store) -> None:
    assert store.get_version("a") is None
    store.put("a", b"value")
    opened = store.open_value("a")
    assert opened is not None
    data, version = store.get_version("a") or (None, None)
    assert data == b"value"
    assert version is None or isinstance(version, bytes)
    if isinstance(store, MemoryStore):
        assert version is not None
        assert version == opened.version


def test_kvstore_read_has_generation(store: Store) -> None:
    """Generations identify values and serve as preconditions, even in stores without versions."""
    assert read_versioned(store, "a").state == "missing"
    assert not store.write_versioned("a", b"v", b"\0no version")[0]
    absent = read_versioned(store, "a").stamp.generation
    first, _ = store.write_versioned("a", b"value", absent)
    assert not store.write_versioned("a", b"other", absent)[0]
    result = read_versioned(store, "a", byte_range=(-2, None))
    assert (result.state, result.value) == ("value", b"ue")
    known = read_versioned(store, "a").stamp.generation
    assert read_versioned(store, "a", known).state == "unspecified"
    if isinstance(store, MemoryStore):
        assert first == known == result.stamp.generation
    second, _ = store.write_versioned("a", b"other", known)
    assert second not in {b"", known}
    assert read_versioned(store, "a", known).value == b"other"
    assert not store.write_versioned("a", None, known)[0]
    assert store.write_versioned("a", None)[0] == absent
    assert store.get("a") is None


def test_delete_range(store: Store) -> None:
    """The store deletes exactly the keys in the range that start with the prefix."""
    keys = ["a", "b-c/x", "b/c/d", "b/c/e", "b/z", "c/y"]
    ranges = [("b", b"b/", b"b/z"), ("b/", b"", b""), ("", b"", b""), ("b/c", b"b/c/e", b"")]
    for start, first, end in ranges:
        for key in keys:
            store.put(key, b"v")
        store.delete_range(start, first, end)
        rest = [key for key in keys if not key.startswith(start)]
        inside = [key for key in keys if key.startswith(start)]
        rest += [key for key in inside if key.encode() < first or b"" < end <= key.encode()]
        left = sorted(rest)
        assert store.list() == left


def test_delete_prefix(store: Store) -> None:
    """The store deletes exactly the keys below the prefix."""
    for key in ["a/b/c", "a/d", "ab", "a.b", "b/a/x"]:
        store.put(key, b"v")
    store.delete_prefix("a/")
    store.delete_prefix("nothing/")
    store.delete_prefix("ab/")
    assert store.list() == ["a.b", "ab", "b/a/x"]
    assert store.list_dir() == (["a.b", "ab"], ["b/"])
    store.delete_prefix("")
    assert store.list() == []
    store.put("a/again", b"v")
    assert store.list() == ["a/again"]


@pytest.mark.parametrize("key", [*ESCAPING, "x.__lock", "x.__lock/y"])
def test_escaping_keys_raise_in_every_call(store: Store, key: str) -> None:
    """Every method rejects an invalid key and changes nothing."""
    store.put("k", b"v")
    calls: list[Callable[[], object]] = [
        lambda: store.get(key),
        lambda: store.put(key, b"v"),
        lambda: store.delete(key),
        lambda: store.size(key),
        lambda: store.replace(key, b"v", None),
        lambda: store.list(key + "/"),
        lambda: store.list_dir(key + "/"),
        lambda: store.delete_prefix(key + "/"),
    ]
    for call in calls:
        with pytest.raises(ArgumentError) as caught:
            call()
        assert caught.value.kind == "invalid_argument"
    assert store.list() == ["k"]


def test_prefix_without_slash_raises(store: Store) -> None:
    """A store rejects a prefix that ends inside a name."""
    store.put("ab", b"v")
    for call in (store.list, store.list_dir, store.delete_prefix):
        with pytest.raises(ArgumentError):
            call("a")
    assert store.list() == ["ab"]


@pytest.mark.parametrize(
    "key", ["a\\b", "..\\x", "a b", "...", "-rf", "~", "C:x", "%2e%2e", "x__lock", "日本"]
)
def test_unusual_valid_keys_round_trip(store: Store, key: str) -> None:
    """Keys with unusual characters round-trip."""
    if isinstance(store, AzureStore) and "\\" in key:
        pytest.skip("Azure makes slashes of backslashes")
    store.put(f"g/{key}/v", b"v")
    assert store.get(f"g/{key}/v") == b"v"
    assert store.list() == [f"g/{key}/v"]


def test_reader_sees_whole_values_only(store: Store) -> None:
    """While writers replace a value by values of other sizes, every read returns a whole value."""
    values = [
        bytes([letter]) * size for letter, size in zip(b"abc", (10, 70_000, 300_000), strict=True)
    ]
    store.put("k", values[0])
    with ThreadPoolExecutor(2) as pool:

        def write() -> None:
            for number in range(30):
                store.put("k", values[number % 3])

        writers = [pool.submit(write) for _ in range(2)]
        while not all(writer.done() for writer in writers):
            assert store.get("k") in values
        for writer in writers:
            writer.result()


def test_concurrent_threads_lose_no_update(store: Store) -> None:
    """The final value includes each successful replacement."""

    def work(_: int) -> None:
        for _ in range(25):
            old = store.get("n")
            while not store.replace("n", b"%d" % (int(old or b"0") + 1), old):
                old = store.get("n")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert store.get("n") == b"100"


KEYS = st.lists(st.sampled_from(["a", "b", "c.d", "0"]), min_size=1, max_size=3).map("/".join)


class StoreMachine(RuleBasedStateMachine):
    """A sequence of calls has the same effect on a store and on a dict."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store
        self.model: dict[str, bytes] = {}

    def _clashes(self, key: str) -> bool:
        # In a folder, one name cannot be both a value and a folder.
        return any(k.startswith(key + "/") or key.startswith(k + "/") for k in self.model)

    @rule(key=KEYS, value=st.binary(max_size=20))
    def put(self, key: str, value: bytes) -> None:
        if not self._clashes(key):
            self.store.put(key, value)
            self.model[key] = value

    @rule(key=KEYS)
    def delete(self, key: str) -> None:
        self.store.delete(key)
        self.model.pop(key, None)

    @rule(key=KEYS, value=st.none() | st.binary(max_size=3), right=st.booleans())
    def replace(self, key: str, value: bytes | None, right: bool) -> None:
        if self._clashes(key):
            return
        expected = self.model.get(key) if right else b"something else"
        assert self.store.replace(key, value, expected) is right
        if right and value is None:
            self.model.pop(key, None)
        elif right and value is not None:
            self.model[key] = value

    @rule(prefix=KEYS.map(lambda key: key + "/") | st.just(""))
    def delete_prefix(self, prefix: str) -> None:
        self.store.delete_prefix(prefix)
        self.model = {k: v for k, v in self.model.items() if not k.startswith(prefix)}

    @rule(key=KEYS)
    def get(self, key: str) -> None:
        assert self.store.get(key) == self.model.get(key)

    @rule(prefix=KEYS.map(lambda key: key + "/") | st.just(""))
    def list_dir(self, prefix: str) -> None:
        rests = [k[len(prefix) :] for k in self.model if k.startswith(prefix)]
        keys, prefixes = self.store.list_dir(prefix)
        assert keys == sorted(prefix + rest for rest in rests if "/" not in rest)
        expected = sorted({prefix + rest.split("/")[0] + "/" for rest in rests if "/" in rest})
        # A folder may list folders that are empty after deletions.
        assert [p for p in prefixes if self.store.list(p)] == expected

    @invariant()
    def listing(self) -> None:
        assert self.store.list() == sorted(self.model)


@pytest.mark.parametrize("kind", KINDS)
def test_random_calls_match_model(kind: str, tmp_path: Path) -> None:
    """Every kind of store behaves like a dict."""
    numbers = itertools.count()
    count = 20 if kind in {"local", "memory", "mapping"} else 6

    def machine() -> Any:
        return StoreMachine(KINDS[kind](tmp_path / str(next(numbers))))

    run_state_machine_as_test(
        machine,  # type: ignore[arg-type] # a factory is valid, too
        settings=examples(count, stateful_step_count=25),
    )


def test_array_round_trips_in_every_store(store: Store) -> None:
    """Arrays of both formats, with and without shards, round-trip, and so do partial writes."""
    data = np.random.default_rng(0).integers(0, 1000, (60, 50)).astype("i4")
    group = tessarr.create_group(store, path="deep/g", attributes={"a": 1})
    group.create_array("plain", data=data, chunks=(20, 20))
    group.create_array("sharded", data=data, chunks=(7, 5), shards=(28, 20), compressors=None)
    old = PrefixStore(store, "old")
    tessarr.create_array(old, path="x", data=data, chunks=(20, 20), zarr_format=2)
    assert [name for name, _ in tessarr.open_group(store, path="deep").members()] == ["g"]
    for location, path in ((store, "deep/g/plain"), (store, "deep/g/sharded"), (old, "x")):
        array = tessarr.open_array(location, path=path, mode="r+")
        np.testing.assert_array_equal(array[:], data)
        np.testing.assert_array_equal(array[13, 3::7], data[13, 3::7])
        array[11:13, ::9] = -1
        array.append(data[:3])
        expected = np.concatenate([data, data[:3]])
        expected[11:13, ::9] = -1
        np.testing.assert_array_equal(tessarr.open_array(location, path=path)[:], expected)
    del group["plain"]
    assert list(tessarr.open_group(store, path="deep/g")) == ["sharded"]


def test_open_value_reads_parts(store: Store) -> None:
    """Each part equals the slice of the whole value; a part outside of it raises an error."""
    value = np.random.default_rng(0).bytes(200_000)
    for size in (0, 10, 200_000):
        store.put("k", value[:size])
        opened = store.open_value("k")
        assert opened is not None
        assert opened.size == size
        for offset, count in ((0, 0), (0, size), (size // 2, size // 3), (size, 0)):
            assert opened.read(offset, count) == value[:size][offset : offset + count]
        for offset, count in ((0, size + 1), (size + 1, 0), (2**63, 2**62)):
            with pytest.raises(DataError):
                opened.read(offset, count)
    assert store.open_value("absent") is None


def test_unpickled_store_has_same_values(store: Store) -> None:
    """The unpickled store shares the values of the original or copies them."""
    store.put("a/k", b"v")
    again = pickle.loads(pickle.dumps(store))
    assert type(again) is (DirectoryStore if isinstance(store, TempStore) else type(store))
    assert (again.list(), again.get("a/k")) == (["a/k"], b"v")
    assert again.read_only == isinstance(store, ZipStore)  # a Zip file has one writer


def increment(store: Store, count: int) -> None:
    for _ in range(count):
        old = store.get("n")
        while not store.replace("n", b"%d" % (int(old or b"0") + 1), old):
            old = store.get("n")


@pytest.mark.slow
@pytest.mark.parametrize("kind", SHARED)
def test_concurrent_compare_and_set_loses_nothing(kind: str, tmp_path: Path) -> None:
    """Three processes update one value: this one and two that unpickle the store."""
    store = KINDS[kind](tmp_path)
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=increment, args=(store, 40)) for _ in range(2)]
    for process in processes:
        process.start()
    increment(store, 40)
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    store.get("other")  # a cache may return its last value
    assert KINDS[kind](tmp_path).get("n") == b"120"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
def test_forked_child_uses_store(store: Store) -> None:
    """The child reads the parent's value, and writes, reads and lists values."""
    if isinstance(store, ZipStore):
        pytest.skip("a child may not write to the file of its parent: see test_zip_writes.py")
    store.put("a", b"parent" * 100)
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(20)
            store.put("b/c", b"child")
            good = store.get("b/c") == b"child" and store.get("a") == b"parent" * 100
            os._exit(0 if good and store.list() == ["a", "b/c"] else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    store.put("d", b"v")
    assert store.get("a") == b"parent" * 100
