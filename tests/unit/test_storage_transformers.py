"""Storage transformers as in ZEP 1: for keys, for values, and for both."""

from __future__ import annotations

import json
import pickle
import threading
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr.errors import ArgumentError, DataError, MetadataError, UnsupportedError
from tessarr.extensions import ChunkStore, Members, StorageTransformer, register_transformer
from tessarr.store import MemoryStore
from tessarr.store.wrappers.instrumented import CountingStore


@register_transformer
@dataclass(frozen=True)
class Spread(StorageTransformer):
    """A transformer that stores chunks under prefixes derived from their keys."""

    name = "tests.spread"
    digits: int = 2

    @classmethod
    def from_json(cls, configuration: Members) -> Spread | None:
        digits = configuration.integer("digits", 1, 8, 2)
        configuration.done()
        return None if digits is None else cls(digits)

    def to_json(self) -> Any:
        return {"name": self.name, "configuration": {"digits": self.digits}}

    def key(self, key: str) -> str:
        return f"{zlib.crc32(key.encode()):08x}"[-self.digits :] + "/" + key

    def original(self, key: str) -> str | None:
        return key[self.digits + 1 :]


@register_transformer
@dataclass(frozen=True)
class Summed(StorageTransformer):
    """A transformer that adds a checksum to each value."""

    name = "tests.summed"

    @classmethod
    def from_json(cls, configuration: Members) -> Summed:
        configuration.done()
        return cls()

    def to_json(self) -> Any:
        return {"name": self.name}

    def encode(self, data: bytes) -> bytes:
        return data + zlib.crc32(data).to_bytes(4, "little")

    def decode(self, data: bytes) -> bytes:
        if zlib.crc32(data[:-4]).to_bytes(4, "little") != data[-4:]:
            raise DataError("the sum of a stored value is another")
        return data[:-4]


class Packed:
    """All values in one document: pairs of key and value as JSON."""

    def __init__(self, store: ChunkStore) -> None:
        self._store = store
        self._lock = threading.RLock()

    def _items(self) -> dict[str, str]:
        packed = self._store.get("pack")
        return {} if packed is None else json.loads(packed)

    def get(self, key: str) -> bytes | None:
        result = self._items().get(key)
        return None if result is None else bytes.fromhex(result)

    def put(self, key: str, data: bytes) -> None:
        with self._lock:
            self._store.put("pack", json.dumps({**self._items(), key: data.hex()}).encode())

    def delete(self, key: str) -> None:
        with self._lock:
            items = self._items()
            if items.pop(key, None) is not None:
                self._store.put("pack", json.dumps(items).encode())

    def list(self, prefix: str) -> list[str]:
        return [key for key in self._items() if key.startswith(prefix)]


@register_transformer
@dataclass(frozen=True)
class OneValue(StorageTransformer):
    """A transformer that stores all chunks in one value."""

    name = "tests.one_value"

    @classmethod
    def from_json(cls, configuration: Members) -> OneValue:
        configuration.done()
        return cls()

    def to_json(self) -> Any:
        return {"name": self.name}

    def transform(self, store: ChunkStore) -> Packed:
        return Packed(store)


ALL = {
    "keys": [Spread()],
    "values": [Summed()],
    "both": [Spread(3), Summed()],
    "the other way round": [Summed(), Spread(3)],
    "one value": [OneValue()],
    "one value with a sum": [OneValue(), Summed(), Spread()],
    "sums in one value": [Spread(), Summed(), OneValue()],
}


@pytest.mark.parametrize("transformers", ALL.values(), ids=ALL.keys())
@pytest.mark.parametrize("shards", [None, (4, 4)])
def test_array_with_transformer_equals_array_without(
    store: Any, transformers: Any, shards: Any
) -> None:
    """The test writes, writes in parts, reads, resizes, appends, measures and opens again."""
    a = tessarr.create_array(
        store,
        path="g/a",
        shape=(6, 7),
        dtype="i4",
        chunks=(2, 2),
        shards=shards,
        fill_value=-1,
        storage_transformers=transformers,
    )
    values = np.arange(42, dtype="i4").reshape(6, 7)
    a[:] = values
    a[1:3, 1] = values[1:3, 1] = 99
    again = tessarr.open_array(store, path="g/a")
    assert list(again.metadata.storage_transformers) == transformers
    np.testing.assert_array_equal(again[:], values)
    assert again.nchunks_initialized == again.nchunks
    assert again.append(values[:1]) == (7, 7)
    np.testing.assert_array_equal(again[6], values[0])
    a.resize(3, 3)
    np.testing.assert_array_equal(a[:], values[:3, :3])
    assert a.nchunks_initialized == (4 if shards is None else a.nchunks)
    a.resize(6, 7)
    assert (a[3:] == -1).all()
    a[:] = -1
    assert a.nchunks_initialized == 0
    assert a.attrs.asdict() == {}
    assert tessarr.open_group(store)["g/a"] == a


def test_transformer_locations_of_chunks_and_documents() -> None:
    a = tessarr.create_array(
        None,
        path="x",
        shape=3,
        dtype="u1",
        chunks=3,
        compressors=None,
        serializer="bytes",
        storage_transformers=[Spread(), Summed()],
    )
    a[:] = [1, 2, 3]
    (key,) = [key for key in a.store.list("x/") if not key.endswith("json")]
    assert key == "x/" + Spread().key("c/0")
    assert a.store.get(key) == Summed().encode(bytes([1, 2, 3]))
    assert json.loads(a.store.get("x/zarr.json") or b"")["storage_transformers"] == [
        {"name": "tests.spread", "configuration": {"digits": 2}},
        {"name": "tests.summed"},
    ]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(a))[:], [1, 2, 3])


def test_transformer_damage_names_key() -> None:
    a = tessarr.create_array(
        None, shape=3, dtype="u1", storage_transformers=["tests.summed"], compressors=None
    )
    a[:] = 1
    a.store.put("c/0", b"\1\1\1nope")
    with pytest.raises(DataError, match="sum of a stored value") as caught:
        a[:]
    assert "c/0" in " ".join([str(caught.value), *getattr(caught.value, "__notes__", [])])


def test_partial_read_of_renamed_value_works() -> None:
    """With two transformers that only change keys, reads of shard parts still work."""
    store = CountingStore(MemoryStore())
    a = tessarr.create_array(
        store, shape=1 << 16, dtype="u1", chunks=1 << 8, shards=1 << 16, compressors=None,
        storage_transformers=[Spread(2), Spread(3)],
    )  # fmt: skip
    a[:] = np.arange(1 << 16) % 251
    before = store.counts()["read_bytes"]
    assert a[70_00] == 70_00 % 251
    assert store.counts()["read_bytes"] - before < 1 << 13


def test_failed_append_leaves_nothing() -> None:
    class Failing(dict[str, bytes]):
        full = False

        def __setitem__(self, key: str, value: bytes) -> None:
            if self.full and key.endswith("c/2"):
                raise OSError("full")
            super().__setitem__(key, value)

    items = Failing()
    a = tessarr.create_array(items, shape=2, dtype="u1", chunks=1, storage_transformers=[Spread()])
    a[:] = 7
    before = dict(items)
    items.full = True
    with pytest.raises(OSError, match="full"):
        a.append([1, 2])
    assert items == before
    assert a.shape == (2,)


def test_concurrent_threads_lose_no_update() -> None:
    a = tessarr.create_array(
        None, shape=64, dtype="u1", chunks=64, storage_transformers=[Spread(), Summed()]
    )
    threads = [threading.Thread(target=a.__setitem__, args=(n, n + 1)) for n in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(a[:], np.arange(1, 65))


@dataclass(frozen=True)
class Overwriting(Spread):
    name = "tests.overwriting"

    def key(self, key: str) -> str:
        return "zarr.json"


def test_transformer_does_not_see_metadata() -> None:
    a = tessarr.create_array(None, shape=3, dtype="u1", storage_transformers=[Overwriting()])
    before = a.store.get("zarr.json")
    with pytest.raises(ArgumentError, match="metadata"):
        a[:] = 1
    assert a.store.get("zarr.json") == before


def make_documents(*transformers: Any) -> dict[str, bytes]:
    a = tessarr.create_array(None, shape=3, dtype="u1")
    document = json.loads(a.store.get("zarr.json") or b"")
    document["storage_transformers"] = list(transformers)
    return {"zarr.json": json.dumps(document).encode()}


def test_unknown_transformer_raises() -> None:
    with pytest.raises(UnsupportedError, match=r"'x\.cache' is not supported") as caught:
        tessarr.open_array(make_documents({"name": "x.cache"}))
    assert caught.value.kind == "unsupported_storage_transformer"
    assert caught.value.extension == "x.cache"
    with pytest.raises(MetadataError) as broken:
        tessarr.open_array(make_documents({"name": "tests.spread", "configuration": {"digits": 9}}))
    assert broken.value.problems[0].loc == "/storage_transformers/0/configuration/digits"
    with pytest.raises(ArgumentError, match="format 2"):
        tessarr.create_array(
            None, shape=3, dtype="u1", zarr_format=2, storage_transformers=[Spread()]
        )


def test_optional_unknown_transformer_survives() -> None:
    document = {"name": "x.cache", "configuration": {"a": [1]}, "must_understand": False}
    items = make_documents(document, "tests.spread")
    a = tessarr.open_array(items)
    a[:] = [1, 2, 3]
    a.attrs["x"] = 1
    a.resize(5)
    again = json.loads(items["zarr.json"])
    assert again["storage_transformers"] == [document, "tests.spread"]
    assert tessarr.open_array(items)[:].tolist() == [1, 2, 3, 0, 0]
    assert Spread().key("c/0") in items
