"""The codec ``base64``: bytes as text (numcodecs id ``base64``; RFC 4648, section 4)."""

from __future__ import annotations

import binascii
from dataclasses import dataclass

from tessarr.codec.base import BytesBytesCodec, deliver, register_codec, to_memoryview
from tessarr.errors import DataError
from tessarr.types import BytesLike

__all__ = ["Base64"]


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
