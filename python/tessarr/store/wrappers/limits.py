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
        return Limits._restore, (self._arguments,)

    @classmethod
    def _restore(cls, arguments: dict[str, Any]) -> Limits:
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
        opened = open_wrapped_store(store)
        return cls._build({"store": opened, "limits": limits}, limits._engine.store(opened))


set_public_module("tessarr.stores", Limits, LimitedStore)
