"""Stores over other stores.

What they do for each chunk is done in the engine: a prefix or a cache costs no Python.
Each takes whatever `tessarr.open` takes as a store, and adds nothing to what is stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from tessarr import _engine
from tessarr.errors import ArgumentError
from tessarr.format.node_path import join, node_path
from tessarr.format.registry import call_public
from tessarr.store.adapt import close, given
from tessarr.store.repr_mixin import DescribedStore
from tessarr.store.url import open_store

if TYPE_CHECKING:
    import logging

    from tessarr._engine import Store
    from tessarr.store.url import StoreLike

__all__ = [
    "LRUStoreCache",
    "LatencyStore",
    "LoggingStore",
    "PrefixStore",
    "ReadOnlyStore",
    "WrapperStore",
    "opened",
]


def opened(store: StoreLike) -> Store:
    """Return the store that is meant, which begins at the path that is."""
    found, path = open_store(store)
    return PrefixStore(found, path) if path else found


class WrapperStore(DescribedStore):
    """Base of the stores that stand before another one."""

    @property
    def store(self) -> Any:
        """The store that does the work: the object that was given."""
        return given(self._arguments["store"])

    def close(self) -> None:
        """Close the store that does the work, if it can be closed."""
        close(self._arguments["store"])


class PrefixStore(WrapperStore):
    """What lies below a path of another store, as a store of its own.

    Parameters
    ----------
    store : StoreLike
        The store, or what `tessarr.open` takes as one.
    prefix : str
        The path: names joined by ``/``.

    Notes
    -----
    No key leads out of it. Errors name keys as they are in the store below.

    Examples
    --------
    >>> below = PrefixStore({"a/b": b"1", "c": b"2"}, "a")
    >>> below.list(), below.get("b")
    (['b'], b'1')
    """

    def __new__(cls, store: StoreLike, prefix: str) -> Self:
        found, path = open_store(store)
        whole = node_path(join(path, prefix))
        engine = _engine.prefixed(found, f"{whole}/" if whole else "")
        return cls._make({"store": found, "prefix": whole}, engine)


class ReadOnlyStore(WrapperStore):
    """Another store, refusing every change with a `ReadOnlyError`.

    Parameters
    ----------
    store : StoreLike
        The store, or what `tessarr.open` takes as one.

    Examples
    --------
    >>> store = ReadOnlyStore({"a": b"1"})
    >>> store.get("a"), store.read_only
    (b'1', True)
    >>> store.put("a", b"2")
    Traceback (most recent call last):
    tessarr.errors.ReadOnlyError: key "a": the store is open for reading only
    """

    def __new__(cls, store: StoreLike) -> Self:
        found = opened(store)
        return cls._make({"store": found}, _engine.guarded(found))


class LatencyStore(WrapperStore):
    """Another store, answering late: how code fares with a store that is far away.

    Parameters
    ----------
    store : StoreLike
        The store, or what `tessarr.open` takes as one.
    read_s : float, default 0
        Seconds before each answer: a value opened, a part of it read, a listing.
    write_s : float, default 0
        Seconds before each change.
    bytes_per_s : float, optional
        How fast bytes come and go, each request for itself; by default at once.
    concurrency : int, default 16
        How many requests for chunks are under way at a time.

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
        found = opened(store)
        options: dict[str, Any] = {
            "read_s": read_s,
            "write_s": write_s,
            "bytes_per_s": bytes_per_s,
            "concurrency": concurrency,
        }
        engine = _engine.delayed(found, read_s, write_s, bytes_per_s, concurrency)
        return cls._make({"store": found, **options}, engine)


class LoggingStore(WrapperStore):
    """Another store that logs what it is asked.

    Parameters
    ----------
    store : StoreLike
        The store, or what `tessarr.open` takes as one.
    log_level : str or int, default "DEBUG"
        The level of the messages. What fails is logged one level higher.
    log_handler : logging.Handler, optional
        Where the messages go; by default to the logger ``tessarr.store``, as the
        program has set it up. A store with a handler cannot be pickled.

    Notes
    -----
    Messages come after the calls, in the threads that make them: the operation, the key, the
    bytes that were read or written, and the time it took.

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
        found = opened(store)
        arguments = {"store": found, "log_level": log_level, "log_handler": log_handler}
        return cls._make(arguments, _engine.watched(found, _Log(log_level, log_handler)))


class _Log:
    def __init__(self, level: str | int, handler: logging.Handler | None) -> None:
        import logging

        numbers: dict[str, int] = logging.getLevelNamesMapping()
        number = numbers.get(level.upper()) if isinstance(level, str) else level
        if number is None:
            raise ArgumentError(f"log_level must be one of {', '.join(numbers)}, not {level!r}")
        self._level = number
        self._logger = logging.getLogger("tessarr.store")
        if handler is not None:
            self._logger = logging.Logger("tessarr.store", number)  # noqa: LOG001 (a handler of its own)
            self._logger.addHandler(handler)

    def __call__(self, call: str, key: str, count: int, took_s: float, error: str | None) -> None:
        if error is None:
            self._logger.log(
                self._level, "%s %r: %d bytes, %.3f ms", call, key, count, took_s * 1e3
            )
        else:
            self._logger.log(self._level + 10, "%s %r failed: %s", call, key, error)


class LRUStoreCache(WrapperStore, _engine.CachedStore):
    """Another store, whose answers are remembered in memory.

    Values, parts of values (the subchunks of a shard), their absence and listings are
    kept as they are stored. Those that were used least recently go first.

    Parameters
    ----------
    store : StoreLike
        The store, or what `tessarr.open` takes as one.
    max_size : int or None
        How many bytes may be kept; None sets no limit.
    max_age_s : float, optional
        After how many seconds an answer is asked for again; by default never.

    Notes
    -----
    Everybody who uses this object sees its changes at once, and nothing is changed by what it
    remembers: changes are decided by the store below. What others change below it shows
    only when the answer is forgotten: call `invalidate`, or set ``max_age_s``.
    A pickle holds no answers.

    Examples
    --------
    >>> cache = LRUStoreCache({"a": b"1"}, max_size=2**28)
    >>> cache.get("a"), cache.get("a"), cache.hits, cache.misses
    (b'1', b'1', 1, 1)
    """

    def __new__(
        cls, store: StoreLike, max_size: int | None, *, max_age_s: float | None = None
    ) -> Self:
        if max_size is not None and (type(max_size) is not int or max_size < 0):
            raise ArgumentError(f"max_size must be a number of bytes or None, not {max_size!r}")
        found = opened(store)
        arguments: dict[str, Any] = {"store": found, "max_size": max_size, "max_age_s": max_age_s}
        limit = 2**64 - 1 if max_size is None else min(max_size, 2**64 - 1)
        return cls._make(arguments, found, limit, max_age_s)

    def __eq__(self, other: object) -> bool:
        return self is other  # what it remembers is its own

    def __hash__(self) -> int:
        return id(self)

    @property
    def hits(self) -> int:
        """How many answers were remembered."""
        return self.counts()["hits"]

    @property
    def misses(self) -> int:
        """How many answers the store below had to give."""
        return self.counts()["misses"]

    @property
    def current_size(self) -> int:
        """How many bytes are kept now."""
        return self.counts()["bytes"]

    def invalidate(self) -> None:
        """Forget everything."""
        self.forget()

    invalidate_values = invalidate
    invalidate_keys = invalidate


call_public(
    "tessarr.stores",
    WrapperStore,
    PrefixStore,
    ReadOnlyStore,
    LatencyStore,
    LoggingStore,
    LRUStoreCache,
)
