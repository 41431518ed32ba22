"""The default codecs of new arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tessarr.codec.base import ArrayBytesCodec, find_codec

if TYPE_CHECKING:
    from tessarr.codec.base import BytesBytesCodec
    from tessarr.dtype import DataType

__all__ = ["default_codecs", "default_serializer"]


def default_codecs(data_type: DataType) -> tuple[BytesBytesCodec, ...]:
    """Return the compressors of new arrays of `data_type`, in both formats.

    Examples
    --------
    >>> from tessarr import dtype
    >>> default_codecs(dtype.to_data_type("int32"))
    (Blosc(cname='lz4', clevel=5, shuffle=1),)
    """
    from tessarr.codec.blosc import Blosc

    shuffle = 1 if data_type.elements is None else 0  # the bytes of text have no columns
    return (Blosc(cname="lz4", clevel=5, shuffle=shuffle),)


def default_serializer(data_type: DataType) -> ArrayBytesCodec | None:
    """Return the serializer for elements that ``bytes`` does not accept, or None.

    Examples
    --------
    >>> from tessarr import dtype
    >>> default_serializer(dtype.to_data_type(str)), default_serializer(dtype.to_data_type("int32"))
    (VLenUTF8(), None)
    """
    if data_type.serializer:
        serializer = find_codec(data_type.serializer)
        assert serializer is not None
        assert issubclass(serializer, ArrayBytesCodec)
        return serializer()
    if data_type.elements is None:
        return None
    from tessarr.codec.vlen_array import VLenArray
    from tessarr.codec.vlen_bytes import VLenBytes
    from tessarr.codec.vlen_utf8 import VLenUTF8
    from tessarr.dtype.objects import Ragged

    if isinstance(data_type, Ragged):
        return VLenArray(data_type.item.str)
    if data_type.elements == "text":
        return VLenUTF8()
    return VLenBytes() if data_type.elements == "bytes" else None
