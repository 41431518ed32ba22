"""Stores that change the requests to another store: prefix, read-only, limits and retries."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Self

from tessarr import _engine
from tessarr.format.node_path import join, normalize_path
from tessarr.format.registry import set_public_module
from tessarr.store.adapt import close_user_store, get_user_store
from tessarr.store.repr_mixin import DescribedStore
from tessarr.store.resolve import open_store
from tessarr.store.transient import classify_error

if TYPE_CHECKING:
    from tessarr._engine import Store
    from tessarr.store.resolve import StoreLike

__all__ = [
    "LimitedStore",
    "Limits",
    "PrefixStore",
    "ReadOnlyStore",
    "RetryingStore",
    "WrapperStore",
    "open_wrapped_store",
]


class WrapperStore(DescribedStore):
    """Base class of the stores that change one aspect of another store."""

    @property
    def store(self) -> Any:
        """The other store: the object that the user passed."""
        return get_user_store(self._arguments["store"])

    def close(self) -> None:
        """Close the other store, if it has a method ``close``."""
        close_user_store(self._arguments["store"])


def open_wrapped_store(store: StoreLike) -> Store:
    """Resolve a store argument to a store whose root is the argument's path."""
    opened, path = open_store(store)
    return PrefixStore(opened, path) if path else opened


class PrefixStore(WrapperStore):
    """A store of the keys below a path of another store.

    Parameters
    ----------
    store : StoreLike
        The other store, as for `tessarr.open`.
    prefix : str
        The path: names joined by ``/``.

    Notes
    -----
    No key leads out of the prefix. Errors name the keys of the other store.

    Examples
    --------
    >>> below = PrefixStore({"a/b": b"1", "c": b"2"}, "a")
    >>> below.list(), below.get("b")
    (['b'], b'1')
    """

    def __new__(cls, store: StoreLike, prefix: str) -> Self:
        opened, path = open_store(store)
        whole = normalize_path(join(path, prefix))
        engine = _engine.prefix_store(opened, f"{whole}/" if whole else "")
        return cls._build({"store": opened, "prefix": whole}, engine)


class ReadOnlyStore(WrapperStore):
    """A store that refuses every change of another store with a `ReadOnlyError`.

    Parameters
    ----------
    store : StoreLike
        The other store, as for `tessarr.open`.

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
        opened = open_wrapped_store(store)
        return cls._build({"store": opened}, _engine.guard_store(opened))


class Limits:
    """Limits on the requests to all stores that share this object.

    Parameters
    ----------
    concurrency : int, optional
        The number of concurrent requests.
    chunks : int, optional
        The number of chunks that are decoded or encoded concurrently.
    reads_per_s, writes_per_s : float, optional
        The number of reading and of writing requests that start in a second.
    doubling_s : float, optional
        The time after which both rates double, repeatedly: object stores require that traffic
        grows slowly.

    Examples
    --------
    >>> Limits(concurrency=4, writes_per_s=100)
    Limits(concurrency=4, writes_per_s=100)
    """

    def __init__(
        self,
        *,
        concurrency: int | None = None,
        chunks: int | None = None,
        reads_per_s: float | None = None,
        writes_per_s: float | None = None,
        doubling_s: float | None = None,
    ) -> None:
        self._arguments: dict[str, Any] = {
            "concurrency": concurrency,
            "chunks": chunks,
            "reads_per_s": reads_per_s,
            "writes_per_s": writes_per_s,
            "doubling_s": doubling_s,
        }
        self._engine = _engine.Limits(*self._arguments.values())

    def __repr__(self) -> str:
        shown = (
            f"{name}={value!r}" for name, value in self._arguments.items() if value is not None
        )
        return f"Limits({', '.join(shown)})"

    def __reduce__(self) -> Any:
        return partial(Limits, **self._arguments), ()


class LimitedStore(WrapperStore):
    """A store that limits the requests to another store.

    Parameters
    ----------
    store : StoreLike
        The other store, as for `tessarr.open`.
    limits : Limits
        The limits, shared by all stores with the same object.

    Notes
    -----
    A request over a limit waits. A change counts as one request, including its reads.

    Examples
    --------
    >>> limits = Limits(concurrency=2)
    >>> store = LimitedStore({"a": b"1"}, limits)
    >>> store.get("a"), store
    (b'1', LimitedStore(ForeignStore(<dict>), limits=Limits(concurrency=2)))
    """

    def __new__(cls, store: StoreLike, limits: Limits) -> Self:
        opened = open_wrapped_store(store)
        return cls._build({"store": opened, "limits": limits}, limits._engine.store(opened))


class RetryingStore(WrapperStore):
    """A store that repeats requests to another store after transient errors.

    Parameters
    ----------
    store : StoreLike
        The other store, as for `tessarr.open`.
    max_retries : int, default 32
        The maximum number of repetitions.
    first_delay_s : float, default 1
        The delay before the first repetition. Each further delay is twice as long.
    max_delay_s : float, default 32
        The maximum delay.

    Notes
    -----
    Transient errors are lost connections, timeouts, the statuses 408, 429, 500, 502, 503 and 504,
    errors of the system such as EBUSY, and every retryable `StoreError`. The actual delay is
    random, between half of the nominal delay and all of it. The store does not repeat atomic
    changes of several keys. If the other store may have applied a change, and a repetition could
    have another result, the call raises a `StoreError` of the kind "answer_lost". A busy server
    (408, 429, 503) has applied no change.

    Examples
    --------
    >>> class Busy(dict):
    ...     left = 2
    ...     def __getitem__(self, key):
    ...         self.left -= 1
    ...         if self.left >= 0:
    ...             raise TimeoutError("busy")
    ...         return super().__getitem__(key)
    >>> RetryingStore(Busy(a=b"1"), first_delay_s=0.001).get("a")
    b'1'
    """

    _classify = staticmethod(classify_error)

    def __new__(
        cls,
        store: StoreLike,
        *,
        max_retries: int = 32,
        first_delay_s: float = 1.0,
        max_delay_s: float = 32.0,
    ) -> Self:
        opened = open_wrapped_store(store)
        arguments: dict[str, Any] = {
            "store": opened,
            "max_retries": max_retries,
            "first_delay_s": first_delay_s,
            "max_delay_s": max_delay_s,
        }
        engine = _engine.retry_store(opened, max_retries, first_delay_s, max_delay_s, cls._classify)
        return cls._build(arguments, engine)


set_public_module(
    "tessarr.stores", WrapperStore, PrefixStore, ReadOnlyStore, Limits, LimitedStore, RetryingStore
)
