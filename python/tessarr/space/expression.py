"""Dimension expressions: which dimensions, and what is done with them, as a value.

``d["x", "y"].translate_to[0].label["u", "v"]`` is a value that is applied to any view by brackets.
A selection names dimensions by number (counted from the end where negative), by label, or by
a slice of numbers; each act goes on with the dimensions that came of the act before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeVar

from tessarr.errors import SelectionError
from tessarr.space.brackets import Key, Mode, brackets, parsed
from tessarr.space.domain import Box
from tessarr.space.maps import Step
from tessarr.space.names import chosen, numbers, place
from tessarr.space.steps import (
    Act,
    Selected,
    backward,
    diagonal,
    forward,
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


class _Operation(NamedTuple):
    """One act of an expression: its name, and what stood in its brackets."""

    name: str
    value: Any

    def apply(
        self, dims: Box, selected: Selected, names: tuple[Any, ...], initial: bool
    ) -> tuple[Step, Selected]:
        if self.name in _INDEXING:
            if initial:
                selected = _with_new(names, self.value.terms, dims)
            mode = _INDEXING[self.name]
            return brackets(dims, selected, self.value, mode, may_add=initial)
        act = _ACTS[self.name](self.value)
        return act(dims, chosen(names, dims) if initial else selected)

    def __str__(self) -> str:
        if self.value is None and self.name in _BARE:
            return f".{self.name}"
        name = f".{self.name}" if self.name else ""
        return f"{name}[{_text(self.value)}]"


_INDEXING: Final[dict[str, Mode]] = {"": "default", "oindex": "oindex", "vindex": "vindex"}

_BARE: Final = {"diagonal"}

_ACTS: Final[dict[str, Callable[[Any], Act]]] = {
    "translate_to": lambda value: translate(value, to_origin),
    "translate_by": lambda value: translate(value, forward),
    "translate_backward_by": lambda value: translate(value, backward),
    "label": label,
    "stride": stride,
    "transpose": transpose,
    "mark_bounds_implicit": lambda value: mark_bounds_implicit(*implicit_flags(value)),
    "diagonal": lambda _: diagonal,
}


def _text(value: Any) -> str:
    if isinstance(value, Key):
        return str(value)
    if isinstance(value, tuple):
        return ",".join(map(_text, value)) if value else "()"
    if isinstance(value, slice):
        parts = ["" if part is None else str(part) for part in (value.start, value.stop)]
        return ":".join(parts if value.step is None else [*parts, str(value.step)])
    return repr(value)


class DimExpression:
    """A selection of dimensions and acts upon them, to be applied by brackets.

    Examples
    --------
    >>> from tessarr.space.view import IndexDomain
    >>> IndexDomain(shape=[3, 4], labels=["x", "y"])[d["y"].translate_to[10].label["z"]]
    { "x": [0, 3), "z": [10, 14) }
    """

    __slots__ = ("_acts", "_names")

    _names: tuple[Any, ...]
    _acts: tuple[_Operation, ...]

    def __init__(self, names: tuple[Any, ...], acts: tuple[_Operation, ...] = ()) -> None:
        self._names = names
        self._acts = acts

    def apply_to(self, view: View) -> View:
        """Return the view after all acts."""
        selected: Selected = []
        for number, act in enumerate(self._acts):
            step, selected = act.apply(view._dims(), selected, self._names, number == 0)
            view = view._under(step)
        return view

    def _then(self, name: str, value: Any) -> DimExpression:
        return DimExpression(self._names, (*self._acts, _Operation(name, value)))

    def _bracket(self, name: str, read: Callable[[Any], Any]) -> Bracket[DimExpression]:
        return Bracket(lambda key: self._then(name, read(key)), self, name)

    def __getitem__(self, key: Any) -> DimExpression:
        return self._then("", parsed(key))

    @property
    def oindex(self) -> Bracket[DimExpression]:
        """Index the dimensions by arrays of which each is for itself."""
        return self._bracket("oindex", parsed)

    @property
    def vindex(self) -> Bracket[DimExpression]:
        """Index the dimensions by arrays that are taken together."""
        return self._bracket("vindex", parsed)

    @property
    def label(self) -> Bracket[DimExpression]:
        """Give the dimensions labels."""
        return self._bracket("label", _labels)

    @property
    def translate_to(self) -> Bracket[DimExpression]:
        """Move the dimensions to an origin."""
        return self._bracket("translate_to", _integers)

    @property
    def translate_by(self) -> Bracket[DimExpression]:
        """Move the dimensions by so much."""
        return self._bracket("translate_by", _integers)

    @property
    def translate_backward_by(self) -> Bracket[DimExpression]:
        """Move the dimensions back by so much."""
        return self._bracket("translate_backward_by", _integers)

    @property
    def stride(self) -> Bracket[DimExpression]:
        """Keep the multiples of a stride."""
        return self._bracket("stride", _integers)

    @property
    def transpose(self) -> Bracket[DimExpression]:
        """Move the dimensions to other places."""
        return self._bracket("transpose", _places)

    @property
    def mark_bounds_implicit(self) -> Bracket[DimExpression]:
        """Say whether bounds are implicit."""
        return self._bracket("mark_bounds_implicit", _flags)

    @property
    def diagonal(self) -> DimExpression:
        """Walk the dimensions together, as one that stands first."""
        return self._then("diagonal", None)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DimExpression):
            return NotImplemented
        return (self._names, self._acts) == (other._names, other._acts)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"d[{_text(self._names)}]{''.join(map(str, self._acts))}"


class DimSelection(DimExpression):
    """Which dimensions: ``d[0, "x", 2:]``, of which acts follow.

    Examples
    --------
    >>> d[0, ["x", d[2:]]]
    d[0,'x',2:]
    """

    __slots__ = ()

    @property
    def named(self) -> tuple[Any, ...]:
        """What was named: numbers, labels and slices of numbers."""
        return self._names


class _Dimensions:
    """What `d` is: brackets with names of dimensions begin an expression."""

    __slots__ = ()

    def __getitem__(self, selection: Any) -> DimSelection:
        return DimSelection(tuple(_items(selection)))

    def __iter__(self) -> Any:
        raise TypeError("give brackets")

    def __repr__(self) -> str:
        return "d"

    def __reduce__(self) -> str:
        return "d"


def _items(selection: Any) -> list[Any]:
    """Return what names dimensions, each for itself.

    Raises
    ------
    TypeError
        If something does not name dimensions.
    """
    if isinstance(selection, DimSelection):
        return list(selection.named)
    if isinstance(selection, str):
        return [selection]
    if hasattr(selection, "__index__"):
        return [int(selection.__index__())]
    if isinstance(selection, slice):
        ends = (selection.start, selection.stop, selection.step)
        return [slice(*(None if end is None else _integer(end) for end in ends))]
    if isinstance(selection, DimExpression) or not isinstance(selection, Iterable):
        raise TypeError(f"{selection!r} does not name dimensions")
    if isinstance(selection, (bytes, bytearray)):
        raise TypeError(f"labels are strings: not {selection!r}")
    return [item for part in selection for item in _items(part)]


def _integer(value: Any) -> int:
    try:
        return int(value.__index__())
    except AttributeError:
        raise TypeError(f"{value!r} is not an integer") from None


def _integers(key: Any) -> Any:
    if key is None or hasattr(key, "__index__"):
        return None if key is None else _integer(key)
    if isinstance(key, str) or not isinstance(key, Iterable):
        raise TypeError(f"give an integer, or one for each dimension: not {key!r}")
    return tuple(None if item is None else _integer(item) for item in key)


def _labels(key: Any) -> Any:
    items = (key,) if isinstance(key, str) else key
    if not isinstance(items, Iterable) or not all(isinstance(item, str) for item in items):
        raise TypeError(f"labels are strings: not {key!r}")
    return key if isinstance(key, str) else tuple(items)


def _places(key: Any) -> Any:
    items = tuple(_items(key))
    return items[0] if len(items) == 1 and not isinstance(key, (list, tuple)) else items


def _flags(key: Any) -> Any:
    lower, upper = implicit_flags(key)
    return slice(lower, upper) if isinstance(key, slice) or lower is None else lower


def _with_new(names: Any, parts: tuple[Any, ...], dims: Box) -> Selected:
    """Return the numbers of a selection, of which some are yet to be added by ``newaxis``."""
    if not any(part is None for part in parts):
        return chosen(names, dims)
    return _numbered(names, parts, dims)


def _numbered(names: Any, parts: tuple[Any, ...], dims: Box) -> Selected:
    items = [one for item in names for one in _single(item)]
    terms = _one_each(parts, len(items))
    rank = len(dims) + terms.count(None)
    if any(term is None and isinstance(item, str) for item, term in zip(items, terms, strict=True)):
        raise SelectionError("a new dimension is named by its number: it has no label yet")
    places = [None if isinstance(item, str) else place(item, rank) for item in items]
    new = [k for k, term in zip(places, terms, strict=True) if term is None]
    old = [k for k in range(rank) if k not in new]
    found = [
        old[numbers(item, dims)[0]] if k is None else k
        for item, k in zip(items, places, strict=True)
    ]
    shared = sorted({k for k in found if found.count(k) > 1})
    if shared:
        raise SelectionError(f"dimension {shared[0]} is named more than once")
    return found


def _single(item: Any) -> list[Any]:
    """Return the numbers that a slice stands for.

    How many dimensions there will be is not known yet: both ends have to be counted from the same
    side.
    """
    if not isinstance(item, slice):
        return [item]
    by = 1 if item.step is None else item.step
    start, stop = item.start, item.stop
    if start is None and stop is not None:
        start = 0 if by > 0 else -1
    elif stop is None and start is not None and (start < 0) == (by > 0):
        stop = 0 if by > 0 else -1
        return list(range(start, stop, by))
    if start is None or stop is None or (start < 0) != (stop < 0):
        raise SelectionError(f"{_text(item)} does not tell how many new dimensions there are")
    return list(range(start, stop, by))


def _one_each(parts: tuple[Any, ...], count: int) -> list[Any]:
    """Return a term for each of the dimensions that are named."""
    if len(parts) == 1 and parts[0] is None:
        return [None] * count
    terms = [None if part is None else ... for part in parts]
    missing = count - sum(1 for part in parts if part is not Ellipsis)
    at = next((k for k, part in enumerate(parts) if part is Ellipsis), None)
    if missing < 0 or (missing and at is None):
        raise SelectionError(f"the index has {len(parts)} terms, the selection {count} dimensions")
    return terms if at is None else [*terms[:at], *[...] * missing, *terms[at + 1 :]]


d = _Dimensions()
"""Begins a dimension expression: ``d["x"]``, ``d[0, -1]``, ``d[:2]``."""
