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
        The folder, with ``~`` for the home folder; the first write creates it.
    read_only : bool, default False
        Refuse every change (`ReadOnlyError`).
    durable : bool, default False
        Every change has reached the disk when the call returns. Without it a killed
        process leaves each value whole, but a power failure may lose recent ones.
    reading : {"default", "memmap", "direct"}, default "default"
        Read files through the cache of the system; as memory, which saves a copy, but a
        process that reads while somebody shortens a file in place is ended; or past the
        cache, where the file system can do that.
    locking : {"os", "lockfile", "none", "non_atomic"}, default "os"
        How writers of one key keep out of each other's way. By a lock of the system on the
        file ``key.__lock``, which the next writer takes over where one was killed. By that
        file itself: where a writer was killed, remove it by hand. Not at all, except
        within the process: of two changes of parts of one value one may be lost. Or that, and
        files are changed in place: readers may see half of a change.
    lock_timeout_s : float, default 60
        How long to wait for another writer, until a `StoreError` that is retryable.

    Notes
    -----
    A value is replaced by renaming a new file onto it, so readers see one value whole and
    never wait. Writers of one key exclude each other as TensorStore's do: threads, processes,
    and TensorStore itself, if it has the same locking.

    On a file system without locks, "os" warns once and uses lock files that say which process
    has made them: the next writer on the same machine takes over those of ended processes.

    Symbolic links below the folder are followed. Deleting a node or a prefix that is a symbolic
    link removes the link, and nothing that it leads to; so does replacing a node. Listings
    omit a link to a folder above it.

    Examples
    --------
    >>> import tempfile
    >>> store = LocalStore(tempfile.mkdtemp())
    >>> store.put("a/b", b"value")
    >>> store.get("a/b"), store.list_dir("")
    (b'value', ([], ['a/']))
    """

    def __new__(cls, path: str | PathLike[str], **settings: Any) -> Self:
        if fspath(path).startswith("~"):  # a call less for all others
            from tessarr.store.paths import expand_user

            path = expand_user(path)
        return super().__new__(cls, path, **settings)

    @property
    def root(self) -> str:
        """The folder, by the name that zarr-python 3 has for it."""
        return self.path


set_public_module("tessarr.stores", LocalStore)
