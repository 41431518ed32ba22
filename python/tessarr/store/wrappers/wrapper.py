"""Base class of the stores that change one aspect of another store."""

from __future__ import annotations

from typing import Any

from tessarr.format.registry import set_public_module
from tessarr.store.adapt import close_user_store, get_user_store
from tessarr.store.repr_mixin import DescribedStore

__all__ = ["WrapperStore"]


class WrapperStore(DescribedStore):
    """Base of the stores that stand before another one."""

    @property
    def store(self) -> Any:
        """The store that does the work: the object that was given."""
        return get_user_store(self._arguments["store"])

    def close(self) -> None:
        """Close the store that does the work, if it can be closed."""
        close_user_store(self._arguments["store"])


set_public_module("tessarr.stores", WrapperStore)
