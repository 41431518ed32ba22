"""A view: `IndexTransform`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tessarr._engine import View
from tessarr.errors import ArgumentError
from tessarr.index_space.index_domain import IndexDomain, view_from_arguments
from tessarr.index_space.indexable import Indexable, add_status_code, check_plain_brackets
from tessarr.index_space.indexable_base import Placed

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import EllipsisType

    from tessarr.index_space.indexing_terms import Mode
    from tessarr.index_space.intervals import Dim
    from tessarr.index_space.output_index_map import OutputIndexMap
    from tessarr.types import JSONObject

__all__ = ["IndexTransform"]


class IndexTransform(Placed, Indexable):
    """A view: the domain of its positions, and an index of what is viewed for each.

    Parameters
    ----------
    input_rank : int, IndexDomain or sequence of Dim, optional
        The number of dimensions, or the domain itself.
    output : sequence of OutputIndexMap, optional
        A map per dimension of what is viewed; by default positions stay as they are.
    domain : IndexDomain or sequence of Dim, optional
        The positions.
    input_inclusive_min, input_exclusive_max, input_inclusive_max, input_shape, input_labels
        The domain by its parts, as for `IndexDomain`.
    implicit_lower_bounds, implicit_upper_bounds : sequence of bool, optional
        Which bounds are implicit: by default those that are not given.
    json : dict, optional
        All of it as JSON.

    Raises
    ------
    TypeError
        If something is of another type, or more than one of these is given that say all.
    ArgumentError
        If it is no transform.

    Examples
    --------
    >>> view = IndexTransform(IndexDomain(shape=[10, 4]))[1::3, [0, 2]]
    >>> view.domain, view([1, 1])
    ({ [0, 3), [0, 2) }, (4, 2))
    """

    __slots__ = ()

    def __init__(
        self,
        input_rank: Any = None,
        output: Iterable[OutputIndexMap] | None = None,
        *,
        domain: IndexDomain | Iterable[Dim] | EllipsisType = ...,
        input_inclusive_min: Iterable[int] | None = None,
        implicit_lower_bounds: Iterable[bool] | None = None,
        input_exclusive_max: Iterable[int] | None = None,
        input_inclusive_max: Iterable[int] | None = None,
        input_shape: Iterable[int] | None = None,
        implicit_upper_bounds: Iterable[bool] | None = None,
        input_labels: Iterable[str | None] | None = None,
        json: JSONObject | EllipsisType = ...,
    ) -> None:
        lower, upper = implicit_lower_bounds, implicit_upper_bounds
        first, end, last = input_inclusive_min, input_exclusive_max, input_inclusive_max
        parts = (input_rank, first, end, last, input_shape, input_labels, lower, upper)
        found = view_from_arguments(View.parsed, parts, domain, json)
        if json is not ... and output is not None:
            raise TypeError("the JSON of a transform has its maps: give no others")
        super().__init__(found.mapped(output) if json is ... else found)

    @classmethod
    def _of(cls, domain: IndexDomain, output: Iterable[OutputIndexMap]) -> IndexTransform:
        """Return the transform of a domain and a map for each dimension of what is viewed."""
        return cls._of_view(domain._as_view().mapped(output))

    @classmethod
    def _whole(cls, domain: IndexDomain) -> IndexTransform:
        """Return the transform of a domain that leaves positions as they are."""
        return cls._of_view(domain._as_view().mapped())

    def _apply_to(self, view: View, mode: Mode = "default") -> View:
        """Return a view of a view."""
        check_plain_brackets(mode, self)
        return view.viewed(self._view)

    @property
    def _is_identity(self) -> bool:
        """Whether every position is itself."""
        return self._view.unmoved

    def _linear_maps(self, *, alone: bool = False) -> list[tuple[int, int, int]]:
        """Return of each map the dimension that it follows, or -1, the offset and the stride.

        Parameters
        ----------
        alone
            Whether a dimension counts only where no other map follows it.

        Examples
        --------
        >>> IndexTransform(2)[5, 1::3]._linear_maps()
        [(-1, 5, 0), (0, 1, 3)]
        """
        return self._view.lines(alone)

    def _with_base_bounds(self, domain: IndexDomain) -> IndexTransform:
        """Return the view with its implicit bounds where those of what it views are.

        Raises
        ------
        SelectionError
            If an explicit bound of the view is beyond an explicit one of what it views.
        """
        return self._after(self._view.settled(domain._as_view()))

    def _simplify(self) -> IndexTransform:
        """Return the view with constants in place of index arrays of one item."""
        return self._after(self._view.simplified())

    @property
    def _has_implicit_bounds(self) -> bool:
        """Whether a bound is implicit, and so follows what is viewed."""
        return self._view.follows

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IndexTransform):
            return NotImplemented
        return self._view == other._view

    __hash__ = None  # type: ignore[assignment]

    def __call__(self, indices: Any) -> tuple[int, ...]:
        """Return the index of what is viewed at a position.

        Raises
        ------
        ArgumentError, SelectionError
            If the position has not as many indices as the domain, or is outside of it.
        """
        if isinstance(indices, IndexTransform):
            raise TypeError("give a position; transforms are composed by brackets")
        try:
            return self._view.position(indices)
        except ArgumentError as error:
            raise add_status_code(error, ArgumentError) from error.__cause__

    @property
    def output_rank(self) -> int:
        """The number of dimensions of what is viewed.

        Examples
        --------
        >>> view = IndexTransform(2)[5]
        >>> view.input_rank, view.output_rank
        (1, 2)
        """
        return self._view.output_rank

    domain = Placed._domain
    output = Placed._output
    input_rank = Placed.rank
    input_origin = input_inclusive_min = Placed.origin
    input_inclusive_max = Placed._inclusive_max
    input_exclusive_max = Placed._exclusive_max
    input_shape = Placed.shape
    input_labels = Placed._labels

    def to_json(self) -> JSONObject:
        """Return the transform as JSON; maps that leave positions as they are are left out.

        Examples
        --------
        >>> IndexTransform(input_shape=[4]).to_json()
        {'input_exclusive_max': [4], 'input_inclusive_min': [0]}
        """
        return self._view.json(alone=False)

    def __repr__(self) -> str:
        return str(self._view)
