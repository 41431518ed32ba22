"""Contexts: JSON, inheritance, and shared resources."""

from __future__ import annotations

import copy
import pickle
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ts
from tessarr import options
from tessarr.extensions import BytesBytesCodec, deliver, register_codec
from tessarr.tensorstore.context.references import Naming, References


def test_resources_are_inherited() -> None:
    parent = ts.Context(
        {"cache_pool": {"total_bytes_limit": 5000000}, "file_io_concurrency": {"limit": 10}}
    )
    child = ts.Context({"cache_pool": {"total_bytes_limit": 10000000}}, parent=parent)
    assert child.parent is parent
    assert parent["cache_pool"].to_json() == {"total_bytes_limit": 5000000}
    assert child["cache_pool"].to_json() == {"total_bytes_limit": 10000000}
    assert child["file_io_concurrency"] is parent["file_io_concurrency"]
    assert child["data_copy_concurrency"] is parent["data_copy_concurrency"]
    assert child["cache_pool"] is child["cache_pool"]
    assert ts.Context()["cache_pool"] is not ts.Context()["cache_pool"]


def test_named_resource_refers_to_other_resource() -> None:
    context = ts.Context({"cache_pool#a": "cache_pool#b", "cache_pool#b": {"total_bytes_limit": 7}})
    assert context["cache_pool#a"] is context["cache_pool#b"]
    for circle in (
        {"cache_pool": "cache_pool"},
        {"cache_pool": "cache_pool#b", "cache_pool#b": "cache_pool"},
    ):
        with pytest.raises(ValueError, match="cycle"):
            ts.Context(circle)["cache_pool"]
    for circle in ({"cache_pool#a": "cache_pool"}, {"cache_pool#a": "cache_pool#a"}):
        parent = {"cache_pool": "cache_pool#a", "cache_pool#a": "cache_pool"}
        with pytest.raises(ValueError, match="cycle"):
            ts.Context(circle, ts.Context(parent))["cache_pool#a"]
    with pytest.raises(ValueError, match="not defined"):
        context["cache_pool#c"]


def test_name_refers_to_resource_of_parent() -> None:
    parent = ts.Context({"cache_pool": "cache_pool#a", "cache_pool#a": {"total_bytes_limit": 9}})
    child = ts.Context({"cache_pool#a": "cache_pool"}, parent)
    assert child["cache_pool#a"] is child["cache_pool"] is parent["cache_pool#a"]
    assert parent["cache_pool#a"].to_json() == {"total_bytes_limit": 9}


@pytest.mark.parametrize(
    "json",
    [
        None,
        5,
        [],
        "cache_pool",
        {"cache_pool": 5},
        {"cache_pool": {"total_bytes_limit": "x"}},
        {"cache_pool": {"total_bytes_limit": -1}},
        {"cache_pool": {"total_bytes_limit": 2**64}},
        {"cache_pool": {"total_bytes_limit": 0, "other": 1}},
        {"other": {}},
        {"#a": {}},
        {"cache_pool": "data_copy_concurrency"},
        {"data_copy_concurrency": {"limit": 0}},
        {"data_copy_concurrency": {"limit": True}},
        {"file_io_sync": {}},
        {"file_io_mode": {"mode": "x"}},
        {"file_io_locking": {"mode": False}},
        {"file_io_locking": {"acquire_timeout": "soon"}},
        {"aws_credentials": {}},
        {"aws_credentials": {"type": "anonymous", "profile": "x"}},
    ],
)
def test_other_json_is_refused(json: object) -> None:
    with pytest.raises(ValueError, match=r"Expected|extra|Invalid"):
        ts.Context.Spec(json)


def test_defaults_are_left_out() -> None:
    spec = ts.Context.Spec(
        {
            "cache_pool": {"total_bytes_limit": 0},
            "data_copy_concurrency": {"limit": "shared"},
            "file_io_mode": {"mode": "default"},
            "file_io_locking": {"mode": "os", "acquire_timeout": "60s"},
            "s3_request_retries": {"initial_delay": "1s", "max_delay": "90s"},
        }
    )
    assert spec.to_json() == {
        "cache_pool": {},
        "data_copy_concurrency": {},
        "file_io_mode": {},
        "file_io_locking": {},
        "s3_request_retries": {"max_delay": "1m30s"},
    }
    full = spec.to_json(include_defaults=True)
    assert full["cache_pool"] == {"total_bytes_limit": 0}
    assert full["s3_request_retries"] == {
        "initial_delay": "1s",
        "max_delay": "1m30s",
        "max_retries": 32,
    }


def test_pickle_holds_json() -> None:
    context = ts.Context({"cache_pool": {"total_bytes_limit": 3}}, ts.Context({}))
    again = pickle.loads(pickle.dumps(context))
    assert again["cache_pool"].to_json() == {"total_bytes_limit": 3}
    assert again.parent is not None
    spec = ts.Context.Spec({"cache_pool": {}})
    assert pickle.loads(pickle.dumps(spec)).to_json() == spec.to_json()


def test_pickled_resources_stay_identical() -> None:
    parent = ts.Context({"memory_key_value_store#a": {}, "cache_pool": {"total_bytes_limit": 5}})
    context = ts.Context({"cache_pool#b": "cache_pool"}, parent)
    pool, memory = context["cache_pool#b"], context["memory_key_value_store#a"]
    ts.KvStore.open({"driver": "memory", "memory_key_value_store": memory}).result()["k"] = b"1"
    again = pickle.loads(pickle.dumps([pool, context, memory, parent]))
    assert again[1]["cache_pool#b"] is again[0] is again[3]["cache_pool"] is not pool
    assert again[1]["memory_key_value_store#a"] is again[2]
    spec = {"driver": "memory", "memory_key_value_store": again[2]}
    assert ts.KvStore.open(spec).result().list().result() == []
    assert pickle.loads(pickle.dumps(ts.Context()))["cache_pool"].to_json() == {}


def test_deep_copied_memory_store_is_separate() -> None:
    store = ts.KvStore.open("memory://x/").result()
    store["k"] = b"1"
    other = copy.deepcopy(store)
    assert (other.path, other.list().result(), copy.copy(store)["k"]) == ("x/", [], b"1")


def test_absent_optional_resource_is_not_bound() -> None:
    kinds = {"cache_pool": "cache_pool", "metadata_cache_pool": "cache_pool"}
    optional = frozenset({"metadata_cache_pool"})
    json = {"cache_pool": "cache_pool#a"}
    result = References.parse(kinds, json, optional)
    assert not json
    bound = result.bind(ts.Context({"cache_pool#a": {"total_bytes_limit": 1}}))
    assert set(bound.values) == {"cache_pool"}
    naming = Naming([bound])
    assert bound.json(naming) == {"cache_pool": "cache_pool#a"}
    assert naming.context() == {"cache_pool#a": {"total_bytes_limit": 1}}


class Tally:
    """A counter of the maximum of concurrent calls."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self._lock = threading.Lock()

    def work(self) -> None:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(0.001)
        with self._lock:
            self.now -= 1


working = Tally()


@register_codec
@dataclass(frozen=True)
class Slow(BytesBytesCodec):
    """A slow codec that counts its concurrent calls."""

    name = "test.slow"

    def encode(self, data: Any) -> Any:
        working.work()
        return np.frombuffer(data, "u1").copy()

    def decode(self, data: Any, out: Any = None) -> Any:
        working.work()
        return deliver(np.frombuffer(data, "u1"), out)


@pytest.mark.parametrize("driver", ["memory", "file"])
@pytest.mark.parametrize("limit", [1, 2])
def test_data_copy_limit_bounds_concurrent_codecs(driver: str, limit: int, tmp_path: Path) -> None:
    """The limit applies to all arrays that share the resource, and in transactions, too."""
    context = ts.Context({"data_copy_concurrency": {"limit": limit}})
    arrays = [
        ts.open(
            {"driver": "zarr3", "kvstore": {"driver": driver, "path": f"{tmp_path}/{name}/"}},
            create=True,
            dtype="int64",
            shape=[400_000],
            chunk_layout=ts.ChunkLayout(read_chunk_shape=[10_000], write_chunk_shape=[50_000]),
            codec=ts.CodecSpec({"driver": "zarr3", "codecs": SHARDS}),
            context=context,
        ).result()
        for name in "ab"
    ]
    values = np.arange(400_000)
    with options(threads=4):
        working.most = 0
        for future in [array.write(values) for array in arrays]:
            future.result()
        assert working.most == limit
        for future in [array.read() for array in arrays]:
            assert (future.result() == values).all()
        arrays[0][15_000:35_000] = 0
        with ts.Transaction() as transaction:
            arrays[1].with_transaction(transaction)[15_000:35_000] = 0
        assert working.most == limit
        assert arrays[1][34_999:35_001].read().result().tolist() == [0, 35_000]


SHARDS = [{"name": "sharding_indexed", "configuration": {"codecs": ["bytes", "test.slow"]}}]


def test_file_options_of_context_reach_store(tmp_path: Path) -> None:
    """File options reach the opened store, and other options do not."""
    json = {
        "file_io_concurrency": {"limit": 3},
        "file_io_locking": {"mode": "lockfile", "acquire_timeout": "20ms"},
        "file_io_mode": {"mode": "memmap"},
        "file_io_retries": {"max_retries": 2, "initial_delay": "1ms", "max_delay": "1ms"},
        "file_io_sync": False,
    }
    spec = {"driver": "zarr3", "kvstore": f"file://{tmp_path}/"}
    context = ts.Context(json)
    array = ts.open(
        spec, create=True, dtype="int32", shape=[100], chunk_layout=CHUNKS, context=context
    ).result()
    array[:] = np.arange(100, dtype="int32")
    assert array.read().result().tolist() == list(range(100))
    (tmp_path / "c" / "0.__lock").write_bytes(b"")
    with pytest.raises(OSError, match="remove the lock file"):
        array[3].write(1).result()
    assert ts.open(spec).result()[3].write(1).result() is None  # by default, the system locks
    (tmp_path / "c" / "1.__lock").write_bytes(b"")
    free = ts.Context({"file_io_locking": {"mode": "none"}})
    ts.open(spec, context=free).result()[13].write(1).result()
    assert (tmp_path / "c" / "1.__lock").exists()
    number = (tmp_path / "c" / "2").stat().st_ino
    in_place = ts.Context({"file_io_locking": {"mode": "non_atomic"}})
    ts.open(spec, context=in_place).result()[23].write(1).result()
    assert (tmp_path / "c" / "2").stat().st_ino == number
    assert ts.open(spec).result()[3:33:10].read().result().tolist() == [1, 1, 1]


CHUNKS = ts.ChunkLayout(chunk_shape=[10])
