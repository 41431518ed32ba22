"""A document that is kept while it is open."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tessarr.tensorstore.kvstore.values import ReadResult, TimestampedStorageGeneration

if TYPE_CHECKING:
    from collections.abc import Callable

    from tessarr.tensorstore.kvstore import KvStore
    from tessarr.tensorstore.transaction import Transaction

__all__ = ["Document"]


class Document:
    """A document, of which all that have it open in one context know the same.

    Parameters
    ----------
    place
        The document, as a key-value store whose key "" it is.
    """

    __slots__ = ("__weakref__", "_found", "place")

    def __init__(self, place: KvStore) -> None:
        self.place = place
        self._found: ReadResult | None = None

    def read(self, since: float, transaction: Transaction | None) -> bytes | None:
        """Return the document, or None where there is none.

        Parameters
        ----------
        since
            Since when it must be known to be so, in seconds since 1970; infinity: now.
        transaction
            In one it is read anew, with what is written in it.
        """
        if transaction is not None:
            found = self.place.with_transaction(transaction).read("").result()
            return found.value if found.state == "value" else None
        known = self._found
        if known is None or known.stamp.time < since:
            generation = None if known is None else known.stamp.generation or None
            found = self.place.read("", if_not_equal=generation).result()
            if known is not None and found.state == "unspecified":
                found = ReadResult(known.state, known.value, found.stamp)
            self._found = known = found
        return known.value if known.state == "value" else None

    def change(
        self, change: Callable[[bytes | None], bytes], transaction: Transaction | None
    ) -> None:
        """Replace the document by what a function makes of the one that is stored."""
        if transaction is not None:
            transaction._staging.after(self._forget)
            self.place.with_transaction(transaction)._change("", change)
            return
        now, content = time.time(), b""

        def changed(current: bytes | None) -> bytes:
            nonlocal content
            content = change(current)
            return content

        self.place._change("", changed)
        self._found = ReadResult("value", content, TimestampedStorageGeneration(b"", now))

    def _forget(self) -> None:
        self._found = None
