"""A store in a Zip archive that is a value of another store."""

from __future__ import annotations

import builtins
import io
from typing import TYPE_CHECKING, Any, Final, Self

from tessarr._engine import ForeignStore
from tessarr.errors import StoreError
from tessarr.store.repr_mixin import DescribedStore
from tessarr.store.zip import format as zip_format
from tessarr.store.zip.archive import Archive, ArchiveStore
from tessarr.store.zip.file import ReadFile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tessarr._engine import Store
    from tessarr.store.zip.opened_value import OpenedValue

__all__ = ["ZipValueStore"]

_ATTEMPTS: Final = 100


class ZipValueStore(DescribedStore):
    """A store in a Zip archive that is the value of a key of another store.

    Parameters
    ----------
    store : Store
        The other store.
    key : str
        The key of the archive; it may be absent.
    compression : int, default 0
        As for `ZipStore`.

    Notes
    -----
    Reads use ranged requests. A read-only store opens the archive once, and again after a read
    notices that another program has replaced it.

    Each change rewrites the whole archive in one conditional write: the archive is always complete,
    a transaction applies all its changes together, and concurrent writers lose no change. Use this
    store for rarely written data, and `ZipStore` for local files.

    Examples
    --------
    >>> from tessarr.stores import MemoryStore
    >>> outer = MemoryStore()
    >>> store = ZipValueStore(outer, "a.zip")
    >>> store["x"] = b"1"
    >>> list(outer), store["x"]
    (['a.zip'], b'1')
    """

    def __new__(cls, store: Store, key: str, compression: int = zip_format.STORED) -> Self:
        if compression not in zip_format.METHODS:
            zip_format.compress(b"", compression)  # raises the error
        packed = _ZipValue(store, key, compression)
        engine = ForeignStore(packed, read_only=store.read_only)
        arguments: dict[str, Any] = {"store": store, "key": key}
        if compression:
            arguments["compression"] = compression
        return cls._build(arguments, engine)


class _ZipValue:
    """The methods of `tessarr.store.protocol.StoreProtocol`."""

    def __init__(self, store: Store, key: str, method: int) -> None:
        self._store = store
        self._key = key
        self._method = method
        self._cached: tuple[bytes | None, ReadFile, ArchiveStore] | None = None
        self.concurrency = store.concurrency

    def _open_archive(self) -> ArchiveStore | None:
        """Open the current archive; return None if the key is absent."""
        seen = self._cached
        if seen is not None and self._store.read_only and not seen[1].is_replaced:
            return seen[2]
        value = self._store.open_value(self._key)
        if value is None:
            return None
        version = value.version
        if seen is not None and seen[0] == version is not None:
            return seen[2]
        file = ReadFile(value, f"{self._key!r} of {self._store!r}")
        keys = ArchiveStore(Archive(file, "r", self._method, large=True, durable=False))
        self._cached = version, file, keys
        return keys

    def get(self, key: str) -> bytes | None:
        value = self.open_head(key, None)
        return None if value is None else value.read(0, value.size)

    def open_head(self, key: str, count: int | None) -> OpenedValue | None:
        try:
            return self._open_head(key, count)
        except StoreError as error:
            if error.kind != "value_replaced":
                raise
            return self._open_head(key, count)

    def _open_head(self, key: str, count: int | None) -> OpenedValue | None:
        keys = self._open_archive()
        return None if keys is None else keys.open_head(key, count)

    def open_value(self, key: str) -> OpenedValue | None:
        keys = self._open_archive()
        return None if keys is None else keys.open_value(key)

    def list(self, prefix: str) -> builtins.list[str]:
        keys = self._open_archive()
        return [] if keys is None else keys.list(prefix)

    def list_dir(self, prefix: str) -> tuple[builtins.list[str], builtins.list[str]]:
        keys = self._open_archive()
        return ([], []) if keys is None else keys.list_dir(prefix)

    def put(self, key: str, data: bytes) -> None:
        self.replace_all({key: data}, {})

    def delete(self, key: str) -> None:
        self.replace_all({key: None}, {})

    def delete_prefix(self, prefix: str) -> None:
        self.replace_all(dict.fromkeys(self.list(prefix)), {})

    def replace(self, key: str, data: bytes | None, expected: bytes | None) -> bool:
        return self.replace_all({key: data}, {key: expected})

    def replace_all(
        self, values: Mapping[str, bytes | None], expected: Mapping[str, bytes | None]
    ) -> bool:
        """Change several keys in one step, if other keys have the expected values."""
        for _ in range(_ATTEMPTS):
            old = self._store.get(self._key)
            holds, new = self._apply_changes(old, values, expected)
            if not holds:
                return False
            if new == old or self._store.replace(self._key, new, old):
                return True
        raise StoreError(f"other writers replace {self._key!r} continually", retryable=True)

    def _apply_changes(
        self,
        old: bytes | None,
        values: Mapping[str, bytes | None],
        expected: Mapping[str, bytes | None],
    ) -> tuple[bool, bytes | None]:
        """Return whether the preconditions hold, and the archive with the changes."""
        file = io.BytesIO(old or b"")
        archive = Archive(file, "a", self._method, large=True, durable=False)
        for key, data in expected.items():
            value = archive.open(key)
            if (None if value is None else value.read_all()) != data:
                return False, old
        present = {key: data for key, data in values.items() if data is not None}
        removed = [key for key in values if key not in present and key in archive.entries]
        if not present and not removed:
            return True, old
        archive.delete(*removed)
        for key, data in present.items():
            archive.put(key, data)
        archive.close()
        return True, file.getvalue()
