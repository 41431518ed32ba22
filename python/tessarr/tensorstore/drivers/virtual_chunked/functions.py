"""User functions that read and write chunks, and their parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import isawaitable, iscoroutine
from math import inf
from typing import TYPE_CHECKING, Any

from tessarr._safe_repr import safe_repr
from tessarr.tensorstore.future.future import Future, failed
from tessarr.tensorstore.kvstore import KvStore

if TYPE_CHECKING:
    import asyncio

    from tessarr.index_space import IndexDomain
    from tessarr.tensorstore.batch import Batch

__all__ = [
    "Function",
    "Functions",
    "VirtualChunkedReadParameters",
    "VirtualChunkedWriteParameters",
    "read_stamp",
]

Function = Callable[["IndexDomain", Any, Any], Any]


@dataclass(frozen=True, slots=True)
class VirtualChunkedReadParameters:
    """The third argument of a function that reads a chunk.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> def tell(domain, chunk, parameters):
    ...     print(type(parameters).__name__, parameters.if_not_equal, domain)
    >>> ts.virtual_chunked(tell, dtype=ts.int8, shape=[2]).read().result().shape
    VirtualChunkedReadParameters b'' { [0, 2) }
    (2,)
    """

    batch: Batch | None = None
    """The batch of the read."""
    if_not_equal: bytes = b""
    """The generation of the cached chunk; a function need not fill a current chunk."""
    staleness_bound: float = -inf
    """The maximum age of the chunk, in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class VirtualChunkedWriteParameters:
    """The third argument of a function that writes a chunk.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> def tell(domain, chunk, parameters):
    ...     print(type(parameters).__name__, parameters.if_equal, chunk)
    >>> ts.virtual_chunked(None, tell, dtype=ts.int8, shape=[2]).write([5, 6]).result()
    VirtualChunkedWriteParameters b'' [5 6]
    """

    if_equal: bytes = b""
    """The generation that the replaced chunk must have, if not empty."""


@dataclass(frozen=True, slots=True)
class Functions:
    """The functions that read and write chunks, and the event loop of their coroutines."""

    read: Function | None
    write: Function | None
    loop: Any = None

    def begin(self, function: Function, *arguments: Any) -> Future[Any] | None:
        """Call a function; return a future of its result, or None if the result is None."""
        try:
            result = function(*arguments)
            if result is None:
                return None
            if isawaitable(result) and not isinstance(result, Future) and not iscoroutine(result):
                result = _await_result(result)  # wraps any awaitable in a coroutine
            return Future(result, loop=self.loop)
        except Exception as error:  # noqa: BLE001 (the future reports it)
            return failed(error)


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the running event loop, or None."""
    import asyncio

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def _await_result(work: Any) -> Any:
    return await work


def read_stamp(result: Any) -> tuple[bytes, float]:
    """Return the generation and the time that a function returned."""
    if result is None:
        return b"", inf
    if isinstance(result, KvStore.TimestampedStorageGeneration):
        return result.generation, result.time
    raise TypeError(
        "a function of virtual_chunked returns None or a KvStore.TimestampedStorageGeneration, "
        f"not {safe_repr(result)}"
    )
