"""Settings for a new array that resembles an array of any library."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr.array import Array
from tessarr.codec import ArrayArrayCodec, ArrayBytesCodec, Codec, to_codec, to_list
from tessarr.codec.blosc import Blosc
from tessarr.errors import ArgumentError
from tessarr.format.chunk_shape import normalize_shape

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["chunks_of", "fill_settings_like", "settings_like", "type_of"]

_OVERRIDES: Final = {
    "chunk_shape": {"chunks"},
    "compressor": {"compressors"},
    "compression": {"compressors"},
    "codecs": {"compressors", "filters", "serializer"},
    "fillvalue": {"fill_value"},
    "chunk_key_encoding": {"dimension_separator"},
    "dimension_separator": {"chunk_key_encoding"},
    "zarr_version": {"zarr_format"},
}
"""The settings that another setting overrides."""


def chunks_of(a: Any) -> Any:
    """Return the chunks of an array, or None if it has none.

    Dask lists the lengths of all chunks; the result has the longest length of each axis.

    Examples
    --------
    >>> class Blocks: chunks = ((10, 10, 5), (7,)); shape = (25, 7)
    >>> chunks_of(Blocks()), chunks_of([1, 2])
    ((10, 7), None)
    """
    chunks = getattr(a, "chunks", None)
    if not isinstance(chunks, tuple | list) or len(chunks) != len(np.shape(a)):
        return None
    if isinstance(a, Array):
        return chunks
    return tuple(max(axis, default=1) if isinstance(axis, tuple) else axis for axis in chunks)


def settings_like(
    a: Any, settings: Mapping[str, Any], *, with_metadata: bool = False
) -> dict[str, Any]:
    """Return the settings of an array, overridden by `settings`.

    Parameters
    ----------
    a
        An array of Tessarr, zarr-python, h5py, NumPy, … Arrays of libraries other than Zarr
        determine shape, data type and chunks.
    settings
        Settings for the new array.
    with_metadata
        Whether the result includes fill value, attributes and chunk key encoding.

    Examples
    --------
    >>> import tessarr
    >>> a = tessarr.zeros((4, 6), dtype="i2", chunks=(2, 3), zarr_format=2, compressor=None)
    >>> sorted(settings_like(a, {"dtype": "i4"}).items())
    [('chunks', (2, 3)), ('compressors', []), ('dtype', 'i4'), ('order', 'C'),
     ('shape', (4, 6)), ('zarr_format', 2)]
    """
    shape = _shape_of(a)
    like: dict[str, Any] = {"shape": shape, "dtype": type_of(a), "chunks": chunks_of(a)}
    if hasattr(a, "filters") and hasattr(a, "fill_value"):  # an array of a Zarr library
        source = _zarr_format_of(a)
        zarr_format = settings.get("zarr_format") or settings.get("zarr_version") or source
        like |= {"zarr_format": zarr_format, **_codecs_like(a, source, zarr_format)}
        if zarr_format == 3:
            names = getattr(getattr(a, "metadata", None), "dimension_names", None)
            like |= {"shards": a.shards, "dimension_names": names}
        if with_metadata:
            like |= _metadata_like(a, source, zarr_format)
    elif with_metadata:
        fill: Any = getattr(a, "fillvalue", None)
        if isinstance(fill, bytes) and like["dtype"] is str:  # in h5py
            fill = fill.decode("utf-8", "replace")
        like |= {"fill_value": fill}
    for name in _overridden_names(shape, like, settings):
        like.pop(name, None)
    overrides = dict(settings)
    if overrides.get("zarr_format", 0) is None:  # the format of the array
        del overrides["zarr_format"]
    return {**{name: value for name, value in like.items() if value is not None}, **overrides}


def fill_settings_like(a: Any, fill_value: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of an array with a fill value, overridden by `settings`.

    Parameters
    ----------
    a, settings
        As for `settings_like`.
    fill_value
        The fill value of the new array; "keep" uses that of `settings`, or else that of `a`.

    Examples
    --------
    >>> fill_settings_like(np.zeros(3, "u1"), 7, {})
    {'shape': (3,), 'dtype': dtype('uint8'), 'fill_value': 7}
    """
    if not isinstance(fill_value, str) or fill_value != "keep":
        settings = {**settings, "fill_value": fill_value}
    elif "fillvalue" not in settings:
        settings = {"fill_value": getattr(a, "fill_value", "auto"), **settings}
    return settings_like(a, settings)


def _shape_of(a: Any) -> tuple[int, ...]:
    try:
        return np.shape(a)
    except ValueError as error:
        raise ArgumentError(f"data is no array: {error}", kind="cannot_cast") from error


def _overridden_names(
    shape: tuple[int, ...], like: dict[str, Any], settings: Mapping[str, Any]
) -> set[str]:
    """Return the names of settings of an array that `settings` overrides or invalidates."""
    names = {name for setting in settings for name in _OVERRIDES.get(setting, ())}
    if "shape" in settings and len(normalize_shape(settings["shape"])) != len(shape):
        names |= {"chunks", "shards", "dimension_names"}
    if settings.get("dtype") is not None and settings["dtype"] != like["dtype"]:
        names |= {"filters", "serializer", "fill_value"}  # these depend on the data type
        codecs = like.get("compressors") or []
        like["compressors"] = [
            replace(codec, typesize=None) if isinstance(codec, Blosc) else codec for codec in codecs
        ]
    return names


def _zarr_format_of(a: Any) -> int:
    source = a if hasattr(a, "zarr_format") else getattr(a, "metadata", None)
    zarr_format = int(getattr(source, "zarr_format", 2))
    return max(zarr_format, 2)  # arrays of format 1 have metadata of format 2


def type_of(a: Any) -> Any:
    """Return the data type of an array, or None if it has none.

    Examples
    --------
    >>> type_of(np.zeros(3)), type_of([1])
    (dtype('float64'), None)
    """
    if isinstance(a, Array):
        return a._metadata.data_type
    dtype = getattr(a, "dtype", None)
    if not isinstance(dtype, np.dtype) or dtype.kind != "O" or not dtype.metadata:
        return dtype
    items = dtype.metadata.get("vlen", dtype)  # in h5py: str, bytes, or the type of array items
    return f"array:{items.str}" if isinstance(items, np.dtype) and items != dtype else items


def _codecs_like(a: Any, source: int, form: int) -> dict[str, Any]:
    """Return the codecs of an array of format `source` for an array of format `form`."""
    filters = [to_codec(codec) for codec in to_list(a.filters)]
    if hasattr(a, "compressors"):
        compressors = [to_codec(codec) for codec in a.compressors]
    else:  # zarr-python 2
        compressors = [to_codec(codec) for codec in to_list(a.compressor)]
    if source == 2 and form == 3:
        arrays: list[Codec] = [c for c in filters if isinstance(c, ArrayArrayCodec)]
        serializers = [c for c in filters if isinstance(c, ArrayBytesCodec)]
        bytes_codecs = [c for c in filters if c not in arrays and c not in serializers]
        result = {"filters": arrays, "compressors": [*bytes_codecs, *compressors]}
        return {**result, "serializer": serializers[0] if serializers else None, "order": a.order}
    if source == 2:
        return {"filters": filters or None, "compressors": compressors, "order": a.order}
    return {"filters": filters, "serializer": a.serializer, "compressors": compressors}


def _metadata_like(a: Any, source: int, form: int) -> dict[str, Any]:
    """Return the settings of an array, except its codecs."""
    attributes = a.attrs.asdict() if hasattr(a.attrs, "asdict") else dict(a.attrs)
    rest: dict[str, Any] = {"fill_value": a.fill_value, "attributes": attributes}
    if source != form:
        return rest
    if form == 2:
        keys = _chunk_key_encoding(a)
        explicit = getattr(keys, "is_explicit", False)
        rest["dimension_separator"] = keys.separator if explicit else None
    elif isinstance(a, Array):
        rest["chunk_key_encoding"] = a._metadata.chunk_key_encoding
    else:
        rest["chunk_key_encoding"] = a.metadata.chunk_key_encoding.to_dict()
    return rest


def _chunk_key_encoding(a: Any) -> Any:
    return a._metadata.chunk_key_encoding if isinstance(a, Array) else None
