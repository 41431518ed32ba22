"""Codecs from bytes to bytes by the standard library: ``bz2``, ``lzma`` and ``base64``."""

from __future__ import annotations

import binascii
import bz2
import lzma
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from tessarr.codec.base import BytesBytesCodec, deliver, register_codec, to_memoryview
from tessarr.codec.parameters import WrongParameter, check_choice, check_integer
from tessarr.errors import ArgumentError, DataError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tessarr.types import BytesLike, JSONObject

__all__ = ["BZ2", "LZMA", "Base64"]


UNBOUNDED = 2**62


class Decompressor(Protocol):
    """The interface of the decompressors of bz2 and lzma."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1, /) -> bytes: ...


def decompress(
    data: BytesLike,
    limit: int,
    start: Callable[[], Decompressor],
    errors: tuple[type[Exception], ...],
    name: str,
) -> bytes:
    """Decompress one or more concatenated streams.

    Parameters
    ----------
    data : bytes-like
        The streams.
    limit : int
        The maximum size of the result.
    start : callable
        Returns a new decoder for one stream.
    errors : tuple of exception classes
        The exceptions of the decoder for damaged data.
    name : str
        The codec, for messages.

    Raises
    ------
    DataError
        If the data is damaged or incomplete; ``wrong_size``, if the result exceeds the limit.
    """
    rest = bytes(memoryview(data))  # type: ignore[arg-type]
    parts: list[bytes] = []
    room = limit
    while rest or not parts:
        decoder = start()
        try:
            # One more byte than allowed detects a result beyond the limit.
            part = decoder.decompress(rest, room + 1)
        except errors as error:
            raise DataError(f"damaged: {error}", codec=name) from error
        room -= len(part)
        if room < 0:
            message = f"decodes to more than {limit} bytes"
            raise DataError(message, kind="wrong_size", codec=name)
        if not decoder.eof:
            raise DataError("the stream ends too early", codec=name)
        parts.append(part)
        rest = decoder.unused_data
    return b"".join(parts)


@register_codec
@dataclass(frozen=True, slots=True)
class BZ2(BytesBytesCodec):
    """Bzip2 compression, by the standard library.

    Parameters
    ----------
    level : int
        1 (fastest) to 9 (smallest).

    Examples
    --------
    >>> BZ2(9).to_json(2)
    {'id': 'bz2', 'level': 9}
    """

    name = "numcodecs.bz2"
    codec_id = "bz2"
    level: int = 1

    def __post_init__(self) -> None:
        check_integer("level", self.level, 1, 9)

    def encode(self, data: BytesLike, /) -> bytes:
        return bz2.compress(to_memoryview(data), self.level)

    def decode(self, data: BytesLike, /, out: BytesLike | None = None) -> BytesLike:
        return deliver(self.decode_at_most(data, UNBOUNDED), out)

    def decode_at_most(self, data: BytesLike, limit: int, /) -> bytes:
        return decompress(data, limit, bz2.BZ2Decompressor, (OSError, ValueError), "bz2")


_FORMATS: Final = (lzma.FORMAT_XZ, lzma.FORMAT_ALONE, lzma.FORMAT_RAW)
_CHECKS: Final = (-1, lzma.CHECK_NONE, lzma.CHECK_CRC32, lzma.CHECK_CRC64, lzma.CHECK_SHA256)
_MAX_MEMORY: Final = 1 << 29
"""The memory limit of a decoder in bytes; level 9 needs 65 MiB."""

_FILTER_MEMBERS: Final = frozenset(
    [
        *("id", "preset", "dict_size", "lc", "lp", "pb", "mode"),
        *("nice_len", "mf", "depth", "dist", "start_offset"),
    ]
)

Filter = tuple[tuple[str, int], ...]


@register_codec
@dataclass(frozen=True, slots=True)
class LZMA(BytesBytesCodec):
    """LZMA compression, by the standard library.

    Parameters
    ----------
    format : int
        1 (``lzma.FORMAT_XZ``), 2 (``FORMAT_ALONE``) or 3 (``FORMAT_RAW``).
    check : int
        The check of xz streams: -1 (the library's default), 0 (none), 1, 4 or 10.
    preset : int, optional
        0 (fastest) to 9 (smallest), plus 2**31 for the extreme variant.
    filters : sequence of mapping, optional
        The filters of the stream, as in the module lzma; excludes `preset`.

    Examples
    --------
    >>> LZMA(preset=1).to_json(2)
    {'id': 'lzma', 'format': 1, 'check': -1, 'preset': 1, 'filters': None}
    """

    name = "numcodecs.lzma"
    codec_id = "lzma"
    format: int = lzma.FORMAT_XZ
    check: int = -1
    preset: int | None = None
    filters: Sequence[Mapping[str, int]] | tuple[Filter, ...] | None = None

    def __post_init__(self) -> None:
        check_choice("format", self.format, _FORMATS)
        check_choice("check", self.check, _CHECKS)
        if self.preset is not None:
            low = 0 if self.preset < lzma.PRESET_EXTREME else lzma.PRESET_EXTREME
            check_integer("preset", self.preset, low, low + 9)
        if self.filters is not None:
            object.__setattr__(self, "filters", _normalize_filters(self.filters))
        elif self.format == lzma.FORMAT_RAW:
            raise WrongParameter("filters", None, "a list, which raw streams need", right_type=True)
        if self.format != lzma.FORMAT_XZ and self.check > 0:
            raise WrongParameter("check", self.check, "one that xz alone has", right_type=True)
        if self.filters is not None:
            self._check_filters()

    def __repr__(self) -> str:
        filters = self._library_filters()
        filters = filters and [dict(sorted(item.items())) for item in filters]
        start = f"LZMA(format={self.format}, check={self.check}, preset={self.preset}"
        return f"{start}, filters={filters})"

    def get_config(self) -> JSONObject:
        return {
            "id": self.codec_id,
            "format": self.format,
            "check": self.check,
            "preset": self.preset,
            "filters": self._library_filters(),
        }

    def encode(self, data: BytesLike, /) -> bytes:
        filters = self._library_filters()
        return lzma.compress(to_memoryview(data), self.format, self.check, self.preset, filters)

    def decode(self, data: BytesLike, /, out: BytesLike | None = None) -> BytesLike:
        return deliver(self.decode_at_most(data, UNBOUNDED), out)

    def decode_at_most(self, data: BytesLike, limit: int, /) -> bytes:
        def start() -> lzma.LZMADecompressor:
            if self.format == lzma.FORMAT_RAW:
                return lzma.LZMADecompressor(self.format, filters=self._library_filters())
            # Other streams state their filters.
            return lzma.LZMADecompressor(self.format, memlimit=_MAX_MEMORY)

        return decompress(data, limit, start, (lzma.LZMAError, EOFError), "lzma")

    def _check_filters(self) -> None:
        if self.preset is not None:
            raise WrongParameter("preset", self.preset, "null, as with filters", right_type=True)
        try:  # the library checks the combination of filters
            lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=self._library_filters())
        except (lzma.LZMAError, TypeError, ValueError, OverflowError) as error:
            raise ArgumentError(f"filters: lzma has no such filters: {error}") from error

    def _library_filters(self) -> list[dict[str, int]] | None:
        return None if self.filters is None else [dict(item) for item in self.filters]


def _normalize_filters(value: Any) -> tuple[Filter, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise WrongParameter("filters", value, "a list of objects", right_type=False)
    filters = []
    for item in value:
        members = dict(item) if isinstance(item, Mapping | tuple) else {}
        if "id" not in members or not members.keys() <= _FILTER_MEMBERS:
            raise WrongParameter("filters", value, "a list of lzma's filters", right_type=True)
        for name, number in members.items():
            most = _MAX_MEMORY // 4 if name == "dict_size" else 2**63 - 1
            check_integer("filters", number, 0, most)
        filters.append(tuple(members.items()))
    return tuple(filters)


@register_codec
@dataclass(frozen=True, slots=True)
class Base64(BytesBytesCodec):
    """Bytes as text of the alphabet A-Z, a-z, 0-9, + and /.

    Examples
    --------
    >>> Base64().encode(b"any bytes")
    b'YW55IGJ5dGVz'
    """

    name = "numcodecs.base64"
    codec_id = "base64"

    def encoded_bytes(self, size: int) -> int:
        return -(-size // 3) * 4

    def encode(self, data: BytesLike, /) -> bytes:
        return binascii.b2a_base64(to_memoryview(data).cast("B"), newline=False)

    def decode(self, data: BytesLike, /, out: BytesLike | None = None) -> BytesLike:
        try:
            decoded = binascii.a2b_base64(memoryview(data), strict_mode=True)  # type: ignore[arg-type]
        except binascii.Error as error:
            raise DataError(f"not base64: {error}", codec=self.codec_id) from error
        return deliver(decoded, out)
