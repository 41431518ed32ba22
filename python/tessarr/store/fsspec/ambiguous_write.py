"""Answers that are lost: a file system asks again, and is told that a change is made already."""

from __future__ import annotations

from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tessarr.errors import StoreError
from tessarr.store.transient import GATEWAY_STATUSES

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

__all__ = [
    "build_answer_lost_error",
    "build_unclear_error",
    "record_requests",
    "trace_s3_client",
    "trace_session",
]

T = TypeVar("T")

_sent: Final[ContextVar[list[object] | None]] = ContextVar("sent", default=None)


async def record_requests(
    unanswered: list[object], work: Callable[..., Coroutine[Any, Any, T]], *arguments: Any
) -> T:
    """Do what asks a server, and note the requests to which there is no answer."""
    _sent.set(unanswered)  # each task has its own
    return await work(*arguments)


def build_answer_lost_error(path: str) -> StoreError:
    """Return the error of a change that may have been made before it was refused."""
    return StoreError(
        f"{path!r}: the response to a change was lost, and asked again the server has refused it, "
        "as it does where it was made; look before you do it again",
        kind="answer_lost",
    )


def build_unclear_error() -> ConnectionError:
    """Return the error of a change that may have been made before it could not be asked for."""
    return ConnectionError("the response to a change was lost, and then it failed")


async def trace_s3_client(client: Any) -> None:
    """Have the requests of a client of botocore noted.

    It asks again, and so do s3fs, and aiohttp where a connection was closed, which tells nobody.
    """
    # None of these is public: where they have other names, answers are lost as before.
    http: Any = getattr(getattr(client, "_endpoint", None), "http_session", None)
    sessions = [getattr(http, "_session", None)]  # before aiobotocore had one for each proxy
    if getattr(http, "_sessions", None) is not None and hasattr(http, "_get_session"):
        await http._get_session(None)
        sessions = [*http._sessions.values()]
    for session in sessions:
        if hasattr(session, "trace_configs"):  # else it is none of aiohttp
            trace_session(session)


def trace_session(session: Any) -> None:
    """Have the requests of a session of aiohttp noted."""
    if _get_trace() not in session.trace_configs:
        session.trace_configs.append(_get_trace())


@lru_cache(1)
def _get_trace() -> Any:
    from aiohttp import TraceConfig

    trace = TraceConfig()
    trace.on_request_headers_sent.append(_add_request)
    trace.on_request_redirect.append(_remove_request)
    trace.on_request_end.append(_remove_request)
    trace.freeze()
    return trace


async def _add_request(*_: Any) -> None:
    sent = _sent.get()
    if sent is not None:
        sent.append(None)


async def _remove_request(_: Any, __: Any, event: Any) -> None:
    sent = _sent.get()
    if sent and event.response.status not in GATEWAY_STATUSES:
        sent.pop()
