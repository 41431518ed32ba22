"""Stores that count, log or delay the requests to another store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from tessarr import _engine
from tessarr.errors import ArgumentError
from tessarr.format.registry import set_public_module
from tessarr.store.mapping import StoreMapping
from tessarr.store.wrappers.wrapper import WrapperStore, open_wrapped_store

if TYPE_CHECKING:
    import logging

    from tessarr.store.resolve import StoreLike

__all__ = ["CountingStore", "LatencyStore", "LoggingStore"]


class CountingStore(_engine.CountingStore, StoreMapping):
    """A store that counts the requests to another store.

    Parameters
    ----------
    store : Store
        The other store.

    Examples
    --------
    >>> from tessarr.stores import MemoryStore
    >>> store = CountingStore(MemoryStore({"a": b"1"}))
    >>> store.get("a"), store.counts()["opens"]
    (b'1', 1)
    """


class LatencyStore(WrapperStore):
    """A store that delays the requests to another store, to simulate a remote store.

    Parameters
    ----------
    store : StoreLike
        The other store, as for `tessarr.open`.
    read_s : float, default 0
        Seconds before each response to a reading request or a listing.
    write_s : float, default 0
        Seconds before each change.
    bytes_per_s : float, optional
        The transfer rate of each request; unlimited by default.
    concurrency : int, default 16
        The number of concurrent requests for chunks.

    Examples
    --------
    >>> far = LatencyStore(None, read_s=0.01, write_s=0.02, bytes_per_s=1e9)
    >>> far.put("a", b"1")
    """

    def __new__(
        cls,
        store: StoreLike,
        *,
        read_s: float = 0.0,
        write_s: float = 0.0,
        bytes_per_s: float | None = None,
        concurrency: int = 16,
    ) -> Self:
        opened = open_wrapped_store(store)
        options: dict[str, Any] = {
            "read_s": read_s,
            "write_s": write_s,
            "bytes_per_s": bytes_per_s,
            "concurrency": concurrency,
        }
        engine = _engine.delay_store(opened, read_s, write_s, bytes_per_s, concurrency)
        return cls._build({"store": opened, **options}, engine)


class LoggingStore(WrapperStore):
    """A store that logs the requests to another store.

    Parameters
    ----------
    store : StoreLike
        The other store, as for `tessarr.open`.
    log_level : str or int, default "DEBUG"
        The level of the messages. Failed requests are logged one level higher.
    log_handler : logging.Handler, optional
        The destination of the messages; by default the logger ``tessarr.store``. A store with a
        handler cannot be pickled.

    Notes
    -----
    The calling thread logs each request after its end: the operation, the key, the number of
    bytes, and the duration.

    Examples
    --------
    >>> import logging, sys
    >>> store = LoggingStore({"a": b"123"}, log_handler=logging.StreamHandler(sys.stdout))
    >>> value = store.get("a")
    open 'a': 3 bytes, ... ms
    """

    def __new__(
        cls,
        store: StoreLike,
        *,
        log_level: str | int = "DEBUG",
        log_handler: logging.Handler | None = None,
    ) -> Self:
        opened = open_wrapped_store(store)
        arguments = {"store": opened, "log_level": log_level, "log_handler": log_handler}
        return cls._build(
            arguments, _engine.observe_store(opened, _RequestLogger(log_level, log_handler))
        )


class _RequestLogger:
    def __init__(self, level: str | int, handler: logging.Handler | None) -> None:
        import logging

        numbers: dict[str, int] = logging.getLevelNamesMapping()
        number = numbers.get(level.upper()) if isinstance(level, str) else level
        if number is None:
            raise ArgumentError(f"log_level must be one of {', '.join(numbers)}, not {level!r}")
        self._level = number
        self._logger = logging.getLogger("tessarr.store")
        if handler is not None:
            self._logger = logging.Logger("tessarr.store", number)  # noqa: LOG001 (not a registered logger)
            self._logger.addHandler(handler)

    def __call__(self, call: str, key: str, count: int, took_s: float, error: str | None) -> None:
        if error is None:
            self._logger.log(
                self._level, "%s %r: %d bytes, %.3f ms", call, key, count, took_s * 1e3
            )
        else:
            self._logger.log(self._level + 10, "%s %r failed: %s", call, key, error)


set_public_module("tessarr.stores", LatencyStore, LoggingStore)
