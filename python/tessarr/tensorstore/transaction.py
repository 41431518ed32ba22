"""Transactions: changes that are staged, and made together or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tessarr.store import Store

__all__ = ["Transaction"]


class Transaction(Protocol):
    """What key-value stores need of a transaction."""

    def _staged(self, store: Store) -> Store: ...
