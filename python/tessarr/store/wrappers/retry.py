"""A store that repeats requests after transient errors."""

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


set_public_module("tessarr.stores", RetryingStore)
