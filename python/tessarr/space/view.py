"""Domains and transforms: values that are indexed like arrays, and hold none.

An `IndexDomain` is a box of positions, an `IndexTransform` a view: its domain, and where in what
is viewed each position is. `Indexable` gives both, and all that hold one, the same brackets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar

import numpy as np

from tessarr.errors import ArgumentError, SelectionError
from tessarr.space.basic import basic
from tessarr.space.bounds import propagated
from tessarr.space.brackets import Mode, brackets, parsed
from tessarr.space.domain import (
    INFINITE,
    MAX_RANK,
    Box,
    Dim,
    box_from_json,
    box_to_json,
    check_labels,
    size_of,
)
from tessarr.space.map_json import array_map, map_from_json, map_to_json
from tessarr.space.maps import (
    OutputIndexMap,
    OutputIndexMaps,
    OutputIndexMethod,
    Step,
    braces,
    compose,
    identity,
)
from tessarr.space.names import chosen, numbers, place_of
from tessarr.space.steps import (
    Act,
    backward,
    forward,
    label,
    mark_bounds_implicit,
    permute,
    restrict,
    to_origin,
    translate,
)

if TYPE_CHECKING:
    from tessarr.types import JSONObject

__all__ = ["IndexDomain", "IndexTransform", "Indexable"]

T_co = TypeVar("T_co", covariant=True)


class Bracket(Generic[T_co]):
    """Turns what stands in brackets into an act: ``view.translate_to[1, 2]``."""

    __slots__ = ("_act", "_name", "_owner")

    def __init__(self, act: Callable[[Any], T_co], owner: object = None, name: str = "") -> None:
        self._act = act
        self._owner = owner
        self._name = name

    def __getitem__(self, key: Any) -> T_co:
        return self._act(key)

    def __iter__(self) -> Iterator[T_co]:
        raise TypeError("give brackets")

    def __repr__(self) -> str:
        return f"{self._owner!r}.{self._name}"


class Indexable:
    """What is indexed by positions: views of it are made, no data is touched."""

    __slots__ = ()

    def _dims(self) -> Box:
        """Return the dimensions of the domain."""
        raise NotImplementedError

    def _under(self, step: Step) -> Self:
        """Return the view after an act of indexing."""
        raise NotImplementedError

    def _apply(self, act: Act) -> Self:
        dims = self._dims()
        return self._under(act(dims, list(range(len(dims))))[0])

    def _at(self, key: Any, mode: Mode) -> Self | None:
        """Return the view by a simple key, or None where it takes more than `basic`."""
        return None

    def _indexed(self, key: Any, mode: Mode) -> Self:
        simple = self._at(key, mode)
        if simple is not None:
            return simple
        apply_to = getattr(key, "apply_to", None)  # a dimension expression
        if apply_to is not None:
            made: Self = apply_to(self)
            return made
        if mode == "default" and isinstance(key, IndexDomain):
            return self._apply(lambda dims, _: _to_domain(dims, key))
        if mode == "default" and isinstance(key, IndexTransform):
            return self._under(_to_transform(self._dims(), key))
        return self._under(brackets(self._dims(), None, parsed(key), mode)[0])

    def __getitem__(self, key: Any) -> Self:
        return self._indexed(key, "default")

    @property
    def oindex(self) -> Bracket[Self]:
        """Index by arrays of which each is for itself: the outer product."""
        return Bracket(lambda key: self._indexed(key, "oindex"), self, "oindex")

    @property
    def vindex(self) -> Bracket[Self]:
        """Index by arrays that are taken together; their dimensions come first."""
        return Bracket(lambda key: self._indexed(key, "vindex"), self, "vindex")

    @property
    def label(self) -> Bracket[Self]:
        """Give the dimensions labels: ``view.label["x", "y"]``."""
        return Bracket(lambda key: self._apply(label(key)), self, "label")

    @property
    def translate_to(self) -> Bracket[Self]:
        """Move the domain so that it begins at a position."""
        return Bracket(lambda key: self._apply(translate(key, to_origin)), self, "translate_to")

    @property
    def translate_by(self) -> Bracket[Self]:
        """Move the domain by so much."""
        return Bracket(lambda key: self._apply(translate(key, forward)), self, "translate_by")

    @property
    def translate_backward_by(self) -> Bracket[Self]:
        """Move the domain back by so much."""
        return Bracket(
            lambda key: self._apply(translate(key, backward)), self, "translate_backward_by"
        )

    @property
    def mark_bounds_implicit(self) -> Bracket[Self]:
        """Say whether bounds are implicit: ``[True]``, or ``[lower:upper]``."""
        return Bracket(
            lambda key: self._apply(mark_bounds_implicit(*implicit_flags(key))),
            self,
            "mark_bounds_implicit",
        )

    def transpose(self, axes: Any = None) -> Self:
        """Put the dimensions in another order; by default the reverse one."""
        dims = self._dims()
        if axes is None:
            return self._under(permute(dims, range(len(dims))[::-1]))
        return self._under(permute(dims, chosen(axes, dims)))

    @property
    def T(self) -> Self:  # noqa: N802 (as NumPy calls it)
        """The view with its dimensions in reverse order."""
        return self.transpose()


def implicit_flags(key: Any) -> tuple[bool | None, bool | None]:
    """Return what is to be said of the lower and upper bounds.

    Raises
    ------
    SelectionError
        If there is a step.
    TypeError
        If it is neither None, a boolean nor a slice of these.
    """
    if isinstance(key, slice):
        if key.step is not None:
            raise SelectionError("mark_bounds_implicit takes [lower:upper]")
        return _flag(key.start), _flag(key.stop)
    return _flag(key), _flag(key)


def _flag(value: Any) -> bool | None:
    if value is None:
        return None
    if not isinstance(value, (bool, int, np.bool_)):
        raise TypeError(f"{value!r} is neither None nor a boolean")
    return bool(value)


def _to_domain(dims: Box, domain: IndexDomain) -> tuple[Step, list[int]]:
    wanted = domain.dims
    ours, theirs = ([dim.label for dim in box] for box in (dims, wanted))
    if len(wanted) != len(dims) and not (any(ours) and all(theirs)):
        raise SelectionError(
            f"a domain of rank {len(wanted)} for one of rank {len(dims)}: without labels "
            "they have to agree"
        )
    selected = list(range(len(dims)))
    if any(ours) and any(theirs):
        free = iter([k for k, name in enumerate(ours) if not name])
        selected = [place_of(name, ours) if name else next(free, -1) for name in theirs]
        if -1 in selected:
            raise SelectionError(f"{domain} has more dimensions without label than the view")
    step, selected = restrict(dims, selected, wanted)
    if not any(ours) and any(theirs):
        return label(theirs)(step.dims, selected)[0].after(step), selected
    return step, selected


def _to_transform(dims: Box, transform: IndexTransform) -> Step:
    if transform.output_rank != len(dims):
        raise SelectionError(
            f"a transform to rank {transform.output_rank} for a domain of rank {len(dims)}"
        )
    return propagated(dims, Step(transform.domain.dims, transform.output))


@dataclass(frozen=True, slots=True, init=False, repr=False)
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

    dims: Box

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
        object.__setattr__(
            self, "dims", _marked(found, implicit_lower_bounds, implicit_upper_bounds)
        )

    @classmethod
    def of(cls, dims: Box) -> Self:
        """Return the domain of dimensions that are known to be good."""
        made = object.__new__(cls)
        object.__setattr__(made, "dims", dims)
        return made

    def _dims(self) -> Box:
        return self.dims

    def _under(self, step: Step) -> Self:
        return self.of(step.dims)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, (IndexDomain, IndexTransform)) or hasattr(key, "apply_to"):
            return self._indexed(key, "default")
        if isinstance(key, str) or hasattr(key, "__index__"):
            return self.dims[chosen([key], self.dims)[0]]
        named = numbers(key, self.dims)
        if len(set(named)) < len(named):
            raise ArgumentError(f"{key!r} names a dimension of {self} more than once")
        return self.of(tuple(self.dims[k] for k in named))

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.dims)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.dims)

    @property
    def origin(self) -> tuple[int, ...]:
        """The least index of each dimension."""
        return tuple(dim.inclusive_min for dim in self.dims)

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
        return tuple(dim.size for dim in self.dims)

    @property
    def size(self) -> int:
        """The number of positions."""
        return size_of(self.dims)

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

    def __len__(self) -> int:
        return len(self.dims)

    def __iter__(self) -> Iterator[Dim]:
        return iter(self.dims)

    def __repr__(self) -> str:
        return f"{{ {', '.join(map(str, self.dims))} }}"


def _listed(values: Any) -> list[Any] | None:
    return None if values is None else list(values)


def _marked(dims: Box, lower: Any, upper: Any) -> Box:
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


_PARTS: Final = {
    *("input_rank", "input_inclusive_min", "input_exclusive_max", "input_inclusive_max"),
    *("input_shape", "input_labels", "implicit_lower_bounds", "implicit_upper_bounds"),
}


@dataclass(frozen=True, slots=True, init=False, repr=False)
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

    domain: IndexDomain
    output: OutputIndexMaps

    def __init__(
        self,
        domain: IndexDomain | int | None = None,
        output: Sequence[OutputIndexMap] | None = None,
        *,
        json: JSONObject | None = None,
        **parts: Any,
    ) -> None:
        if json is not None:
            found = _transform_from_json(json)
            domain, output = IndexDomain.of(found.dims), found.maps
        elif not isinstance(domain, IndexDomain):
            unknown = sorted(set(parts) - _PARTS)
            if unknown:
                raise TypeError(f"unknown keywords {unknown}")
            prefixed = {name.removeprefix("input_"): value for name, value in parts.items()}
            domain = IndexDomain(domain, **prefixed)
        elif parts:
            raise TypeError(f"unknown keywords {sorted(parts)}")
        maps = identity(domain.rank) if output is None else tuple(output)
        if len(maps) > MAX_RANK:
            raise ArgumentError(f"{len(maps)} maps, at most {MAX_RANK} are possible")
        checked = tuple(_checked_map(one, domain.dims) for one in maps)
        object.__setattr__(self, "domain", domain)
        object.__setattr__(self, "output", OutputIndexMaps(checked))

    @classmethod
    def of(cls, domain: IndexDomain, output: tuple[OutputIndexMap, ...]) -> Self:
        """Return the transform of parts that are known to be good."""
        made = object.__new__(cls)
        object.__setattr__(made, "domain", domain)
        object.__setattr__(made, "output", OutputIndexMaps(output))
        return made

    def _dims(self) -> Box:
        return self.domain.dims

    def _under(self, step: Step) -> Self:
        maps = compose(self.output, self.domain.dims, step)
        for one in maps:
            if one.index_array is not None:
                _check_explicit(one.index_array.shape, step.dims)
        return self.of(IndexDomain.of(step.dims), maps)

    def _at(self, key: Any, mode: Mode) -> Self | None:
        made = basic(self.domain.dims, self.output, key, mode)
        return None if made is None else self.of(IndexDomain.of(made[0]), made[1])

    def __call__(self, position: Any) -> tuple[int, ...]:
        """Return the index of what is viewed at a position.

        Raises
        ------
        ArgumentError, SelectionError
            If the position has not as many indices as the domain, or is outside of it.
        """
        if isinstance(position, IndexTransform):
            raise TypeError("give a position; transforms are composed by brackets")
        if len(position) != self.input_rank:
            raise ArgumentError(f"{len(position)} indices for {self.input_rank} dimensions")
        at = self[tuple(int(index.__index__()) for index in position)]
        return tuple(one.offset for one in at.output)

    @property
    def input_rank(self) -> int:
        """The number of dimensions of the view."""
        return self.domain.rank

    @property
    def output_rank(self) -> int:
        """The number of dimensions of what is viewed."""
        return len(self.output)

    rank = ndim = input_rank

    @property
    def origin(self) -> tuple[int, ...]:
        """The least index of each dimension."""
        return self.domain.origin

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
        return self.domain.shape

    input_shape = shape

    @property
    def size(self) -> int:
        """The number of positions."""
        return self.domain.size

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


def _check_explicit(shape: tuple[int, ...], dims: Box) -> None:
    for k, (size, dim) in enumerate(zip(shape, dims, strict=True)):
        if size != 1 and (dim.implicit_lower or dim.implicit_upper):
            raise SelectionError(
                f"dimension {k} runs along an index array, whose bounds cannot be implicit"
            )


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


def _transform_from_json(members: JSONObject) -> Step:
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
        return Step(dims, identity(len(dims)))
    if not isinstance(output, list):
        raise ArgumentError(f"output: {output!r} is not a list")
    maps = [map_from_json(value, dims, f"output[{k}]") for k, value in enumerate(output)]
    return Step(dims, tuple(maps))
