"""Blocks of buffered writes, handles, resizes and transactions of one array, against NumPy."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

import tessarr
from sampling import examples
from tessarr import tensorstore as ts

_LONGEST = 12  # of an axis
_MAX_BLOCKS = 3

LAYOUTS: dict[str, dict[str, Any]] = {
    "v2": {"chunks": (4, 3), "zarr_format": 2},
    "v3": {"chunks": (4, 3)},
    "sharded": {"chunks": (2, 3), "shards": (4, 6)},
}

LIMITS = st.sampled_from([0, 60, 200, 1 << 20])
PARTS = st.tuples(*[st.tuples(st.integers(0, _LONGEST), st.integers(1, 5))] * 2)
HANDLES = st.integers(0, 2)


class Buffered(RuleBasedStateMachine):
    """An array with open blocks, its handles, and its expected elements."""

    layout: ClassVar[str]
    folder: ClassVar[str]

    @initialize(
        shape=st.tuples(*[st.integers(4, _LONGEST)] * 2),
        fill=st.sampled_from([0, -1]),
        handle=HANDLES,
        limit=LIMITS,
    )
    def create(self, shape: tuple[int, int], fill: int, handle: int, limit: int) -> None:
        self.root = Path(tempfile.mkdtemp(dir=self.folder))
        self.group = tessarr.create_group(self.root, zarr_format=self.format)
        self.blocks: list[Any] = []
        self.numbers = itertools.count(1)
        self.create_array(shape, fill, "i4")
        self.enter(handle, limit)

    @property
    def format(self) -> Any:
        return LAYOUTS[self.layout].get("zarr_format", 3)

    @property
    def chunk_shape(self) -> tuple[int, int]:
        """The shape of a chunk, or of a shard."""
        settings = LAYOUTS[self.layout]
        shape: tuple[int, int] = settings.get("shards", settings["chunks"])
        return shape

    @property
    def path(self) -> Path:
        return self.root / "a"

    def open_handles(self) -> None:
        """Open the array twice in the store of the group, and in another store of the folder."""
        other = tessarr.open_array(self.path, mode="r+")
        self.handles: list[Any] = [self.group["a"], self.group["a"], other]

    def part(self, part: Any) -> tuple[slice, ...]:
        """Return a part of the array."""
        pairs = zip(part, self.model.shape, strict=True)
        return tuple(slice(min(a, n), min(a + count, n)) for (a, count), n in pairs)

    def values(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return values that no earlier write had."""
        return np.full(shape, next(self.numbers), self.model.dtype)

    # Elements

    @rule(handle=HANDLES, part=PARTS)
    def write(self, handle: int, part: Any) -> None:
        key = self.part(part)
        self.handles[handle][key] = self.model[key] = self.values(self.model[key].shape)

    @rule(handle=HANDLES, row=st.integers(0, _LONGEST - 1))
    def write_row(self, handle: int, row: int) -> None:
        if row < len(self.model):
            self.handles[handle][row] = self.model[row] = self.values(self.model.shape[1:])

    @rule(handle=HANDLES, part=PARTS)
    def read(self, handle: int, part: Any) -> None:
        key = self.part(part)
        assert np.array_equal(self.handles[handle][key], self.model[key])

    @rule(handle=HANDLES)
    def read_all(self, handle: int) -> None:
        assert self.handles[handle].shape == self.model.shape
        assert np.array_equal(self.handles[handle][...], self.model)

    # Shapes

    @rule(handle=HANDLES, axis=st.integers(0, 1), count=st.integers(0, 4))
    def append(self, handle: int, axis: int, count: int) -> None:
        lengths = list(self.model.shape)
        lengths[axis] = min(count, _LONGEST - lengths[axis])
        value = self.values(tuple(lengths))
        self.model = np.concatenate([self.model, value], axis, dtype=self.model.dtype)
        assert self.handles[handle].append(value, axis) == self.model.shape
        self.open_handles()

    @rule(handle=HANDLES, shape=st.tuples(*[st.integers(0, _LONGEST)] * 2))
    def resize(self, handle: int, shape: tuple[int, int]) -> None:
        self.handles[handle].resize(shape)
        self.set_shape(shape)

    @rule(cells=st.tuples(*[st.integers(0, 2)] * 2), handle=HANDLES, part=PARTS)
    def resize_in_transaction(self, cells: tuple[int, int], handle: int, part: Any) -> None:
        """A transaction, which does not trim edge chunks, resizes the array to whole chunks."""
        transaction = ts.Transaction()
        shape = tuple(i * n for i, n in zip(cells, self.chunk_shape, strict=True))
        self.staged(transaction).resize(exclusive_max=shape).result()
        self.write(handle, part)
        transaction.commit_sync()
        self.set_shape(shape)

    def set_shape(self, shape: tuple[int, ...]) -> None:
        overlap = tuple(slice(min(pair)) for pair in zip(shape, self.model.shape, strict=True))
        new = np.full(shape, self.fill, self.model.dtype)
        new[overlap] = self.model[overlap]
        self.model = new
        self.open_handles()

    # The whole array

    def create_array(self, shape: tuple[int, ...], fill: int, dtype: str, **others: Any) -> None:
        settings = LAYOUTS[self.layout] | others
        self.group.create_array("a", shape=shape, dtype=dtype, fill_value=fill, **settings)
        self.fill = fill
        self.model = np.full(shape, fill, dtype)
        self.open_handles()

    @rule(
        shape=st.tuples(*[st.integers(0, _LONGEST)] * 2),
        fill=st.sampled_from([0, -1]),
        dtype=st.sampled_from(["i4", "i8"]),
    )
    def overwrite(self, shape: tuple[int, int], fill: int, dtype: str) -> None:
        self.create_array(shape, fill, dtype, overwrite=True)

    @rule(by_path=st.booleans())
    def delete_and_create(self, by_path: bool) -> None:
        del (tessarr.open_group(self.root, mode="r+") if by_path else self.group)["a"]
        assert not self.path.exists()
        self.create_array(self.model.shape, self.fill, "i4")

    # Blocks

    @precondition(lambda self: len(self.blocks) < _MAX_BLOCKS)
    @rule(handle=HANDLES, limit=LIMITS)
    def enter(self, handle: int, limit: int) -> None:
        block = self.handles[handle].buffered(max_bytes=limit)
        block.__enter__()
        self.blocks.append(block)

    @precondition(lambda self: len(self.blocks) < _MAX_BLOCKS)
    @rule(limit=LIMITS)
    def enter_group(self, limit: int) -> None:
        block = tessarr.buffered(self.group, max_bytes=limit)
        block.__enter__()
        self.blocks.append(block)

    @precondition(lambda self: self.blocks)
    @rule(data=st.data(), raises=st.booleans())
    def leave(self, data: st.DataObject, raises: bool) -> None:
        """Leave any block, also by an exception; all elements are stored then."""
        block = self.blocks.pop(data.draw(st.integers(0, len(self.blocks) - 1)))
        error = ZeroDivisionError() if raises else None
        assert not block.__exit__(type(error) if error else None, error, None)
        assert not block.nbytes
        if not self.blocks:
            self.compare_stored()

    @precondition(lambda self: self.blocks)
    @rule(data=st.data())
    def flush(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.blocks)).flush()

    # Transactions

    def staged(self, transaction: ts.Transaction) -> Any:
        driver = "zarr" if self.format == 2 else "zarr3"
        spec = {"driver": driver, "kvstore": {"driver": "file", "path": str(self.path)}}
        return ts.open(spec, transaction=transaction, open=True).result()

    @rule(
        steps=st.lists(
            st.tuples(st.sampled_from(["write", "outside", "read", "delete"]), HANDLES, PARTS),
            min_size=1,
            max_size=5,
        ),
        commits=st.booleans(),
    )
    def transact(self, steps: list[Any], commits: bool) -> None:
        """A transaction writes, reads and deletes chunks, while others write."""
        transaction = ts.Transaction()
        array = self.staged(transaction)
        values, is_staged = self.model.copy(), np.zeros(self.model.shape, bool)
        for step, handle, part in steps:
            key = self.part(part)
            if step == "write":
                values[key] = self.values(values[key].shape)
                is_staged[key] = True
                array[key].write(values[key]).result()
            elif step == "outside":
                self.write(handle, part)
            elif step == "read":
                expected = np.where(is_staged, values, self.model)[key]
                assert np.array_equal(array[key].read().result(), expected)
                self.read(handle, part)
            else:
                chunk, name = self.chunk_of(key)
                del self.keys(transaction)[name]
                values[chunk], is_staged[chunk] = self.fill, True
        if commits:
            transaction.commit_sync()
            self.model = np.where(is_staged, values, self.model)
        else:
            transaction.abort()
        self.read_all(0)

    def keys(self, transaction: ts.Transaction) -> Any:
        spec = {"driver": "file", "path": f"{self.path}/"}
        return ts.KvStore.open(spec, transaction=transaction).result()

    def chunk_of(self, key: tuple[slice, ...]) -> tuple[tuple[slice, ...], str]:
        """Return the region and the key of the chunk, or the shard, of an element."""
        pairs = [(part.start // n, n) for part, n in zip(key, self.chunk_shape, strict=True)]
        region = tuple(slice(i * n, (i + 1) * n) for i, n in pairs)
        cell = [str(i) for i, _ in pairs]
        return region, ".".join(cell) if self.format == 2 else "/".join(["c", *cell])

    @rule(handle=HANDLES, part=PARTS)
    def delete_chunk_in_transaction(self, handle: int, part: Any) -> None:
        self.write(handle, part)
        self.transact([("delete", handle, part)], True)

    @rule(repeatable=st.booleans(), commits=st.booleans(), handle=HANDLES, part=PARTS)
    def delete_in_transaction(
        self, repeatable: bool, commits: bool, handle: int, part: Any
    ) -> None:
        """A transaction deletes the array; a new array has none of the old elements."""
        transaction = ts.Transaction(repeatable_read=repeatable)
        self.write(handle, part)
        self.keys(transaction).delete_range(ts.KvStore.KeyRange()).result()
        self.read_all(0)
        if commits:
            transaction.commit_sync()
            self.create_array(self.model.shape, self.fill, self.model.dtype.str)
        else:
            transaction.abort()

    # The end

    def compare_stored(self) -> None:
        stored = tessarr.open_array(self.path, mode="r")
        assert stored.shape == self.model.shape
        assert np.array_equal(stored[...], self.model)

    def teardown(self) -> None:
        while self.blocks:
            self.blocks.pop().__exit__(None, None, None)
        if hasattr(self, "model"):
            self.compare_stored()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_buffered_random_operations_match_numpy(layout: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        machine: Any = type("Made", (Buffered,), {"layout": layout, "folder": folder})
        run_state_machine_as_test(machine, settings=examples(100, stateful_step_count=25))
