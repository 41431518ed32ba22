"""What is known of a handle: its domain, and what the schema of its view tells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tessarr._engine import HandleBase
from tessarr.space import Indexable
from tessarr.tensorstore.schema.chunk_layout import ChunkLayout
from tessarr.tensorstore.schema.chunk_views import layout_through
from tessarr.tensorstore.schema.through import array_through
from tessarr.tensorstore.schema.units import units_through

if TYPE_CHECKING:
    import numpy.typing as npt

    from tessarr.space import IndexDomain, IndexTransform
    from tessarr.tensorstore.driver import Driver
    from tessarr.tensorstore.schema.codec_spec import CodecSpec
    from tessarr.tensorstore.schema.data_type import dtype as DataType  # noqa: N812
    from tessarr.tensorstore.schema.layout_constraints import LayoutConstraints
    from tessarr.tensorstore.schema.schema import Schema
    from tessarr.tensorstore.schema.units import Units
    from tessarr.types import Shape

__all__ = ["Facts", "StorageStatistics"]


@dataclass(slots=True, weakref_slot=True, kw_only=True)
class StorageStatistics:
    """Whether nothing, or everything, of a domain is stored; None for what was not asked.

    What is stored is so by whole chunks: an element may be stored that was never written.
    """

    not_stored: bool | None = None
    fully_stored: bool | None = None


class Facts(HandleBase, Indexable):
    """What is known of a handle without asking a store: a driver, seen through a view."""

    __slots__ = ("_layout",)

    if TYPE_CHECKING:

        @property
        def _driver(self) -> Driver: ...
        @property
        def _view(self) -> IndexTransform: ...

    _layout: tuple[LayoutConstraints, LayoutConstraints] | None  # of the driver, of the view

    @property
    def domain(self) -> IndexDomain:
        """The positions, with labels; bounds that `resize` can change are implicit."""
        return self._view.domain

    @property
    def dtype(self) -> DataType:
        """The data type of the elements."""
        return self._driver.dtype

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return self._view.rank

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._view.rank

    @property
    def shape(self) -> Shape:
        """The size of each dimension."""
        return self._view.shape

    @property
    def origin(self) -> Shape:
        """The least index of each dimension."""
        return self._view.origin

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._view.size

    @property
    def mode(self) -> str:
        """What the handle may do: ``"r"``, ``"w"`` or ``"rw"``."""
        return self._mode

    @property
    def readable(self) -> bool:
        """Whether the handle may read."""
        return "r" in self._mode

    @property
    def writable(self) -> bool:
        """Whether the handle may write."""
        return "w" in self._mode

    @property
    def transaction(self) -> Any:
        """The transaction that reads and writes take part in, or None."""
        return self._transaction

    # Its schema

    @property
    def url(self) -> str:
        """The URL that opens the array again, without the view."""
        self._check_open()
        return self._driver.url

    @property
    def chunk_layout(self) -> ChunkLayout:
        """How the array is cut into chunks, along the dimensions of the view."""
        found: ChunkLayout | None = self._driver.chunk_layout
        if found is None:
            return ChunkLayout(rank=self.rank)
        return ChunkLayout.of(self._layout_of(found.constraints))

    def _layout_of(self, whole: LayoutConstraints) -> LayoutConstraints:
        """Return what the driver's constraints are of the view, or recall it."""
        found = self._layout
        if found is None or found[0] is not whole:
            found = self._layout = whole, layout_through(whole, self._view)
        return found[1]

    @property
    def codec(self) -> CodecSpec | None:
        """How chunks are encoded, or None if there are none."""
        found: CodecSpec | None = self._driver.codec
        return found

    @property
    def fill_value(self) -> npt.NDArray[Any] | None:
        """What elements are that are not stored; it broadcasts to the domain. None if unknown."""
        found = self._driver.fill_value
        if found is None or not found.ndim:
            return found
        return array_through(found, self._view, self._driver.domain)

    @property
    def dimension_units(self) -> Units:
        """What one step along each dimension is, or None."""
        return units_through(self._driver.dimension_units, self._view)

    @property
    def schema(self) -> Schema:
        """All that is known of the array, of the dimensions of the view."""
        whole = self._driver.schema
        return whole.viewed(self._view, self._layout_of(whole.layout))

    def _check_open(self) -> None:
        """Refuse what is asked of a transaction that is no longer open."""
        if self._transaction is not None:
            self._transaction._staging.check()
