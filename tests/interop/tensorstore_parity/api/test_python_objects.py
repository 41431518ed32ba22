"""Python features of objects match TensorStore's: attributes, references, copies."""

from __future__ import annotations

import copy
import operator
import pickle
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import product
from types import ModuleType
from typing import Any, Final, TypeAlias

import pytest

import tessarr.tensorstore as ours

theirs = pytest.importorskip("tensorstore", reason="the package tensorstore is absent")

_BOTH = pytest.mark.parametrize("ts", [ours, theirs], ids=["ours", "theirs"])
_OBJECTS: dict[str, Callable[[Any], Any]] = {
    "Batch": lambda ts: ts.Batch(),
    "ChunkLayout": lambda ts: ts.ChunkLayout(rank=2),
    "ChunkLayout.Grid": lambda ts: ts.ChunkLayout.Grid(rank=2),
    "CodecSpec": lambda ts: ts.CodecSpec({"driver": "zarr3"}),
    "Context": lambda ts: ts.Context(),
    "Context.Resource": lambda ts: ts.Context()["cache_pool"],
    "Context.Spec": lambda ts: ts.Context.Spec({}),
    "Dim": lambda ts: ts.Dim(3, label="x"),
    "DimExpression": lambda ts: ts.d[0].label["x"],
    "DimSelection": lambda ts: ts.d[0],
    "Future": lambda ts: ts.Promise.new()[1],
    "IndexDomain": lambda ts: ts.IndexDomain(shape=[2]),
    "IndexTransform": lambda ts: ts.IndexTransform(2),
    "KvStore": lambda ts: ts.KvStore.open("memory://").result(),
    "KvStore.KeyRange": lambda ts: ts.KvStore.KeyRange("a"),
    "KvStore.ReadResult": lambda ts: ts.KvStore.ReadResult("value", b"a"),
    "KvStore.Spec": lambda ts: ts.KvStore.Spec("memory://"),
    "KvStore.TimestampedStorageGeneration": lambda ts: ts.KvStore.TimestampedStorageGeneration("a"),
    "OpenMode": lambda ts: ts.OpenMode(open=True),
    "OutputIndexMap": lambda ts: ts.OutputIndexMap(offset=3),
    "OutputIndexMaps": lambda ts: ts.IndexTransform(2).output,
    "OutputIndexMethod": lambda ts: ts.OutputIndexMethod.array,
    "Promise": lambda ts: ts.Promise.new()[0],
    "Schema": lambda ts: ts.Schema(rank=2),
    "Spec": lambda ts: ts.Spec({"driver": "zarr3"}),
    "TensorStore": lambda ts: ts.array([1]),
    "TensorStore.StorageStatistics": lambda ts: (
        ts.array([1]).storage_statistics(query_not_stored=True).result()
    ),
    "Transaction": lambda ts: ts.Transaction(),
    "Unit": lambda ts: ts.Unit("4nm"),
    "WriteFutures": lambda ts: ts.array([1], copy=True).write(2),
    "dtype": lambda ts: ts.dtype("int8"),
}
_NEVER_HELD = {"Indexable", "VirtualChunkedReadParameters", "VirtualChunkedWriteParameters"}


def _classes(holder: Any, within: str = "") -> dict[str, type]:
    """Return the public classes of a module, and their nested classes."""
    classes: dict[str, type] = {}
    names = dir(holder) if isinstance(holder, ModuleType) else vars(holder)
    for name in names:
        member = getattr(holder, name)
        if isinstance(member, type) and not name.startswith("_"):
            classes |= {within + name: member} | _classes(member, f"{within}{name}.")
    return classes


# Python operations on a class, and on an object that a function returns.

_Act: TypeAlias = "Callable[[type, Callable[[], Any]], object]"


_ACTS: dict[str, _Act] = {
    "derive": lambda kind, _: type("Derived", (kind,), {}),
    "pickle the class": lambda kind, _: pickle.loads(pickle.dumps(kind)),
    "refer weakly": lambda _, make: weakref.ref(make()),
    "hash": lambda _, make: hash(make()),
    "copy": lambda _, make: copy.copy(make()),
    "copy deeply": lambda _, make: copy.deepcopy(make()),
    "pickle": lambda _, make: pickle.loads(pickle.dumps(make())),
    "set another attribute": lambda _, make: setattr(make(), "foo", 1),
}
_FEWER: Final = {  # TensorStore allows it, and Tessarr does not
    ("OutputIndexMaps", "refer weakly"),  # a tuple
    ("OutputIndexMethod", "derive"),  # an enumeration
}
_MORE: Final = {  # Tessarr allows it, and TensorStore does not
    *product(["Future", "KvStore", "KvStore.Spec", "Promise", "Spec"], ["derive"]),
    *product(["TensorStore", "WriteFutures"], ["derive"]),
    *product(["Dim", "IndexDomain"], ["hash"]),
    *product(["Context", "Context.Resource", "Context.Spec"], ["copy"]),
    *product(["OutputIndexMaps"], ["copy", "copy deeply", "pickle"]),
    *product(["Promise", "WriteFutures"], ["copy"]),
    ("OutputIndexMethod", "set another attribute"),
}
# Protection against deleted members slows the creation of each object by a microsecond.
_WHOLE: Final = [name for name in _OBJECTS if not name.endswith(("OpenMode", "Statistics"))]


@pytest.mark.parametrize("name", _OBJECTS)
def test_isinstance_matches_tensorstore(name: str) -> None:
    """`Indexable` has elements at positions: a domain and a schema are not `Indexable`."""
    mine, real = (
        {of for of, kind in _classes(ts).items() if isinstance(_OBJECTS[name](ts), kind)}
        for ts in (ours, theirs)
    )
    assert mine == real


def _allowed(ts: Any) -> set[tuple[str, str]]:
    """Return the acts without an error, for each class."""
    kinds, result = _classes(ts), set()
    for (name, make), (action, act) in product(_OBJECTS.items(), _ACTS.items()):
        with suppress(Exception):
            act(kinds[name], partial(make, ts))
            result.add((name, action))
    return result


def test_tensorstore_classes_all_exist() -> None:
    assert set(_classes(ours)) == set(_classes(theirs)) == {*_OBJECTS, *_NEVER_HELD}
    for ts in (ours, theirs):
        kinds = _classes(ts)
        assert [
            name for name, make in _OBJECTS.items() if not isinstance(make(ts), kinds[name])
        ] == []


def test_builtin_operations_match_tensorstore() -> None:
    mine, other = _allowed(ours), _allowed(theirs)
    assert other - mine == _FEWER
    assert mine - other == _MORE


@_BOTH
@pytest.mark.parametrize("name", [name for name in _OBJECTS if name != "OutputIndexMethod"])
def test_undeclared_attributes_raise(ts: Any, name: str) -> None:
    instance = _OBJECTS[name](ts)
    for act in (
        lambda: setattr(instance, "foo", 1),
        lambda: setattr(instance, "_foo", 1),
        lambda: delattr(instance, "foo"),
        lambda: operator.attrgetter("foo")(instance),
    ):
        with pytest.raises(AttributeError):
            act()


@_BOTH
def test_results_of_reads_are_not_compared(ts: Any) -> None:
    """Results are mutable, so that each result equals only itself."""
    store = ts.KvStore.open("memory://").result()
    first, other = store.read("a").result(), store.read("a").result()
    assert first == first
    assert first != other
    assert len({first, other, first, copy.copy(first)}) == 3


@_BOTH
@pytest.mark.parametrize("name", _WHOLE)
def test_members_are_not_deleted(ts: Any, name: str) -> None:
    instance = _OBJECTS[name](ts)
    before = repr(instance)
    for member in dir(_OBJECTS[name](theirs)):
        if not member.startswith("_"):
            with pytest.raises(AttributeError):
                delattr(instance, member)
    if "object at" not in before and ts is ours:
        assert repr(instance) == before


@_BOTH
@pytest.mark.parametrize("name", ["Dim", "KvStore.ReadResult", "OutputIndexMap", "Unit"])
def test_subclass_instances_have_own_attributes(ts: Any, name: str) -> None:
    derived = type("Derived", (_classes(ts)[name],), {"more": 1})
    instance = derived()
    instance.foo = 2
    assert (instance.more, instance.foo, repr(instance)) == (1, 2, repr(_classes(ts)[name]()))


def test_equal_codecs_have_equal_hashes() -> None:
    same = [{"driver": "zarr", "filters": filters} for filters in (None, [])]
    other = {"driver": "zarr3", "codecs": ["gzip"]}
    assert len({ours.CodecSpec(json) for json in (*same, other, {**other})}) == 2


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


@pytest.mark.parametrize("repeatable_read", [False, True])
def test_ended_transaction_keeps_state(repeatable_read: bool) -> None:
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
