"""Import names of classes: reprs and pickles use them."""

from __future__ import annotations

import doctest
import importlib
import inspect
import io
import pickle
import pkgutil
import subprocess
import sys
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from types import MemberDescriptorType
from typing import Any

import numpy as np
import pytest

import tessarr
import tessarr.tensorstore as ts
from tessarr import codecs, errors, stores
from tessarr.errors import ArgumentError

PUBLIC = ("tessarr", "tessarr.stores", "tessarr.codecs", "tessarr.errors", "tessarr.tensorstore")


def named(module: str) -> list[tuple[str, Any]]:
    """Return the public classes and functions of a module, and their inner classes."""
    package = importlib.import_module(module)
    pairs: list[tuple[str, Any]] = []
    for name in package.__all__:
        value = getattr(package, name)
        if inspect.isfunction(value) or inspect.isclass(value):
            pairs.append((name, value))
        if inspect.isclass(value):
            inner = [
                (key, member) for key, member in vars(value).items() if inspect.isclass(member)
            ]
            pairs += [(f"{name}.{key}", member) for key, member in inner if not key.startswith("_")]
    return pairs


NAMES = {f"{module}.{name}" for module in PUBLIC for name, _ in named(module)}
"""All public names of classes and functions, for reprs and pickles."""


def test_tensorstore_names_equal_their_import_names() -> None:
    things = named("tessarr.tensorstore")
    names = {name: f"{value.__module__}.{value.__qualname__}" for name, value in things}
    assert names == {name: f"tessarr.tensorstore.{name}" for name in names}


@pytest.mark.parametrize("module", PUBLIC)
def test_classes_have_public_names(module: str) -> None:
    """A class with several public names, such as a store, uses one of them."""
    classes = [value for _, value in named(module) if inspect.isclass(value)]
    assert classes
    assert {f"{cls.__module__}.{cls.__qualname__}" for cls in classes} <= NAMES


def test_doctest_collects_examples_of_renamed_classes() -> None:
    """Doctest collects the examples of a class from the module in its `__module__`."""
    finder, collected = doctest.DocTestFinder(), set()
    packages = pkgutil.walk_packages(tessarr.__path__, "tessarr.")
    for name in [
        "tessarr",
        *(documented.name for documented in packages if not documented.name.endswith("__main__")),
    ]:
        try:
            module_of_name = importlib.import_module(name)
        except ModuleNotFoundError as error:
            assert error.name in {"xarray", "zarr"}  # of a program that is not installed
            continue
        tests = finder.find(module_of_name)
        collected |= {test.docstring for test in tests if test.examples}
    for module in PUBLIC:
        for name, value in named(module):
            members = vars(value).values() if inspect.isclass(value) else ()
            methods = [getattr(documented, "__func__", documented) for documented in members]
            for documented in (value, *filter(inspect.isfunction, methods)):
                if ">>>" in (documented.__doc__ or ""):
                    assert documented.__doc__ in collected, (name, documented)


def members(of: type) -> dict[str, Any]:
    """Return the public members of a class and of its Tessarr bases."""
    members_: dict[str, Any] = {}
    for base in reversed(of.__mro__):
        if base.__module__.startswith("tessarr"):
            members_ |= vars(base)
    return {name: member for name, member in members_.items() if not name.startswith("_")}


@pytest.mark.parametrize(
    ("name", "of"),
    [(name, member) for name, member in named("tessarr.tensorstore") if inspect.isclass(member)],
)
def test_members_have_examples(name: str, of: type) -> None:
    """Each method has an example for `help`; the class documents attributes that are parameters."""
    attributes = (MemberDescriptorType, type)
    documented = {
        name: member for name, member in members(of).items() if not isinstance(member, attributes)
    }
    plain = {name: getattr(member, "__func__", member) for name, member in documented.items()}
    if issubclass(of, Enum):
        plain = {}
    assert [name for name, member in plain.items() if ">>>" not in (member.__doc__ or "")] == []


# Members that TensorStore lacks
MORE = {
    "IndexDomain": {"oindex", "vindex"},
    "IndexTransform": {"rank"},
    "Indexable": {
        *("T", "label", "mark_bounds_implicit", "oindex", "translate_backward_by", "translate_by"),
        *("translate_to", "transpose", "vindex"),
    },
    "dtype": {"dtype"},  # NumPy calls it
}


@pytest.mark.slow  # imports TensorStore
@pytest.mark.parametrize(
    "name", [name for name in ts.__all__ if inspect.isclass(getattr(ts, name))]
)
def test_completion_shows_public_members_alone(name: str) -> None:
    theirs = pytest.importorskip("tensorstore")
    if name == "OutputIndexMethod":
        return
    of, real = getattr(ts, name), getattr(theirs, name)
    public = {one for one in dir(of) if not one.startswith("_")} - {"count", "index"}  # of tuple
    assert public - set(dir(real)) == MORE.get(name, set())


def test_dir_of_tensorstore_lists_public_names_only() -> None:
    assert dir(ts) == sorted(ts.__all__)


def test_class_names_do_not_depend_on_imports() -> None:
    """Objects of modules that are not loaded yet have classes with public names."""
    code = (
        "import sys, tessarr; a = tessarr.ones((3,), chunks=2); "
        "print(type(a.lazy[1:].transform), type(a.store), type(a.compressors[0])); "
        "print({'tessarr.tensorstore', 'tessarr.stores', 'tessarr.codecs'} & {*sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    names = ("tensorstore.IndexTransform", "stores.MemoryStore", "codecs.Blosc")
    assert done.stdout.split("\n")[:2] == [
        " ".join(f"<class 'tessarr.{name}'>" for name in names),
        "set()",
    ]


class Reader(pickle.Unpickler):
    """Unpickler that records the names in a pickle."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self.names: set[str] = set()

    def find_class(self, module: str, name: str) -> Any:
        self.names.add(f"{module}.{name}")
        return super().find_class(module, name)


def internal(reader: Reader) -> set[str]:
    """Return the Tessarr names in a pickle, except for public classes."""
    return {name for name in reader.names if name.startswith("tessarr")} - NAMES


def read_chunk(domain: ts.IndexDomain, chunk: Any, parameters: object) -> None:
    chunk[...] = np.array(list(domain[0]))


def stored() -> ts.TensorStore:
    spec = {
        "driver": "zarr3",
        "kvstore": "memory://",
        "context": {"cache_pool": {"total_bytes_limit": 1000}},
    }
    store = ts.open(spec, create=True, dtype="int8", shape=[3, 4], dimension_units=["4nm", None])
    return store.result()[1:]


def virtual() -> ts.TensorStore:
    return ts.virtual_chunked(read_chunk, dtype="int64", shape=[3])


def keys() -> ts.KvStore:
    store = ts.KvStore.open("memory://a/").result()
    store["x"] = b"1"
    return store


def text() -> ts.TensorStore:
    return ts.array(np.array([b"\xff", b"a"], object), dtype=ts.string)


TENSORSTORE: dict[str, Callable[[], Any]] = {
    "TensorStore": stored,
    "TensorStore of functions": virtual,
    "TensorStore of bytes": text,
    "TensorStore of several": lambda: ts.stack([virtual(), ts.array(np.arange(3))]),
    "TensorStore of another type": lambda: ts.cast(virtual(), ts.float64),
    "TensorStore.StorageStatistics": lambda: ts.TensorStore.StorageStatistics(not_stored=True),
    "Spec": lambda: stored().spec(),
    "Spec with resources": lambda: stored().spec(retain_context=True),
    "Spec of functions": lambda: virtual().spec(),
    "Spec of bytes": lambda: text().spec(),
    "KvStore": keys,
    "KvStore.Spec": lambda: keys().spec(),
    "KvStore.Spec with resources": lambda: keys().spec(retain_context=True),
    "KvStore.KeyRange": lambda: ts.KvStore.KeyRange("a", "b"),
    "KvStore.ReadResult": lambda: keys().read("x").result(),
    "KvStore.TimestampedStorageGeneration": lambda: keys().read("x").result().stamp,
    "Context": lambda: ts.Context({"cache_pool": {"total_bytes_limit": 1}}, parent=ts.Context({})),
    "Context.Spec": lambda: ts.Context.Spec({"cache_pool": {}}),
    "Context.Resource": lambda: ts.Context({"cache_pool#a": {}})["cache_pool#a"],
    "Schema": lambda: stored().schema,
    "ChunkLayout": lambda: stored().chunk_layout,
    "ChunkLayout.Grid": lambda: stored().chunk_layout.read_chunk,
    "CodecSpec": lambda: stored().codec,
    "OpenMode": lambda: ts.OpenMode(create=True),
    "Unit": lambda: ts.Unit("4nm"),
    "dtype": lambda: ts.int4,
    "Dim": lambda: ts.Dim(3, label="x"),
    "IndexDomain": lambda: stored().domain,
    "IndexTransform": lambda: ts.IndexTransform(2)[[1, 2], 3:],
    "OutputIndexMap": lambda: ts.IndexTransform(1)[[1, 2]].output[0],
    "OutputIndexMaps": lambda: ts.IndexTransform(2).output,
    "OutputIndexMethod": lambda: ts.OutputIndexMethod.array,
    "d": lambda: ts.d,
    "DimSelection": lambda: ts.d["x", 1:],
    "DimExpression": lambda: ts.d[0].translate_to[1][np.array([1, 2])].label["x"].oindex[True],
    "DimExpression of several": lambda: ts.d[0, 1].vindex[[1], [2]].diagonal.stride[2],
    "VirtualChunkedReadParameters": ts.VirtualChunkedReadParameters,
    "VirtualChunkedWriteParameters": ts.VirtualChunkedWriteParameters,
    "T": lambda: ts.T,
}

NOT_PICKLED = {"Batch", "Future", "Indexable", "Promise", "Transaction", "WriteFutures"}


def test_every_public_class_is_pickled() -> None:
    tried = {name.partition(" ")[0] for name in TENSORSTORE}
    classes = {name for name, value in named("tessarr.tensorstore") if inspect.isclass(value)}
    assert classes - tried == NOT_PICKLED


@pytest.mark.parametrize("protocol", [pickle.DEFAULT_PROTOCOL, pickle.HIGHEST_PROTOCOL])
@pytest.mark.parametrize("name", TENSORSTORE)
def test_pickles_hold_public_names(name: str, protocol: int) -> None:
    value = TENSORSTORE[name]()
    reader = Reader(pickle.dumps(value, protocol))
    again = reader.load()
    assert type(again) is type(value)
    assert repr(again) == repr(value)
    assert internal(reader) <= {"tessarr.tensorstore.d", "tessarr.tensorstore.T"}


@pytest.mark.parametrize("make", [virtual, text])
def test_pickle_holds_values_without_json_form(make: Callable[[], ts.TensorStore]) -> None:
    store = make()
    for again in (pickle.loads(pickle.dumps(store)), pickle.loads(pickle.dumps(store.spec()))):
        opened = again if isinstance(again, ts.TensorStore) else ts.open(again).result()
        assert np.array_equal(opened.read().result(), store.read().result())
        assert opened.schema == store.schema


def test_functions_in_json_raise() -> None:
    with pytest.raises(ArgumentError, match="functions have no JSON"):
        ts.Spec({"driver": "virtual_chunked", "dtype": "int8", "read_function": 3})


def array() -> tessarr.Array:
    return tessarr.create_array("a.zarr", shape=(4,), dtype="i4", chunks=(2,), overwrite=True)


def group() -> tessarr.Group:
    group_ = tessarr.create_group("g.zarr", overwrite=True)
    group_.create_array("a", data=[1, 2])
    tessarr.consolidate_metadata(group_.store)
    return group_


def packed() -> stores.ZipStore:
    stores.ZipStore("a.zip", mode="w").close()
    return stores.ZipStore("a.zip", mode="r")


def below(kind: Any, *arguments: Any, **keywords: Any) -> Callable[[], Any]:
    return lambda: kind(stores.LocalStore("a.zarr"), *arguments, **keywords)


ARRAYS: dict[str, Callable[[], Any]] = {
    "Array": array,
    "Array of another type": lambda: array().astype("f8"),
    "Array with locks": lambda: tessarr.open_array(
        array().store, synchronizer=tessarr.ThreadSynchronizer()
    ),
    "LazyArray": lambda: array().lazy[1:],
    "Group": group,
    "Group with consolidated metadata": lambda: tessarr.open_consolidated(group().store),
    "attributes": lambda: array().attrs,
    "LazyLoader": lambda: tessarr.load(group().store),
    "Options": tessarr.Options,
    "Unreadable": lambda: tessarr.create_group({"b/zarr.json": b"{"}).members()[0][1],
    "ThreadSynchronizer": tessarr.ThreadSynchronizer,
    "ProcessSynchronizer": lambda: tessarr.ProcessSynchronizer("locks"),
    "LocalStore": lambda: stores.LocalStore("a.zarr", durable=True),
    "MemoryStore": lambda: stores.MemoryStore({"a": b"1"}),
    "MemoryStore of any keys": lambda: stores.MemoryStore({"": b"1"}, any_keys=True),
    "MemoryStore of a name": lambda: stores.MemoryStore(name="public names"),
    "ForeignStore": lambda: stores.ForeignStore({}),
    "DictStore": stores.DictStore,
    "KVStore": lambda: stores.KVStore({}),
    "DirectoryStore": lambda: stores.DirectoryStore("a.zarr"),
    "NestedDirectoryStore": lambda: stores.NestedDirectoryStore("a.zarr"),
    "SQLiteStore": lambda: stores.SQLiteStore("a.sqlite"),
    "ZipStore": packed,
    "FSStore": lambda: stores.FSStore("memory://a"),
    "FsspecStore": lambda: stores.FsspecStore.from_url("memory://a"),
    "Limits": lambda: stores.Limits(concurrency=2),
    "LimitedStore": below(stores.LimitedStore, stores.Limits(concurrency=2)),
    "RetryingStore": below(stores.RetryingStore),
    "LRUStoreCache": below(stores.LRUStoreCache, max_size=1000),
    "LatencyStore": below(stores.LatencyStore),
    "LoggingStore": below(stores.LoggingStore),
    "PrefixStore": below(stores.PrefixStore, "a"),
    "ReadOnlyStore": below(stores.ReadOnlyStore),
    "ShardingIndexed": lambda: codecs.ShardingIndexed((2,), ["zstd"]),
    "BloscShuffle": lambda: codecs.BloscShuffle.shuffle,
    "TessarrError": lambda: errors.ArgumentError("it failed", path="a"),
    "MetadataError": lambda: errors.MetadataError(
        "it failed", problems=[errors.Problem("/a", "absent", "missing_member")]
    ),
}


@pytest.mark.parametrize("protocol", [pickle.DEFAULT_PROTOCOL, pickle.HIGHEST_PROTOCOL])
@pytest.mark.parametrize("name", ARRAYS)
def test_pickles_of_arrays_and_stores_hold_public_names(
    name: str, protocol: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    value = ARRAYS[name]()
    reader = Reader(pickle.dumps(value, protocol))
    again = reader.load()
    assert type(again) is type(value)
    assert str(again) == str(value)
    assert not internal(reader)


def test_pickled_temporary_store_is_directory_store() -> None:
    reader = Reader(pickle.dumps(stores.TempStore()))
    assert type(reader.load()) is stores.DirectoryStore
    assert not internal(reader)


CODECS = {
    thing: name
    for name, thing in named("tessarr.codecs")
    if inspect.isclass(thing) and issubclass(thing, codecs.Codec) and thing.name
}


@pytest.mark.parametrize("codec", CODECS, ids=CODECS.get)
def test_pickles_of_codecs_hold_public_names(codec: Any) -> None:
    try:
        value = codec()
    except TypeError:  # its constructor needs arguments
        return
    reader = Reader(pickle.dumps(value))
    assert reader.load() == value
    assert not internal(reader)
