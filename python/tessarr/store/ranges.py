"""Files of fsspec's file systems that are far away: each part by one request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from tessarr.errors import StoreError
from tessarr.store.fsspec_files import Files, protocols
from tessarr.store.passing import status_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["FarFiles", "files_of"]


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
    """

    data: bytes
    first: int
    size: int
    tag: str


Answer: TypeAlias = "tuple[bytes, str | None, str | None]"
"""The bytes, and the headers ``Content-Range`` and ``ETag``."""

Ask: TypeAlias = "Callable[[Any, str, str | None], Awaitable[Answer]]"

_FIRST_BYTES: Final = 1 << 16


def files_of(fs: Any, root: str, missing: tuple[type[Exception], ...], concurrency: int) -> Files:
    """Return the files of a folder, asked by as few requests as its kind allows."""
    found = [_ASK[name] for name in protocols(fs) if name in _ASK and hasattr(fs, _ASK[name][0])]
    if not found:
        return Files(fs, root, missing, concurrency)
    return FarFiles(fs, root, missing, concurrency, found[0][1])


class FarFiles(Files):
    """Files of s3fs, gcsfs or fsspec's own file system of the web.

    A value that is opened comes with its first bytes, or with its last, so that its size costs
    no request of its own.
    """

    def __init__(
        self,
        fs: Any,
        root: str,
        missing: tuple[type[Exception], ...],
        concurrency: int,
        ask: Ask,
    ) -> None:
        super().__init__(fs, root, missing, concurrency)
        self._ask = ask

    def _part(self, key: str, span: str | None) -> Part | None:
        try:
            return self.fetch(self._at(key), span)
        except self._missing:
            return None

    def fetch(self, path: str, span: str | None) -> Part:
        """Return a range of a file, or all of it."""
        return _fetched(self._fs, self._ask, path, span)

    def get(self, key: str) -> bytes | None:
        """Give all of a file."""
        part = self._part(key, None)
        return None if part is None else part.data

    def get_prefix(self, key: str, count: int) -> bytes | None:
        """Give the first bytes."""
        part = self._part(key, f"bytes=0-{max(count, 1) - 1}")
        return None if part is None else part.data[:count]

    def open_value(self, key: str) -> _Opened | None:
        """Open a file, by its first bytes."""
        return self._opened(key, f"bytes=0-{_FIRST_BYTES - 1}")

    def open_tail(self, key: str, count: int) -> _Opened | None:
        """Open a file, by its last bytes."""
        found = self._opened(key, f"bytes=-{max(count, 1)}")
        if found is not None and not found.has_end:  # a server that takes it for the beginning
            found.read(max(0, found.size - count), min(count, found.size))
        return found

    def _opened(self, key: str, span: str) -> _Opened | None:
        part = self._part(key, span)
        return None if part is None else _Opened(self, self._at(key), part)


class _Opened:
    """A file, of which a part is known."""

    @property
    def has_end(self) -> bool:
        """Whether the last bytes are known."""
        return self._part.first + len(self._part.data) == self.size

    def __init__(self, files: FarFiles, path: str, part: Part) -> None:
        self.size = part.size
        self._files = files
        self._path = path
        self._part = part

    def read(self, offset: int, count: int) -> bytes:
        part = self._part
        if count and not part.first <= offset <= offset + count <= part.first + len(part.data):
            part = self._files.fetch(self._path, f"bytes={offset}-{offset + count - 1}")
            if part.tag != self._part.tag or part.size != self.size:
                raise StoreError(
                    f"{self._path!r} was replaced while parts of it were read",
                    kind="value_replaced",
                    retryable=True,
                )
            if len(part.data) == part.size:
                self._part = part  # the server knows no ranges, and gave everything
        begin = offset - part.first
        return part.data[begin : begin + count]


def _fetched(fs: Any, ask: Any, path: str, span: str | None) -> Part:
    from fsspec.asyn import sync

    answer: Any
    try:
        answer = sync(fs.loop, ask, fs, path, span)
    except Exception as error:
        if span is None or not _says_empty(error):
            raise
        answer = sync(fs.loop, ask, fs, path, None)
    data, content_range, tag = answer
    if not content_range:
        return Part(data, 0, len(data), tag or "")
    begin, _, size = content_range.removeprefix("bytes ").replace("/", "-").split("-")
    return Part(data, int(begin), int(size), tag or "")


def _says_empty(error: BaseException | None) -> bool:
    """Return whether a range was refused, because there is nothing in it."""
    while error is not None:
        if status_of(error) == _UNSATISFIABLE or "InvalidRange" in str(error):
            return True
        error = error.__cause__
    return False


async def _s3(fs: Any, path: str, span: str | None) -> Answer:
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
        return data, answer.get("ContentRange"), answer.get("ETag")

    found: Answer = await _error_wrapper(ask, retries=fs.retries)
    return found


async def _gcs(fs: Any, path: str, span: str | None) -> Answer:
    headers = {} if span is None else {"Range": span}
    answer, data = await fs._call("GET", fs.url(path), headers=headers)
    return data, answer.get("Content-Range"), answer.get("X-Goog-Generation") or answer.get("ETag")


async def _web(fs: Any, path: str, span: str | None) -> Answer:
    options = dict(fs.kwargs)
    if span is not None:
        options["headers"] = {**options.get("headers", {}), "Range": span}
    session = await fs.set_session()
    async with session.get(fs.encode_url(path), **options) as answer:
        fs._raise_not_found_for_status(answer, path)
        data = await answer.read()
        ranged = answer.headers.get("Content-Range") if answer.status == _PARTIAL else None
        return data, ranged, answer.headers.get("ETag")


_PARTIAL: Final = 206
_UNSATISFIABLE: Final = 416
_ASK: Final[dict[str, tuple[str, Ask]]] = {
    "s3": ("_call_s3", _s3),
    "gs": ("_call", _gcs),
    "gcs": ("_call", _gcs),
    "http": ("encode_url", _web),
    "https": ("encode_url", _web),
}
