"""The entries of Zip files: local headers, sizes and compression.

Theory
------
A Zip file consists of entries, each a *local header* and (compressed) bytes; the *central
directory*, with a record per entry that has the offset of its local header; and the *end record*
with the offset of the central directory. Sizes beyond 32 bits are in additional "zip64" fields.
Readers start at the end: only entries in the directory exist, and the last of several entries
with one name is valid (PKWARE APPNOTE 4.3).
"""

from __future__ import annotations

import struct
import zlib
from typing import Final, NamedTuple

from tessarr import _engine
from tessarr.errors import ArgumentError, DataError, UnsupportedError

__all__ = [
    "METHODS",
    "Entry",
    "apply_zip64",
    "build_local_header",
    "check_size",
    "compress",
    "decompress",
    "find_data",
    "get_flags",
    "get_version",
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
FULL16: Final = 0xFFFF
FULL32: Final = 0xFFFFFFFF
# Maximum compression ratios: deflate encodes at most 258 bytes in two bits, Zstandard a block of
# 128 KiB in four bytes, LZMA 273 bytes in fourteen binary choices of at least 1/45 bit each, and
# bzip2 a block of 46 MB in 40 bytes.
_MAX_RATIO: Final = {DEFLATED: 1032, ZSTD: 1 << 15, LZMA: 1 << 13, XZ: 1 << 13, BZIP2: 1 << 21}
MIN_RATIO: Final = min(_MAX_RATIO.values())  # smaller ratios are valid for all these methods
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


def build_local_header(entry: Entry, more: bytes = b"") -> bytes:
    """Return the local header of an entry; `more` is another extra field."""
    large = entry.size >= FULL32 or entry.packed >= FULL32
    extra = struct.pack("<HHQQ", 1, 16, entry.size, entry.packed) if large else b""
    extra += more
    return (
        LOCAL.pack(
            LOCAL_MARK,
            get_version(entry.method, large=large),
            entry.flags,
            entry.method,
            entry.modified & FULL16,
            entry.modified >> 16,
            entry.crc,
            FULL32 if large else entry.packed,
            FULL32 if large else entry.size,
            len(entry.name),
            len(extra),
        )
        + entry.name
        + extra
    )


def get_version(method: int, *, large: bool) -> int:
    """Return the version of the format that a reader of an entry needs."""
    return max(45 if large else 20, {BZIP2: 46, LZMA: 63, ZSTD: 63, XZ: 63}.get(method, 20))


def apply_zip64(extra: bytes, *fields: int) -> list[int]:
    """Return fields, with values of the zip64 extra field instead of overflowing plain values."""
    position = 0
    while position + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, position)
        wide = extra[position + 4 : position + 4 + length]
        position += 4 + length
        if kind == 1:
            values = iter(struct.unpack(f"<{len(wide) // 8}Q", wide[: len(wide) // 8 * 8]))
            return [next(values, field) if field == FULL32 else field for field in fields]
    return list(fields)


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
