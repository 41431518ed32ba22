"""Resources in specs of every store: binding, unbinding and removal match TensorStore."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import tessarr.tensorstore as ours

theirs = pytest.importorskip("tensorstore", reason="what is told of resources is compared with it")

STORES: dict[str, dict[str, Any]] = {
    "memory": {"driver": "memory", "path": "a/"},
    "file": {"driver": "file", "path": "/a/"},
    "s3": {"driver": "s3", "bucket": "abc", "path": "a/"},
    "gcs": {"driver": "gcs", "bucket": "abc", "path": "a/"},
    "http": {"driver": "http", "base_url": "http://a", "path": "/a/"},
    "zip": {"driver": "zip", "base": {"driver": "memory", "path": "a.zip"}},
    "kvstack": {"driver": "kvstack", "layers": [{"base": "memory://a/"}]},
}
RESOURCES: dict[str, Any] = {
    "cache_pool": {"total_bytes_limit": 7},
    "data_copy_concurrency": {"limit": 3},
    "memory_key_value_store": {},
    "file_io_concurrency": {"limit": 2},
    "file_io_sync": False,
    "file_io_locking": {"mode": "none"},
    "file_io_mode": {"mode": "memmap"},
    "file_io_retries": {"max_retries": 3},
    "s3_request_concurrency": {"limit": 4},
    "s3_request_retries": {"max_retries": 2},
    "aws_credentials": {"type": "anonymous"},
    "experimental_s3_rate_limiter": {"read_rate": 5},
    "gcs_request_concurrency": {"limit": 4},
    "gcs_request_retries": {"max_retries": 3},
    "gcs_user_project": {"project_id": "x"},
    "experimental_gcs_rate_limiter": {"read_rate": 5},
    "http_request_concurrency": {"limit": 4},
    "http_request_retries": {"max_retries": 3},
}
CHANGES: list[dict[str, bool]] = [{}, {"unbind_context": True}, {"strip_context": True}]
RETAIN_OPTIONS: list[dict[str, bool]] = [
    {},
    {"retain_context": True},
    {"unbind_context": True},
    {"retain_context": True, "unbind_context": True},
]


def _changed(ts: Any, spec: Any, context: Any) -> list[Any]:
    """Return the JSON of a spec, bound or unbound, after each change."""
    results = []
    for change in CHANGES:
        changed = spec.copy()
        if context is not None:
            changed.update(context=ts.Context(context))
        changed.update(**change)
        results += [changed.to_json(), changed.to_json(include_defaults=True), repr(changed)]
        results.append(pickle.loads(pickle.dumps(changed)).to_json())
    return results


def _opened(ts: Any, location: Any, context: Any) -> list[Any]:
    """Return the JSON of an open store, and of an array in it."""
    opened = ts.Context(context)
    store = ts.KvStore.open(location, context=opened).result()
    spec = {
        "driver": "zarr3",
        "kvstore": location,
        "metadata": {"data_type": "int8", "shape": [2]},
        "assume_metadata": True,
    }
    array = ts.open(spec, context=opened).result()
    again = pickle.loads(pickle.dumps(array))
    results = [repr(store), repr(array), again.spec(retain_context=True).to_json()]
    for retained in RETAIN_OPTIONS:
        results += [repr(store.spec(**retained)), repr(array.spec(**retained))]
    return results


def _pairs() -> list[tuple[str, str]]:
    """Return the resources that each store uses, and a resource that only arrays use."""
    return [
        (store, resource)
        for store, location in STORES.items()
        for resource in RESOURCES
        if resource in {*ours.KvStore.Spec(location).to_json(include_defaults=True), "cache_pool"}
    ]


@pytest.mark.parametrize(("store", "resource"), _pairs())
def test_resources_are_described_equally(
    store: str, resource: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_GCE_CHECK", "true")  # no request for credentials
    location, value = STORES[store], RESOURCES[resource]
    contexts: list[Any] = [{}, {resource: value}]
    cases = [(location, context) for context in contexts]
    if resource in ours.KvStore.Spec(location).to_json(include_defaults=True):
        named = {**location, resource: f"{resource}#a"}
        cases += [(named, {f"{resource}#a": value}), ({**location, resource: value}, {})]
    cases += [({**location, "context": {resource: value}}, context) for context in contexts]
    for json, context in cases:

        def describe(ts: Any, json: Any = json, context: Any = context) -> Any:
            of_array = {"driver": "zarr3", "kvstore": json}
            return [
                *_changed(ts, ts.KvStore.Spec(json), None),
                *_changed(ts, ts.KvStore.Spec(json), context),
                *_changed(ts, ts.Spec(of_array), None),
                *_changed(ts, ts.Spec(of_array), context),
            ]

        assert describe(ours) == describe(theirs), (json, context)
    json, context = cases[-1]
    assert _opened(ours, json, context) == _opened(theirs, json, context)


@pytest.mark.parametrize("resource", RESOURCES)
@pytest.mark.parametrize("is_explicit", [True, False], ids=["stated", "by default"])
def test_pickled_resource_stays_in_its_context(
    resource: str,
    is_explicit: bool,
) -> None:
    def is_same(ts: Any) -> bool:
        context = ts.Context({resource: RESOURCES[resource]} if is_explicit else {})
        again, restored = pickle.loads(pickle.dumps((context, context[resource])))
        return bool(again[resource] == restored)

    assert is_same(ours)
    assert is_same(theirs)
