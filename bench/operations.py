"""Operations of the rows, for any engine: each returns its time, processor time and values."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.layouts import INPUTS

if TYPE_CHECKING:
    from bench.engines import Engine
    from bench.workloads import Row

Result = tuple[float, float, Any]


def time_work(row: Row, work: Callable[[], Any]) -> Result:
    """Return the seconds of `work`, its processor time (both per repetition), and its result.

    Processor time counts all threads. On a busy machine it is more reliable than the clock.
    """
    start, spent = time.perf_counter(), time.process_time()
    values = work()
    spent = time.process_time() - spent
    return (time.perf_counter() - start) / row.count, spent / row.count, values


def draw_boxes(row: Row) -> Iterator[tuple[slice, ...]]:
    """Yield random boxes of the row's size."""
    dice = np.random.default_rng(5)
    for _ in range(row.count):
        corner = [int(dice.integers(0, size - row.size + 1)) for size in row.layout.shape]
        yield tuple(slice(start, start + row.size) for start in corner)


def read_all(engine: Engine, path: Path, row: Row) -> Result:
    """Read the whole array."""
    array = engine.open(path, "r")
    return time_work(row, lambda: engine.read(array, (...,)))


def write_all(engine: Engine, path: Path, row: Row) -> Result:
    """Write the whole array."""
    values = INPUTS["values"]
    array = engine.open(path, "r+")
    everything = tuple(slice(0, size) for size in row.layout.shape)
    return time_work(row, lambda: engine.write(array, everything, values))


def crops(engine: Engine, path: Path, row: Row) -> Result:
    """Read random boxes."""
    array = engine.open(path, "r")
    wanted = list(draw_boxes(row))
    return time_work(row, lambda: [engine.read(array, box) for box in wanted])


def points(engine: Engine, path: Path, row: Row) -> Result:
    """Read random points."""
    array = engine.open(path, "r")
    dice = np.random.default_rng(6)
    columns = tuple(dice.integers(0, size, row.size) for size in row.layout.shape)
    return time_work(row, lambda: engine.points(array, columns))


def outer(engine: Engine, path: Path, row: Row) -> Result:
    """Read an outer selection."""
    array = engine.open(path, "r")
    dice = np.random.default_rng(7)
    lists = tuple(np.sort(dice.choice(size, row.size, replace=False)) for size in row.layout.shape)
    return time_work(row, lambda: engine.outer(array, lists))


def every(engine: Engine, path: Path, row: Row) -> Result:
    """Read every n-th element along each axis."""
    array = engine.open(path, "r")
    key = tuple(slice(0, size, row.size) for size in row.layout.shape)
    return time_work(row, lambda: engine.read(array, key))


def planes(engine: Engine, path: Path, row: Row) -> Result:
    """Read planes across the fastest axis."""
    array = engine.open(path, "r")
    last = row.layout.shape[-1]
    keys = [(..., slice(n, n + 1)) for n in range(3, last, last // row.count)][: row.count]
    return time_work(row, lambda: [engine.read(array, key) for key in keys])


def partial_writes(engine: Engine, path: Path, row: Row) -> Result:
    """Write small boxes into stored chunks."""
    array = engine.open(path, "r+")
    wanted = list(draw_boxes(row))
    value = np.full((row.size,) * len(row.layout.shape), 77, row.layout.dtype)

    def work() -> None:
        for box in wanted:
            engine.write(array, box, value)

    return time_work(row, work)


def small_chunk(engine: Engine, path: Path, row: Row) -> Result:
    """Read one small chunk again and again."""
    array = engine.open(path, "r")
    key = (slice(64, 128), slice(0, 64))

    def work() -> Any:
        for _ in range(row.count - 1):
            engine.read(array, key)
        return engine.read(array, key)

    return time_work(row, work)


def reopen(engine: Engine, path: Path, row: Row) -> Result:
    """Open an array that this process has opened before."""
    engine.open(path, "r")

    def work() -> None:
        for _ in range(row.count):
            engine.open(path, "r")

    return time_work(row, work)


def first_open(engine: Engine, path: Path, row: Row) -> Result:
    """Open an array for the first time in this process."""

    def work() -> None:
        engine.open(path, "r")

    return time_work(row, work)


def append(engine: Engine, path: Path, row: Row) -> Result:
    """Append rows, a batch at a time."""
    array = engine.open(path, "r+")
    shape = (row.size, row.layout.shape[1])
    batch = 1 + np.arange(shape[0] * shape[1], dtype=row.layout.dtype).reshape(shape)

    def work() -> None:
        state = array
        for _ in range(row.count):
            state = engine.append(state, batch)

    return time_work(row, work)


OPERATIONS: dict[str, Callable[[Engine, Path, Row], Result]] = {
    function.__name__: function
    for function in (
        read_all,
        write_all,
        crops,
        points,
        outer,
        every,
        planes,
        partial_writes,
        small_chunk,
        reopen,
        first_open,
        append,
    )
}
WRITES = {"write_all", "partial_writes", "append"}
STARTS_EMPTY = {"write_all", "append"}
ONCE_PER_PROCESS = {"first_open"}
