"""Metadata of new arrays from the keywords of `tessarr.create_array`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from tessarr import dtype
from tessarr.codec import (
    ArrayArrayCodec,
    ArrayBytesCodec,
    ArraySpec,
    Bytes,
    BytesBytesCodec,
    Chain,
    ShardingIndexed,
    Transpose,
    to_codec,
    to_list,
)
from tessarr.codec.elements import ElementsCodec
from tessarr.codec.read import find_codec_class
from tessarr.dtype.base import OBJECT, DataType
from tessarr.errors import ArgumentError, UnsupportedError
from tessarr.format import chunk_key_encoding as keys
from tessarr.format import chunk_shape, storage_transformer
from tessarr.format.chunk_grid import ChunkGrid, RegularGrid
from tessarr.format.chunk_key_encoding import ChunkKeyEncoding, DefaultKeys, V2Keys
from tessarr.format.storage_transformer import StorageTransformer
from tessarr.format.validation import Problems, check_zarr_format
from tessarr.metadata import chunk_grid_choice
from tessarr.metadata.attributes import read_user_attributes
from tessarr.metadata.chunk_grid_choice import to_extension
from tessarr.metadata.new_codecs import (
    build_chain_v2,
    check_storable,
    default_codecs,
    default_serializer,
    fit_chain,
)
from tessarr.metadata.node import ArrayMeta, check_codecs, check_sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tessarr.codec import Codec, CodecLike
    from tessarr.codec.sharding import IndexLocation
    from tessarr.dtype.names import DataTypeLike
    from tessarr.format.chunk_key_encoding import Separator
    from tessarr.types import JSONObject, MemoryOrder, Shape, ShapeLike, ZarrFormat

__all__ = ["AUTO", "build_array_meta", "encode_fill_value", "is_auto"]

AUTO: Final = "auto"
"""The value with which Tessarr chooses a setting."""

T = TypeVar("T")


def build_array_meta(
    *,
    shape: ShapeLike,
    dtype: DataTypeLike = "float64",
    chunks: Any = None,
    shards: Any = None,
    codecs: Iterable[CodecLike] | None = None,
    compressors: Any = AUTO,
    filters: Any = AUTO,
    serializer: Any = AUTO,
    object_codec: Any = None,
    fill_value: Any = AUTO,
    order: MemoryOrder = "C",
    dimension_names: Sequence[str | None] | None = None,
    attributes: Mapping[str, Any] | None = None,
    zarr_format: ZarrFormat = 3,
    chunk_key_encoding: Any = None,
    dimension_separator: Separator | None = None,
    storage_transformers: Any = (),
) -> ArrayMeta:
    """Return the metadata of a new array.

    Parameters
    ----------
    shape : int or sequence of int
        The shape of the array.
    dtype : dtype_like or DataType
        The data type.
    chunks : None, bool, int, sequence of (int, None or sequence of int), or ChunkGrid
        The lengths of chunks; see `tessarr.format.chunk_shape.chunk_lengths`. If sharded,
        the subchunk shape. A grid may also be given as its JSON.
    shards : None, "auto", int, sequence of (int, None or sequence of int), ChunkGrid or mapping
        The lengths of shards, multiples of the chunk shape; None and -1 in a sequence mean
        the whole axis. "auto" chooses; a mapping has ``shape`` and ``index_location``.
        Format 3 only.
    codecs : sequence of codecs, optional
        All codecs, in the order of encoding; excludes the next three parameters.
    compressors, filters : codec, sequence of codecs, None or "auto"
        Codecs from bytes to bytes, and from arrays to arrays (in format 2: any). None and
        an empty sequence mean none.
    serializer : codec or "auto"
        The codec from arrays to bytes. Format 3 only.
    object_codec : codec, optional
        The first codec, which encodes objects and defines their data type.
    fill_value : scalar, None or "auto"
        The value of elements that no stored chunk holds; by default zero. None means no fill
        value in format 2, and zero in format 3.
    order : {"C", "F"}
        The layout of the elements of a chunk.
    dimension_names : sequence of (str or None), optional
        Names of the axes. Format 3 only.
    attributes : mapping, optional
        The attributes; tuples, NumPy scalars and arrays become JSON.
    zarr_format : {2, 3}
        The format.
    chunk_key_encoding : ChunkKeyEncoding, str, mapping or (name, separator), optional
        The encoding of chunk keys; "v2" in format 2.
    dimension_separator : {".", "/"}, optional
        The separator in the keys of chunks; "." in format 2 and "/" in format 3 by default.
    storage_transformers : sequence of StorageTransformer, str or mapping
        The storage transformers, from the array to the store. Format 3 only.

    Raises
    ------
    ArgumentError
        If arguments are invalid; the message names all of them.
    UnsupportedError
        If a data type or codec is not supported.

    Examples
    --------
    >>> meta = build_array_meta(shape=(100, 100), dtype="int32", chunks=(10, 10), shards=(50, 50))
    >>> meta.chunk_shape, meta.shards, meta.codecs.array_bytes.codecs.bytes_bytes
    ((10, 10), (50, 50), (Blosc(cname='lz4', clevel=5, shuffle=1),))
    >>> build_array_meta(shape=(10,), dtype="uint8", fill_value=300, dimension_names=["x", "y"])
    Traceback (most recent call last):
    tessarr.errors.ArgumentError: cannot create an array: 2 problems
      fill_value: 300 does not fit uint8
      dimension_names: 2 names for an array of 1 dimensions
    """
    check_zarr_format(zarr_format)
    arguments = {"compressors": compressors, "filters": filters, "serializer": serializer}
    chosen = {name: value for name, value in arguments.items() if not is_auto(value)}
    request = _ArrayBuilder(zarr_format)
    request.shape = request.attempt("shape", chunk_shape.normalize_shape, shape)
    request.read_codecs(codecs, chosen, object_codec)
    request.read_elements(dtype, fill_value)
    request.read_chunks(chunks, shards)
    request.read_keys(chunk_key_encoding, dimension_separator)
    request.read_names(dimension_names)
    request.read_transformers(storage_transformers)
    attributes_json = read_user_attributes(attributes, request.problems) if attributes else {}
    if order not in ("C", "F"):
        request.problems.add("order", f"{order!r} is not 'C' or 'F'")
    meta = None
    if not request.problems.found:
        meta = request.build(fortran=order == "F", attributes=attributes_json)
    if meta is None or request.problems.found:
        request.problems.check_arguments("create an array")
    assert meta is not None
    return meta


@dataclass(slots=True)
class _ArrayBuilder:
    """The parts of the metadata that are known so far; an invalid part is None, with a problem."""

    zarr_format: ZarrFormat
    problems: Problems = field(default_factory=Problems)
    shape: Shape | None = None
    data_type: DataType | None = None
    item_bytes: int = 0
    object_codec: Codec | None = None
    fill: bytes | None = None
    grid: ChunkGrid | None = None
    subchunks: Shape | None = None
    index_location: IndexLocation = "end"
    encoding: ChunkKeyEncoding | None = None
    names: tuple[str | None, ...] | None = None
    transformers: tuple[StorageTransformer, ...] = ()
    whole_chain: Chain | None = None
    arrays: list[Codec] = field(default_factory=list)
    serializer: ArrayBytesCodec | None = None
    rest: list[Codec] | None = None
    """The compressors; None for those that Tessarr chooses."""

    def attempt(self, name: str, read: Callable[..., T], *arguments: Any) -> T | None:
        """Call `read`; on an error, add a problem with the argument `name` and return None."""
        try:
            return read(*arguments)
        except UnsupportedError as error:
            if error.extension is None:
                self.problems.add(name, str(error), error.kind)
            else:
                message = error.kind.removeprefix("unsupported_").replace("_", " ")
                hint = str(error).partition("is not supported")[2]
                self.problems.unsupported(
                    name, message, error.extension, kind=error.kind, hint=hint
                )
        except (ValueError, TypeError) as error:
            self.problems.add(name, str(error))
        return None

    def read_codecs(
        self, codecs: Iterable[CodecLike] | None, chosen: Mapping[str, Any], object_codec: Any
    ) -> None:
        """Read the codecs; `chosen` has the user's compressors, filters and serializer."""
        read: list[Codec] = []
        if codecs is not None:
            for name in chosen:
                self.problems.add(name, "cannot be given together with codecs", "mismatch")
            self.whole_chain = self.attempt("codecs", Chain.of, to_list(codecs))
            read += () if self.whole_chain is None else self.whole_chain.codecs
        else:
            if "serializer" in chosen:
                serializers: Any = self._read_for("serializer", [chosen["serializer"]])
                self.serializer = serializers[0] if serializers else None
                read += serializers
            self.arrays = self._read_for("filters", to_list(chosen.get("filters")))
            read += self.arrays
            if "compressors" in chosen:
                self.rest = self._read_for("compressors", to_list(chosen["compressors"]))
        if object_codec is None:
            candidates = (codec for codec in read if codec.object_type() is not None)
            self.object_codec = next(candidates, None)
            return
        codec = self.attempt("object_codec", to_codec, object_codec)
        if codec is not None and codec.object_type() is None:
            message = f"codec {codec.label!r} does not make bytes of objects"
            self.problems.add("object_codec", message, "mismatch")
        self.object_codec = codec

    def _choose_data_type(self, type_like: Any) -> DataType:
        data_type = None
        if self.object_codec is not None and _is_object(type_like):
            data_type = self.object_codec.object_type()
        return (data_type or dtype.to_data_type(type_like)).in_format(self.zarr_format)

    def read_elements(self, type_like: Any, fill_value: Any) -> None:
        data_type = self.attempt("dtype", self._choose_data_type, type_like)
        if data_type is None:
            return
        self.data_type, self.item_bytes = data_type, data_type.item_bytes
        refusal = data_type.refusal(self.zarr_format)
        if refusal is not None:
            kind = "unsupported_data_type"
            self.problems.unsupported(
                "dtype", "data type", str(data_type), kind=kind, hint=f": {refusal}"
            )
        if isinstance(fill_value, str) and fill_value == AUTO:
            self.fill = data_type.default_fill()
        elif fill_value is None:
            self.fill = None if self.zarr_format == 2 else data_type.default_fill()
        else:
            fill = self.attempt("fill_value", encode_fill_value, data_type, fill_value)
            self.fill = None if fill is None else data_type.storable_fill(fill, self.zarr_format)

    def _read_for(self, argument: str, values: list[CodecLike]) -> list[Codec]:
        """Return the codecs of an argument, and add a problem for each codec of another role."""
        codecs: list[Codec] = []
        for value in values:
            misplaced = _misplaced_reason(argument, find_codec_class(value), self.zarr_format)
            if misplaced:
                self.problems.add(argument, misplaced, "mismatch")
                continue
            codec = self.attempt(argument, to_codec, value)
            codecs += [] if codec is None else [codec]
        return codecs

    def read_chunks(self, chunks: Any, shards: Any) -> None:
        if self.shape is None or self.data_type is None:
            return
        shape, item_bytes = self.shape, self.item_bytes
        if shards is None or shards is False:
            choose_grid = chunk_grid_choice.choose_grid
            self.grid = self.attempt("chunks", choose_grid, chunks, shape, item_bytes)
            if self.zarr_format == 2 and self.grid is not None:
                self.grid = self.grid.regular()
                if self.grid is None:
                    message = "format 2 has chunks of one shape only"
                    self.problems.add("chunks", message, "mismatch")
            return
        if self.zarr_format == 2:
            self.problems.add("shards", "format 2 has no shards", "mismatch")
            return
        if isinstance(shards, Mapping) and "shape" in shards:  # as zarr-python has it
            self.index_location = shards.get("index_location") or "end"
            shards = shards["shape"]
        self._read_shards(chunks, shards, shape, item_bytes)

    def _read_shards(self, chunks: Any, shards: Any, shape: Shape, item_bytes: int) -> None:
        if shards is True or is_auto(shards):
            self.subchunks = self.attempt(
                "chunks", chunk_shape.subchunk_shape, chunks, shape, item_bytes
            )
            if self.subchunks is not None:
                lengths = chunk_shape.guess_shard_shape(shape, self.subchunks, item_bytes)
                self.grid = RegularGrid(lengths)
            return
        shard_grid = self.attempt("shards", chunk_grid_choice.choose_grid, shards, shape, 1)
        if shard_grid is None:
            return
        choose_subchunks = chunk_grid_choice.choose_subchunk_shape
        self.subchunks = parts = self.attempt(
            "chunks", choose_subchunks, chunks, shape, shard_grid, item_bytes
        )
        if parts is None:
            return
        self.grid = chunk_grid_choice.round_up_grid(shard_grid, shards, parts)
        if not chunk_grid_choice.is_divided_by(parts, self.grid):
            message = f"chunks {parts} do not divide shards {self.grid.lengths(shape)}"
            self.problems.add("shards", message, "mismatch")

    def read_keys(self, encoding: Any, separator: Separator | None) -> None:
        if separator not in (None, ".", "/"):
            self.problems.add("dimension_separator", f"{separator!r} is not '.' or '/'")
            return
        if encoding is None:
            if self.zarr_format == 2:
                self.encoding = V2Keys(separator or ".", is_explicit=separator is not None)
            else:
                self.encoding = DefaultKeys(separator or "/")
            return
        self.encoding = self.attempt("chunk_key_encoding", _to_key_encoding, encoding)
        if self.zarr_format == 2:
            if self.encoding is not None and not isinstance(self.encoding, V2Keys):
                message = 'the keys of format 2 are those of "v2"'
                self.problems.add("chunk_key_encoding", message, "mismatch")
            elif separator not in (None, getattr(self.encoding, "separator", None)):
                message = f"{separator!r} is not that of chunk_key_encoding"
                self.problems.add("dimension_separator", message, "mismatch")
        elif separator is not None:
            message = "cannot be given together with chunk_key_encoding"
            self.problems.add("dimension_separator", message, "mismatch")

    def read_names(self, names: Sequence[str | None] | None) -> None:
        if names is None:
            return
        if self.zarr_format == 2:
            self.problems.add("dimension_names", "format 2 has no dimension names", "mismatch")
        elif isinstance(names, str) or not all(n is None or isinstance(n, str) for n in names):
            self.problems.add("dimension_names", f"{names!r} is not a sequence of str or None")
        elif self.shape is not None and len(names) != len(self.shape):
            message = f"{len(names)} names for an array of {len(self.shape)} dimensions"
            self.problems.add("dimension_names", message, "mismatch")
        else:
            self.names = tuple(names)

    def read_transformers(self, transformers: Any) -> None:
        if transformers in (None, ()):
            return
        values = to_list(transformers)
        if self.zarr_format == 2 and values:
            message = "format 2 has no storage transformers"
            self.problems.add("storage_transformers", message, "mismatch")
            return
        read = [self.attempt("storage_transformers", _to_transformer, value) for value in values]
        self.transformers = tuple(transformer for transformer in read if transformer is not None)

    def build(self, *, fortran: bool, attributes: JSONObject) -> ArrayMeta | None:
        assert self.shape is not None
        assert self.data_type is not None
        assert self.grid is not None
        assert self.encoding is not None
        if self.whole_chain is not None:
            self.whole_chain = fit_chain(self.whole_chain, self.data_type)
        elif self.rest is None:
            self.rest = list(default_codecs(self.data_type, filtered=bool(self.arrays)))
        name = "chunks" if self.subchunks is None else "shards"
        grid = self.grid.fit(self.shape, name, self.problems)
        last_is_filter = False
        if self.zarr_format == 2:
            filters, compressor = self._codecs_v2()
            rank = len(self.shape)
            chain = self.attempt("codecs", build_chain_v2, fortran, rank, filters, compressor)
            last_is_filter = bool(filters) and compressor is None
        else:
            chain = self._chain_v3(fortran)
        data_type = self.data_type if self.zarr_format == 2 else self.data_type.ordered("native")
        fill = self._fill_in_order_of(data_type)
        spec = ArraySpec(next(self.grid.shapes()), data_type, fill)
        check_sizes(self.shape, spec, "shape", name, self.problems)
        if grid is None or chain is None or self.problems.found:
            return None
        check_codecs(chain, grid, spec, "codecs", self.problems)
        if self.problems.found:
            return None
        resolved = chain.resolve(spec, self.zarr_format)
        check_storable(resolved, spec, self.zarr_format, self.problems)
        return ArrayMeta(
            self.zarr_format,
            self.shape,
            data_type,
            grid,
            self.encoding,
            fill,
            resolved,
            attributes,
            self.names,
            self.transformers,
            last_is_filter=last_is_filter,
        )

    def _fill_in_order_of(self, data_type: DataType) -> bytes | None:
        assert self.data_type is not None
        if self.fill is None or data_type == self.data_type or data_type.elements is not None:
            return self.fill
        return np.frombuffer(self.fill, self.data_type.numpy).astype(data_type.numpy).tobytes()

    def _serializer(self) -> ArrayBytesCodec:
        assert self.data_type is not None
        if self.serializer is not None:
            return self.serializer
        if isinstance(self.object_codec, ArrayBytesCodec):
            return self.object_codec
        if self.data_type.serializer or self.data_type.elements is not None:
            return default_serializer(self.data_type)
        if self.data_type.big_endian:
            return Bytes("big")
        # With filters the byte order stays open, because they may change the type of elements.
        is_open = self.arrays or self.data_type.unit_bytes == 1
        return Bytes(None if is_open else "little")

    def _chain_v3(self, fortran: bool) -> Chain | None:
        assert self.data_type is not None
        assert self.shape is not None
        chain = self.whole_chain
        if chain is None:
            chain = Chain((*self.arrays, self._serializer(), *(self.rest or ())))
        if fortran and len(self.shape) > 1:
            chain = Chain((Transpose("F"), *chain.codecs))
        if self.subchunks is not None:
            if isinstance(chain.array_bytes, ShardingIndexed):
                message = "cannot be given together with the codec sharding_indexed"
                self.problems.add("shards", message, "mismatch")
            shard = partial(ShardingIndexed, index_location=self.index_location)
            sharding = self.attempt("shards", shard, self.subchunks, chain)
            return None if sharding is None else Chain((sharding,))
        return chain

    def _codecs_v2(self) -> tuple[list[Codec], Codec | None]:
        """Return the filters and the compressor for format 2."""
        assert self.data_type is not None
        if self.whole_chain is not None:
            self._take_endian(self.whole_chain.array_bytes)
            codecs = [c for c in self.whole_chain.codecs if not isinstance(c, Bytes)]
            return codecs, codecs.pop() if self._has_compressor() else None
        serializer = [] if self.serializer is None else [self.serializer]
        for codec in serializer:
            self._take_endian(codec)
        serializers: list[Codec] = [c for c in serializer if not isinstance(c, Bytes)]
        arrays = self.arrays
        if self.data_type.elements is not None and not serializers:
            has_object_codec = any(codec.object_type() is not None for codec in arrays)
            # The codec that encodes the elements goes first, like numcodecs' filters.
            arrays = (
                arrays if has_object_codec else [self.object_codec or self._serializer(), *arrays]
            )
        codecs = [*arrays, *serializers, *(self.rest or ())]
        return codecs, codecs.pop() if self._has_compressor() else None

    def _has_compressor(self) -> bool:
        """Tell whether the last codec is the compressor of format 2 rather than a filter."""
        if self.whole_chain is None:
            return bool(self.rest)
        last = self.whole_chain.codecs[-1]
        return not isinstance(last, ArrayArrayCodec | Bytes) and last.object_type() is None

    def _take_endian(self, serializer: ArrayBytesCodec) -> None:
        """Move the byte order of the codec ``bytes`` to the data type, as format 2 requires."""
        assert self.data_type is not None
        if not isinstance(serializer, Bytes) or serializer.endian is None:
            return
        if self.data_type.unit_bytes != 1:
            flipped = self.data_type.ordered(serializer.endian)
            self.fill, self.data_type = self._fill_in_order_of(flipped), flipped


def _is_object(type_like: Any) -> bool:
    """Tell whether a user's data type is ``object``, which does not define the elements."""
    try:
        return not isinstance(type_like, DataType) and np.dtype(type_like) == OBJECT
    except (TypeError, ValueError):
        return False


def encode_fill_value(data_type: DataType, value: Any) -> bytes:
    """Return a user's fill value as the bytes of one item.

    Raises
    ------
    ArgumentError
        If the value does not fit the data type.
    """
    try:
        return data_type.cast_fill(value)
    except (ValueError, TypeError, OverflowError) as error:
        # The JSON forms of format 3 are valid, too: "NaN", "0x7fc00001".
        if not isinstance(value, str | list | dict) or data_type.numpy.kind not in "fcV":
            raise ArgumentError(str(error), kind="cannot_cast") from error
    problems = Problems()
    fill = data_type.fill_from_json(value, 3, "", problems)
    if fill is None:
        raise ArgumentError(problems.join_messages("; "), kind="cannot_cast")
    return fill


def is_auto(value: object) -> bool:
    """Tell whether Tessarr chooses a setting."""
    return isinstance(value, str) and value == AUTO


_ROLES: Final[dict[str, tuple[type[Codec], str]]] = {
    "filters": (ArrayArrayCodec, "from arrays to arrays"),
    "serializer": (ArrayBytesCodec, "from arrays to bytes"),
    "compressors": (BytesBytesCodec, "from bytes to bytes"),
}
"""The arguments for codecs, with the base class and the description of their codecs."""


def _misplaced_reason(argument: str, codec: type[Codec] | None, zarr_format: ZarrFormat) -> str:
    """Return why a codec does not fit an argument, with the right argument; "" if it fits."""
    if codec is None or not issubclass(codec, ArrayArrayCodec | ArrayBytesCodec | BytesBytesCodec):
        return ""
    role_class, role_text = _ROLES[argument]
    if issubclass(codec, role_class):
        return ""
    if zarr_format == 2 and argument != "serializer":
        return _misplaced_reason_v2(argument, codec)
    other = next(name for name, (role, _) in _ROLES.items() if issubclass(codec, role))
    name = codec.name.removeprefix("numcodecs.")
    return f"codec {name!r} is not one {role_text}: give it as {other}="


def _misplaced_reason_v2(argument: str, codec: type[Codec]) -> str:
    """Return the same for format 2, in which any codec may be a filter or the compressor."""
    if argument == "compressors" and codec.codec_id is None:
        return f"codec {codec.name!r} is no compressor of format 2"
    if argument == "compressors" and issubclass(codec, ElementsCodec):
        return (
            f"codec {codec.name!r} makes bytes of elements of any length: give it as filters=, "
            "or leave it out, for the data type says it"
        )
    return ""


def _to_key_encoding(value: Any) -> ChunkKeyEncoding:
    if isinstance(value, ChunkKeyEncoding):
        return value
    if isinstance(value, tuple) and len(value) == 2:  # the form of zarr-python 3
        value = {"name": value[0], "configuration": {"separator": value[1]}}
    encoding: ChunkKeyEncoding = to_extension(value, keys.find_key_encoding, "chunk key encoding")
    return encoding


def _to_transformer(value: Any) -> StorageTransformer:
    if isinstance(value, StorageTransformer):
        return value
    transformer: StorageTransformer = to_extension(
        value, storage_transformer.find_transformer, "storage transformer"
    )
    return transformer
