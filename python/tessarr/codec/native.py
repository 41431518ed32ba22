"""Runs one codec of the engine by itself, for the ``encode`` and ``decode`` of codec classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tessarr.codec.base import BytesBytesCodec, deliver, to_memoryview

if TYPE_CHECKING:
    from tessarr.types import BytesLike

__all__ = ["NativeCodec"]


class NativeCodec(BytesBytesCodec):
    """A codec from bytes to bytes that the engine has."""

    __slots__ = ()

    def engine(self) -> dict[str, object]:
        """Return the codec as the engine takes it."""
        raise NotImplementedError

    def encode(self, data: BytesLike, /) -> bytes:
        """Encode bytes."""
        from tessarr import _engine  # here, so that metadata can be read without the extension

        return _engine.encode(self.engine(), to_memoryview(data))

    def decode(self, data: BytesLike, /, out: BytesLike | None = None) -> BytesLike:
        """Decode bytes, into the buffer `out` where one is given."""
        from tessarr import _engine

        size = None if out is None else memoryview(out).nbytes  # type: ignore[arg-type]
        return deliver(_engine.decode(self.engine(), data, size), out)

    def decode_at_most(self, data: BytesLike, limit: int, /) -> bytes:
        """Decode bytes; more than `limit` are an error."""
        from tessarr import _engine

        return _engine.decode(self.engine(), data, None, limit)
