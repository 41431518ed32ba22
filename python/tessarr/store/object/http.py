"""Web servers: endpoints for the engine, and requests by fsspec's file system."""

from __future__ import annotations

from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import lru_cache
from math import inf
from typing import Any, Final, NamedTuple, TypeAlias

__all__ = [
    "Endpoint",
    "ErrorResponse",
    "Response",
    "SigningKey",
    "build_timeout_error",
    "build_web_error",
    "find_web_endpoint",
    "get_web_file",
]

_CLOCK_TOLERANCE: Final = timedelta(seconds=2)  # the headers have whole seconds
_PARTIAL: Final = 206
_SUCCESS_STATUSES: Final = frozenset({200, 203, _PARTIAL})

Response: TypeAlias = "tuple[bytes, str | None, str | None, bool]"
"""The bytes, the header ``Content-Range``, the tag, and whether the tag is stable."""


SigningKey: TypeAlias = tuple[str, str, str | None, str]
"""The key's name, the secret, a token and the region."""


class ErrorResponse(NamedTuple):
    """A response of a server that refuses a request.

    Parameters
    ----------
    method
        The method of the request.
    status
        The status of the response.
    reason
        The reason phrase.
    headers
        The headers of the response.
    """

    method: str
    status: int
    reason: str
    headers: Any


class Endpoint(NamedTuple):
    """The URLs of a server's files, and the settings of requests for them.

    Parameters
    ----------
    root
        The beginning of all URLs.
    query
        The query after the path of a file.
    headers
        The headers of each request.
    timeout_s
        The timeout of a request.
    unescaped
        Characters of paths, besides letters and digits, that are not percent-encoded.
    state_header
        The header that identifies a state of a file; None for the usual headers of the web.
    signing_key
        The key that signs requests to S3, if any.
    max_stored_bytes
        The size of the largest value that the engine itself stores.
    valid_s
        How long this endpoint is valid.
    absent_is_forbidden
        Whether the server reports absent files as forbidden.
    ignores_listings
        Whether the file system's cache of listings has no other user.
    """

    root: str
    query: str
    headers: list[tuple[str, str]]
    timeout_s: float
    unescaped: str
    state_header: str | None = None
    signing_key: SigningKey | None = None
    max_stored_bytes: int = 0
    valid_s: float = inf
    absent_is_forbidden: bool = False
    ignores_listings: bool = False

    def __repr__(self) -> str:
        return f"Place({self.root!r})"  # headers and keys are secrets


def find_web_endpoint(fs: Any, root: str) -> Endpoint | None:
    """Return the endpoint of a web file system.

    The result is None for other file systems, and for settings that the engine lacks: another
    event loop, other sessions, proxies.
    """
    if type(fs).__module__ != "fsspec.implementations.http" or fs.encoded:
        return None
    from fsspec.asyn import get_loop
    from fsspec.implementations import http

    if type(fs) is not http.HTTPFileSystem or fs.get_client is not http.get_client:
        return None
    if fs.loop is not get_loop():
        return None
    options, session = dict(fs.kwargs), dict(fs.client_kwargs)
    mine = _to_pairs(options.pop("headers", ()))
    names = {str(name).lower() for name, _ in mine}  # these replace the headers of the session
    others = _to_pairs(session.pop("headers", ()))
    headers = [*(pair for pair in others if str(pair[0]).lower() not in names), *mine]
    params = options.pop("params", ())
    patience_s = _get_timeout_s(session.pop("timeout", None))
    if patience_s is None or options or session:
        return None
    if not all(isinstance(text, str) for pair in headers for text in pair):
        return None
    url = fs.encode_url(root)
    if url.raw_query_string or url.raw_fragment or url.user:
        return None
    query = url.with_query(params).raw_query_string if params else ""
    start, query = f"{str(url).rstrip('/')}/", f"?{query}" if query else ""
    return Endpoint(start, query, headers, patience_s, "-._~/!$&'()*,;=:@")


def _get_timeout_s(timeout: Any) -> float | None:
    """Return the total timeout of a session; None if it has further timeouts."""
    from aiohttp import ClientTimeout
    from aiohttp.client import DEFAULT_TIMEOUT

    if timeout is None:
        timeout = DEFAULT_TIMEOUT
    elif timeout != ClientTimeout(total=getattr(timeout, "total", None)):
        return None
    return float(timeout.total or inf)


def _to_pairs(headers: Any) -> list[tuple[Any, Any]]:
    return [*(headers.items() if hasattr(headers, "items") else headers or ())]


async def get_web_file(fs: Any, path: str, span: str | None) -> Response:
    """Request a range of a file, or the whole file."""
    options = dict(fs.kwargs)
    if span is not None:  # a part of an encoded response is useless
        ranged = {"Range": span, "Accept-Encoding": "identity"}
        options["headers"] = {**options.get("headers", {}), **ranged}
    session = await fs.set_session()
    try:
        return await _request_web_file(fs, session, path, options)
    except TimeoutError as error:
        raise build_timeout_error() from error


async def _request_web_file(fs: Any, session: Any, path: str, options: dict[str, Any]) -> Response:
    async with session.get(fs.encode_url(path), **options) as answer:
        fs._raise_not_found_for_status(answer, path)
        if answer.status not in _SUCCESS_STATUSES:  # redirects without a location, too
            error_response = ErrorResponse("GET", answer.status, answer.reason, answer.headers)
            raise build_web_error(fs, path, error_response)
        data = await answer.read()
        content_range = (
            answer.headers.get("Content-Range", "") if answer.status == _PARTIAL else None
        )
        modified = answer.headers.get("Last-Modified")
        is_old = _is_old(modified, answer.headers.get("Date"))
        weak = (
            f"W/{modified}" if modified and is_old else None
        )  # a recent time may be the time of the response
        return data, content_range, answer.headers.get("ETag") or weak, is_old


def build_timeout_error() -> TimeoutError:
    """Return the error for a server that did not respond in time."""
    return TimeoutError("the server did not answer in time")


def build_web_error(fs: Any, path: str, response: ErrorResponse) -> Exception:
    """Return the error that a web file system raises for an error response."""
    from aiohttp import ClientResponseError, RequestInfo
    from multidict import CIMultiDict, CIMultiDictProxy

    url = fs.encode_url(path)
    request = RequestInfo(url, response.method, CIMultiDictProxy(CIMultiDict()), url)
    headers = CIMultiDictProxy(CIMultiDict(response.headers))
    return ClientResponseError(
        request, (), status=response.status, message=response.reason, headers=headers
    )


def _is_old(modified: str | None, now: str | None) -> bool:
    """Return whether the next change will have another time, on which many tags depend."""
    if modified is None:
        return True
    try:
        return _parse_time(now or "") - _parse_time(modified) >= _CLOCK_TOLERANCE
    except (TypeError, ValueError, OverflowError):  # no time, or a time without a zone
        return False


@lru_cache(64)  # many responses have the same times
def _parse_time(text: str) -> datetime:
    return parsedate_to_datetime(text)
