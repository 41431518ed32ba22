"""A store that stages the changes of another store until a commit."""

from __future__ import annotations

from tessarr import _engine
from tessarr.store.mapping import StoreMapping

__all__ = ["StagedStore"]


class StagedStore(_engine.StagedStore, StoreMapping):
    """Another store, whose changes are kept aside until `commit`.

    Parameters
    ----------
    store : Store
        The store that is changed in the end.
    repeatable : bool
        Whether what is only read has to be the same in the end, too. What was read in order to
        decide a change has to be, anyway.
    owner : Transaction, optional
        What it takes part in.
    same : StagedStore, optional
        The one whose changes it has, where it only asks the same store through another one.

    Examples
    --------
    >>> from tessarr.stores import MemoryStore
    >>> store = MemoryStore()
    >>> staged = StagedStore(store, False)
    >>> staged["a"] = b"1"
    >>> staged["a"], "a" in store, staged.commit(True), store["a"]
    (b'1', False, None, b'1')
    """

    __slots__ = ("__weakref__",)

    def delete_prefix(self, prefix: str) -> None:
        """Remove every key under a prefix, in the end."""
        super().delete_prefix(prefix)
        self.owner._staging.forget_below(self, prefix)

    clear_prefix = delete_prefix
