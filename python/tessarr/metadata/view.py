"""Metadata of views that reinterpret the stored chunks of an array.

A view changes no stored value. It does not check that the new interpretation makes sense.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tessarr import dtype as dtypes
from tessarr.codec import ArrayArrayCodec, ArraySpec, Bytes, Chain, ShardingIndexed
from tessarr.codec.numcodecs_filters import ItemFilter
from tessarr.codec.read import to_codec as codec_of
from tessarr.errors import ArgumentError, UnsupportedError
from tessarr.format import chunk_shape
from tessarr.format.chunk_grid import grid_from_lengths
from tessarr.format.validation import Problems
from tessarr.metadata import v2
from tessarr.metadata.build import encode_fill_value
from tessarr.metadata.codec_roles import find_codec_roles, replace_innermost
from tessarr.metadata.node import check_codecs, check_sizes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tessarr.codec import ArrayBytesCodec, Codec, CodecLike
    from tessarr.dtype import DataType
    from tessarr.dtype.names import DataTypeLike
    from tessarr.format.chunk_grid import ChunkGrid
    from tessarr.metadata.node import ArrayMeta
    from tessarr.types import Missing, Shape

__all__ = ["cast_metadata", "describe_cast", "view_metadata"]


def view_metadata(
    meta: ArrayMeta,
    *,
    shape: Any = None,
    chunks: Any = None,
    dtype: DataTypeLike | None = None,
    fill_value: Any = None,
    filters: Sequence[CodecLike] | None = None,
) -> ArrayMeta:
    """Return the metadata of a view with another interpretation of the chunks.

    Parameters
    ----------
    meta
        The metadata of the array.
    shape, chunks, dtype, fill_value, filters
        The changes; None means no change. If only the data type changes, a fill value of the
        same size keeps its bytes.

    Raises
    ------
    ArgumentError
        If an argument is invalid, or if arguments do not fit each other.
    """
    data_type = meta.data_type if dtype is None else _to_data_type(meta, dtype)
    lengths = meta.shape if shape is None else chunk_shape.normalize_shape(shape)
    grid = meta.chunk_grid
    if chunks is not None:
        if meta.is_sharded:
            raise ArgumentError("cannot view shards with other chunks")
        grid = grid_from_lengths(chunk_shape.chunk_lengths(chunks, lengths, data_type.item_bytes))
    if fill_value is not None:
        fill: bytes | None = encode_fill_value(data_type, fill_value)
    else:
        fill = _convert_fill(meta, data_type, as_bytes=filters is None)
    chain, last_is_filter = _replace_codecs(
        meta,
        len(lengths),
        None if filters is None else [codec_of(codec) for codec in filters],
        None if data_type is meta.data_type else data_type,
    )
    if meta.zarr_format == 3 and data_type.big_endian:
        data_type = data_type.ordered("native")
        fill = None if fill is None else data_type.swapped(fill).tobytes()
    changed = replace(meta, data_type=data_type, fill_value=fill, last_is_filter=last_is_filter)
    viewed = _replace_layout(changed, lengths, grid, chain)
    _check_bytes(meta, viewed)
    return viewed


def cast_metadata(meta: ArrayMeta, dtype: DataTypeLike) -> ArrayMeta:
    """Return the metadata of a view that casts elements on read.

    Raises
    ------
    UnsupportedError
        If elements of the old or the new data type may have any length.
    """
    data_type = _to_data_type(meta, dtype)
    for current in (meta.data_type, data_type):
        if current.elements is not None:
            raise UnsupportedError(
                f"{current} cannot be cast as it is read: read it, and use NumPy's astype",
                kind="unsupported_data_type",
                extension=current.name,
            )
    filters: list[Codec] = [
        _Cast(meta.data_type, data_type),
        *find_codec_roles(meta).filters,
    ]
    chain, last_is_filter = _replace_codecs(meta, meta.rank, filters, None)
    fill = None
    if meta.fill_value is not None:
        fill = meta.data_type.single(meta.fill_value).astype(data_type.numpy).tobytes()
    changed = replace(meta, data_type=data_type, fill_value=fill, last_is_filter=last_is_filter)
    return _replace_layout(changed, meta.shape, meta.chunk_grid, chain)


@dataclass(frozen=True, slots=True, repr=False)
class _Cast(ItemFilter):
    """A filter that casts elements on read. Documents never contain it."""

    name = "tessarr.cast"
    stored: DataType
    decoded: DataType

    def types(self, dtype: np.dtype[Any]) -> tuple[np.dtype[Any], np.dtype[Any]]:
        return self.decoded.numpy, self.stored.numpy

    def native(self) -> _Cast:
        return self

    def __repr__(self) -> str:
        decoded, stored = self.types(self.decoded.numpy)
        return f"AsType(encode_dtype={stored.str!r}, decode_dtype={decoded.str!r})"


def describe_cast(
    meta: ArrayMeta, *, store_fill: bool = False, missing: Missing = "fill"
) -> dict[str, object]:
    """Return the description of a read-only view for the engine.

    If the view casts elements, and the engine casts them as NumPy does, the description has the
    stored elements and their cast in place of the filter.
    """
    filters = [*find_codec_roles(meta).filters]
    cast = filters.pop(0) if filters else None
    engine_types = _find_engine_types(cast, meta.data_type) if isinstance(cast, _Cast) else None
    if engine_types is None:
        return meta.description(store_fill=store_fill, missing=missing)
    assert isinstance(cast, _Cast)
    if filters and not cast.stored.numpy.isnative:
        # The filters expect elements in the stored byte order.
        return meta.description(store_fill=store_fill, missing=missing)
    chain, last_is_filter = _replace_codecs(meta, meta.rank, filters, None)
    # The engine swaps bytes of the serializer, not of the data type.
    chain = Chain(
        tuple(
            _choose_serializer(codec, cast.stored) if isinstance(codec, Bytes) else codec
            for codec in chain.codecs
        )
    )
    stored_type = cast.stored.ordered("native")
    changed = replace(meta, data_type=stored_type, fill_value=None, last_is_filter=last_is_filter)
    stored = _replace_layout(changed, meta.shape, meta.chunk_grid, chain)
    return {
        **stored.description(store_fill=store_fill, missing=missing),
        "dtype": meta.data_type.numpy,
        "cast": (*engine_types, meta.fill_or_default),
    }


def _find_engine_types(cast: _Cast, data_type: DataType) -> tuple[str, str] | None:
    """Return the engine's names of both types of a cast, if the engine casts as NumPy does."""
    source, target = cast.stored.numpy, data_type.numpy
    is_known = (
        cast.decoded == data_type
        and target.isnative
        and all(
            issubclass(kind.type, (np.bool_, np.number))  # no type of another package
            and kind.kind in "biufc"
            and kind.char not in "gG"
            for kind in (source, target)
        )
    )
    # The engine rounds doubles to half precision in two steps, and loses imaginary parts without
    # NumPy's warning.
    rounds_twice = source.itemsize == 8 and source.kind == "f" and target == np.float16
    loses_part = source.kind == "c" and target.kind != "c"
    if not is_known or rounds_twice or loses_part:
        return None
    return f"{source.kind}{source.itemsize}", f"{target.kind}{target.itemsize}"


def _to_data_type(meta: ArrayMeta, dtype: DataTypeLike) -> DataType:
    data_type = dtypes.to_data_type(dtype).in_format(meta.zarr_format)
    if data_type.numpy == meta.data_type.numpy:
        return meta.data_type
    return data_type


def _convert_fill(meta: ArrayMeta, data_type: DataType, *, as_bytes: bool) -> bytes | None:
    """Return the fill value for another data type: the same bytes, the same value, or a default."""
    fill = meta.fill_value
    if fill is None or data_type == meta.data_type:
        return fill
    fixed = data_type.elements is None and meta.data_type.elements is None
    if as_bytes and fixed and data_type.item_bytes == meta.data_type.item_bytes:
        if data_type.name == "bool":
            return b"\1" if any(fill) else b"\0"
        return fill
    try:
        return data_type.cast_fill(meta.data_type.scalar(fill))
    except (ValueError, TypeError, OverflowError):
        return data_type.default_fill()


def _replace_layout(meta: ArrayMeta, shape: Shape, grid: ChunkGrid, chain: Chain) -> ArrayMeta:
    """Return the metadata with another shape, grid and chain, after checking them."""
    problems = Problems()
    fitting = grid.fit(shape, "chunks", problems)
    spec = ArraySpec(next(grid.shapes()), meta.data_type, meta.fill_value)
    check_sizes(shape, spec, "shape", "chunks", problems)
    if fitting is not None and not len(problems):
        check_codecs(chain, fitting, spec, "codecs", problems)
    problems.check_arguments("view the array as this")
    assert fitting is not None
    return replace(
        meta,
        shape=shape,
        chunk_grid=fitting,
        codecs=chain.resolve(spec, meta.zarr_format),
        axis_names=meta.axis_names if len(shape) == meta.rank else None,
    )


def _check_bytes(meta: ArrayMeta, viewed: ArrayMeta) -> None:
    """Raise an error if the chunks of a view differ in encoded size from those of the array.

    The check ignores trailing codecs that both chains share, and encodings of variable size.
    """
    old, new = _find_innermost(meta), _find_innermost(viewed)
    shared = 0
    for old_codec, new_codec in zip(
        reversed(old[0].bytes_bytes), reversed(new[0].bytes_bytes), strict=False
    ):
        if old_codec != new_codec:
            break
        shared += 1
    sizes = []
    for chain, specs in (old, new):
        outer = chain.bytes_bytes[: len(chain.bytes_bytes) - shared]
        inner = Chain((*chain.array_array, chain.array_bytes, *outer))
        sizes.append({inner.encoded_bytes(spec) for spec in specs})
    before, after = sizes
    if before != after and None not in before | after:
        raise ArgumentError(
            f"the stored chunks have {_format_sizes(before)} bytes, those of the view "
            f"{_format_sizes(after)}: "
            "give chunks, and a shape, that go with the data type",
            kind="shape_mismatch",
        )


def _find_innermost(meta: ArrayMeta) -> tuple[Chain, list[ArraySpec]]:
    """Return the codecs and the specs of the innermost chunks."""
    chain = meta.codecs
    specs = [replace(meta.chunk_spec, shape=shape) for shape in meta.chunk_grid.shapes()]
    while isinstance(chain.array_bytes, ShardingIndexed):
        sharding = chain.array_bytes
        specs = [sharding.subchunk_spec(chain.encoded_spec(spec)) for spec in specs[:1]]
        chain = sharding.codecs
    return chain, specs


def _format_sizes(sizes: set[int | None]) -> str:
    return " or ".join(str(size) for size in sorted(size for size in sizes if size is not None))


def _replace_codecs(
    meta: ArrayMeta, rank: int, filters: list[Codec] | None, data_type: DataType | None
) -> tuple[Chain, bool]:
    """Replace the filters, and the serializer for another data type.

    Return the chain, and whether its last codec is a filter of format 2.
    """
    roles = find_codec_roles(meta)
    chosen = list(roles.filters) if filters is None else filters
    if meta.zarr_format == 2:
        compressor = next(iter(roles.compressors), None)
        chain = v2.build_chain(meta.order == "F", rank, list(chosen), compressor)
        return chain, bool(chosen) and compressor is None
    if not all(isinstance(codec, ArrayArrayCodec) for codec in chosen):
        raise ArgumentError("in format 3 filters are codecs from arrays to arrays")
    serializer = (
        roles.serializer if data_type is None else _choose_serializer(roles.serializer, data_type)
    )
    innermost = Chain((*chosen, serializer, *roles.compressors))
    return replace_innermost(meta.codecs, innermost), False


def _choose_serializer(serializer: ArrayBytesCodec, data_type: DataType) -> ArrayBytesCodec:
    """Return the serializer for a data type; in format 3 it has the byte order."""
    if not isinstance(serializer, Bytes) or data_type.unit_bytes == 1:
        return serializer
    if data_type.big_endian:
        return Bytes("big")
    return serializer if serializer.endian is not None else Bytes("little")
