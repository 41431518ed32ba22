"""What a store written in Python has to offer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from tessarr.format.registry import set_public_module

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["FileSystemPath", "OpenedValue", "StoreProtocol"]


class StoreProtocol(Protocol):
    """A store of a third party: no base class, only methods.

    Keys are relative and "/"-separated; Tessarr never passes one with an empty,
    "." or ".." segment. The methods are called from several threads at a time.
    Whatever they raise reaches the user as it is, with a note that names the key.

    Notes
    -----
    A store may have more methods, which are found when it is wrapped:

    ``replace(key, data, expected) -> bool``
        Change the key to ``data`` (bytes; None: remove it) if it holds
        ``expected`` (bytes; None: absent), at once for every user of the store,
        else change nothing and give False. Without it writers of one chunk
        exclude each other within one process only. Where nobody knows whether it was done,
        a `StoreError` of the kind "answer_lost" says so: then the value is looked at.
    ``replace_all(values, expected) -> bool``
        The same for several keys at once, so that no reader sees some of the changes: two
        dictionaries, from keys to what they become and to what they have to hold. Without it a
        transaction that has to be atomic can change one key only.
    ``list_dir(prefix) -> (keys, prefixes)``
        Lists of the keys and of the prefixes (ending in "/") one level below
        ``prefix``. Without it a hierarchy is listed by listing every key.
    ``delete_prefix(prefix)``
        Remove every key below ``prefix``. Without it each is deleted by itself.
    ``deletes_at_once``
        A bool: whether ``delete_prefix`` is one step, also if the program is killed meanwhile.
        Without it a deletion leaves a mark until it is complete.
    ``replace_prefix(staged, prefix)``
        Move every key below ``staged`` to ``prefix`` in one step, and remove what was there.
        Without it a node that is replaced is deleted before the new one is complete.
    ``open_value(key) -> OpenedValue | None``
        Open a value to read parts of it. Without it a value is read whole, also
        where a part of a shard would do.
    ``open_tail(key, count) -> OpenedValue | None``
        The same, where the last ``count`` bytes are read first: with them its size can be had
        by one request. Without it `open_value` is called.
    ``open_head(key, count) -> OpenedValue | None``
        The same, where the first ``count`` bytes are read first, or all, if that is None. With
        it a document is had with one request, and one that is too large is not fetched.
    ``open_part(key, offset, count) -> OpenedValue | None``
        The same, where ``count`` bytes from ``offset`` are read first, as many of them as there
        are: with it a part of a chunk without codecs is one request, and so is one that a cache
        lacks. A value may be shorter, and is opened all the same. A cache goes on with parts that
        it has if what is opened has the same ``state``: bytes, at most 47 of them, that are an
        attribute of an `OpenedValue`, and differ where the value does. Where there is no such
        attribute, nor a ``version`` (below), or it is None, the cache begins anew.
    ``replace_version(key, data, version) -> bytes | bool``
        As ``replace``, where what is expected is the ``version`` of what was opened: bytes, at
        most 47 of them, that are an attribute of an `OpenedValue`, and tell the state of the key
        from all others. Gives the version of what is there now, or True; then so may ``put``.
        It needs ``open_head``. Where a value has no such attribute, or it is None, writers of it
        exclude each other within one process only.
    ``identity``
        A str that is the same for stores that are the same place. Without it what is remembered
        of versions is not shared among them.
    ``hold(key)``
        Give a context manager that keeps other processes out while it is entered. Without
        it those that resize an array, or append to it, exclude each other within one process.
    ``concurrency``
        An int: how many chunks are fetched or stored at a time, where that is more than
        there are threads. For stores that are far away, and let the GIL go while they wait.

    Examples
    --------
    >>> class Upper:
    ...     def __init__(self): self.items = {}
    ...     def get(self, key): return self.items.get(key.upper())
    ...     def put(self, key, data): self.items[key.upper()] = data
    ...     def delete(self, key): self.items.pop(key.upper(), None)
    ...     def list(self, prefix): return [key.lower() for key in self.items]
    >>> from tessarr.store import ForeignStore
    >>> store = ForeignStore(Upper())
    >>> store.put("a/b", b"1")
    >>> store.list("a/"), store.get("a/b")
    (['a/b'], b'1')
    """

    def get(self, key: str) -> bytes | bytearray | memoryview | None:
        """Give the value of ``key``; None, or a `KeyError`, if it is absent."""
        ...

    def put(self, key: str, data: bytes) -> object:
        """Replace the value of ``key``; readers see the old value or the new one."""
        ...

    def delete(self, key: str) -> object:
        """Remove ``key``; that it is absent is fine, or a `KeyError`."""
        ...

    def list(self, prefix: str) -> Iterable[str]:
        """Give every key that starts with ``prefix``, in any order."""
        ...


class OpenedValue(Protocol):
    """A value opened for reading parts of it; later changes of the key do not show."""

    @property
    def size(self) -> int:
        """The size in bytes."""
        ...

    def read(self, offset: int, count: int) -> bytes | bytearray | memoryview:
        """Give exactly ``count`` bytes from ``offset``."""
        ...


class FileSystemPath(Protocol):
    """A path in a file system of fsspec: a ``upath.UPath``."""

    @property
    def fs(self) -> Any:
        """The file system."""
        ...

    @property
    def path(self) -> str:
        """The path in it."""
        ...


set_public_module("tessarr.stores", StoreProtocol)
