"""The driver ``downsample``: a view with one element for each block.

Theory
------
The element at position ``p`` of a dimension with factor ``f`` stands for those of the base at
``p * f`` up to ``(p + 1) * f``, as far as the base has them. So a view asks for a set of
positions of each dimension of the result; what stands behind those is read from the base as one
product of indices, reduced, and then put in the order of the view. Where index arrays run
along with each other, so that the product would be much more than the view, each point is
read with its block instead.

Large views are read and reduced slab by slab, of a bounded number of bytes.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from tessarr.errors import ArgumentError
from tessarr.space import Dim, IndexDomain, IndexTransform, OutputIndexMap
from tessarr.space.domain import INFINITE
from tessarr.space.maps import position
from tessarr.tensorstore.after import attempt
from tessarr.tensorstore.bounds import propagated
from tessarr.tensorstore.driver import Driver
from tessarr.tensorstore.future import converted, failed, start
from tessarr.tensorstore.in_memory import check_finite, selected
from tessarr.tensorstore.reducing import Blocks, check_method, reduce
from tessarr.tensorstore.store import TensorStore, handle

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from tessarr.tensorstore.data_type import dtype as DataType  # noqa: N812
    from tessarr.tensorstore.driver import Using
    from tessarr.tensorstore.future import Future

__all__ = ["DownsampleDriver", "check_factors", "downsample_store", "downsampled"]

_SLAB_BYTES: Final = 64 << 20
_WASTE: Final = 4


def downsample_store(base: TensorStore, factors: Sequence[int], method: str) -> TensorStore:
    """Return a view of a handle with one element for each block.

    Raises
    ------
    ArgumentError
        If the factors do not fit, or the elements have no such thing.
    """
    driver = DownsampleDriver(base, factors, method)
    return handle(driver, None, "r" if base.readable else "", base.transaction)


def check_factors(factors: Sequence[int], rank: int) -> None:
    """Raise an error unless there is a positive factor for each dimension."""
    if len(factors) != rank:
        raise ArgumentError(f"{len(factors)} factors for {rank} dimensions")
    if not all(1 <= one <= INFINITE for one in factors):
        raise ArgumentError(f"factors are positive, not {tuple(factors)}")


def downsampled(domain: IndexDomain, factors: Sequence[int], method: str) -> IndexDomain:
    """Return the domain of the result."""
    dims = []
    for dim, factor in zip(domain.dims, factors, strict=True):
        lower, upper = dim.inclusive_min, dim.exclusive_max
        if lower > -INFINITE:
            lower = -(-lower // factor) if method == "stride" else lower // factor
        if upper <= INFINITE:
            upper = -(-upper // factor) if dim.size or method == "stride" else lower
        dims.append(
            Dim.of(lower, max(lower, upper), dim.label, (dim.implicit_lower, dim.implicit_upper))
        )
    return IndexDomain.of(tuple(dims))


class _Wanted(NamedTuple):
    """The positions of one dimension of the result that a view asks for, ascending."""

    positions: range | npt.NDArray[np.int64]
    """Which."""
    rank: OutputIndexMap
    """For each position of the view, the place in `positions`."""


class _Behind(NamedTuple):
    """What stands behind positions of one dimension."""

    indices: int | npt.NDArray[np.int64]
    """The positions of the base, or the first one where they are an interval."""
    size: int
    """How many they are."""
    blocks: Blocks
    """How they are cut."""

    def map(self, k: int, rank: int) -> OutputIndexMap:
        """Return the map of dimension `k` of `rank` that selects them."""
        if isinstance(self.indices, int):
            return OutputIndexMap.along(k, self.indices)
        shape = [self.size if axis == k else 1 for axis in range(rank)]
        return OutputIndexMap.by_array(self.indices.reshape(shape))


class DownsampleDriver(Driver):
    """One element for each block of a base.

    Parameters
    ----------
    of
        The base.
    factors
        How long blocks are.
    method
        What is made of each.
    """

    __slots__ = ("_domain", "_of", "factors", "method")

    name = "downsample"

    def __init__(self, of: TensorStore, factors: Sequence[int], method: str) -> None:
        check_factors(factors, of.rank)
        check_method(method, of.dtype)
        self._of = of
        self.factors = tuple(factors)
        self.method = method
        self._domain = downsampled(of.domain, self.factors, method)

    @property
    def dtype(self) -> DataType:
        """That of the base."""
        return self._of.dtype

    @property
    def domain(self) -> IndexDomain:
        """Where there are blocks."""
        return self._domain

    @property
    def readable(self) -> bool:
        """Whether the base can be read."""
        return self._of.readable

    @property
    def writable(self) -> bool:
        """Never."""
        return False

    def storages(self) -> frozenset[Any]:
        """Tell where elements are: where those of the base are."""
        return self._of._driver.storages()

    def settled(self, view: IndexTransform, using: Using) -> tuple[Driver, IndexTransform]:
        """Return a view with the bounds that the base has now."""
        of = self._of._now(using)
        if of is self._of:
            return self, view
        driver = DownsampleDriver(of, self.factors, self.method)
        return driver, propagated(view, driver.domain)

    def resolve(self, using: Using) -> Future[Driver]:
        """Look up the bounds of the base."""
        return converted(
            self._of.resolve(batch=using.batch),
            lambda of: DownsampleDriver(of, self.factors, self.method),
        )

    @property
    def chunk_layout(self) -> Any:
        """That of the base, in blocks."""
        return self._of[self._strided(IndexTransform(self._domain))].chunk_layout

    @property
    def codec(self) -> Any:
        """That of the base."""
        return self._of.codec

    @property
    def fill_value(self) -> npt.NDArray[Any] | None:
        """That of the base, which all methods leave as it is."""
        fill: npt.NDArray[Any] | None = self._of.fill_value
        return fill if fill is None or fill.ndim == 0 else None

    @property
    def dimension_units(self) -> tuple[Any, ...]:
        """Those of the base, times the factors."""
        return tuple(
            None if unit is None else unit * factor
            for unit, factor in zip(self._of.dimension_units, self.factors, strict=True)
        )

    @property
    def kvstore(self) -> Any:
        """Where the base is."""
        return self._of.kvstore

    @property
    def base(self) -> TensorStore:
        """What is viewed."""
        return self._of

    def base_of(self, view: IndexTransform) -> TensorStore | None:
        """Return what is behind a view that is a box; None for others."""
        if self.method == "stride":
            return self._of[self._strided(view)]
        dims: dict[int, Dim] = {}
        maps = []
        for one, base, factor in zip(view.output, self._of.domain.dims, self.factors, strict=True):
            k = one.input_dimension
            if k is None or one.factor != 1 or k in dims:
                return None
            dim = view.domain.dims[k]
            low = (dim.inclusive_min + one.offset) * factor
            high = (dim.exclusive_max + one.offset) * factor
            by = one.offset * factor
            low, high = max(low, base.inclusive_min), min(high, base.exclusive_max)
            flags = (dim.implicit_lower, dim.implicit_upper)
            dims[k] = Dim.of(low - by, max(low, high) - by, dim.label, flags)
            maps.append(OutputIndexMap.along(k, by))
        if len(dims) != view.input_rank:
            return None
        domain = IndexDomain.of(tuple(dims[k] for k in range(len(dims))))
        return self._of[IndexTransform.of(domain, tuple(maps))]

    def read(
        self, view: IndexTransform, out: npt.NDArray[Any] | None, using: Using
    ) -> Future[npt.NDArray[Any]]:
        """Read blocks, and reduce them."""
        try:
            check_finite(view)
            if view.size == 0:
                empty = np.empty(view.domain.shape, self.dtype.dtype)
                return attempt(lambda: empty if out is None else out)
            if self.method == "stride":
                strided = self._of._view[self._strided(view)]
                return self._of._driver.read(strided, out, using)
            wanted = [self._wanted(view, k) for k in range(view.output_rank)]
            if prod(len(one.positions) for one in wanted) > _WASTE * view.size + 1000:
                return self._by_points(view, out, using)
            return self._by_product(view, wanted, out, using)
        except Exception as error:  # noqa: BLE001 (the future tells it)
            return failed(error)

    def _strided(self, view: IndexTransform) -> IndexTransform:
        """Return the view of the base that has the first element of each block."""
        maps = []
        for one, factor in zip(view.output, self.factors, strict=True):
            offset, stride = one.offset * factor, one.factor * factor
            if one.index_array is not None:
                maps.append(OutputIndexMap.by_array(one.index_array, offset, stride, one.within))
            elif one.input_dimension is not None:
                maps.append(OutputIndexMap.along(one.input_dimension, offset, stride))
            else:
                maps.append(OutputIndexMap.constant(offset))
        return IndexTransform.of(view.domain, tuple(maps))

    def _wanted(self, view: IndexTransform, k: int) -> _Wanted:
        one = view.output[k]
        if one.index_array is not None:
            places = position(one, view.domain.dims)
            self._check(k, int(places.min()), int(places.max()))
            found, inverse = np.unique(places, return_inverse=True)
            return _Wanted(found, OutputIndexMap.by_array(inverse.reshape(places.shape)))
        if one.input_dimension is None or not one.factor:
            self._check(k, one.offset, one.offset)
            return _Wanted(range(one.offset, one.offset + 1), OutputIndexMap.constant(0))
        dim = view.domain.dims[one.input_dimension]
        begin, last = dim.inclusive_min, dim.exclusive_max - 1
        ends = one.offset + one.factor * begin, one.offset + one.factor * last
        least, most, step = min(ends), max(ends), abs(one.factor)
        self._check(k, least, most)
        sign = 1 if one.factor > 0 else -1
        order = OutputIndexMap.along(one.input_dimension, -begin if sign > 0 else last, sign)
        return _Wanted(range(least, most + 1, step), order)

    def _check(self, k: int, least: int, most: int) -> None:
        dim = self._domain.dims[k]
        if least < dim.inclusive_min or most >= dim.exclusive_max:
            raise ArgumentError(
                f"dimension {k}: positions from {least} to {most} are not all in {dim}",
                kind="out_of_bounds",
            )

    def _by_product(
        self,
        view: IndexTransform,
        wanted: list[_Wanted],
        out: npt.NDArray[Any] | None,
        using: Using,
    ) -> Future[npt.NDArray[Any]]:
        """Read what stands behind the product of positions of each dimension."""
        positions = [one.positions for one in wanted]
        order = IndexTransform.of(view.domain, tuple(one.rank for one in wanted))
        straight = order.output == tuple(
            OutputIndexMap.along(k, -low) for k, low in enumerate(view.domain.origin)
        )
        target = out if straight else None

        def finish(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
            if straight:
                return values
            found = selected(values, order)
            if out is None:
                return np.array(found, order="C")
            out[...] = found
            return out

        slabs = list(self._slabs(positions))
        if len(slabs) == 1:
            return converted(self._reduced(positions, using, target), finish)

        def work() -> npt.NDArray[Any]:
            values = target
            if values is None:
                values = np.empty([len(one) for one in positions], self.dtype.dtype)
            before: Future[Any] | None = None
            for slab in slabs:
                pieces = [one[cut] for one, cut in zip(positions, slab, strict=True)]
                reading = self._reduced(pieces, using, values[slab])
                reading.force()  # while the one before is reduced
                if before is not None:
                    before.result()
                before = reading
            if before is not None:
                before.result()
            return finish(values)

        return start(work)

    def _slabs(
        self, positions: Sequence[range | npt.NDArray[np.int64]]
    ) -> Iterator[tuple[slice, ...]]:
        """Cut a product along its first dimension, so that what is read at once is bounded."""
        counts = [len(one) for one in positions]
        item = max(1, self.dtype.dtype.itemsize)
        if not counts:
            yield ()
            return
        blocks = prod(
            min(factor, dim.size)
            for factor, dim in zip(self.factors, self._of.domain.dims, strict=True)
        )
        row = prod(counts[1:]) * blocks * item
        rows = max(1, _SLAB_BYTES // max(1, row))
        rest = tuple(slice(0, count) for count in counts[1:])
        for start_row in range(0, counts[0], rows):
            yield (slice(start_row, min(start_row + rows, counts[0])), *rest)

    def _reduced(
        self,
        positions: Sequence[range | npt.NDArray[np.int64]],
        using: Using,
        out: npt.NDArray[Any] | None,
    ) -> Future[npt.NDArray[Any]]:
        """Read and reduce the product of positions, ascending."""
        behind = [self._behind(k, one) for k, one in enumerate(positions)]
        dims = tuple(Dim.of(0, one.size) for one in behind)
        maps = tuple(one.map(k, len(behind)) for k, one in enumerate(behind))
        blocks = [one.blocks for one in behind]
        read = self._look(IndexTransform.of(IndexDomain.of(dims), maps), using)
        return converted(read, lambda values: reduce(values, blocks, self.method, out))

    def _look(self, view: IndexTransform, using: Using) -> Future[npt.NDArray[Any]]:
        return self._of._driver.look(self._of._view[view], using)

    def _behind(self, k: int, positions: range | npt.NDArray[np.int64]) -> _Behind:
        """Return which positions of the base stand behind some of the result."""
        factor = self.factors[k]
        if isinstance(positions, range) and (positions.step == 1 or len(positions) == 1):
            dim, count = self._of.domain.dims[k], len(positions)
            low = max(positions[0] * factor, dim.inclusive_min)
            high = min((positions[-1] + 1) * factor, dim.exclusive_max)
            first = min((positions[0] + 1) * factor, high) - low
            last = high - max(positions[-1] * factor, low)
            return _Behind(low, high - low, _blocks(first, last, factor, count))
        least, most = self._edges(k, np.asarray(positions))
        short = most - least
        size = int(short.sum())
        blocks = _blocks(int(short[0]), int(short[-1]), factor, len(short))
        if least[-1] + short[-1] - least[0] == size:
            return _Behind(int(least[0]), size, blocks)
        ends = np.cumsum(short)
        return _Behind(np.arange(size) + np.repeat(least - (ends - short), short), size, blocks)

    def _edges(
        self, k: int, positions: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return which interval of the base stands behind each position."""
        dim, factor = self._of.domain.dims[k], self.factors[k]
        if factor > dim.size:  # products might have more than 64 bits
            least = [max(int(one) * factor, dim.inclusive_min) for one in positions]
            most = [min((int(one) + 1) * factor, dim.exclusive_max) for one in positions]
            return np.array(least, "i8"), np.array(most, "i8")
        return (
            np.maximum(positions * factor, dim.inclusive_min),
            np.minimum((positions + 1) * factor, dim.exclusive_max),
        )

    def _by_points(
        self, view: IndexTransform, out: npt.NDArray[Any] | None, using: Using
    ) -> Future[npt.NDArray[Any]]:
        """Read the block of each point of the view."""
        rank = view.output_rank
        points = [
            np.broadcast_to(position(one, view.domain.dims), view.domain.shape).reshape(-1)
            for one in view.output
        ]
        edges = [self._edges(k, points[k]) for k in range(rank)]
        shapes = np.stack([most - least for least, most in edges], axis=1)
        kinds, group = np.unique(shapes, axis=0, return_inverse=True)

        def work() -> npt.NDArray[Any]:
            result = np.empty(len(points[0]), self.dtype.dtype)
            for kind, lengths in enumerate(kinds.tolist()):
                chosen = np.flatnonzero(group.reshape(-1) == kind)
                most = max(1, _SLAB_BYTES // (prod(lengths) * 8 * rank))
                for begin in range(0, len(chosen), most):
                    some = chosen[begin : begin + most]
                    least = [edge[0][some] for edge in edges]
                    result[some] = self._blocks_at(least, lengths, using)
            values = result.reshape(view.domain.shape)
            if out is None:
                return values
            out[...] = values
            return out

        return start(work)

    def _blocks_at(
        self, least: list[npt.NDArray[np.int64]], lengths: list[int], using: Using
    ) -> npt.NDArray[Any]:
        """Read blocks of one shape that begin at some points, and reduce each."""
        rank = len(lengths)
        count = len(least[0])
        dims = (Dim.of(0, count), *(Dim.of(0, length) for length in lengths))
        maps = []
        for k, begin in enumerate(least):
            shape = [1] * (rank + 1)
            shape[k + 1] = lengths[k]
            inside = np.arange(lengths[k]).reshape(shape)
            maps.append(OutputIndexMap.by_array(begin.reshape(count, *[1] * rank) + inside))
        view = IndexTransform.of(IndexDomain.of(dims), tuple(maps))
        values = self._look(view, using).result()
        blocks = [Blocks(0, 1, count, 0), *(Blocks(0, length, 1, 0) for length in lengths)]
        return reduce(values, blocks, self.method).reshape(-1)


def _blocks(first: int, last: int, factor: int, count: int) -> Blocks:
    """Tell how an axis is cut, whose blocks are whole but for the first and the last one."""
    first = first if first != factor else 0
    last = last if last != factor and count > bool(first) else 0
    return Blocks(first, factor, count - bool(first) - bool(last), last)
