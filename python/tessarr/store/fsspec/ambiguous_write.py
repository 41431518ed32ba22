"""Detection of ambiguous writes: responses that were lost before a client library retried."""

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
    """Run `work`, and record its requests without a response in `unanswered`."""
    _sent.set(unanswered)  # each task has its own context
    return await work(*arguments)


def build_answer_lost_error(path: str) -> StoreError:
    """Return the error for a change that may have been applied before a retry was refused."""
    return StoreError(
        f"{path!r}: the response to a change was lost, and asked again the server has refused it, "
        "as it does where it was made; look before you do it again",
        kind="answer_lost",
    )


def build_unclear_error() -> ConnectionError:
    """Return the error for a change that may have been applied before its retry failed."""
    return ConnectionError("the response to a change was lost, and then it failed")


async def trace_s3_client(client: Any) -> None:
    """Record the requests of a botocore client.

    botocore, s3fs and, after a closed connection, aiohttp retry requests silently.
    """
    # These names are private: with others, ambiguous writes stay undetected.
    http: Any = getattr(getattr(client, "_endpoint", None), "http_session", None)
    sessions = [getattr(http, "_session", None)]  # older versions of aiobotocore
    if getattr(http, "_sessions", None) is not None and hasattr(http, "_get_session"):
        await http._get_session(None)
        sessions = [*http._sessions.values()]
    for session in sessions:
        if hasattr(session, "trace_configs"):  # a session of aiohttp
            trace_session(session)


def trace_session(session: Any) -> None:
    """Record the requests of an aiohttp session."""
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
