"""Writes whose response is lost: no conflict is reported, and no write is repeated blindly."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tessarr
from stores.servers import Answer
from tessarr.errors import StoreError
from tessarr.store.fsspec.ambiguous_write import trace_s3_client
from tessarr.store.object.http import Endpoint
from tessarr.store.transient import is_transient, iterate_causes
from tessarr.store.wrappers.staged import StagedStore
from tessarr.stores import FsspecStore

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from collections.abc import Callable

    from stores.servers import Proxy

aiohttp = pytest.importorskip("aiohttp", reason="needs aiohttp")
pytest.importorskip("s3fs", reason="needs s3fs")
pytest.importorskip("gcsfs", reason="needs gcsfs")

LOST = "the response to a change was lost"


def store_of(kind: str, proxy: Proxy, path: str, **options: Any) -> FsspecStore:
    """Return a store that has sent a request, so that the engine knows its endpoint."""
    more: dict[str, dict[str, Any]]
    more = {"s3": {}, "s3 by s3fs": {"client_kwargs": {"verify": None}}, "gcs": {"token": "anon"}}
    options = {"endpoint_url": proxy.url, **more[kind], **options}
    scheme = "gs" if kind == "gcs" else "s3"
    store = FsspecStore.from_url(f"{scheme}://bucket/{path}", options)
    store.put("first", b"x")
    assert store.get("first") == b"x"
    return store


@pytest.fixture(params=["s3", "s3 by s3fs", "gcs"])
def far(request: pytest.FixtureRequest) -> tuple[Proxy, FsspecStore]:
    """Yield a server and a function that returns stores whose values belong to the test."""
    proxy = request.getfixturevalue("gcs" if request.param == "gcs" else "s3")
    path = f"{request.node.originalname}/{request.param}".replace(" ", "-")
    return proxy, store_of(request.param, proxy, path)


@pytest.fixture
def lose(far: tuple[Proxy, FsspecStore], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lose the next write: its response, or all of it; `status` replaces the lost response."""

    def lose(status: int = 0, *, made: bool = True) -> None:
        left = [status]

        def way(ask: Any, headers: dict[str, str]) -> Answer:
            is_lost = left and ask.args[0] != "GET"
            answer: Answer | None = ask(headers) if made or not is_lost else None
            return Answer(left.pop(), {}, b"") if is_lost or answer is None else answer

        monkeypatch.setattr(far[0], "forward", way)

    return lose


@pytest.mark.parametrize("status", [0, 500, 504])
def test_applied_replace_is_no_conflict(
    far: tuple[Proxy, FsspecStore], lose: Any, status: int
) -> None:
    """A lost response raises an ambiguous write error, whichever response follows."""
    _, store = far
    store.put("a", b"old")
    for before, after in ((b"old", b"new"), (b"new", None), (None, b"once more")):
        lose(status)
        with pytest.raises(StoreError, match=LOST) as caught:
            store.replace("a", after, before)
        assert (caught.value.kind, caught.value.retryable) == ("answer_lost", False)
        assert store.get("a") == after


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
@pytest.mark.parametrize("atomic", [True, False])
def test_commits_of_one_key_are_not_said_to_be_conflicts(
    far: tuple[Proxy, FsspecStore], lose: Any, atomic: bool
) -> None:
    """A lost response to a commit of one key raises no conflict, also for large chunks."""
    _, store = far
    store.put("a", b"old")
    for before, after in ((b"old", bytes(2 << 20)), (bytes(2 << 20), None), (None, b"new")):
        staged = StagedStore(store, False)
        assert staged.replace("a", after, before)
        lose()
        with pytest.raises(StoreError, match=LOST) as caught:
            staged.commit(atomic)
        assert caught.value.kind == "answer_lost"
        assert store.get("a") == after
    staged = StagedStore(store, False)
    assert staged.replace("a", b"newer", b"new")
    store.put("a", b"of others")
    assert staged.commit(atomic) == "a"
    staged = StagedStore(store, False)
    assert staged.replace("a", b"newer", b"of others")
    lose(made=False)
    assert staged.commit(atomic) is None
    assert store.get("a") == b"newer"


def test_unapplied_change_is_repeated(far: tuple[Proxy, FsspecStore], lose: Any) -> None:
    """The client sends the request again."""
    _, store = far
    store.put("a", b"old")
    lose(made=False)
    assert store.replace("a", b"new", b"old")
    lose(503, made=False)
    assert store.replace("a", b"newer", b"new")
    assert not store.replace("a", b"x", b"old")
    assert store.get("a") == b"newer"


def test_rows_are_not_appended_twice(far: tuple[Proxy, FsspecStore], lose: Any) -> None:
    """A change that would apply twice raises an error; an idempotent change succeeds."""
    _, store = far
    array = tessarr.create_array(store, data=np.arange(4), chunks=2)
    lose()
    with pytest.raises(StoreError, match=LOST):
        array.append(np.arange(2))
    array = tessarr.open_array(store)
    assert array.shape == (6,)
    lose()
    array.resize(8)
    lose()
    array[1] = 7
    assert tessarr.open_array(store)[:].tolist() == [0, 7, 2, 3, 0, 0, 0, 0]


def test_busy_server_has_applied_no_change(far: tuple[Proxy, FsspecStore], lose: Any) -> None:
    """After a busy status, an equal value in the store comes from another writer."""
    proxy, store = far
    rival = FsspecStore(store.fs, store.path, concurrency=1)
    store.put("a", b"old")
    assert store.get("a") == b"old"
    lose(503, made=False)
    proxy.callbacks = [lambda: None, lambda: rival.put("a", b"new")]
    assert not store.replace("a", b"new", b"old")
    assert store.get("a") == b"new"


def test_other_sessions_are_not_traced() -> None:
    """A session has one trace configuration; objects of other libraries have none."""

    async def watched() -> int:
        async with aiohttp.ClientSession() as session:
            for one in (session, session, object()):
                http = SimpleNamespace(_session=one)
                await trace_s3_client(SimpleNamespace(_endpoint=SimpleNamespace(http_session=http)))
            return len(session.trace_configs)

    assert asyncio.run(watched()) == 1


def test_refused_change_without_retry_is_conflict(s3: Proxy) -> None:
    """Requests of the engine raise conflicts, too."""
    store = FsspecStore.from_url("s3://bucket/told", {"endpoint_url": s3.url}, retries=False)
    store.put("a", b"x")
    store.get("a")
    asked: dict[str, Callable[[], object]] = {
        "PutObject": lambda: store.put("a", b"y"),
        "GetObject": lambda: store.get("a"),
    }
    for name, ask in asked.items():
        s3.reset_counts()
        s3.refusals = [503]
        with pytest.raises(OSError, match="Service Unavailable") as caught:
            ask()
        assert any(name in str(cause) for cause in iterate_causes(caught.value))
        assert s3.headers[0]["User-Agent"].startswith("tessarr/")


def test_unreachable_server_is_transient_error() -> None:
    """Errors of the client that are no system errors are transient, too."""
    from botocore import exceptions

    where = {"endpoint_url": "http://host", "error": "no"}
    for kind in (exceptions.EndpointConnectionError, exceptions.ConnectTimeoutError):
        assert is_transient(kind(**where))


def test_endpoint_repr_hides_secrets() -> None:
    """Tracebacks and logs show the repr."""
    keys = ("name", "secret", "token", "region")
    place = Endpoint("http://host/", "", [("Authorization", "secret")], 1.0, "", signing_key=keys)
    assert "secret" not in f"{place!r} {place}"
