"""The choice of chunk shapes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessarr.errors import ArgumentError
from tessarr.format import chunk_shape


@pytest.mark.parametrize(
    ("shape", "item_bytes", "expected"),
    [
        ((10000, 10000), 4, (313, 313)),  # the tutorial's
        ((), 8, ()),
        ((0,), 8, (1,)),
        ((1,), 8, (1,)),
        ((100,), 8, (100,)),
        ((10**9,), 8, (122071,)),
        ((0, 1000), 4, (1, 1000)),
    ],
)
def test_default_chunk_shape_has_expected_values(shape, item_bytes, expected):
    assert chunk_shape.guess_chunk_shape(shape, item_bytes) == expected


@given(st.lists(st.integers(0, 10**12), max_size=5), st.integers(1, 10**6))
def test_default_chunk_shape_is_within_limits(shape, item_bytes):
    chunk = chunk_shape.guess_chunk_shape(tuple(shape), item_bytes)
    assert len(chunk) == len(shape)
    assert all(1 <= part <= max(length, 1) for part, length in zip(chunk, shape, strict=True))
    assert math.prod(chunk) * item_bytes < 16 * 2**20 or math.prod(chunk) == 1


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        (-1, (20, 30)),
        (False, (20, 30)),
        (10, (10, 10)),
        (np.int64(10), (10, 10)),
        ((10,), (10, 30)),
        ((10, None), (10, 30)),
        ((None, 7), (20, 7)),
        ([-1, 7], (20, 7)),
        (np.array([5, 6]), (5, 6)),
        ((100, 100), (100, 100)),
        (None, (20, 30)),
        (True, (20, 30)),
    ],
)
def test_chunk_forms_have_expected_lengths(chunks, expected):
    assert chunk_shape.chunk_shape(chunks, (20, 30), 4) == expected


@pytest.mark.parametrize("chunks", [0, -2, (0, 1), (1, 2, 3), "10", (1.5, 2), 1.5, ("a",), {}.keys])
def test_invalid_chunks_raise(chunks):
    with pytest.raises(ArgumentError):
        chunk_shape.chunk_shape(chunks, (20, 30), 4)


def test_empty_axis_has_chunks_of_length_1():
    assert chunk_shape.chunk_shape(-1, (0, 5), 4) == (1, 5)


@pytest.mark.parametrize("shape", ["10", (1.5,), -1, (3, -1), None])
def test_invalid_shapes_raise(shape):
    with pytest.raises(ArgumentError):
        chunk_shape.normalize_shape(shape)
