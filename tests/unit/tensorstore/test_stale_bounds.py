"""Reads and writes use the current bounds, and refresh stale ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ts


def _open(path: Path, **options: Any) -> ts.TensorStore:
    spec = {"driver": "zarr3", "kvstore": path.as_uri()}
    return ts.open(spec, open=True, create=True, dtype="int32", shape=[3], **options).result()


@pytest.mark.parametrize("driver", ["zarr3", "zarr"])
def test_handle_uses_its_new_bounds(driver: str) -> None:
    spec = {"driver": driver, "kvstore": "memory://"}
    store = ts.open(spec, create=True, dtype="int32", shape=[3]).result()
    view, fixed = store[1:], store[1:3]
    store.write([1, 2, 3]).result()
    store.resize(exclusive_max=[2]).result()
    assert store.domain == ts.IndexDomain([ts.Dim(size=3, implicit_upper=True)])  # unchanged
    assert store.read().result().tolist() == [1, 2]
    assert view.read().result().tolist() == [2]
    with pytest.raises(ValueError, match="outside"):
        fixed.read().result()
    store.resize(exclusive_max=[5]).result()
    assert store.read(order="F").result().tolist() == [1, 2, 3, 0, 0]
    with pytest.raises(ValueError, match="cannot be written"):
        store.write([7, 8, 9]).result()
    view.write([6, 7, 8, 9]).result()
    assert store.read().result().tolist() == [1, 6, 7, 8, 9]
    assert fixed.read().result().tolist() == [6, 7]
    with pytest.raises(ValueError, match="out has shape"):
        store.read(out=np.empty(3, "i4"))


@pytest.mark.parametrize(
    ("recheck", "seen"), [(True, 5), (1e11, 5), ("open", 3), (False, 3), (1.0, 3)]
)
def test_handle_after_resize_by_another_writer(tmp_path: Path, recheck: Any, seen: int) -> None:
    other = _open(tmp_path)
    store = _open(tmp_path, recheck_cached_metadata=recheck)
    views = [store, ts.cast(store, "float32"), store[::2]]
    coarse = ts.downsample(store, [2], "mean")
    other.resize(exclusive_max=[5]).result()
    shapes = [view.read().result().size for view in [*views, coarse]]
    assert shapes == [seen, seen, -(-seen // 2), -(-seen // 2)]
    statistics = store.storage_statistics(query_not_stored=True).result()
    assert statistics.not_stored is True
    copied = ts.array(np.ones(seen, "i4"))
    store.write(copied).result()
    assert other.resolve().result()[seen - 1].read().result() == 1


def test_removed_positions_fail_future(tmp_path: Path) -> None:
    store = _open(tmp_path, recheck_cached_metadata=True)
    (tmp_path / "zarr.json").unlink()
    reading, writing = store.read(), store.write(1)
    for future in (reading, writing, writing.copy):
        with pytest.raises(ValueError, match="no array"):
            future.result()


def test_assumed_metadata_are_never_read(tmp_path: Path) -> None:
    store = _open(tmp_path, assume_metadata=True, recheck_cached_metadata=True)
    assert store.read().result().tolist() == [0, 0, 0]
    assert not list(tmp_path.iterdir())


def test_order_is_c_or_f(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="order"):
        _open(tmp_path).read(order="X")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("view", "requested"),
    [
        (slice(1, None), {"exclusive_max": [5, None]}),
        (slice(1, None), {"exclusive_max": [None, 2]}),
        (slice(None, None, -1), {"inclusive_min": [-1, None]}),
    ],
)
def test_resize_beyond_explicit_bound_needs_tied_bounds(view: slice, requested: Any) -> None:
    spec = {"driver": "zarr3", "kvstore": "memory://"}
    store = ts.open(spec, create=True, dtype="int8", shape=[4, 6]).result()
    part = store[view]
    if part.domain[0].inclusive_min == 1:
        with pytest.raises(ValueError, match="resize_tied_bounds"):
            part.resize(**requested).result()
    else:
        assert part.resize(**requested).result().shape == (2, 6)
        return
    part.resize(**requested, resize_tied_bounds=True).result()
    assert store.resolve().result().shape != (4, 6)


def test_bounds_are_integers() -> None:
    spec = {"driver": "zarr3", "kvstore": "memory://"}
    store = ts.open(spec, create=True, dtype="int8", shape=[4]).result()
    with pytest.raises(TypeError):
        store.resize(exclusive_max=["a"])  # type: ignore[list-item]


def _marked(store: ts.TensorStore) -> list[ts.TensorStore]:
    """Return views with implicit bounds, which follow a store of six elements."""
    cast = ts.cast(store, "float64")
    return [item[2:4].mark_bounds_implicit[True] for item in (store, cast, ts.concat([store], 0))]


@pytest.mark.parametrize("kind", ["stored", "in memory"])
def test_implicit_bounds_follow_base(kind: str) -> None:
    values = np.arange(6, dtype="i4")
    store = ts.array(values.copy())
    if kind == "stored":
        spec = {"driver": "zarr3", "kvstore": "memory://"}
        store = ts.open(spec, create=True, dtype="int32", shape=[6]).result()
        store[...] = values
    for view in _marked(store):
        assert view.shape == (2,)
        assert view.read().result().tolist() == values.tolist()
        assert view[0].read().result() == 0
    blocks = ts.downsample(store, [2], "max")[1:2].mark_bounds_implicit[True]
    assert blocks.read().result().tolist() == [1, 3, 5]
    _marked(store)[0].write(7).result()
    assert store.read().result().tolist() == [7] * 6
