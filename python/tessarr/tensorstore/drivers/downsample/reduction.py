"""Reductions of blocks to one element: mean, median, mode, minimum and maximum.

The engine computes them. Sums of integers are exact, and means are rounded to the nearest integer,
halves to the even one. Sums of floats follow the order of the elements and use at least 32 bits.
The median of an even number of elements is the lower one of the two in the middle. The mode is the
least of several most frequent elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from tessarr import _engine
from tessarr._safe_repr import safe_repr
from tessarr.errors import ArgumentError

if TYPE_CHECKING:
    import numpy.typing as npt

    from tessarr.tensorstore.schema.data_type import dtype as DataType  # noqa: N812

    Array: TypeAlias = npt.NDArray[Any]

__all__ = ["METHODS", "AxisBlocks", "check_method", "reduce"]

METHODS: Final = ("stride", "mean", "min", "max", "median", "mode")


class AxisBlocks(NamedTuple):
    """The blocks along one axis: an optional short block, whole blocks, an optional short block.

    Parameters
    ----------
    first
        The length of the short block at the start, or 0.
    whole
        The length of whole blocks.
    wholes
        The number of whole blocks.
    last
        The length of the short block at the end, or 0.
    """

    first: int
    whole: int
    wholes: int
    last: int

    @property
    def size(self) -> int:
        """The number of blocks."""
        return bool(self.first) + self.wholes + bool(self.last)

    def bounds(self, block: int) -> slice:
        """Return the bounds of a block."""
        index = block - bool(self.first)
        low = self.first + index * self.whole if index >= 0 else 0
        length = self.first if index < 0 else self.whole if index < self.wholes else self.last
        return slice(low, low + length)


def check_method(method: str, data_type: DataType) -> None:
    """Raise an error if the data type does not support the method."""
    if method not in METHODS:
        raise ArgumentError(f"a method is one of {', '.join(METHODS)}, not {safe_repr(method)}")
    name = data_type.name
    if method in ("stride", "mode"):
        return
    number = name.startswith(("bool", "int", "uint", "float", "bfloat"))
    if not number and not (method == "mean" and name.startswith("complex")):
        raise ArgumentError(f"there is no {method} of elements of {name}")


def reduce(
    values: Array, blocks: Sequence[AxisBlocks], method: str, out: Array | None = None
) -> Array:
    """Return one element for each block.

    Parameters
    ----------
    values
        The elements.
    blocks
        The blocks along each axis.
    method
        One of `METHODS` other than "stride".
    out
        The output array; by default a new one.

    Examples
    --------
    >>> reduce(np.array([1, 2, 4, 5, 9]), [AxisBlocks(0, 2, 2, 1)], "mean").tolist()
    [2, 4, 9]
    """
    if out is not None and np.may_share_memory(values, out):
        out[...] = reduce(values, blocks, method)
        return out
    if out is None:
        out = np.empty([axis.size for axis in blocks], values.dtype)
    data_type = values.dtype
    if data_type.kind == "O":
        _mode_of_objects(values, blocks, out)
    elif data_type.isbuiltin != 2:
        kind = f"{_KINDS.get(data_type.kind, data_type.kind)}{data_type.itemsize}"
        _engine.reduce(values, out, blocks, method, "bool" if kind == "b1" else kind)
    elif data_type.name == "bfloat16":
        _engine.reduce(values, out, blocks, method, "bfloat16")
    else:  # a type of another package: convert to a type with all of its values
        wide = values.astype("i1" if "int" in data_type.name else "f4")
        out[...] = reduce(wide, blocks, method).astype(data_type)
    return out


_KINDS: Final = {"S": "u", "V": "u", "M": "i", "m": "i"}
"""The integer kinds that represent other kinds in comparisons."""


def _mode_of_objects(values: Array, blocks: Sequence[AxisBlocks], out: Array) -> None:
    for position in np.ndindex(out.shape):
        block: Any = (*map(AxisBlocks.bounds, blocks, position), ...)
        items = sorted(values[block].reshape(-1).tolist(), key=_sort_key)
        best, longest, run = items[0], 1, 1
        for before, item in pairwise(items):
            run = run + 1 if _sort_key(before) == _sort_key(item) else 1
            if run > longest:
                best, longest = item, run
        out[position] = best


_TYPE_RANKS: Final = {type(None): 0, bool: 1, int: 2, float: 2, dict: 3, list: 4, str: 5, bytes: 5}


def _sort_key(value: Any) -> Any:
    """Return a sort key for JSON: null, bool, number, object, list, text."""
    if value is None:
        return (0,)
    if isinstance(value, dict):
        return 3, [(name, _sort_key(value[name])) for name in sorted(value)]
    if isinstance(value, list | tuple):
        return 4, [_sort_key(item) for item in value]
    return _TYPE_RANKS[type(value)], value
