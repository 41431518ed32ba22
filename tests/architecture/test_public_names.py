"""What users import is called, and pickled, by the name by which they import it."""

from __future__ import annotations

import importlib
import inspect
import io
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ts
from tessarr.errors import ArgumentError

PUBLIC = ("tessarr.tensorstore",)


def named(module: str) -> list[tuple[str, Any]]:
    """Give the public classes and functions of a module, and the classes inside of these."""
    package = importlib.import_module(module)
    found: list[tuple[str, Any]] = []
    for name in package.__all__:
        thing = getattr(package, name)
        if inspect.isfunction(thing) or inspect.isclass(thing):
            found.append((name, thing))
        if inspect.isclass(thing):
            inner = [(key, one) for key, one in vars(thing).items() if inspect.isclass(one)]
            found += [(f"{name}.{key}", one) for key, one in inner if not key.startswith("_")]
    return found


@pytest.mark.parametrize("module", PUBLIC)
def test_names_of_classes_and_functions(module: str) -> None:
    things = named(module)
    assert things
    told = {name: f"{thing.__module__}.{thing.__qualname__}" for name, thing in things}
    assert told == {name: f"{module}.{name}" for name in told}


def test_the_interface_shows_its_names_alone() -> None:
    assert dir(ts) == sorted(ts.__all__)


def test_names_do_not_depend_on_what_was_imported() -> None:
    """A view of an array has an index transform, without the interface whose class that is."""
    code = (
        "import sys, tessarr; view = tessarr.ones((3,), chunks=2).lazy[1:].transform; "
        "print(type(view), 'tessarr.tensorstore' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split("\n")[0] == "<class 'tessarr.tensorstore.IndexTransform'> False"


class Reader(pickle.Unpickler):
    """Reads a pickle and takes down the names that it holds."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self.names: set[str] = set()

    def find_class(self, module: str, name: str) -> Any:
        self.names.add(f"{module}.{name}")
        return super().find_class(module, name)


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


def test_everything_is_tried() -> None:
    tried = {name.partition(" ")[0] for name in TENSORSTORE}
    classes = {name for name, thing in named("tessarr.tensorstore") if inspect.isclass(thing)}
    assert classes - tried == NOT_PICKLED


@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
@pytest.mark.parametrize("name", TENSORSTORE)
def test_pickles_hold_public_names(name: str, protocol: int) -> None:
    thing = TENSORSTORE[name]()
    reader = Reader(pickle.dumps(thing, protocol))
    again = reader.load()
    assert type(again) is type(thing)
    assert repr(again) == repr(thing)
    allowed = {"tessarr.tensorstore"}
    ours = {one for one in reader.names if one.startswith("tessarr")}
    public = {f"{module}.{told}" for module in allowed for told, _ in named(module)}
    assert ours <= public | {"tessarr.tensorstore.d", "tessarr.tensorstore.T"}


@pytest.mark.parametrize("make", [virtual, text])
def test_what_json_cannot_tell_is_pickled_with_it(make: Callable[[], ts.TensorStore]) -> None:
    store = make()
    for again in (pickle.loads(pickle.dumps(store)), pickle.loads(pickle.dumps(store.spec()))):
        opened = again if isinstance(again, ts.TensorStore) else ts.open(again).result()
        assert np.array_equal(opened.read().result(), store.read().result())
        assert opened.schema == store.schema


def test_functions_are_told_by_nobody_else() -> None:
    with pytest.raises(ArgumentError, match="functions cannot be told as JSON"):
        ts.Spec({"driver": "virtual_chunked", "dtype": "int8", "read_function": 3})
