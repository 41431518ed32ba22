"""Adapters from user objects to stores of the engine, and back."""

from __future__ import annotations

from typing import Any, Final

from tessarr import _engine
from tessarr._engine import SplitStore, Store
from tessarr.format.registry import set_public_module
from tessarr.store.class_names import is_instance_of
from tessarr.store.mapping import StoreMapping

__all__ = [
    "ForeignStore",
    "adapt_store",
    "close_user_store",
    "get_dimension_separator",
    "get_user_chunk_store",
    "get_user_store",
    "split_store",
]


class ForeignStore(_engine.ForeignStore, StoreMapping):
    """A store that a Python object implements.

    Parameters
    ----------
    object : mapping or object
        A mapping of str to bytes-like, or an object with the methods of
        `tessarr.store.protocol.StoreProtocol`. Several threads may call the methods.
    read_only : bool, default False
        Refuse every change. An immutable mapping is always read-only.
    any_keys : bool, default False
        Whether any text is a key, as for `MemoryStore`.

    Notes
    -----
    Changes of one key exclude each other within the process. If the object has a method
    ``replace``, they also exclude each other between processes.

    Examples
    --------
    >>> items = {}
    >>> ForeignStore(items).put("a/b", b"1")
    >>> items
    {'a/b': b'1'}
    """


class _AdaptedStore(ForeignStore):
    """An adapter for an object that the user passed as a store."""


class _SplitStore(SplitStore, StoreMapping):
    """A store for documents and another one for chunks, from two objects of the user."""


_OBSPEC_METHODS: Final = ("get", "head", "list_with_delimiter")
"""The methods of obspec with which Tessarr reads."""


def adapt_store(store: Any, *, read_only: bool = False) -> Store:
    """Return a store of the engine for a store object of any library.

    Parameters
    ----------
    store
        A store of the engine, which the function returns unchanged; an ``fsspec.FSMap`` or a
        ``upath.UPath``; a ``zarr.abc.store.Store``; an object store of obstore or with the methods
        of obspec; a mapping of keys to bytes; or an object with the methods of
        `tessarr.store.protocol.StoreProtocol`.
    read_only
        Whether the adapter refuses every change.

    Raises
    ------
    TypeError
        If the object has another type.

    Examples
    --------
    >>> items = {}
    >>> store = adapt_store(items)
    >>> store, get_user_store(store) is items
    (ForeignStore(<dict>), True)
    """
    if isinstance(store, Store):
        return store
    adapted: Store | None = None
    if is_instance_of(store, "fsspec") or is_instance_of(store, "upath"):
        from tessarr.store.fsspec.store import adapt_fsspec

        adapted = adapt_fsspec(store, read_only=read_only)
    elif is_instance_of(store, "zarr.abc.store", "Store"):
        from tessarr.store.zarr_python import adapt_zarr_python

        adapted = adapt_zarr_python(store, read_only=read_only)
    elif all(callable(getattr(store, name, None)) for name in _OBSPEC_METHODS):
        from tessarr.store.obspec import adapt_obspec

        adapted = adapt_obspec(store, read_only=read_only)
    return _AdaptedStore(store, read_only=read_only) if adapted is None else adapted


def split_store(store: Store, chunks: Store) -> Store:
    """Return a store with documents in `store` and all other values in `chunks`.

    `get_user_store` and `get_user_chunk_store` return the two stores again.

    Examples
    --------
    >>> documents, chunks = {}, {}
    >>> both = split_store(adapt_store(documents), adapt_store(chunks))
    >>> both.put("a/zarr.json", b"{}"), both.put("a/c/0", b"1")
    (None, None)
    >>> documents, chunks
    ({'a/zarr.json': b'{}'}, {'a/c/0': b'1'})
    >>> get_user_store(both) is documents, get_user_chunk_store(both) is chunks
    (True, True)
    """
    return _SplitStore(store, chunks)


def get_user_store(store: Store) -> Any:
    """Return the user's object that `store` adapts, or `store` itself."""
    if type(store) is _SplitStore:
        store = store.metadata
    return store.object if type(store) is _AdaptedStore else getattr(store, "_user_store", store)


def get_user_chunk_store(store: Store) -> Any:
    """Return the object that holds the chunks of `store`."""
    return get_user_store(store.chunks if type(store) is _SplitStore else store)


def close_user_store(store: Store) -> None:
    """Close the user's object that `store` adapts, if it has a method ``close``.

    Buffered chunks are stored before.
    """
    store.store_buffered_chunks("")
    method = getattr(get_user_store(store), "close", None)
    if method is not None:
        method()


def get_dimension_separator(store: Store) -> Any:
    """Return the store's separator for chunk keys of format 2, or None.

    Stores of zarr-python 2 have a ``dimension_separator``. It applies to arrays whose metadata
    lacks a separator.
    """
    chunks = get_user_chunk_store(store)
    separator = getattr(chunks, "dimension_separator", None)
    return getattr(chunks, "_dimension_separator", None) if separator is None else separator


set_public_module("tessarr.stores", ForeignStore)
