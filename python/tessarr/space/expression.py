"""Dimension expressions: which dimensions, and what is done with them, as a value.

``d["x", "y"].translate_to[0].label["u", "v"]`` is a value that is applied to any view by brackets.
A selection names dimensions by number (counted from the end where negative), by label, or by
a slice of numbers; each act goes on with the dimensions that came of the act before.
"""

from __future__ import annotations

from typing import Any, TypeVar

from tessarr.errors import SelectionError
from tessarr.space.brackets import Mode, brackets
from tessarr.space.domain import Box
from tessarr.space.maps import Step
from tessarr.space.names import chosen, numbers, place
from tessarr.space.steps import (
    Act,
    Selected,
    diagonal,
    label,
    mark_bounds_implicit,
    stride,
    to_origin,
    translate,
    transpose,
)
from tessarr.space.view import Bracket, Indexable, implicit_flags

View = TypeVar("View", bound=Indexable)

__all__ = ["DimExpression", "DimSelection", "d"]


class DimExpression:
    """A selection of dimensions and acts upon them, to be applied by brackets.

    Examples
    --------
    >>> from tessarr.space.view import IndexDomain
    >>> IndexDomain(shape=[3, 4], labels=["x", "y"])[d["y"].translate_to[10].label["z"]]
    { "x": [0, 3), "z": [10, 14) }
    """

    __slots__ = ("_acts", "_before", "_text")

    def __init__(self, before: Any, acts: tuple[Any, ...] = (), text: str = "") -> None:
        self._before = before
        self._acts = acts
        self._text = text

    def apply_to(self, view: View) -> View:
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

    __slots__ = ("named",)

    def __init__(self, items: tuple[Any, ...]) -> None:
        super().__init__(items)
        self.named = items

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DimSelection) and self.named == other.named

    def __hash__(self) -> int:
        return hash(self.named)


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
        flat += item.named if isinstance(item, DimSelection) else [item]
    return flat


def _with_new(names: Any, key: Any, dims: Box) -> Selected:
    """Return the numbers of a selection, of which some are yet to be added by ``newaxis``."""
    parts = key if isinstance(key, tuple) else (key,)
    if not any(part is None for part in parts):
        return chosen(names, dims)
    return _numbered(names, parts, dims)


def _numbered(names: Any, parts: tuple[Any, ...], dims: Box) -> Selected:
    items = _items(names)
    single = len(parts) == 1
    added = len(items) if single else sum(1 for part in parts if part is None)
    rank = len(dims) + added
    places = [None if isinstance(item, str) else place(item, rank) for item in items]
    new = [
        k
        for k, part in zip(places, parts * len(items) if single else parts, strict=False)
        if part is None
    ]
    old = [k for k in range(rank) if k not in new]
    found = [
        old[numbers(item, dims)[0]] if k is None else k
        for item, k in zip(items, places, strict=True)
    ]
    shared = sorted({k for k in found if found.count(k) > 1})
    if shared:
        raise SelectionError(f"dimension {shared[0]} is named more than once")
    return found


d = _Dimensions()
"""Begins a dimension expression: ``d["x"]``, ``d[0, -1]``, ``d[:2]``."""
