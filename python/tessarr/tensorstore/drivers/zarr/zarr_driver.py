"""The drivers ``zarr3`` and ``zarr``: Tessarr arrays."""

from __future__ import annotations

import time
from copy import copy
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from tessarr.array import Array, bind_array
from tessarr.array.clear_outside import delete_outside
from tessarr.array.resize import is_shrinking, reshape_meta, resize, resize_document
from tessarr.errors import ArgumentError, NotFoundError
from tessarr.flow import consolidated_copies
from tessarr.flow.run import KnownDocument, run_flow
from tessarr.tensorstore.batch import ExpectedRead, SharedReads
from tessarr.tensorstore.context.caching import CachedMetadata
from tessarr.tensorstore.driver import Driver, OperationScope, ResizeRequest, StorageQuery
from tessarr.tensorstore.drivers.zarr.array_properties import ArrayProperties, properties_of
from tessarr.tensorstore.drivers.zarr.element_access import ElementAccess
from tessarr.tensorstore.future.future import Future, failed, spawn
from tessarr.tensorstore.schema.propagate import propagate_bounds
from tessarr.tensorstore.transaction.array_writes import metadata_key, staged_store

if TYPE_CHECKING:
    import numpy.typing as npt

    from tessarr.flow.consolidated_copies import ConsolidatedGroup
    from tessarr.index_space import IndexTransform
    from tessarr.metadata.node import ArrayMeta
    from tessarr.store import Store
    from tessarr.tensorstore.future.write_futures import WriteFutures
    from tessarr.tensorstore.transaction.participant import Change, Staging
    from tessarr.tensorstore.transaction.transaction import Transaction
    from tessarr.types import Shape

__all__ = ["ZarrDriver"]


class ZarrDriver(Driver):
    """An array.

    Parameters
    ----------
    array
        The array.
    opened_by
        The bound spec that opened the array.
    store
        The store below caches.
    checked_s
        The time of the last metadata read, in seconds since 1970.
    known
        Metadata that all handles of the context share.
    seen
        The document of the metadata.
    data_since
        The time from which chunks cached in a transaction count as fresh, in seconds since 1970.
    """

    __slots__ = (
        "__weakref__",
        "_access",
        "_base_store",
        "_consolidated_groups",
        "_data_since",
        "_known",
        "_looked_s",
        "_meta",
        "_outer",
        "_rechecks",
        "_seen",
        "array",
        "opened_by",
    )

    def __init__(
        self,
        array: Array,
        opened_by: Any,
        *,
        store: Store,
        checked_s: float,
        known: CachedMetadata | None,
        seen: KnownDocument,
        data_since: float,
    ) -> None:
        self.array = array
        self.opened_by = opened_by
        self._base_store = store
        self._looked_s = checked_s
        self._known = known
        self._seen = seen
        self._data_since = data_since
        self._outer: ZarrDriver | None = None  # the driver without the bounds of a transaction
        self._meta: ArrayMeta | None = array._meta  # None if views can have other bounds
        self._rechecks = opened_by.rechecks
        self._consolidated_groups: list[ConsolidatedGroup] | None = None  # not read yet
        self._access = ElementAccess(self.properties, store)
        self.dtype = self.properties.dtype

    # Properties

    @property
    def name(self) -> str:  # type: ignore[override]
        """The driver's name in specs."""
        return "zarr3" if self.array._meta.zarr_format == 3 else "zarr"

    @property
    def properties(self) -> ArrayProperties:
        """Properties of the metadata at their last read."""
        return properties_of(self.array._meta, self.opened_by._field)

    domain: Any = property(attrgetter("properties.domain"))
    full_view: Any = property(attrgetter("properties.full_view"))
    chunk_layout: Any = property(attrgetter("properties.chunk_layout"))
    codec: Any = property(attrgetter("properties.codec"))
    fill_value: Any = property(attrgetter("properties.fill_value"))
    dimension_units: Any = property(attrgetter("properties.dimension_units"))
    schema: Any = property(attrgetter("properties.schema"))

    @property
    def kvstore(self) -> Any:
        """The key-value store."""
        return self.opened_by.open_kvstore()

    @property
    def url(self) -> str:
        """The URL that opens the array again."""
        self.update_bounds()
        url: str = self.opened_by.url
        return url

    def storage_ids(self) -> frozenset[Any]:
        """Return the location of the array."""
        return frozenset([(self._base_store, self.array._path)])

    @property
    def write_chunk_shape(self) -> Shape:
        """The shape of chunks or shards."""
        chunks = tuple(cut.longest for cut in self.array._meta.chunk_grid.cuts)
        return (*chunks, *self.properties.inner_shape)

    # Reading and writing

    def _array_in(self, transaction: Transaction | None, *, reads: bool = True) -> Array:
        """Return the array, in the transaction unless it is None."""
        array = self.array
        if transaction is None:
            return array
        staging = transaction._staging
        staging.check()
        document, outside = self._document, self._committed_meta
        staged, known = staging.handles.get(self, (None, outside))
        if staged is None or (reads and not staging.remembers(staged)):
            arguments = self._base_store, self._data_since
            staged = staging.array(array, *arguments, reads=reads)
            if staging.arrays.staged_metadata(staged_store(staged), document, outside) is None:
                staged = staging.array(self._apply_known(array), *arguments, reads=reads)
            staging.handles[self] = staged, outside
        if staging.arrays.is_document_replaced(staged_store(staged), document):
            self._read_replaced(staged, staging)
        meta = staging.arrays.staged_metadata(staged_store(staged), document, outside)
        if known is not outside:
            staging.handles[self] = staged, outside
            meta = meta or outside
        if meta is not None and meta is not staged._meta:
            _check_compatible(staged._meta, meta)
            staged._set_meta(meta)
        return staged

    def _read_replaced(self, staged: Array, staging: Staging) -> None:
        """Read a metadata document that the transaction replaced as a key."""
        now, document = time.time(), self._document
        meta = staged._read_stored_meta(attributes=self._reads_attributes)
        stage = staged_store(staged)
        staging.arrays.stage_metadata(stage, document, meta)

        def after() -> None:
            if staging.arrays.staged_metadata(stage, document, meta) is not meta:
                return
            if is_compatible(self.array._meta, meta):
                self._accept(self.array, meta)
                return
            if self._known is None:
                self._known = CachedMetadata(meta, now, KnownDocument())
            self._known.update_metadata(meta, now)  # handles must reopen the array

        staging.after(after)

    @property
    def _committed_meta(self) -> ArrayMeta:
        """The known metadata outside transactions."""
        outer = self._outer or self
        return outer.array._meta if self._known is None else self._known.meta

    @property
    def _document(self) -> str:
        """The key of the metadata."""
        return metadata_key(self.array)

    def _current_array(self, scope: OperationScope) -> Array:
        """Return the array with sufficiently fresh bounds, in the transaction if there is one."""
        is_due = self._is_stale(scope)
        array = self._array_in(scope.transaction, reads=is_due)
        if is_due:
            self._refresh(array, scope.sharing)
        return self._apply_known(array)

    def _apply_known(self, array: Array) -> Array:
        """Return the array with the bounds that the context's handles share."""
        known = self._known
        if known is not None and known.meta is not array._meta and array is self.array:
            _check_compatible(array._meta, known.meta)
            array._set_meta(known.meta)
            self._meta = None
        return array

    def update_bounds(self) -> None:
        """Apply the metadata that the context's handles share.

        Raises
        ------
        ArgumentError
            If another array has replaced it.
        """
        known = self._known
        if self._outer is None and known is not None and known.meta is not self.array._meta:
            self._apply_known(self.array)

    @property
    def _reads_attributes(self) -> bool:
        return bool(self.opened_by.reads_attributes)

    def _refresh(self, array: Array, sharing: SharedReads | None = None) -> None:
        """Read the metadata again; a shared read can be slightly older."""
        now, before, store = time.time(), array._meta, array._store
        if sharing is not None:
            now, store = sharing.began_s, sharing.through(store, self._base_store)
        array._update_meta(attributes=self._reads_attributes, store=store)
        if array._meta is not before:
            self._seen.last = None
        self._record(array, now)
        try:
            _check_compatible(before, array._meta)
        except ArgumentError:
            array._set_meta(before)
            raise

    def _accept(self, array: Array, meta: ArrayMeta) -> None:
        """Set the metadata of an array after a change in the store."""
        array._set_meta(meta)
        self._record(array, time.time())

    def _record(self, array: Array, checked_s: float) -> None:
        self._looked_s = checked_s
        if array is not self.array:  # an array in a transaction
            return
        if array._meta is not self._meta:
            self._meta = None
        if self._known is not None:
            self._known.update_metadata(array._meta, checked_s)

    def _is_stale(self, scope: OperationScope) -> bool:
        """Return whether the bounds are stale."""
        if not (self._rechecks and scope.rechecks_bounds):
            return False
        bound: Any = self.opened_by.recheck_metadata
        if bound is True or bound > time.time():  # always stale
            return scope.sharing is None or self._looked_s < scope.sharing.began_s
        return bool(self._looked_s < bound)

    def stale_documents(self, scope: OperationScope) -> list[ExpectedRead]:
        """Return the metadata document if it is stale."""
        return [ExpectedRead(self._base_store, self._document)] if self._is_stale(scope) else []

    def refresh_bounds(
        self, view: IndexTransform, scope: OperationScope
    ) -> tuple[Driver, IndexTransform]:
        """Return the driver, and a view with the current bounds."""
        array, known = self.array, self._known
        has_newer = known is not None and known.meta is not array._meta
        if has_newer or self._rechecks or scope.transaction is not None:
            array = self._current_array(scope)
        meta = array._meta
        if meta is self._meta and not view._has_implicit_bounds:
            return self, view
        return self, propagate_bounds(view, properties_of(meta, self.opened_by._field).domain)

    def read(
        self, view: IndexTransform, out: npt.NDArray[Any] | None, scope: OperationScope
    ) -> Future[npt.NDArray[Any]]:
        """Start to read."""
        if scope.transaction is None:
            group = scope.read_group if scope.batch is None else scope.batch._read_group
            return self._access.read(self.array, view, out, group)
        return scope.start(partial(self._read_staged, view, out), reads=True)

    @property
    def stored_array(self) -> Array | None:
        """The array, unless its bounds or elements need a refresh."""
        array, known = self.array, self._known
        has_newer = known is not None and known.meta is not array._meta
        is_plain = self._access.properties.plain
        return None if has_newer or self._rechecks or not is_plain else array

    def _read_staged(
        self, view: IndexTransform, out: npt.NDArray[Any] | None, scope: OperationScope
    ) -> Future[npt.NDArray[Any]]:
        """Start to read in a transaction."""
        try:
            array = self._array_in(scope.transaction)
        except NotFoundError as error:
            return failed(error)
        return self._access.read(array, view, out, scope.read_group)

    def write(
        self, view: IndexTransform, values: npt.NDArray[Any], scope: OperationScope
    ) -> WriteFutures:
        """Start to write."""
        return self._access.write(self._array_in(scope.transaction, reads=False), view, values)

    # Bounds

    def resolve(self, scope: OperationScope) -> Future[Driver]:
        """Read the current bounds if the known ones are stale."""
        due = self.stale_documents(scope)
        if not due:
            return spawn(self._resolve_bounds, scope, here=True)
        return scope.start(partial(spawn, self._resolve_bounds), due)

    def _resolve_bounds(self, scope: OperationScope) -> Driver:
        """Return the driver with fresh bounds."""
        array = self._current_array(scope)
        if scope.transaction is None or array is self.array:
            return self
        return self._staged_driver(array, scope.transaction._staging)

    def _staged_driver(self, staged: Array, staging: Staging) -> Driver:
        """Return the driver with the bounds that the array has in a transaction."""
        driver, array = copy(self), self.array
        driver.array = bind_array(
            staged._meta,
            array._store,
            array._path,
            read_only=False,
            write_empty_chunks=array._write_empty_chunks,
            missing=array._missing,
            chunk_cache_bytes=array._chunk_cache_bytes,
            keeps_past=True,
        )
        driver._meta, driver._looked_s = staged._meta, time.time()
        driver._outer = self._outer or self
        staging.handles[driver] = staging.handles[self] = staged, self._committed_meta
        return driver

    def with_staged_bounds(self, transaction: Transaction) -> Driver:
        """Return the driver with the bounds that a transaction has staged."""
        staging = transaction._staging
        if not staging.has_part_of(self._base_store):
            return self
        staged = self._array_in(transaction)
        return self if staged._meta is self.array._meta else self._staged_driver(staged, staging)

    @property
    def resizable(self) -> bool:
        """True, because arrays can be resized."""
        return True

    def resize(self, request: ResizeRequest, scope: OperationScope) -> Future[Driver]:
        """Change the bounds."""
        if self.opened_by.fixes_metadata:
            raise ArgumentError("an array that was opened with assume_metadata cannot be resized")
        self._check_tied(request)
        if scope.transaction is not None:
            return spawn(self._stage_resize, request, scope.transaction, whole=True)
        array = self._apply_known(self.array)  # the write compares the document
        ends = zip(array._meta.shape, request.upper, strict=False)
        # The deletion of many chunks takes long.
        is_small = request.metadata_only or all(new is None or new >= end for end, new in ends)
        inline = self._access.prefers_inline and is_small
        return spawn(self._resize, array, request, here=inline, whole=True)

    def _check_tied(self, request: ResizeRequest) -> None:
        """Raise an error if the resize affects fields outside the handle."""
        name, fields = self.opened_by._field.name, self.array._meta.data_type.numpy.names or ()
        moves = any(bound is not None for bound in request.upper)
        if moves and not request.resizes_tied and name is not None and len(fields) > 1:
            raise ArgumentError(
                f"the resize would also affect fields other than {name!r}: pass "
                "resize_tied_bounds=True to allow it"
            )

    def _find_consolidated_groups(self) -> list[ConsolidatedGroup]:
        """Return the parent groups that contain copies of the metadata."""
        if self._consolidated_groups is None:
            look = consolidated_copies.find_consolidated_groups_of_array(
                self.array._path, self.array._meta.zarr_format
            )
            self._consolidated_groups = run_flow(look, self._base_store)
        return self._consolidated_groups

    def _resize(self, array: Array, request: ResizeRequest) -> Driver:
        staged = array is not self.array
        resize(
            array,
            request.resize_shape,
            trim=False,
            delete=not request.metadata_only,
            accept=partial(self._accept, array),
            groups=self._find_consolidated_groups(),
            known_document=None if staged else self._seen,
            lock_store=None if staged else self._base_store,
            check=partial(_check_compatible, array._meta),
        )
        return self

    def _stage_resize(self, request: ResizeRequest, transaction: Transaction) -> Driver:
        """Stage a resize, after concurrent ones."""
        staging = transaction._staging
        stage = staging.store(self.array._store, self._base_store)
        with staging.arrays.resize_lock(stage, self._document):
            return self._stage_resize_locked(request, self._array_in(transaction), staging)

    def _stage_resize_locked(
        self, request: ResizeRequest, array: Array, staging: Staging
    ) -> Driver:
        entry = staging.arrays.resizable(array)  # other handles keep their bounds
        array = entry.array
        stage = staged_store(array)
        document = self._document
        overtaken: list[ArrayMeta] = []
        change = resize_document(
            array, request.resize_shape, partial(_check_compatible, array._meta), overtaken.append
        )
        before = staging.arrays.staged_metadata(stage, document, self._committed_meta)
        if not self._stage_growth(array, request, staging, document, change):
            self._resize(array, request)
            if before is not None:  # the staged document lacks other writers' changes
                array._set_meta(reshape_meta(array._meta, request.resize_shape(before.shape)))
        if not staging.arrays.is_new(stage, document):  # a new array ignores other writers
            staging.redo_on_conflict(stage, document, change)
        content = stage.get(document)
        ends = request.upper[: array._meta.rank]
        staging.arrays.resize(array, document, self._committed_meta, request.resize_shape, ends)

        def after() -> None:
            if not staging.arrays.has_staged_metadata(stage, document):
                return  # another operation replaced the document
            self._accept(self.array, entry.array._meta)
            if content is not None:
                self._seen.became(content)
            if overtaken:  # other writers have grown the array
                self._refresh(self.array)
                if not request.metadata_only:
                    store, now = self.array._store, self.array._meta
                    delete_outside(store, array._path, overtaken[-1], now)

        staging.after(after)
        return self._staged_driver(array, staging)

    def _stage_growth(
        self, array: Array, request: ResizeRequest, staging: Staging, key: str, change: Change
    ) -> bool:
        """Change the document as last read; return False if it must be read again.

        If the resize deletes nothing, a comparison at commit is sufficient.
        """
        last = self._seen.take()
        grown = reshape_meta(array._meta, request.resize_shape(array._meta.shape))
        if last is None or self._find_consolidated_groups() or is_shrinking(array._meta, grown):
            return False
        document, version = last
        new_document = change(document)
        if new_document is None or not staging.assume(
            staged_store(array), key, new_document, version
        ):
            return False
        self._accept(array, grown)
        return True

    def storage_statistics(
        self, view: IndexTransform, query: StorageQuery, scope: OperationScope
    ) -> Future[tuple[bool, bool]]:
        """Return whether no chunk of a view is stored, and whether all are."""

        def work() -> tuple[bool, bool]:
            array = self._apply_known(self._array_in(scope.transaction))
            if scope.transaction is not None:
                array = scope.transaction._staging.arrays.overlay_array(array)
            return self._access.storage_statistics(array, view, query)

        return spawn(work, here=self._access.in_memory and scope.transaction is None)


def is_compatible(known: ArrayMeta, new: ArrayMeta) -> bool:
    """Return whether new metadata have the same chunks and elements as known ones.

    Only the shape, the attributes and the dimension names may differ.
    """
    if new is known:
        return True
    free = {name: getattr(known, name) for name in ("shape", "attributes", "axis_names")}
    return new.rank == known.rank and replace(new, **free) == known


def _check_compatible(known: ArrayMeta, new: ArrayMeta) -> None:
    """Raise an error if the metadata belongs to another array."""
    if not is_compatible(known, new):
        raise ArgumentError(
            "the metadata changed since the array was opened: another writer replaced the "
            "array; open it again",
            kind="mismatch",
        )
