"""A view: `IndexTransform`."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final, Self

from tessarr._engine import View
from tessarr.errors import ArgumentError
from tessarr.space.box_json import box_from_json, box_to_json
from tessarr.space.domain import MAX_RANK, Box, Dim
from tessarr.space.index_domain import IndexDomain
from tessarr.space.indexable import Indexable, refuse
from tessarr.space.map_json import array_map, map_from_json, map_to_json
from tessarr.space.maps import (
    OutputIndexMap,
    OutputIndexMaps,
    OutputIndexMethod,
    braces,
    identity,
    maps_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tessarr.space.brackets import Mode
    from tessarr.types import JSONObject

__all__ = ["IndexTransform"]

_new: Final = object.__new__

_PARTS: Final = {
    *("input_rank", "input_inclusive_min", "input_exclusive_max", "input_inclusive_max"),
    *("input_shape", "input_labels", "implicit_lower_bounds", "implicit_upper_bounds"),
}


class IndexTransform(Indexable):
    """A view: the domain of its positions, and an index of what is viewed for each.

    Parameters
    ----------
    domain : IndexDomain, optional
        The positions; otherwise their parts, as for `IndexDomain`, with ``input_`` before.
    output : sequence of OutputIndexMap, optional
        A map per dimension of what is viewed; by default positions stay as they are.
    json : dict, optional
        All of it as JSON.

    Examples
    --------
    >>> view = IndexTransform(IndexDomain(shape=[10, 4]))[1::3, [0, 2]]
    >>> view.domain, view([1, 1])
    ({ [0, 3), [0, 2) }, (4, 2))
    """

    __slots__ = ("_domain", "_output", "_view")

    _view: View | None
    _domain: IndexDomain | None
    _output: OutputIndexMaps | None

    def __init__(
        self,
        domain: IndexDomain | int | None = None,
        output: Sequence[OutputIndexMap] | None = None,
        *,
        json: JSONObject | None = None,
        **parts: Any,
    ) -> None:
        if json is not None:
            dims, output = _from_json(json)
            domain = IndexDomain.of(dims)
        elif not isinstance(domain, IndexDomain):
            unknown = sorted(set(parts) - _PARTS)
            if unknown:
                raise TypeError(f"unknown keywords {unknown}")
            prefixed = {name.removeprefix("input_"): value for name, value in parts.items()}
            domain = IndexDomain(domain, **prefixed)
        elif parts:
            raise TypeError(f"unknown keywords {sorted(parts)}")
        maps = tuple(identity(len(domain.dims)) if output is None else output)
        if len(maps) > MAX_RANK:
            raise ArgumentError(f"{len(maps)} maps, at most {MAX_RANK} are possible")
        if output is not None:
            maps = tuple([_checked_map(one, domain.dims) for one in maps])
        self._view = None
        self._domain = domain
        self._output = OutputIndexMaps(maps)

    @classmethod
    def of(cls, domain: IndexDomain, output: tuple[OutputIndexMap, ...]) -> Self:
        """Return the transform of parts that are known to be good."""
        made = _new(cls)
        made._view = None
        made._domain = domain
        made._output = OutputIndexMaps(output)
        return made

    @classmethod
    def of_view(cls, view: View) -> Self:
        """Return the transform that the engine has."""
        made = _new(cls)
        made._view = view
        made._domain = made._output = None
        return made

    def _as_view(self) -> View:
        if self._view is None:
            self._view = View(self.domain.dims, self.output)
        return self._view

    def _after(self, view: View) -> Self:
        return self.of_view(view)

    def apply_to(self, view: View, mode: Mode = "default") -> View:
        """Return a view of a view."""
        refuse(mode, self)
        return view.viewed(self._as_view())

    @property
    def domain(self) -> IndexDomain:
        """The positions."""
        if self._domain is None:
            self._domain = IndexDomain.of_view(self._as_view().domain())
        return self._domain

    @property
    def output(self) -> OutputIndexMaps:
        """A map for each dimension of what is viewed."""
        if self._output is None:
            self._output = OutputIndexMaps(maps_of(self._as_view()))
        return self._output

    def settled(self, domain: IndexDomain) -> Self:
        """Return the view with its implicit bounds where those of what it views are.

        Raises
        ------
        SelectionError
            If an explicit bound of the view is beyond an explicit one of what it views.
        """
        return self.of_view(self._as_view().settled(domain._as_view()))

    @property
    def follows(self) -> bool:
        """Whether a bound is implicit, and so follows what is viewed."""
        return self._as_view().follows

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IndexTransform):
            return NotImplemented
        return self._as_view() == other._as_view()

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> Any:
        return type(self).of, (self.domain, tuple(self.output))

    def __call__(self, indices: Any) -> tuple[int, ...]:
        """Return the index of what is viewed at a position.

        Raises
        ------
        ArgumentError, SelectionError
            If the position has not as many indices as the domain, or is outside of it.
        """
        if isinstance(indices, IndexTransform):
            raise TypeError("give a position; transforms are composed by brackets")
        if len(indices) != self.input_rank:
            raise ArgumentError(f"{len(indices)} indices for {self.input_rank} dimensions")
        at = self[tuple([int(index.__index__()) for index in indices])]
        return tuple([offset for offset, *_ in at._as_view().maps()])

    @property
    def input_rank(self) -> int:
        """The number of dimensions of the view."""
        return self._as_view().rank

    @property
    def output_rank(self) -> int:
        """The number of dimensions of what is viewed."""
        return len(self.output)

    rank = ndim = input_rank

    @property
    def origin(self) -> tuple[int, ...]:
        """The least index of each dimension."""
        return self._as_view().origin

    input_origin = input_inclusive_min = origin

    @property
    def input_inclusive_max(self) -> tuple[int, ...]:
        """The greatest index of each dimension."""
        return self.domain.inclusive_max

    @property
    def input_exclusive_max(self) -> tuple[int, ...]:
        """One more than the greatest index of each dimension."""
        return self.domain.exclusive_max

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of indices of each dimension."""
        return self._as_view().shape

    input_shape = shape

    @property
    def size(self) -> int:
        """The number of positions."""
        return prod(self.shape)

    @property
    def input_labels(self) -> tuple[str, ...]:
        """The label of each dimension."""
        return self.domain.labels

    @property
    def implicit_lower_bounds(self) -> tuple[bool, ...]:
        """Whether the lower bound of each dimension is implicit."""
        return self.domain.implicit_lower_bounds

    @property
    def implicit_upper_bounds(self) -> tuple[bool, ...]:
        """Whether the upper bound of each dimension is implicit."""
        return self.domain.implicit_upper_bounds

    def to_json(self) -> JSONObject:
        """Return the transform as JSON; maps that leave positions as they are are left out."""
        result = box_to_json(self.domain.dims, "input_")
        if self.output != identity(self.input_rank):
            result["output"] = [map_to_json(one) for one in self.output]
        return result

    def __repr__(self) -> str:
        lines = [f"Rank {self.input_rank} -> {self.output_rank} index space transform:"]
        lines.append("  Input domain:")
        for k, dim in enumerate(self.domain.dims):
            name = f' "{dim.label}"' if dim.label else ""
            lines.append(f"    {k}: {dim.labelled('')}{name}")
        lines.append("  Output index maps:")
        lines += [f"    out[{k}] = {_map_text(one)}" for k, one in enumerate(self.output)]
        return "\n".join(lines) + "\n"


def _map_text(one: OutputIndexMap) -> str:
    if one.method is OutputIndexMethod.constant:
        return str(one.offset)
    start = f"{one.offset} + {one.factor} * "
    if one.index_array is None:
        return f"{start}in[{one.input_dimension}]"
    within = Dim.of(*one.within)
    return f"{start}bounded({within}, array(in)), where array =\n      {braces(one.index_array)}"


def _checked_map(one: OutputIndexMap, dims: Box) -> OutputIndexMap:
    if one.index_array is not None:
        return array_map(one.index_array, dims, one.offset, one.factor, one.within)
    if one.input_dimension is not None:
        k = one.input_dimension
        if not 0 <= k < len(dims):
            raise ArgumentError(f"dimension {k} of {len(dims)}")
        if one.factor == 0:
            return OutputIndexMap.constant(one.offset)
    return one


def _from_json(members: JSONObject) -> tuple[Box, Sequence[OutputIndexMap]]:
    if not isinstance(members, dict):
        raise ArgumentError(f"{members!r} is not an object")
    known = ("rank", "inclusive_min", "exclusive_max", "inclusive_max", "shape", "labels")
    unknown = set(members) - {f"input_{name}" for name in known} - {"output"}
    if unknown:
        raise ArgumentError(f"unknown members {sorted(map(str, unknown))}")
    dims = box_from_json(members, "input_")
    output = members.get("output")
    if dims is None:
        raise ArgumentError("the rank of the transform is not given")
    if output is None:
        return dims, identity(len(dims))
    if not isinstance(output, list):
        raise ArgumentError(f"output: {output!r} is not a list")
    maps = [map_from_json(value, dims, f"output[{k}]") for k, value in enumerate(output)]
    return dims, maps
