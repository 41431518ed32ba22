"""Reads of values in worker threads, so that no request blocks the event loop."""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tessarr.errors import StoreError
from tessarr.web.store.requests import Selection

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from tessarr._engine import ValueReader
    from tessarr.store import Store
    from tessarr.web.store.requests import ValueRequest

__all__ = ["OpenedValue", "ValueSource"]

T = TypeVar("T")

_MIN_THREADS: Final = 16
_MAX_BLOCK_BYTES: Final = 8 << 20
_MIN_BLOCK_BYTES: Final = 1 << 20
_TOTAL_BYTES: Final = 128 << 20
"""The memory that the blocks of concurrent responses share."""
_MAX_ATTEMPTS: Final = 5
"""The number of attempts to open a value that other writers replace."""


@dataclass(frozen=True, slots=True)
class OpenedValue:
    """An open value, what the response sends of it, and the first bytes of that."""

    reader: ValueReader
    tag: str | None
    selection: Selection
    first_block: bytes


class ValueSource:
    """The values of a store, read in a limited number of threads.

    Parameters
    ----------
    store
        The store.
    """

    def __init__(self, store: Store) -> None:
        from anyio import CapacityLimiter

        self._store = store
        self._limiter = CapacityLimiter(max(store.concurrency, _MIN_THREADS))
        self._active = 0
        # Versions of a store in memory do not identify values beyond this process.
        self._salt = secrets.token_bytes(16)

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function in a thread."""
        from anyio.to_thread import run_sync

        return await run_sync(function, *arguments, abandon_on_cancel=True, limiter=self._limiter)

    @contextmanager
    def count_response(self) -> Generator[None]:
        """Count a response whose blocks are in memory."""
        self._active += 1
        try:
            yield
        finally:
            self._active -= 1

    @property
    def block_bytes(self) -> int:
        """The size of the blocks in which a response reads a value."""
        share = _TOTAL_BYTES // max(self._active, 1)
        return min(max(share, _MIN_BLOCK_BYTES), _MAX_BLOCK_BYTES)

    async def open(self, key: str, request: ValueRequest) -> OpenedValue | None:
        """Open a value and read its first block; None: the key is absent."""
        return await self.run(self._open, key, request, self.block_bytes)

    async def read(self, value: OpenedValue, start: int) -> bytes:
        """Read the block of the selection that starts at an offset."""
        count = min(self.block_bytes, value.selection.stop - start)
        return await self.run(value.reader.read, start, count)

    def _open(self, key: str, request: ValueRequest, block_bytes: int) -> OpenedValue | None:
        for attempt in range(1, _MAX_ATTEMPTS + 1):
            try:
                return self._open_once(key, request, block_bytes)
            except StoreError as error:
                if error.kind != "value_replaced" or attempt == _MAX_ATTEMPTS:
                    raise
        raise AssertionError

    def _open_once(self, key: str, request: ValueRequest, block_bytes: int) -> OpenedValue | None:
        reader = self._store.open_value(key, request.choose_first_range(block_bytes))
        if reader is None:
            return None
        tag = self._format_tag(reader.version)
        selection = request.select(reader.size, tag)
        count = min(selection.stop - selection.start, block_bytes) if request.sends_body else 0
        block = reader.read(selection.start, count) if count else b""
        return OpenedValue(reader, tag, selection, block)

    def _format_tag(self, version: bytes | None) -> str | None:
        """Return the strong entity tag of a version; None if the store has no versions."""
        if version is None:
            return None
        return f'"{blake2b(version, digest_size=16, key=self._salt).hexdigest()}"'
