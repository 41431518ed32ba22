"""How servers of S3, GCS and the web are asked, by fsspec's file systems: one request each."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from tessarr.errors import StoreError, UnsupportedError
from tessarr.store.fsspec_files import protocols
from tessarr.store.loops import waited
from tessarr.store.passing import causes, status_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

__all__ = [
    "Part",
    "Server",
    "Site",
    "as_sent",
    "changed",
    "fetched",
    "late",
    "refusal",
    "server_of",
    "site_of",
    "version_of",
]


class Part(NamedTuple):
    """What a server gave of a file.

    Parameters
    ----------
    data
        The bytes; all, where the server knows no ranges.
    first
        Where they begin in the file.
    size
        How many bytes the file has.
    tag
        What tells this state of the file from others; "" where the server does not say.
    lasts
        Whether no other state has this tag.
    """

    data: bytes
    first: int
    size: int
    tag: str
    lasts: bool


Answer: TypeAlias = "tuple[bytes, str | None, str | None, bool]"
"""The bytes, the header ``Content-Range``, a tag as ``ETag`` has it, and whether that lasts."""


class Site(NamedTuple):
    """Where the engine finds files of the web itself.

    Parameters
    ----------
    root
        The URL of a folder.
    query
        What follows the path of a file.
    headers
        Those of each request.
    patience_s
        How long it takes at most.
    """

    root: str
    query: str
    headers: list[tuple[str, str]]
    patience_s: float


class Server(NamedTuple):
    """How servers of one kind are asked.

    Parameters
    ----------
    needs
        A method that file systems of this kind have.
    get
        Gives a range of a file, or all of it.
    change
        Replaces a file, or removes it where there are no bytes, if it is in a state: that of a
        tag; "": absent; None: any one. Gives the new tag. None where there is no such thing.
    """

    needs: str
    get: Callable[[Any, str, str | None], Coroutine[Any, Any, Answer]]
    change: Callable[[Any, str, bytes | None, str | None], Coroutine[Any, Any, str | None]] | None


def server_of(fs: Any) -> Server | None:
    """Return how the server of a file system is asked; None: only as fsspec does."""
    found = (_SERVERS[name] for name in protocols(fs) if name in _SERVERS)
    return next((server for server in found if hasattr(fs, server.needs)), None)


def site_of(fs: Any, root: str) -> Site | None:
    """Return where files of a file system of the web are.

    None: it is another file system, or asks in a way of its own: in another event loop, with
    other sessions, by proxies.
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
    mine = _pairs(options.pop("headers", ()))
    names = {str(name).lower() for name, _ in mine}  # they replace those of the session
    others = _pairs(session.pop("headers", ()))
    headers = [*(pair for pair in others if str(pair[0]).lower() not in names), *mine]
    params = options.pop("params", ())
    patience_s = _patience_s(session.pop("timeout", None))
    if patience_s is None or options or session:
        return None
    if not all(isinstance(text, str) for pair in headers for text in pair):
        return None
    url = fs.encode_url(root)
    if url.raw_query_string or url.raw_fragment or url.user:
        return None
    query = url.with_query(params).raw_query_string if params else ""
    return Site(str(url).rstrip("/"), f"?{query}" if query else "", headers, patience_s)


def _patience_s(timeout: Any) -> float | None:
    """Return how long a request takes at most, as a session says it; None: it says more."""
    from aiohttp import ClientTimeout
    from aiohttp.client import DEFAULT_TIMEOUT

    if timeout is None:
        timeout = DEFAULT_TIMEOUT
    elif timeout != ClientTimeout(total=getattr(timeout, "total", None)):
        return None
    return float(timeout.total or inf)


def _pairs(headers: Any) -> list[tuple[Any, Any]]:
    return [*(headers.items() if hasattr(headers, "items") else headers or ())]


async def fetched(fs: Any, server: Server, path: str, span: str | None) -> Part:
    """Return a range of a file, or all of it."""
    try:
        answer = await server.get(fs, path, span)
    except Exception as error:
        if span is None or not _says_empty(error):
            raise
        answer = await server.get(fs, path, None)
    data, content_range, tag, lasts = answer
    lasts = lasts and version_of(tag) is not None
    if content_range is None:
        return Part(data, 0, len(data), tag or "", lasts)
    told = _CONTENT_RANGE.fullmatch(content_range)
    first, last, size = map(int, told.groups()) if told else (0, -1, 0)
    if not first <= last < size or len(data) > last + 1 - first:
        raise StoreError(
            f"{path!r}: the server gave {len(data)} bytes as the range {content_range!r}"
        )
    return Part(data, first, size, tag or "", lasts)


def changed(
    fs: Any, server: Server, path: str, data: bytes | None, tag: str | None
) -> bytes | bool:
    """Replace or remove a file, if it is in a state; else give False.

    Returns
    -------
    bytes or bool
        The version of what is stored now; True where it is not known.

    Raises
    ------
    UnsupportedError
        If the server makes no changes that depend on a state.
    """
    assert server.change is not None
    try:
        new = waited(fs.loop, server.change, fs, path, data, tag)
    except Exception as error:
        if tag is None:
            raise
        if any(status_of(cause) == _NOT_IMPLEMENTED for cause in causes(error)):
            raise _no_conditions("the server") from error
        if not _is_refused(error, there=tag != ""):
            raise
        return False
    fs.invalidate_cache(path)
    return version_of(new) or True


def version_of(tag: str | None) -> bytes | None:
    """Return what a tag says of the state of a file; None if that is not sure."""
    return as_sent(tag) if tag and not tag.startswith("W/") else None


def as_sent(tag: str) -> bytes:
    """Return the bytes of a tag, which need not be text."""
    return tag.encode("utf-8", "surrogateescape")


def _says_empty(error: BaseException) -> bool:
    """Return whether a range was refused, because there is nothing in it."""
    return any(
        status_of(cause) == _UNSATISFIABLE or "InvalidRange" in str(cause)
        for cause in causes(error)
    )


def _is_refused(error: BaseException, *, there: bool) -> bool:
    """Return whether a file was not changed because it is in another state.

    It was to be there, or not: then what is not found is the bucket.
    """
    return any(
        isinstance(cause, FileExistsError)
        or status_of(cause) == _OTHERWISE
        or "ConditionalRequestConflict" in str(cause)
        or (there and isinstance(cause, FileNotFoundError))
        for cause in causes(error)
    )


def _no_conditions(who: str) -> UnsupportedError:
    return UnsupportedError(
        f"{who} knows no conditional requests, without which changes of several processes can be "
        "lost; where there is only one at a time, conditional_writes=False (use_conditional_write "
        "in the spec of a key-value store) does without",
        extension="conditional_writes",
    )


# S3


async def _s3_get(fs: Any, path: str, span: str | None) -> Answer:
    from s3fs.core import _error_wrapper

    bucket, key, version = fs.split_path(path)
    options = {"VersionId": version} if version else {}
    if span is not None:
        options["Range"] = span

    async def ask() -> Answer:
        answer = await fs._call_s3("get_object", fs.req_kw, Bucket=bucket, Key=key, **options)
        try:
            data = await answer["Body"].read()
        finally:
            answer["Body"].close()
        return data, answer.get("ContentRange"), answer.get("ETag"), True

    found: Answer = await _error_wrapper(ask, retries=fs.retries)
    return found


async def _s3_change(fs: Any, path: str, data: bytes | None, tag: str | None) -> str | None:
    bucket, key, _ = fs.split_path(path)
    condition: dict[str, Any] = {}
    if tag is not None:
        await fs.set_session()
        client = await fs.get_s3(bucket)  # nothing, where nothing was asked before
        if (
            "IfMatch"
            not in client.meta.service_model.operation_model("PutObject").input_shape.members
        ):
            raise _no_conditions("botocore before 1.35.77")  # s3fs would leave it out
        condition = {"IfMatch": tag} if tag else {"IfNoneMatch": "*"}
    where = {"Bucket": bucket, "Key": key}
    if data is None:
        await fs._call_s3("delete_object", **where, **condition)
        return None
    if len(data) <= _S3_PUT_BYTES:
        answer = await fs._call_s3("put_object", **where, Body=data, **condition)
    else:
        answer = await _s3_put_parts(fs, where, data, condition)
    new: str | None = answer.get("ETag")
    return new


async def _s3_put_parts(fs: Any, where: dict[str, Any], data: bytes, condition: Any) -> Any:
    """Store what is too large for one request, one part after another."""
    upload = await fs._call_s3("create_multipart_upload", **where)
    where = {**where, "UploadId": upload["UploadId"]}
    parts: list[dict[str, Any]] = []
    try:
        for start in range(0, len(data), _S3_PART_BYTES):
            body = memoryview(data)[start : start + _S3_PART_BYTES].tobytes()
            number = {"PartNumber": len(parts) + 1}
            answer = await fs._call_s3("upload_part", **where, **number, Body=body)
            parts.append({**number, "ETag": answer["ETag"]})
        whole = {"Parts": parts}
        return await fs._call_s3(
            "complete_multipart_upload", **where, MultipartUpload=whole, **condition
        )
    except BaseException:
        await fs._call_s3("abort_multipart_upload", **where)
        raise


# GCS


async def _gcs_get(fs: Any, path: str, span: str | None) -> Answer:
    headers = {} if span is None else {"Range": span}
    answer, data = await fs._call("GET", fs.url(path), headers=headers)
    tag = answer.get("X-Goog-Generation") or answer.get("ETag")
    return data, answer.get("Content-Range"), tag, True


async def _gcs_change(fs: Any, path: str, data: bytes | None, tag: str | None) -> str | None:
    bucket, key, _ = fs.split_path(path)
    condition = {} if tag is None else {"ifGenerationMatch": tag or "0"}
    if data is None:
        await fs._call("DELETE", "b/{}/o/{}", bucket, key, **condition)
        return None
    answer = await fs._call(
        "POST",
        f"{fs._location}/upload/storage/v1/b/{{}}/o",
        bucket,
        uploadType="media",
        name=key,
        headers={"Content-Type": "application/octet-stream"},
        data=data,
        json_out=True,
        **condition,
    )
    new: str | None = answer.get("generation")
    return new


# Web servers


async def _web_get(fs: Any, path: str, span: str | None) -> Answer:
    options = dict(fs.kwargs)
    if span is not None:  # of the bytes as they are: of an encoding a part says nothing
        ranged = {"Range": span, "Accept-Encoding": "identity"}
        options["headers"] = {**options.get("headers", {}), **ranged}
    session = await fs.set_session()
    try:
        return await _web_asked(fs, session, path, options)
    except TimeoutError as error:
        raise late(path) from error


async def _web_asked(fs: Any, session: Any, path: str, options: dict[str, Any]) -> Answer:
    async with session.get(fs.encode_url(path), **options) as answer:
        fs._raise_not_found_for_status(answer, path)
        if answer.status not in _FILES:  # nor does it say where the file is
            raise refusal(fs, path, answer.status, answer.reason, answer.headers)
        data = await answer.read()
        content_range = (
            answer.headers.get("Content-Range", "") if answer.status == _PARTIAL else None
        )
        modified = answer.headers.get("Last-Modified")
        is_old = _is_old(modified, answer.headers.get("Date"))
        weak = f"W/{modified}" if modified and is_old else None  # else it may be that of the answer
        return data, content_range, answer.headers.get("ETag") or weak, is_old


def late(path: str) -> TimeoutError:
    """Return the error of a server that has not answered in time."""
    return TimeoutError(f"{path!r}: the server did not answer in time")


def refusal(fs: Any, path: str, status: int, reason: str, headers: Any) -> Exception:
    """Return the error with which a file system of the web tells of a status."""
    from aiohttp import ClientResponseError, RequestInfo
    from multidict import CIMultiDict, CIMultiDictProxy

    url = fs.encode_url(path)
    asked = RequestInfo(url, "GET", CIMultiDictProxy(CIMultiDict()), url)
    told = CIMultiDictProxy(CIMultiDict(headers))
    return ClientResponseError(asked, (), status=status, message=reason, headers=told)


def _is_old(modified: str | None, now: str | None) -> bool:
    """Return whether a file that changes again gets another time: many servers make tags of it."""
    if modified is None:
        return True
    try:
        return _time(now or "") - _time(modified) >= _RACY
    except (TypeError, ValueError, OverflowError):  # no time, or one without its zone
        return False


@lru_cache(64)  # many files are asked for within a second, and were changed in another one
def _time(text: str) -> datetime:
    return parsedate_to_datetime(text)


_CONTENT_RANGE: Final = re.compile(r"bytes ([0-9]+)-([0-9]+)/([0-9]+)", re.IGNORECASE)
_RACY: Final = timedelta(seconds=2)  # they count seconds
_PARTIAL: Final = 206
_FILES: Final = frozenset({200, 203, _PARTIAL})
_OTHERWISE: Final = 412
_UNSATISFIABLE: Final = 416
_NOT_IMPLEMENTED: Final = 501
_S3_PUT_BYTES: Final = 5 << 30
_S3_PART_BYTES: Final = 1 << 28
_S3: Final = Server("_call_s3", _s3_get, _s3_change)
_GCS: Final = Server("_call", _gcs_get, _gcs_change)
_WEB: Final = Server("encode_url", _web_get, None)
_SERVERS: Final = {"s3": _S3, "s3a": _S3, "gs": _GCS, "gcs": _GCS, "http": _WEB, "https": _WEB}
