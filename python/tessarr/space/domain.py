"""Where indices may be: intervals of the integers, with labels, and boxes made of them.

The words, the rules and the forms in JSON are TensorStore's (index space). An index is an integer
of any sign: there is no counting from the end. A bound is *explicit*, and then indexing beyond it
is an error at once, or *implicit*: what holds now, but not a promise, such as the length of an
array that may be resized.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tessarr.errors import ArgumentError, SelectionError

if TYPE_CHECKING:
    from tessarr._engine import View

__all__ = [
    "INFINITE",
    "MAX_RANK",
    "Box",
    "Dim",
    "check_labels",
    "dims_of",
]

INFINITE: Final = 2**62 - 1
"""Stands for no bound: the least index is `-INFINITE`, the greatest `INFINITE`."""

MAX_RANK: Final = 32

_UNSAID: Final[Any] = object()
"""Stands for an argument that is left out, where None means something."""

_Setter: TypeAlias = Callable[[object, object], None]


class Dim:
    """An interval of indices along one dimension, and what the dimension is called.

    ``Dim(size)``, ``Dim(inclusive_min, exclusive_max)``, ``Dim(label)`` for one without bounds,
    or keywords.

    Parameters
    ----------
    inclusive_min, exclusive_max, inclusive_max, size : int, optional
        The bounds. Where both are left out the dimension is unbounded, and both are implicit
        unless said otherwise; with ``size=None`` it begins at 0 and has no end.
    label : str, optional
        The name; by default none.
    implicit_lower, implicit_upper : bool, optional
        Whether the bound is what holds now rather than a promise. By default only where it is
        not given and infinite.

    Raises
    ------
    ArgumentError
        If the bounds are no interval.

    Notes
    -----
    TensorStore's ``Dim`` (index space, dimension).

    Examples
    --------
    >>> Dim(5, label="x"), Dim(3, 9).size, list(Dim(inclusive_min=-1, size=3))
    (Dim(inclusive_min=0, exclusive_max=5, label="x"), 6, [-1, 0, 1])
    """

    __slots__ = ("exclusive_max", "implicit_lower", "implicit_upper", "inclusive_min", "label")

    inclusive_min: int
    exclusive_max: int
    label: str
    implicit_lower: bool
    implicit_upper: bool

    def __init__(
        self,
        *bounds: Any,
        inclusive_min: int | None = None,
        exclusive_max: int | None = None,
        inclusive_max: int | None = None,
        size: int | None = _UNSAID,
        label: str | None = None,
        implicit_lower: bool | None = None,
        implicit_upper: bool | None = None,
    ) -> None:
        if len(bounds) == 1 and isinstance(bounds[0], str):
            label = bounds[0]
        elif len(bounds) == 1:
            size = _UNSAID if bounds[0] is None else bounds[0]
        elif len(bounds) == 2 and isinstance(bounds[1], str | None):
            size, label = bounds
        elif len(bounds) == 2:
            inclusive_min, exclusive_max = bounds
        elif bounds:
            raise TypeError("Dim takes a size, or inclusive_min and exclusive_max")
        ends = (exclusive_max is not None, inclusive_max is not None, size is not _UNSAID)
        if sum(ends) > 1:
            raise TypeError("give one of exclusive_max, inclusive_max and size")
        if size is not _UNSAID and inclusive_min is None:
            inclusive_min = 0
        if size is not _UNSAID and size is not None:
            exclusive_max = _integer(inclusive_min) + _integer(size)
        elif inclusive_max is not None:
            exclusive_max = _integer(inclusive_max) + 1
        lower = -INFINITE if inclusive_min is None else _integer(inclusive_min)
        upper = INFINITE + 1 if exclusive_max is None else _integer(exclusive_max)
        if not -INFINITE <= lower <= upper <= INFINITE + 1 or lower > INFINITE:
            raise ArgumentError(f"[{lower}, {upper}) is not an interval of indices")
        _set_lower(self, lower)
        _set_upper(self, upper)
        _set_label(self, label or "")
        given = implicit_lower is not None
        _set_implicit_lower(self, bool(implicit_lower) if given else inclusive_min is None)
        given = implicit_upper is not None
        _set_implicit_upper(self, bool(implicit_upper) if given else exclusive_max is None)

    @classmethod
    def of(
        cls,
        lower: int,
        upper: int,
        label: str = "",
        implicit: tuple[bool, bool] = (False, False),
    ) -> Dim:
        """Return ``[lower, upper)``, known to be an interval."""
        made = _new(cls)
        _set_lower(made, lower)
        _set_upper(made, upper)
        _set_label(made, label)
        _set_implicit_lower(made, implicit[0])
        _set_implicit_upper(made, implicit[1])
        return made

    def __setattr__(self, name: str, value: object) -> None:
        if name not in _SETTERS:
            raise AttributeError(f"make another Dim with its {name}: that of one is not changed")
        _SETTERS[name](self, str(value or "") if name == "label" else bool(value))

    def copy(self) -> Dim:
        """Return a copy."""
        return Dim.of(*self._key())

    def _key(self) -> tuple[int, int, str, tuple[bool, bool]]:
        return self.inclusive_min, self.exclusive_max, self.label, self.implicit

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Dim) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> Any:
        return Dim.of, self._key()

    @property
    def inclusive_max(self) -> int:
        """The greatest index."""
        return self.exclusive_max - 1

    @property
    def exclusive_min(self) -> int:
        """One less than the least index."""
        return self.inclusive_min - 1

    @property
    def size(self) -> int:
        """The number of indices."""
        return self.exclusive_max - self.inclusive_min

    @property
    def empty(self) -> bool:
        """Whether there is no index."""
        return self.exclusive_max == self.inclusive_min

    @property
    def surely_empty(self) -> bool:
        """Whether there is no index, and no implicit bound that could change that."""
        explicit = not (self.implicit_lower or self.implicit_upper)
        return explicit and self.exclusive_max == self.inclusive_min

    @property
    def finite(self) -> bool:
        """Whether both bounds are finite."""
        return self.inclusive_min > -INFINITE and self.exclusive_max <= INFINITE

    @property
    def implicit(self) -> tuple[bool, bool]:
        """Whether the lower and the upper bound are implicit."""
        return self.implicit_lower, self.implicit_upper

    @property
    def reach(self) -> tuple[int, int]:
        """The half-open interval that indexing may use: implicit bounds do not count."""
        lower = -INFINITE if self.implicit_lower else self.inclusive_min
        return lower, INFINITE + 1 if self.implicit_upper else self.exclusive_max

    def labelled(self, label: str) -> Dim:
        """Return the same with another label."""
        return Dim.of(self.inclusive_min, self.exclusive_max, label, self.implicit)

    def shifted(self, by: int) -> Dim:
        """Return the interval moved; infinite bounds stay.

        Raises
        ------
        SelectionError
            If a bound would be beyond the range of indices.
        """
        lower, upper = self.inclusive_min, self.exclusive_max
        lower = lower if lower == -INFINITE else lower + by
        upper = upper if upper > INFINITE else upper + by
        if lower < -INFINITE or upper > INFINITE + 1:
            raise SelectionError(f"{self} moved by {by} is beyond the range of indices")
        return Dim.of(lower, upper, self.label, self.implicit)

    def hull(self, other: Dim) -> Dim:
        """Return the smallest interval that contains both; labels have to agree.

        Examples
        --------
        >>> Dim(1, 5).hull(Dim(3, 8))
        Dim(inclusive_min=1, exclusive_max=8)
        """
        lower = min((d.inclusive_min, d.implicit_lower) for d in (self, other))
        upper = max((d.exclusive_max, not d.implicit_upper) for d in (self, other))
        label = common_label(self, other)
        return Dim.of(lower[0], upper[0], label, (lower[1], not upper[1]))

    def intersect(self, other: Dim) -> Dim:
        """Return the indices of both; labels have to agree.

        Raises
        ------
        ArgumentError
            If there are different labels, or the intervals are apart.

        Examples
        --------
        >>> Dim(1, 5).intersect(Dim(3, 8))
        Dim(inclusive_min=3, exclusive_max=5)
        """
        lower = max((d.inclusive_min, not d.implicit_lower) for d in (self, other))
        upper = min((d.exclusive_max, d.implicit_upper) for d in (self, other))
        label = common_label(self, other)
        return Dim.of(lower[0], max(lower[0], upper[0]), label, (not lower[1], upper[1]))

    def __contains__(self, other: int | Dim) -> bool:
        if isinstance(other, Dim):
            inside = self.inclusive_min <= other.inclusive_min
            return other.empty or (inside and other.exclusive_max <= self.exclusive_max)
        return self.inclusive_min <= other < self.exclusive_max

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.inclusive_min, self.exclusive_max))

    def __str__(self) -> str:
        lower = "-inf" if self.inclusive_min == -INFINITE else self.inclusive_min
        upper = "+inf" if self.exclusive_max > INFINITE else self.exclusive_max
        marks = ["*" if implicit else "" for implicit in (self.implicit_lower, self.implicit_upper)]
        text = f"{'(' if lower == '-inf' else '['}{lower}{marks[0]}, {upper}{marks[1]})"
        return f'"{self.label}": {text}' if self.label else text

    def __repr__(self) -> str:
        parts = []
        if self.inclusive_min != -INFINITE:
            parts.append(f"inclusive_min={self.inclusive_min}")
        if self.implicit_lower != (self.inclusive_min == -INFINITE):
            parts.append(f"implicit_lower={self.implicit_lower}")
        if self.exclusive_max <= INFINITE:
            parts.append(f"exclusive_max={self.exclusive_max}")
        if self.implicit_upper != (self.exclusive_max > INFINITE):
            parts.append(f"implicit_upper={self.implicit_upper}")
        if self.label:
            parts.append(f'label="{self.label}"')
        return f"Dim({', '.join(parts)})"


Box: TypeAlias = tuple[Dim, ...]
"""One interval per dimension."""

_new: Final = object.__new__
# Of a class that refuses changes; much faster than `object.__setattr__`.
_set_lower: Final[_Setter] = vars(Dim)["inclusive_min"].__set__
_set_upper: Final[_Setter] = vars(Dim)["exclusive_max"].__set__
_set_label: Final[_Setter] = vars(Dim)["label"].__set__
_set_implicit_lower: Final[_Setter] = vars(Dim)["implicit_lower"].__set__
_set_implicit_upper: Final[_Setter] = vars(Dim)["implicit_upper"].__set__


_SETTERS: Final[dict[str, _Setter]] = {
    "label": _set_label,
    "implicit_lower": _set_implicit_lower,
    "implicit_upper": _set_implicit_upper,
}


def _integer(value: Any) -> int:
    try:
        return int(value.__index__())
    except AttributeError:
        raise TypeError(f"{value!r} is not an integer") from None


def common_label(one: Dim, other: Dim) -> str:
    """Return the label of two dimensions that are to be one; none agrees with any."""
    if one.label and other.label and one.label != other.label:
        raise ArgumentError(f"dimensions labelled {one.label!r} and {other.label!r} do not match")
    return one.label or other.label


def check_labels(dims: Sequence[Dim]) -> Box:
    """Return the dimensions if there are not too many, and no two have one label."""
    if len(dims) > MAX_RANK:
        raise ArgumentError(f"{len(dims)} dimensions, at most {MAX_RANK} are possible")
    labels = [dim.label for dim in dims if dim.label]
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise ArgumentError(f"labels {', '.join(map(repr, twice))} stand for several dimensions")
    return tuple(dims)


def dims_of(view: View) -> Box:
    """Return the dimensions of a view of the engine."""
    return tuple([Dim.of(*one) for one in view.dims()])
