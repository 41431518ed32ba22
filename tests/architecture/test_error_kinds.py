"""Every kind of error is raised by a user action."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr import codecs, errors, stores
from tessarr.format.registry import Registry
from tessarr.store import ForeignStore

DOCUMENT: dict[str, Any] = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [6],
    "data_type": "int16",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [3]}},
    "chunk_key_encoding": {"name": "default"},
    "fill_value": 0,
    "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
}

ZSTD = {"name": "zstd", "configuration": {"level": 1, "checksum": False}}


def opened(change: dict[str, Any], *without: str, chunk: bytes | None = None) -> tessarr.Array:
    """Open an array whose metadata document differs in some members."""
    document = {name: value for name, value in (DOCUMENT | change).items() if name not in without}
    items = {"zarr.json": json.dumps(document).encode()}
    if chunk is not None:
        items["c/0"] = chunk
    return tessarr.open_array(stores.MemoryStore(items), mode="r")


def array() -> tessarr.Array:
    return tessarr.create_array(stores.MemoryStore(), shape=(6,), dtype="i2", chunks=(3,))


def obstructed() -> tessarr.Array:
    """Return an array with a file at the path of its chunk folder."""
    folder = Path(tempfile.mkdtemp())
    array = tessarr.create_array(folder, shape=(6,), dtype="i2", chunks=(3,))
    (folder / "c").touch()
    return array


def plugged() -> Any:
    """Look up a codec whose package cannot be imported."""
    registry = Registry[Any]("codec", "tessarr.nothing")
    registry._entry_points = {"wonder": EntryPoint("wonder", "no_such_module:Wonder", "tessarr")}
    return registry.find("wonder")


def replaced() -> Any:
    """Open a value that a cache knows only by its existence; replace it."""
    cache = stores.LRUStoreCache(stores.LocalStore(tempfile.mkdtemp()), max_size=1000)
    cache.put("k", bytes(2000))
    cache.open_value("k")
    value = cache.open_value("k")
    cache.put("k", bytes(2001))
    return value


def outrun() -> None:
    """Commit a transaction whose read precondition no longer holds."""
    from tessarr.tensorstore import KvStore, Transaction

    store = KvStore.open("memory://").result()
    transaction = Transaction(repeatable_read=True)
    assert "a" not in store.with_transaction(transaction)
    store["a"] = b"1"
    transaction.commit_sync()


def unanswered() -> None:
    """Make a change whose response is lost."""

    class Lossy(dict[str, bytes]):
        def put(self, key: str, data: bytes) -> None:
            raise NotImplementedError

        delete = list = put

        def replace(self, key: str, data: bytes, expected: bytes | None) -> bool:
            self[key] = data
            raise errors.StoreError("lost", kind="answer_lost")

    ForeignStore(Lossy()).replace("k", b"1", None)


def group(**members: str) -> tessarr.Group:
    root = tessarr.create_group(stores.MemoryStore())
    for name, kind in members.items():
        if kind == "array":
            root.create_array(name, shape=(2,), dtype="i1")
        else:
            root.create_group(name)
    return root


CASES: dict[str, Callable[[], Any]] = {
    "node_not_found": lambda: tessarr.open(stores.MemoryStore(), mode="r"),
    "array_not_found": lambda: tessarr.open_array(group(a="group").store, path="a", mode="r"),
    "group_not_found": lambda: tessarr.open_group(group(a="array").store, path="a", mode="r"),
    "attribute_not_found": lambda: group().attrs["units"],
    "consolidated_not_found": lambda: tessarr.open_consolidated(group().store),
    "node_exists": lambda: tessarr.create_group(group().store),
    "invalid_metadata": lambda: opened({"shape": None}),
    "invalid_json": lambda: tessarr.open(stores.MemoryStore({"zarr.json": b"{"}), mode="r"),
    "missing_member": lambda: opened({}, "shape"),
    "unknown_member": lambda: opened({"novelty": 1}),
    "wrong_type": lambda: opened({"shape": "six"}),
    "invalid_value": lambda: opened({"shape": [-6]}),
    "mismatch": lambda: opened({"shape": [6, 6]}),
    "too_large": lambda: opened({"shape": [2**64]}),
    "unsupported_format": lambda: opened({"zarr_format": 4}),
    "unsupported_data_type": lambda: opened({"data_type": "quaternion"}),
    "unsupported_codec": lambda: opened({"codecs": [{"name": "bytes"}, {"name": "wonder"}]}),
    "unsupported_chunk_grid": lambda: opened({"chunk_grid": {"name": "hexagonal"}}),
    "unsupported_chunk_key_encoding": lambda: opened({"chunk_key_encoding": {"name": "hashed"}}),
    "unsupported_storage_transformer": lambda: opened({"storage_transformers": [{"name": "x"}]}),
    "no_equivalent": lambda: tessarr.convert(array().store, to=2),
    "missing_package": plugged,
    "invalid_selection": lambda: array()["one"],
    "out_of_bounds": lambda: array()[6],
    "out_of_memory": lambda: tessarr.zeros(2**50, chunks=64, store={})[:],
    "too_many_indices": lambda: array()[0, 0],
    "invalid_argument": lambda: tessarr.options(threads=-1),
    "invalid_path": lambda: group()["../outside"],
    "no_such_axis": lambda: array().lazy.transpose(1),
    "shape_mismatch": lambda: array().__setitem__(slice(4), np.zeros(3)),
    "cannot_cast": lambda: array().__setitem__(0, "many"),
    "not_json": lambda: array().attrs.update(a=object()),
    "bad_data": lambda: opened({"codecs": [*DOCUMENT["codecs"], ZSTD]}, chunk=b"not zstd")[0],
    "checksum_mismatch": lambda: codecs.Crc32c().decode(b"12345678"),
    "wrong_size": lambda: opened({}, chunk=b"abc")[0],
    "store_failed": lambda: obstructed().__setitem__(0, 1),
    "access_denied": lambda: stores.LocalStore("/sys").put("tessarr", b""),
    "value_replaced": lambda: replaced().read(0, 1),
    "answer_lost": unanswered,
    "conflict": outrun,
    "read_only": lambda: opened({}).__setitem__(0, 1),
}


@pytest.mark.parametrize("kind", CASES)
def test_kind_is_raised(kind: str) -> None:
    with pytest.raises(errors.TessarrError) as caught:
        CASES[kind]()
    error = caught.value
    kinds = {error.kind, *(problem.kind for problem in getattr(error, "problems", ()))}
    assert kind in kinds, repr(error)


GENERAL = {"not_found", "exists", "unsupported"}  # a more specific kind always applies


def test_every_kind_is_tested() -> None:
    """The table covers every kind except "internal", which no action may raise."""
    assert set(errors.KINDS) - set(CASES) == GENERAL | {"internal"}
    classes = [c for c in vars(errors).values() if isinstance(c, type)]
    defaults = {c.default_kind for c in classes if issubclass(c, errors.TessarrError)}
    assert defaults >= GENERAL
