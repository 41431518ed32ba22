"""Dimension expressions: a selection of dimensions and operations on them, as a value.

``d["x", "y"].translate_to[0].label["u", "v"]`` is a value; brackets apply it to any view. A
selection names dimensions by number (negative ones count from the end), by label, or by a slice of
numbers. Each operation applies to the dimensions that result from the previous one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tessarr.errors import SelectionError
from tessarr.index_space.dimension_names import Name, read_dimensions
from tessarr.index_space.indexable import Brackets, Indexer, check_plain_brackets
from tessarr.index_space.indexing_terms import (
    Operation,
    format_operation,
    format_value,
    parse_operation,
    pickle_operation,
    unpickle_operation,
)

if TYPE_CHECKING:
    from tessarr._engine import View
    from tessarr.index_space.indexing_terms import Mode

__all__ = ["DimExpression", "DimSelection", "d"]


class DimExpression(Brackets):
    """A selection of dimensions and operations on them, applied by brackets.

    Examples
    --------
    >>> from tessarr.index_space import IndexDomain
    >>> IndexDomain(shape=[3, 4], labels=["x", "y"])[d["y"].translate_to[10].label["z"]]
    { "x": [0, 3), "z": [10, 14) }
    """

    __slots__ = ("__weakref__", "_names", "_operations")
    __iter__ = None

    _names: tuple[Name, ...]
    _operations: tuple[Operation, ...]

    def __init__(self, names: tuple[Name, ...], acts: tuple[Operation, ...] = ()) -> None:
        self._names = names
        self._operations = acts

    def _apply_to(self, view: View, mode: Mode = "default") -> View:
        """Return the view after all operations."""
        check_plain_brackets(mode, self)
        return view.apply_operations(self._names, self._operations)

    def _apply_operation(self, name: str, key: Any) -> DimExpression:
        return DimExpression(self._names, (*self._operations, parse_operation(name, key)))

    def __getitem__(self, key: Any) -> DimExpression:
        """Index the dimensions with brackets.

        Examples
        --------
        >>> from tessarr.index_space import IndexDomain, IndexTransform
        >>> IndexTransform(IndexDomain(shape=[3, 4, 5]))[d[0, 2][1, 2:]].domain
        { [0, 4), [2, 5) }
        """
        return self._apply_operation("", key)

    @property
    def stride(self) -> Indexer[DimExpression]:
        """Select the multiples of a stride.

        Examples
        --------
        >>> from tessarr.index_space import IndexDomain, IndexTransform
        >>> view = IndexTransform(IndexDomain(shape=[10]))[d[0].stride[3]]
        >>> view.domain, view([2])
        ({ [0, 4) }, (6,))
        """
        return Indexer(self, "stride")

    @property
    def transpose(self) -> Indexer[DimExpression]:
        """Move the dimensions to other positions.

        Examples
        --------
        >>> from tessarr.index_space import IndexDomain
        >>> domain = IndexDomain(shape=[3, 4, 5], labels=["x", "y", "z"])
        >>> domain[d["z"].transpose[0]], domain[d["y", "x"].transpose[[0, 1]]].labels
        ({ "z": [0, 5), "x": [0, 3), "y": [0, 4) }, ('y', 'x', 'z'))
        """
        return Indexer(self, "transpose")

    @property
    def diagonal(self) -> DimExpression:
        """Merge the dimensions into one, their diagonal, which comes first.

        Examples
        --------
        >>> from tessarr.index_space import IndexDomain, IndexTransform
        >>> view = IndexTransform(IndexDomain(shape=[3, 5]))[d[0, 1].diagonal]
        >>> view.domain, view([2])
        ({ [0, 3) }, (2, 2))
        """
        return self._apply_operation("diagonal", None)

    def __getstate__(self) -> tuple[tuple[Name, ...], list[Operation]]:
        # A pickle holds no private classes.
        return self._names, [*map(pickle_operation, self._operations)]

    def __setstate__(self, state: tuple[tuple[Name, ...], list[Operation]]) -> None:
        self._names, operations = state
        self._operations = tuple(map(unpickle_operation, operations))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DimExpression):
            return NotImplemented
        return (self._names, self._operations) == (other._names, other._operations)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"d[{format_value(self._names)}]{''.join(map(format_operation, self._operations))}"


class DimSelection(DimExpression):
    """A selection of dimensions, such as ``d[0, "x", 2:]``, before its operations.

    Examples
    --------
    >>> d[0, ["x", d[2:]]]
    d[0,'x',2:]
    """

    __slots__ = ()

    def _apply_to(self, view: View, mode: Mode = "default") -> View:
        """Raise an error: a selection without operations cannot be applied."""
        raise SelectionError(f"{self!r} only selects dimensions: an operation must follow")

    @property
    def _named(self) -> tuple[Name, ...]:
        """The selected numbers, labels and slices of numbers."""
        return self._names


class _Dimensions:
    """The type of `d`: brackets with dimension names start an expression.

    Examples
    --------
    >>> d["x", -1, :2].label["a", "b", "c", "d"]
    d['x',-1,:2].label['a','b','c','d']
    """

    __slots__ = ()
    __iter__ = None

    def __getitem__(self, selection: Any) -> DimSelection:
        return DimSelection(read_dimensions(selection))

    def __repr__(self) -> str:
        return "d"

    def __reduce__(self) -> str:
        return "d"


d = _Dimensions()
"""Start of a dimension expression: ``d["x"]``, ``d[0, -1]``, ``d[:2]``."""
