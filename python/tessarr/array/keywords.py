"""Keywords of the functions that create arrays.

`Settings` lists the keywords. `parse_keywords` translates the names of zarr-python 2 and h5py,
rejects unknown and contradictory keywords, and groups the rest by the module that uses them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

from tessarr.array.config import RUNTIME_SETTINGS, check_keywords, runtime_settings
from tessarr.codec import to_codec, to_list
from tessarr.codec.base import find_codec_by_id, find_plain_codec
from tessarr.errors import ArgumentError, UnsupportedError
from tessarr.metadata.build import AUTO
from tessarr.options import current

if TYPE_CHECKING:
    from tessarr.codec import Codec, CodecLike
    from tessarr.dtype.names import DataTypeLike
    from tessarr.format.chunk_key_encoding import ChunkKeyEncoding
    from tessarr.format.storage_transformer import StorageTransformer
    from tessarr.store.resolve import StoreLike
    from tessarr.types import MemoryOrder, Missing, ZarrFormat

__all__ = ["SETTING_NAMES", "CreationSettings", "Settings", "StoreSettings", "parse_keywords"]


class SettingsWithoutFill(TypedDict, total=False):
    """Keywords of every function that creates an array, except the fill value."""

    dtype: DataTypeLike | None
    chunks: Any
    shards: Any
    codecs: Iterable[CodecLike] | None
    compressors: Any
    filters: Any
    serializer: Any
    object_codec: CodecLike | None
    order: MemoryOrder | None
    dimension_names: Iterable[str | None] | None
    attributes: Mapping[str, Any] | None
    zarr_format: ZarrFormat | None
    chunk_key_encoding: ChunkKeyEncoding | Mapping[str, Any] | tuple[str, str] | str | None
    dimension_separator: Literal[".", "/"] | None
    storage_transformers: Iterable[StorageTransformer | Mapping[str, Any] | str]
    overwrite: bool
    write_data: bool
    # Runtime settings of the new array
    write_empty_chunks: bool | None
    missing: Missing
    config: Any
    synchronizer: Any
    cache_metadata: bool
    read_only: bool
    # Names of zarr-python 2 and h5py
    compressor: Any
    compression: Any
    compression_opts: Any
    shuffle: bool
    fletcher32: bool
    maxshape: Iterable[int | None] | int | None
    chunk_shape: Any
    zarr_version: ZarrFormat | None
    cache_attrs: bool
    partial_decompress: bool
    meta_array: Any


class Settings(SettingsWithoutFill, total=False):
    """Keywords of every function that creates an array; see `tessarr.create_array`."""

    fill_value: Any
    fillvalue: Any


class StoreSettings(SettingsWithoutFill, total=False):
    """Keywords of functions that set the fill value: the settings and the location."""

    store: StoreLike
    name: str | None
    path: str | None
    chunk_store: StoreLike
    storage_options: Mapping[str, Any] | None


_ALIASES: Final = {
    "chunk_shape": "chunks",
    "compressor": "compressors",
    "fillvalue": "fill_value",
    "zarr_version": "zarr_format",
}

_H5PY: Final = {"gzip": "zlib", "lzf": None, "szip": None}
"""Names of numcodecs for the compressions of h5py."""


@dataclass(frozen=True, slots=True)
class CreationSettings:
    """Settings of a new array, grouped by the module that uses them.

    Parameters
    ----------
    meta
        Keywords of `tessarr.metadata.build.build_array_meta`, without the shape.
    opened
        Keywords of `tessarr.array.bind_array`.
    maxshape
        The maximum lengths of h5py, which are ignored: every axis can grow.
    """

    meta: dict[str, Any]
    opened: dict[str, Any] = field(default_factory=dict)
    overwrite: bool = False
    write_data: bool = True
    maxshape: Any = None


SETTING_NAMES: Final = Settings.__optional_keys__
"""All names of settings."""


def parse_keywords(settings: Mapping[str, Any], function: str = "create_array") -> CreationSettings:
    """Return the settings under their current names, grouped by use.

    Parameters
    ----------
    settings
        The user's keywords.
    function
        The name of the function, for messages.

    Raises
    ------
    TypeError
        If a name is unknown, or two names denote one setting.
    ArgumentError
        If a value is invalid.

    Examples
    --------
    >>> keywords = {"compression": "gzip", "compression_opts": 1, "zarr_format": 2}
    >>> parse_keywords(keywords).meta["compressors"]
    Zlib(level=1)
    """
    check_keywords(settings, function, SETTING_NAMES)
    remaining = dict(settings)
    _rename_aliases(remaining, function)
    zarr_format: ZarrFormat = remaining.get("zarr_format") or current().zarr_format
    remaining["zarr_format"] = zarr_format
    _convert_compression(remaining, function)
    if remaining.get("order", "C") is None:
        del remaining["order"]
    if remaining.pop("meta_array", None) is not None and not _is_numpy(settings["meta_array"]):
        raise UnsupportedError(f"meta_array {settings['meta_array']!r}: arrays are read as NumPy's")
    runtime = runtime_settings(remaining)
    for name in (*RUNTIME_SETTINGS, "cache_attrs", "config", "partial_decompress"):
        remaining.pop(name, None)
    return CreationSettings(
        opened=runtime,
        overwrite=remaining.pop("overwrite", False),
        write_data=remaining.pop("write_data", True),
        maxshape=remaining.pop("maxshape", None),
        meta=remaining,
    )


def _rename_aliases(settings: dict[str, Any], function: str) -> None:
    """Replace alternative names of settings by the current ones."""
    for name in ("compressor", "compressors", "compression"):
        if _is_default(settings.get(name)):
            del settings[name]
    if settings.get("zarr_version", 0) is None:
        del settings["zarr_version"]
    for old, new in _ALIASES.items():
        if old not in settings:
            continue
        value, other = settings.pop(old), settings.get(new)
        if other is not None and other is not value and not _is_default(other):
            raise TypeError(f"{function}(): give {new} or {old}, not both: they mean the same")
        settings[new] = value


def _is_default(value: object) -> bool:
    return isinstance(value, str) and value in (AUTO, "default")


def _convert_compression(settings: dict[str, Any], function: str) -> None:
    """Replace h5py's compression settings by codecs."""
    has_compression = "compression" in settings
    compression = settings.pop("compression", None)
    options = settings.pop("compression_opts", None)
    shuffle, checksum = settings.pop("shuffle", False), settings.pop("fletcher32", False)
    if options is not None and compression is None:
        raise TypeError(f"{function}(): compression_opts needs compression")
    if has_compression:
        if settings.get("compressors") is not None:
            raise TypeError(f"{function}(): give compressors or compression, not both")
        settings["compressors"] = _compression_codec(compression, options, settings["zarr_format"])
    if shuffle or checksum:
        settings["compressors"] = _add_hdf5_filters(settings, shuffle=shuffle, checksum=checksum)


def _add_hdf5_filters(settings: Mapping[str, Any], *, shuffle: bool, checksum: bool) -> Any:
    """Return the compressors with HDF5's filters, in the order of HDF5."""
    from tessarr.codec.blosc import Blosc
    from tessarr.codec.fletcher32 import Fletcher32
    from tessarr.codec.shuffle import Shuffle

    compressors = settings.get("compressors", current().compressor)
    if _is_default(compressors):
        compressors = Blosc()
    codecs = [to_codec(codec) for codec in to_list(compressors)]
    after: list[Codec] = [Fletcher32()] if checksum else []
    # Blosc shuffles itself, and shuffling does not help without compression.
    before: list[Codec] = [Shuffle()] if shuffle and codecs and codecs != [Blosc()] else []
    if settings["zarr_format"] == 2:  # its compressor is the last codec
        return [*before, *after, *codecs]
    return [*before, *codecs, *after]


def _compression_codec(compression: Any, options: Any, zarr_format: ZarrFormat) -> Codec | None:
    """Return the codec for `compression` of h5py or zarr-python 2."""
    if compression is None or (isinstance(compression, str) and compression == "none"):
        return None
    if type(compression) is int:  # h5py: a level of gzip
        compression, options = "gzip", compression
    if not isinstance(compression, str):
        return to_codec(compression)
    # zarr-python 2 used the name gzip for zlib streams, which are smaller. In format 3, "gzip" is
    # gzip, and fewer readers support zlib.
    codec_id = _H5PY.get(compression, compression) if zarr_format == 2 else compression
    codec: Any = codec_id and (find_plain_codec(codec_id) or find_codec_by_id(codec_id))
    if not codec:
        from tessarr.codec.base import list_codec_names
        from tessarr.format.suggestions import did_you_mean

        hint = did_you_mean(compression, list_codec_names())
        hint = hint or ": Tessarr has 'gzip', 'blosc', 'zstd', 'lz4', 'bz2', 'lzma' and others"
        message = f"compression {compression!r} is not supported{hint}"
        raise UnsupportedError(message, kind="unsupported_codec", extension=compression)
    try:
        if isinstance(options, Mapping):
            new_codec = codec.from_config(dict(options))
        elif isinstance(options, list | tuple):
            new_codec = codec(*options)
        else:
            new_codec = codec() if options is None else codec(options)
    except (TypeError, ValueError) as error:
        message = f"compression_opts {options!r} do not fit compression {compression!r}: {error}"
        raise ArgumentError(message) from error
    return to_codec(new_codec)


def _is_numpy(array: object) -> bool:
    import numpy as np

    return isinstance(array, np.ndarray)
