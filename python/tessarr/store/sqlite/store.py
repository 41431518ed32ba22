"""`SQLiteStore`: a store in an SQLite database."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final, Literal, Self

from tessarr._engine import ForeignStore
from tessarr.errors import ArgumentError
from tessarr.format.registry import set_public_module
from tessarr.store.paths import check_path, expand_user
from tessarr.store.repr_mixin import DescribedStore
from tessarr.store.sqlite.database import Database

__all__ = ["SQLiteStore", "is_sqlite"]

_MAGIC: Final = b"SQLite format 3\0"


class SQLiteStore(DescribedStore):
    """A store in an SQLite database, which is one file.

    Parameters
    ----------
    path : str or os.PathLike
        The file; the first write creates it and its parent folders.
    read_only : bool, default False
        Refuse every change (`ReadOnlyError`).
    durable : bool, default False
        Wait until the disk has each change. Without it a killed process loses nothing, but a
        power failure may lose recent changes.
    dimension_separator : {".", "/"}, optional
        As for `DirectoryStore`.

    Notes
    -----
    Any number of threads and processes may read and write concurrently; writers take turns. Each
    write is atomic, even if the process is killed meanwhile. A writer that waits longer than 60 s
    raises a retryable `StoreError`. While the store is in use, two further files belong to the
    database, with ``-wal`` and ``-shm`` after its name. They vanish when the last user closes the
    store or ends. Do not use the store on network file systems; a file system without locks
    raises a `StoreError`. A value has at most 1 000 000 000 bytes.

    Examples
    --------
    >>> import tessarr
    >>> with SQLiteStore("data.sqlite") as store:
    ...     a = tessarr.array([1, 2, 3], store=store, path="a")
    >>> tessarr.open(SQLiteStore("data.sqlite"), path="a")[:]
    array([1, 2, 3])
    """

    dimension_separator: Literal[".", "/"] | None
    _database: Database

    def __new__(
        cls,
        path: str | os.PathLike[str],
        *,
        read_only: bool = False,
        durable: bool = False,
        dimension_separator: Literal[".", "/"] | None = None,
    ) -> Self:
        if dimension_separator not in (None, ".", "/"):
            raise ArgumentError(
                f"dimension_separator must be '.' or '/', not {dimension_separator!r}"
            )
        text = os.fspath(expand_user(path))
        if text in {"", ":memory:"}:
            raise ArgumentError(f"an SQLiteStore needs a file, not {text!r}; see MemoryStore")
        check_path(text)
        absolute = str(Path(text).absolute())
        database = Database(absolute, read_only=read_only, durable=durable)
        arguments: dict[str, Any] = {
            "path": absolute,
            "read_only": read_only,
            "durable": durable,
            "dimension_separator": dimension_separator,
        }
        store = cls._build(arguments, ForeignStore(database, read_only=read_only))
        store.dimension_separator = dimension_separator
        store._database = database
        return store

    @property
    def path(self) -> str:
        """The path of the file."""
        return self._database.path

    def flush(self) -> None:
        """Write all changes into the database file itself."""
        self._database.checkpoint()

    def close(self) -> None:
        """Close the file; the next use of the store opens it again."""
        self._database.close()


def is_sqlite(path: str) -> bool:
    """Return whether a file is an SQLite database."""
    try:
        with Path(path).open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


set_public_module("tessarr.stores", SQLiteStore)
