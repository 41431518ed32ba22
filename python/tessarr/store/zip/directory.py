"""The central directory of Zip files: parse it with checks, and build it.

Theory
------
Readers must reject hostile files: entries that overlap (a bomb of few bytes that decompresses to
petabytes), entries with impossible sizes, names that lead out of the target folder, and a
directory at another offset than that in the end record. NumPy checks all entries at once, and a
loop only those that do not pass; so opening a file of many entries is fast.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr.errors import DataError, UnsupportedError
from tessarr.store.zip.entries import Entries, EntryTable
from tessarr.store.zip.format import (
    END,
    END64,
    END64_MARK,
    END_MARK,
    FULL16,
    FULL32,
    LOCATOR,
    LOCATOR_MARK,
    MIN_RATIO,
    RECORD,
    RECORD_MARK,
    STORED,
    apply_zip64,
    check_size,
    get_version,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Read = Callable[[int, int], bytes]

__all__ = ["Directory", "build_directory", "read_directory"]

_HEAD: Final = np.dtype(
    [
        ("creator", "<u2"),
        ("version", "<u2"),
        ("flags", "<u2"),
        ("method", "<u2"),
        ("modified", "<u4"),
        ("crc", "<u4"),
        ("packed", "<u4"),
        ("size", "<u4"),
        ("name_length", "<u2"),
        ("extra_length", "<u2"),
        ("comment_length", "<u2"),
        ("disk", "<u2"),
        ("internal", "<u2"),
        ("attributes", "<u4"),
        ("offset", "<u4"),
    ]
)
_LENGTHS: Final = slice(9, 12)  # of name, extra field and comment, in `_HEAD`
_COPIED: Final = ("flags", "method", "modified", "crc", "attributes")
_WIDE: Final = ("size", "packed", "offset")  # in the order of the zip64 field
_UNIX: Final = 3 << 8  # the creator: the attributes are permissions
_MAX_EXTRA: Final = 1024  # bytes of a local header's extra field; a larger gap is garbage
_MAX_BYTES: Final = 1 << 61  # more than any file has; sums fit 64 bits


@dataclass(frozen=True, slots=True)
class Directory:
    """The entries of a Zip file by key, and the position of its directory.

    Attributes
    ----------
    entries : Entries
        The entries by key; of several entries with one name, the last.
    start : int
        The offset of the first entry; other data may precede it.
    end : int
        The offset of the directory.
    garbage : int
        The approximate number of unused bytes.
    """

    entries: Entries
    start: int
    end: int
    garbage: int


def build_directory(table: EntryTable, offset: int) -> bytes:
    """Return the central directory and the end record of a file, for `offset`."""
    directory = b"".join(_build_records(table))
    count, size = len(table), len(directory)
    end = END.pack(
        END_MARK,
        0,
        0,
        min(count, FULL16),
        min(count, FULL16),
        min(size, FULL32),
        min(offset, FULL32),
        0,
    )
    if count < FULL16 and size < FULL32 and offset < FULL32:
        return directory + end
    end64 = END64.pack(END64_MARK, END64.size - 12, 45, 45, 0, 0, count, count, size, offset)
    return directory + end64 + LOCATOR.pack(LOCATOR_MARK, 0, offset + size, 1) + end


def _build_records(table: EntryTable) -> list[bytes]:
    fields = table.fields
    wide = np.any([fields[name] >= FULL32 for name in _WIDE], axis=0)
    extras = {row: _build_zip64(table.fields[row]) for row in np.flatnonzero(wide).tolist()}
    heads = np.zeros(len(table), _HEAD)
    for name in _COPIED:
        heads[name] = fields[name]
    for name in _WIDE:
        heads[name] = np.minimum(fields[name], FULL32)
    for method in np.unique(fields["method"]).tolist():
        same = fields["method"] == method
        heads["version"][same] = get_version(method, large=False)
        heads["version"][same & wide] = get_version(method, large=True)
    heads["creator"] = heads["version"] | _UNIX
    heads["name_length"] = table.name_lengths()
    for row, extra in extras.items():
        heads["extra_length"][row] = len(extra)
    raw, size = heads.tobytes(), _HEAD.itemsize
    return [
        RECORD_MARK + raw[row * size : row * size + size] + name + extras.get(row, b"")
        for row, name in enumerate(table.names)
    ]


def _build_zip64(fields: NDArray[Any]) -> bytes:
    values = [int(fields[name]) for name in _WIDE if fields[name] >= FULL32]
    return struct.pack(f"<HH{len(values)}Q", 1, 8 * len(values), *values)


def read_directory(read: Read, size: int) -> Directory:
    """Read the directory of a Zip file of `size` bytes, and check it.

    Parameters
    ----------
    read
        A function of offset and count that returns bytes of the file.
    size
        The size of the file.

    Raises
    ------
    DataError
        If the file is not a complete Zip file, or is hostile.
    """
    start, end, count, shift = _find_directory(read, size)
    if count * RECORD.size > end - start:
        raise DataError(f"{count} entries do not fit in a directory of {end - start} bytes")
    records, heads = _split_records(read(start, end - start), count)
    return _build_checked(_parse_records(records, heads, shift), start)


def _find_directory(read: Read, size: int) -> tuple[int, int, int, int]:
    """Return start and end of the directory, its entry count, and the shift of offsets."""
    tail_at = max(0, size - END.size - FULL16)
    tail = read(tail_at, size - tail_at)
    position = _find_end(tail)
    if position < 0:
        raise DataError("it does not end as a Zip file does" if size else "it is empty")
    _, disk, first_disk, disk_count, count, length, offset, _ = END.unpack_from(tail, position)
    end = tail_at + position
    if end >= LOCATOR.size:
        mark, _, at64, _ = LOCATOR.unpack(read(end - LOCATOR.size, LOCATOR.size))
        if mark == LOCATOR_MARK:
            narrow = (disk, first_disk, disk_count, count, length, offset)
            end, wide = _read_zip64_end(read, end - LOCATOR.size, at64)
            limits = (FULL16, FULL16, FULL16, FULL16, FULL32, FULL32)
            if any(a not in (b, c) for a, b, c in zip(narrow, wide, limits, strict=True)):
                raise DataError("its two end records contradict each other")
            disk, first_disk, disk_count, count, length, offset = wide
    if disk or first_disk or disk_count != count:
        raise UnsupportedError("Zip files of several volumes are not supported")
    start = end - length
    if start < offset:
        raise DataError("its directory is not where its end says")
    return start, end, count, start - offset


def _find_end(tail: bytes) -> int:
    """Return the position of the end record at the end of the file; -1 if it is missing."""
    position = tail.rfind(END_MARK)
    while position >= 0:
        if position + END.size <= len(tail):
            comment_length: int = END.unpack_from(tail, position)[7]
            if position + END.size + comment_length == len(tail):
                return position
        position = tail.rfind(END_MARK, 0, position)
    return -1


def _read_zip64_end(read: Read, locator: int, located: int) -> tuple[int, tuple[int, ...]]:
    """Return the position and the fields of the zip64 end record."""
    for offset in (locator - END64.size, located):
        if 0 <= offset <= locator - END64.size:
            mark, length, _, _, *fields = END64.unpack(read(offset, END64.size))
            if mark == END64_MARK and offset + 12 + length == locator:
                return offset, tuple(fields)
    raise DataError("its zip64 end record is not where its locator says")


def _split_records(directory: bytes, count: int) -> tuple[list[bytes], NDArray[Any]]:
    """Return the records of a central directory without their marks, and their fixed fields.

    Both ways build at most `count` records, so that a directory of many marks needs little memory.
    """
    before, *records = directory.split(RECORD_MARK, count)
    if before:
        raise DataError("its directory is damaged")
    if len(records) == count and min(map(len, records), default=0) >= _HEAD.itemsize:
        heads = _parse_heads(records)
        lengths = np.fromiter(map(len, records), "i8", count)
        if np.array_equal(lengths, _sum_lengths(heads)):
            return records, heads
    # A name, an extra field or a comment contains the mark, or the directory is damaged.
    records = [*_walk_records(directory, count)]
    return records, _parse_heads(records)


def _parse_heads(records: list[bytes]) -> NDArray[Any]:
    return np.frombuffer(b"".join([record[: _HEAD.itemsize] for record in records]), _HEAD)


def _sum_lengths(heads: NDArray[Any]) -> NDArray[np.int64]:
    """Return the length of each record without its mark."""
    lengths = (heads[name] for name in ("name_length", "extra_length", "comment_length"))
    total: NDArray[np.int64] = np.sum([*lengths], axis=0, dtype="i8")
    return total + _HEAD.itemsize


def _walk_records(directory: bytes, count: int) -> Iterator[bytes]:
    """Yield the records of a central directory, each by the length of the one before."""
    end = 0
    for _ in range(count):
        position, begin = end, end + len(RECORD_MARK)
        if position + RECORD.size > len(directory):
            raise DataError(f"its directory ends before the last of {count} entries")
        mark, *fields = RECORD.unpack_from(directory, position)
        end = position + RECORD.size + sum(fields[_LENGTHS])
        if mark != RECORD_MARK or end > len(directory):
            raise DataError("its directory is damaged")
        yield directory[begin:end]
    if end < len(directory):
        raise DataError(f"the directory has more than {count} entries, contrary to its end")


def _parse_records(records: list[bytes], heads: NDArray[Any], shift: int) -> EntryTable:
    """Return the entries of records; add `shift` to their offsets."""
    begin = _HEAD.itemsize
    name_lengths = heads["name_length"].tolist()
    names = [
        record[begin : begin + length] for record, length in zip(records, name_lengths, strict=True)
    ]
    columns = {name: heads[name].astype("i8") for name in (*_COPIED, *_WIDE)}
    for row in np.flatnonzero(np.any([columns[name] == FULL32 for name in _WIDE], axis=0)).tolist():
        extra = records[row][begin + len(names[row]) :][: heads["extra_length"][row]]
        values = apply_zip64(extra, *(int(columns[name][row]) for name in _WIDE))
        if max(values) >= _MAX_BYTES:
            raise DataError(f"its entry {names[row]!r} claims more bytes than a file can have")
        for name, value in zip(_WIDE, values, strict=True):
            columns[name][row] = value
    columns["offset"] += shift
    return EntryTable.from_columns(names, **columns)


def _build_checked(table: EntryTable, end: int) -> Directory:
    """Raise an error if entries overlap, or have impossible sizes or names."""
    if not len(table):
        return Directory(Entries(), end, end, 0)
    fields = table.fields
    order = np.argsort(fields["offset"], kind="stable")
    fields["limit"][order] = np.append(fields["offset"][order[1:]], end)
    gaps = table.gaps()
    if (overlapping := np.flatnonzero(gaps < 0)).size:
        raise DataError(f"its entry {table[overlapping[0]].key!r} overlaps what follows it")
    stored, size, packed = fields["method"] == STORED, fields["size"], fields["packed"]
    for row in np.flatnonzero((size != packed) & (stored | (size > packed * MIN_RATIO))).tolist():
        check_size(table[row])
    keys = _parse_keys(table)
    rows = dict(zip(keys, range(len(keys)), strict=True))
    garbage = int(gaps[gaps > _MAX_EXTRA].sum())
    if len(rows) < len(keys):
        former = [row for row, key in enumerate(keys) if key and rows[key] != row]
        garbage += int((fields["limit"] - fields["offset"])[former].sum())
    rows.pop("", None)
    return Directory(Entries(table, rows), int(fields["offset"][order[0]]), end, garbage)


def _parse_keys(table: EntryTable) -> list[str]:
    """Return the keys of entries; "" for folders."""
    joined = b"\0".join(table.names)
    if joined.isascii() and joined.count(b"\0") == len(table) - 1:
        text = joined.decode("ascii")
        parts = f"/{text.replace(chr(0), '/')}/"
        if not any(special in parts for special in ("//", "/./", "/../")):
            return text.split("\0")
    return [_check_key(table[row].key) for row in range(len(table))]


def _check_key(name: str) -> str:
    """Return the key of an entry; "" for a folder."""
    key = name.removeprefix("./")
    folder = key.removesuffix("/")
    if (
        key.startswith("/")
        or "\0" in key
        or any(part in {"", ".", ".."} for part in folder.split("/"))
    ):
        if key in {"", "."}:
            return ""
        raise DataError(f"its entry {name!r} has a name that may lead out of the file's place")
    return "" if key.endswith("/") else key
