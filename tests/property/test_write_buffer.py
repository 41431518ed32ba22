"""Staged elements in a write buffer: only its array reads them until they are stored.

Another array writes to the same store meanwhile. Staged elements win, and no other write is
lost.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from property.model import Model, assert_same, assigned
from property.subject import Subject
from property.test_fields import drawn_names, named
from sampling import examples
from tessarr.array.write_buffer import WriteBuffer, buffer_writes
from tessarr.testing.strategies import array_cases

CASES = {
    "v2": array_cases(zarr_format=2),
    "v3": array_cases(zarr_format=3, sharded=False),
    "sharded": array_cases(zarr_format=3, sharded=True),
    "rectilinear": array_cases(zarr_format=3, rectilinear=True),
    "records": array_cases(zarr_format=3, sharded=True, records=True),
    "records_v2": array_cases(zarr_format=2, records=True),
}


class BufferedSubject(Subject):
    """Array with a write buffer, and another array in the same store."""

    def __init__(self, case: Any) -> None:
        super().__init__(case)
        self.others = Subject(case, self.store)
        self.staged: list[tuple[str, Any, Any]] = []
        self.overlay = WriteBuffer()
        self.array = buffer_writes(self.array, self.store, self.overlay)

    def put(self, data: st.DataObject) -> None:
        """Write one random selection, of records possibly only some fields."""
        kind, key = self.drawn(data)
        shape = self.model.read(kind, key).shape
        dtype = self.case.dtype
        names = list(dtype.names or ())
        if names and data.draw(st.booleans()):
            drawn = drawn_names(data, dtype)
            names = [drawn] if isinstance(drawn, str) else drawn
        fill = np.frombuffer(self.fill, dtype)
        part = np.dtype([(name, dtype[name]) for name in names]) if names else dtype
        fill_item = b"".join(fill[name].tobytes() for name in names) if names else self.fill
        value = data.draw(assigned(part, shape, fill_item))
        self.view(kind)[named(names, key) if names else key] = value
        self.staged.append((kind, key, value))

    def expected(self) -> np.ndarray[Any, Any]:
        """Return the stored elements, overwritten by the staged ones."""
        self.model = Model(self.others.model.array.copy(), self.array.read_chunk_sizes)
        for kind, key, value in self.staged:
            if value.dtype.names is None:
                self.model.write(kind, key, value)
                continue
            new = np.array(self.model.read(kind, key))
            for name in value.dtype.names:
                new[name] = np.broadcast_to(value, new.shape)[name]
            self.model.write(kind, key, new)
        return self.model.array


@pytest.mark.parametrize("kind", CASES)
def test_write_buffer_random_writes_match_numpy(kind: str) -> None:
    """Random writes to both arrays match NumPy while some are staged, and after all are stored."""

    @examples(300)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        subject = BufferedSubject(data.draw(CASES[kind]))
        for _ in range(data.draw(st.integers(1, 4))):
            if data.draw(st.integers(0, 2)):
                subject.put(data)
            else:
                subject.others.write(data)
            subject.expected()
            subject.read(data)
        before = subject.others.model.array
        assert_same(subject.others.array[...], before)
        subject.array._store_write_buffer()
        assert not subject.overlay
        subject.others.model.array = subject.expected()
        subject.others.compare()
        subject.others.assert_no_fill_stored()

    run()
