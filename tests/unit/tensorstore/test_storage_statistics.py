"""`TensorStore.storage_statistics`: whether chunks of a view are stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import tessarr
import tessarr.tensorstore as ts
from tessarr.tensorstore.handle.handle import build_handle

PLAIN = ts.ChunkLayout(chunk_shape=[2, 3])
SHARDED = ts.ChunkLayout(write_chunk_shape=[4, 6], read_chunk_shape=[2, 3])


def _store(layout: ts.ChunkLayout, kvstore: Any = "memory://", driver: str = "zarr3") -> Any:
    spec = {"driver": driver, "kvstore": kvstore}
    store = ts.open(
        spec, create=True, dtype="int8", shape=[8, 12], chunk_layout=layout, fill_value=0
    ).result()
    store[:2, :3] = 1
    store[4, 6] = 1
    return store


def _statistics(view: ts.TensorStore) -> tuple[bool | None, bool | None]:
    result = view.storage_statistics(query_not_stored=True, query_fully_stored=True).result()
    return result.not_stored, result.fully_stored


@pytest.mark.parametrize(
    ("layout", "driver"), [(PLAIN, "zarr3"), (SHARDED, "zarr3"), (PLAIN, "zarr")]
)
def test_statistics_cover_each_subchunk(layout: ts.ChunkLayout, driver: str) -> None:
    store = _store(layout, driver=driver)
    assert _statistics(store) == (False, False)
    assert _statistics(store[:2, :3]) == (False, True)
    assert _statistics(store[:4, :6]) == (False, False)
    assert _statistics(store[3, 3]) == (True, False)
    assert _statistics(store[:2]) == (False, False)
    assert _statistics(store.vindex[[0, 5], [0, 7]]) == (False, True)
    assert _statistics(store.oindex[[0, 5], [0, 7]]) == (False, False)
    assert _statistics(store[1:1]) == (True, True)
    store[:2, :3] = 0
    assert _statistics(store[:2, :3]) == (True, False)


def test_unrequested_statistics_are_none() -> None:
    store = _store(PLAIN)
    assert store.storage_statistics().result() == ts.TensorStore.StorageStatistics()
    result = store.storage_statistics(query_fully_stored=True).result()
    assert (result.not_stored, result.fully_stored) == (None, False)


@pytest.mark.parametrize("layout", [PLAIN, SHARDED])
def test_position_beyond_shape_is_not_stored(layout: ts.ChunkLayout) -> None:
    store = _store(layout)
    store.write(1).result()
    store.resize(exclusive_max=[2, 12]).result()
    assert _statistics(store) == (False, False)
    assert _statistics(store[6:]) == (True, False)
    assert _statistics(store[20:30]) == (True, False)
    assert _statistics(store[:2]) == (False, True)


@pytest.mark.parametrize("layout", [PLAIN, SHARDED])
def test_position_below_origin_is_not_stored(layout: ts.ChunkLayout) -> None:
    """Implicit bounds allow positions outside the array."""
    driver = _store(layout)._driver

    def describe(view: ts.IndexTransform) -> tuple[bool | None, bool | None]:
        return _statistics(build_handle(driver, view))

    whole = ts.IndexTransform(ts.IndexDomain(shape=[8, 12])).translate_by[2, 3]
    down = ts.IndexTransform(
        domain=whole.domain,
        output=[ts.OutputIndexMap(0, -4, 1), ts.OutputIndexMap(1, -3, 1)],
    )
    assert describe(down[2:8]) == (False, False)
    assert describe(down[2:4]) == (True, False)
    assert describe(down[4:6, 3:6]) == (False, True)
    assert describe(down[3:6, 3:6]) == (False, False)
    assert describe(down[2:2]) == (True, True)


@pytest.mark.parametrize(
    ("driver", "keys"),
    [
        ("zarr3", ["c/00/0", "c/0/+1", "c/0", "c/0/0/0", "c//0", "0/0", "c/0/2" + "0" * 19]),
        ("zarr", ["00.0", "0.+1", "0", "0.0.0", ".0", "c.0.0", "0.2" + "0" * 19]),
    ],
)
def test_foreign_keys_are_ignored(driver: str, keys: list[str]) -> None:
    store = _store(PLAIN, driver=driver)
    assert _statistics(store[4:6, 3:6]) == (True, False)
    store[...] = 1
    store[:2, :3] = 0
    store[6:, 9:] = 0
    for key in keys:
        store.kvstore[key] = b"x"
    assert _statistics(store) == (False, False)
    assert _statistics(store[:2, :3]) == (True, False)
    store[:2, :3] = store[6:, 9:] = 1
    assert _statistics(store) == (False, True)


def test_array_of_rank_0_has_single_chunk() -> None:
    for driver in ("zarr3", "zarr"):
        spec = {"driver": driver, "kvstore": "memory://"}
        store = ts.open(spec, create=True, dtype="int8", shape=[], fill_value=0).result()
        assert _statistics(store) == (True, False)
        store[...] = 1
        assert _statistics(store) == (False, True)


class _Counted(dict[str, bytes]):
    """A store that counts lists and lookups."""

    listed = request_count = 0

    def __iter__(self) -> Iterator[str]:
        self.listed += 1
        return super().__iter__()

    def __getitem__(self, key: str) -> bytes:
        self.request_count += 1
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.request_count += 1
        return super().__contains__(key)


def test_many_chunks_need_single_list() -> None:
    stored = _Counted()
    array = tessarr.create_array(stored, shape=(80, 90), chunks=(2, 3), dtype="i1", fill_value=0)
    array[:2, :3] = 1
    store = ts.open({"driver": "zarr3", "kvstore": array._store}).result()
    stored.listed = stored.request_count = 0
    assert _statistics(store) == (False, False)
    assert (stored.listed, stored.request_count) == (1, 0)
    assert _statistics(store[20:22]) == (True, False)
    assert (stored.listed, stored.request_count) == (2, 0)
    assert _statistics(store[20:24, :6]) == (True, False)
    assert stored.listed == 2
    assert stored.request_count > 0


@pytest.mark.parametrize("driver", ["zarr3", "zarr"])
def test_statistics_of_huge_grid_are_fast(driver: str) -> None:
    """One listing returns the stored chunks; known chunks need no further lookup."""
    size = 2**40
    layout = ts.ChunkLayout(chunk_shape=[1])
    spec = {"driver": driver, "kvstore": "memory://"}
    store = ts.open(
        spec, create=True, dtype="int8", shape=[size], chunk_layout=layout, fill_value=0
    ).result()
    assert _statistics(store) == (True, False)
    store[size - 1] = 1
    assert _statistics(store) == (False, False)
    assert _statistics(store[: size - 1]) == (True, False)
    assert _statistics(store[1::3]) == (True, False)
    assert _statistics(store[size - 1 : 0 : -5]) == (False, False)
