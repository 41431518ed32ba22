"""A store in one file: an SQLite database.

The file is that of zarr-python 2's ``SQLiteStore``: one table ``zarr`` with a key and a value
per row, so that each reads what the other wrote.

SQLite is asked in short calls that never wait: who finds the file locked by another process
goes away and comes back, so that Ctrl-C and ``fork`` need not wait for a stranger. A database must
not be carried through ``fork``: while a process forks, none of its threads is inside of
SQLite (`tessarr.store.sqlite.fork`), and the child forgets the connections without closing them.
"""

from __future__ import annotations

from tessarr.store.sqlite.store import SQLiteStore, is_sqlite

__all__ = ["SQLiteStore", "is_sqlite"]
