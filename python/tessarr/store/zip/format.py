"""The Zip file format: parse records with checks, and build records.

Theory
------
A Zip file consists of entries, each a *local header* and (compressed) bytes; the *central
directory*, with a record per entry that has the offset of its local header; and the *end record*
with the offset of the central directory. Sizes beyond 32 bits are in additional "zip64" fields.
Readers start at the end: only entries in the directory exist, and the last of several entries
with one name is valid (PKWARE APPNOTE 4.3).

Readers must reject hostile files: entries that overlap (a bomb of few bytes that decompresses to
petabytes), entries with impossible sizes, names that lead out of the target folder, and a
directory at another offset than that in the end record.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from tessarr import _engine
from tessarr.errors import ArgumentError, DataError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Read = Callable[[int, int], bytes]

__all__ = [
    "METHODS",
    "Directory",
    "Entry",
    "apply_zip64",
    "build_directory",
    "build_local_header",
    "check_size",
    "compress",
    "decompress",
    "find_data",
    "get_flags",
    "read_directory",
    "read_records",
]

LOCAL: Final = struct.Struct("<4s5HIIIHH")
RECORD: Final = struct.Struct("<4s6HIII5HII")
END: Final = struct.Struct("<4s4HIIH")
END64: Final = struct.Struct("<4sQHHIIQQQQ")
LOCATOR: Final = struct.Struct("<4sIQI")

LOCAL_MARK: Final = b"PK\3\4"
RECORD_MARK: Final = b"PK\1\2"
END_MARK: Final = b"PK\5\6"
END64_MARK: Final = b"PK\6\6"
LOCATOR_MARK: Final = b"PK\6\7"

LAYOUTS: Final = {
    RECORD_MARK: RECORD,
    END64_MARK: END64,
    LOCATOR_MARK: LOCATOR,
    END_MARK: END,
}

PERMISSIONS: Final = 0o100644 << 16

STORED, DEFLATED, BZIP2, LZMA, ZSTD, XZ = 0, 8, 12, 14, 93, 95
METHODS: Final = frozenset((STORED, DEFLATED, BZIP2, LZMA, ZSTD, XZ))

_ENCRYPTED: Final = 0x1
DESCRIBED: Final = 0x8  # the sizes follow the bytes
UTF8: Final = 0x800
_MARKED: Final = 0x2  # the LZMA data end with a marker
_FULL16: Final = 0xFFFF
_FULL32: Final = 0xFFFFFFFF
_MAX_EXTRA: Final = 1024  # bytes of a local header's extra field; a larger gap is garbage
# Maximum compression ratios: deflate encodes at most 258 bytes in two bits, Zstandard a block of
# 128 KiB in four bytes, LZMA 273 bytes in fourteen binary choices of at least 1/45 bit each, and
# bzip2 a block of 46 MB in 40 bytes.
_MAX_RATIO: Final = {DEFLATED: 1032, ZSTD: 1 << 15, LZMA: 1 << 13, XZ: 1 << 13, BZIP2: 1 << 21}
_ZSTD: Final = {"name": "zstd", "level": 3, "checksum": False}
_XZ_MEMORY: Final = 1 << 28  # more than the strongest preset needs


class Entry(NamedTuple):
    """One entry of the central directory; a tuple, since a file may have very many.

    Attributes
    ----------
    name : bytes
        The stored name; `flags` contains whether it is UTF-8.
    offset, limit
        The offset of the local header, and the offset of the next entry.
    method, crc, packed, size, flags, modified, attributes
        The compression method, the CRC-32 of the value, its compressed and uncompressed size,
        and fields for other programs.
    """

    name: bytes
    offset: int
    limit: int
    method: int
    crc: int
    packed: int
    size: int
    flags: int
    modified: int
    attributes: int

    @property
    def key(self) -> str:
        """The name as text."""
        try:
            return self.name.decode("utf-8" if self.flags & UTF8 else "cp437")
        except UnicodeDecodeError as error:
            raise DataError(f"the name {self.name!r} of an entry is not UTF-8") from error


@dataclass(frozen=True, slots=True)
class Directory:
    """The entries of a Zip file by key, and the position of its directory.

    Attributes
    ----------
    entries : dict
        The entries by key; a later entry replaces an earlier one with the same name.
    start : int
        The offset of the first entry; other data may precede it.
    end : int
        The offset of the directory.
    garbage : int
        The approximate number of unused bytes.
    """

    entries: dict[str, Entry]
    start: int
    end: int
    garbage: int


def build_local_header(entry: Entry, more: bytes = b"") -> bytes:
    """Return the local header of an entry; `more` is another extra field."""
    large = entry.size >= _FULL32 or entry.packed >= _FULL32
    extra = struct.pack("<HHQQ", 1, 16, entry.size, entry.packed) if large else b""
    extra += more
    return (
        LOCAL.pack(
            LOCAL_MARK,
            _get_version(entry, large=large),
            entry.flags,
            entry.method,
            entry.modified & _FULL16,
            entry.modified >> 16,
            entry.crc,
            _FULL32 if large else entry.packed,
            _FULL32 if large else entry.size,
            len(entry.name),
            len(extra),
        )
        + entry.name
        + extra
    )


def build_directory(entries: Iterable[Entry], offset: int) -> bytes:
    """Return the central directory and the end record of a file, for `offset`."""
    records = [_build_record(entry) for entry in entries]
    directory = b"".join(records)
    count, size = len(records), len(directory)
    end = END.pack(
        END_MARK,
        0,
        0,
        min(count, _FULL16),
        min(count, _FULL16),
        min(size, _FULL32),
        min(offset, _FULL32),
        0,
    )
    if count < _FULL16 and size < _FULL32 and offset < _FULL32:
        return directory + end
    end64 = END64.pack(END64_MARK, END64.size - 12, 45, 45, 0, 0, count, count, size, offset)
    return directory + end64 + LOCATOR.pack(LOCATOR_MARK, 0, offset + size, 1) + end


def _build_record(entry: Entry) -> bytes:
    fields = (entry.size, entry.packed, entry.offset)
    wide = [field for field in fields if field >= _FULL32]
    extra = struct.pack(f"<HH{len(wide)}Q", 1, 8 * len(wide), *wide) if wide else b""
    size, packed, offset = (min(field, _FULL32) for field in fields)
    version = _get_version(entry, large=bool(wide))
    return (
        RECORD.pack(
            RECORD_MARK,
            3 << 8 | version,  # created on Unix: the attributes are permissions
            version,
            entry.flags,
            entry.method,
            entry.modified & _FULL16,
            entry.modified >> 16,
            entry.crc,
            packed,
            size,
            len(entry.name),
            len(extra),
            0,
            0,
            0,
            entry.attributes,
            offset,
        )
        + entry.name
        + extra
    )


def _get_version(entry: Entry, *, large: bool) -> int:
    return max(45 if large else 20, {BZIP2: 46, LZMA: 63, ZSTD: 63, XZ: 63}.get(entry.method, 20))


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
    entries = read_records(read(start, end - start), shift)
    if len(entries) != count:
        raise DataError(f"the directory has {len(entries)} entries, not {count} as the end says")
    return _check_entries(entries, start)


def _find_directory(read: Read, size: int) -> tuple[int, int, int, int]:
    """Return start and end of the directory, its entry count, and the shift of offsets."""
    tail_at = max(0, size - END.size - _FULL16)
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
            limits = (_FULL16, _FULL16, _FULL16, _FULL16, _FULL32, _FULL32)
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


def read_records(directory: bytes, shift: int = 0) -> list[Entry]:
    """Return the entries of a central directory; add `shift` to their offsets."""
    entries: list[Entry] = []
    position = 0
    while position < len(directory):
        if position + RECORD.size > len(directory):
            raise DataError("its directory ends in the middle of an entry")
        fields = RECORD.unpack_from(directory, position)
        mark, _, _, flags, method, time, date, crc, packed, size = fields[:10]
        name_length, extra_length, comment_length, _, _, attributes, offset = fields[10:]
        position += RECORD.size
        after = position + name_length + extra_length + comment_length
        if mark != RECORD_MARK or after > len(directory):
            raise DataError("its directory is damaged")
        name = directory[position : position + name_length]
        if _FULL32 in (size, packed, offset):
            extra = directory[position + name_length : position + name_length + extra_length]
            size, packed, offset = apply_zip64(extra, size, packed, offset)
        position = after
        entries.append(
            Entry(
                name,
                offset + shift,
                0,
                method,
                crc,
                packed,
                size,
                flags,
                date << 16 | time,
                attributes,
            )
        )
    return entries


def apply_zip64(extra: bytes, *fields: int) -> list[int]:
    """Return fields, with values of the zip64 extra field instead of overflowing plain values."""
    position = 0
    while position + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, position)
        wide = extra[position + 4 : position + 4 + length]
        position += 4 + length
        if kind == 1:
            values = iter(struct.unpack(f"<{len(wide) // 8}Q", wide[: len(wide) // 8 * 8]))
            return [next(values, field) if field == _FULL32 else field for field in fields]
    return list(fields)


def _check_entries(all_entries: list[Entry], end: int) -> Directory:
    """Raise an error if entries overlap, or have impossible sizes or names."""
    ordered = sorted(all_entries, key=lambda entry: entry.offset)
    limits = [*(entry.offset for entry in ordered), end][1:]
    limited: dict[int, int] = {}
    for entry, limit in zip(ordered, limits, strict=True):
        if entry.offset + LOCAL.size + len(entry.name) + entry.packed > limit:
            raise DataError(f"its entry {entry.key!r} overlaps what follows it")
        limited[entry.offset] = limit
    entries: dict[str, Entry] = {}
    garbage = 0
    for entry in all_entries:
        key = _check_key(entry.key)
        check_size(entry)
        if not key:
            continue
        limit = limited[entry.offset]
        gap = limit - entry.offset - LOCAL.size - len(entry.name) - entry.packed
        garbage += gap if gap > _MAX_EXTRA else 0
        old = entries.pop(key, None)
        if old is not None:
            garbage += old.limit - old.offset
        entries[key] = entry._replace(limit=limit)
    return Directory(entries, ordered[0].offset if ordered else end, end, garbage)


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


def check_size(entry: Entry) -> None:
    """Raise an error if an entry claims a size that its bytes cannot have."""
    max_ratio = _MAX_RATIO.get(entry.method)
    whole = entry.method == STORED and not entry.flags & _ENCRYPTED
    if (whole and entry.size != entry.packed) or (
        max_ratio is not None and entry.size > (entry.packed + 1) * max_ratio
    ):
        raise DataError(
            f"its entry {entry.key!r} claims that {entry.packed} bytes unpack to {entry.size}"
        )


def find_data(entry: Entry, header: bytes) -> int:
    """Return the offset of an entry's bytes; `header` is its local header."""
    if len(header) >= LOCAL.size:
        mark, *_, name_length, extra_length = LOCAL.unpack_from(header)
        start: int = LOCAL.size + name_length + extra_length
        name = header[LOCAL.size : LOCAL.size + name_length]
        fits = entry.offset + start + entry.packed <= entry.limit
        if mark == LOCAL_MARK and name == entry.name and fits:
            return entry.offset + start
    raise DataError("its local header does not fit its entry in the directory")


def get_flags(name: str, method: int) -> int:
    """Return the flags of a new entry."""
    return (0 if name.isascii() else UTF8) | (_MARKED if method == LZMA else 0)


def compress(data: bytes, method: int) -> bytes:
    """Return the bytes of an entry by a method of `METHODS`."""
    if method == DEFLATED:
        packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        return packer.compress(data) + packer.flush()
    if method == BZIP2:
        import bz2

        return bz2.compress(data)
    if method == LZMA:
        import lzma

        properties = {"dict_size": 1 << 23, "lc": 3, "lp": 0, "pb": 2}
        filters = [{"id": lzma.FILTER_LZMA1, **properties}]
        packed = lzma.compress(data, lzma.FORMAT_RAW, filters=filters)
        return struct.pack("<BBHBI", 9, 4, 5, (2 * 5 + 0) * 9 + 3, 1 << 23) + packed
    if method == ZSTD:
        return _engine.encode(_ZSTD, data)
    if method == XZ:
        import lzma

        return lzma.compress(data)
    if method != STORED:
        raise ArgumentError(
            f"compression {method!r} is not one of {', '.join(map(str, sorted(METHODS)))}: "
            "ZIP_STORED, ZIP_DEFLATED, ZIP_BZIP2 and ZIP_LZMA of zipfile, Zstandard and xz"
        )
    return data


def decompress(packed: bytes, entry: Entry) -> bytes:
    """Decompress the bytes of an entry; check size and checksum.

    The function decompresses no more bytes than the entry claims.
    """
    if entry.flags & _ENCRYPTED:
        raise UnsupportedError("encrypted entries of Zip files are not supported")
    if entry.method not in METHODS:
        raise UnsupportedError(f"compression method {entry.method} of Zip files is not supported")
    try:
        data = packed if entry.method == STORED else _decompress(packed, entry)
    except (zlib.error, OSError, EOFError, ValueError) as error:
        raise DataError(f"its bytes cannot be unpacked: {error}") from error
    if len(data) != entry.size:
        more = "more" if len(data) > entry.size else f"{len(data)}"
        raise DataError(f"it unpacks to {more}, not to {entry.size} bytes", kind="wrong_size")
    if zlib.crc32(data) != entry.crc:
        raise DataError(
            f"its CRC-32 is {zlib.crc32(data):08x}, not {entry.crc:08x}",
            kind="checksum_mismatch",
        )
    return data


def _decompress(packed: bytes, entry: Entry) -> bytes:
    max_bytes = entry.size + 1
    if entry.method == DEFLATED:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, max_bytes)
    if entry.method == BZIP2:
        import bz2

        return bz2.BZ2Decompressor().decompress(packed, max_bytes)
    if entry.method == ZSTD:
        return _engine.decode(_ZSTD, packed, None, entry.size)
    if entry.method == XZ:
        return _decompress_xz(packed, max_bytes)
    return _decompress_lzma(packed, max_bytes)


def _decompress_xz(packed: bytes, max_bytes: int) -> bytes:
    import lzma

    try:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, _XZ_MEMORY).decompress(packed, max_bytes)
    except lzma.LZMAError as error:
        raise ValueError(str(error)) from error


def _decompress_lzma(packed: bytes, max_bytes: int) -> bytes:
    import lzma

    if len(packed) < 9 or packed[2:4] != b"\5\0":
        raise ValueError("the properties of LZMA are missing")
    rest, dict_size = packed[4], int.from_bytes(packed[5:9], "little")
    settings = {"lc": rest % 9, "lp": rest // 9 % 5, "pb": rest // 45}
    # A dictionary larger than the decompressed data is useless.
    settings["dict_size"] = max(1 << 12, min(dict_size, max_bytes))
    filters = [{"id": lzma.FILTER_LZMA1, **settings}]
    try:
        return lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=filters).decompress(
            packed[9:], max_bytes
        )
    except lzma.LZMAError as error:
        raise ValueError(str(error)) from error
