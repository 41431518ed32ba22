"""Roles of an array's codecs: filter, serializer, compressor, and codec of whole shards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tessarr.codec import Bytes, Chain, ShardingIndexed

if TYPE_CHECKING:
    from tessarr.codec import ArrayBytesCodec, Codec
    from tessarr.metadata.node import ArrayMeta

__all__ = ["CodecRoles", "find_codec_roles", "replace_innermost"]


@dataclass(frozen=True, slots=True)
class CodecRoles:
    """The codecs of the innermost chunks by role.

    Parameters
    ----------
    filters : tuple of Codec
        The codecs from arrays to arrays; in format 2 all filters.
    serializer : ArrayBytesCodec
        The codec from arrays to bytes.
    compressors : tuple of Codec
        The codecs from bytes to bytes; at most one in format 2.
    shard_codecs : tuple of Codec
        The codecs of whole shards, without the sharding codec.
    """

    filters: tuple[Codec, ...]
    serializer: ArrayBytesCodec
    compressors: tuple[Codec, ...]
    shard_codecs: tuple[Codec, ...] = ()


def find_codec_roles(meta: ArrayMeta) -> CodecRoles:
    """Return the codecs of an array by role, and cache them in the metadata.

    Examples
    --------
    >>> import tessarr
    >>> a = tessarr.zeros(10, dtype="i4", shards=10, chunks=5, compressors="zstd")
    >>> find_codec_roles(a.metadata).compressors
    (Zstd(level=0, checksum=False),)
    """
    roles: CodecRoles | None = meta.derived.get(CodecRoles)
    if roles is None:
        roles = meta.derived[CodecRoles] = _find_codec_roles(meta)
    return roles


def _find_codec_roles(meta: ArrayMeta) -> CodecRoles:
    chain = meta.codecs
    shard_codecs: list[Codec] = []
    while isinstance(chain.array_bytes, ShardingIndexed):
        shard_codecs += [*chain.array_array, *chain.bytes_bytes]
        chain = chain.array_bytes.codecs
    if meta.zarr_format == 3:
        return CodecRoles(
            chain.array_array, chain.array_bytes, chain.bytes_bytes, tuple(shard_codecs)
        )
    # Order F, the first codec, is not a filter, and documents do not contain ``bytes``.
    arrays = chain.array_array[meta.order == "F" :]
    objects = () if isinstance(chain.array_bytes, Bytes) else (chain.array_bytes,)
    codecs: tuple[Codec, ...] = (*arrays, *objects, *chain.bytes_bytes)
    end = len(codecs) - (not meta.last_is_filter)
    return CodecRoles(codecs[: max(end, 0)], chain.array_bytes, codecs[max(end, 0) :])


def replace_innermost(chain: Chain, innermost: Chain) -> Chain:
    """Replace the codecs of the innermost chunks of a chain, with or without shards."""
    sharding = chain.array_bytes
    if not isinstance(sharding, ShardingIndexed):
        return innermost
    inner = replace_innermost(sharding.codecs, innermost)
    changed = ShardingIndexed(
        sharding.chunk_shape, inner, sharding.index_codecs, sharding.index_location
    )
    return Chain(tuple(changed if codec is sharding else codec for codec in chain.codecs))
