"""Open a Zarr array from a spec, or create it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from tessarr.array import Array, bind_array
from tessarr.errors import ArgumentError, ConflictError, ExistsError, MetadataError, NotFoundError
from tessarr.flow.create import create_documents
from tessarr.flow.open import prefix_of
from tessarr.flow.run import KnownDocument, read_known_document, run_flow
from tessarr.index_space import IndexTransform
from tessarr.metadata.node import ArrayMeta
from tessarr.store import MemoryStore, Store
from tessarr.store.wrappers.staged import StagedStore
from tessarr.tensorstore.batch import ExpectedRead, ReadGroup, SharedReads
from tessarr.tensorstore.context.caching import (
    CachedMetadata,
    SharedCaches,
    caches_of,
    staleness_bound,
    with_cache,
)
from tessarr.tensorstore.drivers.zarr.array_properties import properties_of
from tessarr.tensorstore.drivers.zarr.zarr_driver import ZarrDriver, is_compatible
from tessarr.tensorstore.future.future import Future, spawn
from tessarr.tensorstore.kvstore.limits import limit_copies
from tessarr.tensorstore.kvstore.local import waits_for_disk
from tessarr.tensorstore.spec.driver_spec import OpenRequest, OpenResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from tessarr.tensorstore.drivers.zarr.zarr_spec import ZarrSpec
    from tessarr.tensorstore.transaction.transaction import Transaction

__all__ = ["start_open"]


def start_open(
    spec: ZarrSpec, view: IndexTransform | None, opening: OpenRequest
) -> Future[OpenResult]:
    """Start to open the array of a bound spec, or to create it."""
    if spec._place is None:
        raise ArgumentError("the spec has no kvstore: give the location of the array")
    mode = spec._mode
    mode._check()
    if mode.create and not opening.write:
        raise ArgumentError("creating an array needs write access: open it with write=True")
    kvstore, at_once = spec._place._open(), spec._place._driver.at_once
    path = kvstore.key(spec._place.path).removesuffix("/")
    store = spec._metadata_store(kvstore.store, path)
    waits = mode.create and waits_for_disk(kvstore.store)
    if waits and mode.open:
        waits = store.size(prefix_of(path) + spec._marker) is None  # only a creation waits
    inline = at_once > 0 and not waits
    transaction = opening.transaction
    shares = transaction is None and not mode.create
    work = partial(_open_array, spec, view, store, path)

    def start(_: ReadGroup | None, sharing: SharedReads | None) -> Future[OpenResult]:
        return spawn(work, transaction, sharing if shares else None, here=inline)

    if opening.batch is None or at_once == inf or not mode._reads_metadata:
        return start(None, opening.sharing)
    document = ExpectedRead(store, prefix_of(path) + spec._marker)
    return opening.batch._defer(start, [document] * shares, opens=True)


def _open_array(  # noqa: PLR0917
    spec: ZarrSpec,
    view: IndexTransform | None,
    store: Store,
    path: str,
    transaction: Transaction | None,
    sharing: SharedReads | None,
) -> OpenResult:
    now = time.time() if sharing is None else sharing.began_s
    since = staleness_bound(spec._recheck_data, now)
    fresh, lasting, memory = _cached_stores(spec, store, now, since, staged=transaction is not None)
    if sharing is not None:
        fresh = sharing.through(fresh, store)
    if transaction is not None:
        fresh = transaction._staging.store(fresh, store)
    cache_key = store, spec._key(path)
    known = memory.find(cache_key) if memory is not None else None
    # Cached metadata can lack attributes.
    usable = known if spec._mode.open and not spec.reads_attributes else None
    if (
        usable is not None
        and usable.checked_s >= staleness_bound(spec._recheck_metadata, now)
        and _is_reusable(spec, fresh, path, usable)
    ):
        meta, now, seen = usable.meta, usable.checked_s, usable.seen
        spec._check(meta)
    else:
        meta, seen = _find_metadata(spec, fresh, path)
    if isinstance(fresh, StagedStore) and memory is not None and not spec._mode.open:
        staging = fresh.owner
        read_staged = partial(staging.arrays.staged_metadata, fresh, cache_key[1], meta)
        staging.after(partial(_update_known, memory, cache_key, read_staged))
    # Without a fill value, missing chunks have no defined content.
    store_fill = spec._store_fill or meta.fill_value is None
    lasting = limit_copies(lasting, spec._references.resource("data_copy_concurrency"))
    array = bind_array(
        meta,
        lasting,
        path,
        read_only=False,
        write_empty_chunks=store_fill,
        missing="fill" if spec._fill_missing else "refuse",
        chunk_cache_bytes=0,  # only a `cache_pool` caches chunks
        keeps_past=True,
    )
    # other handles see a transaction's changes after its commit
    if transaction is None and known:
        known.update_metadata(meta, now)
        known.seen.last, seen = seen.last, known.seen
    elif transaction is None and memory is not None:
        known = CachedMetadata(meta, now, seen)
        memory.add(cache_key, known)
    elif known and not is_compatible(known.meta, meta):
        known = None  # the metadata of another array
    driver = ZarrDriver(
        array,
        spec,
        store=store,
        checked_s=now,
        known=known,
        seen=seen,
        data_since=since,
    )
    return OpenResult(driver, _add_labels(spec, view, array))


def _cached_stores(
    spec: ZarrSpec, store: Store, now: float, since: float, *, staged: bool
) -> tuple[Store, Store, SharedCaches | None]:
    """Return the store for opening, the store for later reads, and the cache of open arrays."""
    references, recheck = spec._references, spec._recheck_metadata
    is_checked_once = recheck == "open" or recheck is False  # after the open, any time is valid
    is_memory = isinstance(store, MemoryStore)
    if references.alone and (is_checked_once or is_memory):
        return store, store, None  # no I/O and nothing shared
    own = "metadata_cache_pool" in references.values
    resource = references.resource("metadata_cache_pool" if own else "cache_pool")
    remembered = caches_of(resource)
    memory = None if spec._mode._assumes else remembered
    if is_memory:
        return store, store, memory
    data = caches_of(references.resource("cache_pool")).pool if own else remembered.pool
    since = -inf if data is None else since
    later = inf  # without room, cached values are revalidated each time
    if remembered.pool is not None:
        later = -inf if is_checked_once else staleness_bound(recheck, now)
    # a store that is new to the cache is fresh
    new = not spec._mode.create and not remembered.documents.has_store(store)
    lasting = with_cache(store, remembered, data, (later, since), now)
    if later == inf or ((new or recheck != "open") and not staged):
        return lasting, lasting, memory
    # The cache revalidates documents; in transactions, it always does.
    return with_cache(store, remembered, data, (inf, since), now), lasting, memory


def _add_labels(spec: ZarrSpec, view: IndexTransform | None, array: Array) -> IndexTransform | None:
    """Return the view, with labels from the schema for dimensions without one."""
    schema_domain = spec.schema.domain
    if view is not None or schema_domain is None or not any(schema_domain.labels):
        return view
    domain = properties_of(array._meta, spec._field).domain
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


def _find_metadata(spec: ZarrSpec, store: Store, path: str) -> tuple[ArrayMeta, KnownDocument]:
    """Return the metadata of the array; create it if the mode allows."""
    mode = spec._mode
    if mode._assumes:
        return spec._metadata(), KnownDocument()
    if mode.open:
        existing = _read_existing(spec, store, path)
        if existing is not None:
            spec._check(existing[0])
            return existing
        if not mode.create:
            raise NotFoundError(
                f"there is no array at {spec._where()}: {spec.document!r} is absent",
                kind="array_not_found",
                path=path,
                key=spec._key(path),
            )
    return _create_array(spec, store, path)


def _read_existing(
    spec: ZarrSpec, store: Store, path: str
) -> tuple[ArrayMeta, KnownDocument] | None:
    document_version = read_known_document(store, prefix_of(path) + spec._marker)
    if document_version is None:
        return None
    document, seen = document_version
    node = spec._parse_node(document, store, path)
    if isinstance(node, ArrayMeta):
        if type(store) is StagedStore:
            _UnchangedCheck(spec, path, node).register(store, seen, now=True)
        return node, seen
    raise MetadataError(
        f"a group, not an array, exists at {spec._where()}",
        kind="invalid_value",
        path=path,
        key=spec._key(path),
    )


def _is_reusable(spec: ZarrSpec, store: Store, path: str, known: CachedMetadata) -> bool:
    """Return whether cached metadata is usable; a transaction compares it at commit."""
    return type(store) is not StagedStore or _UnchangedCheck(spec, path, known.meta).register(
        store, known.seen
    )


@dataclass(frozen=True, slots=True)
class _UnchangedCheck:
    """Fails a transaction at commit if another array has replaced the one that it opened."""

    spec: ZarrSpec
    at: str
    meta: ArrayMeta

    def register(self, store: StagedStore, seen: KnownDocument, *, now: bool = False) -> bool:
        """Compare the document at commit with the current or an earlier read.

        Return False if the read is unknown, or if the transaction has another comparison or a
        change of the document.
        """
        key = prefix_of(self.at) + self.spec._marker
        last, staging = seen.last, store.owner
        return last is not None and staging.compare_at_commit(store, key, last, self, now=now)

    def __call__(self, document: bytes | None) -> bytes | None:
        """Return the document if it describes the same array; attributes may differ."""
        node = None if document is None else self.spec._parse_node(document, None, self.at)
        if isinstance(node, ArrayMeta):
            node = replace(node, attributes=self.meta.attributes)
        if node == self.meta:
            return document
        key = self.spec._key(self.at)
        raise ConflictError(
            f'ABORTED: Error writing "{key}": Metadata is inconsistent: others changed it after '
            "the array was opened in this transaction; do everything again",
            key=key,
        )


def _create_array(spec: ZarrSpec, store: Store, path: str) -> tuple[ArrayMeta, KnownDocument]:
    meta, prefix = spec._metadata(), prefix_of(path)
    if spec._mode.delete_existing:
        store.clear_prefix(prefix)
    documents, seen = properties_of(meta, spec._field).documents, KnownDocument()
    if run_flow(create_documents(prefix, documents, seen), store):
        if type(store) is StagedStore:
            store.owner.arrays.stage_metadata(store, prefix + spec._marker, meta)
        return meta, seen
    if spec._mode.open:  # another writer created it concurrently
        existing = _read_existing(spec, store, path)
        if existing is not None:
            spec._check(existing[0])
            return existing
    raise ExistsError(
        f"a node exists at {spec._where()}: {spec.document!r} is present; to open it "
        "pass open=True, to replace it delete_existing=True",
        kind="node_exists",
        path=path,
        key=spec._key(path),
    )
