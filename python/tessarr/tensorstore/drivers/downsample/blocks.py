"""Blocks of a base; each block is one position of a downsampled view.

Position ``p`` of a dimension with factor ``f`` is the block of positions from ``p * f`` up to ``(p
+ 1) * f`` of the base, clipped to its bounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tessarr.errors import ArgumentError
from tessarr.index_space import Dim, IndexDomain, IndexTransform, OutputIndexMap
from tessarr.index_space.intervals import INFINITE
from tessarr.index_space.output_index_map import evaluate_map, map_extent

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

__all__ = ["BlockGrid", "check_factors", "downsample_domain"]


def check_factors(factors: Sequence[int], rank: int) -> None:
    """Raise an error unless each dimension has a positive factor."""
    if len(factors) != rank:
        raise ArgumentError(f"{len(factors)} factors for {rank} dimensions")
    if not all(1 <= factor <= INFINITE for factor in factors):
        raise ArgumentError(f"factors are from 1 to {INFINITE}, not {tuple(factors)}")


def downsample_domain(domain: IndexDomain, factors: Sequence[int], method: str) -> IndexDomain:
    """Return the domain of the result."""
    dims = []
    for dim, factor in zip(domain._dims, factors, strict=True):
        lower, upper = dim.inclusive_min, dim.exclusive_max
        if lower > -INFINITE:
            lower = -(-lower // factor) if method == "stride" else lower // factor
        if upper <= INFINITE:
            upper = -(-upper // factor) if dim.size or method == "stride" else lower
        dims.append(
            Dim._of(lower, max(lower, upper), dim.label, (dim.implicit_lower, dim.implicit_upper))
        )
    return IndexDomain._of(tuple(dims))


class BlockGrid:
    """Maps blocks to the positions of a base.

    Parameters
    ----------
    base
        The domain of the base.
    factors
        The length of blocks along each dimension.
    method
        The reduction of a block.
    """

    __slots__ = ("_method", "base", "domain", "factors")

    def __init__(self, base: IndexDomain, factors: Sequence[int], method: str) -> None:
        self.base = base._dims
        self.factors = tuple(factors)
        self._method = method
        self.domain = downsample_domain(base, self.factors, method)

    def check(self, view: IndexTransform) -> None:
        """Check that the blocks of a view exist; reads check single elements.

        Raises
        ------
        ArgumentError
        """
        dims = view.domain._dims
        if self._method == "stride" or any(dim.empty for dim in dims):
            return
        for k, (index_map, bounds) in enumerate(zip(view.output, self.domain._dims, strict=True)):
            least, beyond = map_extent(index_map, dims)
            is_below = least < bounds.inclusive_min and bounds.inclusive_min > -INFINITE
            is_above = beyond > bounds.exclusive_max and bounds.exclusive_max < INFINITE
            if self.factors[k] > 1 and (is_below or is_above):
                missing = least if is_below else beyond - 1
                raise ArgumentError(
                    f"dimension {k}: block {missing} does not exist: blocks are {bounds}",
                    kind="out_of_bounds",
                )

    def base_view(self, view: IndexTransform) -> IndexTransform | None:
        """Return the view of the base that a view of the result depends on."""
        return (
            self.first_elements_view(view) if self._method == "stride" else self.covering_view(view)
        )

    def covering_view(self, view: IndexTransform) -> IndexTransform | None:
        """Return the view of the base that covers the blocks of a view of the result.

        Blocks that do not form a box get an extra dimension for the positions inside a block. The
        result is None if their sizes differ.
        """
        dims = [
            Dim._of(index_map.inclusive_min, index_map.exclusive_max, index_map.label)
            for index_map in view.domain._dims
        ]
        unshared = {dim for dim, *_ in view._linear_maps(alone=True)}
        offsets: list[npt.NDArray[np.int64] | int | None] = []
        for axis, index_map in enumerate(view.output):
            k, factor, base = index_map.input_dimension, self.factors[axis], self.base[axis]
            if factor == 1:
                offsets.append(None)
                continue
            if k in unshared and abs(index_map._factor) == 1:
                assert k is not None
                dim, offset = view.domain._dims[k], index_map.offset * factor
                ends = (
                    dim.inclusive_min * index_map._factor,
                    (dim.exclusive_max - 1) * index_map._factor,
                )
                low = max(offset + min(ends) * factor, base.inclusive_min) - offset
                high = min(offset + (max(ends) + 1) * factor, base.exclusive_max) - offset
                if dim.empty:
                    high = low = max(offset + ends[0] * factor, base.inclusive_min) - offset
                if index_map._factor < 0:
                    low, high = 1 - high, 1 - low
                # Infinite bounds stay infinite in the base.
                low = -INFINITE if dim.inclusive_min <= -INFINITE else low
                high = INFINITE + 1 if dim.exclusive_max > INFINITE else high
                dims[k] = Dim._of(low, max(low, high), dim.label)
                offsets.append(offset)
                continue
            least, most = self.block_bounds(axis, evaluate_map(index_map, view.domain._dims))
            sizes = np.unique(most - least)
            if not len(sizes):  # no positions, no blocks
                offsets.append(None)
                continue
            if len(sizes) > 1:
                return None
            offsets.append(least)
            dims.append(Dim._of(0, int(sizes[0])))
        return _build_base_view(view, dims, offsets)

    def first_elements_view(self, view: IndexTransform) -> IndexTransform:
        """Return the view of the base that has the first element of each block.

        Raises
        ------
        ArgumentError
            If an index exceeds the range of indices.
        """
        try:
            return self._scale_maps(view)
        except OverflowError:
            raise ArgumentError(
                f"blocks of {list(self.factors)} elements: the first of {view.domain} would be "
                "beyond the range of indices"
            ) from None

    def _scale_maps(self, view: IndexTransform) -> IndexTransform:
        maps = []
        for index_map, factor in zip(view.output, self.factors, strict=True):
            offset, stride = index_map.offset * factor, index_map._factor * factor
            if index_map.index_array is not None:
                maps.append(
                    OutputIndexMap._by_array(
                        index_map.index_array, offset, stride, index_map._within
                    )
                )
            elif index_map.input_dimension is not None:
                maps.append(OutputIndexMap._along(index_map.input_dimension, offset, stride))
            else:
                maps.append(OutputIndexMap._constant(offset))
        return IndexTransform._of(view.domain, tuple(maps))

    def block_bounds(
        self, k: int, positions: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the interval of the base for each position."""
        dim, factor = self.base[k], self.factors[k]
        if factor == 1:
            return positions, positions + 1
        if factor > dim.size:  # products can exceed 64 bits
            least = [max(int(index) * factor, dim.inclusive_min) for index in positions.flat]
            most = [min((int(index) + 1) * factor, dim.exclusive_max) for index in positions.flat]
            shape = positions.shape
            return np.array(least, "i8").reshape(shape), np.array(most, "i8").reshape(shape)
        return (
            np.maximum(positions * factor, dim.inclusive_min),
            np.minimum((positions + 1) * factor, dim.exclusive_max),
        )


def _build_base_view(
    view: IndexTransform, dims: list[Dim], offsets: list[npt.NDArray[np.int64] | int | None]
) -> IndexTransform:
    """Return the view of the base: each map unchanged, shifted, or along an extra dimension."""
    rank, extra = len(dims), view.input_rank
    maps = []
    for index_map, offset in zip(view.output, offsets, strict=True):
        if offset is None:
            maps.append(_widen_map(index_map, rank))
            continue
        if isinstance(offset, int):
            assert index_map.input_dimension is not None
            maps.append(OutputIndexMap._along(index_map.input_dimension, offset, index_map._factor))
            continue
        if offset.size == 1:
            maps.append(OutputIndexMap._along(extra, int(offset.item())))
        else:
            shape = [1] * rank
            shape[extra] = dims[extra].size
            inside = np.arange(dims[extra].size).reshape(shape)
            array = offset.reshape(offset.shape + (1,) * (rank - offset.ndim)) + inside
            maps.append(OutputIndexMap._by_array(array))
        extra += 1
    return IndexTransform._of(IndexDomain._of(tuple(dims)), tuple(maps))


def _widen_map(index_map: OutputIndexMap, rank: int) -> OutputIndexMap:
    """Return the map for a view with more dimensions."""
    array = index_map.index_array
    if array is None:
        return index_map
    array = array.reshape(array.shape + (1,) * (rank - array.ndim))
    return OutputIndexMap._by_array(array, index_map.offset, index_map._factor, index_map._within)
