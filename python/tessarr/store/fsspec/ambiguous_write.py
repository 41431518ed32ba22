"""Answers that are lost: a file system asks again, and is told that a change is made already."""

from __future__ import annotations

from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tessarr.errors import StoreError
from tessarr.store.transient import BROKEN

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

__all__ = ["answer_lost", "noting", "unclear", "watch", "watch_s3"]

T = TypeVar("T")

_sent: Final[ContextVar[list[object] | None]] = ContextVar("sent", default=None)


async def noting(
    lost: list[object], work: Callable[..., Coroutine[Any, Any, T]], *arguments: Any
) -> T:
    """Do what asks a server, and note the requests to which there is no answer."""
    _sent.set(lost)  # each task has its own
    return await work(*arguments)


def answer_lost(path: str) -> StoreError:
    """Return the error of a change that may have been made before it was refused."""
    return StoreError(
        f"{path!r}: the answer to a change was lost, and asked again the server has refused it, "
        "as it does where it was made; look before you do it again",
        kind="answer_lost",
    )


def unclear() -> ConnectionError:
    """Return the error of a change that may have been made before it could not be asked for."""
    return ConnectionError("the answer to a change was lost, and then it failed")


async def watch_s3(client: Any) -> None:
    """Have the requests of a client of botocore noted.

    It asks again, and so do s3fs, and aiohttp where a connection was closed, which tells nobody.
    """
    # None of these is public: where they have other names, answers are lost as before.
    http: Any = getattr(getattr(client, "_endpoint", None), "http_session", None)
    found = [getattr(http, "_session", None)]  # before aiobotocore had one for each proxy
    if getattr(http, "_sessions", None) is not None and hasattr(http, "_get_session"):
        await http._get_session(None)
        found = [*http._sessions.values()]
    for session in found:
        if hasattr(session, "trace_configs"):  # else it is none of aiohttp
            watch(session)


def watch(session: Any) -> None:
    """Have the requests of a session of aiohttp noted."""
    if _watch() not in session.trace_configs:
        session.trace_configs.append(_watch())


@lru_cache(1)
def _watch() -> Any:
    from aiohttp import TraceConfig

    made = TraceConfig()
    made.on_request_headers_sent.append(_begin)
    made.on_request_redirect.append(_end)
    made.on_request_end.append(_end)
    made.freeze()
    return made


async def _begin(*_: Any) -> None:
    sent = _sent.get()
    if sent is not None:
        sent.append(None)


async def _end(_: Any, __: Any, told: Any) -> None:
    sent = _sent.get()
    if sent and told.response.status not in BROKEN:
        sent.pop()
