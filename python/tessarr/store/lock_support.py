"""Detection of file systems without locks."""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

from tessarr.errors import StoreError

__all__ = ["NO_LOCK_ERRNOS", "build_no_locks_error", "check_locks"]

NO_LOCK_ERRNOS: Final = frozenset(
    (errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.ENOSYS, errno.EINVAL)
)
"""The error numbers of a lock request on a file system without locks."""


def check_locks(path: str) -> None:
    """Raise an error if the file system of a file has no locks.

    The check locks a temporary file in the same folder: a lock on the file itself would end the
    locks that this process holds. If the folder rejects temporary files, the check succeeds.

    Raises
    ------
    StoreError
        If the file system has no locks.

    Examples
    --------
    >>> import tempfile
    >>> check_locks(tempfile.mkdtemp() + "/data.sqlite")
    """
    try:
        import fcntl
    except ImportError:  # Windows, where every file system has locks
        return
    folder = next(folder for folder in Path(path).absolute().parents if folder.exists())
    refusal: OSError | None = None
    with suppress(OSError), TemporaryFile(dir=folder) as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            refusal = error if error.errno in NO_LOCK_ERRNOS else None
    if refusal is not None:
        raise build_no_locks_error(path, refusal) from refusal


def build_no_locks_error(path: str, error: OSError) -> StoreError:
    """Return the error of a store that needs locks, in a file system without them."""
    return StoreError(
        f"cannot lock {path!r}: its file system has no locks ({error.strerror}), without which "
        "writers would damage each other's changes; put the store on another file system, or use a "
        "LocalStore, which needs none",
        errno=error.errno,
        filename=path,
    )
