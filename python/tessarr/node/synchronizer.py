"""Synchronizers: locks that all writers of an array share.

Threads, and processes that write to a folder, need no synchronizer: a write merges part of a chunk
with the stored value, and stores the result only if no other writer has replaced that value. Use a
synchronizer for stores without conditional writes between processes, such as a mapping, or if
a program needs exclusion for other reasons.

The interface is that of zarr-python 2: ``synchronizer[key]`` is a lock for one key, used with
``with``. A write holds the locks of the chunks that it touches; a change of the shape, the fill
value or the attributes holds the lock of the document. Writers acquire locks in sorted order, so
that two writers never deadlock.
"""

from __future__ import annotations

import os
import struct
import threading
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final, Protocol
from weakref import WeakValueDictionary

from tessarr.flow.open import prefix_of
from tessarr.format.registry import set_public_module
from tessarr.store.paths import expand_user

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    from tessarr.indexing import AxisSelection
    from tessarr.metadata.node import ArrayMeta

__all__ = [
    "ProcessSynchronizer",
    "Synchronizer",
    "ThreadSynchronizer",
    "check_synchronizer",
    "hold_locks",
    "touched_chunk_keys",
]


class Synchronizer(Protocol):
    """A mapping of the keys of a store to locks."""

    def __getitem__(self, key: str, /) -> AbstractContextManager[Any]: ...


def check_synchronizer(synchronizer: object) -> None:
    """Raise an error for an object that is not a synchronizer.

    Raises
    ------
    TypeError
    """
    if not hasattr(type(synchronizer), "__getitem__") or isinstance(synchronizer, str | bytes):
        raise TypeError(
            f"{synchronizer!r} is not a synchronizer, such as ProcessSynchronizer(path): "
            "synchronizer[key] has to be a lock for a key"
        )


def hold_locks(
    synchronizer: Synchronizer | None, keys: Iterable[str]
) -> AbstractContextManager[Any]:
    """Return a context manager that holds the locks of keys, in sorted order.

    If the synchronizer has a method ``hold``, the method receives all keys in one call.

    Examples
    --------
    >>> with hold_locks(ThreadSynchronizer(), ["a/0.1", "a/0.0"]):
    ...     pass
    """
    if synchronizer is None:
        return nullcontext()
    sorted_keys = sorted(set(keys))
    hold = getattr(synchronizer, "hold", None)
    if hold is not None:
        all_locks: AbstractContextManager[Any] = hold(sorted_keys)
        return all_locks
    return _hold_each(synchronizer, sorted_keys)


@contextmanager
def _hold_each(synchronizer: Synchronizer, keys: list[str]) -> Generator[None]:
    with ExitStack() as stack:
        for key in keys:
            stack.enter_context(synchronizer[key])
        yield


def touched_chunk_keys(meta: ArrayMeta, path: str, axes: Sequence[AxisSelection]) -> Iterator[str]:
    """Yield the keys of the chunks of an array, or of its shards, that a selection touches."""
    from tessarr.indexing.selection import find_touched_cells

    prefix = prefix_of(path)
    encode = meta.chunk_key_encoding.encode
    for cell in find_touched_cells(axes, meta.chunk_grid.cuts):
        yield prefix + encode(cell)


class ThreadSynchronizer:
    """Locks among the threads of a process.

    A thread may hold a lock several times. Unpickling in the same process returns the same
    synchronizer; in another process it returns a new one.

    Examples
    --------
    >>> import tessarr
    >>> from tessarr.node.synchronizer import ThreadSynchronizer
    >>> a = tessarr.Array(tessarr.ones(4, chunks=2).store, synchronizer=ThreadSynchronizer())
    >>> a[1:3] = 5
    >>> a[:]
    array([1., 5., 5., 1.])
    """

    __slots__ = ("__weakref__", "_locks", "_mutex", "_token")

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        # A lock exists as long as a thread refers to it.
        self._locks: WeakValueDictionary[str, Any] = WeakValueDictionary()
        self._token = os.urandom(16).hex()
        _synchronizers[self._token] = self

    def __getitem__(self, key: str) -> AbstractContextManager[Any]:
        with self._mutex:
            lock = self._locks.get(key)
            if lock is None:
                lock = self._locks[key] = threading.RLock()
            return lock

    def __repr__(self) -> str:
        return "ThreadSynchronizer()"

    def __reduce__(self) -> tuple[Any, ...]:
        return ThreadSynchronizer._unpickle, (self._token,)

    @classmethod
    def _unpickle(cls, token: str) -> ThreadSynchronizer:
        return _synchronizers.get(token) or cls()


_synchronizers: WeakValueDictionary[str, ThreadSynchronizer] = WeakValueDictionary()


def _after_fork() -> None:
    """Forget all locks in a child process: threads of its parent hold them."""
    for synchronizer in list(_synchronizers.values()):
        synchronizer._mutex = threading.Lock()
        synchronizer._locks = WeakValueDictionary()


os.register_at_fork(after_in_child=_after_fork)


class ProcessSynchronizer:
    """Locks among processes, and among the threads of each.

    Parameters
    ----------
    path
        A folder on a file system that all of the processes share; not the folder of the array.

    Notes
    -----
    The locks need one small file, ``locks``. Each key maps to one byte of this file, which is
    locked but never written. The operating system releases locks when their process ends. On
    systems without locks of open file descriptions (Linux has them), all keys share one lock.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> synchronizer = ProcessSynchronizer(folder.name)
    >>> with synchronizer["a/0.0"]:
    ...     print("the lock is held")
    the lock is held
    >>> folder.cleanup()
    """

    __slots__ = ("_thread_locks", "path")

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(expand_user(path))
        self._thread_locks = threading.local()

    def __getitem__(self, key: str) -> AbstractContextManager[Any]:
        return self.hold([key])

    @contextmanager
    def hold(self, keys: Iterable[str]) -> Generator[None]:
        """Hold the locks of several keys.

        Locks that a thread acquires while it holds others are released with the outer ones.

        Parameters
        ----------
        keys
            Keys of a store.
        """
        outer: _Locks | None = getattr(self._thread_locks, "locks", None)
        # A child process has its parent's thread, but none of its locks.
        if outer is not None and outer.process == os.getpid():
            outer.acquire(keys)
            yield
            return
        locks = _Locks(self.path)
        self._thread_locks.locks = locks
        try:
            locks.acquire(keys)
            yield
        finally:
            self._thread_locks.locks = None
            locks.close()

    def __repr__(self) -> str:
        return f"ProcessSynchronizer({self.path!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return ProcessSynchronizer, (self.path,)


_DOCUMENTS: Final = frozenset((".zarray", ".zgroup", ".zattrs", "zarr.json"))
_CHUNK_OFFSET: Final = 1 << 20
"""The first byte for keys of chunks; lower bytes are for documents. A change of a document holds
its key and then keys of chunks, which must not share a byte."""

_MAX_LOCKS: Final = 1000
"""The kernel searches all locks of a file; more locks than this become one lock of all chunks."""


class _Locks:
    """The locks that one thread holds, with a file that stays open while it holds any."""

    def __init__(self, path: str) -> None:
        from pathlib import Path

        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        self._file = os.open(folder / "locks", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self.process = os.getpid()

    def acquire(self, keys: Iterable[str]) -> None:
        """Wait for the locks of more keys."""
        offsets = sorted({_lock_offset(key) for key in keys})
        if sum(offset >= _CHUNK_OFFSET for offset in offsets) > _MAX_LOCKS:
            offsets = [offset for offset in offsets if offset < _CHUNK_OFFSET]
            ranges = [*((offset, 1) for offset in offsets), (_CHUNK_OFFSET, 0)]
        else:
            ranges = [(offset, 1) for offset in offsets]
        for start, length in ranges:
            _lock(self._file, start, length)

    def close(self) -> None:
        """Release all locks explicitly: a child process may have the file open, too."""
        try:
            _lock(self._file, 0, 0, release=True)
        finally:
            os.close(self._file)


def _lock_offset(key: str) -> int:
    import hashlib

    number = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "little")
    if key.rpartition("/")[2] in _DOCUMENTS:
        return number % _CHUNK_OFFSET
    return _CHUNK_OFFSET + number % (1 << 62)


def _lock(file: int, start: int, length: int, *, release: bool = False) -> None:
    """Lock bytes of a file, or release them; length 0 means all bytes from `start` on."""
    import fcntl

    ranged: int | None = getattr(fcntl, "F_OFD_SETLKW", None)
    if ranged is None:
        fcntl.flock(file, fcntl.LOCK_UN if release else fcntl.LOCK_EX)
        return
    kind = fcntl.F_UNLCK if release else fcntl.F_WRLCK
    # struct flock: type, whence, start, length, process (0: a lock of the open file description)
    fcntl.fcntl(file, ranged, struct.pack("hhqqi4x", kind, os.SEEK_SET, start, length, 0))


set_public_module("tessarr", ThreadSynchronizer, ProcessSynchronizer)
# `tessarr` imports the classes lazily: this lets doctest find the examples.
__test__ = {
    "ThreadSynchronizer": ThreadSynchronizer,
    "ProcessSynchronizer": ProcessSynchronizer,
}
