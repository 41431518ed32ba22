"""Failed changes leave the node unchanged: creation, resize, append, attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr.errors import DataError, StoreError


class FlakyStore(MutableMapping[str, bytes]):
    """Mapping whose nth change fails."""

    def __init__(self) -> None:
        self.items_: dict[str, bytes] = {}
        self.changes_left: int | None = None
        self.stays_full = False
        self.forbidden: Callable[[str], bool] = lambda _: False

    def _change(self, key: str) -> None:
        if self.forbidden(key):
            raise OSError(f"disk full at {key}")
        if self.changes_left is not None:
            if self.changes_left == 0:
                if not self.stays_full:
                    self.changes_left = None  # later changes succeed, including the undo
                raise OSError(f"disk full at {key}")
            self.changes_left -= 1

    def __getitem__(self, key: str) -> bytes:
        return self.items_[key]

    def __setitem__(self, key: str, value: bytes) -> None:
        self._change(key)
        self.items_[key] = bytes(value)

    def __delitem__(self, key: str) -> None:
        self._change(key)
        del self.items_[key]

    def __iter__(self) -> Iterator[str]:
        return iter(list(self.items_))

    def __len__(self) -> int:
        return len(self.items_)


@pytest.fixture(params=[2, 3])
def zarr_format(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def flaky() -> FlakyStore:
    return FlakyStore()


@pytest.fixture
def array(flaky: FlakyStore, zarr_format: Any) -> tessarr.Array:
    a = tessarr.create_array(
        flaky, shape=(5, 4), dtype="i4", chunks=(2, 3), zarr_format=zarr_format, fill_value=-1
    )
    a[:] = np.arange(20).reshape(5, 4)
    a.attrs["kept"] = 1
    return a


def failures(flaky: FlakyStore, action: Callable[[], Any]) -> Iterator[None]:
    """Make the first, second, … change fail, until `action` succeeds; yield after each failure."""
    for count in range(100):
        flaky.changes_left = count
        try:
            action()
        except OSError:
            flaky.changes_left = None
            yield
        else:
            flaky.changes_left = None
            assert count > 0
            return
    raise AssertionError("it never went well")


def check(array: tessarr.Array, shape: tuple[int, ...], values: Any) -> None:
    for seen in (array, tessarr.open_array(array.store)):
        assert seen.shape == shape
        np.testing.assert_array_equal(seen[:], values)
        assert dict(seen.attrs) == {"kept": 1}


def test_append_failure_leaves_array(array: tessarr.Array, flaky: FlakyStore) -> None:
    before = array[:]
    rows = np.full((4, 4), 7)
    for _ in failures(flaky, lambda: array.append(rows)):
        check(array, (5, 4), before)
        # A larger shape shows no remains of the failed append.
        array.resize(9, 4)
        assert (array[5:] == -1).all()
        array.resize(5, 4)
    check(array, (9, 4), np.vstack([before, rows]))


def test_append_failure_without_undo_has_note(array: tessarr.Array, flaky: FlakyStore) -> None:
    before = array[:]
    flaky.forbidden = lambda _: True
    with pytest.raises(OSError, match="disk full") as caught:
        array.append(np.full((4, 4), 7))
    assert any("could not be removed" in note for note in caught.value.__notes__)
    check(array, (5, 4), before)


def test_resize_larger_failure_leaves_array(array: tessarr.Array, flaky: FlakyStore) -> None:
    before = array[:]
    for _ in failures(flaky, lambda: array.resize(9, 9)):
        check(array, (5, 4), before)
    assert array.shape == (9, 9)


def test_resize_smaller_failure_at_shape_leaves_array(
    array: tessarr.Array, flaky: FlakyStore
) -> None:
    before = array[:]
    flaky.changes_left = 0
    with pytest.raises(OSError, match="disk full"):
        array.resize(1, 1)
    check(array, (5, 4), before)


def test_resize_smaller_failure_after_shape_shrinks_array(
    array: tessarr.Array, flaky: FlakyStore
) -> None:
    before = array[:]
    flaky.changes_left = 1
    with pytest.raises(OSError, match="disk full"):
        array.resize(1, 1)
    check(array, (1, 1), before[:1, :1])


def test_resize_larger_after_interrupted_shrink_reads_fill(
    array: tessarr.Array, flaky: FlakyStore, zarr_format: Any
) -> None:
    """After an interruption at any change of a shrinking resize, growth shows fill."""
    before = array[:]
    items, changes = dict(flaky.items_), 0
    while True:
        stopped = FlakyStore()
        stopped.items_ = dict(items)
        shrinking = tessarr.open_array(stopped, mode="r+")
        stopped.changes_left = changes
        stopped.stays_full = True
        try:
            shrinking.resize(1, 1)
        except OSError:
            pass
        else:
            break
        left = FlakyStore()
        left.items_ = stopped.items_
        grown = tessarr.open_array(left, mode="r+")
        old_shape = grown.shape
        grown.resize(9, 9)
        expected = np.full((9, 9), -1)
        expected[: old_shape[0], : old_shape[1]] = before[: old_shape[0], : old_shape[1]]
        np.testing.assert_array_equal(grown[:], expected)
        changes += 1
    assert changes > 3


def test_resize_larger_interrupted_leaves_array(array: tessarr.Array, flaky: FlakyStore) -> None:
    """An interruption at any change of a growing resize over stale chunks changes no element."""
    before = array[:]
    array.resize(3, 2, trim=False, delete_outside_chunks=False)
    for _ in failures(flaky, lambda: array.resize(6, 6)):
        check(array, (3, 2), before[:3, :2])
    expected = np.full((6, 6), -1)
    expected[:3, :2] = before[:3, :2]
    check(array, (6, 6), expected)


def test_attribute_update_failure_changes_nothing(array: tessarr.Array, flaky: FlakyStore) -> None:
    before = array[:]
    for _ in failures(flaky, lambda: array.attrs.update(a=1, b=2)):
        check(array, (5, 4), before)
    assert dict(array.attrs) == {"kept": 1, "a": 1, "b": 2}


def test_create_array_failure_leaves_nothing(flaky: FlakyStore, zarr_format: Any) -> None:
    def create() -> None:
        tessarr.create_array(
            flaky,
            path="g/a",
            data=np.arange(6),
            chunks=2,
            zarr_format=zarr_format,
            attributes={"x": 1},
        )

    for _ in failures(flaky, create):
        assert "g/a" not in tessarr.open_group(dict(flaky), zarr_format=zarr_format)
        assert not any(key.startswith("g/a/") for key in flaky)
    assert tessarr.open_array(flaky, path="g/a")[:].tolist() == [0, 1, 2, 3, 4, 5]


def test_overwrite_with_invalid_values_keeps_old_array(flaky: FlakyStore) -> None:
    tessarr.create_array(flaky, data=[1, 2])
    with pytest.raises(ValueError, match="convert"):
        tessarr.create_array(flaky, data=["x", "y"], dtype="i4", overwrite=True)
    assert tessarr.open_array(flaky)[:].tolist() == [1, 2]


def test_append_concurrent_resize_raises() -> None:
    flaky = FlakyStore()
    a = tessarr.create_array(flaky, shape=4, dtype="u1", chunks=2)

    class Sneaky(FlakyStore):
        def _change(self, key: str) -> None:
            if key == "c/2" and self.items_["zarr.json"] == before:
                tessarr.open_array(flaky).resize(7)
                self.items_["zarr.json"] = flaky.items_["zarr.json"]

    sneaky = Sneaky()
    sneaky.items_ = dict(flaky.items_)
    before = flaky.items_["zarr.json"]
    b = tessarr.open_array(sneaky)
    with pytest.raises(StoreError, match="resized") as caught:
        b.append([9, 9])
    assert caught.value.retryable
    assert tessarr.open_array(sneaky).shape == (7,)
    assert a.shape == (4,)


def test_damaged_chunk_names_array_key_and_chunk(flaky: FlakyStore) -> None:
    a = tessarr.create_array(flaky, path="g/a", shape=4, dtype="i4", chunks=2, compressors="zstd")
    a[:] = [1, 2, 3, 4]
    flaky["g/a/c/1"] = b"nonsense"
    assert a[:2].tolist() == [1, 2]
    reads: list[Callable[[], Any]] = [
        lambda: a[:],
        lambda: a[3],
        lambda: a.read(3).result(10),
        lambda: a[[3]],
    ]
    for read in reads:
        with pytest.raises(DataError) as caught:
            read()
        error = caught.value
        assert (error.key, error.chunk) == ("g/a/c/1", (1,))
        assert str(error.codec).startswith("zstd")
        assert "g/a/c/1" in str(error)
    with pytest.raises(DataError):
        a[3] = 5  # a partial write reads first
    a[2:] = 5
    assert a[:].tolist() == [1, 2, 5, 5]
