"""The codec ``reshape``: the same elements with other axes (zarr-extensions codecs/reshape)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from tessarr.codec.base import ArrayArrayCodec, register_codec
from tessarr.codec.parameters import WrongParameter
from tessarr.format.validation import INT64_MAX, is_integer, pointer

if TYPE_CHECKING:
    import numpy as np

    from tessarr.codec.base import ArraySpec
    from tessarr.format.validation import Problems
    from tessarr.types import Shape

__all__ = ["Reshape"]

_REST: Final = -1

Length = int | tuple[int, ...]


@register_codec
@dataclass(frozen=True, slots=True)
class Reshape(ArrayArrayCodec):
    """Merge and split axes; the elements stay in C order.

    Parameters
    ----------
    shape : sequence of (int or sequence of int)
        For each axis a length, or the input axes whose lengths it multiplies, or -1, at most
        once, for the remaining length.

    Examples
    --------
    >>> import numpy as np
    >>> Reshape([[0, 1], 3, -1]).encode(np.zeros((10, 5, 6, 3))).shape
    (50, 3, 6)
    """

    name = "reshape"
    codec_id = None
    takes_any_length = True
    shape: Sequence[int | Sequence[int]]

    def __post_init__(self) -> None:
        shape: Any = self.shape
        if not isinstance(shape, Sequence) or isinstance(shape, str):
            raise WrongParameter("shape", shape, "a list of lengths and of axes", right_type=False)
        object.__setattr__(self, "shape", tuple(map(_normalize_length, shape)))
        if self.shape.count(_REST) > 1:
            raise WrongParameter("shape", shape, "a shape with at most one -1", right_type=True)
        axes = [axis for length in self.shape if isinstance(length, tuple) for axis in length]
        if any(after <= before for before, after in pairwise(axes)):
            expected = "a shape whose axes come one after the other"
            raise WrongParameter("shape", shape, expected, right_type=True)

    def configuration(self) -> dict[str, Any]:
        return {"shape": [list(n) if isinstance(n, tuple) else n for n in self.shape]}

    def check(self, spec: ArraySpec, loc: str, problems: Problems) -> None:
        shape_loc, shape = f"{loc}/shape", spec.shape
        for position, length in enumerate(self.shape):
            if isinstance(length, tuple) and length and length[-1] >= len(shape):
                message = f"there is no axis {length[-1]} in chunks of {len(shape)} dimensions"
                problems.add(pointer(shape_loc, position), message, "mismatch")
                return
        encoded = self._find_encoded_shape(shape)
        if encoded is None or math.prod(encoded) != math.prod(shape):
            problems.add(shape_loc, f"chunks of shape {shape} cannot have this shape", "mismatch")
            return
        for position, axes in enumerate(self.shape):
            if not isinstance(axes, tuple) or not axes:
                continue
            first, last = axes[0], axes[-1]
            fits = math.prod(encoded[:position]) == math.prod(shape[:first])
            if not fits or math.prod(encoded[position + 1 :]) != math.prod(shape[last + 1 :]):
                message = f"the axes {list(axes)} of chunks of shape {shape} are not at this place"
                problems.add(pointer(shape_loc, position), message, "mismatch")

    def encoded(self, spec: ArraySpec) -> ArraySpec:
        return replace(spec, shape=self._encoded_shape(spec.shape))

    def stages(self, spec: ArraySpec) -> list[dict[str, object]]:
        return []  # the bytes are the same

    def encode(self, array: np.ndarray[Any, Any], /) -> np.ndarray[Any, Any]:
        return array.reshape(self._encoded_shape(array.shape))

    def decode(self, array: np.ndarray[Any, Any], spec: ArraySpec, /) -> np.ndarray[Any, Any]:
        return array.reshape(spec.shape)

    def _encoded_shape(self, shape: Shape) -> Shape:
        encoded = self._find_encoded_shape(shape)
        return shape if encoded is None else encoded

    def _find_encoded_shape(self, shape: Shape) -> Shape | None:
        """Return the shape that `shape` becomes, or None where nothing fits the place of -1."""
        lengths = [
            length if isinstance(length, int) else math.prod(shape[axis] for axis in length)
            for length in self.shape
        ]
        if _REST in self.shape:
            position = self.shape.index(_REST)
            others = math.prod(lengths[:position] + lengths[position + 1 :])
            if others == 0 or math.prod(shape) % others:
                return None
            lengths[position] = math.prod(shape) // others
        return tuple(lengths)


def _normalize_length(value: object) -> Length:
    """Return one entry of the parameter `shape`: a length, or axes."""
    if is_integer(value) and (0 < value <= INT64_MAX or value == _REST):
        return int(value)
    if isinstance(value, list | tuple) and all(is_integer(axis) and axis >= 0 for axis in value):
        return tuple(int(axis) for axis in value)
    expected = "a positive length, -1, or a list of axes"
    raise WrongParameter("shape", value, expected, right_type=is_integer(value))
