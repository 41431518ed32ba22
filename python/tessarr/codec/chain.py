"""Codec chains: order, validation, and the description for the engine.

A chain has any number of codecs from arrays to arrays, one codec from arrays to bytes, and any
number of codecs from bytes to bytes. The first codec encodes a chunk; each further codec encodes
the result of the previous one. All chunks of an array have one shape, so the input of every codec
has one `ArraySpec`; `Chain.check` follows it through the chain.

The engine runs the codecs that it implements (`Chain.compile`). For other codecs from bytes to
bytes it calls a `FlatCodec`. If it lacks an array codec, it calls a `NumpyStage`, which runs all
codecs from there to the bytes.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from operator import is_
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from tessarr.codec.base import (
    ArrayArrayCodec,
    ArrayBytesCodec,
    ArraySpec,
    BytesBytesCodec,
    Codec,
    check_elements,
)
from tessarr.codec.bytes import Bytes
from tessarr.codec.read import read_v3, to_codec
from tessarr.codec.transpose import Transpose
from tessarr.errors import ArgumentError, DataError
from tessarr.format.registry import set_public_module
from tessarr.format.validation import describe, pointer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tessarr.codec.read import CodecLike
    from tessarr.format.validation import Problems
    from tessarr.types import BytesLike, ZarrFormat

__all__ = ["Chain", "FlatCodec", "NumpyStage", "to_flat_array"]

_SLACK_BYTES: Final = 1 << 20
"""An upper bound of the bytes that a codec adds to a small chunk."""


@dataclass(frozen=True, slots=True)
class Chain:
    """Codecs in the order of encoding.

    Parameters
    ----------
    codecs : tuple of Codec
        The codecs.

    Examples
    --------
    >>> chain = Chain.of(["transpose", "zstd"])
    Traceback (most recent call last):
    tessarr.errors.ArgumentError: codec 'transpose': ...
    >>> Chain.of([Transpose("F"), "zstd"]).codecs
    (Transpose(order='F'), Bytes(endian=None), Zstd(level=0, checksum=False))
    """

    codecs: tuple[Codec, ...]
    array_array: tuple[ArrayArrayCodec, ...] = field(init=False, repr=False, compare=False)
    array_bytes: ArrayBytesCodec = field(init=False, repr=False, compare=False)
    bytes_bytes: tuple[BytesBytesCodec, ...] = field(init=False, repr=False, compare=False)
    runs_code: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_kind = defaultdict[str, list[Any]](list)
        runs_code = False
        for codec in self.codecs:
            by_kind[codec.kind].append(codec)
            runs_code |= codec.runs_code
        misplaced = _find_misplaced(self.codecs)
        if misplaced is not None:
            raise ArgumentError(f"codecs: {misplaced[1]}")
        if not by_kind["array_bytes"]:
            raise ArgumentError("codecs: no codec from arrays to bytes")
        object.__setattr__(self, "array_array", tuple(by_kind["array_array"]))
        object.__setattr__(self, "array_bytes", by_kind["array_bytes"][0])
        object.__setattr__(self, "bytes_bytes", tuple(by_kind["bytes_bytes"]))
        object.__setattr__(self, "runs_code", runs_code)

    @classmethod
    def of(cls, values: Iterable[CodecLike]) -> Chain:
        """Return the chain of a user's codecs; add ``bytes`` if it has no serializer.

        Raises
        ------
        ArgumentError
            If a codec or the order of the codecs is invalid.
        """
        codecs = tuple(to_codec(value) for value in values)
        return cls(codecs if _has_serializer(codecs) else _add_bytes(codecs))

    @classmethod
    def read(
        cls, value: Any, loc: str, problems: Problems, *, strict: bool = False
    ) -> Chain | None:
        """Return the chain in a document of format 3; if invalid, add problems and return None.

        Parameters
        ----------
        value : JSON
            The list of codecs.
        loc : str
            Its JSON pointer.
        problems : Problems
            Collects the faults.
        strict : bool
            Whether a missing serializer is a fault; otherwise it means ``bytes``, as in documents
            of old writers.
        """
        if not isinstance(value, list):
            problems.add(loc, f"{describe(value)} is not a list of codecs", "wrong_type")
            return None
        before = len(problems)
        codecs_read = [read_v3(item, pointer(loc, i), problems) for i, item in enumerate(value)]
        if len(problems) > before:
            return None
        codecs = tuple(codec for codec in codecs_read if codec is not None)
        if not _has_serializer(codecs):
            if strict:
                problems.add(loc, "no codec from arrays to bytes", "missing_member")
                return None
            problems.tolerate(loc, "no codec from arrays to bytes, taken for 'bytes'")
            codecs = _add_bytes(codecs)
        misplaced = _find_misplaced(codecs)
        if misplaced is not None:
            problems.add(pointer(loc, misplaced[0]), misplaced[1], "mismatch")
            return None
        return cls(codecs)

    def to_json(self) -> list[Any]:
        """Return the JSON of the chain in format 3."""
        return [codec.to_json(3) for codec in self.codecs]

    def check(self, spec: ArraySpec, loc: str, problems: Problems) -> None:
        """Add problems for codecs that do not fit their input, for arrays of `spec`."""
        for position, codec in enumerate(self.codecs):
            if not isinstance(codec, ArrayArrayCodec | ArrayBytesCodec):
                continue
            before = len(problems.found)
            codec_loc = f"{loc}/{position}"
            if not check_elements(codec, spec, codec_loc, problems):
                return
            codec.check(spec, f"{codec_loc}/configuration", problems)
            if isinstance(codec, ArrayBytesCodec) or len(problems.found) > before:
                return
            spec = codec.encoded(spec)

    def resolve(self, spec: ArraySpec, zarr_format: ZarrFormat = 3) -> Chain:
        """Return the chain with all open parameters chosen, for arrays of `spec`."""
        resolved: list[Codec] = []
        for codec in self.codecs:
            chosen = codec.resolve(spec, zarr_format)
            resolved.append(chosen)
            if isinstance(chosen, ArrayArrayCodec):
                spec = chosen.encoded(spec)
        return self if all(map(is_, resolved, self.codecs)) else Chain(tuple(resolved))

    def encoded_spec(self, spec: ArraySpec) -> ArraySpec:
        """Return the spec of the serializer's input, for arrays of `spec`."""
        for codec in self.array_array:
            spec = codec.encoded(spec)
        return spec

    def encoded_bytes(self, spec: ArraySpec) -> int | None:
        """Return the encoded size of every array of `spec`, or None if it varies."""
        size = self.array_bytes.encoded_bytes(self.encoded_spec(spec))
        for codec in self.bytes_bytes:
            size = None if size is None else codec.encoded_bytes(size)
        return size

    def encode(self, array: np.ndarray[Any, Any], spec: ArraySpec) -> BytesLike:
        """Return the encoding of an array of `spec`, without the engine.

        Raises
        ------
        ArgumentError
            ``shape_mismatch``, if the result of a codec differs from its `encoded` spec.
        """
        for codec in self.array_array:
            array, spec = codec.encode(array), codec.encoded(spec)
            fixed = spec.data_type.elements is None
            if array.shape != spec.shape or (fixed and array.dtype != spec.data_type.numpy):
                # A reader could not decode it.
                raise ArgumentError(
                    f"codec {codec.label!r} encodes to {array.dtype} of shape {array.shape}, "
                    f"where it promises {spec.data_type.name} of shape {spec.shape}",
                    kind="shape_mismatch",
                    codec=codec.label,
                )
        data = self.array_bytes.encode(array)
        for outer in self.bytes_bytes:
            data = outer.encode(data)
        return data

    def decode(self, data: BytesLike, spec: ArraySpec) -> np.ndarray[Any, Any]:
        """Decode `data` to an array of `spec`: the inverse of `encode`.

        Raises
        ------
        DataError
            If the bytes are damaged.
        """
        specs = [spec]
        for codec in self.array_array:
            specs.append(codec.encoded(specs[-1]))
        encoded = specs.pop()
        for outer in reversed(self.bytes_bytes):
            data = outer.decode_at_most(data, _SLACK_BYTES + 4 * encoded.size_bytes)
        array = self.array_bytes.decode(data, encoded)
        for codec in reversed(self.array_array):
            array = codec.decode(array, specs.pop())
        if array.shape != spec.shape:
            message = f"an array of shape {array.shape} instead of {spec.shape}"
            raise DataError(message, kind="wrong_size")
        if spec.data_type.elements is not None:
            return array
        return array.astype(spec.data_type.numpy, copy=False)

    def compile(self, spec: ArraySpec, zarr_format: ZarrFormat = 3) -> dict[str, object]:
        """Return the description of the chain for the engine, for arrays of `spec`.

        Leading transposes become one order of axes. If the engine implements all other codecs
        from arrays to arrays, they become stages before the codecs from bytes to bytes. Otherwise
        all codecs from the first of them to the serializer become one foreign codec.
        """
        rank = len(spec.shape)
        order = tuple(range(rank))
        arrays = list(self.array_array)
        while arrays and isinstance(arrays[0], Transpose):
            transpose = cast("Transpose", arrays.pop(0))
            order = tuple(order[axis] for axis in transpose.axes(rank))
            spec = transpose.encoded(spec)
        if zarr_format == 3:
            # Filters of migrated metadata have byte orders, which format 3 lacks before ``bytes``.
            arrays = [codec.native() for codec in arrays]
        stages, encoded = _compile_arrays(arrays, spec)
        array_bytes = self.array_bytes.engine_array(encoded, zarr_format)
        # The engine swaps bytes and cuts shards before stages, so neither may follow a stage.
        if (
            stages is None
            or array_bytes is None
            or (arrays and not _can_follow_stages(array_bytes, stages))
        ):
            stages = []
            stage = NumpyStage(Chain((*arrays, self.array_bytes)), spec)
            array_bytes = {"kind": "foreign", "name": stage.name, "codec": stage}
            if spec.data_type.elements is not None:
                # The engine encodes the elements to bytes, and the stage encodes these bytes.
                stages = [{"name": stage.name, "codec": stage}]
                array_bytes = {"kind": "vlen", "is_text": False, "unit_bytes": 1}
        return {
            "order": None if order == tuple(range(rank)) else order,
            "array_bytes": array_bytes,
            "bytes_bytes": [*stages, *map(_compile_bytes, self.bytes_bytes)],
        }


@dataclass(frozen=True, slots=True)
class NumpyStage:
    """Consecutive array codecs up to the serializer, with the interface that the engine calls.

    For elements of any length, the input is their layout (`tessarr.codec.elements`), and the
    arrays contain objects.

    Parameters
    ----------
    chain : Chain
        The codecs.
    spec : ArraySpec
        The input of the first codec.
    """

    chain: Chain
    spec: ArraySpec

    @property
    def name(self) -> str:
        """The names of the codecs."""
        return "+".join(codec.label for codec in self.chain.codecs)

    def encode(self, data: BytesLike) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Return the encoding of a chunk in C order."""
        data_type = self.spec.data_type
        if data_type.elements is not None:
            from tessarr.codec.elements import to_objects

            return to_flat_array(
                self.chain.encode(to_objects(data, data_type, self.spec.shape), self.spec)
            )
        array = np.frombuffer(data, dtype=self.spec.data_type.numpy).reshape(self.spec.shape)
        return to_flat_array(self.chain.encode(array, self.spec))

    def decode(self, data: BytesLike, decoded_bytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Return a chunk in C order with `decoded_bytes` bytes; a layout may have fewer."""
        if self.spec.data_type.elements is not None:
            from tessarr.codec.elements import from_objects

            return to_flat_array(
                from_objects(self.chain.decode(data, self.spec), self.spec.data_type)
            )
        array = to_flat_array(np.ascontiguousarray(self.chain.decode(data, self.spec)))
        if array.nbytes != decoded_bytes:
            message = f"{array.nbytes} bytes instead of {decoded_bytes}"
            raise DataError(message, kind="wrong_size", codec=self.name)
        return array


@dataclass(frozen=True, slots=True)
class FlatCodec:
    """A codec from bytes to bytes with the interface that the engine calls."""

    codec: BytesBytesCodec

    def encode(self, data: BytesLike) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Return the encoding of `data`."""
        return to_flat_array(self.codec.encode(data))

    def decode(self, data: BytesLike, limit: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Decode `data`; a result of more than `limit` bytes is an error."""
        return to_flat_array(self.codec.decode_at_most(data, limit))


def to_flat_array(data: BytesLike) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the bytes of a buffer, or of an array in memory order, as a flat array."""
    if isinstance(data, np.ndarray):
        if not (data.flags.c_contiguous or data.flags.f_contiguous):
            data = np.ascontiguousarray(data)
        return data.reshape(-1, order="A").view(np.uint8)
    return np.frombuffer(data, dtype=np.uint8)


def _compile_arrays(
    arrays: list[ArrayArrayCodec], spec: ArraySpec
) -> tuple[list[dict[str, object]] | None, ArraySpec]:
    """Return the engine's codecs for array codecs, or None if it lacks one, and the final spec."""
    stages: list[dict[str, object]] | None = []
    for codec in arrays:
        more = codec.stages(spec)
        stages = None if stages is None or more is None else [*stages, *more]
        spec = codec.encoded(spec)
    return stages, spec


def _can_follow_stages(array_bytes: dict[str, object], stages: list[dict[str, object]]) -> bool:
    if not stages:
        return array_bytes["kind"] in ("bytes", "vlen")
    return array_bytes["kind"] == "bytes" and not array_bytes["swap"]


def _has_serializer(codecs: tuple[Codec, ...]) -> bool:
    return any(codec.kind == "array_bytes" for codec in codecs)


def _add_bytes(codecs: tuple[Codec, ...]) -> tuple[Codec, ...]:
    """Insert the codec ``bytes`` into codecs without a serializer."""
    arrays = sum(codec.kind == "array_array" for codec in codecs)
    return (*codecs[:arrays], Bytes(), *codecs[arrays:])


def _find_misplaced(codecs: tuple[Codec, ...]) -> tuple[int, str] | None:
    """Return the position of the first misplaced codec and the reason, or None."""
    serializer = None
    for position, codec in enumerate(codecs):
        if codec.kind == "bytes_bytes" and serializer is None:
            return position, f"codec {codec.label!r} takes bytes, but is given an array"
        if codec.kind in {"array_array", "array_bytes"} and serializer is not None:
            reason = f"codec {codec.label!r} takes an array, but {serializer.label!r} makes bytes"
            return position, reason
        if codec.kind == "array_bytes":
            serializer = codec
    return None


def _compile_bytes(codec: BytesBytesCodec) -> dict[str, object]:
    return codec.engine() or {"name": codec.label, "codec": FlatCodec(codec)}


set_public_module("tessarr.codecs", Chain)
