"""How servers of S3, GCS and the web are asked, by fsspec's file systems: one request each."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tessarr.errors import StoreError, UnsupportedError
from tessarr.store.fsspec.ambiguous_write import answer_lost, noting, unclear, watch, watch_s3
from tessarr.store.fsspec.event_loop import waited
from tessarr.store.fsspec.files import protocols
from tessarr.store.object.buckets import gcs_place, gcs_refusal, s3_place, s3_refusal
from tessarr.store.object.http import Answer, Place, Refusal, web_get, web_refusal
from tessarr.store.transient import NOT_IMPLEMENTED, causes, is_undone, status_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

__all__ = [
    "Part",
    "Server",
    "as_sent",
    "changed",
    "fetched",
    "server_of",
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


class Server(NamedTuple):
    """How servers of one kind are asked.

    Parameters
    ----------
    needs
        A method that file systems of this kind have.
    get
        Gives a range of a file, or all of it.
    refusal
        Makes the error with which it tells of a file that a server has refused something.
    place
        Tells where the engine finds files of a folder, once something was asked for; None where
        that is known before.
    change
        Replaces a file, or removes it where there are no bytes, if it is in a state: that of a
        tag; "": absent; None: any one. Gives the new tag. None where there is no such thing.
    """

    needs: str
    get: Callable[[Any, str, str | None], Coroutine[Any, Any, Answer]]
    refusal: Callable[[Any, str, Refusal], Exception]
    place: Callable[[Any, str], Coroutine[Any, Any, Place | None]] | None
    change: Callable[[Any, str, bytes | None, str | None], Coroutine[Any, Any, str | None]] | None


def server_of(fs: Any) -> Server | None:
    """Return how the server of a file system is asked; None: only as fsspec does."""
    found = (_SERVERS[name] for name in protocols(fs) if name in _SERVERS)
    return next((server for server in found if hasattr(fs, server.needs)), None)


async def fetched(fs: Any, server: Server, path: str, span: str | None) -> Part:
    """Return a range of a file, or all of it."""
    try:
        answer = await server.get(fs, path, span)
    except Exception as error:
        if span is None or not _says_empty(error):
            raise
        size = _size_told(error)
        if 0 < size <= _begin(span):
            return Part(b"", size, size, "", lasts=False)
        answer = await server.get(fs, path, None)  # for the size, or the state of what is empty
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
    StoreError
        If nobody knows: it was asked again, as an answer was lost, and has refused it then.
    """
    assert server.change is not None
    lost: list[object] = []
    try:
        new = waited(fs.loop, noting, lost, server.change, fs, path, data, tag)
    except Exception as error:
        if tag is None:
            raise
        if any(status_of(cause) == NOT_IMPLEMENTED for cause in causes(error)):
            raise _no_conditions("the server") from error
        if not _is_refused(error, there=tag != ""):
            if lost and is_undone(error):
                raise unclear() from error
            raise
        if lost:
            raise answer_lost(path) from error
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


def _size_told(error: BaseException) -> int:
    """Return how many bytes a file has of which a range was refused; 0 if that is not told."""
    for cause in causes(error):
        answer = getattr(cause, "response", None)  # of botocore
        if isinstance(answer, dict):
            told = f"bytes */{answer.get('Error', {}).get('ActualObjectSize')}"
        else:
            told = (getattr(cause, "headers", None) or {}).get("Content-Range", "")
        found = _SIZE.fullmatch(told)
        if found:
            return int(found[1])
    return 0


def _begin(span: str) -> int:
    """Return where a range begins; 0 if it is the last bytes."""
    return int(span.removeprefix("bytes=").partition("-")[0] or 0)


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


def _s3_where(fs: Any, path: str) -> tuple[str, str, str | None]:
    """Return bucket, key and version: what looks like one is of the key, where none are known."""
    bucket, key, version = fs.split_path(path)
    return bucket, key if version else path.lstrip("/")[len(bucket) + 1 :], version


async def _s3_get(fs: Any, path: str, span: str | None) -> Answer:
    from s3fs.core import _error_wrapper

    bucket, key, version = _s3_where(fs, path)
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
    bucket, key, _ = _s3_where(fs, path)
    condition: dict[str, Any] = {}
    if tag is not None:
        await fs.set_session()
        client = await fs.get_s3(bucket)  # nothing, where nothing was asked before
        if (
            "IfMatch"
            not in client.meta.service_model.operation_model("PutObject").input_shape.members
        ):
            raise _no_conditions("botocore before 1.35.77")  # s3fs would leave it out
        await watch_s3(client)
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
    condition: dict[str, Any] = {}
    if tag is not None:
        watch(await fs._set_session())
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
_OTHERWISE: Final = 412
_UNSATISFIABLE: Final = 416
_S3_PUT_BYTES: Final = 5 << 30
_S3_PART_BYTES: Final = 1 << 28
_S3: Final = Server("_call_s3", _s3_get, s3_refusal, s3_place, _s3_change)
_GCS: Final = Server("_call", _gcs_get, gcs_refusal, gcs_place, _gcs_change)
_WEB: Final = Server("encode_url", web_get, web_refusal, None, None)
_SERVERS: Final = {"s3": _S3, "s3a": _S3, "gs": _GCS, "gcs": _GCS, "http": _WEB, "https": _WEB}
