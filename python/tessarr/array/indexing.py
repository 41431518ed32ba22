"""Reading and writing of selections: all forms of indexing of an array."""

from __future__ import annotations

from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias, overload

from tessarr._engine import prepare_basic_read, start_reads
from tessarr.array.properties import ArrayProperties
from tessarr.indexing import (
    AxisSelection,
    Fields,
    Indexer,
    Selection,
    broadcast_value,
    find_fields,
    read_target,
    select,
    select_basic,
    select_blocks,
    select_outer,
    select_points,
    split_fields,
)
from tessarr.indexing import (
    select_mask as mask_axes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy.typing as npt

    from tessarr._engine import PendingTransfer, PreparedRead
    from tessarr.array.lazy import LazyArray
    from tessarr.array.small_reads import SmallReads
    from tessarr.flow.future import Future
    from tessarr.types import ArrayKey, ArrayLike, FieldsLike, SelectionLike, Shape

__all__ = ["ArrayIndexing"]

FieldParts: TypeAlias = "tuple[tuple[int, int, int], ...]"

_Normalize: TypeAlias = "Callable[[Any, Shape], Selection]"


_get_item: Final = itemgetter(())
"""Return the scalar of an array of rank 0."""


class ArrayIndexing(ArrayProperties):
    """Reading and writing of selections."""

    __slots__ = ()

    if TYPE_CHECKING:
        # Methods of the engine's base class `tessarr._engine.ArrayBase`.
        _read: Callable[..., None]
        _prepare_read: Callable[..., PreparedRead]
        _write: Callable[..., None]
        _write_future: Callable[..., PendingTransfer]
        _small_reads: SmallReads | None
        _create_small_reads: Callable[[], SmallReads]

    # Reading and writing

    @overload
    def read(self, selection: ArrayKey = ..., out: None = None) -> Future[npt.NDArray[Any]]: ...
    @overload
    def read(self, selection: SelectionLike = ..., out: Any = None) -> Future[Any]: ...
    def read(self, selection: SelectionLike = ..., out: Any = None) -> Future[Any]:
        """Start to read a selection; wait with ``.result()`` or ``await``.

        Parameters
        ----------
        selection
            A key of the array; by default everything.
        out
            The destination: a NumPy array or other memory of the result's shape, or a stored array.
            A different data type is cast by NumPy's rule ``same_kind``.

        Returns
        -------
        Future
            A future of the value of ``a[selection]``, or of `out`.

        Raises
        ------
        SelectionError
            Immediately, if the selection does not fit the array.
        ArgumentError
            Immediately, if `out` does not fit the selection.

        Examples
        --------
        >>> import tessarr
        >>> a = tessarr.create_array(None, shape=(9,), dtype="u1", fill_value=3)
        >>> rows, more = a.read(slice(2)), a.read(slice(2, 5))
        >>> rows.result(), more.result()
        (array([3, 3], dtype=uint8), array([3, 3, 3], dtype=uint8))
        """
        return self.start_read(select, selection, out)

    def start_read(
        self, normalize: _Normalize, key: Any, out: npt.NDArray[Any] | None = None
    ) -> Future[Any]:
        """Start to read the selection of a key."""
        if not self._cache_metadata:
            self.refresh()
        read, finish = self._plan_read(normalize, key, out)
        from tessarr.flow.future import Future

        future: Future[Any] = Future(finish)
        small_reads = self._small_reads or self._create_small_reads()
        is_small = small_reads.is_small(read, self._meta)
        if read.is_empty or (is_small and small_reads.runs_at_once(self._meta)):
            try:
                future.set_result(read.run())
            except Exception as error:  # noqa: BLE001 (the future reports it)
                future.set_exception(error)
        else:
            # The engine completes a read into the caller's memory without the future, too.
            pending = start_reads([read], [future], coalesce=is_small, weak=out is None)
            future._work, future._leave = pending.help, pending.cancel
        small_reads.record(future)
        return future

    def _plan_read(
        self, normalize: _Normalize, key: Any, out: Any
    ) -> tuple[PreparedRead, Callable[[Any], Any] | None]:
        """Return a read of the known array, and a function from its result to the value."""
        if out is None and normalize is select:
            read = prepare_basic_read(self, key)
            if read is not None:
                return read, _get_item if read.is_scalar else None
        selection, fields = self._select_key(normalize, key)
        buffer, finish = self._read_buffer(selection, out, fields)
        parts = fields.parts if fields else None
        return self._prepare_read(selection.axes, selection.out_axes, buffer, parts), finish

    def read_many(
        self, selections: Iterable[SelectionLike], out: Any = None, *, stack: bool = False
    ) -> Any:
        """Read many selections in one call of the engine; it decodes each chunk once.

        Parameters
        ----------
        selections
            Keys of the array.
        out
            The destinations: an array whose first axis has one entry for each selection, or a list
            of one destination for each selection, as for `read`. By default new arrays.
        stack
            Whether the result is one new array instead of a list. All selections then have the
            same shape.

        Returns
        -------
        list or numpy.ndarray
            A list with the value of ``a[selection]`` for each selection; with `stack`, one array
            whose first axis has one entry for each selection; or `out`.

        Raises
        ------
        SelectionError
            If a selection does not fit the array.
        ArgumentError
            If `out` does not fit the selections, or if `stack` is true and the shapes differ.

        See Also
        --------
        tessarr.read_many : Selections of several arrays.

        Examples
        --------
        >>> import tessarr
        >>> a = tessarr.array([1, 2, 3, 4, 5, 6], chunks=2)
        >>> a.read_many([slice(2), slice(1, 4)])
        [array([1, 2]), array([2, 3, 4])]
        >>> a.read_many([slice(i, i + 2) for i in (4, 0)], stack=True)
        array([[5, 6], [1, 2]])
        """
        from tessarr.array.read_many import read_pairs

        array: Any = self
        return read_pairs([(array, selection) for selection in selections], out, stack=stack)

    def write(self, selection: SelectionLike, value: ArrayLike) -> Future[None]:
        """Start to write a selection; wait with ``.result()`` or ``await``.

        Parameters
        ----------
        selection
            A key of the array.
        value
            The values, which are broadcast to the selection's shape. Do not change them until the
            future is done. With a synchronizer, the method returns after it has stored them.

        Returns
        -------
        Future
            A future of None.

        Raises
        ------
        SelectionError, ArgumentError, ReadOnlyError
            Immediately, and before any change of the store.
        """
        return self.start_write(select, selection, value)

    def start_write(self, normalize: _Normalize, key: Any, value: ArrayLike) -> Future[None]:
        """Start to write to the selection of a key."""
        self._check_writable()
        selection, fields = self._parse_key(normalize, key)
        values = self._prepare_values(selection, value, fields)
        from tessarr.flow.future import Future

        future: Future[None] = Future()
        field_parts = fields.parts if fields else None
        if values.size and self._synchronizer is None:
            pending = self._write_future(
                selection.axes, selection.out_axes, values, future, field_parts
            )
            future._work, future._leave = pending.help, pending.cancel
        else:
            if values.size:
                self._write_locked(selection.axes, selection.out_axes, values, field_parts)
            future.set_result(None)
        return future

    def _getitem(self, key: Any) -> Any:
        """Read a key that the engine does not parse itself (called by the engine)."""
        return self._read_key(select, key)

    def _setitem(self, key: Any, value: Any) -> None:
        """Write to a key that the engine does not parse itself (called by the engine)."""
        self._write_key(select, key, value)

    def _read_key(
        self,
        normalize: _Normalize,
        key: Any,
        out: Any = None,
        names: FieldsLike | None = None,
    ) -> Any:
        selection, fields = self._parse_key(normalize, key, names)
        buffer, finish = self._read_buffer(selection, out, fields)
        if buffer.size:
            parts = fields.parts if fields else None
            self._read(selection.axes, selection.out_axes, buffer, parts)
        return finish(buffer)

    def _write_key(
        self, normalize: _Normalize, key: Any, value: object, names: FieldsLike | None = None
    ) -> None:
        self._check_writable()
        selection, fields = self._parse_key(normalize, key, names)
        if fields is None and hasattr(value, "shape"):
            from tessarr import transfer

            if transfer.is_lazy(value, self.dtype):
                value = transfer.assign_array(self, selection, value)
                if value is None:  # the copy region by region is done
                    return
        values = self._prepare_values(selection, value, fields)
        if values.size:
            self._write_locked(
                selection.axes, selection.out_axes, values, fields.parts if fields else None
            )

    def _write_locked(
        self,
        axes: Sequence[AxisSelection],
        out_axes: Sequence[int | None],
        values: npt.NDArray[Any],
        parts: FieldParts | None = None,
    ) -> None:
        """Write with the locks of all chunks that the selection touches."""
        if self._synchronizer is None:
            self._write(axes, out_axes, values, parts)
            return
        from tessarr.node.synchronizer import hold_locks, touched_chunk_keys

        with hold_locks(self._synchronizer, touched_chunk_keys(self._meta, self._path, axes)):
            self._write(axes, out_axes, values, parts)

    def _parse_key(
        self, normalize: _Normalize, key: Any, names: FieldsLike | None = None
    ) -> tuple[Selection, Fields | None]:
        """Return the selection of a key of the current array: see `_select_key`."""
        if not self._cache_metadata:
            self.refresh()
        return self._select_key(normalize, key, names)

    def _select_key(
        self, normalize: _Normalize, key: Any, names: FieldsLike | None = None
    ) -> tuple[Selection, Fields | None]:
        """Return the selection of a key, and the fields of records if it names some."""
        meta = self._meta
        dtype = meta.data_type.numpy
        if names is None and dtype.names is not None:
            key, names = split_fields(key)
        fields = None if names is None else find_fields(names, dtype)
        return normalize(key, meta.shape), fields

    def _read_buffer(
        self, selection: Selection, out: Any, fields: Fields | None
    ) -> tuple[npt.NDArray[Any], Callable[[npt.NDArray[Any]], Any]]:
        if fields is None:
            return read_target(selection, self._meta.data_type.numpy, out)
        return fields.target(selection, out)

    def _prepare_values(
        self, selection: Selection, value: object, fields: Fields | None
    ) -> npt.NDArray[Any]:
        if fields is None:
            data_type = self._meta.data_type
            values = data_type.to_numpy_input(value)
            return broadcast_value(values, selection, data_type.numpy, self._meta.fill_element)
        return fields.value(value, selection, self._meta.fill_element)

    # Other forms of indexing

    @property
    def lazy(self) -> LazyArray:
        """A lazy view of the array: see `LazyArray`.

        Examples
        --------
        >>> import tessarr
        >>> tessarr.ones((4, 6), chunks=2).lazy[1:, ::2]
        LazyArray((3, 3), float64)
        """
        from tessarr.array.lazy import LazyArray

        return LazyArray(self)

    @property
    def oindex(self) -> Indexer:
        """Outer indexing: ``a.oindex[[0, 2], [1, 3]]`` selects columns 1 and 3 of rows 0 and 2."""
        return self._indexer(select_outer)

    @property
    def vindex(self) -> Indexer:
        """Indexing by points: ``a.vindex[[0, 2], [1, 3]]`` selects elements (0, 1) and (2, 3)."""
        return self._indexer(select_points)

    @property
    def blocks(self) -> Indexer:
        """Indexing by chunks: ``a.blocks[0, 1:3]`` selects two whole chunks."""
        return self._indexer(self._select_blocks)

    def _indexer(self, normalize: _Normalize) -> Indexer:
        return Indexer(partial(self._read_key, normalize), partial(self._write_key, normalize))

    def _select_blocks(self, key: Any, shape: Shape) -> Selection:
        return select_blocks(key, shape, self._meta.chunk_cuts)

    def fields(self, names: FieldsLike) -> Indexer:
        """Return an indexer for some fields of records: ``a.fields("x")[:10]``.

        Parameters
        ----------
        names
            One name, or several names, which select records with these fields.
        """
        return Indexer(
            lambda key: self._read_key(select, key, None, names),
            lambda key, value: self._write_key(select, key, value, names),
        )

    def get_basic_selection(
        self,
        selection: SelectionLike = ...,
        out: Any = None,
        fields: FieldsLike | None = None,
    ) -> Any:
        """Read by integers, slices, ``...`` and None, into `out` if it is not None.

        `fields` selects some fields of records: one name, or several.
        """
        return self._read_key(select_basic, selection, out, fields)

    def set_basic_selection(
        self, selection: SelectionLike, value: ArrayLike, fields: FieldsLike | None = None
    ) -> None:
        """Write by integers, slices, ``...`` and None; `fields` selects fields of records."""
        self._write_key(select_basic, selection, value, fields)

    def get_orthogonal_selection(
        self,
        selection: SelectionLike,
        out: Any = None,
        fields: FieldsLike | None = None,
    ) -> Any:
        """Read as `oindex` does; `out` and `fields` as for `get_basic_selection`."""
        return self._read_key(select_outer, selection, out, fields)

    def set_orthogonal_selection(
        self, selection: SelectionLike, value: ArrayLike, fields: FieldsLike | None = None
    ) -> None:
        """Write as `oindex` does; `fields` selects fields of records."""
        self._write_key(select_outer, selection, value, fields)

    def get_coordinate_selection(
        self,
        selection: SelectionLike,
        out: Any = None,
        fields: FieldsLike | None = None,
    ) -> Any:
        """Read as `vindex` does; `out` and `fields` as for `get_basic_selection`."""
        return self._read_key(select_points, selection, out, fields)

    def set_coordinate_selection(
        self, selection: SelectionLike, value: ArrayLike, fields: FieldsLike | None = None
    ) -> None:
        """Write as `vindex` does; `fields` selects fields of records."""
        self._write_key(select_points, selection, value, fields)

    def get_mask_selection(
        self,
        mask: ArrayLike,
        out: Any = None,
        fields: FieldsLike | None = None,
    ) -> Any:
        """Read where a mask of the array's shape is true; see `get_basic_selection`."""
        return self._read_key(mask_axes, mask, out, fields)

    def set_mask_selection(
        self, mask: ArrayLike, value: ArrayLike, fields: FieldsLike | None = None
    ) -> None:
        """Write where a mask of the array's shape is true; `fields` selects fields of records."""
        self._write_key(mask_axes, mask, value, fields)

    def get_block_selection(
        self,
        selection: SelectionLike,
        out: Any = None,
        fields: FieldsLike | None = None,
    ) -> Any:
        """Read as `blocks` does; `out` and `fields` as for `get_basic_selection`."""
        return self._read_key(self._select_blocks, selection, out, fields)

    def set_block_selection(
        self, selection: SelectionLike, value: ArrayLike, fields: FieldsLike | None = None
    ) -> None:
        """Write as `blocks` does; `fields` selects fields of records."""
        self._write_key(self._select_blocks, selection, value, fields)
