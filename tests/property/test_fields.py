"""Reads and writes of record fields match NumPy, and other fields keep every bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from property.model import assigned
from property.subject import Subject
from tessarr.testing.strategies import array_cases

CASES = {
    "v2": array_cases(zarr_format=2, records=True),
    "v3": array_cases(zarr_format=3, sharded=False, records=True),
    "sharded": array_cases(zarr_format=3, sharded=True, records=True),
    "rectilinear": array_cases(zarr_format=3, rectilinear=True, records=True),
}


def named(names: Any, key: Any) -> Any:
    return (names, *key) if isinstance(key, tuple) else (names, key)


def drawn_names(data: st.DataObject, dtype: np.dtype[Any]) -> list[str] | str:
    """Draw one name, or several in any order."""
    names = data.draw(st.permutations(dtype.names))
    count = data.draw(st.integers(0, len(names)))
    return list(names[:count]) if count else names[0]


def write(subject: Subject, data: st.DataObject) -> None:
    """Write random fields of a random selection."""
    kind, key = subject.drawn(data)
    names = drawn_names(data, subject.case.dtype)
    new = np.array(subject.model.read(kind, key))
    listed = [names] if isinstance(names, str) else names
    packed = np.dtype([(name, subject.case.dtype[name]) for name in listed])
    fill = np.frombuffer(subject.fill, subject.case.dtype)
    fill_item = b"".join(fill[name].tobytes() for name in listed)
    value = data.draw(assigned(packed, new.shape, fill_item))
    for name in listed:
        new[name] = np.broadcast_to(value, new.shape)[name]
    if isinstance(names, str):
        value = np.broadcast_to(value, new.shape)[names] if packed[0].subdtype else value[names]
    subject.view(kind)[named(names, key)] = value
    subject.model.write(kind, key, new)


def read(subject: Subject, data: st.DataObject) -> None:
    """Read random fields of a random selection and compare them."""
    kind, key = subject.drawn(data)
    names = drawn_names(data, subject.case.dtype)
    expected = np.asarray(subject.model.read(kind, key))
    result = subject.view(kind)[named(names, key)]
    if isinstance(names, str):
        assert np.shape(result) == expected[names].shape
        # For a single record, NumPy returns the field in native byte order.
        assert np.asarray(result, expected[names].dtype).tobytes() == expected[names].tobytes()
        return
    assert result.dtype.names == tuple(names)
    assert result.shape == expected.shape
    for name in names:
        assert np.asarray(result)[name].tobytes() == expected[name].tobytes()


@pytest.mark.parametrize("kind", CASES)
def test_fields(kind: str) -> None:
    """After random writes of records and fields, all elements equal NumPy and the reference."""

    @given(st.data())
    def run(data: st.DataObject) -> None:
        subject = Subject(data.draw(CASES[kind]))
        if data.draw(st.booleans()):
            subject.write(data)
        for _ in range(data.draw(st.integers(1, 3))):
            write(subject, data)
            read(subject, data)
        subject.compare()
        subject.assert_no_fill_stored()

    run()
