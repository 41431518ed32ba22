"""Checks and expansion of file system paths."""

from __future__ import annotations

import os
from os import PathLike, fspath
from os.path import expanduser

from tessarr.errors import ArgumentError

__all__ = ["check_path", "expand_user", "is_writable"]


def check_path(path: str) -> None:
    r"""Raise an error if a string cannot be the path of a file.

    Raises
    ------
    ArgumentError
        If the file system's encoding cannot encode it.

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


def expand_user(path: str | PathLike[str]) -> str | PathLike[str]:
    """Return a path with a leading ``~`` replaced by the home folder, as a shell does.

    Write ``./~`` for a folder with the name ``~``.

    Examples
    --------
    >>> expand_user("~/data").endswith("/data"), expand_user("./~"), expand_user("a~")
    (True, './~', 'a~')
    """
    text = fspath(path)
    return expanduser(text) if text.startswith("~") else path  # noqa: PTH111 (keeps text)


def is_writable(path: str) -> bool:
    """Return whether a file, or the folder of a new file, is writable.

    Examples
    --------
    >>> import tempfile
    >>> is_writable(tempfile.mkdtemp() + "/new")
    True
    """
    existing = path if os.path.exists(path) else os.path.dirname(path)  # noqa: PTH110, PTH120 (text)
    return os.access(existing, os.W_OK)
