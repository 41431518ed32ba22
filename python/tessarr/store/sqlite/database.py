"""The connections of an SQLite store: pooled, retried while busy, never used during a fork."""

from __future__ import annotations

import builtins
import errno
import os
import sqlite3
import threading
import time
from collections import deque
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tessarr.errors import ReadOnlyError, StoreError
from tessarr.store.lock_support import NO_LOCK_ERRNOS, build_no_locks_error, check_locks
from tessarr.store.paths import is_writable
from tessarr.store.sqlite.fork import gate
from tessarr.store.sqlite.rows import (
    Connection,
    check_table,
    delete_value,
    get_key_range,
    get_value,
    list_keys,
    list_level,
    move_prefix,
    put_value,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

__all__ = ["Database"]

T = TypeVar("T")

_WAIT_S: Final = 60.0
_SMALL_BYTES: Final = 1 << 16
_BYTES_TYPES: Final = ("blob", "text")
"""SQLite types of values that have bytes."""

_ERRNO_OF_CODE: Final = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_IOERR: errno.EIO,
    sqlite3.SQLITE_PERM: errno.EACCES,
    sqlite3.SQLITE_NOLFS: errno.EFBIG,
}


class Database:
    """An SQLite database with the methods of `tessarr.store.protocol.StoreProtocol`."""

    def __init__(self, path: str, *, read_only: bool, durable: bool) -> None:
        self.path = path
        self._location = f"sqlite:{os.path.realpath(path)}"
        self._read_only = read_only
        self._durable = durable
        self._idle: list[Connection] = []
        # Values without references; `__del__` may only append.
        self._released: deque[OpenedValue] = deque()
        self._writing = threading.Lock()
        self._generation = 0
        self._has_locks = False  # checked only after SQLite fails
        gate.watch(self)

    def get(self, key: str) -> bytes | None:
        return self._read(lambda connection: get_value(connection, key))

    def open_value(self, key: str) -> OpenedValue | None:
        return self._read(lambda connection: self._open_value(connection, key))

    def list(self, prefix: str) -> list[str]:
        return self._read(lambda connection: list_keys(connection, prefix)) or []

    def list_dir(self, prefix: str) -> tuple[builtins.list[str], builtins.list[str]]:
        return self._read(lambda connection: list_level(connection, prefix)) or ([], [])

    def put(self, key: str, data: bytes) -> None:
        self._write(lambda connection: put_value(connection, key, data))

    def delete(self, key: str) -> None:
        if os.path.exists(self.path):  # noqa: PTH110 (a str)
            self._write(lambda connection: delete_value(connection, key))

    def delete_prefix(self, prefix: str) -> None:
        statement = "DELETE FROM zarr WHERE k >= ? AND k < ?"
        if os.path.exists(self.path):  # noqa: PTH110 (a str)
            self._write(lambda connection: connection.execute(statement, get_key_range(prefix)))

    deletes_at_once = True

    def replace_prefix(self, staged: str, prefix: str) -> None:
        def exchange(connection: Connection) -> None:
            connection.execute("BEGIN IMMEDIATE")
            try:
                move_prefix(connection, staged, prefix)
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

        self._write(exchange)

    def replace(self, key: str, data: bytes | None, expected: bytes | None) -> bool:
        return self.replace_all({key: data}, {key: expected})

    def replace_all(
        self, values: dict[str, bytes | None], expected: dict[str, bytes | None]
    ) -> bool:
        def exchange(connection: Connection) -> bool:
            connection.execute("BEGIN IMMEDIATE")
            if any(get_value(connection, key) != data for key, data in expected.items()):
                connection.execute("ROLLBACK")
                return False
            for key, data in values.items():
                if data is None:
                    delete_value(connection, key)
                else:
                    put_value(connection, key, data)
            connection.execute("COMMIT")
            return True

        return self._write(exchange)

    @contextmanager
    def hold(self, key: str) -> Generator[None]:
        """Lock a file beside the database; the system releases the lock of a killed process."""
        import fcntl
        from hashlib import blake2b

        path = f"{self.path}-{blake2b(key.encode(), digest_size=8).hexdigest()}.__lock"
        self._make_folder()
        give_up = time.monotonic() + _WAIT_S
        while True:
            try:
                file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            except OSError as error:
                raise StoreError._of_system("lock", path, error) from error
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # The previous holder may have removed the file meanwhile.
                if os.fstat(file).st_nlink:
                    break
            except BlockingIOError as error:
                if time.monotonic() > give_up:
                    os.close(file)
                    message = f"{path!r} has been locked by another process for {_WAIT_S:.0f} s"
                    raise StoreError(message, retryable=True) from error
            except OSError as error:
                os.close(file)
                if error.errno in NO_LOCK_ERRNOS:
                    Path(path).unlink(missing_ok=True)
                    raise build_no_locks_error(path, error) from error
                raise StoreError._of_system("lock", path, error) from error
            except BaseException:
                os.close(file)
                raise
            os.close(file)
            time.sleep(0.002)
        try:
            yield
        finally:
            Path(path).unlink(missing_ok=True)
            os.close(file)

    def checkpoint(self) -> None:
        def move(connection: Connection) -> None:
            (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if busy:
                error = sqlite3.OperationalError("another connection reads")
                error.sqlite_errorcode = sqlite3.SQLITE_BUSY
                raise error

        if os.path.exists(self.path) and not self._read_only:  # noqa: PTH110 (a str)
            self._write(move)

    def close(self) -> None:
        with gate:
            self._generation += 1
            self._recycle_values()
            while self._idle:
                self._idle.pop().close()

    def forget(self) -> object:
        """Drop all connections without closing them, and return them."""
        idle, self._idle = self._idle, []
        returned, self._released = self._released, deque()
        self._generation += 1
        return idle, returned

    def _read(self, work: Callable[[Connection], T]) -> T | None:
        """Run `work` on a connection; return None if the database does not exist."""

        def look() -> T | None:
            connection = self._take_connection(create=False)
            if connection is None:
                return None
            with self._using(connection):
                try:
                    return work(connection)
                except sqlite3.OperationalError as error:
                    if _get_code(error) == sqlite3.SQLITE_ERROR and "no such table" in str(error):
                        return None  # a file of another program, or a new one
                    raise

        return self._retry_while_busy(look)

    def _write(self, work: Callable[[Connection], T]) -> T:
        def change() -> T:
            # Threads queue here: SQLite's lock has no queue.
            with self._writing:
                connection = self._take_connection(create=True)
                assert connection is not None
                with self._using(connection):
                    connection.make_ready()
                    return work(connection)

        return self._retry_while_busy(change)

    def _retry_while_busy(self, work: Callable[[], T]) -> T:
        """Run `work` again while another process has locked the database."""
        give_up, pause_s = time.monotonic() + _WAIT_S, 0.0005
        while True:
            try:
                with gate:
                    return work()
            except sqlite3.Error as error:
                self._check_locks(error)
                busy = _get_code(error) & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
                if not busy or time.monotonic() > give_up:
                    raise self._build_error(error, retryable=busy) from error
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, 0.02)

    def _check_locks(self, error: sqlite3.Error) -> None:
        """Raise an error if the file system has no locks: SQLite reports that as busy."""
        code = _get_code(error) & 0xFF
        if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_IOERR} and not self._has_locks:
            check_locks(self.path)
            self._has_locks = True

    def _build_error(self, error: sqlite3.Error, *, retryable: bool) -> Exception:
        code = _get_code(error) & 0xFF
        if code == sqlite3.SQLITE_READONLY:
            return ReadOnlyError(f"the database {self.path!r} cannot be written to: {error}")
        if code == sqlite3.SQLITE_NOTADB:
            return StoreError(f"{self.path!r} is not an SQLite database: {error}")
        waited = f", for {_WAIT_S:.0f} s" if retryable else ""
        return StoreError(
            f"SQLite database {self.path!r}: {error}{waited}",
            retryable=retryable,
            errno=self._get_errno(code),
            filename=self.path,
        )

    def _get_errno(self, code: int) -> int | None:
        """Return the errno for a result code of SQLite."""
        if code == sqlite3.SQLITE_CANTOPEN and not is_writable(self.path):
            return errno.EACCES
        return _ERRNO_OF_CODE.get(code)

    @contextmanager
    def _using(self, connection: Connection) -> Generator[None]:
        generation, is_held = self._generation, False
        try:
            yield
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        else:
            # An open value holds the connection, in a transaction.
            is_held = connection.in_transaction
        finally:
            if not is_held:
                self._return_connection(connection, generation)

    def _return_connection(self, connection: Connection, generation: int) -> None:
        if generation == self._generation:
            self._idle.append(connection)
        else:
            connection.close()

    def _recycle_values(self) -> None:
        while self._released:
            value = self._released.popleft()
            self._return_connection(value.release(), value.generation)

    def _take_connection(self, *, create: bool) -> Connection | None:
        self._recycle_values()
        try:
            return self._idle.pop()
        except IndexError:
            pass
        if not os.path.exists(self.path):  # noqa: PTH110 (a str)
            if not create:
                return None
            check_locks(self.path)
            self._make_folder()
        return self._connect(create=create)

    def _make_folder(self) -> None:
        folder = Path(self.path).parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError._of_system("make", str(folder), error) from error

    def _connect(self, *, create: bool) -> Connection:
        mode = "ro" if self._read_only else "rwc" if create else "rw"
        url = f"{Path(self.path).as_uri()}?mode={mode}"
        if self._read_only and self._is_immutable():
            url += "&immutable=1"
        connection = sqlite3.connect(
            url,
            timeout=0,
            isolation_level=None,
            check_same_thread=False,
            factory=Connection,
            uri=True,
        )
        try:
            connection.execute(f"PRAGMA synchronous = {'FULL' if self._durable else 'NORMAL'}")
            check_table(connection, self.path)
        except BaseException:
            connection.close()
            raise
        return connection

    def _is_immutable(self) -> bool:
        """Return whether the folder is read-only and has no log, so that the file cannot change."""
        has_log = os.path.exists(f"{self.path}-wal")  # noqa: PTH110 (a str)
        return not has_log and not os.access(Path(self.path).parent, os.W_OK)

    def _open_value(self, connection: Connection, key: str) -> OpenedValue | None:
        connection.execute("BEGIN")
        statement = "SELECT rowid, length(CAST(v AS BLOB)), typeof(v) FROM zarr WHERE k = ?"
        row = connection.execute(statement, (key,)).fetchone()
        if row is None or row[2] not in _BYTES_TYPES or row[1] <= _SMALL_BYTES:
            data = None if row is None else get_value(connection, key)
            connection.execute("ROLLBACK")
            return None if data is None else OpenedValue(self, data, None)
        blob = connection.blobopen("zarr", "v", row[0], readonly=True)
        return OpenedValue(self, blob, connection)


class OpenedValue:
    """An open value; later changes of the key do not affect it."""

    def __init__(self, database: Database, data: Any, connection: Connection | None) -> None:
        self.size = len(data)
        self.generation = database._generation
        self._database = database
        self._data = data
        self._connection = connection

    def read(self, offset: int, count: int) -> bytes:
        with gate:
            if self._connection is not None and self.generation != self._database._generation:
                raise StoreError("the value was opened before its store was closed, or forked")
            data: bytes = self._data[offset : offset + count]
        return data

    def release(self) -> Connection:
        """End the transaction and return the connection."""
        connection, self._connection = self._connection, None
        assert connection is not None
        self._data.close()
        connection.execute("ROLLBACK")
        return connection

    def __del__(self) -> None:
        if self._connection is not None:
            self._database._released.append(self)


def _get_code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) or 0
