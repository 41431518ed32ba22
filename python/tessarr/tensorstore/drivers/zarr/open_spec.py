"""`OpenableZarrSpec`: open and create Zarr arrays from specs."""

from __future__ import annotations

import time
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from tessarr.array import bind_array
from tessarr.errors import ArgumentError
from tessarr.flow.open import prefix_of
from tessarr.index_space import IndexTransform
from tessarr.store import MemoryStore
from tessarr.tensorstore.batch.shared_reads import ExpectedRead
from tessarr.tensorstore.context.caching import (
    CachedMetadata,
    caches_of,
    pool_of,
    staleness_bound,
    with_cache,
)
from tessarr.tensorstore.drivers.zarr.array_properties import properties_of
from tessarr.tensorstore.drivers.zarr.find_metadata import find_metadata, is_reusable
from tessarr.tensorstore.drivers.zarr.zarr_driver import ZarrDriver, is_compatible
from tessarr.tensorstore.drivers.zarr.zarr_spec import ZarrSpec
from tessarr.tensorstore.future.spawn import spawn
from tessarr.tensorstore.kvstore.limits import limit_copies
from tessarr.tensorstore.kvstore.local import waits_for_disk
from tessarr.tensorstore.spec.driver_spec import OpenRequest, OpenResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from tessarr.array import Array
    from tessarr.metadata.node import ArrayMeta
    from tessarr.store import Store
    from tessarr.tensorstore.batch.read_group import ReadGroup
    from tessarr.tensorstore.batch.shared_reads import SharedReads
    from tessarr.tensorstore.context.caching import SharedCaches
    from tessarr.tensorstore.future.future import Future

__all__ = ["OpenableZarrSpec"]


class OpenableZarrSpec(ZarrSpec):
    """A spec of a Zarr array that can be opened or created."""

    def open(self, view: IndexTransform | None, opening: OpenRequest) -> Future[OpenResult]:
        """Start to open."""
        if self._place is None:
            raise ArgumentError("the spec has no kvstore: give the location of the array")
        self._mode._check()
        if self._mode.create and not opening.write:
            raise ArgumentError("creating an array needs write access: open it with write=True")
        kvstore = self._place._open()
        path = kvstore.key(self._place.path).removesuffix("/")
        store = self._metadata_store(kvstore.store, path)
        at_once = self._place._driver.at_once
        collects = opening.batch is not None and at_once != inf and self._mode._looks
        inline = at_once > 0 and not self._waits_for_disk(kvstore.store, path)
        shares = opening.transaction is None and not self._mode.create
        work = partial(self._open_array, view, store, path, opening.transaction)
        if opening.batch is None or not collects:
            return spawn(work, opening.sharing if shares else None, here=inline)

        def start_operation(_: ReadGroup, sharing: SharedReads) -> Future[OpenResult]:
            return spawn(work, sharing if shares else None, here=inline)

        document = ExpectedRead(store, prefix_of(path) + self._marker)
        later: Future[OpenResult] = opening.batch._defer(
            start_operation, [document] * shares, opens=True
        )
        return later

    def _waits_for_disk(self, store: Store, path: str) -> bool:
        """Return whether creation waits for the disk."""
        if not self._mode.create or not waits_for_disk(store):
            return False
        return not self._mode.open or store.size(self._key(path)) is None

    def _open_array(
        self,
        view: IndexTransform | None,
        store: Store,
        path: str,
        transaction: Any,
        sharing: SharedReads | None = None,
    ) -> OpenResult:
        now, key = time.time(), prefix_of(path) + self.document
        if sharing is not None:
            now = sharing.began_s
        since = staleness_bound(self._recheck_data, now)
        fresh, lasting, memory = self._cached_stores(
            store, now, since, staged=transaction is not None
        )
        if sharing is not None:
            fresh = sharing.through(fresh, store)
        if transaction is not None:
            fresh = transaction._staging.store(fresh, store)
        known = memory.find((store, key)) if memory is not None else None
        # Cached metadata can lack attributes.
        knows = known is not None and self._mode.open and not self.reads_attributes
        is_fresh = known and known.checked_s >= staleness_bound(self._recheck_metadata, now)
        if known and knows and is_fresh and is_reusable(self, fresh, path, known):
            meta, now, seen = known.meta, known.checked_s, known.seen
            self._check(meta)
        else:
            meta, seen = find_metadata(self, fresh, path)
        if transaction is not None and memory is not None and not self._mode.open:
            read_staged = partial(transaction._staging.arrays.staged_metadata, fresh, key, meta)
            transaction._staging.after(partial(_update_known, memory, (store, key), read_staged))
        # Without a fill value, missing chunks have no defined content.
        store_fill = self._store_fill or meta.fill_value is None
        if self._references.has_settings("data_copy_concurrency"):
            lasting = limit_copies(lasting, self._references.resource("data_copy_concurrency"))
        array = bind_array(
            meta,
            lasting,
            path,
            read_only=False,
            write_empty_chunks=store_fill,
            missing="fill" if self._fill_missing else "refuse",
            keeps_past=True,
        )
        # other handles see a transaction's changes after its commit
        if transaction is None and known:
            known.update_metadata(meta, now)
            known.seen.last, seen = seen.last, known.seen
        elif transaction is None and memory is not None:
            known = CachedMetadata(meta, now, seen)
            memory.add((store, key), known)
        elif known and not is_compatible(known.meta, meta):
            known = None  # the metadata of another array
        driver = ZarrDriver(
            array,
            self._field,
            self,
            store=store,
            checked_s=now,
            known=known,
            seen=seen,
            data_since=since,
        )
        return OpenResult(driver, self._add_labels(view, array))

    def _cached_stores(
        self, store: Store, now: float, since: float, *, staged: bool
    ) -> tuple[Store, Store, SharedCaches | None]:
        """Return the store for opening, the store for later reads, and the cache of open arrays."""
        references, recheck = self._references, self._recheck_metadata
        is_checked_once = recheck == "open" or recheck is False  # after the open, any time is valid
        is_memory = isinstance(store, MemoryStore)
        if references.alone and (is_checked_once or is_memory):
            return store, store, None  # no I/O and nothing shared
        own = references.has("metadata_cache_pool")
        resource = references.resource("metadata_cache_pool" if own else "cache_pool")
        remembered = caches_of(resource)
        memory = None if self._mode._assumes else remembered
        if is_memory:
            return store, store, memory
        data = pool_of(references.resource("cache_pool")) if own else remembered.pool
        since = -inf if data is None else since
        later = inf  # without room, cached values are revalidated each time
        if remembered.pool is not None:
            later = -inf if is_checked_once else staleness_bound(recheck, now)
        pool = None if self._mode.create else remembered.document_pool
        # a store that is new to the cache is fresh
        new = pool is not None and not pool.has_store(store)
        lasting = with_cache(store, remembered, data, (later, since), now)
        if later == inf or ((new or recheck != "open") and not staged):
            return lasting, lasting, memory
        # The cache revalidates documents; in transactions, it always does.
        return with_cache(store, remembered, data, (inf, since), now), lasting, memory

    def _add_labels(self, view: IndexTransform | None, array: Array) -> IndexTransform | None:
        """Return the view, with labels from the schema for dimensions without one."""
        schema_domain = self.schema.domain
        if view is not None or schema_domain is None or not any(schema_domain.labels):
            return view
        domain = properties_of(array._meta, self._field).domain
        labels = [
            dim.label or constraint.label
            for dim, constraint in zip(domain._dims, schema_domain._dims, strict=True)
        ]
        return IndexTransform(domain.label[labels] if labels else domain)


def _update_known(
    memory: SharedCaches, key: tuple[Store, str], read_metadata: Callable[[], ArrayMeta | None]
) -> None:
    """Record the metadata of a replaced array, after the commit that created it."""
    known, meta = memory.find(key), read_metadata()
    if known is not None and meta is not None:
        known.update_metadata(meta, time.time())
        known.seen.last = None
