"""Files of fsspec's file systems that are far away: each part by one request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tessarr.errors import StoreError
from tessarr.store.fsspec_files import Files
from tessarr.store.servers import (
    Part,
    Server,
    changed,
    fetched,
    reentry,
    server_of,
    version_of,
    waited,
)

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task
    from collections.abc import Callable

__all__ = ["FarFiles", "SharedFiles", "files_of"]

_FIRST_BYTES: Final = 1 << 16


def files_of(
    fs: Any,
    root: str,
    missing: tuple[type[Exception], ...],
    concurrency: int,
    *,
    conditional: bool,
) -> Files:
    """Return the files of a folder, asked by as few requests as its kind allows."""
    server = server_of(fs)
    if server is None:
        return Files(fs, root, missing, concurrency)
    kind = SharedFiles if conditional and server.change is not None else FarFiles
    return kind(fs, root, missing, concurrency, server)


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
        server: Server,
    ) -> None:
        super().__init__(fs, root, missing, concurrency)
        self.server = server
        self._answering: set[Task[None]] = set()

    def fetch(self, path: str, span: str | None) -> Part:
        """Return a range of a file, or all of it."""
        fs = self._fs
        return waited(fs.loop, fetched, fs, self.server, path, span)

    def get(self, key: str) -> bytes | None:
        """Give all of a file."""
        found = self.open_head(key, None)
        return None if found is None else found.read(0, found.size)

    def open_head(self, key: str, count: int | None) -> _Opened | None:
        """Open a file, by its first bytes, or by all."""
        return waited(self._fs.loop, self._head, key, count)

    def open_value(self, key: str) -> _Opened | None:
        """Open a file, by its first bytes."""
        return self.open_head(key, _FIRST_BYTES)

    def open_tail(self, key: str, count: int) -> _Opened | None:
        """Open a file, by its last bytes."""
        return waited(self._fs.loop, self._tail, key, count)

    def open_part(self, key: str, offset: int, count: int) -> _Opened | None:
        """Open a file that was seen before, by some of its bytes."""
        return waited(self._fs.loop, self._opened, key, _span(offset, count))

    def _reentry(self) -> Exception | None:
        """Return why this thread must not wait, if it must not."""
        return reentry(self._fs.loop)

    def _answer(self, take: Callable[[], list[Any]]) -> None:
        """Have the event loop open files, each of which is told what was opened."""
        loop = self._fs.loop
        loop.call_soon_threadsafe(lambda: self._begin(loop, take()))

    def _begin(self, loop: AbstractEventLoop, asked: list[Any]) -> None:
        for one in asked:
            task = loop.create_task(self._answered(loop, one))
            self._answering.add(task)  # loops keep none
            task.add_done_callback(self._answering.discard)

    async def _answered(self, loop: AbstractEventLoop, asked: Any) -> None:
        try:
            if asked.method == "open_tail":
                found = await self._tail(asked.key, asked.count)
            else:
                count = _FIRST_BYTES if asked.method == "open_value" else asked.count
                found = await self._head(asked.key, count)
        except (KeyError, FileNotFoundError):  # as of every store, whatever else says so here
            self._begin(loop, asked.tell(None))
        except BaseException as error:  # noqa: BLE001 (told to who waits)
            self._begin(loop, asked.fail(error))
        else:
            self._begin(loop, asked.tell(found))

    async def _head(self, key: str, count: int | None) -> _Opened | None:
        return await self._opened(key, None if count is None else f"bytes=0-{max(count, 1) - 1}")

    async def _tail(self, key: str, count: int) -> _Opened | None:
        found = await self._opened(key, f"bytes=-{max(count, 1)}")
        if found is not None and not found.has_end:  # a server that takes it for the beginning
            await found.complete(max(0, found.size - count), min(count, found.size))
        return found

    async def _opened(self, key: str, span: str | None) -> _Opened | None:
        path = self._at(key)
        try:
            return _Opened(self, path, await fetched(self._fs, self.server, path, span))
        except self._missing:
            return None

    def put(self, key: str, data: bytes) -> bytes | bool | None:
        """Replace a file; give its version."""
        if self.server.change is None:
            return super().put(key, data)
        return changed(self._fs, self.server, self._at(key), data, None)


class SharedFiles(FarFiles):
    """Those of servers that compare what a change is made of: several processes lose nothing."""

    def replace_version(self, key: str, data: bytes | None, version: bytes | None) -> bytes | bool:
        """Replace or remove a file, if it is in a state (None: absent); give its version."""
        if data is None and version is None:
            return self.open_head(key, 1) is None
        tag = "" if version is None else version.decode()
        return changed(self._fs, self.server, self._at(key), data, tag)


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

    @property
    def version(self) -> bytes | None:
        """What the server calls the state; None for those of the web, which promise less."""
        return None if self._files.server.change is None else version_of(self._part.tag)

    def read(self, offset: int, count: int) -> bytes:
        part = self._part
        if not self._has(offset, count):
            part = self._checked(self._files.fetch(self._path, _span(offset, count)))
        begin = offset - part.first
        return part.data[begin : begin + count]

    async def complete(self, offset: int, count: int) -> None:
        """Know bytes from now on."""
        if not self._has(offset, count):
            files = self._files
            part = await fetched(files._fs, files.server, self._path, _span(offset, count))
            self._part = self._checked(part)

    def _has(self, offset: int, count: int) -> bool:
        part = self._part
        return not count or part.first <= offset <= offset + count <= part.first + len(part.data)

    def _checked(self, part: Part) -> Part:
        if part.tag != self._part.tag or part.size != self.size:
            raise StoreError(
                f"{self._path!r} was replaced while parts of it were read",
                kind="value_replaced",
                retryable=True,
            )
        if len(part.data) == part.size:
            self._part = part  # the server knows no ranges, and gave everything
        return part


def _span(offset: int, count: int) -> str:
    return f"bytes={offset}-{offset + count - 1}"
