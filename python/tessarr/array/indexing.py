"""How arrays are read and written: the forms of indexing."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from tessarr._engine import read_together
from tessarr.array.properties import Facts
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
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from tessarr._engine import Begun, Reading
    from tessarr.array.lazy import LazyArray
    from tessarr.flow.future import Future
    from tessarr.types import ArrayLike, FieldsLike, SelectionLike, Shape

__all__ = ["Selecting"]

FieldParts: TypeAlias = "tuple[tuple[int, int, int], ...]"

_Normalize: TypeAlias = "Callable[[Any, Shape], Selection]"


class Selecting(Facts):
    """An array as something to select from."""

    __slots__ = ()

    if TYPE_CHECKING:
        # What the engine offers (`tessarr._engine.ArrayBase`).
        _read: Callable[..., None]
        _reading: Callable[..., Reading]
        _write: Callable[..., None]
        _write_future: Callable[..., Begun]

    # Reading and writing

    def read(self, selection: SelectionLike = ..., out: Any = None) -> Future[Any]:
        """Start to read; wait with ``.result()`` or ``await``.

        Parameters
        ----------
        selection
            What might stand between the brackets; by default everything.
        out
            Where to put the result: a NumPy array or other memory of its shape, or an
            array that is stored. If its data type is another, NumPy's ``same_kind`` casts.

        Returns
        -------
        Future
            Of what ``a[selection]`` gives, or of `out`.

        Raises
        ------
        SelectionError
            At once, if the selection does not fit the array.
        ArgumentError
            At once, if `out` does not fit the selection.

        Examples
        --------
        >>> import tessarr
        >>> a = tessarr.create_array(None, shape=(9,), dtype="u1", fill_value=3)
        >>> rows, more = a.read(slice(2)), a.read(slice(2, 5))
        >>> rows.result(), more.result()
        (array([3, 3], dtype=uint8), array([3, 3, 3], dtype=uint8))
        """
        return self.read_by(select, selection, out)

    def read_by(
        self, normalize: _Normalize, key: Any, out: npt.NDArray[Any] | None = None
    ) -> Future[Any]:
        """Start to read what a key of any form selects."""
        chosen, fields = self._choose(normalize, key)
        buffer, finish = self._target(chosen, out, fields)
        from tessarr.flow.future import Future

        future: Future[Any] = Future(finish)
        if buffer.size:
            parts = fields.parts if fields else None
            try:
                read = self._reading(chosen.axes, chosen.out_axes, buffer, parts)
            except Exception as error:  # noqa: BLE001 (somebody has resized the array)
                future.set_exception(error)
            else:
                # A read into the memory of the caller happens even if the future is dropped.
                begun = read_together([read], [future], weak=out is None)
                future._work, future._leave = begun.help, begun.cancel
        else:
            future.set_result(buffer)
        return future

    def write(self, selection: SelectionLike, value: ArrayLike) -> Future[None]:
        """Start to write; wait with ``.result()`` or ``await``.

        Parameters
        ----------
        selection
            What might stand between the brackets.
        value
            Broadcast to the selection's shape. It must not be changed until the
            future is done. With a synchronizer it is stored when this returns.

        Returns
        -------
        Future
            Of None.

        Raises
        ------
        SelectionError, ArgumentError, ReadOnlyError
            At once, and before anything is stored.
        """
        return self.write_by(select, selection, value)

    def write_by(self, normalize: _Normalize, key: Any, value: ArrayLike) -> Future[None]:
        """Start to write what a key of any form selects."""
        self._check_writable()
        chosen, fields = self._choose(normalize, key)
        ready = self._ready(chosen, value, fields)
        from tessarr.flow.future import Future

        future: Future[None] = Future()
        parts = fields.parts if fields else None
        if ready.size and self._synchronizer is None:
            begun = self._write_future(chosen.axes, chosen.out_axes, ready, future, parts)
            future._work, future._leave = begun.help, begun.cancel
        else:
            if ready.size:
                self._put(chosen.axes, chosen.out_axes, ready, parts)
            future.set_result(None)
        return future

    def _getitem(self, key: Any) -> Any:
        """Read what the engine does not parse itself (called by it)."""
        return self._get(select, key)

    def _setitem(self, key: Any, value: Any) -> None:
        """Write what the engine does not parse itself (called by it)."""
        self._set(select, key, value)

    def _get(
        self,
        normalize: _Normalize,
        key: Any,
        out: Any = None,
        names: FieldsLike | None = None,
    ) -> Any:
        selection, fields = self._choose(normalize, key, names)
        buffer, finish = self._target(selection, out, fields)
        if buffer.size:
            parts = fields.parts if fields else None
            self._read(selection.axes, selection.out_axes, buffer, parts)
        return finish(buffer)

    def _set(
        self, normalize: _Normalize, key: Any, value: object, names: FieldsLike | None = None
    ) -> None:
        self._check_writable()
        selection, fields = self._choose(normalize, key, names)
        if fields is None and hasattr(value, "shape"):
            from tessarr import transfer

            if transfer.is_lazy(value, self.dtype):
                value = transfer.assign(self, selection, value)
                if value is None:  # region by region, that is
                    return
        ready = self._ready(selection, value, fields)
        if ready.size:
            self._put(selection.axes, selection.out_axes, ready, fields.parts if fields else None)

    def _put(
        self,
        axes: Sequence[AxisSelection],
        out_axes: Sequence[int | None],
        values: npt.NDArray[Any],
        parts: FieldParts | None = None,
    ) -> None:
        """Write as the engine does, with the locks of the chunks that are touched."""
        if self._synchronizer is None:
            self._write(axes, out_axes, values, parts)
            return
        from tessarr.node.synchronizer import chunk_keys, held

        with held(self._synchronizer, chunk_keys(self._meta, self._path, axes)):
            self._write(axes, out_axes, values, parts)

    def _choose(
        self, normalize: _Normalize, key: Any, names: FieldsLike | None = None
    ) -> tuple[Selection, Fields | None]:
        """Return which elements a key selects, and which of their fields if not all."""
        if not self._cache_metadata:
            self.refresh()
        meta = self._meta
        dtype = meta.data_type.numpy
        if names is None and dtype.names is not None:
            key, names = split_fields(key)
        fields = None if names is None else find_fields(names, dtype)
        return normalize(key, meta.shape), fields

    def _target(
        self, selection: Selection, out: Any, fields: Fields | None
    ) -> tuple[npt.NDArray[Any], Callable[[npt.NDArray[Any]], Any]]:
        if fields is None:
            return read_target(selection, self._meta.data_type.numpy, out)
        return fields.target(selection, out)

    def _ready(
        self, selection: Selection, value: object, fields: Fields | None
    ) -> npt.NDArray[Any]:
        if fields is None:
            data_type = self._meta.data_type
            given = data_type.to_numpy_input(value)
            return broadcast_value(given, selection, data_type.numpy, self._meta.fill_element)
        return fields.value(value, selection, self._meta.fill_element)

    # Other forms of indexing

    @property
    def lazy(self) -> LazyArray:
        """A view of the array, to be indexed without reading: see `LazyArray`.

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
        """Outer indexing: ``a.oindex[[0, 2], [1, 3]]`` takes columns 1 and 3 of rows 0 and 2."""
        return self._indexer(select_outer)

    @property
    def vindex(self) -> Indexer:
        """Indexing by points: ``a.vindex[[0, 2], [1, 3]]`` takes the elements (0, 1) and (2, 3)."""
        return self._indexer(select_points)

    @property
    def blocks(self) -> Indexer:
        """Indexing by chunks: ``a.blocks[0, 1:3]`` takes all of three chunks."""
        return self._indexer(self._block)

    def _indexer(self, normalize: _Normalize) -> Indexer:
        return Indexer(partial(self._get, normalize), partial(self._set, normalize))

    def _block(self, key: Any, shape: Shape) -> Selection:
        return select_blocks(key, shape, self._meta.chunk_cuts)

    def fields(self, names: FieldsLike) -> Indexer:
        """Return what reads and writes only some fields of records: ``a.fields("x")[:10]``.

        Parameters
        ----------
        names
            One name, or several, which make a record again.
        """
        return Indexer(
            lambda key: self._get(select, key, None, names),
            lambda key, value: self._set(select, key, value, names),
        )

    def get_basic_selection(
        self,
        selection: SelectionLike = ...,
        out: Any = None,
        fields: FieldsLike | None = None,
    ) -> Any:
        """Read by integers, slices, ``...`` and None; into `out`, if it is given.

        Of records, only `fields`: one name, or several.
        """
        return self._get(select_basic, selection, out, fields)

    def set_basic_selection(
        self, selection: SelectionLike, value: ArrayLike, fields: FieldsLike | None = None
    ) -> None:
        """Write by integers, slices, ``...`` and None; of records, only `fields`."""
        self._set(select_basic, selection, value, fields)

    def get_orthogonal_selection(
        self,
        selection: SelectionLike,
        out: Any = None,
        fields: FieldsLike | None = None,
    ) -> Any:
        """Read as `oindex` does; into `out`, if it is given; of records, only `fields`."""
        return self._get(select_outer, selection, out, fields)

    def set_orthogonal_selection(
        self, selection: SelectionLike, value: ArrayLike, fields: FieldsLike | None = None
    ) -> None:
        """Write as `oindex` does; of records, only `fields`."""
        self._set(select_outer, selection, value, fields)

    def get_coordinate_selection(
        self,
        selection: SelectionLike,
        out: Any = None,
        fields: FieldsLike | None = None,
    ) -> Any:
        """Read as `vindex` does; into `out`, if it is given; of records, only `fields`."""
        return self._get(select_points, selection, out, fields)

    def set_coordinate_selection(
        self, selection: SelectionLike, value: ArrayLike, fields: FieldsLike | None = None
    ) -> None:
        """Write as `vindex` does; of records, only `fields`."""
        self._set(select_points, selection, value, fields)

    def get_mask_selection(
        self,
        mask: ArrayLike,
        out: Any = None,
        fields: FieldsLike | None = None,
    ) -> Any:
        """Read where a mask of the array's shape is true; `out` and `fields` as elsewhere."""
        return self._get(mask_axes, mask, out, fields)

    def set_mask_selection(
        self, mask: ArrayLike, value: ArrayLike, fields: FieldsLike | None = None
    ) -> None:
        """Write where a mask of the array's shape is true; of records, only `fields`."""
        self._set(mask_axes, mask, value, fields)

    def get_block_selection(
        self,
        selection: SelectionLike,
        out: Any = None,
        fields: FieldsLike | None = None,
    ) -> Any:
        """Read as `blocks` does; into `out`, if it is given; of records, only `fields`."""
        return self._get(self._block, selection, out, fields)

    def set_block_selection(
        self, selection: SelectionLike, value: ArrayLike, fields: FieldsLike | None = None
    ) -> None:
        """Write as `blocks` does; of records, only `fields`."""
        self._set(self._block, selection, value, fields)
