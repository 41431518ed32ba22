"""Limits, retries and errors of requests to servers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import tessarr.tensorstore as ts
from stores import servers
from stores.servers import QUICK_RETRIES, Proxy
from tessarr.errors import StoreError

pytestmark = pytest.mark.slow

VALUES = np.arange(64 * 64, dtype="i4").reshape(64, 64)


def test_request_limit_of_context_is_respected(remote_path: tuple[str, Proxy, str]) -> None:
    """The limit applies to all handles of the context together; its default is 32."""
    kind, proxy, path = remote_path
    spec = {"driver": "zarr3", "kvstore": servers.kvstore_spec(kind, proxy, path)}
    context = ts.Context({f"{kind}_request_concurrency": {"limit": 3}})
    created = ts.open(
        spec,
        create=True,
        dtype="int32",
        shape=[64, 64],
        chunk_layout=ts.ChunkLayout(chunk_shape=[8, 8]),
        context=context,
    ).result()
    proxy.delay_s = 0.03
    proxy.reset_counts()
    created.write(VALUES).result()
    assert proxy.max_concurrent == 3
    other = ts.open(spec, context=context).result()
    futures = [array.read() for array in (created, other)]
    assert all((future.result() == VALUES).all() for future in futures)
    assert proxy.max_concurrent == 3
    many = ts.open(spec).result()
    proxy.reset_counts()
    many.read().result()
    assert 3 < proxy.max_concurrent <= 32


def test_busy_server_is_retried(remote_path: tuple[str, Proxy, str]) -> None:
    kind, proxy, path = remote_path
    context = ts.Context({f"{kind}_request_retries": QUICK_RETRIES})
    store = ts.KvStore.open(servers.kvstore_spec(kind, proxy, path), context=context).result()
    for work in (
        lambda: store.write("a", b"value").result(),
        lambda: store.read("a").result().value,
        lambda: store.read("a", byte_range=slice(1, 3)).result().value,
        lambda: store.list().result(),
        lambda: store.delete_range(ts.KvStore.KeyRange()).result(),
    ):
        expected = work()
        proxy.refusals = [503, 500, 429] if kind == "gcs" else [503, 500, 503]
        result = work()
        assert proxy.refusals == []
        if isinstance(expected, (bytes, list)):
            assert result == expected or result == []
    proxy.reset_counts()
    proxy.refusals = [503] * 5
    with pytest.raises(Exception, match=r".") as caught:
        store.read("a").result()
    assert (len(proxy.requests), proxy.refusals) == (5, []), caught.value
    never = ts.Context({f"{kind}_request_retries": {**QUICK_RETRIES, "max_retries": 0}})
    proxy.reset_counts()
    proxy.refusals = [503]
    with pytest.raises(Exception, match=r"."):
        ts.KvStore.open(servers.kvstore_spec(kind, proxy, path), context=never).result()["a"]
    assert len(proxy.requests) == 1


def failing(kind: str, proxy: Proxy, path: str) -> Iterator[str]:
    """Perform operations that the server refuses; yield the texts of the errors."""
    context = ts.Context({f"{kind}_request_retries": {**QUICK_RETRIES, "max_retries": 1}})
    kvstore = servers.kvstore_spec(kind, proxy, path)
    store = ts.KvStore.open(kvstore, context=context).result()
    for act in (
        lambda: ts.open({"driver": "zarr3", "kvstore": kvstore}, context=context),
        lambda: store.read("a"),
        lambda: store.write("a", b"value"),
        store.list,
        lambda: store.delete_range(ts.KvStore.KeyRange("a", "b")),
    ):
        with pytest.raises(StoreError) as caught:  # which is a ValueError, as in TensorStore
            act().result()  # type: ignore[no-untyped-call]
        yield str(caught.value)


@pytest.mark.parametrize(("status", "code"), [(503, "ABORTED"), (403, "PERMISSION_DENIED")])
def test_failures_of_servers_are_errors_of_stores(
    remote_path: tuple[str, Proxy, str], status: int, code: str
) -> None:
    remote_path[1].refusals = [status] * 1000
    for text in failing(*remote_path):
        assert text.startswith(f"{code}: ")
    remote_path[1].refusals = []


def test_unreachable_server_raises() -> None:
    """The errors are equal without retries, and with a web server that sends no response."""
    for retries in (0, 1):
        context = ts.Context({"http_request_retries": {**QUICK_RETRIES, "max_retries": retries}})
        spec = {"driver": "zarr3", "kvstore": "http://127.0.0.1:9/a/"}
        with pytest.raises(
            StoreError, match=r"^ABORTED: .*127.0.0.1:9/a/.*: cannot connect"
        ) as caught:
            ts.open(spec, context=context).result()
        assert caught.value.retryable


def test_rate_limits_hold(remote_path: tuple[str, Proxy, str]) -> None:
    kind, proxy, path = remote_path
    name = f"experimental_{kind}_rate_limiter"
    context = ts.Context({name: {"read_rate": 100, "write_rate": 1e6, "doubling_time": "1h"}})
    spec = {**servers.kvstore_spec(kind, proxy, path), name: name}
    store = ts.KvStore.open(spec, context=context).result()
    store["a"] = b"1"
    limits = context[name]._get_or_build(lambda _: None)
    assert repr(limits) == "Limits(reads_per_s=100.0, writes_per_s=1000000.0, doubling_s=3600.0)"
    assert store["a"] == b"1"
