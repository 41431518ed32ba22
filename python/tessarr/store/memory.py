"""A store in memory."""

from __future__ import annotations

from os import getpid
from typing import Any

from tessarr import _engine
from tessarr.format.registry import set_public_module
from tessarr.store.mapping import StoreMapping

__all__ = ["MemoryStore"]


class MemoryStore(_engine.MemoryStore, StoreMapping):
    """A store in memory.

    Parameters
    ----------
    items : mapping of str to bytes, optional
        The initial contents, which are copied.
    name : str, optional
        Stores of the same name share their contents until the process ends.
    any_keys : bool, default False
        Whether any text is a key, including the empty text and keys with empty, "." or ".."
        segments. A named store accepts only the keys of all stores.

    Notes
    -----
    A pickle of an unnamed store contains the values; unpickling creates an independent copy. A
    pickle of a named store contains the name; in another process it raises a `StoreError`.

    Examples
    --------
    >>> store = MemoryStore({"a": b"1"})
    >>> store.replace("a", b"2", expected=b"1"), store.replace("a", b"3", expected=b"1")
    (True, False)
    >>> MemoryStore(name="shared") == MemoryStore(name="shared")
    True
    """

    def __reduce__(self) -> Any:
        return super().__reduce__() if self.name is None else (self._named, (self.name, getpid()))

    @classmethod
    def _named(cls, name: str, process: int) -> Any:
        return _engine.unpickle_memory_store(cls, name, process)


set_public_module("tessarr.stores", MemoryStore)
