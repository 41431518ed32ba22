"""Read the metadata of an array, or create the array."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tessarr.errors import ConflictError, ExistsError, MetadataError, NotFoundError
from tessarr.flow.create import create_documents
from tessarr.flow.open import prefix_of
from tessarr.flow.run import KnownDocument, create_document, read_known_document, run_flow
from tessarr.metadata.node import ArrayMeta
from tessarr.store.wrappers.staged import StagedStore
from tessarr.tensorstore.drivers.zarr.array_properties import properties_of

if TYPE_CHECKING:
    from tessarr.store import Store
    from tessarr.tensorstore.context.caching import CachedMetadata
    from tessarr.tensorstore.drivers.zarr.zarr_spec import ZarrSpec

__all__ = ["find_metadata", "is_reusable"]


def find_metadata(spec: ZarrSpec, store: Store, path: str) -> tuple[ArrayMeta, KnownDocument]:
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


def is_reusable(spec: ZarrSpec, store: Store, path: str, known: CachedMetadata) -> bool:
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
        last, staging = seen.last, store.owner._staging
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
    if _store_documents(store, prefix, documents, seen):
        if type(store) is StagedStore:
            store.owner._staging.arrays.stage_metadata(store, prefix + spec._marker, meta)
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


def _store_documents(
    store: Store, prefix: str, documents: dict[str, bytes], seen: KnownDocument
) -> bool:
    """Store the documents of a new array; return False if it exists."""
    (name, document), *others = documents.items()
    if others:
        return run_flow(create_documents(prefix, documents, seen), store)
    return create_document(store, prefix + name, document, seen)
