"""Codec chains of new arrays: default codecs, adaptation to the data type, and checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tessarr.codec import ArrayBytesCodec, Bytes, Chain, ShardingIndexed, Transpose
from tessarr.codec.base import find_codec, find_codec_by_id
from tessarr.codec.blosc import MAX_BUFFER_BYTES, Blosc
from tessarr.codec.elements import VLenArray, VLenBytes, VLenUTF8
from tessarr.dtype.objects import Ragged
from tessarr.metadata import v2

if TYPE_CHECKING:
    from tessarr.codec import ArraySpec, BytesBytesCodec, Codec
    from tessarr.dtype.base import DataType
    from tessarr.format.validation import Problems
    from tessarr.types import ZarrFormat

__all__ = [
    "build_chain_v2",
    "check_storable",
    "default_codecs",
    "default_serializer",
    "fit_chain",
]


def fit_chain(chain: Chain, data_type: DataType) -> Chain:
    """Replace a default ``bytes`` codec by the default serializer of the data type."""
    codecs: list[Codec] = []
    for codec in chain.codecs:
        if codec == Bytes():
            codecs.append(default_serializer(data_type))
        elif isinstance(codec, ShardingIndexed):
            inner = fit_chain(codec.codecs, data_type)
            index, location = codec.index_codecs, codec.index_location
            codecs.append(ShardingIndexed(codec.chunk_shape, inner, index, location))
        else:
            codecs.append(codec)
    return Chain(tuple(codecs))


def build_chain_v2(
    fortran: bool, rank: int, filters: list[Codec], compressor: Codec | None
) -> Chain:
    """Return the chain of format 2; an initial transpose in `filters` becomes order F."""
    if filters and _is_fortran(filters[0], rank):
        fortran = True
        del filters[0]
    return v2.build_chain(fortran, rank, filters, compressor)


def _is_fortran(codec: Codec, rank: int) -> bool:
    """Tell whether a codec is equivalent to order F of format 2."""
    reverse = tuple(reversed(range(rank)))
    return isinstance(codec, Transpose) and codec.axes(rank) == reverse


def check_storable(
    chain: Chain, spec: ArraySpec, zarr_format: ZarrFormat, problems: Problems
) -> None:
    """Add problems for codecs that metadata can state, but that cannot write chunks."""
    encoded = chain.encoded_spec(spec)
    if isinstance(chain.array_bytes, ShardingIndexed):
        inner = chain.array_bytes.subchunk_spec(encoded)
        check_storable(chain.array_bytes.codecs, inner, zarr_format, problems)
    for codec in chain.codecs:
        if isinstance(codec, Blosc) and encoded.size_bytes > MAX_BUFFER_BYTES:
            message = (
                f"{encoded.size_bytes} bytes are too many for blosc: at most {MAX_BUFFER_BYTES}"
            )
            problems.add("chunks", message, "too_large")
        if zarr_format == 3:
            if not codec.name:
                kind, hint = "unsupported_codec", " in format 3: give zarr_format=2"
                problems.unsupported("codecs", "codec", codec.label, kind=kind, hint=hint)
            continue
        order = codec is chain.codecs[0] and _is_fortran(codec, len(spec.shape))
        if codec.codec_id is None and not order and not isinstance(codec, Bytes):
            other = find_codec_by_id(codec.name)
            hint = f"; what it calls so is tessarr.codecs.{other.__name__}" if other else ""
            message = f"format 2 has no codec {codec.label!r}{hint}"
            problems.add("codecs", message, "mismatch")


def default_codecs(data_type: DataType, *, filtered: bool = False) -> tuple[BytesBytesCodec, ...]:
    """Return the compressors of new arrays of `data_type`, in both formats.

    With `filtered`, filters may change the size of the elements before the compressors.

    Examples
    --------
    >>> from tessarr import dtype
    >>> default_codecs(dtype.to_data_type("int32"))
    (Blosc(cname='lz4', clevel=5, shuffle=1),)
    """
    if data_type.elements is not None:
        return (Blosc(shuffle=Blosc.NOSHUFFLE),)  # the bytes of text have no columns
    return (Blosc(typesize=None if filtered else data_type.item_bytes),)


def default_serializer(data_type: DataType) -> ArrayBytesCodec:
    """Return the serializer of elements, with ``bytes`` in an open byte order.

    Examples
    --------
    >>> from tessarr import dtype
    >>> default_serializer(dtype.to_data_type(str)), default_serializer(dtype.to_data_type("int32"))
    (VLenUTF8(), Bytes(endian=None))
    """
    if data_type.serializer:
        serializer = find_codec(data_type.serializer)
        assert serializer is not None
        assert issubclass(serializer, ArrayBytesCodec)
        return serializer()
    if data_type.elements is None:
        return Bytes()
    if isinstance(data_type, Ragged):
        return VLenArray(data_type.item.str)
    if data_type.elements == "text":
        return VLenUTF8()
    return VLenBytes() if data_type.elements == "bytes" else Bytes()
