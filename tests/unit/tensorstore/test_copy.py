"""Copies between handles: memory use, and written elements."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ts
from tessarr.errors import DataError

SHAPE = (300, 400)
VALUES = np.random.default_rng(0).integers(0, 1000, SHAPE).astype("u2")


@pytest.fixture
def stored(tmp_path: Path) -> ts.TensorStore:
    spec = {"driver": "zarr3", "kvstore": (tmp_path / "a").as_uri()}
    layout = ts.ChunkLayout(chunk_shape=[50, 60])
    built = ts.open(spec, create=True, dtype="uint16", shape=SHAPE, chunk_layout=layout).result()
    built.write(VALUES).result()
    return built


def peak_bytes(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_copy_to_memory_needs_no_buffer(stored: ts.TensorStore) -> None:
    out = np.zeros(SHAPE, "u2")
    target = ts.array(out)
    target.write(stored).result()  # loads modules
    out[...] = 0
    assert peak_bytes(target.write(stored).result) < VALUES.nbytes // 4
    assert (out == VALUES).all()


def test_copy_from_memory_needs_no_buffer(stored: ts.TensorStore) -> None:
    source = ts.array(VALUES[::-1])
    stored.write(source).result()
    assert peak_bytes(lambda: stored.write(source).result()) < VALUES.nbytes // 4
    assert (stored.read().result() == VALUES[::-1]).all()


View = Callable[[Any], Any]


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(lambda a: a, id="all"),
        pytest.param(lambda a: a.T, id="transposed"),
        pytest.param(lambda a: a[::2, ::3], id="strided"),
        pytest.param(lambda a: a[5, 6], id="one element"),
        pytest.param(lambda a: a[7:7], id="nothing"),
        pytest.param(lambda a: a.oindex[[5, 3, 1], :], id="index array"),
        pytest.param(lambda a: a[:300, :300][ts.d[0, 1].diagonal], id="diagonal"),
        pytest.param(lambda a: a[ts.d[0].translate_to[-9]], id="moved"),
    ],
)
def test_copy_to_view_writes_only_its_elements(stored: ts.TensorStore, view: View) -> None:
    out, expected = np.full(SHAPE, 7777, "u2"), np.full(SHAPE, 7777, "u2")
    view(ts.array(out)).write(view(stored)).result()
    view(ts.array(expected)).write(view(ts.array(VALUES)).read().result()).result()
    assert (out == expected).all()


def test_copy_broadcasts_single_row(stored: ts.TensorStore) -> None:
    out = np.zeros(SHAPE, "u2")
    ts.array(out)[10:20].write(stored[3]).result()
    assert (out[10:20] == VALUES[3]).all()
    assert not out[:10].any()
    assert not out[20:].any()


def test_copy_converts_data_types(stored: ts.TensorStore) -> None:
    out = np.zeros(SHAPE, "i8")
    ts.array(out).write(stored).result()
    assert (out == VALUES).all()


def test_copy_to_overlapping_memory_is_correct() -> None:
    values = np.arange(20)
    store = ts.array(values)
    store[1:].write(store[:19]).result()
    assert values.tolist() == [0, *range(19)]


def test_copy_continues_without_waiter(stored: ts.TensorStore) -> None:
    done = ts.array(out := np.zeros(SHAPE, "u2")).write(stored)
    copied = done.copy
    del done
    gc.collect()
    copied.result()
    assert (out == VALUES).all()


def test_source_may_change_after_copy_future(stored: ts.TensorStore) -> None:
    source = VALUES[::-1].copy()
    writing = stored.write(ts.array(source))
    writing.copy.result()
    source[...] = 0
    writing.result()
    assert (stored.read().result() == VALUES[::-1]).all()


def test_damaged_source_fails_both_futures(stored: ts.TensorStore, tmp_path: Path) -> None:
    (tmp_path / "a" / "c" / "2" / "2").write_bytes(b"x")
    writing = ts.array(np.zeros(SHAPE, "u2")).write(stored)
    with pytest.raises(DataError):
        writing.copy.result()
    with pytest.raises(DataError):
        writing.result()
