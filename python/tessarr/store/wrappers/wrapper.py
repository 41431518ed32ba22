"""Base class of the stores that change one aspect of another store."""

from __future__ import annotations

from typing import Any

from tessarr.format.registry import set_public_module
from tessarr.store.adapt import close_user_store, get_user_store
from tessarr.store.repr_mixin import DescribedStore

__all__ = ["WrapperStore"]


class WrapperStore(DescribedStore):
    """Base class of the stores that change one aspect of another store."""

    @property
    def store(self) -> Any:
        """The other store: the object that the user passed."""
        return get_user_store(self._arguments["store"])

    def close(self) -> None:
        """Close the other store, if it has a method ``close``."""
        close_user_store(self._arguments["store"])


set_public_module("tessarr.stores", WrapperStore)
