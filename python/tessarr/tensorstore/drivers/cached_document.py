"""A JSON document that is cached while it is open."""

from __future__ import annotations

import time
from _thread import allocate_lock
from math import inf
from typing import TYPE_CHECKING

from tessarr.tensorstore.batch.shared_reads import ExpectedRead
from tessarr.tensorstore.kvstore.values import ReadResult, TimestampedStorageGeneration

if TYPE_CHECKING:
    from collections.abc import Callable

    from tessarr.tensorstore.batch.shared_reads import SharedReads
    from tessarr.tensorstore.kvstore import KvStore
    from tessarr.tensorstore.transaction.transaction import Transaction

__all__ = ["CachedDocument"]


class CachedDocument:
    """A document whose content all handles of one context share.

    Parameters
    ----------
    kvstore
        The document, as a key-value store with the single key "".
    """

    __slots__ = ("__weakref__", "_last_read", "_lock", "kvstore")

    def __init__(self, kvstore: KvStore) -> None:
        self.kvstore = kvstore
        self._lock = allocate_lock()
        self._last_read = _empty_result()

    def read(
        self, since: float, transaction: Transaction | None, sharing: SharedReads | None = None
    ) -> bytes | None:
        """Return the document, or None if it is missing.

        Parameters
        ----------
        since
            The time from which cached content counts as fresh, in seconds since 1970; infinity
            reads again.
        transaction
            A transaction reads the document again, with its staged changes.
        sharing
            Shares reads with operations that start together.
        """
        if transaction is not None:
            # A document that the transaction changed keeps it open, as in TensorStore.
            result = self.kvstore.with_transaction(transaction)._look("", None, sharing)
            return result.value if result.state == "value" else None
        previous = result = self._last_read
        if not _is_fresh(previous, since):
            result = self.kvstore._look("", previous.stamp.generation or None, sharing)
            if result.state == "unspecified":
                result = ReadResult(previous.state, previous.value, result.stamp)
            with self._lock:
                if self._last_read is previous:  # otherwise a concurrent change replaced it
                    self._last_read = result
        return result.value if result.state == "value" else None

    @property
    def expected(self) -> ExpectedRead:
        """The read that `read` sends."""
        return ExpectedRead(self.kvstore._location.store, self.kvstore._key(""))

    def is_known(self, since: float) -> bool:
        """Return whether the cached content is fresh."""
        return _is_fresh(self._last_read, since)

    def change(
        self, change: Callable[[bytes | None], bytes], transaction: Transaction | None
    ) -> None:
        """Replace the document by a function of the stored one."""
        if transaction is not None:
            transaction._staging.after(self._forget, in_any_case=True)
            self.kvstore.with_transaction(transaction)._change("", change)
            return
        previous, result = self._last_read, _empty_result()
        now, content = time.time(), b""

        def changed(current: bytes | None) -> bytes:
            nonlocal content
            content = change(current)
            return content

        try:
            self.kvstore._change("", changed)
            result = ReadResult("value", content, TimestampedStorageGeneration(b"", now))
        finally:
            with self._lock:  # the order of two simultaneous changes is unknown
                self._last_read = result if self._last_read is previous else _empty_result()

    def _forget(self) -> None:
        with self._lock:
            self._last_read = _empty_result()


def _empty_result() -> ReadResult:
    """Return a new unknown state; its identity shows later changes."""
    return ReadResult("unspecified", b"", TimestampedStorageGeneration(b"", -inf))


def _is_fresh(result: ReadResult, since: float) -> bool:
    return result.state != "unspecified" and result.stamp.time >= since
