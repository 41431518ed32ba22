"""A store that limits the number and the rate of requests to another store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from tessarr import _engine
from tessarr.format.registry import set_public_module
from tessarr.store.wrappers.prefix import open_wrapped_store
from tessarr.store.wrappers.wrapper import WrapperStore

if TYPE_CHECKING:
    from tessarr.store.resolve import StoreLike

__all__ = ["LimitedStore", "Limits"]


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
        return Limits._restore, (self._arguments,)

    @classmethod
    def _restore(cls, arguments: dict[str, Any]) -> Limits:
        return cls(**arguments)


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


set_public_module("tessarr.stores", Limits, LimitedStore)
