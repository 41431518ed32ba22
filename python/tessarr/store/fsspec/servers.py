"""Single requests to S3, GCS and web servers through fsspec's file systems."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tessarr.errors import StoreError, UnsupportedError
from tessarr.store.fsspec.ambiguous_write import (
    build_answer_lost_error,
    build_unclear_error,
    record_requests,
    trace_s3_client,
    trace_session,
)
from tessarr.store.fsspec.event_loop import run_in_loop
from tessarr.store.fsspec.files import get_protocols
from tessarr.store.object.buckets import (
    build_gcs_error,
    build_s3_error,
    find_gcs_endpoint,
    find_s3_endpoint,
)
from tessarr.store.object.http import (
    Endpoint,
    ErrorResponse,
    Response,
    build_web_error,
    get_web_file,
)
from tessarr.store.transient import NOT_IMPLEMENTED, get_status, is_unapplied, iterate_causes

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

__all__ = [
    "FilePart",
    "Server",
    "change_file",
    "encode_tag",
    "fetch_part",
    "find_server",
    "get_version",
]


class FilePart(NamedTuple):
    """A part of a file from one response.

    Parameters
    ----------
    data
        The bytes; the whole file if the server ignores ranges.
    first
        The offset of the bytes in the file.
    size
        The size of the file.
    tag
        The tag that identifies this state of the file; "" if the server sends none.
    is_stable
        Whether no other state has this tag.
    """

    data: bytes
    first: int
    size: int
    tag: str
    is_stable: bool


class Server(NamedTuple):
    """The requests to servers of one kind.

    Parameters
    ----------
    required_method
        A method that file systems of this kind have.
    get
        Requests a range of a file, or the whole file.
    build_error
        Creates the file system's error for an error response.
    find_endpoint
        Finds the endpoint of a folder after the first request; None if it is known before.
    change
        Replaces a file, or removes it if the bytes are None, if the file has a tag ("": absent;
        None: any). Returns the new tag. None if the server has no such requests.
    """

    required_method: str
    get: Callable[[Any, str, str | None], Coroutine[Any, Any, Response]]
    build_error: Callable[[Any, str, ErrorResponse], Exception]
    find_endpoint: Callable[[Any, str], Coroutine[Any, Any, Endpoint | None]] | None
    change: Callable[[Any, str, bytes | None, str | None], Coroutine[Any, Any, str | None]] | None


def find_server(fs: Any) -> Server | None:
    """Return the requests to the server of a file system; None for other file systems."""
    servers = (_SERVERS[name] for name in get_protocols(fs) if name in _SERVERS)
    return next((server for server in servers if hasattr(fs, server.required_method)), None)


async def fetch_part(fs: Any, server: Server, path: str, span: str | None) -> FilePart:
    """Request a range of a file, or the whole file."""
    try:
        answer = await server.get(fs, path, span)
    except Exception as error:
        if span is None or not _is_empty_range(error):
            raise
        size = _get_reported_size(error)
        if 0 < size <= _get_range_start(span):
            return FilePart(b"", size, size, "", is_stable=False)
        answer = await server.get(fs, path, None)  # for the size, or the tag of an empty file
    data, content_range, tag, lasts = answer
    lasts = lasts and get_version(tag) is not None
    if content_range is None:
        return FilePart(data, 0, len(data), tag or "", lasts)
    match = _CONTENT_RANGE.fullmatch(content_range)
    first, last, size = map(int, match.groups()) if match else (0, -1, 0)
    if not first <= last < size or len(data) > last + 1 - first:
        raise StoreError(
            f"{path!r}: the server gave {len(data)} bytes as the range {content_range!r}"
        )
    return FilePart(data, first, size, tag or "", lasts)


def change_file(
    fs: Any, server: Server, path: str, data: bytes | None, tag: str | None
) -> bytes | bool:
    """Replace or remove a file if it has a tag; else return False.

    Returns
    -------
    bytes or bool
        The new version; True if it is unknown.

    Raises
    ------
    UnsupportedError
        If the server has no conditional requests.
    StoreError
        If the result is unknown: a response was lost, and the server refused the retry.
    """
    assert server.change is not None
    unanswered: list[object] = []
    try:
        new = run_in_loop(fs.loop, record_requests, unanswered, server.change, fs, path, data, tag)
    except Exception as error:
        if tag is None:
            raise
        if any(get_status(cause) == NOT_IMPLEMENTED for cause in iterate_causes(error)):
            raise _build_conditions_error("the server") from error
        if not _is_conflict(error, expects_file=tag != ""):
            if unanswered and is_unapplied(error):
                raise build_unclear_error() from error
            raise
        if unanswered:
            raise build_answer_lost_error(path) from error
        return False
    fs.invalidate_cache(path)
    return get_version(new) or True


def get_version(tag: str | None) -> bytes | None:
    """Return the version that a tag means; None for a weak tag."""
    return encode_tag(tag) if tag and not tag.startswith("W/") else None


def encode_tag(tag: str) -> bytes:
    """Return the bytes of a tag, which may not be valid text."""
    return tag.encode("utf-8", "surrogateescape")


def _is_empty_range(error: BaseException) -> bool:
    """Return whether a server refused a range because it is empty."""
    return any(
        get_status(cause) == _UNSATISFIABLE or "InvalidRange" in str(cause)
        for cause in iterate_causes(error)
    )


def _get_reported_size(error: BaseException) -> int:
    """Return the file size in an error response to a range; 0 if it has none."""
    for cause in iterate_causes(error):
        answer = getattr(cause, "response", None)  # in botocore
        if isinstance(answer, dict):
            content_range = f"bytes */{answer.get('Error', {}).get('ActualObjectSize')}"
        else:
            content_range = (getattr(cause, "headers", None) or {}).get("Content-Range", "")
        match = _SIZE.fullmatch(content_range)
        if match:
            return int(match[1])
    return 0


def _get_range_start(span: str) -> int:
    """Return the start of a range; 0 for a suffix range."""
    return int(span.removeprefix("bytes=").partition("-")[0] or 0)


def _is_conflict(error: BaseException, *, expects_file: bool) -> bool:
    """Return whether an error means that the precondition of a change does not hold.

    If the precondition is an absent file, "not found" means the bucket.
    """
    return any(
        isinstance(cause, FileExistsError)
        or get_status(cause) == _PRECONDITION_FAILED
        or "ConditionalRequestConflict" in str(cause)
        or (expects_file and isinstance(cause, FileNotFoundError))
        for cause in iterate_causes(error)
    )


def _build_conditions_error(who: str) -> UnsupportedError:
    return UnsupportedError(
        f"{who} knows no conditional requests, without which changes of several processes can be "
        "lost; where there is only one at a time, conditional_writes=False (use_conditional_write "
        "in the spec of a key-value store) does without",
        extension="conditional_writes",
    )


# S3


def _split_s3_path(fs: Any, path: str) -> tuple[str, str, str | None]:
    """Return bucket, key and version of a path."""
    bucket, key, version = fs.split_path(path)
    return bucket, key if version else path.lstrip("/")[len(bucket) + 1 :], version


async def _get_s3_file(fs: Any, path: str, span: str | None) -> Response:
    from s3fs.core import _error_wrapper

    bucket, key, version = _split_s3_path(fs, path)
    options = {"VersionId": version} if version else {}
    if span is not None:
        options["Range"] = span

    async def ask() -> Response:
        answer = await fs._call_s3("get_object", fs.req_kw, Bucket=bucket, Key=key, **options)
        try:
            data = await answer["Body"].read()
        finally:
            answer["Body"].close()
        return data, answer.get("ContentRange"), answer.get("ETag"), True

    response: Response = await _error_wrapper(ask, retries=fs.retries)
    return response


async def _change_s3_file(fs: Any, path: str, data: bytes | None, tag: str | None) -> str | None:
    bucket, key, _ = _split_s3_path(fs, path)
    condition: dict[str, Any] = {}
    if tag is not None:
        await fs.set_session()
        client = await fs.get_s3(bucket)  # None before the first request
        if (
            "IfMatch"
            not in client.meta.service_model.operation_model("PutObject").input_shape.members
        ):
            raise _build_conditions_error(
                "botocore before 1.35.77"
            )  # s3fs would drop the condition
        await trace_s3_client(client)
        condition = {"IfMatch": tag} if tag else {"IfNoneMatch": "*"}
    where = {"Bucket": bucket, "Key": key}
    if data is None:
        await fs._call_s3("delete_object", **where, **condition)
        return None
    if len(data) <= _S3_PUT_BYTES:
        answer = await fs._call_s3("put_object", **where, Body=data, **condition)
    else:
        answer = await _put_s3_parts(fs, where, data, condition)
    new: str | None = answer.get("ETag")
    return new


async def _put_s3_parts(fs: Any, where: dict[str, Any], data: bytes, condition: Any) -> Any:
    """Store a value that is too large for one request, part by part."""
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


async def _get_gcs_file(fs: Any, path: str, span: str | None) -> Response:
    headers = {} if span is None else {"Range": span}
    answer, data = await fs._call("GET", fs.url(path), headers=headers)
    tag = answer.get("X-Goog-Generation") or answer.get("ETag")
    return data, answer.get("Content-Range"), tag, True


async def _change_gcs_file(fs: Any, path: str, data: bytes | None, tag: str | None) -> str | None:
    bucket, key, _ = fs.split_path(path)
    condition: dict[str, Any] = {}
    if tag is not None:
        trace_session(await fs._set_session())
        condition = {"ifGenerationMatch": tag or "0"}
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


_CONTENT_RANGE: Final = re.compile(r"bytes ([0-9]+)-([0-9]+)/([0-9]+)", re.IGNORECASE)
_SIZE: Final = re.compile(r"bytes \*/([0-9]+)", re.IGNORECASE)
_PRECONDITION_FAILED: Final = 412
_UNSATISFIABLE: Final = 416
_S3_PUT_BYTES: Final = 5 << 30
_S3_PART_BYTES: Final = 1 << 28
_S3: Final = Server("_call_s3", _get_s3_file, build_s3_error, find_s3_endpoint, _change_s3_file)
_GCS: Final = Server("_call", _get_gcs_file, build_gcs_error, find_gcs_endpoint, _change_gcs_file)
_WEB: Final = Server("encode_url", get_web_file, build_web_error, None, None)
_SERVERS: Final = {"s3": _S3, "s3a": _S3, "gs": _GCS, "gcs": _GCS, "http": _WEB, "https": _WEB}
