"""Decoding with the compressors of the standard library, to a bounded number of bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tessarr.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tessarr.types import BytesLike

__all__ = ["UNBOUNDED", "decompress"]

UNBOUNDED = 2**62


class Decompressor(Protocol):
    """What the modules bz2 and lzma have in common."""

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
    """Return what one or more streams decode to.

    Parameters
    ----------
    data : bytes-like
        The streams, one after the other.
    limit : int
        The most bytes that they may decode to.
    start : callable
        Makes the decoder of one stream.
    errors : tuple of exception classes
        What it raises where bytes are damaged.
    name : str
        The codec, for messages.

    Raises
    ------
    DataError
        Where the bytes are damaged or end too early; ``wrong_size``, where there are too many.
    """
    rest = bytes(memoryview(data))  # type: ignore[arg-type]
    parts: list[bytes] = []
    room = limit
    while rest or not parts:
        decoder = start()
        try:
            # One more than allowed, to see that there is more.
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
