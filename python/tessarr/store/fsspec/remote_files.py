"""Files of S3, GCS and web servers through fsspec, with one request for each read."""

from __future__ import annotations

from asyncio import CancelledError
from contextlib import suppress
from functools import partial
from hashlib import sha256
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from tessarr import _engine
from tessarr.errors import StoreError
from tessarr.store.fsspec.client_errors import raises_store_errors
from tessarr.store.fsspec.event_loop import (
    FailCallback,
    build_closed_error,
    find_reentry,
    get_pending,
    run_in_loop,
    start_work,
)
from tessarr.store.fsspec.files import ABSENT, Files
from tessarr.store.fsspec.servers import (
    FilePart,
    Server,
    change_file,
    encode_tag,
    fetch_part,
    find_server,
    get_version,
)
from tessarr.store.object.http import ErrorResponse, build_timeout_error, find_web_endpoint
from tessarr.store.transient import NOT_IMPLEMENTED

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable

__all__ = ["ConditionalFiles", "RemoteFiles", "create_files"]

_FIRST_BYTES: Final = 1 << 16
_TAG_BYTES: Final = 40  # longer tags are hashed

_REDIRECT_STATUSES: Final = frozenset({301, 307, 400, 401, 403})
"""Statuses for a wrong region or expired credentials."""
_PAUSE_S: Final = 60.0
_FORBIDDEN: Final = 403
_ACTIONS: Final = {"GET": "read", "HEAD": "read", "DELETE": "delete"}


def create_files(
    fs: Any,
    root: str,
    missing: tuple[type[Exception], ...],
    concurrency: int,
    *,
    conditional: bool,
    absent: tuple[int, ...],
) -> Files:
    """Create the store of a folder that needs the fewest requests on its kind of server."""
    server = find_server(fs)
    if server is None:
        return Files(fs, root, missing, concurrency, absent)
    kind = ConditionalFiles if conditional and server.change is not None else RemoteFiles
    return kind(fs, root, missing, concurrency, absent, server)


class RemoteFiles(Files):
    """Files of s3fs, gcsfs or fsspec's web file system.

    The request that opens a value also reads its first or last bytes, so that the size needs no
    further request.
    """

    def __init__(  # noqa: PLR0917 (one caller)
        self,
        fs: Any,
        root: str,
        missing: tuple[type[Exception], ...],
        concurrency: int,
        absent: tuple[int, ...],
        server: Server,
    ) -> None:
        super().__init__(fs, root, missing, concurrency, absent)
        self.server = server
        self._http_site = _engine.HttpSite()
        self._endpoint_after_s = 0.0  # the time of the next search
        self._absent_is_forbidden = False
        has_usual_errors = FileNotFoundError in missing and all(
            issubclass(kind, OSError) for kind in missing
        )
        if not has_usual_errors:
            self._endpoint_after_s = inf
        elif server.find_endpoint is None:
            endpoint = find_web_endpoint(fs, root)
            if endpoint is not None:
                self._http_site.set_location(
                    *endpoint._replace(absent_is_forbidden=_FORBIDDEN in absent)
                )

    @raises_store_errors("read", *ABSENT)
    def get(self, key: str) -> bytes | None:
        """Read a whole file."""
        opened = self.open_head(key, None)
        return None if opened is None else opened.read(0, opened.size)

    @raises_store_errors("read", *ABSENT)
    def open_head(self, key: str, count: int | None) -> _OpenedFile | None:
        """Open a file and read its first bytes, or all."""
        return run_in_loop(self._fs.loop, self._fetch_head, key, count)

    @raises_store_errors("read", *ABSENT)
    def open_value(self, key: str) -> _OpenedFile | None:
        """Open a file and read its first bytes."""
        return self.open_head(key, _FIRST_BYTES)

    @raises_store_errors("read", *ABSENT)
    def open_tail(self, key: str, count: int) -> _OpenedFile | None:
        """Open a file and read its last bytes."""
        return run_in_loop(self._fs.loop, self._fetch_tail, key, count)

    @raises_store_errors("read", *ABSENT)
    def open_part(self, key: str, offset: int, count: int) -> _OpenedFile | None:
        """Open a file and read a range, which may exceed the file."""
        return run_in_loop(self._fs.loop, self._part, key, offset, count)

    def _reentry_error(self) -> Exception | None:
        """Return the error for waiting in this thread, or None."""
        return find_reentry(self._fs.loop)

    def _serve_requests(self, take: Callable[[], list[Any]]) -> None:
        """Open files in the event loop and pass the results to the requests."""
        loop = self._fs.loop

        def fail(error: BaseException) -> None:
            _fail_requests(take(), error)

        start_work(loop, lambda: self._start_requests(loop, take()), fail)

    def _start_requests(self, loop: AbstractEventLoop, requests: list[Any]) -> None:
        waits = get_pending(loop)
        for request in requests:
            fail = partial(_fail_requests, [request])
            waits[fail] = loop.create_task(self._answer_request(loop, request, fail))

    async def _answer_request(
        self, loop: AbstractEventLoop, request: Any, fail: FailCallback
    ) -> None:
        try:
            if request.method == "open_tail":
                opened = await self._fetch_tail(request.key, request.count)
            elif request.method == "open_part":
                opened = await self._part(request.key, request.offset, request.count)
            else:
                count = _FIRST_BYTES if request.method == "open_value" else request.count
                opened = await self._fetch_head(request.key, count)
        except (KeyError, FileNotFoundError):  # an absent key, as for every store
            self._start_requests(loop, request.complete(None))
        except CancelledError:
            self._start_requests(loop, request.fail(build_closed_error()))
        except Exception as error:  # noqa: BLE001 (passed to the waiting request)
            self._start_requests(loop, request.fail(self._error("read", error, request.key)))
        except BaseException as error:  # noqa: BLE001 (passed to the waiting request)
            self._start_requests(loop, request.fail(error))
        else:
            self._start_requests(loop, request.complete(opened))
        finally:
            get_pending(loop).pop(fail, None)

    async def _fetch_head(self, key: str, count: int | None) -> _OpenedFile | None:
        opened = await self._fetch_range(
            key, None if count is None else f"bytes=0-{max(count, 1) - 1}"
        )
        if opened is not None:
            await opened.complete(0, opened.size if count is None else min(count, opened.size))
        return opened

    async def _fetch_tail(self, key: str, count: int) -> _OpenedFile | None:
        opened = await self._fetch_range(key, f"bytes=-{max(count, 1)}")
        if opened is not None:  # some servers send the first bytes
            await opened.complete(max(0, opened.size - count), min(count, opened.size))
        return opened

    async def _part(self, key: str, offset: int, count: int) -> _OpenedFile | None:
        return await self._fetch_range(key, f"bytes={offset}-{offset + max(count, 1) - 1}")

    async def _fetch_range(self, key: str, span: str | None) -> _OpenedFile | None:
        path = self._to_path(key)
        try:
            part = await fetch_part(self._fs, self.server, path, span)
        except Exception as error:  # noqa: BLE001 (raised unless the file is absent)
            self._check_absent(error, path)
            if isinstance(error, PermissionError):
                await self._note_forbidden()
            return None
        await self._find_endpoint()
        return _OpenedFile(self, path, part)

    async def _find_endpoint(self) -> None:
        """Pass the endpoint to the engine after the file system has credentials."""
        look = self.server.find_endpoint
        if look is None or not self._may_find_endpoint():
            return
        try:
            endpoint = await look(self._fs, self._root)
            if endpoint is not None:
                endpoint = endpoint._replace(
                    absent_is_forbidden=self._absent_is_forbidden,
                    ignores_listings=self.prepare is not None,
                )
            is_used = endpoint and self._http_site.set_location(*endpoint)
        except Exception:  # noqa: BLE001 (the file system can read without it)
            self._suspend_endpoint()
            return
        if not is_used:
            self._endpoint_after_s = inf

    def _suspend_endpoint(self) -> None:
        """Send all requests through the file system for a while."""
        self._http_site.clear()
        self._endpoint_after_s = monotonic() + _PAUSE_S

    async def _note_forbidden(self) -> None:
        """Record that the server reports absent files as forbidden."""
        if not self._absent_is_forbidden:
            self._absent_is_forbidden = True
            self._http_site.clear()
            if self._endpoint_after_s < inf:
                self._endpoint_after_s = 0.0
        await self._find_endpoint()

    def _may_find_endpoint(self) -> bool:
        return not self._http_site.is_active() and monotonic() >= self._endpoint_after_s

    def _http_error(self, key: str, *response: Any) -> Exception | None:
        """Return the error for the fields of an `ErrorResponse`.

        None means that the engine repeats the request through the file system.
        """
        refusal = ErrorResponse(*response)
        if refusal.status in self._absent_statuses:
            return None
        if refusal.status in _REDIRECT_STATUSES and self.server.find_endpoint is not None:
            self._suspend_endpoint()
        elif (
            self._sends_once() and refusal.status != NOT_IMPLEMENTED
        ):  # the file system's error is clearer
            error = self.server.build_error(self._fs, self._to_path(key), refusal)
            return self._error(_ACTIONS.get(refusal.method, "write"), error, key)
        return None

    def _timeout_error(self, key: str) -> Exception | None:
        """Return the error for a timeout; None as for `_http_error`."""
        if not self._sends_once():
            self._suspend_endpoint()  # the file system may use another route
            return None
        return self._error("read", build_timeout_error(), key)

    def _lost_response_error(self, key: str) -> Exception | None:
        """Return the error for a change whose response was lost; None as for `_http_error`."""
        if not self._sends_once():
            return None
        return self._error("write", ConnectionError("the response to a change was lost"), key)

    def _on_stored(self, key: str) -> None:
        """Drop the file system's cached listing of a file."""
        self._fs.invalidate_cache(self._to_path(key))

    def _sends_once(self) -> bool:
        """Return whether the file system itself does not retry requests."""
        return self.server.find_endpoint is None or self.prepare is not None

    @raises_store_errors("write")
    def put(self, key: str, data: bytes) -> bytes | bool | None:
        """Replace a file and return its version."""
        if self.server.change is None:
            return super().put(key, data)
        return self._change_file(key, data, None)

    @raises_store_errors("delete", *ABSENT)
    def delete(self, key: str) -> None:
        if self.server.change is None:
            super().delete(key)
            return
        with suppress(*self._missing_errors):
            self._change_file(key, None, None)

    def _change_file(self, key: str, data: bytes | None, tag: str | None) -> bytes | bool:
        changed = change_file(self._fs, self.server, self._to_path(key), data, tag)
        if changed and self._may_find_endpoint():
            run_in_loop(self._fs.loop, self._find_endpoint)
        return changed


class ConditionalFiles(RemoteFiles):
    """Files of servers with conditional writes: concurrent processes lose no change."""

    @raises_store_errors("write")
    def replace_version(self, key: str, data: bytes | None, version: bytes | None) -> bytes | bool:
        """Replace or remove a file if it has a version (None: absent); return the new one."""
        if data is None and version is None:
            return self.open_head(key, 1) is None
        tag = "" if version is None else version.decode()
        return self._change_file(key, data, tag)


class _OpenedFile:
    """An open file, with one part in memory."""

    def __init__(self, files: RemoteFiles, path: str, part: FilePart) -> None:
        self.size = part.size
        self._files = files
        self._path = path
        self._part = part

    @property
    def version(self) -> bytes | None:
        """The server's version of the file; None if the tag may be ambiguous."""
        if self._files.server.change is None:
            return self.state if self._part.is_stable else None
        return get_version(self._part.tag)

    @property
    def state(self) -> bytes | None:
        """Bytes that identify the state of the file; None if the server sends no tag."""
        tag = encode_tag(self._part.tag)
        return (tag if len(tag) <= _TAG_BYTES else sha256(tag).digest()) or None

    def _error(self, action: str, error: Exception, *_: Any) -> Exception:
        return self._files._error(action, error, *self._files._to_keys([self._path]))

    @raises_store_errors("read")
    def read(self, offset: int, count: int) -> bytes:
        part = self._part
        if not _contains(part, offset, count):
            part = run_in_loop(self._files._fs.loop, self._fetch, offset, count)
        begin = offset - part.first
        return part.data[begin : begin + count]

    async def complete(self, offset: int, count: int) -> None:
        """Read bytes into memory, unless memory already has them."""
        if not _contains(self._part, offset, count):
            self._part = await self._fetch(offset, count)

    async def _fetch(self, offset: int, count: int) -> FilePart:
        """Return a part with bytes; request missing bytes again."""
        part = await self._fetch_once(offset, count)
        while not _contains(part, offset, count):
            end = part.first + len(part.data)
            more = (
                await self._fetch_once(end, offset + count - end)
                if _contains(part, offset, 1)
                else part
            )
            if not _contains(more, end, 1):
                raise StoreError(
                    f"{self._path!r}: the server gave {len(part.data)} bytes from {part.first}, "
                    f"not {count} from {offset}",
                    retryable=True,
                )
            part = part._replace(data=part.data + more.data[end - more.first :])
        return part

    async def _fetch_once(self, offset: int, count: int) -> FilePart:
        files, span = self._files, f"bytes={offset}-{offset + count - 1}"
        part = await fetch_part(files._fs, files.server, self._path, span)
        # A response that refuses a range may lack the tag.
        is_first = not (self._part.data or self._part.tag)
        if (part.tag != self._part.tag and not is_first) or part.size != self.size:
            raise StoreError(
                f"{self._path!r} was replaced while parts of it were read",
                kind="value_replaced",
                retryable=True,
            )
        if is_first or len(part.data) == part.size:
            self._part = part  # the server ignored the range
        return part


def _contains(part: FilePart, offset: int, count: int) -> bool:
    return not count or part.first <= offset <= offset + count <= part.first + len(part.data)


def _fail_requests(requests: list[Any], error: BaseException) -> None:
    """Fail requests with an error, and the requests that follow from them."""
    while requests:
        requests += requests.pop().fail(error)
