"""A document that is kept while it is open."""

from __future__ import annotations

import time
from _thread import allocate_lock
from math import inf
from typing import TYPE_CHECKING

from tessarr.tensorstore.batch.shared_reads import Expected
from tessarr.tensorstore.kvstore.values import ReadResult, TimestampedStorageGeneration

if TYPE_CHECKING:
    from collections.abc import Callable

    from tessarr.tensorstore.batch.shared_reads import Sharing
    from tessarr.tensorstore.kvstore import KvStore
    from tessarr.tensorstore.transaction.transaction import Transaction

__all__ = ["Document"]


class Document:
    """A document, of which all that have it open in one context know the same.

    Parameters
    ----------
    place
        The document, as a key-value store whose key "" it is.
    """

    __slots__ = ("__weakref__", "_found", "_lock", "place")

    def __init__(self, place: KvStore) -> None:
        self.place = place
        self._lock = allocate_lock()
        self._found = _unknown()

    def read(
        self, since: float, transaction: Transaction | None, sharing: Sharing | None = None
    ) -> bytes | None:
        """Return the document, or None where there is none.

        Parameters
        ----------
        since
            Since when it must be known to be so, in seconds since 1970; infinity: now.
        transaction
            In one it is read anew, with what is written in it.
        sharing
            What is shared with others that read at the same time.
        """
        if transaction is not None:
            # Where it was changed, the transaction stays open, as TensorStore's does.
            found = self.place.with_transaction(transaction)._look("", None, sharing)
            return found.value if found.state == "value" else None
        known = found = self._found
        if not _holds(known, since):
            found = self.place._look("", known.stamp.generation or None, sharing)
            if found.state == "unspecified":
                found = ReadResult(known.state, known.value, found.stamp)
            with self._lock:
                if self._found is known:  # else it was changed, perhaps after it was read
                    self._found = found
        return found.value if found.state == "value" else None

    @property
    def expected(self) -> Expected:
        """What is read."""
        return Expected(self.place._place.store, self.place._key(""))

    def is_known(self, since: float) -> bool:
        """Whether it is known since a time, so that it need not be read."""
        return _holds(self._found, since)

    def change(
        self, change: Callable[[bytes | None], bytes], transaction: Transaction | None
    ) -> None:
        """Replace the document by what a function makes of the one that is stored."""
        if transaction is not None:
            transaction._staging.after(self._forget, in_any_case=True)
            self.place.with_transaction(transaction)._change("", change)
            return
        known, found = self._found, _unknown()
        now, content = time.time(), b""

        def changed(current: bytes | None) -> bytes:
            nonlocal content
            content = change(current)
            return content

        try:
            self.place._change("", changed)
            found = ReadResult("value", content, TimestampedStorageGeneration(b"", now))
        finally:
            with self._lock:  # of two changes at once, either may be the last
                self._found = found if self._found is known else _unknown()

    def _forget(self) -> None:
        with self._lock:
            self._found = _unknown()


def _unknown() -> ReadResult:
    """Return what stands for nothing; each is another, by which a change is seen."""
    return ReadResult("unspecified", b"", TimestampedStorageGeneration(b"", -inf))


def _holds(found: ReadResult, since: float) -> bool:
    return found.state != "unspecified" and found.stamp.time >= since
