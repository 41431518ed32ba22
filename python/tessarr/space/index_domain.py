"""The domain of a view: `IndexDomain`."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final, Self

from tessarr._engine import View
from tessarr.errors import ArgumentError, SelectionError
from tessarr.space.box_json import box_from_json, box_to_json
from tessarr.space.domain import INFINITE, Box, Dim, check_labels, dims_of
from tessarr.space.indexable import Indexable, refuse
from tessarr.space.names import Name, names_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tessarr.space.brackets import Mode
    from tessarr.types import JSONObject

__all__ = ["IndexDomain"]

_new: Final = object.__new__


class IndexDomain(Indexable):
    """A box of positions: an interval, with its label, per dimension.

    Parameters
    ----------
    dims : int, sequence of Dim, optional
        The rank, or the dimensions.
    rank, inclusive_min, exclusive_max, inclusive_max, shape, labels
        The dimensions by their parts.
    implicit_lower_bounds, implicit_upper_bounds : sequence of bool, optional
        Which bounds are implicit: by default those that are not given.
    json : dict, optional
        All of it as JSON.

    Examples
    --------
    >>> domain = IndexDomain(shape=[3, 4], labels=["x", "y"])
    >>> domain["y"], domain.translate_by[5]
    (Dim(inclusive_min=0, exclusive_max=4, label="y"), { "x": [5, 8), "y": [5, 9) })
    """

    __slots__ = ("_dims", "_view")

    _dims: Box | None
    _view: View | None

    def __init__(
        self,
        dims: Any = None,
        *,
        rank: int | None = None,
        inclusive_min: Sequence[int] | None = None,
        implicit_lower_bounds: Sequence[bool] | None = None,
        exclusive_max: Sequence[int] | None = None,
        inclusive_max: Sequence[int] | None = None,
        shape: Sequence[int] | None = None,
        implicit_upper_bounds: Sequence[bool] | None = None,
        labels: Sequence[str | None] | None = None,
        json: JSONObject | None = None,
    ) -> None:
        if json is not None:
            if not isinstance(json, dict):
                raise ArgumentError(f"{json!r} is not an object")
            unknown = set(json) - {
                "rank", "inclusive_min", "exclusive_max", "inclusive_max", "shape", "labels",
            }  # fmt: skip
            if unknown:
                raise ArgumentError(f"unknown members {sorted(map(str, unknown))}")
            found = box_from_json(json)
        elif dims is not None and not hasattr(dims, "__index__"):
            found = check_labels([d if isinstance(d, Dim) else Dim(d) for d in dims])
        else:
            members = {
                "rank": rank if dims is None else int(dims.__index__()),
                "inclusive_min": _listed(inclusive_min),
                "exclusive_max": _listed(exclusive_max),
                "inclusive_max": _listed(inclusive_max),
                "shape": _listed(shape),
                "labels": None if labels is None else [name or "" for name in labels],
            }
            if rank is None and dims is None:
                flags = (
                    implicit_lower_bounds
                    if implicit_lower_bounds is not None
                    else implicit_upper_bounds
                )
                members["rank"] = None if flags is None else len(list(flags))
            found = box_from_json(members)
        if found is None:
            raise ArgumentError("the rank of the domain is not given")
        self._dims = _marked(found, implicit_lower_bounds, implicit_upper_bounds)
        self._view = None

    @classmethod
    def of(cls, dims: Box) -> Self:
        """Return the domain of dimensions that are known to be good."""
        made = _new(cls)
        made._dims = dims
        made._view = None
        return made

    @classmethod
    def of_view(cls, view: View) -> Self:
        """Return the domain of a view of the engine that has no maps."""
        made = _new(cls)
        made._dims = None
        made._view = view
        return made

    @property
    def dims(self) -> Box:
        """The dimensions."""
        if self._dims is None:
            self._dims = dims_of(self._as_view())
        return self._dims

    def _as_view(self) -> View:
        if self._view is None:
            self._view = View(self.dims, ())
        return self._view

    def _after(self, view: View) -> Self:
        return self.of_view(view)

    def apply_to(self, view: View, mode: Mode = "default") -> View:
        """Return the part of a view that is in the domain."""
        refuse(mode, self)
        return view.restricted(self.dims)

    def __getitem__(self, key: Any) -> Any:
        if hasattr(key, "apply_to"):
            return self._indexed(key, "default")
        names = names_of(key)
        if isinstance(key, str) or hasattr(key, "__index__"):
            return self.dims[self._as_view().chosen(names)[0]].copy()
        return self.of(tuple([self.dims[k] for k in self._chosen(names)]))

    def _chosen(self, names: tuple[Name, ...]) -> list[int]:
        try:
            return self._as_view().chosen(names)
        except SelectionError as error:
            raise ArgumentError(str(error)) from error

    def transpose(self, axes: Any = None) -> Self:
        """Put the dimensions in another order; by default the reverse one.

        Raises
        ------
        ArgumentError
            If not all dimensions are named, each once.
        """
        if axes is None:
            return self.T
        order = self._chosen(names_of(axes))
        if len(order) != self.rank:
            raise ArgumentError(f"{axes!r} does not name all dimensions of {self}")
        return self._after(self._as_view().permuted(order))

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return self._as_view().rank

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.dims)

    @property
    def origin(self) -> tuple[int, ...]:
        """The least index of each dimension."""
        return self._as_view().origin

    @property
    def inclusive_min(self) -> tuple[int, ...]:
        """The least index of each dimension."""
        return self.origin

    @property
    def inclusive_max(self) -> tuple[int, ...]:
        """The greatest index of each dimension."""
        return tuple(dim.inclusive_max for dim in self.dims)

    @property
    def exclusive_max(self) -> tuple[int, ...]:
        """One more than the greatest index of each dimension."""
        return tuple(dim.exclusive_max for dim in self.dims)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of indices of each dimension."""
        return self._as_view().shape

    @property
    def size(self) -> int:
        """The number of positions."""
        return prod(self.shape)

    @property
    def labels(self) -> tuple[str, ...]:
        """The label of each dimension; "" where there is none."""
        return tuple(dim.label for dim in self.dims)

    @property
    def implicit_lower_bounds(self) -> tuple[bool, ...]:
        """Whether the lower bound of each dimension is implicit."""
        return tuple(dim.implicit_lower for dim in self.dims)

    @property
    def implicit_upper_bounds(self) -> tuple[bool, ...]:
        """Whether the upper bound of each dimension is implicit."""
        return tuple(dim.implicit_upper for dim in self.dims)

    @property
    def index_exp(self) -> tuple[slice, ...]:
        """The slices that select the domain of a NumPy array; infinite bounds are left out.

        Raises
        ------
        ArgumentError
            If a bound is negative: NumPy would count it from the end.

        Examples
        --------
        >>> IndexDomain(inclusive_min=[1], shape=[4]).index_exp
        (slice(1, 5, None),)
        """
        if any(-INFINITE < dim.inclusive_min < 0 or dim.exclusive_max < 0 for dim in self.dims):
            raise ArgumentError(f"{self} has negative bounds, which slices count from the end")
        return tuple(
            slice(
                None if dim.inclusive_min == -INFINITE else dim.inclusive_min,
                None if dim.exclusive_max > INFINITE else dim.exclusive_max,
            )
            for dim in self.dims
        )

    def hull(self, other: IndexDomain) -> IndexDomain:
        """Return the smallest domain that contains both."""
        return IndexDomain.of(tuple(a.hull(b) for a, b in self._pairs(other)))

    def intersect(self, other: IndexDomain) -> IndexDomain:
        """Return the positions of both."""
        return IndexDomain.of(tuple(a.intersect(b) for a, b in self._pairs(other)))

    def _pairs(self, other: IndexDomain) -> Iterator[tuple[Dim, Dim]]:
        if self.rank != other.rank:
            raise ArgumentError(f"domains of rank {self.rank} and {other.rank}")
        return zip(self.dims, other.dims, strict=True)

    def to_json(self) -> JSONObject:
        """Return the domain as JSON."""
        return box_to_json(self.dims)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IndexDomain):
            return NotImplemented
        return self._as_view() == other._as_view()

    def __hash__(self) -> int:
        return hash(self.dims)

    def __reduce__(self) -> Any:
        return type(self).of, (self.dims,)

    def __len__(self) -> int:
        return len(self.dims)

    def __iter__(self) -> Iterator[Dim]:
        return iter([dim.copy() for dim in self.dims])

    def __repr__(self) -> str:
        return f"{{ {', '.join(map(str, self.dims))} }}"


def _listed(values: Any) -> list[Any] | None:
    return None if values is None else list(values)


def _marked(dims: Box, lower: Any, upper: Any) -> Box:
    if lower is None and upper is None:
        return dims
    for flags in (lower, upper):
        if flags is not None and len(flags) != len(dims):
            raise ArgumentError(f"{len(flags)} flags for {len(dims)} dimensions")
    return tuple(
        Dim.of(
            dim.inclusive_min,
            dim.exclusive_max,
            dim.label,
            (
                dim.implicit_lower if lower is None else bool(lower[k]),
                dim.implicit_upper if upper is None else bool(upper[k]),
            ),
        )
        for k, dim in enumerate(dims)
    )
