"""The codec ``lzma``: xz, lzma and raw streams (numcodecs id ``lzma``)."""

from __future__ import annotations

import lzma
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tessarr.codec.base import BytesBytesCodec, deliver, register_codec, to_memoryview
from tessarr.codec.parameters import WrongParameter, check_choice, check_integer
from tessarr.codec.streamed import UNBOUNDED, decompress
from tessarr.errors import ArgumentError

if TYPE_CHECKING:
    from tessarr.types import BytesLike, JSONObject

__all__ = ["LZMA"]

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
