"""Objects are to Python what TensorStore's are: their attributes, references to them, copies."""

from __future__ import annotations

import copy
import operator
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import tessarr.tensorstore as ours

theirs = pytest.importorskip("tensorstore", reason="the package tensorstore is absent")

_BOTH = pytest.mark.parametrize("ts", [ours, theirs], ids=["ours", "theirs"])
_OBJECTS: dict[str, Callable[[Any], Any]] = {
    "ChunkLayout": lambda ts: ts.ChunkLayout(rank=2),
    "ChunkLayout.Grid": lambda ts: ts.ChunkLayout.Grid(rank=2),
    "CodecSpec": lambda ts: ts.CodecSpec({"driver": "zarr3"}),
    "Context": lambda ts: ts.Context(),
    "Context.Resource": lambda ts: ts.Context()["cache_pool"],
    "Context.Spec": lambda ts: ts.Context.Spec({}),
    "KvStore": lambda ts: ts.KvStore.open("memory://").result(),
    "KvStore.Spec": lambda ts: ts.KvStore.Spec("memory://"),
    "OpenMode": lambda ts: ts.OpenMode(open=True),
    "Promise": lambda ts: ts.Promise.new()[0],
    "Schema": lambda ts: ts.Schema(rank=2),
    "Spec": lambda ts: ts.Spec({"driver": "zarr3"}),
    "TensorStore": lambda ts: ts.array([1]),
    "Transaction": lambda ts: ts.Transaction(),
    "dtype": lambda ts: ts.dtype("int8"),
}


@_BOTH
@pytest.mark.parametrize("name", _OBJECTS)
def test_objects_have_no_attributes_of_others(ts: Any, name: str) -> None:
    one = _OBJECTS[name](ts)
    for act in (
        lambda: setattr(one, "foo", 1),
        lambda: setattr(one, "_foo", 1),
        lambda: delattr(one, "foo"),
        lambda: operator.attrgetter("foo")(one),
    ):
        with pytest.raises(AttributeError):
            act()


@_BOTH
@pytest.mark.parametrize("name", [name for name in _OBJECTS if name != "OpenMode"])
def test_members_are_not_deleted(ts: Any, name: str) -> None:
    one = _OBJECTS[name](ts)
    before = repr(one)
    for member in dir(_OBJECTS[name](theirs)):
        if not member.startswith("_"):
            with pytest.raises(AttributeError):
                delattr(one, member)
    if name not in {"Promise", "Transaction"} and ts is ours:
        assert repr(one) == before


@_BOTH
@pytest.mark.parametrize("name", _OBJECTS)
def test_objects_are_referred_to_weakly(ts: Any, name: str) -> None:
    one = _OBJECTS[name](ts)
    assert weakref.ref(one)() is one


@_BOTH
def test_methods_of_maps_are_no_numbers(ts: Any) -> None:
    constant = ts.OutputIndexMethod.constant
    assert constant
    assert constant != 0
    assert int(constant) == [0, 1].index(0) == operator.index(constant)
    with pytest.raises(TypeError):
        assert constant < ts.OutputIndexMethod.array
    for again in (copy.copy(constant), pickle.loads(pickle.dumps(constant))):
        assert again == constant


@_BOTH
def test_classes_are_pickled_by_their_names(ts: Any) -> None:
    for name in ("ChunkLayout.Grid", "Context.Spec", "KvStore.Spec", "KvStore.KeyRange", "Schema"):
        kind = operator.attrgetter(name)(ts)
        assert pickle.loads(pickle.dumps(kind)) is kind


@pytest.mark.parametrize("repeatable_read", [False, True])
def test_transactions_end_as_they_did(repeatable_read: bool) -> None:
    for ts in (ours, theirs):
        store = ts.KvStore.open("memory://").result()
        transaction = ts.Transaction(repeatable_read=repeatable_read)
        store.with_transaction(transaction)["a"] = b"1"
        transaction.commit_sync()
        transaction.commit_sync()
        assert transaction.commit_async().result() is None
        assert store["a"] == b"1"
        given_up = ts.Transaction()
        given_up.abort()
        with pytest.raises(ValueError, match="abort"):
            given_up.commit_sync()
        with pytest.raises(ValueError, match="abort"):
            given_up.commit_async().result()
