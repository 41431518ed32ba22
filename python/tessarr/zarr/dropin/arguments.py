"""Arguments of zarr-python's functions, in the form that Tessarr's functions accept."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final
from weakref import WeakValueDictionary

from tessarr.format.user_warnings import warn_user
from tessarr.options import current
from tessarr.store.class_names import is_instance_of
from tessarr.store.local import LocalStore
from tessarr.store.resolve import FILE_SUFFIXES, is_url

__all__ = ["parse_config", "translate_arguments", "translate_value"]

_NOT_IMPLEMENTED: Final = ("meta_array", "cache_attrs")
_CODEC_SETTINGS: Final = ("compressor", "compressors", "filters", "serializer", "codecs")
_STORE_SETTINGS: Final = ("store", "chunk_store", "source", "dest")
_memory_stores: Final[WeakValueDictionary[int, Any]] = WeakValueDictionary()


def translate_arguments(settings: dict[str, Any]) -> dict[str, Any]:
    """Return keyword arguments without the classes of zarr-python.

    Data types, codecs and chunk key encodings of zarr-python become their documents or NumPy's
    data types. Arguments without an effect in zarr-python are left out, with its warning.
    """
    for name in _NOT_IMPLEMENTED:
        if settings.get(name) is not None:
            _warn(f"{name} is not yet implemented: it has no effect")
    if settings.get("write_empty_chunks") is not None:
        _warn(
            "The `write_empty_chunks` keyword argument is deprecated: pass "
            "config={'write_empty_chunks': ...}"
        )
    translated = {name: it for name, it in settings.items() if name not in _NOT_IMPLEMENTED}
    if translated.get("cache_metadata", True) is None:  # zarr-python's default
        del translated["cache_metadata"]
    if is_instance_of(translated.get("fill_value"), "zarr.core.array"):  # DEFAULT_FILL_VALUE
        del translated["fill_value"]
    if "dtype" in translated:
        translated["dtype"] = _translate_dtype(translated["dtype"])
    for name in _CODEC_SETTINGS:
        if name in translated:
            translated[name] = _translate_codecs(translated[name])
    for name in _STORE_SETTINGS:
        if name in translated:
            translated[name] = _translate_store(translated[name])
    encoding: Any = translated.get("chunk_key_encoding")
    if is_instance_of(encoding, "zarr"):
        translated["chunk_key_encoding"] = encoding.to_dict()
    return translated


def parse_config(settings: dict[str, Any], zarr_format: int | None) -> Any:
    """Return the ``ArrayConfig`` of keyword arguments, with their memory order; None without any.

    In format 2 the memory order is part of the metadata; in format 3 only ``config`` has one.
    """
    config, order = settings.get("config"), settings.get("order")
    if config is None and order is None:
        return None
    from zarr.core.array_spec import ArrayConfig, parse_array_config

    parsed = parse_array_config(config)
    if (zarr_format or current().zarr_format) == 2:
        settings["order"] = order or parsed.order
        return ArrayConfig.from_dict({**parsed.to_dict(), "order": settings["order"]})
    if order is not None:
        del settings["order"]
        _warn(
            "The `order` keyword argument has no effect for Zarr format 3 arrays: pass "
            "config={'order': ...} for the memory order of results"
        )
    return parsed


def _warn(message: str) -> None:
    from zarr.errors import ZarrRuntimeWarning

    warn_user(message, ZarrRuntimeWarning)


def translate_value(value: Any, name: str = "") -> Any:
    """Return the positional argument `name` without the data types of zarr-python."""
    if name in _STORE_SETTINGS:
        return _translate_store(value)
    return _translate_dtype(value) if is_instance_of(value, "zarr.core.dtype") else value


def _translate_store(store: Any) -> Any:
    """Return the store that zarr-python has for an argument; most arguments are unchanged.

    zarr-python stores its buffers in a dictionary, not bytes. All users of a dictionary share one
    store and its locks. Each path is the path of a folder, also one that ends in ".zip".
    """
    if isinstance(store, str | Path):
        names_file = str(store).lower().endswith(FILE_SUFFIXES) or Path(store).is_file()
        is_path = isinstance(store, Path) or not is_url(store)
        return LocalStore(store, durable=current().durable) if names_file and is_path else store
    if type(store) is not dict:
        return store
    from zarr.storage import MemoryStore

    known = _memory_stores.get(id(store))
    if known is None:
        known = _memory_stores[id(store)] = MemoryStore(store)
    return known


def _translate_dtype(dtype: Any) -> Any:
    if not is_instance_of(dtype, "zarr"):
        return dtype
    native = dtype.to_native_dtype()
    # NumPy lacks these data types; zarr-python's documents name them.
    is_document_type = native.kind in "OT" or (native.kind == "V" and native.names is None)
    return dtype.to_json(zarr_format=3) if is_document_type else native


def _translate_codecs(codecs: Any) -> Any:
    if isinstance(codecs, list | tuple):
        return tuple(map(_translate_codecs, codecs))
    return codecs.to_dict() if is_instance_of(codecs, "zarr") else codecs
