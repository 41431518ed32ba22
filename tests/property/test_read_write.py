"""Arrays of both formats, sharded or not, match NumPy and the slow reference.

Every example parses a random metadata document: type, shape, chunks, shards, codecs, fill value
and keys. Comparisons are bitwise, so NaN payloads and the sign of zero count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from property.model import assert_same, assigned
from property.subject import Subject
from sampling import examples
from tessarr.stores import LocalStore
from tessarr.testing import keys
from tessarr.testing.reference import ReferenceArray
from tessarr.testing.strategies import array_cases

if TYPE_CHECKING:
    from pathlib import Path

CASES = {
    "v2": array_cases(zarr_format=2),
    "v3": array_cases(zarr_format=3, sharded=False),
    "sharded": array_cases(zarr_format=3, sharded=True),
    "rectilinear": array_cases(zarr_format=3, rectilinear=True),
}


@pytest.mark.parametrize("kind", CASES)
def test_writes_and_reads(kind: str) -> None:
    """After random writes, random reads and the whole array equal NumPy and the reference."""

    @examples(500)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        subject = Subject(data.draw(CASES[kind]))
        for _ in range(data.draw(st.integers(1, 2))):
            subject.write(data)
            subject.read(data)
        subject.read_many(data)
        subject.compare()
        subject.assert_no_fill_stored()

    run()


@pytest.mark.parametrize("kind", CASES)
def test_reads_of_foreign_chunks(kind: str) -> None:
    """Reads and updates work on chunks of the reference, with gaps and any order in shards."""

    @examples(200)
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
    """The array is in a folder, and the reference reads its files directly."""
    numbers = iter(range(10**6))

    @examples(120)
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


@examples(400)
@given(st.data())
def test_wrong_selections(data: st.DataObject) -> None:
    """A key that NumPy rejects raises the same error on reads and writes, and stores nothing."""
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


@examples(200)
@given(st.data())
def test_wrong_values(data: st.DataObject) -> None:
    """A value that does not broadcast raises an error before any store write."""
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
        return  # for empty selections, NumPy and Tessarr check different conditions
    value = np.zeros(lengths, subject.case.dtype)
    before = subject.store.list("")
    with pytest.raises(ValueError, match="shape"):
        subject.view(kind)[key] = value
    assert subject.store.list("") == before
