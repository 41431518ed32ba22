"""A view: `IndexTransform`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tessarr._engine import View
from tessarr._safe_repr import safe_repr
from tessarr.errors import ArgumentError
from tessarr.index_space.index_domain import IndexDomain, Placed, view_from_arguments
from tessarr.index_space.indexable import Indexable, add_status_code, check_plain_brackets
from tessarr.index_space.output_index_map import MapState, OutputIndexMap, OutputIndexMaps
from tessarr.indexing.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import EllipsisType

    from tessarr.index_space.indexing_terms import Mode
    from tessarr.index_space.intervals import Dim
    from tessarr.types import JSONObject, Shape

__all__ = ["IndexTransform", "lower"]


class IndexTransform(Placed, Indexable):
    """A view: a domain of positions, and an index of the base for each position.

    Parameters
    ----------
    input_rank : int, IndexDomain or sequence of Dim, optional
        The number of dimensions, or the domain.
    output : sequence of OutputIndexMap, optional
        A map for each dimension of the base; by default the identity.
    domain : IndexDomain or sequence of Dim, optional
        The positions.
    input_inclusive_min, input_exclusive_max, input_inclusive_max, input_shape, input_labels
        The parts of the domain, as for `IndexDomain`.
    implicit_lower_bounds, implicit_upper_bounds : sequence of bool, optional
        Flags of implicit bounds; by default missing bounds are implicit.
    json : dict, optional
        The transform as JSON.

    Raises
    ------
    TypeError
        If an argument has a wrong type, or several arguments describe the whole transform.
    ArgumentError
        If the arguments do not describe a transform.

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
        view = view_from_arguments(View.from_json, parts, domain, json)
        if json is not ... and output is not None:
            raise TypeError("the JSON of a transform has its maps: give no others")
        super().__init__(view.with_maps(_map_states(output)) if json is ... else view)

    @classmethod
    def _of(cls, domain: IndexDomain, output: Iterable[OutputIndexMap]) -> IndexTransform:
        """Return the transform of a domain and a map for each dimension of the base."""
        return cls._of_view(domain._as_view().with_maps(_map_states(output)))

    @classmethod
    def _whole(cls, domain: IndexDomain) -> IndexTransform:
        """Return the identity transform of a domain."""
        return cls._of_view(domain._as_view().with_maps())

    def _with_view(self, view: View) -> IndexTransform:
        return IndexTransform._of_view(view)

    def _apply_to(self, view: View, mode: Mode = "default") -> View:
        """Return the composition of a view and this transform."""
        check_plain_brackets(mode, self)
        return view.compose(self._view)

    @property
    def _is_identity(self) -> bool:
        """Whether the transform is the identity."""
        return self._view.is_identity

    def _linear_maps(self, *, alone: bool = False) -> list[tuple[int, int, int]]:
        """Return for each map its input dimension (or -1), its offset and its stride.

        Parameters
        ----------
        alone
            Whether to omit a dimension that several maps use.

        Examples
        --------
        >>> IndexTransform(2)[5, 1::3]._linear_maps()
        [(-1, 5, 0), (0, 1, 3)]
        """
        return self._view.linear_maps(alone)

    def _with_base_bounds(self, domain: IndexDomain) -> IndexTransform:
        """Return the view with its implicit bounds moved to those of the base.

        Raises
        ------
        SelectionError
            If an explicit bound of the view is outside an explicit bound of the base.
        """
        return self._with_view(self._view.resolve_bounds(domain._as_view()))

    def _simplify(self) -> IndexTransform:
        """Return the view with constants in place of index arrays of one item."""
        return self._with_view(self._view.simplify())

    @property
    def _has_implicit_bounds(self) -> bool:
        """Whether a bound is implicit, so that it depends on the base."""
        return self._view.has_implicit_bounds

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IndexTransform):
            return NotImplemented
        return self._view == other._view

    __hash__ = None  # type: ignore[assignment]

    def __call__(self, indices: Any) -> tuple[int, ...]:
        """Return the index of the base at a position.

        Raises
        ------
        ArgumentError, SelectionError
            If the position has the wrong number of indices, or is outside the domain.
        """
        if isinstance(indices, IndexTransform):
            raise TypeError("give a position; transforms are composed by brackets")
        try:
            return self._view.position(indices)
        except ArgumentError as error:
            raise add_status_code(error, ArgumentError) from error.__cause__

    @property
    def output_rank(self) -> int:
        """The number of dimensions of the base.

        Examples
        --------
        >>> view = IndexTransform(2)[5]
        >>> view.input_rank, view.output_rank
        (1, 2)
        """
        return self._view.output_rank

    @property
    def domain(self) -> IndexDomain:
        """The positions.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.IndexTransform(input_shape=[8])[2:5].domain
        { [2, 5) }
        """
        return IndexDomain._of_view(self._view.domain())

    @property
    def output(self) -> OutputIndexMaps:
        """The output index map of each dimension of the base.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.IndexTransform(2)[5, 0::3].output
        [OutputIndexMap(offset=5), OutputIndexMap(offset=0, stride=3, input_dimension=0)]
        """
        return OutputIndexMaps([OutputIndexMap._of(*state) for state in self._view.maps()])

    input_rank = Placed.rank
    input_origin = input_inclusive_min = Placed.origin
    input_inclusive_max = Placed._inclusive_max
    input_exclusive_max = Placed._exclusive_max
    input_shape = Placed.shape
    input_labels = Placed._labels

    def to_json(self) -> JSONObject:
        """Return the transform as JSON; identity maps are omitted.

        Examples
        --------
        >>> IndexTransform(input_shape=[4]).to_json()
        {'input_exclusive_max': [4], 'input_inclusive_min': [0]}
        """
        return self._view.to_json(domain_only=False)

    def __repr__(self) -> str:
        return str(self._view)


def lower(view: IndexTransform, shape: Shape) -> Selection:
    """Return the selection of the engine for a view of an array.

    Parameters
    ----------
    view
        The view; its output dimensions are the axes of the array.
    shape
        The shape of the array; its indices start at 0.

    Raises
    ------
    SelectionError
        If a position is outside the array, or a bound of the view is infinite.

    Examples
    --------
    >>> from tessarr.index_space import IndexDomain, IndexTransform
    >>> view = IndexTransform(IndexDomain(shape=[8, 9]))[2:6:2, 5]
    >>> lowered = lower(view, (8, 9))
    >>> lowered.axes, lowered.buffer_shape
    (((2, 2, 2), (5, 1, 1)), (2,))
    """
    return Selection(*view._as_view().to_selection(shape))


def _map_states(output: Iterable[OutputIndexMap] | None) -> list[MapState] | None:
    if output is None:
        return None
    maps = [*output]
    for index_map in maps:
        if not isinstance(index_map, OutputIndexMap):
            raise TypeError(f"output: {safe_repr(index_map)} is not an OutputIndexMap")
    return [index_map._state for index_map in maps]
