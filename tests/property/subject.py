"""Array under test, with its reference and its model."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

import tessarr
from property.model import NUMPY_KINDS, Model, assert_same, assigned, selections
from tessarr.stores import MemoryStore
from tessarr.testing.reference import ReferenceArray
from tessarr.testing.strategies import ArrayCase

__all__ = ["Subject"]

ORDERS = st.sampled_from("CF")
STEPS = st.sampled_from((1, 2, -1, -2))


class Subject:
    """Array with three implementations: Tessarr, the slow reference, and a NumPy model."""

    def __init__(self, case: ArrayCase, store: Any = None, scramble: int | None = None) -> None:
        self.case = case
        self.store = MemoryStore(case.store()) if store is None else store
        self.array = tessarr.open_array(self.store, mode="r+")
        self.reference = ReferenceArray(self.store, scramble=scramble)
        self.fill = self.reference.meta.fill
        fill_item = np.frombuffer(self.fill, case.dtype)[0:1].reshape(())
        self.model = Model(
            np.broadcast_to(fill_item, case.shape).copy(), self.array.read_chunk_sizes
        )

    def view(self, kind: str) -> Any:
        """Return the object to index with keys of this kind."""
        views = {"outer": "oindex", "points": "vindex", "blocks": "blocks"}
        return getattr(self.array, views[kind]) if kind in views else self.array

    def drawn(self, data: st.DataObject) -> tuple[str, Any]:
        """Draw a kind of indexing, and a key."""
        return data.draw(selections(self.case.shape, self.array.read_chunk_sizes))

    def write(self, data: st.DataObject) -> None:
        """Write one random selection."""
        kind, key = self.drawn(data)
        target = self.model.read(kind, key).shape
        value = data.draw(assigned(self.case.dtype, target, self.fill))
        if kind in NUMPY_KINDS and data.draw(st.booleans()):
            self.array.write(key, value).result(60)
        else:
            self.view(kind)[key] = value
        self.model.write(kind, key, value)

    def read(self, data: st.DataObject) -> None:
        """Read one random selection and compare it."""
        kind, key = self.drawn(data)
        expected = self.model.read(kind, key)
        assert_same(self.view(kind)[key], expected)
        if kind in NUMPY_KINDS:
            assert_same(self.array.read(key).result(60), expected)
            self.read_into(data, key, expected)

    def read_many(self, data: st.DataObject) -> None:
        """Read several random selections in one call and compare them."""
        drawn = [self.drawn(data) for _ in range(data.draw(st.integers(1, 4)))]
        known = [key for kind, key in drawn if kind in NUMPY_KINDS]
        for result, key in zip(self.array.read_many(known), known, strict=True):
            assert_same(result, self.model.array[key])
        for key in known[:1]:
            stacked = self.array.read_many([key, key], stack=True)
            expected = np.stack([self.model.array[key]] * 2)
            assert_same(stacked, expected.astype(self.case.dtype))  # NumPy changes the byte order

    def read_into(self, data: st.DataObject, key: Any, expected: Any) -> None:
        """Read the selection into a caller's array with any strides."""
        wide = np.zeros([2 * n for n in expected.shape], self.case.dtype, data.draw(ORDERS))
        out = wide[..., *(slice(None, None, data.draw(STEPS)) for _ in expected.shape)]
        out = out[..., *(slice(n) for n in expected.shape)]
        assert self.array.read(key, out=out).result(60) is out
        assert_same(out, np.asarray(expected, self.case.dtype))

    def compare(self) -> None:
        """Compare all elements, and the stored chunks."""
        assert_same(self.array[...], self.model.array)
        assert_same(self.reference.read(), self.model.array)

    def assert_no_fill_stored(self) -> None:
        """Check that chunks with only fill values have no key."""
        stored = set(self.store.list(""))
        for key, chunk in self.reference.chunks():
            if chunk.tobytes() == self.fill * chunk.size:
                assert key not in stored
