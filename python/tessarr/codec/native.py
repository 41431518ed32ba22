"""The base class of codecs that the engine implements."""

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
        """Return the description of the codec for the engine."""
        raise NotImplementedError

    def encode(self, data: BytesLike, /) -> bytes:
        """Encode bytes."""
        from tessarr import _engine  # a late import: metadata does not need the engine

        return _engine.encode(self.engine(), to_memoryview(data))

    def decode(self, data: BytesLike, /, out: BytesLike | None = None) -> BytesLike:
        """Decode bytes, into the buffer `out` if it is not None."""
        from tessarr import _engine

        size = None if out is None else memoryview(out).nbytes  # type: ignore[arg-type]
        return deliver(_engine.decode(self.engine(), data, size), out)

    def decode_at_most(self, data: BytesLike, limit: int, /) -> bytes:
        """Decode bytes; more than `limit` are an error."""
        from tessarr import _engine

        return _engine.decode(self.engine(), data, None, limit)
