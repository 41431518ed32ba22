"""The brackets and index operations that domains, transforms, specs and handles share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, Self, TypeVar

from tessarr._safe_repr import safe_repr
from tessarr.errors import ArgumentError, SelectionError, TessarrError
from tessarr.index_space.dimension_names import read_dimensions
from tessarr.index_space.indexing_terms import parse_key, parse_operation

if TYPE_CHECKING:
    from tessarr._engine import View
    from tessarr.index_space.indexing_terms import Mode
    from tessarr.types import Shape

__all__ = [
    "Assignable",
    "Bounded",
    "Brackets",
    "Indexable",
    "Indexed",
    "Indexer",
    "add_status_code",
    "strip_status_code",
]


class _PendingWrite(Protocol):
    """A pending write."""

    def result(self) -> Any: ...


class _Writable(Protocol):
    """A view that supports assignment."""

    def write(self, value: Any, /) -> _PendingWrite: ...


OUT_OF_RANGE: Final = "OUT_OF_RANGE"
"""TensorStore's status code of positions outside the domain."""

E = TypeVar("E", bound=TessarrError)
T_co = TypeVar("T_co", covariant=True)
W_co = TypeVar("W_co", covariant=True, bound=_Writable)


class Indexer(Generic[T_co]):
    """Applies an operation to an indexing key: ``view.translate_to[1, 2]``."""

    __slots__ = ("_name", "_owner")
    __iter__ = None

    def __init__(self, owner: Any, name: str) -> None:
        self._owner, self._name = owner, name

    def __getitem__(self, key: Any) -> T_co:
        result: T_co = self._owner._apply_operation(self._name, key)
        return result

    def __repr__(self) -> str:
        return f"{self._owner!r}.{self._name}"


class Assignable(Indexer[W_co]):
    """Brackets that support assignment: ``view.oindex[...] = values``."""

    __slots__ = ()

    def __setitem__(self, key: Any, value: Any) -> None:
        self[key].write(value).result()


def add_status_code(error: TessarrError, to: type[E]) -> E:
    """Return an error of a class, with TensorStore's code in its text if it has one."""
    if error.kind != "out_of_bounds":
        return error if isinstance(error, to) else to(error.message, kind=error.kind)
    return to(f"{OUT_OF_RANGE}: {strip_status_code(error)}", kind=error.kind)


def strip_status_code(error: TessarrError) -> str:
    """Return the text of an error without TensorStore's code."""
    return error.message.removeprefix(f"{OUT_OF_RANGE}: ")


def check_plain_brackets(mode: Mode, key: object) -> None:
    """Raise an error for a key that only plain brackets accept."""
    if mode != "default":
        raise SelectionError(f"{mode} takes indices: not {safe_repr(key)}")


class Brackets:
    """The index operations that views and dimension expressions share."""

    __slots__ = ()

    @property
    def oindex(self) -> Indexer[Self]:
        """Index each dimension by its own array: the outer product.

        Examples
        --------
        >>> from tessarr.index_space import IndexTransform, d
        >>> IndexTransform(2).oindex[[5, 7], [1, 2, 3]].domain
        { [0, 2), [0, 3) }
        >>> IndexTransform(3)[d[0, 2].oindex[[5, 7], [1, 2, 3]]].domain
        { [0, 2), (-inf*, +inf*), [0, 3) }
        """
        return Indexer(self, "oindex")

    @property
    def vindex(self) -> Indexer[Self]:
        """Index by arrays that are broadcast together; their dimensions come first.

        Examples
        --------
        >>> from tessarr.index_space import IndexTransform, d
        >>> view = IndexTransform(2).vindex[[5, 7, 9], [1, 2, 3]]
        >>> view.domain, view([1])
        ({ [0, 3) }, (7, 2))
        >>> IndexTransform(3)[d[1, 2].vindex[[5, 7], [1, 2]]].domain
        { [0, 2), (-inf*, +inf*) }
        """
        return Indexer(self, "vindex")

    @property
    def label(self) -> Indexer[Self]:
        """Label the dimensions: ``view.label["x", "y"]``.

        Examples
        --------
        >>> from tessarr.index_space import IndexDomain, d
        >>> IndexDomain(shape=[3, 4]).label["x", "y"]
        { "x": [0, 3), "y": [0, 4) }
        >>> IndexDomain(shape=[3, 4])[d[1, 0].label["x", "y"]]
        { "y": [0, 3), "x": [0, 4) }
        """
        return Indexer(self, "label")

    @property
    def translate_to(self) -> Indexer[Self]:
        """Translate the domain to an origin.

        Examples
        --------
        >>> from tessarr.index_space import IndexDomain, d
        >>> IndexDomain(inclusive_min=[5, 6], shape=[3, 4]).translate_to[0, 100]
        { [0, 3), [100, 104) }
        >>> IndexDomain(shape=[3, 4], labels=["x", "y"])[d["y"].translate_to[10]]
        { "x": [0, 3), "y": [10, 14) }
        """
        return Indexer(self, "translate_to")

    @property
    def translate_by(self) -> Indexer[Self]:
        """Move the domain by an offset.

        Examples
        --------
        >>> from tessarr.index_space import IndexDomain, d
        >>> IndexDomain(shape=[3, 4]).translate_by[10, -1]
        { [10, 13), [-1, 3) }
        >>> IndexDomain(shape=[3, 4])[d[:].translate_by[2]]
        { [2, 5), [2, 6) }
        """
        return Indexer(self, "translate_by")

    @property
    def translate_backward_by(self) -> Indexer[Self]:
        """Move the domain back by an offset.

        Examples
        --------
        >>> from tessarr.index_space import IndexDomain, d
        >>> IndexDomain(shape=[3, 4]).translate_backward_by[10, -1]
        { [-10, -7), [1, 5) }
        >>> IndexDomain(shape=[3, 4])[d[0].translate_backward_by[2]]
        { [-2, 1), [0, 4) }
        """
        return Indexer(self, "translate_backward_by")

    @property
    def mark_bounds_implicit(self) -> Indexer[Self]:
        """Mark bounds as implicit or explicit: ``[True]``, or ``[lower:upper]``.

        Examples
        --------
        >>> from tessarr.index_space import IndexDomain, d
        >>> domain = IndexDomain(shape=[3])
        >>> domain.mark_bounds_implicit[True], domain.mark_bounds_implicit[False:True]
        ({ [0*, 3*) }, { [0, 3*) })
        >>> IndexDomain(shape=[3, 4])[d[1].mark_bounds_implicit[:True]]
        { [0, 3), [0, 4*) }
        """
        return Indexer(self, "mark_bounds_implicit")


class Indexed(Brackets):
    """Dimensions and operations on them; an operation returns a new value and reads no data."""

    __slots__ = ()
    __iter__: Any = None  # positions may be negative, and iteration would not end

    def _as_view(self) -> View:
        """Return the view that index operations apply to."""
        raise NotImplementedError

    def _with_view(self, view: View) -> Self:
        """Return this object with another view."""
        raise NotImplementedError

    def _indexed(self, key: Any, mode: Mode) -> Self:
        before = self._as_view()
        try:
            view = before.select(key, mode)
            if view is None:
                apply = getattr(key, "_apply_to", None)  # an expression, a domain or a transform
                if apply is not None:
                    view = apply(before, mode)
                else:
                    view = before.apply_operations(None, ((mode, parse_key(key)),))
        except SelectionError as error:
            raise add_status_code(error, SelectionError) from error.__cause__
        return self._with_view(view)

    def _apply_operation(self, name: str, key: Any) -> Self:
        if name == "oindex" or name == "vindex":  # noqa: PLR1714 (a set is slower)
            return self._indexed(key, name)  # type: ignore[arg-type]
        before = self._as_view()
        try:
            view = before.apply_operations(None, (parse_operation(name, key),))
        except SelectionError as error:  # not brackets with indices
            raise add_status_code(error, ArgumentError) from error
        return self._with_view(view)

    def __getitem__(self, key: Any) -> Self:
        """Return a view of some positions.

        Parameters
        ----------
        key
            As in NumPy: integers, slices, ``...``, ``None`` (`newaxis`), arrays of integers or of
            booleans; or an expression of `d`, an `IndexDomain`, an `IndexTransform`. Negative
            integers are positions, too.

        Raises
        ------
        SelectionError
            If a position is outside explicit bounds, or the key has too many indices.

        Examples
        --------
        >>> from tessarr.index_space import IndexDomain, IndexTransform
        >>> view = IndexTransform(IndexDomain(shape=[10, 4]))
        >>> view[2:5, 3].domain, view[[7, 1]].domain, view[IndexDomain(shape=[2, 2])].domain
        ({ [2, 5) }, { [0, 2), [0, 4) }, { [0, 2), [0, 2) })
        """
        return self._indexed(key, "default")

    def transpose(self, axes: Any = None) -> Self:
        """Put the dimensions in another order; by default the reverse one.

        Raises
        ------
        ArgumentError
            If `axes` does not name each dimension once.

        Examples
        --------
        >>> from tessarr.index_space import IndexDomain
        >>> domain = IndexDomain(shape=[3, 4, 5], labels=["x", "y", "z"])
        >>> domain.transpose([1, "z", 0]), domain.transpose().shape
        ({ "y": [0, 4), "z": [0, 5), "x": [0, 3) }, (5, 4, 3))
        """
        if axes is None:
            return self.T
        view = self._as_view()
        try:
            return self._with_view(view.transpose(view.select_dims(read_dimensions(axes))))
        except SelectionError as error:
            raise add_status_code(error, ArgumentError) from error

    @property
    def T(self) -> Self:  # noqa: N802 (as NumPy calls it)
        """The view with its dimensions in reverse order.

        Examples
        --------
        >>> from tessarr.index_space import IndexDomain
        >>> IndexDomain(shape=[3, 4], labels=["x", "y"]).T
        { "y": [0, 4), "x": [0, 3) }
        """
        return self._with_view(self._as_view().reverse())


class Indexable(Indexed):
    """Objects with an element at each position: handles, specs and transforms.

    Examples
    --------
    >>> from tessarr.index_space import IndexDomain, IndexTransform
    >>> isinstance(IndexTransform(2), Indexable), isinstance(IndexDomain(2), Indexable)
    (True, False)
    """

    __slots__ = ()


class Bounded(Indexed):
    """The bounds of schemas, specs and handles."""

    __slots__ = ()

    @property
    def origin(self) -> Shape:
        """The least index of each dimension.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.Schema(shape=[3, 4])[1:].origin, ts.array([1, 2, 3, 4])[2:].origin
        ((1, 0), (2,))
        """
        return self._as_view().origin

    @property
    def shape(self) -> Shape:
        """The size of each dimension.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.Schema(shape=[3, 4])[1:].shape, ts.array([[1, 2, 3], [4, 5, 6]])[:, ::2].shape
        ((2, 4), (2, 2))
        """
        return self._as_view().shape

    @property
    def size(self) -> int:
        """The number of positions: the number of elements.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.Schema(shape=[3, 4]).size, ts.array([[1, 2, 3], [4, 5, 6]]).size
        (12, 6)
        """
        return self._as_view().size
