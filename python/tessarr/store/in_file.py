"""Stores in single files, by their paths and URLs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tessarr.errors import ArgumentError
from tessarr.keys import node_path

if TYPE_CHECKING:
    from tessarr._engine import Store

__all__ = ["completed", "file_of", "open_path", "open_url"]


def open_path(path: str, *, mode: str, durable: bool) -> tuple[Store, str] | None:
    """Return the store in a file, and the path in it; None where a folder is meant.

    Parameters
    ----------
    path
        Ends in ``.zip``, ``.sqlite``, ``.sqlite3`` or ``.db``. That of a file which
        exists says little: what is no database is none.
    mode
        As for `open_store`.
    durable
        Whether changes wait for the disk.
    """
    suffix = Path(path).suffix.lower()
    if Path(path).is_dir():
        return None
    if suffix == ".zip":
        return _zip(path, mode=mode, durable=durable)
    from tessarr.store.sqlite import SQLiteStore, is_sqlite

    if is_sqlite(path) or (suffix != ".db" and not Path(path).exists()):
        return SQLiteStore(path, read_only=mode == "r", durable=durable), ""
    return None


def open_url(url: str, *, mode: str, durable: bool) -> tuple[Store, str] | None:
    """Return the store in a file that a URL names, and the path in it.

    None where the file is not on this machine.
    """
    found = file_of(url)
    database = url.lower().startswith("sqlite")
    if found is None and not database:
        return None
    file, path = found or ("", "")
    if not file:
        raise ArgumentError(f"cannot open {url!r}: it names no file of this machine")
    if database:
        from tessarr.store.sqlite import SQLiteStore

        return SQLiteStore(file, read_only=mode == "r", durable=durable), node_path(path)
    store, folder = _zip(file, mode=mode, durable=durable)
    return store, node_path(path) or folder


def completed(place: object, *, wanted: bool) -> bool:
    """Complete a Zip file that a killed process left; return whether that was done.

    Parameters
    ----------
    place
        The path or the URL of the file; all else is left alone.
    wanted
        Whether to do so.
    """
    if not wanted or not isinstance(place, str | os.PathLike):
        return False
    text = os.fspath(place)
    path = (file_of(text) or ("", ""))[0] if "://" in text else text
    if not path.lower().endswith(".zip") or not Path(path).is_file():
        return False
    from tessarr.store.zip import ZipStore

    ZipStore.repair(path)
    return True


def _zip(path: str, *, mode: str, durable: bool) -> tuple[Store, str]:
    from tessarr.store.zip import open_zip

    return open_zip(path, mode=mode, durable=durable)


def file_of(url: str) -> tuple[str, str] | None:
    """Return the file of this machine that a URL names, and the path in it; else None.

    Parameters
    ----------
    url : str
        ``scheme:///path/of/file``, ``scheme://relative/file``, or with a path inside
        ``scheme://path/inside::file`` where ``file`` is a path or a file URL.

    Examples
    --------
    >>> file_of("sqlite:///data/x.db"), file_of("zip://a/b::file:///data/x%20y.zip")
    (('/data/x.db', ''), ('/data/x y.zip', 'a/b'))
    >>> file_of("zip::s3://bucket/x.zip")
    """
    from urllib.parse import unquote

    inside, chained, file = url.partition("::")
    first = unquote(inside.partition("://")[2], errors="surrogateescape")
    if not chained:
        return first, ""
    if file.lower().startswith("file:///") and "::" not in file:
        return unquote(file[7:], errors="surrogateescape"), first
    return None if "://" in file else (file, first)
