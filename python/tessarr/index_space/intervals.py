"""Intervals of integers with labels, and boxes of them.

Terms, rules and JSON forms are TensorStore's (index space). An index is an integer of any sign;
negative integers do not count from the end. An index beyond an *explicit* bound raises an error
immediately. An *implicit* bound can change, such as the length of a resizable array.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tessarr._engine import View, as_bool
from tessarr._safe_repr import safe_repr
from tessarr.errors import ArgumentError
from tessarr.index_space.dimension_names import MAX_INT64, as_integer, as_label

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from types import EllipsisType

__all__ = ["INFINITE", "MAX_RANK", "Box", "Dim", "DimState"]

INFINITE: Final = 2**62 - 1
"""The infinite bound: the least index is `-INFINITE`, the greatest `INFINITE`."""

_END: Final = INFINITE + 1

MAX_RANK: Final = 32

DimState: TypeAlias = tuple[int, int, str | None, tuple[bool, bool]]
"""The bounds of a dimension, its label, and whether the bounds are implicit."""


class Dim:
    """An interval of indices along one dimension, and the label of the dimension.

    ``Dim(size)``, ``Dim(inclusive_min, exclusive_max)``, ``Dim(label)`` for one without bounds,
    or keywords.

    Parameters
    ----------
    inclusive_min, exclusive_max, inclusive_max, size : int, optional
        The bounds. Without any the dimension is unbounded and both bounds are implicit by
        default; with ``size=None`` it begins at 0 and has no end.
    label : str, optional
        The label; by default none.
    implicit_lower, implicit_upper : bool, optional
        Whether the bound may change with the bounds of the base. By default only omitted
        infinite bounds are implicit.

    Raises
    ------
    ArgumentError
        If the bounds are not an interval.

    Notes
    -----
    TensorStore's ``Dim`` (index space, dimension).

    Examples
    --------
    >>> Dim(5, label="x"), Dim(3, 9).size, list(Dim(inclusive_min=-1, size=3))
    (Dim(inclusive_min=0, exclusive_max=5, label="x"), 6, [-1, 0, 1])
    """

    __slots__ = ("__weakref__", "_implicit", "_label", "_lower", "_upper")

    _lower: int
    _upper: int
    _label: str | None
    _implicit: tuple[bool, bool]

    def __init__(
        self,
        *bounds: Any,
        inclusive_min: int | EllipsisType | None = ...,
        exclusive_max: int | EllipsisType | None = ...,
        inclusive_max: int | EllipsisType | None = ...,
        size: int | EllipsisType | None = ...,
        label: str | bytes | EllipsisType | None = ...,
        implicit_lower: bool | EllipsisType | None = ...,
        implicit_upper: bool | EllipsisType | None = ...,
    ) -> None:
        given = {
            "inclusive_min": inclusive_min,
            "exclusive_max": exclusive_max,
            "inclusive_max": inclusive_max,
            "size": size,
            "label": label,
        }
        given = {name: value for name, value in given.items() if value is not ...}
        for argument, value in zip(_name_bounds(bounds, given), bounds, strict=False):
            if argument in given:
                raise TypeError(f"Dim got two values for {argument}")
            given[argument] = value
        if len(given.keys() & {"exclusive_max", "inclusive_max", "size"}) > 1:
            raise TypeError("give one of exclusive_max, inclusive_max and size")
        text = given.pop("label", None)
        name = None if text is None else as_label(text) or None
        lower, upper = _read_bounds(given)
        implicit = (
            _read_flag(implicit_lower, lower is None),
            _read_flag(implicit_upper, upper is None),
        )
        lower = -INFINITE if lower is None else lower
        upper = _END if upper is None else upper
        if not (-INFINITE <= lower < INFINITE and max(lower, 2 - INFINITE) <= upper <= _END):
            raise ArgumentError(f"[{lower}, {upper}) is not an interval of indices")
        self._lower, self._upper, self._label, self._implicit = lower, upper, name, implicit

    @classmethod
    def _of(
        cls,
        lower: int,
        upper: int,
        label: str | None = None,
        implicit: tuple[bool, bool] = (False, False),
    ) -> Dim:
        """Return ``[lower, upper)``, which must be an interval."""
        new: Dim = object.__new__(Dim)
        new._lower, new._upper, new._label, new._implicit = lower, upper, label or None, implicit
        return new

    @classmethod
    def _states(cls, dims: Iterable[Dim]) -> list[DimState]:
        """Return the states of dimensions, which a user passed."""
        try:
            items = None if isinstance(dims, (str, bytes, dict)) else [*dims]
        except TypeError:
            items = None
        if items is None:
            raise TypeError(f"dimensions: {safe_repr(dims)} is not a list")
        for dim in items:
            if not isinstance(dim, Dim):
                raise TypeError(f"dimensions: {safe_repr(dim)} is not a Dim")
        return [dim._state for dim in items]

    @property
    def _state(self) -> DimState:
        return self._lower, self._upper, self._label, self._implicit

    @property
    def inclusive_min(self) -> int:
        """The least index.

        Examples
        --------
        >>> Dim(3, 9).inclusive_min
        3
        """
        return self._lower

    @property
    def exclusive_max(self) -> int:
        """One more than the greatest index.

        Examples
        --------
        >>> Dim(3, 9).exclusive_max
        9
        """
        return self._upper

    @property
    def inclusive_max(self) -> int:
        """The greatest index.

        Examples
        --------
        >>> Dim(3, 9).inclusive_max
        8
        """
        return self._upper - 1

    @property
    def exclusive_min(self) -> int:
        """One less than the least index.

        Examples
        --------
        >>> Dim(3, 9).exclusive_min
        2
        """
        return self._lower - 1

    @property
    def label(self) -> str:
        """The label; "" without one.

        Examples
        --------
        >>> dim = Dim(9, label="x")
        >>> dim.label = "y"
        >>> dim
        Dim(inclusive_min=0, exclusive_max=9, label="y")
        """
        return self._label or ""

    @label.setter
    def label(self, label: str | bytes | None) -> None:
        self._label = None if label is None else as_label(label) or None

    @property
    def implicit_lower(self) -> bool:
        """Whether the lower bound may change with the bounds of the base.

        Examples
        --------
        >>> Dim(3, 9).implicit_lower, Dim().implicit_lower
        (False, True)
        """
        return self._implicit[0]

    @implicit_lower.setter
    def implicit_lower(self, implicit: bool) -> None:
        self._implicit = as_bool(implicit, "implicit_lower"), self._implicit[1]

    @property
    def implicit_upper(self) -> bool:
        """Whether the upper bound may change with the bounds of the base.

        Examples
        --------
        >>> dim = Dim(9)
        >>> dim.implicit_upper = True
        >>> print(dim)
        [0, 9*)
        """
        return self._implicit[1]

    @implicit_upper.setter
    def implicit_upper(self, implicit: bool) -> None:
        self._implicit = self._implicit[0], as_bool(implicit, "implicit_upper")

    @property
    def size(self) -> int:
        """The number of indices.

        Examples
        --------
        >>> Dim(3, 9).size
        6
        """
        return self._upper - self._lower

    @property
    def empty(self) -> bool:
        """Whether the interval is empty.

        Examples
        --------
        >>> Dim(3, 3).empty, Dim(1).empty
        (True, False)
        """
        return self._upper == self._lower

    @property
    def finite(self) -> bool:
        """Whether both bounds are finite.

        Examples
        --------
        >>> Dim(3).finite, Dim(inclusive_min=3).finite
        (True, False)
        """
        return self._lower > -INFINITE and self._upper <= INFINITE

    def hull(self, other: Dim) -> Dim:
        """Return the smallest interval that contains both; labels have to agree.

        Examples
        --------
        >>> Dim(3).hull(Dim(7, 9, label="x"))
        Dim(inclusive_min=0, exclusive_max=9, label="x")
        """
        return self._of(*View([self._state]).hull(View(self._states([other]))).dims()[0])

    def intersect(self, other: Dim) -> Dim:
        """Return the indices of both; labels have to agree.

        Examples
        --------
        >>> Dim(3, 9).intersect(Dim(5))
        Dim(inclusive_min=3, exclusive_max=5)
        """
        return self._of(*View([self._state]).intersect(View(self._states([other]))).dims()[0])

    def __contains__(self, other: object) -> bool:
        if isinstance(other, Dim):
            return other.empty or (self._lower <= other._lower and other._upper <= self._upper)
        return max(self._lower, 1 - INFINITE) <= as_integer(other) < min(self._upper, INFINITE)

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[int]:
        if not self.finite:
            raise ArgumentError(f"{self} has no end: it cannot be walked")
        return iter(range(self._lower, self._upper))

    def __eq__(self, other: object) -> bool:
        return self._state == other._state if isinstance(other, Dim) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._state)

    def __getstate__(self) -> tuple[DimState, Any]:
        return self._state, getattr(self, "__dict__", None)

    def __setstate__(self, state: tuple[DimState, Any]) -> None:
        (self._lower, self._upper, self._label, self._implicit), attributes = state
        if attributes:
            vars(self).update(attributes)

    def __str__(self) -> str:
        label = "" if self._label is None else f'"{self._label}": '
        lower = "(-inf" if self._lower == -INFINITE else f"[{self._lower}"
        upper = "+inf" if self._upper > INFINITE else str(self._upper)
        return f"{label}{lower}{'*' * self.implicit_lower}, {upper}{'*' * self.implicit_upper})"

    def __repr__(self) -> str:
        has_lower, has_upper = self._lower != -INFINITE, self._upper <= INFINITE
        parts = {
            f"inclusive_min={self._lower}": has_lower,
            f"implicit_lower={self.implicit_lower}": self.implicit_lower is has_lower,
            f"exclusive_max={self._upper}": has_upper,
            f"implicit_upper={self.implicit_upper}": self.implicit_upper is has_upper,
            f'label="{self._label}"': self._label is not None,
        }
        return f"Dim({', '.join(part for part, is_shown in parts.items() if is_shown)})"


def _name_bounds(bounds: Sequence[Any], keywords: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of positional arguments of `Dim`."""
    if not bounds or (len(bounds) == 1 and bounds[0] is None and not keywords):
        return ()
    if len(bounds) == 1:
        if isinstance(bounds[0], (str, bytes)):
            if keywords.keys() - {"label"}:
                raise TypeError("Dim takes bounds first, and then a label")
            return ("label",)
        return ("inclusive_min",) if "exclusive_max" in keywords else ("size",)
    if len(bounds) > 2:
        raise TypeError("Dim takes a size, or inclusive_min and exclusive_max")
    second = bounds[1]
    if isinstance(second, (str, bytes)) or (second is None and "label" not in keywords):
        return ("size", "label")
    return ("inclusive_min", "exclusive_max")


def _read_bounds(given: dict[str, Any]) -> tuple[int | None, int | None]:
    """Return the lower and the upper bound of arguments; None is infinite."""
    numbers = {name: as_integer(value) for name, value in given.items() if value is not None}
    lower = numbers.get("inclusive_min", 0 if "size" in given else None)
    upper = numbers.get("exclusive_max")
    if "inclusive_max" in numbers:
        upper = numbers["inclusive_max"] + 1
    elif "size" in numbers:
        size = numbers["size"]
        upper = _END if size == MAX_INT64 else (lower or 0) + size
    return lower, upper


def _read_flag(value: Any, default: bool) -> bool:
    return default if value is None or value is ... else as_bool(value, "implicit")


Box: TypeAlias = tuple[Dim, ...]
"""One interval per dimension."""
