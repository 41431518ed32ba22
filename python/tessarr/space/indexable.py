"""Everything that is indexed by positions has the same brackets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from tessarr.brief import brief
from tessarr.errors import ArgumentError, SelectionError
from tessarr.space.acts import operation
from tessarr.space.brackets import parsed
from tessarr.space.names import names_of

if TYPE_CHECKING:
    from tessarr._engine import View
    from tessarr.space.brackets import Mode

__all__ = ["Bracket", "Indexable"]

T_co = TypeVar("T_co", covariant=True)


class Bracket(Generic[T_co]):
    """Turns what stands in brackets into an act: ``view.translate_to[1, 2]``."""

    __slots__ = ("_name", "_owner")
    __iter__ = None

    def __init__(self, owner: Any, name: str) -> None:
        self._owner = owner
        self._name = name

    def __getitem__(self, key: Any) -> T_co:
        made: T_co = self._owner._by(self._name, key)
        return made

    def __repr__(self) -> str:
        return f"{self._owner!r}.{self._name}"


def refuse(mode: Mode, key: object) -> None:
    """Raise an error if something stands in brackets that only plain ones may have."""
    if mode != "default":
        raise SelectionError(f"{mode} takes indices: not {brief(key)}")


class Indexable:
    """What is indexed by positions: views of it are made, no data is touched."""

    __slots__ = ()
    __iter__: Any = None  # brackets take positions that are below 0, and no end is met

    def _as_view(self) -> View:
        """Return what acts of indexing are applied to."""
        raise NotImplementedError

    def _after(self, view: View) -> Self:
        """Return the same after acts of indexing."""
        raise NotImplementedError

    def _indexed(self, key: Any, mode: Mode) -> Self:
        before = self._as_view()
        view = before.at(key, mode)
        if view is None:
            apply_to = getattr(key, "apply_to", None)  # of an expression, a domain, a transform
            if apply_to is not None:
                view = apply_to(before, mode)
            else:
                view = before.after(None, ((mode, parsed(key)),))
        return self._after(view)

    def _by(self, name: str, key: Any) -> Self:
        if name == "oindex" or name == "vindex":  # noqa: PLR1714 (no set of names is made)
            return self._indexed(key, name)  # type: ignore[arg-type]
        before = self._as_view()
        try:
            view = before.by(name, key)
            if view is None:
                view = before.after(None, (operation(name, key),))
        except SelectionError as error:  # no brackets with indices
            raise ArgumentError(str(error)) from error
        return self._after(view)

    def __getitem__(self, key: Any) -> Self:
        return self._indexed(key, "default")

    @property
    def oindex(self) -> Bracket[Self]:
        """Index by arrays of which each is for itself: the outer product."""
        return Bracket(self, "oindex")

    @property
    def vindex(self) -> Bracket[Self]:
        """Index by arrays that are taken together; their dimensions come first."""
        return Bracket(self, "vindex")

    @property
    def label(self) -> Bracket[Self]:
        """Give the dimensions labels: ``view.label["x", "y"]``."""
        return Bracket(self, "label")

    @property
    def translate_to(self) -> Bracket[Self]:
        """Move the domain so that it begins at a position."""
        return Bracket(self, "translate_to")

    @property
    def translate_by(self) -> Bracket[Self]:
        """Move the domain by so much."""
        return Bracket(self, "translate_by")

    @property
    def translate_backward_by(self) -> Bracket[Self]:
        """Move the domain back by so much."""
        return Bracket(self, "translate_backward_by")

    @property
    def mark_bounds_implicit(self) -> Bracket[Self]:
        """Say whether bounds are implicit: ``[True]``, or ``[lower:upper]``."""
        return Bracket(self, "mark_bounds_implicit")

    def transpose(self, axes: Any = None) -> Self:
        """Put the dimensions in another order; by default the reverse one.

        Raises
        ------
        ArgumentError
            If not all dimensions are named, each once.
        """
        if axes is None:
            return self.T
        view = self._as_view()
        try:
            return self._after(view.permuted(view.chosen(names_of(axes))))
        except SelectionError as error:
            raise ArgumentError(str(error)) from error

    @property
    def T(self) -> Self:  # noqa: N802 (as NumPy calls it)
        """The view with its dimensions in reverse order."""
        return self._after(self._as_view().reversed())
