"""Stores that are asked with care: not too often at a time, and again after a failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from tessarr import _engine
from tessarr.format.registry import call_public
from tessarr.store.transient import judged
from tessarr.store.wrappers.wrapper import WrapperStore, opened

if TYPE_CHECKING:
    from tessarr.store.url import StoreLike

__all__ = ["LimitedStore", "Limits", "RetryingStore"]


class Limits:
    """How much may be asked of stores: of all together that share the object.

    Parameters
    ----------
    concurrency : int, optional
        How many requests may be under way at a time.
    chunks : int, optional
        How many chunks may be decoded or encoded at a time.
    reads_per_s, writes_per_s : float, optional
        How many that change nothing, and how many that may, begin in a second.
    doubling_s : float, optional
        After which time there may be twice as many in a second, again and again: object
        stores want traffic to grow slowly.

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
        self._engine = _engine.Limits(concurrency, chunks, reads_per_s, writes_per_s, doubling_s)
        self._arguments = {
            "concurrency": concurrency,
            "chunks": chunks,
            "reads_per_s": reads_per_s,
            "writes_per_s": writes_per_s,
            "doubling_s": doubling_s,
        }

    def __repr__(self) -> str:
        shown = (
            f"{name}={value!r}" for name, value in self._arguments.items() if value is not None
        )
        return f"Limits({', '.join(shown)})"

    def __reduce__(self) -> Any:
        return Limits._restored, (self._arguments,)

    @classmethod
    def _restored(cls, arguments: dict[str, Any]) -> Limits:
        return cls(**arguments)


class LimitedStore(WrapperStore):
    """Another store, of which not too much is asked at a time.

    Parameters
    ----------
    store : StoreLike
        The store, or what `tessarr.open` takes as one.
    limits : Limits
        How much: of all stores together that have the same object.

    Notes
    -----
    What comes too early waits. A change counts as one request, whatever it reads first.

    Examples
    --------
    >>> limits = Limits(concurrency=2)
    >>> store = LimitedStore({"a": b"1"}, limits)
    >>> store.get("a"), store
    (b'1', LimitedStore(ForeignStore(<dict>), limits=Limits(concurrency=2)))
    """

    def __new__(cls, store: StoreLike, limits: Limits) -> Self:
        found = opened(store)
        return cls._make({"store": found, "limits": limits}, limits._engine.store(found))


class RetryingStore(WrapperStore):
    """Another store, that is asked again where it could not answer for a while.

    Parameters
    ----------
    store : StoreLike
        The store, or what `tessarr.open` takes as one.
    max_retries : int, default 32
        How often it is asked again, at most.
    first_delay_s : float, default 1
        How long to wait before the second time. It is twice as long each time after that.
    max_delay_s : float, default 32
        How long to wait at most.

    Notes
    -----
    Asked again is after what may pass: lost connections, time that has run out, servers that
    are busy (408, 429, 500, 502, 503, 504), errors of the system such as EBUSY, and a
    `StoreError` that is retryable. Between half of each wait and all of it is waited. Changes of
    several keys at once are not made again. Where nobody knows whether a change was made, and
    making it again would not give the same, that is a `StoreError` of the kind "answer_lost";
    servers that are only busy (408, 429, 503) have made none.

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

    _judge = staticmethod(judged)

    def __new__(
        cls,
        store: StoreLike,
        *,
        max_retries: int = 32,
        first_delay_s: float = 1.0,
        max_delay_s: float = 32.0,
    ) -> Self:
        found = opened(store)
        arguments: dict[str, Any] = {
            "store": found,
            "max_retries": max_retries,
            "first_delay_s": first_delay_s,
            "max_delay_s": max_delay_s,
        }
        engine = _engine.retrying(found, max_retries, first_delay_s, max_delay_s, cls._judge)
        return cls._make(arguments, engine)


call_public("tessarr.stores", Limits, LimitedStore, RetryingStore)
