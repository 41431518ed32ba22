"""Blocks of an array, each reduced to one element: mean, median, mode, least and greatest.

Sums of integers are exact, and means are rounded to the nearest integer, halves to the even one.
Sums of floats are taken in the order of the elements, those of less than 32 bits with 32. Of an
even number of elements the median is the lower one of the two in the middle; of several most
frequent elements the mode is the least.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, product
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from tessarr.errors import ArgumentError

if TYPE_CHECKING:
    import numpy.typing as npt

    from tessarr.tensorstore.data_type import dtype as DataType  # noqa: N812

    Array: TypeAlias = npt.NDArray[Any]

__all__ = ["METHODS", "Blocks", "check_method", "reduce"]

METHODS: Final = ("stride", "mean", "min", "max", "median", "mode")


class Blocks(NamedTuple):
    """How one axis is cut: a short block, whole ones, and a short one again.

    Parameters
    ----------
    first
        The length of the short block at the beginning; 0 where there is none.
    whole
        The length of whole blocks.
    wholes
        How many of them there are.
    last
        The length of the short block at the end; 0 where there is none.
    """

    first: int
    whole: int
    wholes: int
    last: int

    @property
    def size(self) -> int:
        """The number of blocks."""
        return bool(self.first) + self.wholes + bool(self.last)

    def segments(self) -> Iterator[tuple[slice, slice, int]]:
        """Give runs of equal blocks: where they are, where they go, and how long each is."""
        start = place = 0
        for length, count in ((self.first, 1), (self.whole, self.wholes), (self.last, 1)):
            if length and count:
                end = start + length * count
                yield slice(start, end), slice(place, place + count), length
                start, place = end, place + count


def check_method(method: str, data_type: DataType) -> None:
    """Raise an error unless there is such a method, for such elements."""
    if method not in METHODS:
        raise ArgumentError(f"a method is one of {', '.join(METHODS)}, not {method!r}")
    name = data_type.name
    if method in ("stride", "mode"):
        return
    number = name.startswith(("bool", "int", "uint", "float", "bfloat"))
    if not number and not (method == "mean" and name.startswith("complex")):
        raise ArgumentError(f"there is no {method} of elements of {name}")


def reduce(values: Array, blocks: Sequence[Blocks], method: str, out: Array | None = None) -> Array:
    """Return one element for each block.

    Parameters
    ----------
    values
        The elements.
    blocks
        How each axis is cut.
    method
        One of `METHODS`, but for "stride".
    out
        Where the result goes, if not to a new array.

    Examples
    --------
    >>> reduce(np.array([1, 2, 4, 5, 9]), [Blocks(0, 2, 2, 1)], "mean").tolist()
    [2, 4, 9]
    """
    kernel = _KERNELS[method]
    if out is None:
        out = np.empty([axis.size for axis in blocks], values.dtype)
    for chosen in product(*(axis.segments() for axis in blocks)):
        source: Any = (*(one[0] for one in chosen), ...)
        target: Any = (*(one[1] for one in chosen), ...)
        out[target] = kernel(values[source], [one[2] for one in chosen])
    return out


def _offsets(values: Array, lengths: Sequence[int]) -> Iterator[Array]:
    """Give the first element of all blocks, the second one, and so on, in the order of C."""
    for at in product(*map(range, lengths)):
        place: Any = (*map(slice, at, (None,) * len(at), lengths), ...)
        yield values[place]


def _together(values: Array, lengths: Sequence[int]) -> Array:
    """Return the elements of each block along a new last axis."""
    rank = len(lengths)
    shape: list[int] = []
    for size, length in zip(values.shape, lengths, strict=True):
        shape += [size // length, length]
    split = values.reshape(shape).transpose([*range(0, 2 * rank, 2), *range(1, 2 * rank, 2)])
    return split.reshape(*split.shape[:rank], prod(lengths))


def _by_axis(values: Array, lengths: Sequence[int], join: Callable[..., Array]) -> Array:
    """Join the elements of blocks, one axis after the other."""
    for axis, length in enumerate(lengths):
        if length == 1:
            continue
        front = (slice(None),) * axis
        found = values[(*front, slice(0, None, length))]
        for k in range(1, length):
            found = join(found, values[(*front, slice(k, None, length))])
        values = found
    return values


def _least(values: Array, lengths: Sequence[int]) -> Array:
    if values.dtype.isbuiltin != 1:
        return _exactly(_least, values, lengths)
    return _by_axis(values, lengths, np.fmin if values.dtype.kind == "f" else np.minimum)


def _greatest(values: Array, lengths: Sequence[int]) -> Array:
    if values.dtype.isbuiltin != 1:
        return _exactly(_greatest, values, lengths)
    return _by_axis(values, lengths, np.fmax if values.dtype.kind == "f" else np.maximum)


def _exactly(
    kernel: Callable[[Array, Sequence[int]], Array], values: Array, lengths: Sequence[int]
) -> Array:
    """Reduce elements of another package's type as those of one that has all of its values."""
    wide = "i1" if "int" in values.dtype.name else "f4"
    return kernel(values.astype(wide), lengths).astype(values.dtype)


def _mean(values: Array, lengths: Sequence[int]) -> Array:
    if values.dtype.isbuiltin != 1:
        return _exactly(_mean, values, lengths)
    count = prod(lengths)
    if count == 1:
        return values
    with np.errstate(all="ignore"):
        if values.dtype.kind in "biu":
            if values.dtype.itemsize == 8:
                return _mean_of_64_bits(values, lengths, count)
            return _rounded(_sum(values, lengths, count), count).astype(values.dtype)
        total = _float_sum(values, lengths)
        if values.dtype.kind != "c":
            mean: Array = (total / total.dtype.type(count)).astype(values.dtype)
            return mean
        parts = total.view(np.real(total).dtype)
        parts /= parts.dtype.type(count)
        return total


def _float_sum(values: Array, lengths: Sequence[int]) -> Array:
    wide = np.dtype("f4") if values.dtype.itemsize == 2 else values.dtype
    total: Array | None = None
    for part in _offsets(values, lengths):
        if total is None:
            total = part.astype(wide, order="C")
        else:
            total += part
    assert total is not None
    return total


def _sum(values: Array, lengths: Sequence[int], count: int) -> Array:
    """Return exact sums of integers of at most 32 bits, with as few bits as hold twice of them."""
    signed = values.dtype.kind == "i"
    most = count * 2 ** (8 * values.dtype.itemsize + 1 if values.dtype.kind != "b" else 1)
    wide = next(
        np.dtype(f"{'i' if signed else 'u'}{size}")
        for size in (2, 4, 8)
        if size == 8 or most < 2 ** (8 * size - 1)
    )

    def join(one: Array, other: Array) -> Array:
        return np.add(one, other, dtype=wide)

    total = _by_axis(values, lengths, join)
    return total.astype(wide, copy=False)


def _rounded(total: Array, count: int) -> Array:
    """Divide, and round to the nearest integer, halves to the even one."""
    if count & (count - 1) == 0:
        bits = count.bit_length() - 1
        one = total.dtype.type(1)
        odd: Array = (total >> total.dtype.type(bits)) & one
        odd += total
        odd += total.dtype.type(count // 2 - 1)
        odd >>= total.dtype.type(bits)
        return odd
    by = total.dtype.type(count)
    found: Array
    found, rest = np.divmod(total, by)
    rest *= 2
    found += (rest > by) | ((rest == by) & ((found & 1) == 1))
    return found


def _mean_of_64_bits(values: Array, lengths: Sequence[int], count: int) -> Array:
    """Divide sums that may have more than 64 bits: halves of 32 bits are summed for themselves."""
    if count >= 2**30:
        raise ArgumentError(f"a mean of {count} integers of 64 bits is too much: 2**30 at most")
    high = _sum((values >> 32).astype(f"{values.dtype.kind}4"), lengths, 2**31).astype("i8")
    low = _sum((values & 0xFFFFFFFF).astype("u4"), lengths, 2**31).astype("i8")
    found, rest = np.divmod(high, count)
    more, rest = np.divmod((rest << 32) + low, count)
    result: Array = (found.astype(values.dtype) << 32) + more.astype(values.dtype)
    rest *= 2
    up = (rest > count) | ((rest == count) & ((result & 1) == 1))
    result += up.astype(values.dtype)
    return result


def _median(values: Array, lengths: Sequence[int]) -> Array:
    if values.dtype.isbuiltin != 1:
        return _exactly(_median, values, lengths)
    middle = (prod(lengths) - 1) // 2
    if prod(lengths) == 4:
        a, b, c, e = _offsets(values, lengths)
        low, other = np.minimum(a, b), np.minimum(c, e)
        high = np.minimum(np.maximum(a, b), np.maximum(c, e))
        return np.minimum(np.maximum(low, other), high)
    found: Array = np.partition(_together(values, lengths), middle, axis=-1)[..., middle]
    return found


def _mode(values: Array, lengths: Sequence[int]) -> Array:
    if values.dtype.kind in "OSV" and values.dtype.isbuiltin == 1:
        return _mode_of_objects(values, lengths)
    if values.dtype.isbuiltin != 1:
        return _exactly(_mode, values, lengths)
    items = np.sort(_together(values, lengths), axis=-1)
    best = items[..., 0].copy()
    longest = np.ones(best.shape, np.int64)
    run = np.ones(best.shape, np.int64)
    for k in range(1, items.shape[-1]):
        run = np.where(items[..., k] == items[..., k - 1], run + 1, 1)
        longer = run > longest
        np.copyto(longest, run, where=longer)
        np.copyto(best, items[..., k], where=longer)
    return best


def _mode_of_objects(values: Array, lengths: Sequence[int]) -> Array:
    items = _together(values, lengths)
    result = np.empty(items.shape[:-1], values.dtype)
    for place in np.ndindex(result.shape):
        found = sorted(items[place].tolist(), key=_order)
        best, longest, run = found[0], 1, 1
        for before, item in pairwise(found):
            run = run + 1 if _order(before) == _order(item) else 1
            if run > longest:
                best, longest = item, run
        result[place] = best
    return result


_RANKS: Final = {type(None): 0, bool: 1, int: 2, float: 2, dict: 3, list: 4, str: 5, bytes: 5}


def _order(value: Any) -> Any:
    """Return what puts values of JSON in an order: null, bool, number, object, list, text."""
    if value is None:
        return (0,)
    if isinstance(value, dict):
        return 3, [(name, _order(value[name])) for name in sorted(value)]
    if isinstance(value, list | tuple):
        return 4, [_order(item) for item in value]
    return _RANKS[type(value)], value


_KERNELS: Final[dict[str, Callable[[Array, Sequence[int]], Array]]] = {
    "mean": _mean,
    "min": _least,
    "max": _greatest,
    "median": _median,
    "mode": _mode,
}
