"""Execution of flows, and futures."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from tessarr.flow.future import Future
from tessarr.flow.run import Flow, Get, Put, run_flow


class _Store:
    concurrency = 0

    def __init__(self) -> None:
        self.items: dict[str, bytes] = {"a": b"1"}

    def get(self, key: str, limit: int | None = None) -> bytes | None:
        if key == "broken":
            raise OSError("broken")
        return self.items.get(key)

    def put(self, key: str, data: bytes) -> None:
        self.items[key] = data


def _copy(source: str) -> Flow[list[bytes | None]]:
    try:
        data = yield Get(source)
        pair = yield (Get(source), Get("none"))
        yield Put("b", data)
    except OSError:
        yield Put("undone", b"")
        raise
    return [data, *pair]


def test_run_flow_batch_returns_all_responses() -> None:
    store: Any = _Store()
    assert run_flow(_copy("a"), store) == [b"1", b"1", None]
    assert store.items["b"] == b"1"


def test_run_flow_error_reaches_flow_and_caller() -> None:
    store: Any = _Store()
    with pytest.raises(OSError, match="broken"):
        run_flow(_copy("broken"), store)
    assert "undone" in store.items


def test_future_result_and_await_return_value() -> None:
    future: Future[int] = Future(lambda value: value + 1)
    assert not future.cancel()
    future.set_result(1)
    assert future.result(0) == 2

    async def wait() -> int:
        return await future

    assert asyncio.run(wait()) == 2


def test_future_result_after_timeout_raises() -> None:
    future: Future[int] = Future()
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        future.result(0.05)
    assert time.monotonic() - started < 5


def test_future_await_raises_its_error() -> None:
    future: Future[int] = Future()
    future.set_exception(KeyError("x"))

    async def wait() -> None:
        await future

    with pytest.raises(KeyError):
        asyncio.run(wait())
