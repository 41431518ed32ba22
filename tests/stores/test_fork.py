"""Every store works in a forked child, whatever other threads did at the fork."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

import tessarr.tensorstore as ts
from stores import servers
from tessarr.store import ForeignStore, LocalStore, MemoryStore, Store
from tessarr.stores import LRUStoreCache, SQLiteStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stores.servers import Proxy

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning"),
]


def in_child(work: Callable[[], bool]) -> bool:
    """Run ``work`` in a forked child with a time limit of a minute."""
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(60)
            os._exit(0 if work() else 1)
        finally:
            os._exit(2)
    _, status = os.waitpid(child, 0)
    return status == 0


@pytest.mark.parametrize("kind", ["memory", "foreign", "local", "cache", "sqlite"])
def test_children_of_busy_parent_do_not_hang(kind: str, tmp_path: Path) -> None:
    """Parent threads put, list and delete while forked children use the same store."""
    kinds: dict[str, Callable[[], Store]] = {
        "memory": MemoryStore,
        "foreign": lambda: ForeignStore({}),
        "local": lambda: LocalStore(tmp_path),
        "cache": lambda: LRUStoreCache(LocalStore(tmp_path), 1500),
        "sqlite": lambda: SQLiteStore(tmp_path / "x.db"),
    }
    store = kinds[kind]()
    stop = threading.Event()

    def work(number: int) -> None:
        while not stop.is_set():
            for key in ("shared", f"own/{number}"):
                store.put(key, b"x" * 1000)
                store.replace(key, b"y" * 1000, b"x" * 1000)
            store.list()
            store.delete(f"own/{number}")

    def check() -> bool:
        store.put("shared", b"child")
        store.put("child/k", b"v")
        return store.get("child/k") == b"v" and "child/k" in store.list()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        results = [in_child(check) for _ in range(20)]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert results == [True] * 20


def test_key_held_at_fork_is_free_in_child() -> None:
    """A pending write of another thread does not exist in the child."""
    entered, leave = threading.Event(), threading.Event()
    parent = os.getpid()

    class Slow(dict[str, bytes]):
        def __setitem__(self, key: str, value: bytes) -> None:
            if os.getpid() == parent:
                entered.set()
                leave.wait()
            super().__setitem__(key, value)

    store = ForeignStore(Slow())
    writer = threading.Thread(target=store.put, args=("k", b"parent"))
    writer.start()
    entered.wait()
    try:

        def put_and_get() -> bool:
            store.put("k", b"child")
            return store.get("k") == b"child"

        assert in_child(put_and_get)
    finally:
        leave.set()
        writer.join()
    assert store.get("k") == b"parent"


def test_lazy_objects_at_fork_are_created_in_child() -> None:
    """A child does not wait for a thread that imported `tessarr.errors` in the parent."""
    subprocess.run([sys.executable, "-c", _BEGUN], check=True, timeout=60)


_BEGUN = """
import builtins, os, signal, threading
from tessarr.store import MemoryStore

store, entered, leave = MemoryStore(), threading.Event(), threading.Event()
find, parent = builtins.__import__, os.getpid()

def slowly(name, *rest):
    if name == "tessarr.errors" and os.getpid() == parent:
        entered.set()
        leave.wait()
    return find(name, *rest)

def fails():
    try:
        store.put("../a", b"")
    except ValueError:
        return True

builtins.__import__ = slowly
thread = threading.Thread(target=fails)
thread.start()
assert entered.wait(60)
child = os.fork()
if child == 0:
    signal.alarm(30)
    os._exit(0 if fails() else 1)
status = os.waitpid(child, 0)[1]
leave.set()
thread.join()
assert status == 0, status
"""


def test_dict_is_listed_in_one_step() -> None:
    """The listing imports nothing, because an import lets other threads change the dict."""
    subprocess.run([sys.executable, "-c", _LISTED], check=True, timeout=60)


_LISTED = """
import builtins
from tessarr.store import ForeignStore

values = {"a": b"", "b": b""}
store, find = ForeignStore(values), builtins.__import__

def changing(*names):
    values[f"c/{len(values)}"] = b""
    return find(*names)

builtins.__import__ = changing
assert store.list() == ["a", "b"]
"""


@pytest.mark.parametrize("was_used", [True, False])
def test_forked_children_keep_request_limits(
    remote_path: tuple[str, Proxy, str], was_used: bool
) -> None:
    """Each child respects the limit on requests, also if several threads send the first one."""
    kind, proxy, path = remote_path
    never = ts.Context({f"{kind}_request_retries": {"max_retries": 0}})
    store = ts.KvStore.open(servers.kvstore_spec(kind, proxy, path), context=never).result()
    if was_used:
        assert "a" not in store
    proxy.reset_counts()
    proxy.refusals = [503] * 20

    def check() -> bool:
        with ThreadPoolExecutor(4) as threads:
            reads = [threads.submit(lambda: store.read("a").result()) for _ in range(4)]
            return all(read.exception() is not None for read in reads)

    assert in_child(check)
    assert len(proxy.requests) == 4
