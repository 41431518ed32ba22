"""Bounded decompression with the compressors of the standard library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tessarr.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tessarr.types import BytesLike

__all__ = ["UNBOUNDED", "decompress"]

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
