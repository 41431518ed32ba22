"""Dimension expressions: which dimensions, and what is done with them, as a value.

``d["x", "y"].translate_to[0].label["u", "v"]`` is a value that is applied to any view by brackets.
A selection names dimensions by number (counted from the end where negative), by label, or by
a slice of numbers; each act goes on with the dimensions that came of the act before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from tessarr.errors import SelectionError
from tessarr.indexing.brackets import Mode, brackets
from tessarr.indexing.domain import Box
from tessarr.indexing.maps import Step
from tessarr.indexing.space import Bracket, Indexable, implicit_flags
from tessarr.indexing.steps import (
    Act,
    Selected,
    diagonal,
    label,
    mark_bounds_implicit,
    place,
    stride,
    to_origin,
    translate,
    transpose,
)

View = TypeVar("View", bound=Indexable)

__all__ = ["DimExpression", "DimSelection", "chosen", "d"]


def chosen(selection: Any, dims: Box) -> Selected:
    """Return the numbers of the dimensions that a selection names.

    Raises
    ------
    SelectionError
        If there is no such dimension, or one is named twice.
    """
    found = list(_numbers(selection, dims))
    twice = sorted({k for k in found if found.count(k) > 1})
    if twice:
        raise SelectionError(f"dimension {twice[0]} is named more than once")
    return found


def _numbers(selection: Any, dims: Box) -> list[int]:
    if isinstance(selection, DimSelection):
        return _numbers(selection.items, dims)
    if isinstance(selection, str):
        labels = [dim.label for dim in dims]
        if not selection or selection not in labels:
            known = ", ".join(repr(name) for name in labels)
            raise SelectionError(f"no dimension has the label {selection!r}; there are {known}")
        return [labels.index(selection)]
    if isinstance(selection, slice):
        start, stop, by = _range(selection, len(dims))
        return list(range(start, stop, by))
    if hasattr(selection, "__index__"):
        return [place(selection, len(dims))]
    if not isinstance(selection, Sequence):
        raise TypeError(f"{selection!r} does not name dimensions")
    return [k for item in selection for k in _numbers(item, dims)]


def _range(selection: slice, rank: int) -> tuple[int, int, int]:
    by = 1 if selection.step is None else int(selection.step.__index__())
    if by == 0:
        raise SelectionError("a step of 0")
    ends = []
    for end, otherwise in (
        (selection.start, 0 if by > 0 else rank - 1),
        (selection.stop, rank if by > 0 else -1),
    ):
        if end is None:
            ends.append(otherwise)
            continue
        if isinstance(end, str):
            raise TypeError(f"a range of dimensions is made of numbers, not {end!r}")
        value = int(end.__index__())
        if not -rank <= value <= rank:
            raise SelectionError(f"dimensions {selection} of {rank}")
        ends.append(value if value >= 0 else value + rank)
    return ends[0], ends[1], by


class DimExpression:
    """A selection of dimensions and acts upon them, to be applied by brackets.

    Examples
    --------
    >>> from tessarr.indexing.space import IndexDomain
    >>> IndexDomain(shape=[3, 4], labels=["x", "y"])[d["y"].translate_to[10].label["z"]]
    { "x": [0, 3), "z": [10, 14) }
    """

    __slots__ = ("_acts", "_before", "_text")

    def __init__(self, before: Any, acts: tuple[Any, ...] = (), text: str = "") -> None:
        self._before = before
        self._acts = acts
        self._text = text

    def apply(self, view: View) -> View:
        """Return the view after all acts."""
        selected: Selected = []
        for number, act in enumerate(self._acts):
            step, selected = act(view._dims(), selected, self._before, number == 0)
            view = view._under(step)
        return view

    def _then(self, act: Act, text: str) -> DimExpression:
        def apply(
            dims: Box, selected: Selected, names: Any, initial: bool
        ) -> tuple[Step, Selected]:
            return act(dims, chosen(names, dims) if initial else selected)

        return DimExpression(self._before, (*self._acts, apply), self._text + text)

    def _indexed(self, key: Any, mode: Mode, text: str) -> DimExpression:
        def apply(
            dims: Box, selected: Selected, names: Any, initial: bool
        ) -> tuple[Step, Selected]:
            if initial:
                selected = _with_new(names, key, dims)
            return brackets(dims, selected, key, mode, may_add=initial)

        return DimExpression(self._before, (*self._acts, apply), self._text + text)

    def __getitem__(self, key: Any) -> DimExpression:
        return self._indexed(key, "default", f"[{key!r}]")

    @property
    def oindex(self) -> Bracket[DimExpression]:
        """Index the dimensions by arrays of which each is for itself."""
        return Bracket(lambda key: self._indexed(key, "oindex", f".oindex[{key!r}]"))

    @property
    def vindex(self) -> Bracket[DimExpression]:
        """Index the dimensions by arrays that are taken together."""
        return Bracket(lambda key: self._indexed(key, "vindex", f".vindex[{key!r}]"))

    @property
    def label(self) -> Bracket[DimExpression]:
        """Give the dimensions labels."""
        return Bracket(lambda key: self._then(label(key), f".label[{key!r}]"))

    @property
    def translate_to(self) -> Bracket[DimExpression]:
        """Move the dimensions to an origin."""
        return Bracket(lambda key: self._then(translate(key, to_origin), f".translate_to[{key!r}]"))

    @property
    def translate_by(self) -> Bracket[DimExpression]:
        """Move the dimensions by so much."""
        return Bracket(
            lambda key: self._then(translate(key, lambda _, by: by), f".translate_by[{key!r}]")
        )

    @property
    def translate_backward_by(self) -> Bracket[DimExpression]:
        """Move the dimensions back by so much."""
        text = ".translate_backward_by"
        return Bracket(
            lambda key: self._then(translate(key, lambda _, by: -by), f"{text}[{key!r}]")
        )

    @property
    def stride(self) -> Bracket[DimExpression]:
        """Keep the multiples of a stride."""
        return Bracket(lambda key: self._then(stride(key), f".stride[{key!r}]"))

    @property
    def transpose(self) -> Bracket[DimExpression]:
        """Move the dimensions to other places."""
        return Bracket(lambda key: self._then(transpose(key), f".transpose[{key!r}]"))

    @property
    def mark_bounds_implicit(self) -> Bracket[DimExpression]:
        """Say whether bounds are implicit."""
        text = ".mark_bounds_implicit"
        return Bracket(
            lambda key: self._then(mark_bounds_implicit(*implicit_flags(key)), f"{text}[{key!r}]")
        )

    @property
    def diagonal(self) -> DimExpression:
        """Walk the dimensions together, as one that stands first."""
        return self._then(diagonal, ".diagonal")

    def __repr__(self) -> str:
        return f"d[{', '.join(map(repr, _items(self._before)))}]{self._text}"


class DimSelection(DimExpression):
    """Which dimensions: ``d[0, "x", 2:]``, of which acts follow."""

    __slots__ = ("items",)

    def __init__(self, items: tuple[Any, ...]) -> None:
        super().__init__(items)
        self.items = items

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DimSelection) and self.items == other.items

    def __hash__(self) -> int:
        return hash(self.items)


class _Dimensions:
    """What `d` is: brackets with names of dimensions begin an expression."""

    __slots__ = ()

    def __getitem__(self, selection: Any) -> DimSelection:
        return DimSelection(tuple(_items(selection)))

    def __repr__(self) -> str:
        return "d"


def _items(selection: Any) -> list[Any]:
    items = selection if isinstance(selection, (tuple, list)) else [selection]
    flat: list[Any] = []
    for item in items:
        flat += item.items if isinstance(item, DimSelection) else [item]
    return flat


def _with_new(names: Any, key: Any, dims: Box) -> Selected:
    """Number the dimensions of a selection of which some are yet to be added by ``newaxis``."""
    parts = key if isinstance(key, tuple) else (key,)
    if not any(part is None for part in parts):
        return chosen(names, dims)
    return _numbered(names, parts, dims)


def _numbered(names: Any, parts: tuple[Any, ...], dims: Box) -> Selected:
    items = _items(names)
    single = len(parts) == 1
    added = len(items) if single else sum(1 for part in parts if part is None)
    rank = len(dims) + added
    numbers = [None if isinstance(item, str) else place(item, rank) for item in items]
    new = [
        k
        for k, part in zip(numbers, parts * len(items) if single else parts, strict=False)
        if part is None
    ]
    old = [k for k in range(rank) if k not in new]
    found = [
        old[_numbers(item, dims)[0]] if k is None else k
        for item, k in zip(items, numbers, strict=True)
    ]
    shared = sorted({k for k in found if found.count(k) > 1})
    if shared:
        raise SelectionError(f"dimension {shared[0]} is named more than once")
    return found


d = _Dimensions()
"""Begins a dimension expression: ``d["x"]``, ``d[0, -1]``, ``d[:2]``."""
