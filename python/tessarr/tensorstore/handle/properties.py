"""Properties of a handle: its domain, the schema of its view, and its spec."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, Unpack

from tessarr.errors import ArgumentError, UnsupportedError
from tessarr.format.registry import with_keywords
from tessarr.index_space import Bounded, Indexable
from tessarr.tensorstore.context.references import STRIP_RESOURCES
from tessarr.tensorstore.json.format_json import format_repr
from tessarr.tensorstore.json.parse import as_bool
from tessarr.tensorstore.schema.chunk_layout import ChunkLayout
from tessarr.tensorstore.schema.data_type import dtype as DataType  # noqa: N812
from tessarr.tensorstore.schema.layout_constraints import propagate_layout
from tessarr.tensorstore.schema.propagate import propagate_array
from tessarr.tensorstore.schema.units import propagate_units
from tessarr.tensorstore.spec.driver_spec import OpenKeywords, driver_spec
from tessarr.tensorstore.spec.serialize import to_minimal_json
from tessarr.tensorstore.spec.spec import Spec

if TYPE_CHECKING:
    import numpy.typing as npt

    from tessarr.index_space import IndexDomain, IndexTransform, View
    from tessarr.tensorstore.driver import Driver
    from tessarr.tensorstore.schema.codec_spec import CodecSpec
    from tessarr.tensorstore.schema.data_type import DTypeLike
    from tessarr.tensorstore.schema.layout_constraints import LayoutConstraints
    from tessarr.tensorstore.schema.schema import Schema
    from tessarr.tensorstore.schema.units import Units

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


class HandleProperties(Bounded, Indexable):
    """Properties of a handle that need no request: a driver and a view of it."""

    __slots__ = ("__weakref__", "_driver", "_layout", "_mode", "_transaction", "_view")

    _driver: Driver
    _view: IndexTransform
    _mode: str
    _transaction: Any
    _layout: tuple[LayoutConstraints, LayoutConstraints] | None  # of the driver, of the view

    def _as_view(self) -> View:
        return self._view._view

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

    ndim = rank

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
    def kvstore(self) -> Any:
        """The key-value store of the array, or None.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> spec = {"driver": "zarr3", "kvstore": "memory://a/"}
        >>> store = ts.open(spec, create=True, dtype=ts.int8, shape=[4]).result()
        >>> store.kvstore.url, store.kvstore.list().result()
        ('memory://a/', [b'zarr.json'])
        """
        kvstore = self._driver.kvstore
        if kvstore is None:
            return None
        if self._transaction is None:
            return kvstore.copy()
        return kvstore.with_transaction(self._transaction)

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

    def astype(self, dtype: DTypeLike) -> Self:
        """Return a view with another data type; see `cast`.

        Parameters
        ----------
        dtype
            The data type of the view.

        Raises
        ------
        ArgumentError
            If the elements convert neither to `dtype` nor back.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> store = ts.array([3, 4], ts.int32)
        >>> view = store.astype(ts.float64)
        >>> view[0] = 7.9
        >>> view.read().result(), store.read().result()
        (array([7., 4.]), array([7, 4], dtype=int32))
        """
        cast: Any = driver_spec("cast")
        view: Self = cast.wrap_handle(self, DataType(dtype))
        return view

    # Spec

    @with_keywords(__name__)
    def spec(
        self,
        *,
        minimal_spec: bool | None = None,
        retain_context: bool | None = None,
        unbind_context: bool | None = None,
        **keywords: Unpack[OpenKeywords],
    ) -> Spec:
        """Return a spec that opens or creates this array again.

        Parameters
        ----------
        minimal_spec
            Whether to omit metadata that opening reads from the store.
        retain_context
            Whether the spec keeps the resources of this handle.
        unbind_context
            Whether the JSON names shared resources.
        **keywords
            The open mode, as for `open`.

        Raises
        ------
        ArgumentError
            If the handle's transaction is no longer open.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> new = {"create": True, "dtype": ts.int8, "shape": [6]}
        >>> store = ts.open("memory://data/|zarr3:", **new).result()
        >>> store[2:4].spec(minimal_spec=True).to_json()["transform"]
        {'input_exclusive_max': [4], 'input_inclusive_min': [2]}
        >>> store.spec(create=True).open_mode
        OpenMode(create=True)
        """
        self._check_open()
        retains = as_bool(retain_context, "retain_context")
        unbinds = as_bool(unbind_context, "unbind_context")
        minimal = as_bool(minimal_spec, "minimal_spec")
        spec = self._spec(minimal=minimal, bound=retains or unbinds)
        if keywords:
            spec.update(**keywords)
        return spec._unbind() if unbinds else spec

    def _spec(self, *, minimal: bool = False, bound: bool = True) -> Spec:
        """Return the spec; with `bound`, it has the resources of this handle."""
        driver = self._driver
        if self._transaction is not None:
            driver = driver.with_staged_bounds(self._transaction)
        spec, view = driver_spec(driver.name).of(driver, self._view, minimal=minimal)
        return Spec._of(spec if bound else spec.change_resources(STRIP_RESOURCES), view, None)

    def __repr__(self) -> str:
        try:
            return format_repr("TensorStore", to_minimal_json(self._spec()))
        # another array has replaced this one, or functions have no JSON
        except (ArgumentError, UnsupportedError):
            return "TensorStore(...)"

    def _check_no_transaction(self) -> None:
        if self._transaction is not None:
            raise ArgumentError("a handle with a transaction cannot be pickled")

    def _reopening_spec(self) -> tuple[Spec, IndexTransform]:
        """Return the spec that reopens the array, and the view."""
        spec, view = driver_spec(self._driver.name).of(self._driver, self._view, minimal=False)
        # Like TensorStore, this reads nothing.
        return Spec._of(spec.with_assumed_metadata(), None), view
