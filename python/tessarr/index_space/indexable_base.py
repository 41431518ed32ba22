"""The base class of domains and transforms."""

from __future__ import annotations

from typing import Any, Final, Self

from tessarr._engine import TransformBase, View
from tessarr.index_space.indexable import Indexed

__all__ = ["Placed", "placed"]

placed: Final = TransformBase._create


class Placed(TransformBase, Indexed):
    """A view of the engine, and its properties.

    Private names here are public under other names in domains and transforms.
    """

    __slots__ = ()

    ndim = TransformBase.rank

    @classmethod
    def _of_view(cls, view: View) -> Self:
        """Return the domain, or the transform, that the engine has."""
        return placed(cls, view)

    @classmethod
    def _restored(cls, dims: Any, maps: Any) -> Self:
        return placed(cls, View.from_state(dims, maps))

    def __reduce__(self) -> tuple[Any, ...]:
        attributes = getattr(self, "__dict__", None)  # a user's subclass has one
        return type(self)._restored, self._view.to_state(), attributes
