"""Contexts: JSON, inheritance, and what shares what."""

from __future__ import annotations

import pickle

import pytest

import tessarr.tensorstore as ts
from tessarr.tensorstore.context import Naming, References


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


def test_names_refer_to_others() -> None:
    context = ts.Context({"cache_pool#a": "cache_pool#b", "cache_pool#b": {"total_bytes_limit": 7}})
    assert context["cache_pool#a"] is context["cache_pool#b"]
    for circle in (
        {"cache_pool": "cache_pool"},
        {"cache_pool": "cache_pool#b", "cache_pool#b": "cache_pool"},
    ):
        with pytest.raises(ValueError, match="cycle"):
            ts.Context(circle)["cache_pool"]
    with pytest.raises(ValueError, match="not defined"):
        context["cache_pool#c"]


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


def test_a_pickle_holds_the_json() -> None:
    context = ts.Context({"cache_pool": {"total_bytes_limit": 3}}, ts.Context({}))
    again = pickle.loads(pickle.dumps(context))
    assert again["cache_pool"].to_json() == {"total_bytes_limit": 3}
    assert again.parent is not None
    spec = ts.Context.Spec({"cache_pool": {}})
    assert pickle.loads(pickle.dumps(spec)).to_json() == spec.to_json()


def test_a_pool_that_may_be_absent() -> None:
    kinds = {"cache_pool": "cache_pool", "metadata_cache_pool": "cache_pool"}
    optional = frozenset({"metadata_cache_pool"})
    json = {"cache_pool": "cache_pool#a"}
    found = References.parse(kinds, json, optional)
    assert not json
    bound = found.bind(ts.Context({"cache_pool#a": {"total_bytes_limit": 1}}))
    assert set(bound.values) == {"cache_pool"}
    naming = Naming()
    for one in bound.resources():
        naming.see(one)
    assert bound.json(naming) == {"cache_pool": "cache_pool#a"}
    assert naming.context() == {"cache_pool#a": {"total_bytes_limit": 1}}
