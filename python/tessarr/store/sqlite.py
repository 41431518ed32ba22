"""A store in one file: an SQLite database.

The file is that of zarr-python 2's ``SQLiteStore``: one table ``zarr`` with a key and a value
per row, so that each reads what the other wrote.

SQLite is asked in short calls that never wait: who finds the file locked by another process
goes away and comes back, so that Ctrl-C and ``fork`` need not wait for a stranger. A database must
not be carried through ``fork``: while a process forks, none of its threads is inside of
SQLite (`_Gate`), and the child forgets the connections without closing them.
"""

from __future__ import annotations

import builtins
import os
import sqlite3
import threading
import time
from collections import deque
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
from weakref import WeakSet

from tessarr._engine import ForeignStore
from tessarr.errors import ArgumentError, ReadOnlyError, StoreError
from tessarr.store.described import DescribedStore

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

__all__ = ["SQLiteStore", "is_sqlite"]

T = TypeVar("T")

_WAIT_S: Final = 60.0
_SMALL_BYTES: Final = 1 << 16
_MAGIC: Final = b"SQLite format 3\0"


class SQLiteStore(DescribedStore):
    """A store in one file, an SQLite database.

    Parameters
    ----------
    path : str or os.PathLike
        The file; the first write creates it, and the folders above it.
    read_only : bool, default False
        Refuse every change (`ReadOnlyError`).
    durable : bool, default False
        Every change has reached the disk when the call returns. Without it a killed process
        loses nothing, but a power failure may lose recent changes.

    Notes
    -----
    Any number of threads and processes may read and write at a time; writers take turns. A value
    is replaced as a whole or not at all, also when the process is killed meanwhile. Who waits for
    a turn longer than 60 s gets a `StoreError` that is retryable. While the store is in use
    there are two files more, named as the database with ``-wal`` and ``-shm`` at the end: they
    belong to it, and go when the last user closes it, as `close` or the end of the process does.
    Not for network file systems. A value has at most 1 000 000 000 bytes.

    Examples
    --------
    >>> import tessarr
    >>> with SQLiteStore("data.sqlite") as store:
    ...     a = tessarr.array([1, 2, 3], store=store, path="a")
    >>> tessarr.open(SQLiteStore("data.sqlite"), path="a")[:]
    array([1, 2, 3])
    """

    _database: _Database

    def __new__(
        cls, path: str | os.PathLike[str], *, read_only: bool = False, durable: bool = False
    ) -> Self:
        text = os.fspath(path)
        if text in {"", ":memory:"}:
            raise ArgumentError(f"an SQLiteStore needs a file, not {text!r}; see MemoryStore")
        absolute = str(Path(text).absolute())
        database = _Database(absolute, read_only=read_only, durable=durable)
        arguments = {"path": absolute, "read_only": read_only, "durable": durable}
        made = cls._make(arguments, ForeignStore(database, read_only=read_only))
        made._database = database
        return made

    @property
    def path(self) -> str:
        """The file."""
        return self._database.path

    def flush(self) -> None:
        """Bring everything that was written into the one file."""
        self._database.checkpoint()

    def close(self) -> None:
        """Close the file; whoever uses the store again opens it again."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def is_sqlite(path: str) -> bool:
    """Return whether a file is an SQLite database."""
    try:
        with Path(path).open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


class _Gate:
    """Keeps `fork` waiting while somebody is inside, and others out while it waits."""

    def __init__(self) -> None:
        self._condition = threading.Condition(threading.Lock())
        self._inside = 0
        self._forking = False
        self._leaked: list[object] = []
        self._databases: WeakSet[_Database] = WeakSet()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._before,
                after_in_parent=self._after,
                after_in_child=self._after_in_child,
            )

    def watch(self, database: _Database) -> None:
        import atexit

        if not self._databases:
            atexit.register(self._close_all)
        self._databases.add(database)

    def _close_all(self) -> None:
        for database in list(self._databases):
            database.close()

    def __enter__(self) -> None:
        with self._condition:
            while self._forking:
                self._condition.wait()
            self._inside += 1

    def __exit__(self, *exception: object) -> None:
        with self._condition:
            self._inside -= 1
            if not self._inside:
                self._condition.notify_all()

    def _before(self) -> None:
        self._condition.acquire()
        self._forking = True
        while self._inside:
            self._condition.wait()

    def _after(self) -> None:
        self._forking = False
        self._condition.notify_all()
        self._condition.release()

    def _after_in_child(self) -> None:
        for database in self._databases:
            # To close them would take the locks of the parent away.
            self._leaked.append(database.forget())
        self._after()


_gate = _Gate()


class _Connection(sqlite3.Connection):
    """A connection that knows whether the database was made ready for writing."""

    ready = False

    def make_ready(self) -> None:
        if not self.ready:
            self.execute("PRAGMA journal_mode = WAL")
            self.execute("CREATE TABLE IF NOT EXISTS zarr(k TEXT PRIMARY KEY, v BLOB)")
            self.ready = True


class _Database:
    """The methods of `tessarr.store.protocol.StoreProtocol`, all of them."""

    def __init__(self, path: str, *, read_only: bool, durable: bool) -> None:
        self.path = path
        self._read_only = read_only
        self._durable = durable
        self._idle: list[_Connection] = []
        # Values that nobody reads any more; `__del__` must not do more than append.
        self._returned: deque[_OpenedValue] = deque()
        self._writing = threading.Lock()
        self._generation = 0
        _gate.watch(self)

    # What is asked of a store.

    def get(self, key: str) -> bytes | None:
        return self._read(lambda connection: _value(connection, key))

    def open_value(self, key: str) -> _OpenedValue | None:
        return self._read(lambda connection: self._opened(connection, key))

    def list(self, prefix: str) -> list[str]:
        statement = "SELECT k FROM zarr WHERE k >= ? AND k < ?"

        def found(connection: _Connection) -> builtins.list[str]:
            return [key for (key,) in connection.execute(statement, _range(prefix))]

        return self._read(found) or []

    def list_dir(self, prefix: str) -> tuple[builtins.list[str], builtins.list[str]]:
        return self._read(lambda connection: _level(connection, prefix)) or ([], [])

    def put(self, key: str, data: bytes) -> None:
        self._write(lambda connection: _put(connection, key, data))

    def delete(self, key: str) -> None:
        if os.path.exists(self.path):  # noqa: PTH110 (a str)
            self._write(lambda connection: _delete(connection, key))

    def delete_prefix(self, prefix: str) -> None:
        statement = "DELETE FROM zarr WHERE k >= ? AND k < ?"
        if os.path.exists(self.path):  # noqa: PTH110 (a str)
            self._write(lambda connection: connection.execute(statement, _range(prefix)))

    def replace(self, key: str, data: bytes | None, expected: bytes | None) -> bool:
        def exchange(connection: _Connection) -> bool:
            connection.execute("BEGIN IMMEDIATE")
            if _value(connection, key) != expected:
                connection.execute("ROLLBACK")
                return False
            if data is None:
                _delete(connection, key)
            else:
                _put(connection, key, data)
            connection.execute("COMMIT")
            return True

        return self._write(exchange)

    @contextmanager
    def hold(self, key: str) -> Generator[None]:
        """Lock a file beside the database, which goes away with its holder."""
        import fcntl
        from hashlib import blake2b

        path = f"{self.path}-{blake2b(key.encode(), digest_size=8).hexdigest()}.__lock"
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        give_up = time.monotonic() + _WAIT_S
        while True:
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Who had it before has removed it, so that it may be no file any more.
                if os.fstat(file).st_nlink:
                    break
            except BlockingIOError as error:
                if time.monotonic() > give_up:
                    os.close(file)
                    message = f"{path!r} has been locked by another process for {_WAIT_S:.0f} s"
                    raise StoreError(message, retryable=True) from error
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

    # Connections.

    def checkpoint(self) -> None:
        def move(connection: _Connection) -> None:
            (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if busy:
                error = sqlite3.OperationalError("somebody is reading")
                error.sqlite_errorcode = sqlite3.SQLITE_BUSY
                raise error

        if os.path.exists(self.path) and not self._read_only:  # noqa: PTH110 (a str)
            self._write(move)

    def close(self) -> None:
        with _gate:
            self._generation += 1
            self._take_back()
            while self._idle:
                self._idle.pop().close()

    def forget(self) -> object:
        """Give up all connections, as they are."""
        idle, self._idle = self._idle, []
        returned, self._returned = self._returned, deque()
        self._generation += 1
        return idle, returned

    def _read(self, work: Callable[[_Connection], T]) -> T | None:
        """Do `work`; None if there is no database."""

        def look() -> T | None:
            connection = self._connection(create=False)
            if connection is None:
                return None
            with self._giving_back(connection):
                try:
                    return work(connection)
                except sqlite3.OperationalError as error:
                    if _code(error) == sqlite3.SQLITE_ERROR and "no such table" in str(error):
                        return None  # another program's file, or one that is being made
                    raise

        return self._patiently(look)

    def _write(self, work: Callable[[_Connection], T]) -> T:
        def change() -> T:
            # Threads queue here and not at SQLite's lock, which knows no queue.
            with self._writing:
                connection = self._connection(create=True)
                assert connection is not None
                with self._giving_back(connection):
                    connection.make_ready()
                    return work(connection)

        return self._patiently(change)

    def _patiently(self, work: Callable[[], T]) -> T:
        """Do `work` until nobody else has the database locked."""
        give_up, pause_s = time.monotonic() + _WAIT_S, 0.0005
        while True:
            try:
                with _gate:
                    return work()
            except sqlite3.Error as error:
                busy = _code(error) & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
                if not busy or time.monotonic() > give_up:
                    raise self._failure(error, retryable=busy) from error
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, 0.02)

    def _failure(self, error: sqlite3.Error, *, retryable: bool) -> Exception:
        code = _code(error) & 0xFF
        if code == sqlite3.SQLITE_READONLY:
            return ReadOnlyError(f"the database {self.path!r} cannot be written to: {error}")
        if code == sqlite3.SQLITE_NOTADB:
            return StoreError(f"{self.path!r} is not an SQLite database: {error}")
        waited = f", for {_WAIT_S:.0f} s" if retryable else ""
        return StoreError(f"SQLite database {self.path!r}: {error}{waited}", retryable=retryable)

    @contextmanager
    def _giving_back(self, connection: _Connection) -> Generator[None]:
        generation, kept = self._generation, False
        try:
            yield
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        else:
            # A value that was opened keeps the connection, in a transaction.
            kept = connection.in_transaction
        finally:
            if not kept:
                self._give_back(connection, generation)

    def _give_back(self, connection: _Connection, generation: int) -> None:
        if generation == self._generation:
            self._idle.append(connection)
        else:
            connection.close()

    def _take_back(self) -> None:
        while self._returned:
            value = self._returned.popleft()
            self._give_back(value.end(), value.generation)

    def _connection(self, *, create: bool) -> _Connection | None:
        self._take_back()
        try:
            return self._idle.pop()
        except IndexError:
            pass
        if not os.path.exists(self.path):  # noqa: PTH110 (a str)
            if not create:
                return None
            Path(self.path).parent.mkdir(parents=True, exist_ok=True)
        return self._connect(create=create)

    def _connect(self, *, create: bool) -> _Connection:
        mode = "ro" if self._read_only else "rwc" if create else "rw"
        url = f"{Path(self.path).as_uri()}?mode={mode}"
        if self._read_only and self._is_immutable():
            url += "&immutable=1"
        connection = sqlite3.connect(
            url,
            timeout=0,
            isolation_level=None,
            check_same_thread=False,
            factory=_Connection,
            uri=True,
        )
        try:
            connection.execute(f"PRAGMA synchronous = {'FULL' if self._durable else 'NORMAL'}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _is_immutable(self) -> bool:
        """Tell whether nobody can change the file: then no files can be beside it, either."""
        beside = os.path.exists(f"{self.path}-wal")  # noqa: PTH110 (a str)
        return not beside and not os.access(Path(self.path).parent, os.W_OK)

    def _opened(self, connection: _Connection, key: str) -> _OpenedValue | None:
        connection.execute("BEGIN")
        statement = "SELECT rowid, length(CAST(v AS BLOB)) FROM zarr WHERE k = ?"
        row = connection.execute(statement, (key,)).fetchone()
        if row is None or row[1] <= _SMALL_BYTES:
            data = None if row is None else _value(connection, key)
            connection.execute("ROLLBACK")
            return None if data is None else _OpenedValue(self, data, None)
        blob = connection.blobopen("zarr", "v", row[0], readonly=True)
        return _OpenedValue(self, blob, connection)


class _OpenedValue:
    """A value, in the state that it had when it was opened."""

    def __init__(self, database: _Database, data: Any, connection: _Connection | None) -> None:
        self.size = len(data)
        self.generation = database._generation
        self._database = database
        self._data = data
        self._connection = connection

    def read(self, offset: int, count: int) -> bytes:
        with _gate:
            if self._connection is not None and self.generation != self._database._generation:
                raise StoreError("the value was opened before its store was closed, or forked")
            found: bytes = self._data[offset : offset + count]
        return found

    def end(self) -> _Connection:
        """End the transaction and give the connection back."""
        connection, self._connection = self._connection, None
        assert connection is not None
        self._data.close()
        connection.execute("ROLLBACK")
        return connection

    def __del__(self) -> None:
        if self._connection is not None:
            self._database._returned.append(self)


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) or 0


def _range(prefix: str) -> tuple[str, str | bytes]:
    """Return the first key below a prefix, and what follows the last."""
    # "0" follows "/"; every blob follows every text.
    return prefix, f"{prefix[:-1]}0" if prefix else b""


def _value(connection: _Connection, key: str) -> bytes | None:
    row = connection.execute("SELECT v FROM zarr WHERE k = ?", (key,)).fetchone()
    if row is None:
        return None
    data: bytes | str = row[0]
    return data.encode() if isinstance(data, str) else data


def _put(connection: _Connection, key: str, data: bytes) -> None:
    most = connection.getlimit(sqlite3.SQLITE_LIMIT_LENGTH) - len(key) - 100  # a row has a head
    if len(data) > most:
        message = f"a value of {len(data)} bytes: SQLite takes at most {most}; use smaller chunks"
        raise ArgumentError(message, key=key)
    connection.execute("REPLACE INTO zarr(k, v) VALUES (?, ?)", (key, data))


def _delete(connection: _Connection, key: str) -> None:
    connection.execute("DELETE FROM zarr WHERE k = ?", (key,))


def _level(connection: _Connection, prefix: str) -> tuple[list[str], list[str]]:
    keys: list[str] = []
    prefixes: list[str] = []
    start, end = _range(prefix)
    statement = "SELECT k FROM zarr WHERE k >= ? AND k < ? ORDER BY k"
    while True:
        for (key,) in connection.execute(statement, (start, end)):
            slash = key.find("/", len(prefix))
            if slash >= 0:
                # Go on behind everything that is below this name.
                prefixes.append(key[: slash + 1])
                start = f"{key[:slash]}0"
                break
            keys.append(key)
        else:
            return keys, prefixes
