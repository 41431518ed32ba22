"""The codec ``sharding_indexed``: chunks within a chunk (Zarr 3 codecs/sharding-indexed).

The codec divides a *shard* into *subchunks* and encodes each of them separately. The *shard index*
before or after the subchunks has the offset and length of every subchunk, or 2**64 - 1 twice for
an absent one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from tessarr import dtype
from tessarr.codec.base import ArrayBytesCodec, ArraySpec, register_codec
from tessarr.codec.bytes import Bytes
from tessarr.codec.chain import Chain, to_flat_array
from tessarr.codec.parameters import check_choice
from tessarr.errors import ArgumentError, DataError
from tessarr.format.validation import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tessarr.codec.read import CodecLike
    from tessarr.format.validation import Members, Problems
    from tessarr.types import BytesLike, Shape, ZarrFormat

__all__ = ["IndexLocation", "ShardingIndexed"]

IndexLocation = Literal["start", "end"]
MAX_SUBCHUNKS: Final = 1 << 30
"""The maximum number of subchunks of a shard, as in TensorStore."""

_ABSENT_SUBCHUNK: Final = 2**64 - 1
_LOCATIONS: Final = ("start", "end")
_INDEX_CODECS: Final = (Bytes("little"), "crc32c")


@register_codec
@dataclass(frozen=True, slots=True, init=False)
class ShardingIndexed(ArrayBytesCodec):
    """Subchunks in a shard, which readers and writers access separately.

    Parameters
    ----------
    chunk_shape : sequence of int
        The shape of a subchunk. It divides the shape of the shard after the previous codecs.
    codecs : sequence of codecs
        The codecs of subchunks; by default ``bytes``.
    index_codecs : sequence of codecs
        The codecs of the index, whose encoded size must be fixed; by default little-endian bytes
        with a checksum.
    index_location : {"end", "start"}
        The position of the index.

    Examples
    --------
    >>> ShardingIndexed((32, 32), ["zstd"]).codecs.codecs
    (Bytes(endian=None), Zstd(level=0, checksum=False))
    """

    name = "sharding_indexed"
    takes_any_length = True
    codec_id = None
    chunk_shape: Shape
    codecs: Chain
    index_codecs: Chain
    index_location: IndexLocation

    def __init__(
        self,
        chunk_shape: Sequence[int],
        codecs: Sequence[CodecLike] | Chain = (),
        index_codecs: Sequence[CodecLike] | Chain = _INDEX_CODECS,
        index_location: IndexLocation = "end",
    ) -> None:
        check_choice("index_location", index_location, _LOCATIONS)
        lengths = tuple(int(length) for length in chunk_shape)
        if any(length < 1 for length in lengths):
            raise ArgumentError(f"chunk_shape {lengths} has a length of less than 1")
        chain = codecs if isinstance(codecs, Chain) else Chain.of(codecs)
        index = index_codecs if isinstance(index_codecs, Chain) else _index_chain(index_codecs)
        object.__setattr__(self, "chunk_shape", lengths)
        object.__setattr__(self, "codecs", chain)
        object.__setattr__(self, "index_codecs", index)
        object.__setattr__(self, "index_location", index_location)

    @classmethod
    def read(cls, members: Members, zarr_format: ZarrFormat) -> ShardingIndexed | None:
        before = len(members.problems)
        chunk_shape = members.chunk_lengths("chunk_shape", 1)
        codecs = _read_chain(members, "codecs")
        index_codecs = _read_chain(members, "index_codecs")
        location = members.choice("index_location", _LOCATIONS, "end")
        members.done()
        if chunk_shape is None or codecs is None or index_codecs is None or location is None:
            return None
        if len(members.problems) > before:
            return None
        return cls(chunk_shape, codecs, index_codecs, "start" if location == "start" else "end")

    def configuration(self) -> dict[str, Any]:
        return {
            "chunk_shape": list(self.chunk_shape),
            "codecs": self.codecs.to_json(),
            "index_codecs": self.index_codecs.to_json(),
            "index_location": self.index_location,
        }

    def get_config(self) -> dict[str, Any]:
        return {"id": self.name, **self.configuration()}

    def check(self, spec: ArraySpec, loc: str, problems: Problems) -> None:
        shard = spec.shape
        shape_loc = f"{loc}/chunk_shape"
        if len(self.chunk_shape) != len(shard):
            message = (
                f"{len(self.chunk_shape)} subchunk lengths for shards of {len(shard)} dimensions"
            )
            problems.add(shape_loc, message, "mismatch")
            return
        for axis, (length, part) in enumerate(zip(shard, self.chunk_shape, strict=True)):
            if length % part:
                message = f"{part} does not divide {length}, the length of the shard"
                problems.add(f"{shape_loc}/{axis}", message, "mismatch")
                return
        index = self._index_spec(shard)
        count = index.size_bytes // (2 * index.data_type.item_bytes)
        if count > MAX_SUBCHUNKS:
            problems.add(shape_loc, f"a shard has {count} subchunks, more than 2**30", "too_large")
            return
        self.codecs.check(self.subchunk_spec(spec), f"{loc}/codecs", problems)
        self._check_index(index, f"{loc}/index_codecs", problems)

    def _check_index(self, index: ArraySpec, loc: str, problems: Problems) -> None:
        before = len(problems)
        for position, codec in enumerate(self.index_codecs.codecs):
            if isinstance(codec, Bytes) and codec.endian is None:
                problems.add(f"{loc}/{position}", "no endian for the index", "missing_member")
        if len(problems) > before:
            return
        self.index_codecs.check(index, loc, problems)
        if len(problems) == before and self.index_codecs.encoded_bytes(index) is None:
            problems.add(loc, "the index would not have a fixed number of bytes", "mismatch")

    def resolve(self, spec: ArraySpec, zarr_format: ZarrFormat) -> ShardingIndexed:
        return ShardingIndexed(
            self.chunk_shape,
            self.codecs.resolve(self.subchunk_spec(spec), zarr_format),
            self.index_codecs.resolve(self._index_spec(self.chunk_shape), zarr_format),
            self.index_location,
        )

    def subchunk_spec(self, spec: ArraySpec) -> ArraySpec:
        """Return the spec of subchunks of shards of `spec`."""
        return replace(spec, shape=self.chunk_shape)

    def _index_spec(self, shard: Shape) -> ArraySpec:
        grid = (length // part for length, part in zip(shard, self.chunk_shape, strict=False))
        return ArraySpec((*grid, 2), _index_data_type())

    def engine_array(self, spec: ArraySpec, zarr_format: ZarrFormat) -> dict[str, object]:
        index = self._index_spec(spec.shape)
        return {
            "kind": "sharding",
            "subchunk_shape": self.chunk_shape,
            "chain": self.codecs.compile(self.subchunk_spec(spec), zarr_format),
            "index_chain": self.index_codecs.compile(index, zarr_format),
            "index_location": self.index_location,
        }

    def encode(self, array: np.ndarray[Any, Any], /) -> bytes:
        # This runs only after a codec that the engine lacks; otherwise the engine encodes shards.
        spec = ArraySpec(array.shape, dtype.to_data_type(array.dtype))
        parts, index = (
            self._iter_subchunks(array),
            np.empty(self._index_spec(array.shape).shape, np.uint64),
        )
        size = self.index_codecs.encoded_bytes(self._index_spec(array.shape)) or 0
        body = bytearray(size if self.index_location == "start" else 0)
        for cell, part in parts:
            data = to_flat_array(self.codecs.encode(part.copy(), self.subchunk_spec(spec)))
            index[cell] = len(body), data.nbytes
            body += data.data
        encoded = to_flat_array(self.index_codecs.encode(index, self._index_spec(array.shape)))
        if self.index_location == "end":
            return bytes(body + encoded.data)
        body[:size] = encoded.data
        return bytes(body)

    def decode(self, data: BytesLike, spec: ArraySpec, /) -> np.ndarray[Any, Any]:
        data, index_spec = to_flat_array(data), self._index_spec(spec.shape)
        size = self.index_codecs.encoded_bytes(index_spec) or 0
        if data.nbytes < size:
            message = f"{data.nbytes} bytes have no room for the index of {size} bytes"
            raise DataError(message, kind="wrong_size", codec=self.name)
        at_start = self.index_location == "start"
        encoded = data[:size] if at_start else data[data.nbytes - size :]
        index = self.index_codecs.decode(encoded, index_spec)
        array = np.empty(spec.shape, spec.data_type.numpy)
        fill = spec.data_type.default_fill() if spec.fill is None else spec.fill
        array[...] = np.frombuffer(fill, spec.data_type.numpy)[0]
        for cell, part in self._iter_subchunks(array):
            start, length = (int(number) for number in index[cell])
            if start == length == _ABSENT_SUBCHUNK:
                continue
            if start + length > data.nbytes:
                message = f"subchunk {cell} is outside of its shard of {data.nbytes} bytes"
                raise DataError(message, codec=self.name)
            inner = data[start : start + length]
            part[...] = self.codecs.decode(inner, self.subchunk_spec(spec))
        return array

    def _iter_subchunks(
        self, array: np.ndarray[Any, Any]
    ) -> Iterator[tuple[tuple[int, ...], np.ndarray[Any, Any]]]:
        """Yield the cells of a shard with their subchunks."""
        lengths = self.chunk_shape
        counts = (n // part for n, part in zip(array.shape, lengths, strict=True))
        for cell in np.ndindex(*counts):
            pairs = zip(cell, lengths, strict=True)
            # With the ellipsis the result is a view also for rank 0.
            key: Any = (..., *(slice(i * n, (i + 1) * n) for i, n in pairs))
            yield cell, array[key]


def _index_chain(values: Sequence[CodecLike]) -> Chain:
    codecs = Chain.of(values).codecs
    return Chain(tuple(Bytes("little") if codec == Bytes() else codec for codec in codecs))


def _read_chain(members: Members, name: str) -> Chain | None:
    value = members.require(name)
    if value is ABSENT:
        return None
    strict = name == "index_codecs" or value == []
    return Chain.read(value, members.at(name), members.problems, strict=strict)


@cache
def _index_data_type() -> dtype.DataType:
    """Return the data type of the index."""
    return dtype.to_data_type("uint64")
