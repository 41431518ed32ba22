"""Reads and writes of values in JSON documents match TensorStore's."""

from __future__ import annotations

import gc
import json
import pickle
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from time import sleep
from typing import Any

import pytest

import tessarr.tensorstore as ts
from interop.tensorstore_parity.random_views import outcome
from tessarr.errors import NotFoundError, TessarrError

theirs = pytest.importorskip("tensorstore", reason="the package tensorstore is absent")

DOCUMENT = b'{"a": {"b": [1, 2]}, "c": 1, "": {"": 5}, "x/y": 7, "t~": 8, "n": null}'
POINTERS = [
    *("", "/a", "/a/b", "/a/b/0", "/a/b/1", "/a/b/2", "/a/b/5", "/a/b/-", "/a/x", "/q/r"),
    *(
        "/a/b/01",
        "/a/b/x",
        "/c/d",
        "/x~1y",
        "/t~0",
        "/",
        "//",
        "/n",
        "/n/m",
        "/a/b/-/z",
        "/a/b/2/z",
    ),
    *("a", "/a~", "/a~2"),
]


class Document:
    """A document in memory, for either package."""

    def __init__(self, package: Any, content: bytes | None = DOCUMENT) -> None:
        self.package = package
        self.context = package.Context()
        self.store = package.KvStore.open("memory://", context=self.context).result()
        if content is not None:
            self.store["x.json"] = content

    def open(self, pointer: str, **options: Any) -> Any:
        spec = {"driver": "json", "kvstore": "memory://x.json", "json_pointer": pointer}
        return self.package.open(spec, context=self.context, **options).result()


@pytest.mark.parametrize("pointer", POINTERS)
@pytest.mark.parametrize("content", [DOCUMENT, None, b"{bad", b"3"])
def test_reading(pointer: str, content: bytes | None) -> None:
    def read(package: Any) -> Any:
        return Document(package, content).open(pointer).read().result().item()

    assert outcome(lambda: read(ts)) == outcome(lambda: read(theirs))


@pytest.mark.parametrize("pointer", POINTERS)
@pytest.mark.parametrize("content", [DOCUMENT, None, b"{bad", b"3", b"null", b"[]"])
def test_writing(pointer: str, content: bytes | None) -> None:
    def written(package: Any) -> Any:
        document = Document(package, content)
        document.open(pointer).write({"z": [1.5, None, "é"]}).result()
        return document.store["x.json"]

    assert outcome(lambda: written(ts)) == outcome(lambda: written(theirs))


@pytest.mark.parametrize(
    "options",
    [
        *({}, {"dtype": "json"}, {"dtype": "int32"}, {"rank": 0}, {"rank": 1}, {"create": True}),
        *({"read": True}, {"write": True}, {"fill_value": 3}, {"shape": [1]}),
    ],
    ids=str,
)
def test_opening(options: dict[str, Any]) -> None:
    def built(package: Any) -> Any:
        store = Document(package).open("/a", **options)
        return (
            *(str(store.domain), store.mode, repr(store), repr(store.spec()), store.url),
            *(repr(store.schema), repr(store.kvstore)),
        )

    assert outcome(lambda: built(ts)) == outcome(lambda: built(theirs))


def test_urls_and_pickling(tmp_path: Any) -> None:
    location = tmp_path / "x.json"
    location.write_bytes(DOCUMENT)
    store = ts.open(f"file://{location}|json:/a/b").result()
    assert store.read().result().item() == [1, 2]
    again = pickle.loads(pickle.dumps(store))
    again[...] = "new"
    assert again.read().result().item() == "new"
    assert ts.cast(again, "ustring").read().result().item() == "new"


def test_concurrent_document_writes_all_arrive() -> None:
    document = Document(ts, b"{}")
    writes = [document.open(f"/{k}").write(k) for k in range(40)]
    for item in writes:
        item.result()
    assert document.open("").read().result().item() == {str(k): k for k in range(40)}


@pytest.mark.parametrize("driver", ["json", "auto", "zarr3", "zarr"])
@pytest.mark.parametrize("kvstore", [None, "", "a", "a/"])
@pytest.mark.parametrize("path", [None, "", "x", "/x", "x/", "../x", 5])
def test_path_below_kvstore(driver: str, kvstore: str | None, path: Any) -> None:
    """The path of a spec is relative to the kvstore."""
    spec: dict[str, Any] = {"driver": driver}
    if kvstore is not None:
        spec["kvstore"] = {"driver": "memory", "path": kvstore}
    if path is not None:
        spec["path"] = path

    assert outcome(lambda: ts.Spec(spec).to_json()) == outcome(lambda: theirs.Spec(spec).to_json())


@pytest.mark.parametrize("package", [ts, theirs], ids=["ours", "theirs"])
@pytest.mark.parametrize(("value", "cached"), [(5, True), (6, False), (True, False)])
def test_equal_value_is_not_written(package: Any, value: Any, cached: bool) -> None:
    """Writing the current value leaves the document unchanged."""
    document = Document(package, b'{"a": 5}')
    before = document.store.read("x.json").result().stamp.generation
    document.open("/a").write(value).result()
    assert (document.store.read("x.json").result().stamp.generation == before) == cached


@pytest.mark.parametrize("kind", ["memory", "file"])
@pytest.mark.parametrize("recheck", [None, "open", True, False, 5])
def test_document_is_cached_while_open(kind: str, recheck: Any, tmp_path: Path) -> None:
    """All handles of one context share the document, as fresh as the strictest bound."""
    steps = random.Random(f"{kind}{recheck}").choices(KEEPING, k=60)

    def describe(package: Any) -> list[Any]:
        context = package.Context()
        kvstore = {"driver": "memory"}
        if kind == "file":
            kvstore = {"driver": "file", "path": f"{tmp_path}/{package.__name__}/"}
        store = package.KvStore.open(kvstore, context=context).result()
        path = kvstore.get("path", "") + "x.json"
        spec: Any = {"driver": "json", "kvstore": {**kvstore, "path": path}}
        if recheck is not None:
            spec["recheck_cached_data"] = recheck
        handles: list[Any] = []
        seen = []
        for k, step in enumerate(steps):
            sleep(0.002)
            if step == "open":
                pointer = "/a" if len(handles) % 2 else "/b"
                result = package.open({**spec, "json_pointer": pointer}, context=context).result()
                handles.append(result)
            elif step == "close":
                handles.clear()
                gc.collect()  # errors can hold references to it
            elif step == "store":
                store["x.json"] = f'{{"a": {k}, "b": {-k}}}'
            elif step == "remove":
                del store["x.json"]
            elif step == "write" and handles:
                handles[-1].write(k).result()
            elif step == "commit" and handles:
                with package.Transaction() as transaction:
                    handles[-1].with_transaction(transaction).write(k).result()
            if step in {"read", "commit"}:  # Tessarr reads it again after every commit
                seen.append([outcome(lambda item=item: item.read().result()) for item in handles])
        return seen

    assert describe(ts) == describe(theirs)


class Held(dict[str, bytes]):
    """A store whose first lookup blocks until the test releases it."""

    def __init__(self, values: dict[str, bytes]) -> None:
        super().__init__(values)
        self.is_requested, self.may = Event(), Event()
        self.may.set()

    def __getitem__(self, key: str) -> bytes:
        value = super().__getitem__(key)
        if not self.may.is_set() and not self.is_requested.is_set():
            self.is_requested.set()
            self.may.wait(60)
        return value

    def open(self) -> Any:
        kvstore = {"driver": "tessarr", "store": self, "path": "x"}
        return ts.open({"driver": "json", "kvstore": kvstore, "json_pointer": "/a"}).result()


@pytest.mark.parametrize("committed", [False, True])
def test_read_ending_after_write_is_not_cached(committed: bool) -> None:
    held = Held({"x": b'{"a": 1}'})
    handle = held.open()
    held.may.clear()
    read = handle.read()
    assert held.is_requested.wait(60)
    if committed:
        with ts.Transaction() as transaction:
            handle.with_transaction(transaction).write(2).result()
    else:
        handle.write(2).result()
    held.may.set()
    assert read.result().item() == 1
    assert handle.read().result().item() == 2


def test_concurrent_writes_show_stored_value() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(500):
            document = Document(ts, b"{}")
            handle = document.open("")
            with ThreadPoolExecutor(4) as threads:
                list(threads.map(lambda k, to=handle: to.write(k).result(), range(4)))  # type: ignore[misc]
            assert handle.read().result().item() == json.loads(document.store["x.json"])
    finally:
        sys.setswitchinterval(interval)


def test_error_has_location_without_url() -> None:
    with pytest.raises(NotFoundError, match="'x' has no member 'a'"):
        Held({"x": b"{}"}).open().read().result()


@pytest.mark.parametrize(
    ("known", "changing"), [(False, False), (True, False), (False, True)]
)  # in Tessarr, a transaction reads the cached document again
def test_stale_document_read_waits_for_batch(known: bool, changing: bool) -> None:
    def describe(package: Any) -> Any:
        handle = Document(package).open("/c")
        if known:
            handle.read().result()
        if changing:
            handle = handle.with_transaction(package.Transaction())
        batch = package.Batch()
        future = handle.read(batch=batch)
        for _ in range(1000 if known else 2):  # a read that waits for the batch never finishes
            sleep(0.01)
            if future.done():
                break
        waits = not future.done()
        batch.submit()
        return waits, future.result().item()

    assert describe(ts) == describe(theirs)


KEEPING = [*["open"] * 2, *["read"] * 3, *["store"] * 2, "close", "remove", "write", "commit"]


CONTEXTS: list[Any] = [
    {},
    {"cache_pool": {}},
    {"cache_pool": None},
    {"cache_pool": "cache_pool#a", "cache_pool#a": {}},
    {"file_io_concurrency": {"limit": "shared"}, "s3_request_retries": {"max_retries": 3}},
]


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("inside", [False, True])
def test_json_includes_context_defaults(context: Any, inside: bool) -> None:
    kvstore: Any = {"driver": "file", "path": "/a/", "context": context}
    spec: Any = {"driver": "json", "kvstore": kvstore, "context": context}
    if inside:
        spec = {"driver": "cast", "base": spec, "dtype": "string", "context": context}
    for describe in (
        lambda package: package.Spec(spec).to_json(include_defaults=True),
        lambda package: package.KvStore.Spec(kvstore).to_json(include_defaults=True),
    ):
        assert describe(ts) == describe(theirs)


@pytest.mark.parametrize("value", [{}, {"limit": 2}, "data_copy_concurrency#x", None, 5, "x"])
def test_stack_json_has_copy_concurrency(value: Any) -> None:
    layer = {"driver": "array", "array": [1], "dtype": "int32"}
    spec = {"driver": "stack", "layers": [layer], "data_copy_concurrency": value}
    result, expected = (outcome(lambda item=item: item.Spec(spec).rank) for item in (ts, theirs))
    assert result == expected


def test_partial_commit_is_visible(tmp_path: Path) -> None:
    def opened(name: str) -> Any:
        (tmp_path / name).write_text('{"a": 1}')
        spec = {"driver": "json", "kvstore": f"file://{tmp_path}/{name}", "json_pointer": "/a"}
        return ts.open(spec).result()

    handles = [opened(name) for name in ("x.json", "y.json", "z.json")]
    assert [handle.read().result().item() for handle in handles] == [1, 1, 1]
    transaction = ts.Transaction()
    for handle in handles:
        handle.with_transaction(transaction).write(2).result()
    (tmp_path / "y.json").unlink()
    (tmp_path / "y.json").mkdir()
    (tmp_path / "y.json" / "below").touch()
    with pytest.raises(TessarrError):
        transaction.commit_sync()
    for handle, name in [(handles[0], "x.json"), (handles[2], "z.json")]:
        stored = json.loads((tmp_path / name).read_text())["a"]
        assert handle.read().result().item() == stored
    assert json.loads((tmp_path / "x.json").read_text())["a"] == 2
