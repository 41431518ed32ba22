"""SQL statements that read and change the table of keys and values."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from typing import Any

from tessarr.errors import ArgumentError, DataError

__all__ = [
    "Connection",
    "delete_value",
    "get_key_range",
    "get_value",
    "list_level",
    "move_prefix",
    "put_value",
]


class Connection(sqlite3.Connection):
    """A connection that prepares the database before its first write."""

    ready = False

    def __del__(self) -> None:
        """Close the connection: Python 3.13 warns of open ones, and stores need no close."""
        with suppress(sqlite3.ProgrammingError):  # the connection never opened
            self.close()

    def make_ready(self) -> None:
        if not self.ready:
            self.execute("PRAGMA journal_mode = WAL")
            self.execute("CREATE TABLE IF NOT EXISTS zarr(k TEXT PRIMARY KEY, v BLOB)")
            self.ready = True


def get_key_range(prefix: str) -> tuple[str, str | bytes]:
    """Return the first key below a prefix, and a bound above the last."""
    # "0" sorts after "/", and every blob after every text.
    return prefix, f"{prefix[:-1]}0" if prefix else b""


def check_table(connection: Connection, path: str) -> None:
    """Raise an error if reading a database runs code, such as a view, which may never end.

    Raises
    ------
    DataError
        If ``zarr`` is a view or a virtual table, lacks its columns, or has a trigger.
    """
    statement = "SELECT type, sql FROM sqlite_master WHERE tbl_name = 'zarr' COLLATE NOCASE"
    for kind, sql in connection.execute(statement).fetchall():
        virtual = str(sql or "").upper().startswith("CREATE VIRTUAL")
        if kind in {"view", "trigger"} or virtual:
            description = "virtual table" if virtual else kind
            raise DataError(
                f"{path!r} is not a store: it has a {description} 'zarr', not a plain table"
            )
        if kind != "table":
            continue
        columns = {row[1]: row[6] for row in connection.execute("PRAGMA table_xinfo(zarr)")}
        if columns.get("k") != 0 or columns.get("v") != 0:
            raise DataError(f"{path!r} is not a store: its table 'zarr' has no columns 'k' and 'v'")


def list_keys(connection: Connection, prefix: str) -> list[str]:
    """Return the keys below a prefix, sorted."""
    statement = "SELECT k FROM zarr WHERE k >= ? AND k < ? ORDER BY k"
    max_rows = _get_max_rows(connection)
    keys = [
        key for (key,) in connection.execute(f"{statement} LIMIT {max_rows}", get_key_range(prefix))
    ]
    return _check_count(keys, max_rows)


def _get_max_rows(connection: Connection) -> int:
    """Return a bound on the rows of the file: each takes at least 4 bytes."""
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    return int(pages * page_bytes // 4 + 1)


def _check_count(keys: list[str], max_rows: int) -> list[str]:
    if len(keys) >= max_rows:
        raise DataError("the database is damaged: its table 'zarr' has more rows than the file can")
    return keys


def get_value(connection: Connection, key: str) -> bytes | None:
    """Return a value, or None for an absent key."""
    row = connection.execute("SELECT v FROM zarr WHERE k = ?", (key,)).fetchone()
    if row is None:
        return None
    data: Any = row[0]
    if isinstance(data, str):
        return data.encode()
    if not isinstance(data, bytes):
        kind = {int: "INTEGER", float: "REAL"}.get(type(data), "NULL")
        message = f"the value of {key!r} is of SQLite's type {kind}, not a BLOB"
        raise DataError(message, key=key)
    return data


def put_value(connection: Connection, key: str, data: bytes) -> None:
    """Store a value; SQLite limits its size."""
    max_bytes = (
        connection.getlimit(sqlite3.SQLITE_LIMIT_LENGTH) - len(key) - 100
    )  # for the header of the row
    if len(data) > max_bytes:
        message = (
            f"a value of {len(data)} bytes: SQLite takes at most {max_bytes}; use smaller chunks"
        )
        raise ArgumentError(message, key=key)
    connection.execute("REPLACE INTO zarr(k, v) VALUES (?, ?)", (key, data))


def delete_value(connection: Connection, key: str) -> None:
    """Remove a value, which may be absent."""
    connection.execute("DELETE FROM zarr WHERE k = ?", (key,))


def move_prefix(connection: Connection, staged: str, prefix: str) -> None:
    """Move the keys below `staged` to `prefix`, and remove the former keys there."""
    connection.execute(
        "DELETE FROM zarr WHERE k >= ? AND k < ? AND NOT (k >= ? AND k < ?)",
        (*get_key_range(prefix), *get_key_range(staged)),
    )
    connection.execute(
        "UPDATE zarr SET k = ? || substr(k, ?) WHERE k >= ? AND k < ?",
        (prefix, len(staged) + 1, *get_key_range(staged)),
    )


def list_level(connection: Connection, prefix: str) -> tuple[list[str], list[str]]:
    """Return the keys and the prefixes one level below a prefix."""
    keys: list[str] = []
    prefixes: list[str] = []
    start, end = get_key_range(prefix)
    statement = "SELECT k FROM zarr WHERE k >= ? AND k < ? ORDER BY k"
    max_rows = _get_max_rows(connection)
    while True:
        _check_count(keys, max_rows)
        _check_count(prefixes, max_rows)
        for (key,) in connection.execute(statement, (start, end)):
            slash = key.find("/", len(prefix))
            if slash >= 0:
                # Continue after all keys below this name.
                prefixes.append(key[: slash + 1])
                start = f"{key[:slash]}0"
                break
            _check_count(keys, max_rows)
            keys.append(key)
        else:
            return keys, prefixes
