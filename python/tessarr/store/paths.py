"""Paths of the file system, before they are used."""

from __future__ import annotations

import os

from tessarr.errors import ArgumentError

__all__ = ["check_path", "is_writable"]


def check_path(path: str) -> None:
    r"""Refuse text that cannot be the path of a file.

    Raises
    ------
    ArgumentError
        If the file system's encoding has no bytes for it.

    Examples
    --------
    >>> check_path("a/b")
    >>> check_path("\ud800")
    Traceback (most recent call last):
    tessarr.errors.ArgumentError: '\ud800' is not a path: it cannot be encoded
    """
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise ArgumentError(f"{path!r} is not a path: it cannot be encoded") from error


def is_writable(path: str) -> bool:
    """Return whether a file, or the folder in which it would be, may be written.

    Examples
    --------
    >>> import tempfile
    >>> is_writable(tempfile.mkdtemp() + "/new")
    True
    """
    there = path if os.path.exists(path) else os.path.dirname(path)  # noqa: PTH110, PTH120 (text)
    return os.access(there, os.W_OK)
