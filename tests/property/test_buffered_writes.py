"""Blocks of buffered writes match NumPy, while reads and other writers come in between."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import tessarr
from property.model import assert_same
from property.subject import Subject
from property.test_changing_shape import Changing
from sampling import examples
from tessarr.store.wrappers.instrumented import CountingStore
from tessarr.stores import MemoryStore
from tessarr.testing.strategies import array_cases, values

CASES = {
    "v2": array_cases(zarr_format=2),
    "v3": array_cases(zarr_format=3, sharded=False),
    "sharded": array_cases(zarr_format=3, sharded=True),
    "rectilinear": array_cases(zarr_format=3, rectilinear=True),
    "records": array_cases(zarr_format=3, sharded=True, records=True),
}

LIMITS = st.sampled_from([0, 1, 20, 100, 1000, 1 << 28])


@pytest.mark.parametrize("kind", CASES)
def test_buffered_random_writes_match_numpy(kind: str) -> None:
    """Reads see each write, by any object of the array; all elements are stored at the end."""

    @examples(100)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        subject = Subject(data.draw(CASES[kind]))
        other = tessarr.open_array(subject.store, mode="r+")
        settings = {"write_empty_chunks": data.draw(st.booleans())}
        objects = [subject.array, other, other.with_config(settings)]
        with ExitStack() as blocks:
            block = data.draw(st.sampled_from(objects)).buffered(max_bytes=data.draw(LIMITS))
            blocks.enter_context(block)
            for _ in range(data.draw(st.integers(1, 6))):
                subject.array = data.draw(st.sampled_from(objects))
                if data.draw(st.booleans()):
                    subject.write(data)
                else:
                    subject.read(data)
                if data.draw(st.integers(0, 9)) == 0:
                    block.flush()
                    subject.compare()
            if data.draw(st.booleans()):
                blocks.enter_context(other.buffered(max_bytes=data.draw(LIMITS)))
                subject.write(data)
        assert not block.nbytes
        subject.array = other
        subject.compare()

    run()


@pytest.mark.parametrize("kind", ["v2", "v3", "sharded"])
def test_buffered_writes_keep_elements_of_other_writers(kind: str) -> None:
    """Two store objects write to different elements in turns, in a block each; none is lost."""

    @examples(100)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        subject = Subject(data.draw(CASES[kind]))
        shape = subject.model.array.shape
        assume(shape and subject.model.array.size)
        number = st.integers(0, subject.model.array.size - 1)
        others = tessarr.open_array(CountingStore(subject.store), mode="r+")
        with subject.array.buffered(max_bytes=data.draw(LIMITS)), others.buffered():
            for _ in range(data.draw(st.integers(1, 6))):
                parity = data.draw(st.integers(0, 1))
                drawn = data.draw(st.lists(number, min_size=1, max_size=5, unique=True))
                numbers = [n for n in drawn if n % 2 == parity]
                if not numbers:
                    continue
                points = np.unravel_index(numbers, shape)
                value = data.draw(values(subject.case.dtype, (len(numbers),), fill=subject.fill))
                writer = (subject.array, others)[parity]
                writer.vindex[points] = value
                subject.model.array[points] = value
                assert_same(writer.vindex[points], subject.model.array[points])
        subject.compare()

    run()


@pytest.mark.parametrize("kind", ["v2", "v3", "sharded", "rectilinear"])
def test_buffered_random_resizes_match_reference(kind: str) -> None:
    """Resizes and appends in a block leave the elements that they leave without it."""

    @examples(100)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        subject = Changing(MemoryStore(data.draw(CASES[kind]).store()))
        steps = [subject.write, subject.resize]
        if subject.model.ndim:
            steps += [subject.append, subject.append]
        with subject.array.buffered(max_bytes=data.draw(LIMITS)):
            for _ in range(data.draw(st.integers(1, 5))):
                data.draw(st.sampled_from(steps))(data)
                assert subject.array.shape == subject.model.shape
                if data.draw(st.booleans()):
                    subject.compare()
        subject.compare()

    run()
