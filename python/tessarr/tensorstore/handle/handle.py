"""The handle of an array: `TensorStore`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn

import numpy as np

from tessarr._safe_repr import safe_repr
from tessarr.errors import (
    ArgumentError,
    OutOfMemoryError,
    ReadOnlyError,
    TessarrError,
    UnsupportedError,
)
from tessarr.format.registry import set_public_module
from tessarr.index_space import Assignable, IndexTransform, View
from tessarr.index_space.dimension_names import as_integer
from tessarr.tensorstore.batch import Batch
from tessarr.tensorstore.driver import NO_SCOPE, Driver, OperationScope, ResizeRequest, StorageQuery
from tessarr.tensorstore.future.combine import convert_result
from tessarr.tensorstore.future.future import Future, failed
from tessarr.tensorstore.future.write_futures import WriteFutures
from tessarr.tensorstore.handle.align import broadcast_values
from tessarr.tensorstore.handle.copy_elements import start_copy
from tessarr.tensorstore.handle.properties import HandleProperties, StorageStatistics
from tessarr.tensorstore.handle.source_values import convert_source
from tessarr.tensorstore.json.parse import as_bool, check_class
from tessarr.tensorstore.ndarray_views import allocation_error, empty
from tessarr.tensorstore.schema.propagate import mark_explicit, propagate_bounds
from tessarr.tensorstore.spec.driver_spec import OpenRequest
from tessarr.tensorstore.spec.serialize import pickled_json
from tessarr.tensorstore.spec.spec import Spec
from tessarr.tensorstore.transaction.transaction import (
    Transaction,
    replace_transaction,
    run_in_transaction,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from tessarr.tensorstore.driver import Driver

__all__ = ["TensorStore", "build_handle"]


_PICKLED_COUNT: Final = 5  # the spec, its context, the mode, and the two parts of the view


class TensorStore(HandleProperties):
    """An array, or a view of one, that is read and written asynchronously.

    `open` and the indexing of another handle return handles.

    Notes
    -----
    Indexing reads and copies nothing. Positions are those of the domain: negative integers do not
    count from the end, and ``store[2:5]`` starts at 2. Several threads may use one handle.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> spec = {"driver": "zarr3", "kvstore": "memory://"}
    >>> store = ts.open(spec, create=True, dtype=ts.uint8, shape=[100, 60]).result()
    >>> store[10:12, 20:23] = [[1, 2, 3], [4, 5, 6]]
    >>> view = store[11, 20:24]
    >>> view.domain, view.read().result()
    ({ [20, 24) }, array([4, 5, 6, 0], dtype=uint8))
    """

    __slots__ = ()

    def __new__(cls, *pickled: Any) -> TensorStore:  # noqa: PYI034
        if len(pickled) != _PICKLED_COUNT:
            raise TypeError("call open to get a TensorStore")
        json, context, mode, *plain = pickled
        return _reopen(Spec(json), context, IndexTransform._of_view(View(*plain)), mode)

    # Indexing

    def _with_view(self, view: View) -> TensorStore:
        return build_handle(self._driver, view, self._mode, self._transaction)

    def __setitem__(self, key: Any, source: Any) -> None:
        self[key].write(source).result()

    @property
    def oindex(self) -> Assignable[TensorStore]:
        """Index each dimension by its own array: the outer product.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> store = ts.array([[0, 1, 2], [10, 11, 12], [20, 21, 22]])
        >>> store.oindex[[2, 0], [1, 2]].read().result().tolist()
        [[21, 22], [1, 2]]
        >>> store.oindex[[0, 1], 2] = [7, 8]
        >>> store.read().result().tolist()
        [[0, 1, 7], [10, 11, 8], [20, 21, 22]]
        """
        return Assignable(self, "oindex")

    @property
    def vindex(self) -> Assignable[TensorStore]:
        """Index by arrays that are broadcast together; their dimensions come first.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> store = ts.array([[0, 1, 2], [10, 11, 12], [20, 21, 22]])
        >>> store.vindex[[2, 0], [1, 2]].read().result().tolist()
        [21, 2]
        >>> store.vindex[[0, 1], [0, 0]] = 5
        >>> store.read().result().tolist()
        [[5, 1, 2], [5, 11, 12], [20, 21, 22]]
        """
        return Assignable(self, "vindex")

    # Base

    @property
    def base(self) -> TensorStore | None:
        """The handle that this view is based on, such as the base of a cast; None otherwise.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> store = ts.array([1.5, 2.5])
        >>> store.astype(ts.int8).base.dtype, store.base
        (dtype("float64"), None)
        """
        base: TensorStore | None = self._driver.base_of(self._view)
        if base is None:
            return None
        return build_handle(base._driver, base._view, self._mode, self._transaction)

    # Reading and writing

    def _scope(self, batch: Any) -> OperationScope:
        if self._transaction is None and batch is None:
            return NO_SCOPE
        collecting = check_class(batch, Batch, "batch")
        if collecting is not None:
            collecting._check()
        return OperationScope(self._transaction, collecting)

    def _with_current_bounds(self, scope: OperationScope) -> TensorStore:
        """Return the handle with the current bounds, as far as they are known."""
        driver, view = self._driver.refresh_bounds(self._view, scope)
        if view is self._view and driver is self._driver:
            return self
        return build_handle(driver, view, self._mode, self._transaction)

    def read(
        self,
        *,
        order: Literal["C", "F"] = "C",
        batch: Any = None,
        out: npt.NDArray[Any] | None = None,
    ) -> Future[npt.NDArray[Any]]:
        """Start to read all elements.

        Parameters
        ----------
        order
            The memory layout of the new array.
        batch
            Collects reads until it is submitted; the future waits for that.
        out
            The output array, of the same shape and data type; by default a new array.

        Returns
        -------
        Future
            The future of the array; its first element is the element at the origin.

        Raises
        ------
        ReadOnlyError
            From the future, if the handle is for writing only.
        ArgumentError
            From the call: ``shape_mismatch`` if `out` does not fit (from the future if a batch
            refreshes the bounds), ``invalid_argument`` if the batch was submitted. From the
            future: ``out_of_bounds`` if the array shrank.
        DataError, StoreError
            From the future, if stored data is damaged or cannot be read.
        OutOfMemoryError
            From the future, if the new array does not fit into memory.

        Notes
        -----
        Each chunk in the view needs one request, or a few requests for parts of a shard. Missing
        chunks have the fill value.

        Examples
        --------
        >>> import numpy as np
        >>> import tessarr.tensorstore as ts
        >>> store = ts.array(np.arange(12).reshape(3, 4))
        >>> store[1:, ::2].read().result()
        array([[ 4,  6],
               [ 8, 10]])
        >>> into = np.zeros(4, "int64")
        >>> store[2].read(out=into).result() is into, into.tolist()
        (True, [8, 9, 10, 11])
        """
        if "r" not in self._mode:
            return failed(ReadOnlyError("the handle was opened for writing only: it cannot read"))
        if order not in {"C", "F"}:
            raise TypeError(f"order {safe_repr(order)} is not 'C' or 'F'")
        scope = self._scope(batch)
        read = partial(self._read, order, out)
        stale = [] if scope.batch is None else self._driver.stale_documents(scope)
        start = partial(scope.start, read, stale, reads=True) if stale else partial(read, scope)
        return run_in_transaction(self._transaction, start)

    def _read(
        self, order: str, out: npt.NDArray[Any] | None, scope: OperationScope
    ) -> Future[npt.NDArray[Any]]:
        """Start to read all elements within the current bounds."""
        try:
            now = self._with_current_bounds(scope)
        except TessarrError as error:
            return failed(error)
        if out is not None:
            if out.shape != now.shape or out.dtype != now.dtype.dtype:
                raise ArgumentError(
                    f"out has shape {out.shape} and data type {out.dtype}, the view "
                    f"{now.shape} and {now.dtype.name}",
                    kind="shape_mismatch",
                )
        elif order == "F":
            try:
                out = empty(now.shape, now.dtype.dtype, "F")
            except OutOfMemoryError as error:
                return failed(allocation_error(error, now._view))
        return now._driver.read(now._view, out, scope)

    def write(
        self,
        source: Any,
        *,
        batch: Any = None,
        can_reference_source_data_indefinitely: bool | None = None,
    ) -> WriteFutures:
        """Start to write all elements.

        Parameters
        ----------
        source
            Values, which are broadcast to the domain, or another `TensorStore`. The write aligns
            the dimensions of another `TensorStore` with its own and copies part by part. Arrays
            need a data type that NumPy casts safely.
        batch
            Collects the reads of another `TensorStore`.
        can_reference_source_data_indefinitely
            Whether the source never changes, so that the write may reference it until everything is
            stored.

        Returns
        -------
        WriteFutures
            The futures of the copy of the source, and of the commit to the store.

        Raises
        ------
        TypeError
            If NumPy cannot cast the values safely.
        ArgumentError
            From the call: ``shape_mismatch`` if the values do not broadcast to the domain,
            ``cannot_cast`` if a value does not fit the data type, ``invalid_argument`` if `batch`
            is used for values. From the futures: ``out_of_bounds`` if the array shrank.
        ReadOnlyError
            If the handle is for reading only.
        DataError, StoreError
            From the futures, if a partly written chunk is damaged, or a chunk cannot be stored.

        Notes
        -----
        The write reads only chunks that it covers partly, and replaces each chunk atomically.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> store = ts.array([[0, 0, 0], [0, 0, 0]])
        >>> writing = store[:, 1].write([5, 6])
        >>> writing.result()
        >>> store[0].write(store[1]).result()  # another handle
        >>> store.read().result().tolist()
        [[0, 6, 0], [0, 6, 0]]
        """
        if batch is not None and not isinstance(source, TensorStore):
            raise ArgumentError("batch: a write of values sends no read to collect")
        stored = isinstance(source, TensorStore)
        values = None if stored else convert_source(source, self._driver.dtype, self.rank)
        scope = self._scope(None)
        try:
            now = self._with_current_bounds(scope)
            origin = source._with_current_bounds(source._scope(batch)) if stored else None
        except TessarrError as error:
            return WriteFutures._of(failed(error), failed(error))
        if values is not None:
            values = broadcast_values(values, now.domain)
        if "w" not in self._mode:
            raise ReadOnlyError("the handle was opened for reading only: it cannot write")
        if values is None:
            start_operation = partial(start_copy, origin, now)
            return run_in_transaction(
                self._transaction, partial(run_in_transaction, source._transaction, start_operation)
            )
        start = partial(now._driver.write, now._view, values, scope)
        return run_in_transaction(self._transaction, start)

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None, context: Any = None
    ) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("reading elements always copies them: pass copy=None or True")
        return np.asarray(self.read().result(), dtype=dtype)

    # Bounds

    def resolve(
        self,
        fix_resizable_bounds: bool = False,  # noqa: FBT002
        batch: Any = None,
    ) -> Future[TensorStore]:
        """Refresh the resizable bounds if they are stale.

        Parameters
        ----------
        fix_resizable_bounds
            Whether the bounds become explicit.
        batch
            Collects reads until it is submitted.

        Returns
        -------
        Future
            The future of a handle with the current bounds.

        Raises
        ------
        ArgumentError
            From the future, if another array was created at the same location.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> spec = {"driver": "zarr3", "kvstore": "memory://"}
        >>> store = ts.open(spec, create=True, dtype=ts.int8, shape=[4]).result()
        >>> _ = store.resize(exclusive_max=[9]).result()
        >>> store.domain, store.resolve().result().domain
        ({ [0, 4*) }, { [0, 9*) })
        >>> store.resolve(fix_resizable_bounds=True).result().domain
        { [0, 9) }
        """
        scope = self._scope(batch)
        start_operation = partial(self._driver.resolve, scope)
        fix = as_bool(fix_resizable_bounds, "fix_resizable_bounds")
        future = run_in_transaction(self._transaction, start_operation)
        return convert_result(
            future, partial(self._with_explicit_bounds, scope) if fix else self._with_bounds_of
        )

    def _with_bounds_of(self, driver: Driver) -> TensorStore:
        view = propagate_bounds(self._view, driver.domain)
        return build_handle(driver, view, self._mode, self._transaction)

    def _with_explicit_bounds(self, scope: OperationScope, driver: Driver) -> TensorStore:
        """Return a handle with explicit bounds, after a check that it can be read."""
        now = self._with_bounds_of(driver)._with_current_bounds(scope)
        return build_handle(
            now._driver, mark_explicit(now._view, now._driver.domain), self._mode, self._transaction
        )

    def resize(  # noqa: PLR0917 (TensorStore's signature)
        self,
        inclusive_min: Iterable[int | None] | None = None,
        exclusive_max: Iterable[int | None] | None = None,
        resize_metadata_only: bool = False,  # noqa: FBT002
        resize_tied_bounds: bool = False,  # noqa: FBT002
        expand_only: bool = False,  # noqa: FBT002
        shrink_only: bool = False,  # noqa: FBT002
    ) -> Future[TensorStore]:
        """Change the stored bounds, for all users of the array.

        Parameters
        ----------
        inclusive_min, exclusive_max
            The new bounds; None leaves a bound unchanged. Only implicit bounds can change.
        resize_metadata_only
            Whether chunks outside the new bounds stay stored.
        resize_tied_bounds
            Whether elements outside this view, or of other fields, may appear or disappear.
        expand_only, shrink_only
            Raise an error instead of shrinking, or growing, a dimension.

        Returns
        -------
        Future
            The future of a handle with the new bounds. This handle keeps its bounds.

        Raises
        ------
        ReadOnlyError, UnsupportedError
            From the future, if the handle is for reading only, or the driver cannot resize.
        ArgumentError
            From the future (``invalid_argument``), if a bound is explicit or an option forbids the
            change.

        Notes
        -----
        The resize replaces the metadata document. It deletes chunks outside the new bounds one by
        one, unless `resize_metadata_only` is true.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> spec = {"driver": "zarr3", "kvstore": "memory://"}
        >>> store = ts.open(spec, create=True, dtype=ts.int8, shape=[4, 5]).result()
        >>> store.resize(exclusive_max=[None, 8]).result().shape, store.shape
        ((4, 8), (4, 5))
        >>> store.resize(exclusive_max=[2, 5], expand_only=True).exception()
        ArgumentError('FAILED_PRECONDITION: dimension 0 would be resized from 4 to 2, ...')
        """
        bounds = _read_bounds(inclusive_min), _read_bounds(exclusive_max)
        metadata_only = as_bool(resize_metadata_only, "resize_metadata_only")
        tied = as_bool(resize_tied_bounds, "resize_tied_bounds")
        expands = as_bool(expand_only, "expand_only")
        shrinks = as_bool(shrink_only, "shrink_only")
        try:
            for side in bounds:
                if side is not None and len(side) != self.rank:
                    raise ArgumentError(f"{len(side)} bounds for {self.rank} dimensions")
            if "w" not in self._mode:
                raise ReadOnlyError("the handle was opened for reading only: it cannot resize")
            if not self._driver.resizable:
                raise UnsupportedError(f"driver {self._driver.name!r} cannot resize")
            lower, upper, within = self._as_view().base_resizes(*bounds, tied)
        except TessarrError as error:
            return failed(error)
        request = ResizeRequest(lower, upper, metadata_only, expands, shrinks, within, tied)
        start_operation = partial(self._driver.resize, request, self._scope(None))
        return convert_result(
            run_in_transaction(self._transaction, start_operation), self._with_bounds_of
        )

    def storage_statistics(
        self, *, query_not_stored: bool = False, query_fully_stored: bool = False
    ) -> Future[StorageStatistics]:
        """Return whether no chunk, or every chunk, of the domain is stored.

        Parameters
        ----------
        query_not_stored, query_fully_stored
            The values to determine.

        Returns
        -------
        Future
            The future of a `TensorStore.StorageStatistics`.

        Notes
        -----
        The query checks that chunks exist and does not read them; it reads the indexes of shards.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> layout = ts.ChunkLayout(chunk_shape=[10])
        >>> new = {"create": True, "dtype": ts.int8, "shape": [30], "chunk_layout": layout}
        >>> store = ts.open("memory://|zarr3:", **new).result()
        >>> store[:10] = 1
        >>> store.storage_statistics(query_not_stored=True, query_fully_stored=True).result()
        TensorStore.StorageStatistics(not_stored=False, fully_stored=False)
        """
        query = StorageQuery(
            as_bool(query_not_stored, "query_not_stored"),
            as_bool(query_fully_stored, "query_fully_stored"),
        )

        def build_statistics(stored: tuple[bool, bool]) -> StorageStatistics:
            not_stored, fully_stored = (
                value if is_requested else None
                for value, is_requested in zip(stored, query, strict=True)
            )
            return StorageStatistics(not_stored=not_stored, fully_stored=fully_stored)

        start_operation = partial(
            self._driver.storage_statistics, self._view, query, self._scope(None)
        )
        return convert_result(
            run_in_transaction(self._transaction, start_operation), build_statistics
        )

    StorageStatistics = StorageStatistics

    # Specs

    def __reduce__(self) -> tuple[Any, ...]:
        self._check_no_transaction()
        spec, view = self._reopening_spec()
        return TensorStore, (*pickled_json(spec), self._mode, view._view.dims(), view._view.maps())

    def with_transaction(self, transaction: Transaction | None) -> TensorStore:
        """Return this handle in a transaction.

        Raises
        ------
        ArgumentError
            If the handle's transaction is not committed.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> new = {"create": True, "dtype": ts.int8, "shape": [3]}
        >>> store = ts.open("memory://|zarr3:", **new).result()
        >>> with ts.Transaction() as transaction:
        ...     store.with_transaction(transaction)[1] = 9
        >>> store.read().result()
        array([0, 9, 0], dtype=int8)
        """
        scope = replace_transaction(self._transaction, transaction)
        return build_handle(self._driver, self._view, self._mode, scope)

    def _in_transaction(self, transaction: Transaction) -> TensorStore:
        """Return this handle in the transaction of a driver over it."""
        return build_handle(self._driver, self._view, self._mode, transaction)

    def __copy__(self) -> TensorStore:
        return self

    def __deepcopy__(self, memo: Any) -> TensorStore:
        self._check_no_transaction()
        spec, view = self._reopening_spec()
        return _reopen(spec._copy_resources(memo), None, view, self._mode)  # with copied resources

    def __len__(self) -> NoReturn:
        raise TypeError("a TensorStore has no length: see shape and size")

    def __bool__(self) -> bool:
        return True


def build_handle(
    driver: Driver,
    view: IndexTransform | View | None = None,
    mode: str | None = None,
    transaction: Any = None,
) -> TensorStore:
    """Return a handle.

    Parameters
    ----------
    driver
        Reads and writes the elements.
    view
        A view of its domain; by default the whole domain.
    mode
        ``"r"``, ``"w"``, ``"rw"`` or ``""``; by default all that the driver supports.
    transaction
        The transaction of reads and writes.
    """
    if view is None:
        view = driver.full_view
    if mode is None:
        mode = "r" * driver.readable + "w" * driver.writable
    new: TensorStore = object.__new__(TensorStore)
    new._driver, new._mode, new._transaction, new._layout = driver, mode, transaction, None
    new._view = IndexTransform._of_view(view) if isinstance(view, View) else view
    return new


def _read_bounds(bounds: Iterable[int | None] | None) -> tuple[int | None, ...] | None:
    return (
        None
        if bounds is None
        else tuple(bound if bound is None else as_integer(bound) for bound in bounds)
    )


def _reopen(spec: Spec, context: Any, view: IndexTransform, mode: str) -> TensorStore:
    """Open a spec with the resources of a context."""
    opening = OpenRequest("r" in mode, "w" in mode)
    driver, opened_view = spec._bound(context)._driver.open(view, opening).result()
    bounded = None if opened_view is None else propagate_bounds(opened_view, driver.domain)
    return build_handle(driver, bounded, mode)


set_public_module("tessarr.tensorstore", TensorStore)
