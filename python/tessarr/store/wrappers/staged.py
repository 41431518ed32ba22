"""A store that stages the changes of another store until a commit."""

from __future__ import annotations

from tessarr import _engine
from tessarr.store.mapping import StoreMapping

__all__ = ["StagedStore"]


class StagedStore(_engine.StagedStore, StoreMapping):
    """A store that stages the changes of another store until `commit`.

    Parameters
    ----------
    store : Store
        The other store, which `commit` changes.
    repeatable : bool
        Whether `commit` also requires that all values that the transaction read are unchanged. It
        always requires this for values on which a change depends.
    owner : Staging, optional
        The staged changes of the transaction.
    same : StagedStore, optional
        The store that holds the staged changes, if this store is another route to it.

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
        """Stage the deletion of every key under a prefix."""
        super().delete_prefix(prefix)
        self.owner.forget_below(self, prefix)

    clear_prefix = delete_prefix
