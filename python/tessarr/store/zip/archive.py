"""An open Zip file: reads and appends values, and writes the directory."""

from __future__ import annotations

import builtins
import io
import os
import time
from bisect import bisect_left
from contextlib import nullcontext, suppress
from itertools import count
from threading import RLock
from typing import IO, TYPE_CHECKING, Final
from zlib import crc32

from tessarr.errors import DataError, ExistsError, NotFoundError, StoreError, UnsupportedError
from tessarr.format.node_path import STAGED
from tessarr.store.zip import format as zip_format
from tessarr.store.zip import records
from tessarr.store.zip.directory import build_directory, read_directory
from tessarr.store.zip.entries import Entries
from tessarr.store.zip.file import ObjectFile, PathFile, ReadFile, get_stamp
from tessarr.store.zip.format import Entry
from tessarr.store.zip.opened_value import OpenedValue
from tessarr.store.zip.rewrite import remove_garbage

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager

    from tessarr.store.zip.file import File

__all__ = ["Archive", "ArchiveStore"]

_ALWAYS_TIDY_BYTES: Final = 1 << 24  # smaller files are always rewritten without garbage
_LARGE_BYTES: Final = 0x7FFFFFFF  # beyond, older programs need zip64

_generations: Final = count(1)
"""Numbers of directories that this process has read: each offset in one has a single value."""


class Archive:
    """An open Zip file.

    Parameters
    ----------
    source
        An absolute path, a file object, or an open value of another store.
    mode
        r, r+, a, w or x. Mode a creates an absent file at the first write. "shared" is like mode
        a, but locks the file only at the first write, and sees other writers' changes until then.
    method
        The compression method of new values.
    large
        Whether the file may use zip64.
    durable
        Whether `flush` waits for the disk.
    """

    def __init__(
        self,
        source: str | IO[bytes] | ReadFile,
        mode: str,
        method: int,
        *,
        large: bool,
        durable: bool,
    ) -> None:
        self.name = repr(source)
        self.closed = False
        self.entries = Entries()
        self._sorted_keys: list[str] | None = None
        self._generation: int | None = None  # None: unknown, or another thread switches the file
        self._method = method
        self._large = large
        self._durable = durable
        self._writes = mode != "r"
        self._process = os.getpid()
        self._lock = RLock()
        self._path: str | None = None  # set until the file is open for writing
        self._shares = mode == "shared"
        self._stamp: tuple[int, ...] | None = (
            None  # of the file that is open for reading until then
        )
        self._file = self._open_file(source, mode)
        self._start = self._end = 0
        self._directory_bytes = 0  # of the directory at the end of a complete file
        self._garbage_bytes = 0
        self._deleted: list[str] = []  # deletions whose records are not in the file yet
        self._changed = self._writes  # an empty file becomes an archive without values
        try:
            self._read_directory()
        except BaseException:
            self._file.close()
            raise
        self._refresh()

    def _open_file(self, source: str | IO[bytes] | ReadFile, mode: str) -> File:
        if isinstance(source, ReadFile):
            return source
        if not isinstance(source, str):
            return ObjectFile(source, mode)
        if mode not in {"a", "shared"}:
            return PathFile(source, mode)
        self._path = source
        return _create_empty_file()

    def _refresh(self) -> None:
        """Open the current file, if this archive has not opened it for writing."""
        with self._lock:
            if self._path is None:
                return
            stamp = get_stamp(self._path)
            if stamp == self._stamp:
                return
            mode = "r" if self._shares else "r+"
            try:
                self._switch_file(
                    _create_empty_file() if stamp is None else PathFile(self._path, mode)
                )
            except NotFoundError:
                return
            except DataError:
                if self._shares:  # raises if another process is writing
                    PathFile(self._path, "r+").close()
                raise
            if self._shares:
                self._stamp = stamp
            else:
                self._path = None

    def lock_for_writing(self) -> None:
        """Reopen a file for writing and lock it, if it is open for reading."""
        with self._lock:
            if self._path is not None and self._stamp is not None:
                self._switch_file(PathFile(self._path, "r+"))
                self._path = self._stamp = None

    def _switch_file(self, file: File) -> None:
        """Continue with another file, unless it is unreadable."""
        self._generation = None
        before, self._file = self._file, file
        try:
            self._read_directory()
        except BaseException:
            self._file = before
            file.close()
            raise
        self._sorted_keys = None

    def _read_directory(self) -> None:
        self._parse_directory()
        self._generation = next(_generations) if self._file.has_version else None

    def _parse_directory(self) -> None:
        size = self._file.size()
        if self._writes and not size:
            self.entries, self._changed = Entries(), True
            self._start = self._end = self._directory_bytes = self._garbage_bytes = 0
            return
        try:
            directory = read_directory(self._file.read, size)
        except (DataError, UnsupportedError) as error:
            raise type(error)(
                f"cannot open {self.name} as a Zip file: {error}{self._file.hint()}",
                kind=error.kind,
            ) from error
        self.entries = directory.entries
        self._start = directory.start
        self._end = size
        self._directory_bytes = size - directory.end
        self._garbage_bytes = directory.garbage
        self._changed = False

    def open(self, key: str) -> OpenedValue | None:
        """Open a value; return None for an absent key."""
        self.check()
        generation = self._generation
        entry = self.entries.get(key)
        if entry is None:
            return None
        value = self._open_entry(key, entry)
        if generation is not None and generation == self._generation:
            value.version = b"%x,%x" % (generation, entry.offset)
        return value

    def _open_entry(self, key: str, entry: Entry) -> OpenedValue:
        return OpenedValue(self._file, entry, f"{key!r} in {self.name}", key)

    def put(self, key: str, data: bytes) -> None:
        """Append a value."""
        self._check_writable()
        entry, packed = self._build_entry(key, data)
        with self._lock:
            self._check_writable()
            self.lock_for_writing()
            stored = self._append_value(key, entry, packed, staged=_is_staged(key))
            old = self.entries.get(key)
            # One assignment: readers do not take the lock.
            self.entries[key] = stored
            self._count_garbage(old)

    def _build_entry(self, key: str, data: bytes) -> tuple[Entry, bytes]:
        """Return the entry of a new value and its compressed bytes."""
        packed = zip_format.compress(data, self._method)
        name = _get_final_key(key)
        entry = Entry(
            name=name.encode(),
            offset=0,
            limit=0,
            method=self._method,
            crc=crc32(data),
            packed=len(packed),
            size=len(data),
            flags=zip_format.get_flags(name, self._method),
            modified=_dos_time(),
            attributes=zip_format.PERMISSIONS,
        )
        return entry, packed

    def _append_value(self, key: str, entry: Entry, packed: bytes, *, staged: bool) -> Entry:
        """Append a value and return its entry with its position."""
        self._check_small(key, entry)
        self._write_deletions()
        begin = self._end
        field = records.encode_kind(records.STAGED if staged else b"")
        self._append(zip_format.build_local_header(entry, field), packed)
        self._garbage_bytes += self._directory_bytes
        self._directory_bytes = 0
        return entry._replace(offset=begin, limit=self._end)

    def _write_record(self, kind: bytes, name: str, data: bytes = b"") -> None:
        """Append a record for repairs: see `tessarr.store.zip.records`."""
        entry, _ = self._build_entry(name, data)
        entry = entry._replace(method=zip_format.STORED, packed=len(data), flags=zip_format.UTF8)
        begin = self._end
        self._append(zip_format.build_local_header(entry, records.encode_kind(kind)), data)
        self._garbage_bytes += self._end - begin + self._directory_bytes
        self._directory_bytes = 0
        self._changed = True

    def _write_deletions(self) -> None:
        """Append the pending records of deletions."""
        deleted, self._deleted = self._deleted, []
        try:
            for name in deleted:
                self._write_record(records.DELETED, name)
        except BaseException:
            self._deleted = deleted
            raise

    def _append(self, *parts: bytes) -> None:
        if self._path is not None:
            self._create_file(self._path, *parts)
            return
        offset = self._end
        try:
            for part in parts:
                self._file.write(offset, part)
                offset += len(part)
        except BaseException:
            # Only the directory may be at the end of the file.
            self._file.truncate(self._end)
            raise
        self._end = offset

    def _create_file(self, path: str, *parts: bytes) -> None:
        """Create the file; remove it again if the write fails."""
        try:
            created = PathFile(path, "x")
        except ExistsError as error:
            raise StoreError(
                f"another program has created {path!r}; try again", retryable=True
            ) from error
        nothing, self._file, self._path = self._file, created, None
        try:
            self._append(*parts)
        except BaseException:
            self._file, self._path = nothing, path
            created.discard()
            created.close()
            raise

    def delete(self, *keys: str, prefix: str | None = None) -> None:
        """Delete values, which may be absent.

        Parameters
        ----------
        *keys
            The keys of the values.
        prefix
            The prefix, if the keys are all keys below a prefix.
        """
        with self._lock:
            self._check_writable()
            if not any(key in self.entries for key in keys):
                return
            self.lock_for_writing()
            for key in keys:
                self._count_garbage(self.entries.pop(key))
            self._record_deletions(keys if prefix is None else [prefix])

    def _record_deletions(self, names: Iterable[str]) -> None:
        self._deleted += [name for name in names if not _is_staged(name)]
        # A complete file stays complete until the next value.
        if self._deleted and not self._directory_bytes and self._path is None:
            with suppress(StoreError):  # the disk may be full
                self._write_deletions()

    def replace_prefix(self, staged: str, prefix: str) -> None:
        """Move all values below `staged` to `prefix` in one step; delete the former values there.

        The file contains the name of each value. Staged values have their final names in the
        file; other values are written again.
        """
        with self._lock:
            self._check_writable()
            self.lock_for_writing()
            entries = self.entries.copy()
            moved = entries.pop_prefix(staged)
            removed = [*entries.pop_prefix(prefix).values()]
            begin = self._end
            for key, entry in moved.items():
                target = prefix + key[len(staged) :]
                if entry.name == target.encode():
                    entries[target] = entry
                    begin = min(begin, entry.offset)
                else:
                    data = self._open_entry(key, entry).read_all()
                    packed = self._build_entry(target, data)
                    entries[target] = self._append_value(target, *packed, staged=True)
                    removed.append(entry)
            self._write_deletions()
            self._write_record(records.REPLACED, prefix, records.OFFSET.pack(begin))
            self.entries = entries  # one assignment: readers do not take the lock
            for entry in removed:
                self._count_garbage(entry)
            self._count_garbage(None)
            self._record_deletions([staged])

    def replace(self, key: str, data: bytes | None, expected: bytes | None) -> bool:
        """Store or delete a value if the current one is `expected`; return whether it was.

        A file that is locked for writing cannot have changed since the last read.
        """
        with self._lock:
            self._check_writable()
            if not self.is_writing:
                self.lock_for_writing()
                value = self.open(key)
                if (None if value is None else value.read_all()) != expected:
                    return False
            if data is None:
                self.delete(key)
            else:
                self.put(key, data)
            return True

    def sorted_keys(self) -> list[str]:
        """Return the current keys, sorted."""
        self.check()
        with self._lock:
            if self._sorted_keys is None:
                self._sorted_keys = sorted(self.entries)
            return self._sorted_keys

    def _count_garbage(self, old: Entry | None) -> None:
        """Count the bytes of a former value as garbage."""
        self._changed = True
        self._sorted_keys = None
        if old is not None:
            self._garbage_bytes += old.limit - old.offset

    def check(self) -> None:
        """Raise an error if the archive is closed; reread a file with other writers."""
        if self.closed:
            raise StoreError(f"the store in {self.name} is closed: open it again")
        if self._path is not None:
            self._refresh()

    def _check_writable(self) -> None:
        self.check()
        if os.getpid() != self._process:
            raise StoreError(
                f"cannot write to {self.name}: the process that opened it has forked, and only "
                "that one may write"
            )

    def _check_small(self, key: str, entry: Entry) -> None:
        many = len(self.entries) >= 0xFFFF and key not in self.entries
        end = self._end + entry.packed + len(entry.name) + zip_format.LOCAL.size
        if not self._large and (many or max(end, entry.size) > _LARGE_BYTES):
            raise StoreError(
                f"cannot store {key!r} in {self.name}: the file would need zip64, which "
                "allowZip64=False forbids",
                key=key,
            )

    # Flushing and closing

    @property
    def is_usable(self) -> bool:
        """Whether the archive is writable."""
        return not self.closed and self._writes and os.getpid() == self._process

    @property
    def is_writing(self) -> bool:
        """Whether the file is open for writing."""
        return self._writes and self._path is None

    def flush(self) -> None:
        """Write the directory, so that the file is complete."""
        with self._lock:
            self.check()
            if self._writes and self._stamp is None:
                self._check_writable()
                self._write_directory()

    def _write_directory(self) -> None:
        if self._changed:
            live = self.entries.collect(key for key in self.entries if not _is_staged(key))
            directory = build_directory(live, self._end)
            self._append(directory)
            self._deleted = []
            self._garbage_bytes += self._directory_bytes
            self._directory_bytes = len(directory)
            self._changed = False
        self._file.flush(durable=self._durable)

    def close(self) -> None:
        """Write the directory, remove garbage, and close the file."""
        with self._lock:
            if self.closed:
                return
            try:
                if self._writes and os.getpid() == self._process:
                    self._finish()
            finally:
                self.closed = True
                self._file.close()

    def _finish(self) -> None:
        if self._path is not None:
            return
        self.delete(*filter(_is_staged, tuple(self.entries)))
        garbage = self._garbage_bytes + self._directory_bytes * self._changed
        live = self._end - garbage
        if garbage and (self._end < _ALWAYS_TIDY_BYTES or garbage * 4 > live):
            table = self.entries.collect(self.entries)
            if remove_garbage(self._file, self._start, table, durable=self._durable):
                return
        self._write_directory()


class ArchiveStore:
    """An archive with the methods of `tessarr.store.protocol.StoreProtocol`."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    def get(self, key: str) -> bytes | None:
        value = self._archive.open(key)
        return None if value is None else value.read_all()

    def open_value(self, key: str) -> OpenedValue | None:
        return self._archive.open(key)

    def open_head(self, key: str, count: int | None) -> OpenedValue | None:
        value = self._archive.open(key)
        if value is not None and (count is None or value.size <= count):
            value.read(0, value.size)  # and keep the bytes
        return value

    def put(self, key: str, data: bytes) -> None:
        self._archive.put(key, data)

    def delete(self, key: str) -> None:
        if self._archive.open(key) is not None:
            self._archive.delete(key)

    def replace(self, key: str, data: bytes | None, expected: bytes | None) -> bool:
        return self._archive.replace(key, data, expected)

    def hold(self, key: str) -> AbstractContextManager[None]:
        """Lock the file until it is closed."""
        self._archive.check()
        self._archive.lock_for_writing()
        return nullcontext()

    deletes_at_once = True  # after a crash, the directory of the last flush applies

    def delete_prefix(self, prefix: str) -> None:
        self._archive.delete(*self.list(prefix), prefix=prefix)

    def replace_prefix(self, staged: str, prefix: str) -> None:
        self._archive.replace_prefix(staged, prefix)

    def list(self, prefix: str) -> list[str]:
        keys = self._archive.sorted_keys()
        first = bisect_left(keys, prefix)
        # "0" sorts after "/", so this is the upper bound of the keys below the prefix.
        last = bisect_left(keys, f"{prefix[:-1]}0") if prefix else len(keys)
        return keys[first:last]

    def list_dir(self, prefix: str) -> tuple[builtins.list[str], builtins.list[str]]:
        keys = self._archive.sorted_keys()
        members: list[str] = []
        folders: list[str] = []
        index = bisect_left(keys, prefix)
        while index < len(keys) and keys[index].startswith(prefix):
            slash = keys[index].find("/", len(prefix))
            if slash < 0:
                members.append(keys[index])
                index += 1
            else:
                folders.append(keys[index][: slash + 1])
                index = bisect_left(keys, f"{keys[index][:slash]}0", index)
        return members, folders


def _is_staged(key: str) -> bool:
    """Return whether a value belongs to a node that is not complete."""
    return f"{STAGED}/" in key


def _get_final_key(key: str) -> str:
    """Return the key of a value after its node is complete.

    Examples
    --------
    >>> _get_final_key("a/b.__new.__lock/node/c/0"), _get_final_key(".__new.__lock/node/c/0")
    ('a/b/c/0', 'c/0')
    """
    folder, staged, name = key.partition(f"{STAGED}/node/")
    if not staged:
        return key
    return f"{folder}/{name}" if folder else name


def _create_empty_file() -> ObjectFile:
    """Return an empty file object, which represents an absent file."""
    return ObjectFile(io.BytesIO(), "r")


def _dos_time() -> int:
    year, month, day, hour, minute, second = time.localtime()[:6]
    date = max(year - 1980, 0) << 9 | month << 5 | day
    return date << 16 | hour << 11 | minute << 5 | second // 2
