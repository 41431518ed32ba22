"""Values by their keys: the statements that the one table is asked and changed by."""

from __future__ import annotations

import sqlite3
from contextlib import suppress

from tessarr.errors import ArgumentError

__all__ = ["Connection", "delete", "key_range", "level", "move", "put", "value_of"]


class Connection(sqlite3.Connection):
    """A connection that knows whether the database was made ready for writing."""

    ready = False

    def __del__(self) -> None:
        """Close it, as nobody has to close a store: Python 3.13 warns of those left open."""
        with suppress(sqlite3.ProgrammingError):  # it could not be opened
            self.close()

    def make_ready(self) -> None:
        if not self.ready:
            self.execute("PRAGMA journal_mode = WAL")
            self.execute("CREATE TABLE IF NOT EXISTS zarr(k TEXT PRIMARY KEY, v BLOB)")
            self.ready = True


def key_range(prefix: str) -> tuple[str, str | bytes]:
    """Return the first key below a prefix, and what follows the last."""
    # "0" follows "/"; every blob follows every text.
    return prefix, f"{prefix[:-1]}0" if prefix else b""


def value_of(connection: Connection, key: str) -> bytes | None:
    """Return a value; None if there is none."""
    row = connection.execute("SELECT v FROM zarr WHERE k = ?", (key,)).fetchone()
    if row is None:
        return None
    data: bytes | str = row[0]
    return data.encode() if isinstance(data, str) else data


def put(connection: Connection, key: str, data: bytes) -> None:
    """Store a value, if SQLite takes one of its size."""
    most = connection.getlimit(sqlite3.SQLITE_LIMIT_LENGTH) - len(key) - 100  # a row has a head
    if len(data) > most:
        message = f"a value of {len(data)} bytes: SQLite takes at most {most}; use smaller chunks"
        raise ArgumentError(message, key=key)
    connection.execute("REPLACE INTO zarr(k, v) VALUES (?, ?)", (key, data))


def delete(connection: Connection, key: str) -> None:
    """Remove a value; that there is none is fine."""
    connection.execute("DELETE FROM zarr WHERE k = ?", (key,))


def move(connection: Connection, staged: str, prefix: str) -> None:
    """Give the keys under a prefix another prefix, where nothing else stays."""
    connection.execute(
        "DELETE FROM zarr WHERE k >= ? AND k < ? AND NOT (k >= ? AND k < ?)",
        (*key_range(prefix), *key_range(staged)),
    )
    connection.execute(
        "UPDATE zarr SET k = ? || substr(k, ?) WHERE k >= ? AND k < ?",
        (prefix, len(staged) + 1, *key_range(staged)),
    )


def level(connection: Connection, prefix: str) -> tuple[list[str], list[str]]:
    """Return the keys and the prefixes one level below a prefix."""
    keys: list[str] = []
    prefixes: list[str] = []
    start, end = key_range(prefix)
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
