"""A store that repeats the requests that fail with a transient error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from tessarr import _engine
from tessarr.format.registry import set_public_module
from tessarr.store.transient import classify_error
from tessarr.store.wrappers.prefix import open_wrapped_store
from tessarr.store.wrappers.wrapper import WrapperStore

if TYPE_CHECKING:
    from tessarr.store.resolve import StoreLike

__all__ = ["RetryingStore"]


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


set_public_module("tessarr.stores", RetryingStore)
