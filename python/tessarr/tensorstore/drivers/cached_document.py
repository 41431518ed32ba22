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

__all__ = ["CachedDocument"]


class CachedDocument:
    """A document, of which all that have it open in one context know the same.

    Parameters
    ----------
    place
        The document, as a key-value store whose key "" it is.
    """

    __slots__ = ("__weakref__", "_last_read", "_lock", "kvstore")

    def __init__(self, place: KvStore) -> None:
        self.kvstore = place
        self._lock = allocate_lock()
        self._last_read = _empty_result()

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
            found = self.kvstore.with_transaction(transaction)._look("", None, sharing)
            return found.value if found.state == "value" else None
        known = found = self._last_read
        if not _is_fresh(known, since):
            found = self.kvstore._look("", known.stamp.generation or None, sharing)
            if found.state == "unspecified":
                found = ReadResult(known.state, known.value, found.stamp)
            with self._lock:
                if self._last_read is known:  # else it was changed, perhaps after it was read
                    self._last_read = found
        return found.value if found.state == "value" else None

    @property
    def expected(self) -> Expected:
        """What is read."""
        return Expected(self.kvstore._place.store, self.kvstore._key(""))

    def is_known(self, since: float) -> bool:
        """Whether it is known since a time, so that it need not be read."""
        return _is_fresh(self._last_read, since)

    def change(
        self, change: Callable[[bytes | None], bytes], transaction: Transaction | None
    ) -> None:
        """Replace the document by what a function makes of the one that is stored."""
        if transaction is not None:
            transaction._staging.after(self._forget, in_any_case=True)
            self.kvstore.with_transaction(transaction)._change("", change)
            return
        known, found = self._last_read, _empty_result()
        now, content = time.time(), b""

        def changed(current: bytes | None) -> bytes:
            nonlocal content
            content = change(current)
            return content

        try:
            self.kvstore._change("", changed)
            found = ReadResult("value", content, TimestampedStorageGeneration(b"", now))
        finally:
            with self._lock:  # of two changes at once, either may be the last
                self._last_read = found if self._last_read is known else _empty_result()

    def _forget(self) -> None:
        with self._lock:
            self._last_read = _empty_result()


def _empty_result() -> ReadResult:
    """Return what stands for nothing; each is another, by which a change is seen."""
    return ReadResult("unspecified", b"", TimestampedStorageGeneration(b"", -inf))


def _is_fresh(found: ReadResult, since: float) -> bool:
    return found.state != "unspecified" and found.stamp.time >= since
