"""Specs of contexts and of key-value stores: results or errors match TensorStore's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tessarr.tensorstore as ours

theirs = pytest.importorskip("tensorstore", reason="the specs are compared with TensorStore's")

FILE_LOCK = {"acquire_timeout": "5s", "mode": "lockfile"}
RETRIES = {"max_retries": 3, "initial_delay": "1s", "max_delay": "3s"}

CONTEXTS: list[Any] = [
    {},
    None,
    5,
    [],
    "cache_pool",
    {"cache_pool": {}},
    {"cache_pool": 5},
    {"cache_pool": None},
    {"cache_pool": "cache_pool#a"},
    {"cache_pool#a": "cache_pool"},
    {"cache_pool": "cache_pool"},
    {"cache_pool#": {}},
    {"#a": {}},
    {"cache_pool#a": "data_copy_concurrency"},
    *({"cache_pool": {"total_bytes_limit": value}} for value in (0, 5.0, 5.5, -1, True, "x")),
    {"cache_pool": {"total_bytes_limit": 0, "foo": 1}},
    {"nope": {}},
    *({"data_copy_concurrency": {"limit": value}} for value in ("shared", 0, 3, None, "x")),
    *({"file_io_sync": value} for value in (True, False, {}, 1)),
    *({"file_io_mode": {"mode": value}} for value in ("default", "memmap", "direct", "x", 1)),
    *({"file_io_locking": {"mode": value}} for value in ("os", "lockfile", "none", "x", False)),
    {"file_io_locking": FILE_LOCK},
    *(
        {"file_io_locking": {"mode": "lockfile", "acquire_timeout": value}}
        for value in ("60s", "90s", "1h30m", "1.5s", "250ms", "0.25s", "1ns", "1us", "x", "1", 5)
    ),
    {"file_io_retries": {}},
    {"file_io_retries": {"max_retries": 3}},
    {"memory_key_value_store": {}},
    {"memory_key_value_store": {"a": 1}},
    {"gcs_user_project": {"project_id": "x"}},
    {"s3_request_retries": RETRIES},
    {"http_request_retries": RETRIES},
    {"s3_request_concurrency": {"limit": 8}},
    {"aws_credentials": {"type": "anonymous"}},
    {"aws_credentials": {"type": "other"}},
    {"aws_credentials": {}},
]

KVSTORES: list[Any] = [
    5,
    None,
    {},
    {"driver": "memory"},
    {"driver": "memory", "path": "abc/"},
    {"driver": "memory", "path": 5},
    {"driver": "memory", "extra": 1},
    {"driver": "memory", "atomic": False},
    {"driver": "memory", "atomic": True},
    {"driver": "memory", "atomic": 3},
    *(
        {"driver": "memory", "memory_key_value_store": value}
        for value in ({}, None, {"a": 1}, "cache_pool", "memory_key_value_store#a", 5)
    ),
    {"driver": "file"},
    {"driver": "file", "path": "a b/ü/%"},
    *({"driver": "file", "path": value} for value in ("a//b", "../a", "a/./b", "/", "/a", "a/..")),
    {"driver": "file", "path": "/tmp/x", "file_io_sync": False},
    {"driver": "file", "path": "/tmp/x", "file_io_concurrency": {"limit": 3}},
    {"driver": "file", "path": "/tmp/x", "file_io_locking": FILE_LOCK},
    {"driver": "file", "path": "/tmp/x", "file_io_mode": {"mode": "memmap"}},
    {
        "driver": "file",
        "path": "/tmp/x",
        "file_io_concurrency": "file_io_concurrency#x",
        "context": {"file_io_concurrency#x": {"limit": 5}},
    },
    {"driver": "file", "path": "/tmp/x", "context": {"cache_pool": {"total_bytes_limit": 1}}},
    {"driver": "file", "path": "/tmp/x", "context": {"other": {}}},
    {"driver": "nope"},
    {"driver": 5},
    {"path": "x"},
    {"driver": "zip"},
    {"driver": "zip", "base": "memory://"},
    {"driver": "zip", "base": "memory://a.zip", "path": "x"},
    {"driver": "http"},
    {"driver": "http", "base_url": "http://h/p", "path": "x"},
    {"driver": "s3"},
    {"driver": "s3", "bucket": "bb1", "path": "x"},
    {"driver": "s3", "bucket": "b", "path": "x"},
    {"driver": "gcs", "bucket": "my-bucket", "path": "x"},
    {"driver": "gcs", "bucket": "b"},
    {"driver": "gcs"},
    "memory:",
    "memory://",
    "memory://a/b",
    "memory://%41",
    "memory://abc?x",
    "memory://abc#x",
    "file:///a%20b/",
    "file://a/b",
    "file:///a?x",
    "file:///a/x.zip|zip:inner",
    "file:///a/x.zip|zip",
    "file:///a|zarr3:",
    "/tmp/x",
    "",
    "foo://x",
    "s3://bucket/a b",
    "s3://b/p",
    "gs://my-bucket/p",
    "gs://b/p",
    "http://h/p?q=1",
    "https://h:80/p",
]


def same(work: Callable[[Any], Any]) -> None:
    """Assert that `work` has equal results, or raises errors of the same class."""
    results = []
    for ts in (ours, theirs):
        try:
            results.append(work(ts))
        except (ValueError, NotImplementedError):
            results.append("refused")
    assert results[0] == results[1]


@pytest.mark.parametrize("json", CONTEXTS, ids=repr)
def test_contexts(json: Any) -> None:
    same(lambda ts: repr(ts.Context.Spec(json)))
    same(lambda ts: ts.Context.Spec(json).to_json())
    same(lambda ts: ts.Context.Spec(json).to_json(include_defaults=True))
    if isinstance(json, dict):
        same(lambda ts: [ts.Context(json)[key].to_json() for key in json])
        same(lambda ts: [ts.Context(json)[key].to_json(include_defaults=True) for key in json])


@pytest.mark.parametrize("json", KVSTORES, ids=repr)
def test_key_value_stores(json: Any) -> None:
    same(lambda ts: ts.KvStore.Spec(json).to_json())
    same(lambda ts: ts.KvStore.Spec(json).to_json(include_defaults=True))
    same(lambda ts: ts.KvStore.Spec(json).url)
    same(lambda ts: ts.KvStore.Spec(json).path)
    same(lambda ts: (ts.KvStore.Spec(json) / "x").to_json())
    same(lambda ts: (ts.KvStore.Spec(json) + "x").to_json())


@pytest.mark.parametrize("path", ["", "s", "s/", "/s"])
@pytest.mark.parametrize("more", ["", "t", "/t", "t/"])
def test_paths(path: str, more: str) -> None:
    json = {"driver": "memory", "path": path}
    same(lambda ts: (ts.KvStore.Spec(json) / more).path)
    same(lambda ts: (ts.KvStore.Spec(json) + more).path)


@pytest.mark.parametrize("number", range(40, 100, 3))
def test_lines_are_broken_equally(number: int) -> None:
    json = {"cache_pool#" + "a" * number: {}, "file_io_locking": FILE_LOCK, "file_io_sync": False}
    same(lambda ts: repr(ts.Context.Spec(json)))
