"""Small futures, and views that cast on read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tessarr
import tessarr.tensorstore
from bench.loop_rows import LoopRow

COUNT = 1000


def make_rows(folder: Path) -> list[LoopRow]:
    """Return 1,000 small reads and writes by futures, and reads of a casting view."""
    import tensorstore

    array = tessarr.create_array(
        folder / "rows", data=_make_data((COUNT, 2000), "f4"), chunks=(1, 2000)
    )
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{folder / 'rows'}/"}}
    handles = {
        "own interface": tessarr.tensorstore.open(spec).result(),
        "TensorStore": tensorstore.open(spec).result(),
    }
    return [
        LoopRow(
            f"{COUNT} × read(i).result(), 8 kB",
            {"tessarr": lambda: [array.read(i).result() for i in range(COUNT)][-1]}
            | {name: _one_by_one(handle) for name, handle in handles.items()}
            | {"a[i]": lambda: [array[i] for i in range(COUNT)][-1]},
            {"own interface": 1.1, "TensorStore": 1},
        ),
        LoopRow(
            f"{COUNT} × await read(i)",
            {"tessarr": lambda: asyncio.run(_await_each(array.read))}
            | {name: _awaited(handle, _await_each) for name, handle in handles.items()},
            {"own interface": 1.1, "TensorStore": 1},
        ),
        LoopRow(
            f"gather of {COUNT} reads",
            {"tessarr": lambda: asyncio.run(_gather(array.read))}
            | {name: _awaited(handle, _gather) for name, handle in handles.items()},
            {"TensorStore": 1},
        ),
        LoopRow(
            f"{COUNT} futures, then their results",
            {"tessarr": lambda: _all(array.read)}
            | {name: _held(handle) for name, handle in handles.items()},
            {},
        ),
        *_make_cast_rows(folder),
    ]


def _make_cast_rows(folder: Path) -> list[LoopRow]:
    array = tessarr.create_array(
        folder / "cast", data=_make_data((160, 320, 320), "i2"), chunks=(40, 80, 80)
    )
    view, crop = array.astype("f4"), (slice(3, 11), slice(90, 98), slice(7, 15))
    out = np.empty(array.shape, "f4")
    return [
        LoopRow(
            "a.astype(f4)[...], 33 MB",
            {
                "tessarr": lambda: view[...],
                "a[...].astype": lambda: array[...].astype("f4"),
                "out=": lambda: array.get_basic_selection(..., out=out),
            },
            {"a[...].astype": 1, "out=": 1.3},
        ),
        LoopRow(
            "a.astype(f4)[crop of 8³]",
            {"tessarr": lambda: view[crop], "a[crop].astype": lambda: array[crop].astype("f4")},
            {"a[crop].astype": 1.1},
        ),
    ]


def _make_data(shape: tuple[int, ...], dtype: str) -> Any:
    random = np.random.default_rng(0)
    return np.cumsum(random.integers(-3, 4, shape), axis=-1).astype(dtype)


def _one_by_one(handle: Any) -> Callable[[], Any]:
    return lambda: [handle[i].read().result() for i in range(COUNT)][-1]


def _awaited(handle: Any, run: Any) -> Callable[[], Any]:
    return lambda: asyncio.run(run(lambda i: handle[i].read()))


def _held(handle: Any) -> Callable[[], Any]:
    return lambda: _all(lambda i: handle[i].read())


def _all(read: Callable[[int], Any]) -> Any:
    futures = [read(i) for i in range(COUNT)]
    return [future.result() for future in futures][-1]


async def _await_each(read: Callable[[int], Any]) -> Any:
    for i in range(COUNT - 1):
        await read(i)
    return await read(COUNT - 1)


async def _gather(read: Callable[[int], Any]) -> Any:
    return (await asyncio.gather(*(read(i) for i in range(COUNT))))[-1]
