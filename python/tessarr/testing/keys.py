"""Hypothesis strategies for the keys that index an array."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

__all__ = [
    "advanced_keys",
    "basic_keys",
    "block_keys",
    "integers",
    "masks",
    "outer_keys",
    "point_keys",
    "slices",
    "wild_keys",
]

Shape = tuple[int, ...]


def integers(size: int) -> st.SearchStrategy[Any]:
    """Generate a valid index of an axis, also a negative one, as a Python or a NumPy integer."""
    plain = st.integers(-size, size - 1)
    return plain | plain | st.builds(lambda n, kind: kind(n), plain, st.sampled_from(_INTEGERS))


_INTEGERS = (np.int64, np.int16, lambda n: np.array(n, np.int32))


def slices(size: int) -> st.SearchStrategy[slice]:
    """Generate a slice of an axis: any step but 0, with missing, too large or negative bounds."""
    bound = st.none() | st.integers(-size - 2, size + 2)
    step = st.none() | st.integers(-size - 1, size + 1).filter(bool)
    return (
        st.just(slice(None)) | st.builds(slice, bound, bound) | st.builds(slice, bound, bound, step)
    )


def _index_arrays(size: int, shape: Shape) -> st.SearchStrategy[npt.NDArray[Any]]:
    """Generate an array of valid indices of an axis, often with equal steps."""
    count = int(np.prod(shape))
    if size == 0 and count:
        raise ValueError("an axis of length 0 has no index")
    kinds = (np.int64, np.int32, np.int8) if size < 120 else (np.int64,)
    arrays = st.builds(
        lambda data, kind: _from_bytes(data, size).astype(kind).reshape(shape),
        st.binary(min_size=2 * count, max_size=2 * count),
        st.sampled_from(kinds),
    )
    if count == 0 or count > size:
        return arrays
    even = st.builds(
        lambda start, step: (start + step * np.arange(count)).reshape(shape) % size,
        st.integers(0, size - 1),
        st.sampled_from((1, 2, -1)),
    )
    return arrays | even


def _from_bytes(data: bytes, size: int) -> npt.NDArray[Any]:
    """Convert every two bytes to an index; 0 becomes index 0, so that examples shrink to it."""
    numbers = np.frombuffer(data, np.uint16).astype(np.int64) % max(2 * size, 1)
    return np.where(numbers < size, numbers, numbers - 2 * size)


def masks(shape: Shape) -> st.SearchStrategy[npt.NDArray[np.bool_]]:
    """Generate a mask of a shape, from empty to full."""
    count = int(np.prod(shape))
    data = st.binary(min_size=-(-count // 8), max_size=-(-count // 8))
    some = data.map(lambda bits: _mask(bits, count).reshape(shape))
    return some | some | st.booleans().map(lambda value: np.full(shape, value))


def _mask(bits: bytes, count: int) -> npt.NDArray[np.bool_]:
    return np.unpackbits(np.frombuffer(bits, np.uint8), count=count).astype(np.bool_)


@st.composite
def basic_keys(draw: st.DrawFn, shape: Shape, *, newaxis: bool = True) -> Any:
    """Generate a valid key of integers, slices, ``...`` and None."""
    items = [draw(slices(size) if size == 0 else slices(size) | integers(size)) for size in shape]
    return _finish_key(draw, items, newaxis=newaxis)


@st.composite
def outer_keys(draw: st.DrawFn, shape: Shape) -> Any:
    """Generate a valid key of `oindex`: an integer, slice, list, array or mask for each axis."""
    items: list[Any] = []
    for size in shape:
        count = draw(st.integers(0, min(size + 2, 7))) if size else 0
        form = draw(st.sampled_from(("slice", "array", "list", "mask", "integer")))
        if form == "mask":
            items.append(draw(masks((size,))))
        elif form == "integer" and size:
            items.append(draw(integers(size)))
        elif form in ("slice", "integer"):
            items.append(draw(slices(size)))
        else:
            array = draw(_index_arrays(size, (count,)))
            items.append(_as_list(array) if form == "list" else array)
    return _finish_key(draw, items, newaxis=False)


@st.composite
def point_keys(draw: st.DrawFn, shape: Shape) -> Any:
    """Generate a valid key of `vindex`: an index array for each axis, broadcast together."""
    joint_shape = draw(_joint_shapes(empty=0 in shape))
    items: list[Any] = []
    for size in shape:
        if size and draw(st.integers(0, 5)) == 0:
            items.append(draw(integers(size)))
        else:
            items.append(
                _maybe_list(draw, draw(_index_arrays(size, _narrow_shape(draw, joint_shape, size))))
            )
    return tuple(items)


@st.composite
def advanced_keys(draw: st.DrawFn, shape: Shape) -> Any:
    """Generate a key with index arrays or masks among integers and slices, by NumPy's rules.

    Most keys are valid; a mask may select a number of elements that does not broadcast with the
    other index arrays.
    """
    joint_shape = draw(_joint_shapes(empty=0 in shape))
    items: list[Any] = []
    axis = 0
    while axis < len(shape):
        size = shape[axis]
        kind = draw(st.sampled_from(("array", "array", "slice", "integer", "mask", "outer mask")))
        axis_count = 1
        if kind == "mask" and draw(st.booleans()):
            axis_count = draw(st.integers(1, len(shape) - axis))
            items.append(draw(masks(shape[axis : axis + axis_count])))
        elif kind == "outer mask" and joint_shape and joint_shape[-1] <= size:
            chosen = draw(st.permutations(range(size)))[: joint_shape[-1]]
            items.append(np.isin(np.arange(size), chosen))
        elif kind == "integer" and size:
            items.append(draw(integers(size)))
        elif kind == "slice" or (size == 0 and 0 not in joint_shape):
            items.append(draw(slices(size)))
        else:
            items.append(
                _maybe_list(draw, draw(_index_arrays(size, _narrow_shape(draw, joint_shape, size))))
            )
        axis += axis_count
    if draw(st.integers(0, 9)) == 0:
        items.insert(draw(st.integers(0, len(items))), draw(st.booleans()))
    return _finish_key(draw, items, newaxis=True)


@st.composite
def block_keys(draw: st.DrawFn, grid_shape: Shape) -> Any:
    """Generate a valid key of `blocks` for a grid of chunks."""
    items: list[Any] = []
    for blocks in grid_shape:
        bound = st.none() | st.integers(-blocks - 1, blocks + 1)
        spans = st.builds(slice, bound, bound)
        items.append(draw(spans | st.integers(-blocks, blocks - 1) if blocks else spans))
    return _finish_key(draw, items, newaxis=False)


@st.composite
def wild_keys(draw: st.DrawFn, shape: Shape) -> Any:
    """Generate mostly invalid keys, with wrong bounds, ranks or types."""
    size = max(shape, default=3)
    index = st.integers(-size - 2, size + 2)
    item = st.one_of(
        index,
        slices(size),
        st.just(...),
        st.none(),
        st.booleans(),
        st.lists(index, max_size=3),
        st.lists(st.booleans(), max_size=size),
        st.sampled_from(
            (1.5, "x", np.float64(1), np.array([1.5]), 2**70, object(), b"", [[]], [None])
        ),
        index.map(np.int64),
    )
    items = draw(st.lists(item, max_size=len(shape) + 2))
    return items[0] if len(items) == 1 and draw(st.booleans()) else tuple(items)


@st.composite
def _joint_shapes(draw: st.DrawFn, *, empty: bool) -> Shape:
    rank = draw(st.sampled_from((1, 1, 1, 2, 2, 3)))
    shape = draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank))
    if empty or draw(st.integers(0, 14)) == 0:
        shape[draw(st.integers(0, rank - 1))] = 0
    return tuple(shape)


def _narrow_shape(draw: st.DrawFn, shape: Shape, size: int) -> Shape:
    """Drop leading dimensions of a broadcast shape, and set others to 1."""
    if size == 0:
        return shape
    narrowed = shape[draw(st.integers(0, len(shape) - 1)) :] if draw(st.booleans()) else shape
    if not draw(st.booleans()):
        return narrowed
    squeezed = draw(st.lists(st.booleans(), min_size=len(narrowed), max_size=len(narrowed)))
    return tuple(
        1 if is_squeezed else length for is_squeezed, length in zip(squeezed, narrowed, strict=True)
    )


def _maybe_list(draw: st.DrawFn, array: npt.NDArray[Any]) -> Any:
    return _as_list(array) if draw(st.integers(0, 2)) == 0 else array


def _as_list(array: npt.NDArray[Any]) -> Any:
    """Return nested lists, unless they would lose dimensions after an empty one."""
    nested = array.tolist()
    return nested if np.shape(nested) == array.shape else array


def _finish_key(draw: st.DrawFn, items: list[Any], *, newaxis: bool) -> Any:
    """Omit trailing axes, insert an Ellipsis and new axes, and unwrap a tuple of one item."""
    form = draw(st.integers(0, 3))
    if form == 0:
        items = items[: draw(st.integers(0, len(items)))]
    elif form == 1:
        position = draw(st.integers(0, len(items)))
        if draw(st.booleans()) and not any(_is_mask(item) for item in items):
            drop = draw(st.integers(0, len(items) - position))
            items = [*items[:position], ..., *items[position + drop :]]
        else:
            items = [*items[:position], ..., *items[position:]]
    if newaxis:
        for _ in range(draw(st.sampled_from((0, 0, 0, 1, 2)))):
            items.insert(draw(st.integers(0, len(items))), None)
    return items[0] if len(items) == 1 and draw(st.booleans()) else tuple(items)


def _is_mask(item: Any) -> bool:
    return bool(np.asarray(item).dtype.kind == "b") if item is not ... else False
