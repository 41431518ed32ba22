"""Keys in memory that are no valid file paths: Tessarr and TensorStore accept the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tessarr.tensorstore as ours

theirs = pytest.importorskip("tensorstore", reason="what is made of keys is compared with it")

KEYS = ["", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "a\0b", "a.__lock", "a.__lock/b", "é"]
ACTS: dict[str, Callable[[Any, str], object]] = {
    "read": lambda store, key: store.read(key).result().value,
    "get": lambda store, key: store[key],
    "contains": lambda store, key: key in store,
    "list": lambda store, _: store.list().result(),
    "list behind it": lambda store, key: (store / key).list().result(),
    "list from it": lambda store, key: store.list(store.KeyRange(key)).result(),
    "remove": lambda store, key: store.__delitem__(key),
    "remove behind it": lambda store, key: (store + key).delete_range(store.KeyRange()).result(),
    "remove from it": lambda store, key: store.delete_range(
        store.KeyRange(key, key + "0")
    ).result(),
    "condition": lambda store, key: (
        store.write(key, b"new", if_equal=store.read(key).result().stamp.generation)
        .result()
        .generation
        != b""
    ),
}


def _filled(ts: Any) -> Any:
    store = ts.KvStore.open("memory://").result()
    for key in KEYS:
        store[key] = key + "!"
    return store


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("staged", [False, True])
def test_any_text_is_key_in_memory(act: str, key: str, *, staged: bool) -> None:
    def done(ts: Any) -> tuple[object, dict[bytes, bytes]]:
        store = _filled(ts)
        if staged:
            with ts.Transaction() as transaction:
                result = ACTS[act](store.with_transaction(transaction), key)
        else:
            result = ACTS[act](store, key)
        comparable = sorted(result) if isinstance(result, list) else result
        return comparable, {name: store[name] for name in store.list().result()}

    assert done(ours) == done(theirs)


@pytest.mark.parametrize("path", ["/a/", "/a", "a//b/", "a//", "../", "a/./b/", "", "a"])
@pytest.mark.parametrize("driver", ["zarr3", "zarr2", "json"])
def test_array_keys_start_with_path(driver: str, path: str) -> None:
    def keys(ts: Any) -> tuple[list[bytes], object]:
        context = ts.Context()
        spec = {"driver": driver, "kvstore": {"driver": "memory", "path": path}}
        if driver == "json":
            opened = ts.open(spec, context=context).result()
            opened[...] = 5
        else:
            opened = ts.open(spec, context=context, create=True, dtype="int8", shape=[2]).result()
            opened[:] = 5
            opened = ts.open(spec, context=context).result()
        listed = ts.KvStore.open("memory://", context=context).result().list().result()
        return sorted(listed), opened.read().result().tolist()

    assert keys(ours) == keys(theirs)


def test_copy_of_memory_has_all_its_keys() -> None:
    from pickle import dumps, loads

    from tessarr.stores import MemoryStore

    store = MemoryStore({"": b"1", "a//b": b"2"}, any_keys=True)
    again = loads(dumps(store))
    assert dict(again) == dict(store) == {"": b"1", "a//b": b"2"}
    again.put("..", b"3")
    assert repr(again) == "MemoryStore(any_keys=True)"
    with pytest.raises(ValueError, match="any_keys"):
        MemoryStore(name="keys", any_keys=True)


def test_python_store_keys_are_paths_or_any_text() -> None:
    from pickle import dumps, loads

    from tessarr.stores import ForeignStore

    store = loads(dumps(ForeignStore({"": b"1", "a//b": b"2"}, any_keys=True)))
    assert store.any_keys
    assert sorted(store.list()) == ["", "a//b"]
    assert store.get("") == b"1"
    paths = ForeignStore({"": b"1", "a//b": b"2", "a": b"3"})
    assert paths.list() == ["a"]
    with pytest.raises(ValueError, match="not a key"):
        paths.get("a//b")


@pytest.mark.parametrize("value", [b"new", None])
@pytest.mark.parametrize("key", ["", "b/", "a//b", "/a", "b/../c"])
def test_invalid_file_key_is_refused_with_any_condition(
    key: str, value: bytes | None, tmp_path: Path
) -> None:
    for ts in (ours, theirs):
        store = ts.KvStore.open(f"file://{tmp_path}/").result()
        for generation in ("x", b"", None):
            with pytest.raises(ValueError):
                store.write(key, value, if_equal=generation).result()


def test_range_of_no_keys_of_files_is_refused_at_once(tmp_path: Path) -> None:
    store = ours.KvStore.open(f"file://{tmp_path}/").result() + "a//b"
    with ours.Transaction() as transaction, pytest.raises(ValueError, match="prefix"):
        store.with_transaction(transaction).delete_range(ours.KvStore.KeyRange("b", "c")).result()
