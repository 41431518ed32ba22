"""Random resizes and appends of arrays with every chunk grid, compared with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessarr
from property.model import assert_same
from tessarr.stores import MemoryStore
from tessarr.testing.reference import ReferenceArray
from tessarr.testing.strategies import array_cases, values

CASES = {
    "regular": array_cases(sharded=False),
    "sharded": array_cases(zarr_format=3, sharded=True),
    "rectilinear": array_cases(zarr_format=3, rectilinear=True),
}


class Changing:
    """Array with its expected elements: fill unless written since the last resize removed them."""

    def __init__(self, store: MemoryStore) -> None:
        self.array = tessarr.open_array(store, mode="r+")
        self.store = store
        self.fill = ReferenceArray(store).meta.fill
        self.model = self.filled(self.array.shape)

    def filled(self, shape: tuple[int, ...]) -> np.ndarray:
        fill_item = np.frombuffer(self.fill, self.array.dtype)[0:1].reshape(())
        return np.broadcast_to(fill_item, shape).copy()

    def write(self, data: st.DataObject) -> None:
        value = data.draw(values(self.model.dtype, self.model.shape, fill=self.fill))
        self.array[...] = self.model[...] = value

    def resize(self, data: st.DataObject) -> None:
        shape = tuple(data.draw(st.integers(0, n + 5)) for n in self.model.shape)
        self.array.resize(shape)
        overlap = tuple(slice(min(a, b)) for a, b in zip(shape, self.model.shape, strict=True))
        new = self.filled(shape)
        new[overlap] = self.model[overlap]
        self.model = new

    def append(self, data: st.DataObject) -> None:
        axis = data.draw(st.integers(0, self.model.ndim - 1))
        lengths = list(self.model.shape)
        lengths[axis] = data.draw(st.integers(0, 5))
        value = data.draw(values(self.model.dtype, tuple(lengths), fill=self.fill))
        assert self.array.append(value, axis) == self.array.shape
        self.model = np.concatenate([self.model, value], axis, dtype=self.model.dtype)

    def compare(self) -> None:
        again = tessarr.open_array(self.store, mode="r")
        for array in (self.array, again):
            assert array.shape == self.model.shape
            assert_same(array[...], self.model)
            inside = tuple(map(sum, array.write_chunk_sizes))
            assert inside == array.shape
            assert array.nchunks_initialized <= array.nchunks
        assert_same(ReferenceArray(self.store).read(), self.model)


@pytest.mark.parametrize("kind", CASES)
def test_array_random_resizes_match_reference(kind: str) -> None:
    """After each step, the array, its stored chunks and the slow reference agree."""

    @given(st.data())
    def run(data: st.DataObject) -> None:
        case: Any = data.draw(CASES[kind])
        subject = Changing(MemoryStore(case.store()))
        steps = [subject.write, subject.resize, subject.resize]
        if subject.model.ndim:
            steps += [subject.append, subject.append]
        for _ in range(data.draw(st.integers(1, 5))):
            data.draw(st.sampled_from(steps))(data)
            subject.compare()

    run()
