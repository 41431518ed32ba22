"""Tokens of arrays for Dask, which identify cached results."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from tessarr.array.digest import sort_chunk_keys
from tessarr.errors import UnsupportedError
from tessarr.flow.create import dump_documents
from tessarr.flow.open import prefix_of
from tessarr.store.states import describe_location, list_states
from tessarr.store.wrappers.transformer_adapter import get_chunk_store

if TYPE_CHECKING:
    from tessarr.array.properties import ArrayProperties
    from tessarr.metadata.node import ArrayMeta
    from tessarr.store import Store

__all__ = ["compute_token"]


def compute_token(array: ArrayProperties) -> tuple[Any, ...]:
    """Return a value for Dask's ``__dask_tokenize__``, from metadata and one listing.

    Values are equal for arrays that read the same elements, whatever their access mode. A write or
    a resize by any program, and a change of the attributes, results in another value.
    """
    from dask.base import normalize_token

    if array._view_origin is not None:
        base, method, arguments = array._view_origin
        return "tessarr.view", compute_token(base), method, normalize_token(arguments)
    meta, store, path = array._metadata, array._store, array._path
    return (
        "tessarr.array",
        normalize_token(describe_location(store)),
        path,
        dump_documents(meta),
        str(array.dtype),
        array._missing,
        _digest_states(meta, store, path),
    )


def _digest_states(meta: ArrayMeta, store: Store, path: str) -> str | None:
    """Return a checksum of the states of all stored chunks; None if the store has no states."""
    chunks, below = get_chunk_store(store, path, meta.storage_transformers)
    try:
        states = list_states(chunks, prefix_of(below))
    except UnsupportedError:  # such as a web server that lists no folder
        return None
    if states is None:
        return None
    checksum = hashlib.sha256()
    for key in sort_chunk_keys(meta, states):
        checksum.update(f"{key}\0".encode())
        checksum.update(hashlib.sha256(states[key]).digest())
    return checksum.hexdigest()
