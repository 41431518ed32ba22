"""Files that hold a Zip archive: a local file, a file object, or a value of another store."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import tempfile
from pathlib import Path
from threading import RLock
from typing import IO, TYPE_CHECKING, Final

from tessarr.errors import (
    DataError,
    ExistsError,
    NotFoundError,
    ReadOnlyError,
    StoreError,
    TessarrError,
)
from tessarr.store.lock_support import NO_LOCK_ERRNOS

__all__ = ["File", "ObjectFile", "PathFile", "ReadFile", "get_stamp"]

if TYPE_CHECKING:
    from collections.abc import Generator

    from tessarr._engine import ValueReader

_ATTEMPTS: Final = 100
_CREATING: Final = ("w", "x", "w-")
_DENIED: Final = frozenset((errno.EACCES, errno.EPERM, errno.EROFS))


class File:
    """The file methods that an archive uses. Many threads may call `read`."""

    has_version = True
    """Whether the file stays open for as long as its content is the same."""

    def size(self) -> int:
        """Return the number of bytes."""
        raise NotImplementedError

    def read(self, offset: int, count: int) -> bytes:
        """Return `count` bytes from `offset`."""
        raise NotImplementedError

    def write(self, offset: int, data: bytes) -> None:
        """Write bytes at `offset`."""
        raise ReadOnlyError(f"{self!r} is open for reading only")

    def truncate(self, size: int) -> None:
        """Delete all bytes from `size`."""
        raise ReadOnlyError(f"{self!r} is open for reading only")

    def flush(self, *, durable: bool) -> None:
        """Write buffered bytes, and wait for the disk if `durable`."""

    def hint(self) -> str:
        """Return what the user can do about a damaged file."""
        return ""

    def close(self) -> None:
        """Close the file, unless its owner does."""


class _Descriptor:
    """A file descriptor that closes with its last reference."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.close(self.number)


class PathFile(File):
    """A local file; a writer holds a lock on it.

    Parameters
    ----------
    path
        An absolute path.
    mode
        r, r+, w or x.
    """

    def __init__(self, path: str, mode: str) -> None:
        self.path = path
        self._mode = mode
        self._opened: _Descriptor | None
        try:
            self._opened = self._open()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotFoundError(f"there is no file {path!r}", kind="node_not_found") from error
        except FileExistsError as error:
            raise ExistsError(f"there is a file {path!r} already", kind="node_exists") from error
        except IsADirectoryError as error:
            raise StoreError(
                f"{path!r} is a folder, not a Zip file", errno=error.errno, filename=path
            ) from error
        except TessarrError:
            raise
        except OSError as error:
            if mode == "r+" and error.errno in _DENIED:
                raise ReadOnlyError(
                    f"{path!r} may not be written: open it with mode 'r'"
                ) from error
            raise StoreError._of_system("open", path, error) from error

    def _open(self) -> _Descriptor:
        mode = self._mode
        if mode == "r":
            return self._open_for_reading()
        if mode in _CREATING:
            self._make_folder()
        for _ in range(_ATTEMPTS):
            opened = self._open_for_writing(mode)
            self._lock(opened)
            # Another writer may have replaced the file before the lock.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(opened.number), os.stat(self.path)):  # noqa: PTH116 (beside fstat)
                    if mode == "w":
                        os.ftruncate(opened.number, 0)
                    return opened
        raise StoreError(f"other processes replace {self.path!r} continually", retryable=True)

    def _open_for_reading(self) -> _Descriptor:
        opened = _Descriptor(os.open(self.path, os.O_RDONLY | os.O_CLOEXEC))
        if stat.S_ISDIR(os.fstat(opened.number).st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self.path)
        return opened

    def _make_folder(self) -> None:
        folder = Path(self.path).parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise StoreError(
                f"cannot create {self.path!r}: a folder of its path is a file",
                errno=errno.ENOTDIR,
                filename=self.path,
            ) from error

    def _open_for_writing(self, mode: str) -> _Descriptor:
        flags = os.O_RDWR | os.O_CLOEXEC
        if mode == "w":
            with contextlib.suppress(FileNotFoundError):
                return _Descriptor(os.open(self.path, flags))
        if mode in _CREATING:
            flags |= os.O_CREAT | (os.O_EXCL if mode in {"x", "w-"} else 0)
        return _Descriptor(os.open(self.path, flags, 0o666))

    def _lock(self, opened: _Descriptor) -> None:
        try:
            fcntl.flock(opened.number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StoreError(
                f"cannot open {self.path!r} for writing: another store does, in this process or "
                "another one; close it first",
                retryable=True,
            ) from error
        except OSError as error:
            if error.errno not in NO_LOCK_ERRNOS:
                raise

    def _descriptor(self) -> _Descriptor:
        opened = self._opened
        if opened is None:
            raise StoreError(f"the file {self.path!r} is closed: open it again")
        return opened

    @contextlib.contextmanager
    def _translate_errors(self, action: str) -> Generator[None]:
        """Convert errors of the operating system to `StoreError`."""
        try:
            yield
        except TessarrError:
            raise
        except OSError as error:
            raise StoreError._of_system(action, self.path, error) from error

    def size(self) -> int:
        return os.fstat(self._descriptor().number).st_size

    def read(self, offset: int, count: int) -> bytes:
        with self._translate_errors("read"):
            return self._read(self._descriptor(), offset, count)

    @staticmethod
    def _read(opened: _Descriptor, offset: int, count: int) -> bytes:
        data = os.pread(opened.number, count, offset)
        while len(data) < count:  # one call reads at most 2 GiB
            more = os.pread(opened.number, count - len(data), offset + len(data))
            if not more:
                raise DataError(f"the file ends early, at {offset + len(data)}", kind="wrong_size")
            data += more
        return data

    def write(self, offset: int, data: bytes) -> None:
        opened = self._descriptor()
        view = memoryview(data)
        with self._translate_errors("write to"):
            while view:
                written = os.pwrite(opened.number, view, offset)
                view = view[written:]
                offset += written

    def truncate(self, size: int) -> None:
        with self._translate_errors("shorten"):
            os.ftruncate(self._descriptor().number, size)

    def flush(self, *, durable: bool) -> None:
        if durable:
            with self._translate_errors("synchronise"):
                os.fsync(self._descriptor().number)

    def hint(self) -> str:
        """Return a hint for a file that is not complete."""
        if self._mode == "r":
            try:
                fcntl.flock(self._descriptor().number, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return "; first close or flush the store that is open for writing"
            except OSError:
                return ""
        remedy = "" if self._mode == "r" else "; else delete it to start again"
        return f"; if its writer was killed, ZipStore.repair finds what it had written{remedy}"

    def create_sibling(self) -> PathFile:
        """Create a file in the same folder for `replace_with`."""
        folder, name = os.path.split(os.path.realpath(self.path))
        number, path = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
        os.close(number)
        return PathFile(path, "r+")

    def replace_with(self, other: PathFile, *, durable: bool) -> None:
        """Replace this file by another one."""
        mode = os.fstat(self._descriptor().number).st_mode
        os.fchmod(other._descriptor().number, mode & 0o7777)
        other.flush(durable=durable)
        os.replace(other.path, os.path.realpath(self.path))  # noqa: PTH105 (not every path is text)

    def close(self) -> None:
        self._opened = None

    def discard(self) -> None:
        Path(self.path).unlink(missing_ok=True)


class ObjectFile(File):
    """A file object of the user, who closes it."""

    def __init__(self, file: IO[bytes], mode: str) -> None:
        for name in ("read", "seek", "tell") if mode == "r" else ("write", "tell"):
            if not callable(getattr(file, name, None)):
                raise TypeError(f"{file!r} is neither a path nor a binary file: it lacks {name}")
        self._file = file
        self._lock = RLock()
        self._seekable = bool(file.seekable())
        if mode in {"x", "w-"} and self.size():
            raise ExistsError("the file object is not empty", kind="node_exists")
        if mode == "w" and self._seekable:
            file.seek(0)
            file.truncate()

    def size(self) -> int:
        with self._lock:
            return self._file.seek(0, os.SEEK_END) if self._seekable else 0

    def read(self, offset: int, count: int) -> bytes:
        with self._lock:
            self._seek(offset)
            data = self._file.read(count)
            while len(data) < count:
                more = self._file.read(count - len(data))
                if not more:
                    end = offset + len(data)
                    raise DataError(f"the file ends early, at {end}", kind="wrong_size")
                data += more
        return data

    def write(self, offset: int, data: bytes) -> None:
        with self._lock:
            self._seek(offset)
            view = memoryview(data)
            while view:
                view = view[self._file.write(view) :]

    def _seek(self, offset: int) -> None:
        # Write a file object without `seek` sequentially.
        if self._seekable:
            self._file.seek(offset)
        elif self._file.tell() != offset:
            raise StoreError("the file object can only be written from beginning to end")

    def truncate(self, size: int) -> None:
        with self._lock:
            if self._seekable:
                self._file.truncate(size)

    def is_movable(self) -> bool:
        """Return whether the object is seekable, readable and writable."""
        return self._seekable and self._file.readable() and self._file.writable()

    def flush(self, *, durable: bool) -> None:
        with self._lock:
            self._file.flush()


class ReadFile(File):
    """A value of another store, for reading."""

    def __init__(self, value: ValueReader, name: str) -> None:
        self.is_replaced = False  # whether a read noticed that another value has replaced this one
        self.has_version = value.version is not None  # otherwise each read opens the file again
        self._value = value
        self._name = name

    def __repr__(self) -> str:
        return self._name

    def size(self) -> int:
        return self._value.size

    def read(self, offset: int, count: int) -> bytes:
        try:
            return self._value.read(offset, count)
        except StoreError as error:
            self.is_replaced |= error.kind == "value_replaced"
            raise


def get_stamp(path: str) -> tuple[int, ...] | None:
    """Return values that change with a file; None for an absent file."""
    try:
        status = os.stat(path)  # noqa: PTH116 (beside fstat)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
