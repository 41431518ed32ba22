"""What has positions of its own, by a view of the engine: domains and transforms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from tessarr.space.indexable import Indexable

if TYPE_CHECKING:
    from tessarr._engine import View

__all__ = ["Placed"]


class Placed(Indexable):
    """A view of the engine, and what it says of its positions.

    What is private here has one name in domains, and another in transforms.
    """

    __slots__ = ("__weakref__", "_view")

    _view: View

    def _as_view(self) -> View:
        return self._view

    @property
    def T(self) -> Self:  # noqa: N802 (as NumPy calls it)
        """The view with its dimensions in reverse order.

        Examples
        --------
        >>> from tessarr.space import IndexDomain
        >>> IndexDomain(shape=[3, 4], labels=["x", "y"]).T
        { "y": [0, 4), "x": [0, 3) }
        """
        return self._after(self._view.reversed())

    @property
    def rank(self) -> int:
        """The number of dimensions.

        Examples
        --------
        >>> from tessarr.space import IndexDomain
        >>> IndexDomain(shape=[3, 4]).rank
        2
        """
        return self._view.rank

    ndim = rank

    @property
    def origin(self) -> tuple[int, ...]:
        """The least index of each dimension.

        Examples
        --------
        >>> from tessarr.space import IndexDomain
        >>> IndexDomain(inclusive_min=[5, 6], shape=[3, 4]).origin
        (5, 6)
        """
        return self._view.origin

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of indices of each dimension.

        Examples
        --------
        >>> from tessarr.space import IndexDomain
        >>> IndexDomain(inclusive_min=[5, 6], exclusive_max=[9, 9]).shape
        (4, 3)
        """
        return self._view.shape

    @property
    def mere_shape(self) -> tuple[int, ...] | None:
        """The shape where nothing else is said: finite, from 0 on, explicit, without labels."""
        return self._view.mere_shape

    @property
    def size(self) -> int:
        """The number of positions.

        Examples
        --------
        >>> from tessarr.space import IndexDomain
        >>> IndexDomain(shape=[3, 4]).size
        12
        """
        return self._view.size

    @property
    def implicit_lower_bounds(self) -> tuple[bool, ...]:
        """Whether the lower bound of each dimension is implicit.

        Examples
        --------
        >>> from tessarr.space import IndexDomain
        >>> IndexDomain(exclusive_max=[3, 4]).implicit_lower_bounds
        (True, True)
        """
        return self._view.implicit_lower

    @property
    def implicit_upper_bounds(self) -> tuple[bool, ...]:
        """Whether the upper bound of each dimension is implicit.

        Examples
        --------
        >>> from tessarr.space import IndexDomain
        >>> domain = IndexDomain(shape=[3, 4], implicit_upper_bounds=[True, False])
        >>> domain.implicit_upper_bounds, domain
        ((True, False), { [0, 3*), [0, 4) })
        """
        return self._view.implicit_upper

    @property
    def _inclusive_max(self) -> tuple[int, ...]:
        """The greatest index of each dimension.

        Examples
        --------
        >>> from tessarr.space import IndexDomain
        >>> IndexDomain(shape=[3, 4]).inclusive_max
        (2, 3)
        """
        return self._view.inclusive_max

    @property
    def _exclusive_max(self) -> tuple[int, ...]:
        """One more than the greatest index of each dimension.

        Examples
        --------
        >>> from tessarr.space import IndexDomain
        >>> IndexDomain(shape=[3, 4]).exclusive_max
        (3, 4)
        """
        return self._view.exclusive_max

    @property
    def _labels(self) -> tuple[str, ...]:
        """The label of each dimension; "" where there is none.

        Examples
        --------
        >>> from tessarr.space import IndexDomain
        >>> IndexDomain(shape=[3, 4], labels=["x", None]).labels
        ('x', '')
        """
        return self._view.labels
