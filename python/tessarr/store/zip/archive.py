"""An open Zip file: where its values are, and what is to become of it."""

from __future__ import annotations

import builtins
import io
import os
import time
from bisect import bisect_left
from contextlib import contextmanager, nullcontext, suppress
from threading import RLock
from typing import IO, TYPE_CHECKING, Final
from zlib import crc32

from tessarr.errors import DataError, ExistsError, NotFoundError, StoreError, UnsupportedError
from tessarr.format.node_path import STAGED
from tessarr.store.zip import format as zip_format
from tessarr.store.zip import records
from tessarr.store.zip.file import ObjectFile, PathFile, ReadFile, get_stamp
from tessarr.store.zip.format import Entry
from tessarr.store.zip.rewrite import remove_garbage

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from contextlib import AbstractContextManager

    from tessarr.store.zip.file import File

__all__ = ["Archive", "ArchiveStore"]

_ALWAYS_TIDY_BYTES: Final = 1 << 24  # of a smaller file garbage is removed, be it ever so little
_LARGE_BYTES: Final = 0x7FFFFFFF  # beyond, older programs need zip64


class Archive:
    """An open Zip file.

    Parameters
    ----------
    place
        An absolute path, a file object, or a value to be read.
    mode
        r, r+, a, w or x. To append makes no file that is absent before something is written.
        "shared" is to append, where nobody is kept from the file before something is written:
        until then what others make of it is seen.
    method
        How new values are compressed.
    large
        Whether zip64 may be needed.
    durable
        Whether flushing waits for the disk.
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
        self.entries: dict[str, Entry] = {}
        self.changes = 1  # of the keys, not of the values
        self._method = method
        self._large = large
        self._durable = durable
        self._writes = mode != "r"
        self._process = os.getpid()
        self._lock = RLock()
        self._path: str | None = None  # of a file that is not open for writing yet
        self._shares = mode == "shared"
        self._stamp: tuple[int, ...] | None = None  # of one that is open to be read until then
        self._file = self._open_file(source, mode)
        self._start = self._end = 0
        self._directory_bytes = 0  # of the directory that the file ends with, if it is complete
        self._garbage_bytes = 0
        self._deleted: list[str] = []  # what the file does not tell yet
        self._changed = self._writes  # a file without a byte is to become one without values
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
        """Open the file, or what others have made of it, where it is not open for writing."""
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
                if self._shares:  # while others write to it, it ends anywhere: that is told
                    PathFile(self._path, "r+").close()
                raise
            if self._shares:
                self._stamp = stamp
            else:
                self._path = None

    def lock_for_writing(self) -> None:
        """Open a file for writing that was read until now, and keep others from that."""
        with self._lock:
            if self._path is not None and self._stamp is not None:
                self._switch_file(PathFile(self._path, "r+"))
                self._path = self._stamp = None

    def _switch_file(self, file: File) -> None:
        """Go on with a file, unless its directory cannot be read."""
        before, self._file = self._file, file
        try:
            self._read_directory()
        except BaseException:
            self._file = before
            file.close()
            raise
        self.changes += 1

    def _read_directory(self) -> None:
        size = self._file.size()
        if self._writes and not size:
            self.entries, self._changed = {}, True
            self._start = self._end = self._directory_bytes = self._garbage_bytes = 0
            return
        try:
            directory = zip_format.read_directory(self._file.read, size)
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

    # Values

    def open(self, key: str) -> OpenedValue | None:
        """Return a value to be read, or None."""
        self.check()
        entry = self.entries.get(key)
        return (
            None
            if entry is None
            else OpenedValue(self._file, entry, f"{key!r} in {self.name}", key)
        )

    def put(self, key: str, data: bytes) -> None:
        """Write a value behind all others."""
        self._check_writable()
        entry, packed = self._build_entry(key, data)
        with self._lock:
            self._check_writable()
            self.lock_for_writing()
            stored = self._append_value(key, entry, packed, staged=_is_staged(key))
            old = self.entries.get(key)
            # At once: readers do not wait for the lock.
            self.entries[key] = stored
            self._count_garbage(old)

    def _build_entry(self, key: str, data: bytes) -> tuple[Entry, bytes]:
        """Return the entry of a value that is to be written, and its bytes in the file."""
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
        """Write a value behind all others, and return where it is."""
        self._check_small(key, entry)
        self._write_deletions()
        begin = self._end
        field = records.encode_kind(records.STAGED if staged else b"")
        self._append(zip_format.build_local_header(entry, field), packed)
        self._garbage_bytes += self._directory_bytes
        self._directory_bytes = 0
        return entry._replace(offset=begin, limit=self._end)

    def _write_record(self, kind: bytes, name: str, data: bytes = b"") -> None:
        """Write what a repair must know: see `tessarr.store.zip.records`."""
        entry, _ = self._build_entry(name, data)
        entry = entry._replace(method=zip_format.STORED, packed=len(data), flags=zip_format.UTF8)
        begin = self._end
        self._append(zip_format.build_local_header(entry, records.encode_kind(kind)), data)
        self._garbage_bytes += self._end - begin + self._directory_bytes
        self._directory_bytes = 0
        self._changed = True

    def _write_deletions(self) -> None:
        """Write the records of deletions that are not written yet."""
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
            # Nothing may follow the directory that the file has, if it has one.
            self._file.truncate(self._end)
            raise
        self._end = offset

    def _create_file(self, path: str, *parts: bytes) -> None:
        """Make the file that is absent; if it cannot be written, none is left."""
        try:
            created = PathFile(path, "x")
        except ExistsError as error:
            raise StoreError(
                f"others have made {path!r} meanwhile; do it again", retryable=True
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
        """Forget values; those that are absent, too.

        Parameters
        ----------
        *keys
            Of the values.
        prefix
            If these are all values below a prefix, the prefix.
        """
        with self._lock:
            self._check_writable()
            if self.entries.keys().isdisjoint(keys):
                return
            self.lock_for_writing()
            for key in keys:
                self._count_garbage(self.entries.pop(key, None))
            self._record_deletions(keys if prefix is None else [prefix])

    def _record_deletions(self, names: Iterable[str]) -> None:
        self._deleted += [name for name in names if not _is_staged(name)]
        # A file that is complete stays so until a value is written.
        if self._deleted and not self._directory_bytes and self._path is None:
            with suppress(StoreError):  # of a full disk
                self._write_deletions()

    def replace_prefix(self, staged: str, prefix: str) -> None:
        """Give all values below a prefix other keys, and forget those that are there; at once.

        The name of a value is part of the file. Staged values have their final names from the
        beginning; others are written again.
        """
        with self._lock:
            self._check_writable()
            self.lock_for_writing()
            moved = {key: entry for key, entry in self.entries.items() if key.startswith(staged)}
            entries = {
                key: entry
                for key, entry in self.entries.items()
                if key not in moved and not key.startswith(prefix)
            }
            removed = [
                self.entries[key] for key in self.entries.keys() - entries.keys() - moved.keys()
            ]
            begin = self._end
            for key, entry in moved.items():
                target = prefix + key[len(staged) :]
                if entry.name == target.encode():
                    entries[target] = entry
                    begin = min(begin, entry.offset)
                else:
                    opened = OpenedValue(self._file, entry, f"{key!r} in {self.name}", key)
                    packed = self._build_entry(target, opened.read_all())
                    entries[target] = self._append_value(target, *packed, staged=True)
                    removed.append(entry)
            self._write_deletions()
            self._write_record(records.REPLACED, prefix, records.OFFSET.pack(begin))
            self.entries = entries  # at once: readers do not wait for the lock
            for entry in removed:
                self._count_garbage(entry)
            self._count_garbage(None)
            self._record_deletions([staged])

    def _get_live_entries(self) -> list[Entry]:
        """Return the values that belong into the directory."""
        return [entry for key, entry in self.entries.items() if not _is_staged(key)]

    def replace(self, key: str, data: bytes | None, expected: bytes | None) -> bool:
        """Store a value, or forget it, if the one before is as expected; tell whether it was.

        Where others could not write since it was looked at, it is.
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

    def sorted_keys(self) -> tuple[int, list[str]]:
        """Return the number of changes so far, and the keys as they are then."""
        with self._lock:
            return self.changes, sorted(self.entries)

    def _count_garbage(self, old: Entry | None) -> None:
        """Count what is no longer a value as garbage."""
        self._changed = True
        self.changes += 1
        if old is not None:
            self._garbage_bytes += old.limit - old.offset

    def check(self) -> None:
        """Refuse to go on if it is closed, and look at the file if others may change it."""
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

    # The end

    @property
    def is_usable(self) -> bool:
        """Whether it can be written to."""
        return not self.closed and self._writes and os.getpid() == self._process

    @property
    def is_writing(self) -> bool:
        """Whether the file is open for writing."""
        return self._writes and self._path is None

    def flush(self) -> None:
        """Complete the file."""
        with self._lock:
            self.check()
            if self._writes and self._stamp is None:
                self._check_writable()
                self._write_directory()

    def _write_directory(self) -> None:
        if self._changed:
            directory = zip_format.build_directory(self._get_live_entries(), self._end)
            self._append(directory)
            self._deleted = []
            self._garbage_bytes += self._directory_bytes
            self._directory_bytes = len(directory)
            self._changed = False
        self._file.flush(durable=self._durable)

    def close(self) -> None:
        """Complete the file without its garbage, and let go of it."""
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
            entries = sorted(self.entries.values(), key=lambda entry: entry.offset)
            if remove_garbage(self._file, self._start, entries, durable=self._durable):
                return
        self._write_directory()


class OpenedValue:
    """A value: what it was when it was opened, whatever is written later.

    Parameters
    ----------
    file, entry
        Where it is.
    what
        Names it in errors.
    """

    def __init__(self, file: File, entry: Entry, label: str, key: str) -> None:
        self.size = entry.size
        self._file = file
        self._build_entry = entry
        self._what = label
        self._key = key
        self._start: int | None = None
        self._data: bytes | None = None

    @property
    def state(self) -> bytes:
        """What tells it from what others put in its place."""
        return b"%x,%x,%x" % (
            self._build_entry.crc,
            self._build_entry.offset,
            self._build_entry.packed,
        )

    def read_all(self) -> bytes:
        """Return all of it; its checksum is right."""
        entry = self._build_entry
        with self._translate_errors():
            head = zip_format.LOCAL.size + len(entry.name)
            count = min(entry.limit - entry.offset, head + entry.packed + 64)
            raw = self._file.read(entry.offset, count)
            start = zip_format.find_data(entry, raw) - entry.offset
            packed = raw[start : start + entry.packed]
            if len(packed) < entry.packed:
                packed = self._file.read(entry.offset + start, entry.packed)
            return zip_format.decompress(packed, entry)

    def read(self, offset: int, count: int) -> bytes:
        """Return `count` bytes from `offset`; of a compressed value all is unpacked first."""
        if self._build_entry.method != zip_format.STORED or count == self.size:
            if self._data is None:
                self._data = self.read_all()
            return self._data[offset : offset + count]
        with self._translate_errors():
            if self._start is None:
                head = zip_format.LOCAL.size + len(self._build_entry.name)
                raw = self._file.read(self._build_entry.offset, head)
                self._start = zip_format.find_data(self._build_entry, raw)
            return self._file.read(self._start + offset, count)

    @contextmanager
    def _translate_errors(self) -> Generator[None]:
        try:
            yield
        except (DataError, UnsupportedError) as error:
            message = f"cannot read {self._what}: {error}"
            raise type(error)(message, kind=error.kind, key=self._key) from error


class ArchiveStore:
    """An archive as a store; see `tessarr.store.protocol`."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._sorted: tuple[int, list[str]] = (0, [])

    def get(self, key: str) -> bytes | None:
        value = self._archive.open(key)
        return None if value is None else value.read_all()

    def open_value(self, key: str) -> OpenedValue | None:
        return self._archive.open(key)

    def put(self, key: str, data: bytes) -> None:
        self._archive.put(key, data)

    def delete(self, key: str) -> None:
        if self._archive.open(key) is not None:
            self._archive.delete(key)

    def replace(self, key: str, data: bytes | None, expected: bytes | None) -> bool:
        return self._archive.replace(key, data, expected)

    def hold(self, key: str) -> AbstractContextManager[None]:
        """Keep others from the file, as long as it is open here."""
        self._archive.check()
        self._archive.lock_for_writing()
        return nullcontext()

    deletes_at_once = True  # a killed program leaves the directory of the last flush

    def delete_prefix(self, prefix: str) -> None:
        self._archive.delete(*self.list(prefix), prefix=prefix)

    def replace_prefix(self, staged: str, prefix: str) -> None:
        self._archive.replace_prefix(staged, prefix)

    def list(self, prefix: str) -> list[str]:
        keys = self._keys()
        first = bisect_left(keys, prefix)
        # What follows "/" is "0": the first key that does not begin with the prefix.
        last = bisect_left(keys, f"{prefix[:-1]}0") if prefix else len(keys)
        return keys[first:last]

    def list_dir(self, prefix: str) -> tuple[builtins.list[str], builtins.list[str]]:
        keys = self._keys()
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

    def _keys(self) -> builtins.list[str]:
        archive = self._archive
        archive.check()
        changes, keys = self._sorted
        if changes != archive.changes:
            changes, keys = archive.sorted_keys()
            self._sorted = changes, keys
        return keys


def _is_staged(key: str) -> bool:
    """Tell whether a value belongs to a node that is not complete."""
    return f"{STAGED}/" in key


def _get_final_key(key: str) -> str:
    """Return the key that a value has when its node is complete.

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
    """Return what is as empty as a file that is not there."""
    return ObjectFile(io.BytesIO(), "r")


def _dos_time() -> int:
    year, month, day, hour, minute, second = time.localtime()[:6]
    date = max(year - 1980, 0) << 9 | month << 5 | day
    return date << 16 | hour << 11 | minute << 5 | second // 2
