"""A store in a folder of the local file system."""

from __future__ import annotations

from os import PathLike, fspath
from typing import Any, Self

from tessarr import _engine
from tessarr.format.registry import set_public_module
from tessarr.store.mapping import StoreMapping

__all__ = ["LocalStore"]


class LocalStore(_engine.LocalStore, StoreMapping):
    """A store in a folder: the file ``path/key`` holds the value of ``key``.

    Parameters
    ----------
    path : str or os.PathLike
        The folder; a leading ``~`` is the home folder. The first write creates the folder.
    read_only : bool, default False
        Refuse every change (`ReadOnlyError`).
    durable : bool, default False
        Wait until the disk has each change. Without it a killed process leaves each value
        complete, but a power failure may lose recent changes.
    reading : {"default", "memmap", "direct"}, default "default"
        Read files through the system's cache ("default"); map them into memory, which saves a
        copy, but the system kills a process whose file is truncated during the read
        ("memmap"); or bypass the cache, if the file system supports it ("direct").
    locking : {"os", "lockfile", "none", "non_atomic"}, default "os"
        How writers of one key exclude each other. "os" locks the file ``key.__lock``; the next
        writer takes it over from a killed one. "lockfile" uses the existence of that file;
        remove it by hand after a writer was killed. "none" excludes writers within the process
        only: two processes that change parts of one value may lose a change. "non_atomic" also
        writes files in place: readers may see half of a change.
    lock_timeout_s : float, default 60
        The maximum time to wait for another writer before a retryable `StoreError`.

    Notes
    -----
    A write renames a new file onto the old one, so that readers see a complete value and never
    wait. Threads and processes that write one key exclude each other, and also TensorStore with
    the same locking.

    On a file system without locks, "os" warns once and uses lock files that name their process:
    the next writer on the same machine takes over those of ended processes.

    The store follows symbolic links below the folder. Deleting or replacing a node or a prefix
    that is a symbolic link removes the link and not its target. Listings omit a link to a parent
    folder.

    Examples
    --------
    >>> import tempfile
    >>> store = LocalStore(tempfile.mkdtemp())
    >>> store.put("a/b", b"value")
    >>> store.get("a/b"), store.list_dir("")
    (b'value', ([], ['a/']))
    """

    def __new__(cls, path: str | PathLike[str], **settings: Any) -> Self:
        if fspath(path).startswith("~"):  # saves a call for other paths
            from tessarr.store.paths import expand_user

            path = expand_user(path)
        return super().__new__(cls, path, **settings)

    @property
    def root(self) -> str:
        """The folder, with zarr-python 3's name."""
        return self.path


set_public_module("tessarr.stores", LocalStore)
