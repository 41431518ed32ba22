"""Adapter for codecs of format 2 with numcodecs' protocol, of users or of numcodecs."""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tessarr._safe_repr import safe_repr
from tessarr.codec.base import BytesBytesCodec, deliver, find_plain_codec
from tessarr.errors import ArgumentError, DataError, UnsupportedError
from tessarr.format import hints

if TYPE_CHECKING:
    from tessarr.codec.base import ArraySpec
    from tessarr.types import BytesLike, JSONObject, Shape, ZarrFormat

__all__ = ["Numcodec", "numcodec_from_config"]


@dataclass(frozen=True, slots=True)
class Numcodec(BytesBytesCodec):
    """A codec of format 2 that a user's class or the package numcodecs implements.

    Parameters
    ----------
    config : str
        Its JSON.
    first : bool
        Whether its input is the chunk; the codec then gets an array rather than bytes, which
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
                f"codec {codec_id!r} is one of format 2: give zarr_format=2",
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
        config = self.get_config()
        plain = find_plain_codec(config["id"])
        if plain is not None:
            return plain.from_config({name: v for name, v in config.items() if name != "id"})
        return importlib.import_module("numcodecs").get_codec(config)


def numcodec_from_config(config: JSONObject, *, first: bool) -> Numcodec:
    """Return the adapter for a configuration of format 2.

    Raises
    ------
    UnsupportedError
        If the codec is unknown, or if numcodecs is missing or cannot be imported.
    ArgumentError
        If numcodecs rejects the configuration.
    """
    codec_id = config["id"]

    def refuse(kind: str, reason: str) -> UnsupportedError:
        message = f"codec {safe_repr(codec_id)} is not supported: {reason}"
        error = UnsupportedError(message, kind=kind, extension=codec_id, codec=codec_id)
        error.add_note(reason)
        return error

    plain = find_plain_codec(codec_id)
    if plain is not None:
        try:
            plain.from_config({name: value for name, value in config.items() if name != "id"})
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"codec {codec_id!r}: {error}", codec=codec_id) from error
        return Numcodec(json.dumps(config, sort_keys=True), first)
    try:
        numcodecs = importlib.import_module("numcodecs")
    except ImportError as error:
        raise refuse("missing_package", "the package numcodecs is not installed") from error
    except Exception as error:
        # numcodecs 0.16 cannot parse the version of zfpy 1.0.1.post0, so its import fails.
        reason = f"the installed numcodecs cannot be imported ({error})"
        raise refuse("missing_package", reason) from error
    try:
        numcodecs.get_codec(config)
    except Exception as error:
        registry = importlib.import_module("numcodecs.registry")
        if codec_id not in registry.codec_registry:
            reason = "neither Tessarr nor the installed numcodecs knows it"
            raise refuse("unsupported_codec", reason + hints.extension_hint(codec_id)) from error
        raise ArgumentError(f"codec {codec_id!r}: {error}", codec=codec_id) from error
    return Numcodec(json.dumps(config, sort_keys=True), first)
