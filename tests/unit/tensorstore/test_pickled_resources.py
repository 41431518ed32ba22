"""Pickles and deep copies of several objects: resources stay shared."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest

import tessarr.tensorstore as ts


def _pair(*, named: bool = False) -> list[ts.TensorStore]:
    """Return two handles of an array in one memory store, which open separately."""
    name = "memory_key_value_store#a" if named else "memory_key_value_store"
    context = ts.Context({name: {}})
    kvstore = {"driver": "memory", "path": "x/", "memory_key_value_store": name}
    spec = {"driver": "zarr3", "kvstore": kvstore}
    array = ts.open(spec, context=context, create=True, dtype="int8", shape=[3]).result()
    return [array, ts.open(spec, context=context).result()]


def _share(value: int, one: ts.TensorStore, other: ts.TensorStore) -> bool:
    """Return whether a write of a new value through `one` is visible in `other`."""
    one[...] = value
    return other.read().result().tolist() == [value] * 3


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_objects_copied_together_share_resources(copied: Any, named: bool) -> None:
    """The copies share no resources with the originals or with other copies."""
    pair = _pair(named=named)
    one, other = copied(pair)
    assert _share(1, one, other)
    assert not _share(2, pair[0], one)
    assert not _share(3, one, copied(other))
    first, second = copied([store.kvstore for store in pair])
    first["k"] = b"1"
    assert second["k"] == b"1"
    pair[0].kvstore["k"] = b"2"
    assert (first["k"], copied(first).list().result()) == (b"1", [])


def test_pickled_views_share_their_array() -> None:
    array = ts.open(
        {"driver": "zarr3", "kvstore": "memory://"}, create=True, dtype="int8", shape=[3]
    ).result()
    again, part = pickle.loads(pickle.dumps([array, array[1:]]))
    again[1] = 9
    assert part.read().result().tolist() == [9, 0]
    store, view = pickle.loads(pickle.dumps([array.kvstore, array]))
    view[...] = 1
    assert store.list().result()


def test_bound_specs_stay_bound_in_pickle() -> None:
    first, other = _pair(named=True)
    bound = [store.spec(retain_context=True) for store in (first, other)]
    again = pickle.loads(pickle.dumps(bound))
    assert repr(again) == repr(bound)
    assert again[0] == again[1] != bound[0]
    places = [spec.kvstore for spec in bound]
    restored = pickle.loads(pickle.dumps([*places, bound[0].kvstore]))
    assert repr(restored[0]) == repr(places[0])
    assert restored[0] == restored[1] != places[0]
    loose = ts.Spec({"driver": "zarr3", "kvstore": places[0]})
    assert repr(pickle.loads(pickle.dumps(first.spec()))) == repr(first.spec())
    assert pickle.loads(pickle.dumps(loose)).to_json() == loose.to_json()


def test_cache_pool_is_shared_within_pickle(tmp_path: Path) -> None:
    context = ts.Context({"cache_pool": {"total_bytes_limit": 1000000}})
    options: dict[str, Any] = {"recheck_cached_data": False, "recheck_cached_metadata": False}
    spec = {"driver": "zarr", "kvstore": tmp_path.as_uri(), **options}
    creation: dict[str, Any] = {"dtype": "int8", "shape": [3]}
    first = ts.open(spec, context=context, create=True, **creation).result()
    pair = pickle.loads(pickle.dumps([first, ts.open(spec, context=context).result()]))
    pair[0][...] = 4
    ts.open(spec, create=True, delete_existing=True, **creation).result()
    assert [store.read().result().tolist() for store in pair] == [[4, 4, 4]] * 2
