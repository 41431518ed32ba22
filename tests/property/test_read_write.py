"""Arrays of both formats, sharded or not, behave as NumPy's, and as the slow reference says.

Every example makes an array (type, shape, chunks, shards, codecs, fill value, keys) from a random
metadata document, so that parsing is part of what is tested, and compares bits: NaN payloads
and the sign of zero count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tessarr
from property.model import NUMPY_KINDS, Model, assert_same, assigned, selections
from tessarr._engine import LocalStore, MemoryStore
from tessarr.testing import keys
from tessarr.testing.reference import ReferenceArray
from tessarr.testing.strategies import ArrayCase, array_cases

if TYPE_CHECKING:
    from pathlib import Path

CASES = {
    "v2": array_cases(zarr_format=2),
    "v3": array_cases(zarr_format=3, sharded=False),
    "sharded": array_cases(zarr_format=3, sharded=True),
    "rectilinear": array_cases(zarr_format=3, rectilinear=True),
}


ORDERS = st.sampled_from("CF")
STEPS = st.sampled_from((1, 2, -1, -2))


class Subject:
    """One array, and three ways to it: Tessarr, the slow reference, a model in NumPy."""

    def __init__(self, case: ArrayCase, store: Any = None, scramble: int | None = None) -> None:
        self.case = case
        self.store = MemoryStore(case.store()) if store is None else store
        self.array = tessarr.open_array(self.store, mode="r+")
        self.reference = ReferenceArray(self.store, scramble=scramble)
        self.fill = self.reference.meta.fill
        one = np.frombuffer(self.fill, case.dtype)[0:1].reshape(())
        self.model = Model(np.broadcast_to(one, case.shape).copy(), self.array.read_chunk_sizes)

    def view(self, kind: str) -> Any:
        """Return what takes the keys of a kind between its brackets."""
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

    def read_into(self, data: st.DataObject, key: Any, expected: Any) -> None:
        """Read the selection into an array of the caller, whose strides may be any."""
        wide = np.zeros([2 * n for n in expected.shape], self.case.dtype, data.draw(ORDERS))
        out = wide[..., *(slice(None, None, data.draw(STEPS)) for _ in expected.shape)]
        out = out[..., *(slice(n) for n in expected.shape)]
        assert self.array.read(key, out=out).result(60) is out
        assert_same(out, np.asarray(expected, self.case.dtype))

    def compare(self) -> None:
        """Compare everything, and what is stored."""
        assert_same(self.array[...], self.model.array)
        assert_same(self.reference.read(), self.model.array)

    def assert_no_fill_stored(self) -> None:
        """Chunks that hold nothing but the fill value have no key."""
        stored = set(self.store.list(""))
        for key, chunk in self.reference.chunks():
            if chunk.tobytes() == self.fill * chunk.size:
                assert key not in stored


@pytest.mark.parametrize("kind", CASES)
def test_writes_and_reads(kind: str) -> None:
    """After random writes, random reads and the whole equal NumPy and the reference."""

    @settings(max_examples=500)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        subject = Subject(data.draw(CASES[kind]))
        for _ in range(data.draw(st.integers(1, 2))):
            subject.write(data)
            subject.read(data)
        subject.compare()
        subject.assert_no_fill_stored()

    run()


@pytest.mark.parametrize("kind", CASES)
def test_reads_of_foreign_chunks(kind: str) -> None:
    """What the reference wrote, shards in any order and with gaps, is read and updated."""

    @settings(max_examples=200)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        case = data.draw(CASES[kind])
        subject = Subject(case, scramble=data.draw(st.none() | st.integers(0, 99)))
        key = data.draw(st.just(...) | keys.basic_keys(case.shape))
        target = subject.model.array[key].shape
        value = data.draw(assigned(case.dtype, target, subject.fill))
        subject.reference.write(key, value)
        subject.model.write("basic", key, value)
        subject.read(data)
        subject.read(data)
        subject.write(data)
        subject.compare()

    run()


def test_folder(tmp_path: Path) -> None:
    """The same in a folder, whose files the reference reads by itself."""
    numbers = iter(range(10**6))

    @settings(max_examples=120)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        case = data.draw(array_cases())
        folder = tmp_path / str(next(numbers))
        store = LocalStore(folder)
        for key, document in case.store().items():
            store.put(key, document)
        subject = Subject(case, store)
        for _ in range(data.draw(st.integers(1, 2))):
            subject.write(data)
            subject.read(data)
        subject.compare()
        files = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file()
        }
        assert_same(ReferenceArray(files).read(), subject.model.array)

    run()


@settings(max_examples=400)
@given(st.data())
def test_wrong_selections(data: st.DataObject) -> None:
    """A key that NumPy refuses is refused alike, for reading and writing, and stores nothing."""
    subject = Subject(data.draw(array_cases()))
    key = data.draw(keys.wild_keys(subject.case.shape))
    try:
        expected = subject.model.array[key]
    except (IndexError, ValueError, TypeError) as error:
        kind = next(k for k in (IndexError, ValueError, TypeError) if isinstance(error, k))
        with pytest.raises(kind):
            subject.array[key]
        before = subject.store.list("")
        with pytest.raises(kind):
            subject.array[key] = subject.fill and np.zeros((), subject.case.dtype)
        assert subject.store.list("") == before
    else:
        assert_same(subject.array[key], expected)


@settings(max_examples=200)
@given(st.data())
def test_wrong_values(data: st.DataObject) -> None:
    """A value that does not broadcast is refused before anything is stored."""
    subject = Subject(data.draw(array_cases()))
    kind, key = subject.drawn(data)
    target = subject.model.read(kind, key).shape
    lengths = [*target]
    if lengths and data.draw(st.booleans()):
        axis = data.draw(st.integers(0, len(lengths) - 1))
        lengths[axis] += 2 if lengths[axis] == 0 else 1
        if lengths[axis] == 1:
            lengths[axis] = 2
    else:
        lengths.insert(0, 2)
    if subject.model.read(kind, key).size == 0:
        return  # NumPy and we differ in what is checked where nothing is stored
    value = np.zeros(lengths, subject.case.dtype)
    before = subject.store.list("")
    with pytest.raises(ValueError, match="shape"):
        subject.view(kind)[key] = value
    assert subject.store.list("") == before
