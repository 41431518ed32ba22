"""Writes whose response is lost: no conflict is reported, and no write is repeated blindly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tessarr
from stores.proxy import Answer
from tessarr.errors import StoreError
from tessarr.store.object.open import open_object_url
from tessarr.store.transient import is_transient
from tessarr.store.wrappers.staged import StagedStore

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from stores.clouds import Cloud
    from stores.proxy import Proxy
    from tessarr.stores import Store

LOST = "the response to a change was lost"


@pytest.fixture
def proxied_store(cloud: Cloud) -> tuple[Proxy, Store]:
    """Return the proxy of a server and the store of an empty bucket."""
    return cloud.proxy, open_object_url(cloud.url("folder"), cloud.storage_options)


@pytest.fixture
def lose(proxied_store: tuple[Proxy, Store], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lose the next write: its response, or all of it; `status` replaces the lost response."""

    def lose(status: int = 0, *, is_applied: bool = True) -> None:
        left = [status]

        def forward(ask: Any, headers: dict[str, str]) -> Answer:
            is_lost = left and ask.args[0] != "GET"
            answer: Answer | None = ask(headers) if is_applied or not is_lost else None
            return Answer(left.pop(), {}, b"") if is_lost or answer is None else answer

        monkeypatch.setattr(proxied_store[0], "forward", forward)

    return lose


@pytest.mark.parametrize("status", [0, 500, 504])
def test_applied_replace_is_no_conflict(
    proxied_store: tuple[Proxy, Store], lose: Any, status: int
) -> None:
    """A lost response raises an ambiguous write error, whichever response follows."""
    _, store = proxied_store
    store.put("a", b"old")
    for before, after in ((b"old", b"new"), (b"new", None), (None, b"once more")):
        lose(status)
        with pytest.raises(StoreError, match=LOST) as caught:
            store.replace("a", after, before)
        assert (caught.value.kind, caught.value.retryable) == ("answer_lost", False)
        assert store.get("a") == after


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
@pytest.mark.parametrize("atomic", [True, False])
def test_ambiguous_commit_of_one_key_is_no_conflict(
    proxied_store: tuple[Proxy, Store], lose: Any, atomic: bool
) -> None:
    """A lost response to a commit of one key raises no conflict, also for large chunks."""
    _, store = proxied_store
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
    lose(is_applied=False)
    assert staged.commit(atomic) is None
    assert store.get("a") == b"newer"


def test_unapplied_change_is_repeated(proxied_store: tuple[Proxy, Store], lose: Any) -> None:
    """The client sends the request again."""
    _, store = proxied_store
    store.put("a", b"old")
    lose(is_applied=False)
    assert store.replace("a", b"new", b"old")
    lose(503, is_applied=False)
    assert store.replace("a", b"newer", b"new")
    assert not store.replace("a", b"x", b"old")
    assert store.get("a") == b"newer"


def test_rows_are_not_appended_twice(proxied_store: tuple[Proxy, Store], lose: Any) -> None:
    """A change that would apply twice raises an error; an idempotent change succeeds."""
    _, store = proxied_store
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


@pytest.mark.xfail(
    raises=StoreError, strict=True, reason="a busy server counts as an unknown outcome"
)
def test_busy_server_has_applied_no_change(
    cloud: Cloud, proxied_store: tuple[Proxy, Store], lose: Any
) -> None:
    """After a busy status, an equal value in the store comes from another writer."""
    proxy, store = proxied_store
    store.put("a", b"old")
    lose(503, is_applied=False)
    proxy.callbacks = [lambda: None, lambda: cloud.put("folder/a", b"new")]
    assert not store.replace("a", b"new", b"old")
    assert store.get("a") == b"new"


def test_unreachable_server_is_transient_error() -> None:
    """Errors of client libraries that are no system errors are transient, too."""
    exceptions = pytest.importorskip("botocore.exceptions", reason="needs s3fs")

    where = {"endpoint_url": "http://host", "error": "no"}
    for kind in (exceptions.EndpointConnectionError, exceptions.ConnectTimeoutError):
        assert is_transient(kind(**where))
