"""SQLite databases as a read/write store.

The file has the format of zarr-python 2's ``SQLiteStore``: one table ``zarr`` with a key and a
value per row.

Calls of SQLite are short and never wait: if another process has locked the file, the thread
leaves SQLite and tries again. So Ctrl-C and ``fork`` do not wait for other processes.

A connection must not cross a ``fork``: no thread is inside SQLite while its process forks (see
`tessarr.store.sqlite.fork`), and the child drops the connections without closing them.
"""

from __future__ import annotations

from tessarr.store.sqlite.store import SQLiteStore, is_sqlite

__all__ = ["SQLiteStore", "is_sqlite"]
