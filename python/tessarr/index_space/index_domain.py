"""Domains of views: `IndexDomain`, and the base class of domains and transforms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from tessarr._engine import View
from tessarr._safe_repr import safe_repr
from tessarr.errors import ArgumentError, SelectionError
from tessarr.index_space.dimension_names import read_dimensions
from tessarr.index_space.indexable import Bounded, check_plain_brackets
from tessarr.index_space.intervals import INFINITE, Dim

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import EllipsisType

    from tessarr.index_space.indexing_terms import Mode
    from tessarr.types import JSONObject

__all__ = ["IndexDomain", "Placed", "view_from_arguments"]


class Placed(Bounded):
    """A view of the engine, and its properties.

    Private names here are public under other names in domains and transforms.
    """

    __slots__ = ("__weakref__", "_view")

    _view: View

    def __init__(self, view: View) -> None:
        try:
            self._view  # noqa: B018 (a second call has no effect)
        except TypeError:
            self._view = view

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name == "_view":
                raise TypeError("super().__init__() has to be called first")
            raise AttributeError(f"a {type(self).__name__} has no attribute {name!r}")

    @classmethod
    def _of_view(cls, view: View) -> Self:
        """Return the domain, or the transform, that the engine has."""
        new = object.__new__(cls)
        new._view = view
        return new

    @classmethod
    def _restored(cls, dims: Any, maps: Any) -> Self:
        return cls._of_view(View(dims, maps))

    def __reduce__(self) -> tuple[Any, ...]:
        attributes = getattr(self, "__dict__", None)  # a user's subclass has one
        return type(self)._restored, (self._view.dims(), self._view.maps()), attributes

    def _as_view(self) -> View:
        return self._view

    @property
    def _dims(self) -> tuple[Dim, ...]:
        """The dimensions."""
        return tuple([Dim._of(*state) for state in self._view.dims()])

    @property
    def rank(self) -> int:
        """The number of dimensions.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.IndexDomain(shape=[3, 4]).rank, ts.IndexTransform(3).input_rank
        (2, 3)
        """
        return self._view.rank

    ndim = rank

    @property
    def implicit_lower_bounds(self) -> tuple[bool, ...]:
        """Whether the lower bound of each dimension is implicit.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.IndexDomain(exclusive_max=[3]).implicit_lower_bounds
        (True,)
        """
        return self._view.implicit_lower

    @property
    def implicit_upper_bounds(self) -> tuple[bool, ...]:
        """Whether the upper bound of each dimension is implicit.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.IndexDomain(shape=[3], implicit_upper_bounds=[True]).implicit_upper_bounds
        (True,)
        """
        return self._view.implicit_upper

    @property
    def _inclusive_max(self) -> tuple[int, ...]:
        """The greatest index of each dimension.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.IndexDomain(inclusive_min=[5], shape=[3]).inclusive_max
        (7,)
        """
        return self._view.inclusive_max

    @property
    def _exclusive_max(self) -> tuple[int, ...]:
        """One more than the greatest index of each dimension.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.IndexDomain(inclusive_min=[5], shape=[3]).exclusive_max
        (8,)
        """
        return self._view.exclusive_max

    @property
    def _labels(self) -> tuple[str, ...]:
        """The label of each dimension; "" without one.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.IndexDomain(shape=[3, 4], labels=["x", None]).labels
        ('x', '')
        """
        return self._view.labels


class IndexDomain(Placed):
    """A box of positions: an interval, with its label, per dimension.

    Parameters
    ----------
    rank : int or sequence of Dim, optional
        The number of dimensions, or the dimensions.
    inclusive_min, exclusive_max, inclusive_max, shape, labels
        The parts of the dimensions.
    implicit_lower_bounds, implicit_upper_bounds : sequence of bool, optional
        Flags of implicit bounds; by default missing bounds are implicit.
    dimensions : sequence of Dim, optional
        The dimensions.
    json : dict, optional
        The domain as JSON.

    Raises
    ------
    TypeError
        If an argument has a wrong type, or several arguments describe the whole domain.
    ArgumentError
        If the arguments do not describe a domain.

    Examples
    --------
    >>> domain = IndexDomain(shape=[3, 4], labels=["x", "y"])
    >>> domain["y"], domain.translate_by[5]
    (Dim(inclusive_min=0, exclusive_max=4, label="y"), { "x": [5, 8), "y": [5, 9) })
    """

    __slots__ = ()

    def __init__(
        self,
        rank: Any = None,
        *,
        inclusive_min: Iterable[int] | None = None,
        implicit_lower_bounds: Iterable[bool] | None = None,
        exclusive_max: Iterable[int] | None = None,
        inclusive_max: Iterable[int] | None = None,
        shape: Iterable[int] | None = None,
        implicit_upper_bounds: Iterable[bool] | None = None,
        labels: Iterable[str | None] | None = None,
        dimensions: Iterable[Dim] | EllipsisType = ...,
        json: JSONObject | EllipsisType = ...,
    ) -> None:
        lower, upper = implicit_lower_bounds, implicit_upper_bounds
        parts = (rank, inclusive_min, exclusive_max, inclusive_max, shape, labels, lower, upper)
        super().__init__(view_from_arguments(View.domain_from_json, parts, dimensions, json))

    @classmethod
    def _shaped(cls, shape: Sequence[int]) -> IndexDomain:
        """Return the domain of a shape, which starts at 0.

        Raises
        ------
        ArgumentError
            If the shape is invalid.
        """
        return cls._of_view(View.from_bounds(None, None, None, None, shape, None, None, None))

    @classmethod
    def _of(cls, dims: Sequence[Dim]) -> IndexDomain:
        """Return the domain of dimensions.

        Raises
        ------
        ArgumentError
            If two dimensions have the same label.
        """
        return cls._of_view(View(Dim._states(dims)))

    def _with_view(self, view: View) -> IndexDomain:
        return IndexDomain._of_view(view)

    def _apply_to(self, view: View, mode: Mode = "default") -> View:
        """Return the part of a view that is in the domain."""
        check_plain_brackets(mode, self)
        return view.restrict(self._view)

    def __getitem__(self, key: Any) -> Any:
        """Return a dimension by its number or label, several as a domain, or part of the domain.

        Raises
        ------
        SelectionError
            If the domain has no such dimension.
        ArgumentError
            If one of several dimensions is missing or repeated.

        Examples
        --------
        >>> domain = IndexDomain(shape=[3, 4, 5], labels=["x", "y", "z"])
        >>> domain["y"].size, domain[["z", 0]]
        (4, { "z": [0, 5), "x": [0, 3) })
        >>> domain[IndexDomain(shape=[2, 1, 5])]
        { "x": [0, 2), "y": [0, 1), "z": [0, 5) }
        """
        if hasattr(key, "_apply_to") and not hasattr(key, "_named"):
            return self._indexed(key, "default")
        names = read_dimensions(key)
        if isinstance(key, (str, bytes)) or hasattr(key, "__index__"):
            return self._dims[self._view.select_dims(names)[0]]
        dims = self._dims
        try:
            return self._of([dims[k] for k in self._view.select_dims(names)])
        except SelectionError as error:
            raise ArgumentError(str(error)) from error

    inclusive_min = Placed.origin
    inclusive_max = Placed._inclusive_max
    exclusive_max = Placed._exclusive_max
    labels = Placed._labels

    @property
    def index_exp(self) -> tuple[slice, ...]:
        """The slices that select the domain of a NumPy array, without infinite bounds.

        Raises
        ------
        ArgumentError
            If a bound is negative: NumPy would count it from the end.

        Examples
        --------
        >>> IndexDomain(inclusive_min=[1], shape=[4]).index_exp
        (slice(1, 5, None),)
        """
        if any(-INFINITE < dim.inclusive_min < 0 or dim.exclusive_max < 0 for dim in self._dims):
            raise ArgumentError(f"{self} has negative bounds, which slices count from the end")
        return tuple(
            slice(
                None if dim.inclusive_min == -INFINITE else dim.inclusive_min,
                None if dim.exclusive_max > INFINITE else dim.exclusive_max,
            )
            for dim in self._dims
        )

    def hull(self, other: IndexDomain) -> IndexDomain:
        """Return the smallest domain that contains both.

        Raises
        ------
        ArgumentError
            If ranks or labels do not agree.

        Examples
        --------
        >>> IndexDomain(shape=[3]).hull(IndexDomain(inclusive_min=[7], shape=[2]))
        { [0, 9) }
        """
        return self._with_view(self._view.hull(_get_view(other)))

    def intersect(self, other: IndexDomain) -> IndexDomain:
        """Return the positions that both domains contain.

        Raises
        ------
        ArgumentError
            If ranks or labels do not agree.

        Examples
        --------
        >>> IndexDomain(shape=[3, 9]).intersect(IndexDomain(inclusive_min=[1, 4], shape=[8, 8]))
        { [1, 3), [4, 9) }
        """
        return self._with_view(self._view.intersect(_get_view(other)))

    def to_json(self) -> JSONObject:
        """Return the domain as JSON.

        Examples
        --------
        >>> IndexDomain(shape=[3], labels=["x"], implicit_upper_bounds=[True]).to_json()
        {'exclusive_max': [[3]], 'inclusive_min': [0], 'labels': ['x']}
        """
        return self._view.to_json(domain_only=True)

    def __eq__(self, other: object) -> bool:
        return self._view == other._view if isinstance(other, IndexDomain) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._dims)

    def __len__(self) -> int:
        return self._view.rank

    def __iter__(self) -> Iterator[Dim]:
        return iter(self._dims)

    def __repr__(self) -> str:
        return self._view.dims_text()


def _get_view(other: object) -> View:
    """Return the view of another domain."""
    if not isinstance(other, IndexDomain):
        raise TypeError(f"{safe_repr(other)} is not a domain")
    return other._view


def view_from_arguments(
    parse_json: Callable[[JSONObject], View],
    parts: tuple[Any, ...],
    dimensions: Any,
    json: JSONObject | EllipsisType,
) -> View:
    """Return the view that arguments describe.

    Parameters
    ----------
    parse_json
        Builds the view from JSON.
    parts
        The rank or the dimensions, lower bounds, upper bounds, last indices, the shape, labels, and
        flags of implicit bounds.
    dimensions
        A domain, or dimensions; ``...`` if not passed.
    json
        The whole view as JSON, or ``...``.

    Raises
    ------
    TypeError
        If an argument has a wrong type, or several arguments describe the whole domain.
    """
    rank = parts[0]
    if dimensions is ... and json is ... and (rank is None or hasattr(rank, "__index__")):
        return View.from_bounds(*parts)
    forms = [json is not ..., dimensions is not ..., *[part is not None for part in parts]]
    if sum(forms) > 1:
        raise TypeError("give only one of: rank and bounds, dimensions, JSON")
    if json is not ...:
        return parse_json(json)
    source = rank if dimensions is ... else dimensions
    return source._view if isinstance(source, IndexDomain) else View(Dim._states(source))
