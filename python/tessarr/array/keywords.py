"""Keywords of the functions that create arrays, and runtime settings, which are not stored.

`tessarr.array.keyword_types` lists the keywords. `parse_keywords` translates the names of
zarr-python 2 and h5py, rejects unknown and contradictory keywords, and groups the rest by the
module that uses them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from tessarr.array.keyword_types import Settings
from tessarr.codec import to_codec, to_list
from tessarr.codec.base import find_codec_by_id, find_plain_codec
from tessarr.errors import ArgumentError, UnsupportedError
from tessarr.metadata.build import AUTO
from tessarr.options import check_cache_bytes, current

if TYPE_CHECKING:
    from collections.abc import Collection

    from tessarr.codec import Codec
    from tessarr.types import ZarrFormat

__all__ = [
    "RUNTIME_NAMES",
    "SETTING_NAMES",
    "ArrayConfig",
    "CreationSettings",
    "add_runtime_defaults",
    "check_keywords",
    "check_signature",
    "config_settings",
    "parse_keywords",
    "runtime_settings",
]


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
    if not settings.keys() <= SETTING_NAMES:
        check_keywords(settings, function, SETTING_NAMES)
    options, remaining = current(), dict(settings)
    _rename_aliases(remaining, function)
    remaining["zarr_format"] = remaining.get("zarr_format") or options.zarr_format
    _convert_compression(remaining, function)
    if remaining.get("codecs") is None:
        remaining.setdefault("compressors", options.compressor)
    if remaining.get("order", "C") is None:
        del remaining["order"]
    runtime = runtime_settings(remaining)
    for name in RUNTIME_NAMES:
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
        if name in settings and _is_default(settings[name]):
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
    from tessarr.codec.checksum import Fletcher32
    from tessarr.codec.native import Shuffle

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
        from tessarr.format.hints import did_you_mean

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


RUNTIME_SETTINGS: Final = (
    "write_empty_chunks",
    "missing",
    "synchronizer",
    "cache_metadata",
    "read_only",
)
"""The names of runtime settings."""

RUNTIME_NAMES: Final = (
    *RUNTIME_SETTINGS,
    "cache_attrs",
    "config",
    "meta_array",
    "partial_decompress",
)
"""The names of keywords that determine runtime settings."""

_MISSING: Final = ("fill", "refuse_chunks", "refuse")

_FOREIGN_NAMES: Final = {
    "dims": "dimension_names",
    "dim_names": "dimension_names",
    "fill": "fill_value",
    "level": "compression_opts",
    "format": "zarr_format",
}
"""Names that other libraries use for a setting."""

_RUNTIME_HINTS: Final = frozenset(
    ["order", "sharding_coalesce_max_bytes", "sharding_coalesce_max_gap_bytes"]
)
"""Members of zarr-python's ``config`` that Tessarr ignores: the engine controls these aspects."""


_RUNTIME_FLAGS: Final = frozenset(["read_missing_chunks", "write_empty_chunks"])


@dataclass(frozen=True, slots=True)
class ArrayConfig:
    """Runtime settings of an array.

    Parameters
    ----------
    write_empty_chunks
        Whether chunks that hold only the fill value are stored.
    read_missing_chunks
        Whether chunks that are not stored read as the fill value. If False, reading such a chunk
        raises `tessarr.errors.NotFoundError`. Without `write_empty_chunks`, that includes chunks
        that hold only the fill value.
    order
        The memory order of results: always C.
    chunk_cache_bytes
        The size of the array's own chunk cache in bytes; 0 disables it. None means that the array
        shares the cache of the process, see `tessarr.Options`.
    """

    write_empty_chunks: bool = False
    read_missing_chunks: bool = True
    order: Literal["C"] = "C"
    chunk_cache_bytes: int | None = None


def runtime_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the runtime settings, as keywords of `tessarr.array.bind_array`.

    Examples
    --------
    >>> runtime_settings({"chunks": 10, "config": {"write_empty_chunks": True}})
    {'write_empty_chunks': True}
    """
    config = settings.get("config")
    runtime = {} if config is None else config_settings(config)
    for name in RUNTIME_SETTINGS:
        if name in settings:
            runtime[name] = settings[name]
    if runtime.get("synchronizer") is not None:
        from tessarr.node.synchronizer import check_synchronizer

        check_synchronizer(runtime["synchronizer"])
    if settings.get("cache_attrs", True) is False:
        runtime["cache_metadata"] = False
    meta_array = settings.get("meta_array")
    if meta_array is not None and not isinstance(meta_array, np.ndarray):
        raise UnsupportedError(f"meta_array {meta_array!r}: arrays are read as NumPy's")
    if runtime.get("missing", "fill") not in _MISSING:
        raise ArgumentError(f"missing {runtime['missing']!r} is not one of {', '.join(_MISSING)}")
    return runtime


def add_runtime_defaults(
    settings: Mapping[str, Any], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the settings of a new array with default runtime settings.

    Parameters
    ----------
    settings
        The user's keywords.
    defaults
        The result of `runtime_settings` for the group of the array.

    Examples
    --------
    >>> add_runtime_defaults({"config": {"write_empty_chunks": True}}, {"missing": "refuse"})
    {'missing': 'refuse', 'write_empty_chunks': True, 'config': None}
    """
    runtime = {**defaults, **config_settings(settings.get("config"))}
    result = {**runtime, **settings, "config": None}
    cache_bytes = result.pop("chunk_cache_bytes", None)  # only a config has this setting
    if cache_bytes is not None:
        result["config"] = {"chunk_cache_bytes": cache_bytes}
    return result


def check_keywords(settings: Iterable[str], function: str, known: Collection[str]) -> None:
    """Raise a TypeError if a keyword is unknown.

    Examples
    --------
    >>> check_keywords({"compresion": None}, "zeros", ("chunks", "compression"))
    Traceback (most recent call last):
    TypeError: zeros() got an unexpected keyword argument 'compresion'; did you mean 'compression'?
    """
    for name in settings:
        if name not in known:
            from tessarr.format.hints import did_you_mean

            other = _FOREIGN_NAMES.get(name)
            hint = did_you_mean(other if other in known else name, known)
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{hint}")


def check_signature(settings: Mapping[str, Any], function: Any) -> None:
    """Raise a TypeError if the signature of a function lacks a keyword.

    Parameters
    ----------
    settings
        The keywords of a call.
    function
        A function with the decorator `tessarr.format.registry.with_keywords`.

    Raises
    ------
    TypeError

    Examples
    --------
    >>> import tessarr
    >>> check_signature({"overwrite": True}, tessarr.open)
    Traceback (most recent call last):
    TypeError: open() got an unexpected keyword argument 'overwrite': mode="w" replaces a node
    """
    known = function.__signature__.parameters
    if settings.keys() <= known.keys():
        return
    if "overwrite" in settings and "mode" in known and "overwrite" not in known:
        raise TypeError(
            f"{function.__name__}() got an unexpected keyword argument 'overwrite': "
            'mode="w" replaces a node'
        )
    check_keywords(settings, function.__name__, known)


def config_settings(config: Any) -> dict[str, Any]:
    """Return the runtime settings in a ``config`` of Tessarr or zarr-python.

    Raises
    ------
    TypeError
        If `config` is not a mapping, or has an unknown member.
    ArgumentError
        If a member has an invalid value.
    """
    if config is None:
        return {}
    if isinstance(config, ArrayConfig):
        config = asdict(config)
    if hasattr(config, "to_dict"):
        config = config.to_dict()
    if not isinstance(config, Mapping):
        raise TypeError(f"config is a mapping, not {config!r}")
    result: dict[str, Any] = {}
    for name, value in config.items():
        if name in _RUNTIME_FLAGS and not isinstance(value, bool):
            raise ArgumentError(f"{name} of config is True or False, not {value!r}")
        if name == "write_empty_chunks":
            result[name] = value
        elif name == "read_missing_chunks":
            result["missing"] = "fill" if value else "refuse_chunks"
        elif name == "chunk_cache_bytes":
            check_cache_bytes("chunk_cache_bytes of config", value)
            result[name] = value
        elif name not in _RUNTIME_HINTS:
            raise TypeError(f"config has no member {name!r}")
    return result
