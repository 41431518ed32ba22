"""The codec ``transpose``: another order of axes (Zarr 3 codecs/transpose, order F of format 2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tessarr.codec.base import ArrayArrayCodec, register_codec
from tessarr.errors import ArgumentError
from tessarr.format.validation import ABSENT, describe, is_integer

if TYPE_CHECKING:
    from tessarr.codec.base import ArraySpec
    from tessarr.format.validation import Members, Problems
    from tessarr.types import Shape, ZarrFormat

__all__ = ["Transpose"]


@register_codec
@dataclass(frozen=True, slots=True)
class Transpose(ArrayArrayCodec):
    """Permutation of axes: axis ``i`` of the encoded array is axis ``order[i]`` of the array.

    Parameters
    ----------
    order : sequence of int, or {"C", "F"}
        A permutation of the axes. "F" reverses them, which stores chunks in Fortran order.

    Examples
    --------
    >>> import numpy as np
    >>> Transpose((2, 0, 1)).to_json(3)
    {'name': 'transpose', 'configuration': {'order': [2, 0, 1]}}
    >>> Transpose((2, 0, 1)).encode(np.zeros((10, 20, 30))).shape
    (30, 10, 20)
    """

    name = "transpose"
    takes_any_length = True
    codec_id = None
    order: Shape | str

    def __post_init__(self) -> None:
        if self.order in ("C", "F"):
            return
        order = () if isinstance(self.order, str) else tuple(self.order)
        if isinstance(self.order, str) or not _is_permutation(order):
            message = f"order {self.order!r} is not a permutation of axes, 'C' or 'F'"
            raise ArgumentError(message)
        object.__setattr__(self, "order", tuple(int(axis) for axis in order))

    @classmethod
    def read(cls, members: Members, zarr_format: ZarrFormat) -> Transpose | None:
        order = members.require("order")
        members.done()
        if order is ABSENT:
            return None
        if order in ("C", "F"):  # an early form of the specification, which GDAL writes
            meaning = "no transposition" if order == "C" else "the reverse of all axes"
            members.problems.tolerate(members.at("order"), f"{order!r}, taken for {meaning}")
            return cls(order)
        if not isinstance(order, list):
            order_loc = members.at("order")
            members.problems.add(
                order_loc, f"{describe(order)} is not a list of axes", "wrong_type"
            )
            return None
        if not _is_permutation(order):
            message = f"{describe(order)} is not a permutation of 0 to {len(order) - 1}"
            members.problems.add(members.at("order"), message)
            return None
        return cls(tuple(order))

    def configuration(self) -> dict[str, Any]:
        return {"order": self.order if isinstance(self.order, str) else list(self.order)}

    def check(self, spec: ArraySpec, loc: str, problems: Problems) -> None:
        if not isinstance(self.order, str) and len(self.order) != len(spec.shape):
            message = f"{len(self.order)} axes for chunks of {len(spec.shape)} dimensions"
            problems.add(f"{loc}/order", message, "mismatch")

    def resolve(self, spec: ArraySpec, zarr_format: ZarrFormat) -> Transpose:
        return Transpose(self.axes(len(spec.shape)))

    def axes(self, rank: int) -> Shape:
        """Return the permutation for arrays of `rank` axes."""
        if isinstance(self.order, str):
            axes = range(rank) if self.order == "C" else reversed(range(rank))
            return tuple(axes)
        return self.order

    def encoded(self, spec: ArraySpec) -> ArraySpec:
        axes = self.axes(len(spec.shape))
        return replace(spec, shape=tuple(spec.shape[axis] for axis in axes))

    def encode(self, array: np.ndarray[Any, Any], /) -> np.ndarray[Any, Any]:
        return array.transpose(self.axes(array.ndim))

    def decode(self, array: np.ndarray[Any, Any], spec: ArraySpec, /) -> np.ndarray[Any, Any]:
        return array.transpose(np.argsort(self.axes(array.ndim)))


def _is_permutation(order: Any) -> bool:
    axes = [axis for axis in order if is_integer(axis) or isinstance(axis, np.integer)]
    return len(axes) == len(order) and sorted(axes) == list(range(len(order)))
