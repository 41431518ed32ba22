"""The store that users make, over the database."""

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
    dimension_separator : {".", "/"}, optional
        As for `DirectoryStore`.

    Notes
    -----
    Any number of threads and processes may read and write at a time; writers take turns. A value
    is replaced as a whole or not at all, also when the process is killed meanwhile. Who waits for
    a turn longer than 60 s gets a `StoreError` that is retryable. While the store is in use
    there are two files more, named as the database with ``-wal`` and ``-shm`` at the end: they
    belong to it, and go when the last user closes it, as `close` or the end of the process does.
    Not for network file systems; one without locks is a `StoreError` at once. A value has at most
    1 000 000 000 bytes.

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


set_public_module("tessarr.stores", SQLiteStore)
