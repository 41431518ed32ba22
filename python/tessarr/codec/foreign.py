"""Codecs that run in Python: as the engine calls them, and those of the package numcodecs.

The engine has no NumPy. Where a chain holds an array codec that the engine
lacks, `NumpyStage` runs everything from there up to the bytes; `FlatCodec` wraps a
codec from bytes to bytes so that the engine always gets flat bytes back.
"""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr.codec.base import BytesBytesCodec, deliver
from tessarr.errors import ArgumentError, DataError, UnsupportedError

if TYPE_CHECKING:
    from tessarr.codec.base import ArrayArrayCodec, ArrayBytesCodec, ArraySpec
    from tessarr.types import BytesLike, JSONObject, Shape, ZarrFormat

__all__ = ["FlatCodec", "Numcodec", "NumpyStage", "numcodec_from_config"]

_REFUSED: Final = {
    "pickle": "it would run code from the data",
    # Their input is an array of objects, not bytes.
    "vlen-utf8": "object arrays are not supported",
    "vlen-bytes": "object arrays are not supported",
    "vlen-array": "object arrays are not supported",
    "json2": "object arrays are not supported",
    "msgpack2": "object arrays are not supported",
    "categorize": "object arrays are not supported",
}


@dataclass(frozen=True, slots=True)
class NumpyStage:
    """Array codecs in a row, the last one to bytes, run on NumPy arrays.

    Parameters
    ----------
    array_array : tuple of ArrayArrayCodec
        The first codecs.
    array_bytes : ArrayBytesCodec
        The last codec.
    spec : ArraySpec
        What the first of them encodes.
    """

    array_array: tuple[ArrayArrayCodec, ...]
    array_bytes: ArrayBytesCodec
    spec: ArraySpec

    @property
    def name(self) -> str:
        """The names of the codecs."""
        return "+".join(codec.name for codec in (*self.array_array, self.array_bytes))

    def encode(self, data: BytesLike) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Return the encoding of a chunk in C order."""
        array = np.frombuffer(data, dtype=self.spec.data_type.numpy).reshape(self.spec.shape)
        spec = self.spec
        for codec in self.array_array:
            array, spec = codec.encode(array), codec.encoded(spec)
            if array.shape != spec.shape or array.dtype != spec.data_type.numpy:
                # Stored, it could not be read back.
                raise ArgumentError(
                    f"codec {codec.name!r} encodes to {array.dtype} of shape {array.shape}, "
                    f"where it promises {spec.data_type.name} of shape {spec.shape}",
                    kind="shape_mismatch",
                    codec=codec.name,
                )
        return _flat(self.array_bytes.encode(array))

    def decode(self, data: BytesLike, decoded_bytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Return a chunk in C order, of exactly `decoded_bytes` bytes."""
        specs = [self.spec]
        for codec in self.array_array:
            specs.append(codec.encoded(specs[-1]))
        array = self.array_bytes.decode(data, specs.pop())
        for codec in reversed(self.array_array):
            array = codec.decode(array, specs.pop())
        spec = self.spec
        if array.shape != spec.shape or array.nbytes != decoded_bytes:
            message = f"an array of shape {array.shape} instead of {spec.shape}"
            raise DataError(message, kind="wrong_size", codec=self.name)
        return _flat(np.ascontiguousarray(array.astype(spec.data_type.numpy, copy=False)))


@dataclass(frozen=True, slots=True)
class FlatCodec:
    """A codec from bytes to bytes whose results are flat bytes, whatever it returns."""

    codec: BytesBytesCodec

    def encode(self, data: BytesLike) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Return the encoding of `data`."""
        return _flat(self.codec.encode(data))

    def decode(self, data: BytesLike) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Return what `data` is the encoding of."""
        return _flat(self.codec.decode(data))


def _flat(data: BytesLike) -> np.ndarray[Any, np.dtype[np.uint8]]:
    if isinstance(data, np.ndarray):
        if not (data.flags.c_contiguous or data.flags.f_contiguous):
            data = np.ascontiguousarray(data)
        return data.reshape(-1, order="A").view(np.uint8)
    return np.frombuffer(data, dtype=np.uint8)


@dataclass(frozen=True, slots=True)
class Numcodec(BytesBytesCodec):
    """A codec of format 2 that the package numcodecs runs.

    Parameters
    ----------
    config : str
        Its JSON.
    first : bool
        Whether it is given the chunk itself; it then sees an array and not bytes, which
        some compressors need.
    """

    config: str
    first: bool
    dtype: str = ""
    shape: Shape = ()

    def get_config(self) -> JSONObject:
        config: JSONObject = json.loads(self.config)
        return config

    def to_json(self, zarr_format: ZarrFormat) -> Any:
        if zarr_format == 3:
            codec_id = self.get_config()["id"]
            raise UnsupportedError(
                f"codec {codec_id!r} is not supported in format 3",
                kind="unsupported_codec",
                extension=codec_id,
            )
        return self.get_config()

    def resolve(self, spec: ArraySpec, zarr_format: ZarrFormat) -> Numcodec:
        if not self.first:
            return self
        return replace(self, dtype=spec.data_type.numpy.str, shape=spec.shape)

    def encode(self, data: BytesLike, /) -> BytesLike:
        flat = np.frombuffer(data, dtype=np.uint8)
        if not self.first or not self.dtype:
            return self._numcodec().encode(flat)  # type: ignore[no-any-return]
        array = flat.view(self.dtype).reshape(self.shape)
        return self._numcodec().encode(array)  # type: ignore[no-any-return]

    def decode(self, data: BytesLike, /, out: BytesLike | None = None) -> BytesLike:
        try:
            decoded = self._numcodec().decode(np.frombuffer(data, dtype=np.uint8))
        except Exception as error:
            codec_id = self.get_config()["id"]
            raise DataError(f"codec {codec_id!r}: {error}", codec=codec_id) from error
        return deliver(decoded, out)

    def _numcodec(self) -> Any:
        return importlib.import_module("numcodecs").get_codec(self.get_config())


def numcodec_from_config(config: JSONObject, *, first: bool) -> Numcodec:
    """Return the codec of a configuration of format 2, run by the package numcodecs.

    Raises
    ------
    UnsupportedError
        Where the codec is unknown, or is not to be run, or the package is not installed.
    ArgumentError
        Where numcodecs refuses the configuration.
    """
    codec_id = config["id"]

    def refuse(kind: str, reason: str) -> UnsupportedError:
        message = f"codec {codec_id!r} is not supported: {reason}"
        error = UnsupportedError(message, kind=kind, extension=codec_id, codec=codec_id)
        error.add_note(reason)
        return error

    if codec_id in _REFUSED:
        raise refuse("unsupported_codec", _REFUSED[codec_id])
    try:
        numcodecs = importlib.import_module("numcodecs")
    except ImportError as error:
        raise refuse("missing_package", "the package numcodecs is not installed") from error
    try:
        numcodecs.get_codec(config)
    except Exception as error:
        registry = importlib.import_module("numcodecs.registry")
        if codec_id not in registry.codec_registry:
            reason = "neither Tessarr nor the installed numcodecs knows it"
            raise refuse("unsupported_codec", reason) from error
        raise ArgumentError(f"codec {codec_id!r}: {error}", codec=codec_id) from error
    return Numcodec(json.dumps(config, sort_keys=True), first)
