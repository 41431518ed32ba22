"""Properties of a handle: its domain, and the schema of its view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tessarr._engine import HandleBase
from tessarr.index_space import Indexable
from tessarr.tensorstore.schema.chunk_layout import ChunkLayout
from tessarr.tensorstore.schema.chunk_views import propagate_layout
from tessarr.tensorstore.schema.propagate import propagate_array
from tessarr.tensorstore.schema.units import propagate_units

if TYPE_CHECKING:
    import numpy.typing as npt

    from tessarr.index_space import IndexDomain, IndexTransform
    from tessarr.tensorstore.driver import Driver
    from tessarr.tensorstore.schema.codec_spec import CodecSpec
    from tessarr.tensorstore.schema.data_type import dtype as DataType  # noqa: N812
    from tessarr.tensorstore.schema.layout_constraints import LayoutConstraints
    from tessarr.tensorstore.schema.schema import Schema
    from tessarr.tensorstore.schema.units import Units
    from tessarr.types import Shape

__all__ = ["HandleProperties", "StorageStatistics"]


@dataclass(slots=True, weakref_slot=True, kw_only=True)
class StorageStatistics:
    """Whether no chunk, or every chunk, of a domain is stored; None if not requested.

    The statistics count whole chunks: a stored chunk may contain elements that no write covered.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> ts.TensorStore.StorageStatistics(not_stored=True)
    TensorStore.StorageStatistics(not_stored=True, fully_stored=None)
    """

    not_stored: bool | None = None
    fully_stored: bool | None = None


class HandleProperties(HandleBase, Indexable):
    """Properties of a handle that need no request: a driver and a view of it."""

    __slots__ = ("_layout",)

    if TYPE_CHECKING:

        @property
        def _driver(self) -> Driver: ...
        @property
        def _view(self) -> IndexTransform: ...

    _layout: tuple[LayoutConstraints, LayoutConstraints] | None  # of the driver, of the view

    @property
    def domain(self) -> IndexDomain:
        """The positions, with labels; bounds that `resize` can change are implicit.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.array([[1, 2], [3, 4]])[1:].label["row", "column"].domain
        { "row": [1, 2), "column": [0, 2) }
        """
        return self._view.domain

    @property
    def dtype(self) -> DataType:
        """The data type of the elements.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.array([1.5, 2.5]).dtype
        dtype("float64")
        """
        return self._driver.dtype

    @property
    def rank(self) -> int:
        """The number of dimensions.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.array([[1, 2, 3]]).rank, ts.array([[1, 2, 3]])[0].rank
        (2, 1)
        """
        return self._view.rank

    @property
    def ndim(self) -> int:
        """The number of dimensions.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.array([[1, 2, 3]]).ndim
        2
        """
        return self._view.rank

    @property
    def shape(self) -> Shape:
        """The size of each dimension.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.array([[1, 2, 3], [4, 5, 6]])[:, ::2].shape
        (2, 2)
        """
        return self._view.shape

    @property
    def origin(self) -> Shape:
        """The least index of each dimension.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.array([1, 2, 3, 4])[2:].origin
        (2,)
        """
        return self._view.origin

    @property
    def size(self) -> int:
        """The number of elements.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.array([[1, 2, 3], [4, 5, 6]]).size
        6
        """
        return self._view.size

    @property
    def mode(self) -> str:
        """The open mode: ``"r"``, ``"w"`` or ``"rw"``.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.array([1, 2]).mode, ts.array([1, 2], write=False).mode
        ('rw', 'r')
        """
        return self._mode

    @property
    def readable(self) -> bool:
        """Whether the handle can read.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> new = {"create": True, "dtype": ts.int8, "shape": [3]}
        >>> ts.open("memory://|zarr3:", write=True, **new).result().readable
        False
        """
        return "r" in self._mode

    @property
    def writable(self) -> bool:
        """Whether the handle can write.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.array([1, 2], write=False).writable
        False
        """
        return "w" in self._mode

    @property
    def transaction(self) -> Any:
        """The transaction of reads and writes, or None.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> store, transaction = ts.array([1, 2]), ts.Transaction()
        >>> store.with_transaction(transaction).transaction is transaction, store.transaction
        (True, None)
        >>> transaction.abort()
        """
        return self._transaction

    # Schema

    @property
    def url(self) -> str:
        """The URL that opens the array again, without the view.

        Raises
        ------
        UnsupportedError
            If the driver has no URLs, such as the driver ``array``.
        ArgumentError
            If the handle's transaction is no longer open.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> new = {"create": True, "dtype": ts.int8, "shape": [3]}
        >>> ts.open("memory://data/|zarr3:", **new).result()[1:].url
        'memory://data/|zarr3:'
        """
        self._check_open()
        return self._driver.url

    @property
    def chunk_layout(self) -> ChunkLayout:
        """The chunk layout of the array, along the dimensions of the view.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> layout = ts.ChunkLayout(write_chunk_shape=[8, 20], read_chunk_shape=[4, 5])
        >>> new = {"create": True, "dtype": ts.int8, "shape": [16, 20], "chunk_layout": layout}
        >>> store = ts.open("memory://|zarr3:", **new).result()
        >>> store.chunk_layout.read_chunk.shape, store.T.chunk_layout.write_chunk.shape
        ((4, 5), (20, 8))
        """
        layout: ChunkLayout | None = self._driver.chunk_layout
        if layout is None:
            return ChunkLayout(rank=self.rank)
        return ChunkLayout._of(self._view_layout(layout._constraints))

    def _view_layout(self, whole: LayoutConstraints) -> LayoutConstraints:
        """Return the driver's constraints, propagated through the view; cached."""
        cached = self._layout
        if cached is None or cached[0] is not whole:
            cached = self._layout = whole, propagate_layout(whole, self._view)
        return cached[1]

    @property
    def codec(self) -> CodecSpec | None:
        """The encoding of chunks, or None if the array has no chunks.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> new = {"create": True, "dtype": ts.int8, "shape": [3]}
        >>> ts.open("memory://|zarr3:", **new).result().codec
        CodecSpec({'codecs': [{'name': 'bytes'}], 'driver': 'zarr3'})
        >>> ts.array([1]).codec is None
        True
        """
        codec: CodecSpec | None = self._driver.codec
        return codec

    @property
    def fill_value(self) -> npt.NDArray[Any] | None:
        """The value of elements that are not stored; it broadcasts to the domain. None if unknown.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> new = {"create": True, "dtype": ts.int8, "shape": [3], "fill_value": 7}
        >>> store = ts.open("memory://|zarr3:", **new).result()
        >>> store.fill_value, store.read().result()
        (array(7, dtype=int8), array([7, 7, 7], dtype=int8))
        """
        fill = self._driver.fill_value
        if fill is None or not fill.ndim:
            return fill
        return propagate_array(fill, self._view, self._driver.domain)

    @property
    def dimension_units(self) -> Units:
        """The unit of one step along each dimension, or None.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> new = {"create": True, "dtype": ts.int8, "shape": [3, 9]}
        >>> store = ts.open("memory://|zarr3:", **new, dimension_units=["4 nm", None]).result()
        >>> store.dimension_units
        (Unit(4, "nm"), None)
        >>> store[:, 0].dimension_units
        (Unit(4, "nm"),)
        """
        return propagate_units(self._driver.dimension_units, self._view)

    @property
    def schema(self) -> Schema:
        """The schema of the view.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> schema = ts.array([[1, 2, 3]], ts.int16)[:, 1:].schema
        >>> schema.domain, schema.dtype
        ({ [0, 1), [1, 3) }, dtype("int16"))
        """
        whole = self._driver.schema
        return whole._propagate_fields(self._view, self._view_layout(whole._layout))

    def _check_open(self) -> None:
        """Raise an error if the handle's transaction is no longer open."""
        if self._transaction is not None:
            self._transaction._staging.check()
