"""The codecs of arrays for which none are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tessarr.codec.base import BytesBytesCodec
    from tessarr.dtype import DataType

__all__ = ["default_codecs"]


def default_codecs(data_type: DataType) -> tuple[BytesBytesCodec, ...]:
    """Return the compressors of new arrays of `data_type`, in both formats.

    Examples
    --------
    >>> from tessarr import dtype
    >>> default_codecs(dtype.of("int32"))
    (Blosc(cname='lz4', clevel=5, shuffle=1, blocksize=0, typesize=None),)
    """
    from tessarr.codec.blosc import Blosc

    del data_type  # all fixed-size types are served the same
    return (Blosc(cname="lz4", clevel=5, shuffle=1),)
