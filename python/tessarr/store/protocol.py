"""Protocols of stores that are written in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from tessarr.format.registry import set_public_module

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["FileSystemPath", "OpenedValue", "StoreProtocol"]


class StoreProtocol(Protocol):
    """The methods of a third-party store; no base class is necessary.

    Keys are relative and "/"-separated; Tessarr never passes a key with an empty, "." or ".."
    segment. Several threads call the methods concurrently. Their exceptions reach the user
    unchanged, with a note that names the key.

    Notes
    -----
    A store may have further methods, which Tessarr looks up once:

    ``replace(key, data, expected) -> bool``
        Replace the value of the key by ``data`` (None: remove it) if it equals ``expected``
        (None: absent), atomically for all users of the store; otherwise return False. Without
        this method, writers of one chunk exclude each other only within one process. If the
        result is unknown, raise a `StoreError` of the kind "answer_lost": Tessarr then reads the
        value.
    ``replace_all(values, expected) -> bool``
        The same for several keys in one atomic step; both arguments are dictionaries by key.
        Without this method, an atomic transaction can change only one key.
    ``list_dir(prefix) -> (keys, prefixes)``
        Lists of the keys and of the prefixes (ending in "/") one level below
        ``prefix``. Without this method, Tessarr lists every key.
    ``delete_prefix(prefix)``
        Remove every key below ``prefix``. Without this method, Tessarr deletes each key.
    ``deletes_at_once``
        A bool: whether ``delete_prefix`` is atomic, even if the program is killed meanwhile.
        Without it a deletion leaves a mark until it is complete.
    ``replace_prefix(staged, prefix)``
        Move every key below ``staged`` to ``prefix`` in one atomic step, and remove the former
        keys there. Without this method, Tessarr deletes a replaced node before it creates the
        new one.
    ``open_value(key) -> OpenedValue | None``
        Open a value to read parts of it. Without this method, Tessarr reads whole values, even
        if a part of a shard would suffice.
    ``open_tail(key, count) -> OpenedValue | None``
        The same for reads that begin with the last ``count`` bytes, so that one request can
        return them together with the size. Without this method Tessarr calls `open_value`.
    ``open_head(key, count) -> OpenedValue | None``
        The same for reads that begin with the first ``count`` bytes, or with all bytes if
        ``count`` is None. It fetches a document of limited size with one request.
    ``open_part(key, offset, count) -> OpenedValue | None``
        The same for reads that begin with ``count`` bytes from ``offset``, or fewer if the value
        is shorter. It fetches a part of a chunk without codecs, or a part that a cache lacks,
        with one request. Cached parts of a value stay valid while the attribute ``state`` of the
        `OpenedValue` stays equal: at most 47 bytes that differ for different values. Without
        ``state`` and ``version`` (below), or if both are None, the cache drops its parts.
    ``replace_version(key, data, version) -> bytes | bool``
        Like ``replace``, with the attribute ``version`` of an `OpenedValue` as the precondition:
        at most 47 bytes that identify the state of the key. It returns the new version, or
        True; ``put`` may return the same. It requires ``open_head``. Without the attribute, or
        if it is None, writers of the value exclude each other only within one process.
    ``identity``
        A str that is equal for stores at the same location. Without it, such stores do not
        share cached versions.
    ``hold(key)``
        Return a context manager that excludes other processes. Without this method, writers that
        resize an array, or append to it, exclude each other only within one process.
    ``concurrency``
        An int: the number of chunks that are fetched or stored concurrently, if it exceeds the
        number of threads. Set it for remote stores that release the GIL while they wait.

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
        """Return the value of ``key``; None, or a `KeyError`, if it is absent."""
        ...

    def put(self, key: str, data: bytes) -> object:
        """Replace the value of ``key``. Readers see either the old or the new value."""
        ...

    def delete(self, key: str) -> object:
        """Remove ``key``. For an absent key, return or raise a `KeyError`."""
        ...

    def list(self, prefix: str) -> Iterable[str]:
        """Return every key that starts with ``prefix``, in any order."""
        ...


class OpenedValue(Protocol):
    """A value that is open for reading; later changes of the key do not affect it."""

    @property
    def size(self) -> int:
        """The size in bytes."""
        ...

    def read(self, offset: int, count: int) -> bytes | bytearray | memoryview:
        """Return exactly ``count`` bytes from ``offset``."""
        ...


class FileSystemPath(Protocol):
    """A path in a file system of fsspec: a ``upath.UPath``."""

    @property
    def fs(self) -> Any:
        """The file system."""
        ...

    @property
    def path(self) -> str:
        """The path in the file system."""
        ...


set_public_module("tessarr.stores", StoreProtocol)
