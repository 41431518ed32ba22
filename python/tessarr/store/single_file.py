"""Zip and SQLite stores, opened by the path or URL of their file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tessarr.errors import ArgumentError
from tessarr.format.node_path import normalize_path
from tessarr.store.file_signatures import is_zip
from tessarr.store.paths import expand_user, is_writable

if TYPE_CHECKING:
    from tessarr._engine import Store

__all__ = ["ZIP_SUFFIXES", "open_path", "open_url", "parse_file_url", "repair_zip"]

ZIP_SUFFIXES: Final = (".zip", ".ozx")
"""Suffixes of Zip files; OME-Zarr uses ``.ozx``."""

_SQLITE_SUFFIXES: Final = (".sqlite", ".sqlite3", ".db")


def open_path(path: str, *, mode: str, durable: bool) -> tuple[Store, str] | None:
    """Return the store in a file and the path in it, or None for a folder.

    Parameters
    ----------
    path
        Any path. The first bytes identify an existing Zip file or database; the suffix ``.zip``,
        ``.ozx``, ``.sqlite`` or ``.sqlite3`` identifies a new file.
    mode
        As for `open_store`.
    durable
        Whether each change waits until the disk has it.
    """
    path = str(expand_user(path))
    suffix = Path(path).suffix.lower()
    if Path(path).is_dir():
        return None
    if suffix in ZIP_SUFFIXES or is_zip(path):
        return _open_zip_file(path, mode=mode, durable=durable)
    if suffix not in _SQLITE_SUFFIXES:
        return None
    from tessarr.store.sqlite import is_sqlite

    if is_sqlite(path) or (suffix != ".db" and not Path(path).exists()):
        return _open_database(path, mode=mode, durable=durable), ""
    return None


def open_url(url: str, *, mode: str, durable: bool) -> tuple[Store, str] | None:
    """Return the store in the file of a URL and the path in it.

    The result is None if the file is not on this machine.
    """
    parsed = parse_file_url(url)
    database = url.lower().startswith("sqlite")
    if parsed is None and not database:
        return None
    file, path = parsed or ("", "")
    if not file:
        raise ArgumentError(f"cannot open {url!r}: it is not the URL of a local file")
    if database:
        return _open_database(file, mode=mode, durable=durable), normalize_path(path)
    store, folder = _open_zip_file(file, mode=mode, durable=durable)
    return store, normalize_path(path) or folder


def repair_zip(location: object, *, enabled: bool) -> bool:
    """Repair a Zip file without a directory; return whether a repair took place.

    Parameters
    ----------
    location
        The path or the URL of the file; other values have no effect.
    enabled
        Whether to repair the file.
    """
    if not enabled or not isinstance(location, str | os.PathLike):
        return False
    text = os.fspath(location)
    path = (parse_file_url(text) or ("", ""))[0] if "::" in text or "://" in text else text
    path = str(expand_user(path))
    if not Path(path).is_file() or not (path.lower().endswith(ZIP_SUFFIXES) or is_zip(path)):
        return False
    from tessarr.store.zip import ZipStore

    ZipStore.repair(path)
    return True


def _open_database(path: str, *, mode: str, durable: bool) -> Store:
    """Open a database; mode "a" opens a database that is not writable as read-only."""
    from tessarr.store.sqlite import SQLiteStore

    denied = mode == "a" and os.path.exists(path) and not is_writable(path)  # noqa: PTH110 (text)
    return SQLiteStore(path, read_only=mode == "r" or denied, durable=durable)


def _open_zip_file(path: str, *, mode: str, durable: bool) -> tuple[Store, str]:
    from tessarr.store.zip import open_zip

    return open_zip(path, mode=mode, durable=durable)


def parse_file_url(url: str) -> tuple[str, str] | None:
    """Return the local file of a URL and the path in it, or None.

    Parameters
    ----------
    url : str
        ``scheme:///path/of/file``, ``scheme://relative/file``, or with a path inside
        ``scheme://path/inside::file`` where ``file`` is a path or a file URL.

    Examples
    --------
    >>> parse_file_url("sqlite:///data/x.db"), parse_file_url("zip://a/b::file:///data/x%20y.zip")
    (('/data/x.db', ''), ('/data/x y.zip', 'a/b'))
    >>> parse_file_url("zip::s3://bucket/x.zip")
    """
    from urllib.parse import unquote

    inside, chained, file = url.partition("::")
    first = unquote(inside.partition("://")[2], errors="surrogateescape")
    if not chained:
        return first, ""
    if file.lower().startswith("file:///") and "::" not in file:
        return unquote(file[7:], errors="surrogateescape"), first
    return None if "://" in file else (file, first)
