"""A coroutine that awaits only done futures gives other tasks of its event loop turns."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import tessarr
from tessarr import tensorstore as ts
from tessarr.flow import event_loop


@pytest.fixture(autouse=True)
def _turns_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_loop, "_next_turn", event_loop._NextTurn())


class Clock:
    """Time that advances by a step with each call."""

    def __init__(self, step_s: float) -> None:
        self.now, self.step_s = 1000.0, step_s

    def __call__(self) -> float:
        self.now += self.step_s
        return self.now


async def count_turns(work: Awaitable[object]) -> int:
    """Return how often another task runs during some work."""
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.ensure_future(take_turns())
    await work
    task.cancel()
    return turns


def create_array(kind: str) -> Callable[[int], Awaitable[Any]]:
    """Return a function that starts a small read of a new array."""
    array = tessarr.create_array(None, data=list(range(100)), chunks=10)
    if kind == "array":
        return array.read
    if kind == "async":
        return array.async_array.getitem
    spec = {"driver": "zarr3", "kvstore": "memory://"}
    view = ts.open(spec, dtype=ts.int32, shape=[100], create=True).result()
    view[...] = range(100)
    return lambda i: view[i].read()


async def read_in_loop(read: Callable[[int], Any]) -> None:
    for i in range(100):
        assert await read(i) == i


@pytest.mark.parametrize("kind", ["array", "async", "tensorstore"])
def test_loop_of_small_reads_lets_other_tasks_run(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = read_in_loop(create_array(kind))
    monkeypatch.setattr(event_loop, "monotonic", Clock(0.001))
    assert 20 <= asyncio.run(count_turns(loop)) <= 100


@pytest.mark.parametrize("kind", ["array", "async", "tensorstore"])
def test_loop_of_small_reads_in_short_time_is_not_suspended(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = read_in_loop(create_array(kind))
    monkeypatch.setattr(event_loop, "monotonic", Clock(1e-9))
    assert asyncio.run(count_turns(loop)) <= 2


def test_event_loops_of_threads_yield_independently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_loop, "monotonic", Clock(0.0))
    read = create_array("array")
    turns: list[int] = []

    async def read_once() -> None:
        await read(1)

    def run() -> None:
        turns.append(asyncio.run(count_turns(read_once())))

    for _ in range(2):
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    assert turns == [1, 1]


def test_done_future_without_event_loop_gives_its_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other event loops do not know the turns of asyncio."""
    monkeypatch.setattr(event_loop, "monotonic", Clock(1.0))
    read = create_array("array")

    async def work() -> Any:
        return await read(3)

    with pytest.raises(StopIteration) as caught:
        work().send(None)
    assert caught.value.value == 3
