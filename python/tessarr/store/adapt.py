"""Adapters that make a store of any user object, and return the object again."""

from __future__ import annotations

from typing import Any

from tessarr import _engine
from tessarr._engine import SplitStore, Store
from tessarr.format.registry import set_public_module
from tessarr.store.mapping import StoreMapping

__all__ = ["ForeignStore", "adapt", "close", "given", "given_for_chunks", "separator", "split"]


class ForeignStore(_engine.ForeignStore, StoreMapping):
    """A store that a Python object implements.

    Parameters
    ----------
    object : mapping or object
        A mapping of str to bytes-like, or an object with the methods of
        `tessarr.store.protocol.StoreProtocol`, which may be called from several threads.
    read_only : bool, default False
        Refuse every change; a mapping that cannot be changed is read-only anyway.
    any_keys : bool, default False
        Whether any text is a key, as of `MemoryStore`.

    Notes
    -----
    Changes of one key exclude each other within the process; between processes if the
    object has ``replace``.

    Examples
    --------
    >>> items = {}
    >>> ForeignStore(items).put("a/b", b"1")
    >>> items
    {'a/b': b'1'}
    """


class _Adapted(ForeignStore):
    """A store of the engine that was made only because a user gave another object."""


class _Split(SplitStore, StoreMapping):
    """Two stores in one, made because a user gave one for chunks."""


def adapt(store: Any, *, read_only: bool = False) -> Store:
    """Return a store of the engine over any object that is a store.

    Parameters
    ----------
    store
        A store of the engine, which is returned as it is; an ``fsspec.FSMap`` or a
        ``upath.UPath``; a mapping of keys to bytes; or an object with the methods of
        `tessarr.store.protocol.StoreProtocol`.
    read_only
        Whether to refuse every change, where an adapter is made.

    Raises
    ------
    TypeError
        If it is nothing of the above.

    Examples
    --------
    >>> items = {}
    >>> store = adapt(items)
    >>> store, given(store) is items
    (ForeignStore(<dict>), True)
    """
    if isinstance(store, Store):
        return store
    module = type(store).__module__.partition(".")[0]
    if module in {"fsspec", "upath"}:
        from tessarr.store.fsspec.store import of_fsspec

        found = of_fsspec(store, read_only=read_only)
        if found is not None:
            return found
    return _Adapted(store, read_only=read_only)


def split(store: Store, chunks: Store) -> Store:
    """Return a store with documents in `store`, and everything else in `chunks`.

    Users see the two: `given` and `given_for_chunks` tell them apart.

    Examples
    --------
    >>> documents, chunks = {}, {}
    >>> both = split(adapt(documents), adapt(chunks))
    >>> both.put("a/zarr.json", b"{}"), both.put("a/c/0", b"1")
    (None, None)
    >>> documents, chunks
    ({'a/zarr.json': b'{}'}, {'a/c/0': b'1'})
    >>> given(both) is documents, given_for_chunks(both) is chunks
    (True, True)
    """
    return _Split(store, chunks)


def given(store: Store) -> Any:
    """Return the object that a user gave, of which `store` was made."""
    if type(store) is _Split:
        store = store.metadata
    return store.object if type(store) is _Adapted else getattr(store, "_made_of", store)


def given_for_chunks(store: Store) -> Any:
    """Return the object that a user gave for chunks: that for everything, if for these none."""
    return given(store.chunks if type(store) is _Split else store)


def close(store: Store) -> None:
    """Close the object that a user gave, if it is of a kind that has to be closed."""
    found = getattr(given(store), "close", None)
    if found is not None:
        found()


def separator(store: Store) -> Any:
    """Return what stands in the keys of chunks of format 2, if the store says; else None.

    Stores of zarr-python 2 had a ``dimension_separator``, which arrays in them followed
    unless they said so themselves.
    """
    chunks = given_for_chunks(store)
    found = getattr(chunks, "dimension_separator", None)
    return getattr(chunks, "_dimension_separator", None) if found is None else found


set_public_module("tessarr.stores", ForeignStore)
