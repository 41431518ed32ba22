"""The description of an array: its metadata in the form that the engine reads."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tessarr._engine import Description
from tessarr.errors import UnsupportedError
from tessarr.format.chunk_key_encoding import V2Keys
from tessarr.metadata.node import ArrayMeta
from tessarr.options import current
from tessarr.store.adapt import get_dimension_separator

if TYPE_CHECKING:
    from tessarr.store import Store
    from tessarr.types import Missing

__all__ = ["check_pickles", "describe_array", "resolve_separator", "use_text_type"]


def check_pickles(meta: ArrayMeta, path: str) -> None:
    """Raise an error if the elements are pickled and the options do not allow pickles."""
    if meta.codecs.runs_code and not current().allow_pickle:
        raise UnsupportedError(
            f"array {path or '/'!r} is pickled, and to read pickles is to run what their writer "
            "wants: if you trust it, open it with tessarr.options(allow_pickle=True)",
            kind="unsupported_codec",
            extension="pickle",
            path=path,
        )


def describe_array(
    meta: ArrayMeta, write_empty_chunks: bool, missing: Missing, *, casts: bool = False
) -> Description:
    """Return the description of an array for the engine, and cache it in the metadata.

    Descriptions of arrays that differ only in shape share all other parts. So do those of separate
    metadata with equal chunks, unless their codecs are objects of Python. With `casts`, the engine
    performs the cast of a view if it can; such a view cannot be written.
    """
    key = write_empty_chunks, missing, casts
    description: Description | None = meta.derived.get(key)
    if description is None:
        similar: Description | None = meta.shared.get(key)
        if similar is None:
            similar = meta.shared[key] = _find_or_create(meta, write_empty_chunks, missing, casts)
        description = (
            similar if tuple(similar.shape) == meta.shape else similar.with_shape(meta.shape)
        )
        meta.derived[key] = description
    return description


_descriptions: dict[tuple[object, ...], Description] = {}
"""Descriptions by what they depend on, apart from the shape."""

_MAX_DESCRIPTIONS: Final = 256


def _find_or_create(
    meta: ArrayMeta, write_empty_chunks: bool, missing: Missing, casts: bool
) -> Description:
    data_type = meta.data_type
    form = meta.zarr_format, data_type, data_type.numpy, data_type.elements, meta.fill_value
    chunks = meta.chunk_grid, meta.codecs, meta.chunk_key_encoding
    key = (*form, *chunks, write_empty_chunks, missing, casts)
    try:
        description = _descriptions.get(key)
    except TypeError:  # a parameter of an extension has no hash
        description = None
    if description is not None:
        return description
    description = Description(_describe(meta, write_empty_chunks, missing, casts))
    if description.is_native:
        if len(_descriptions) >= _MAX_DESCRIPTIONS:
            _descriptions.clear()
        _descriptions[key] = description
    return description


def _describe(
    meta: ArrayMeta, store_fill: bool, missing: Missing, casts: bool
) -> dict[str, object]:
    if not casts:
        return meta.description(store_fill=store_fill, missing=missing)
    from tessarr.metadata.view import describe_cast

    return describe_cast(meta, store_fill=store_fill, missing=missing)


def resolve_separator(meta: ArrayMeta, store: Store) -> ArrayMeta:
    """Return the metadata with the store's separator, if format 2 metadata omits it."""
    keys = meta.chunk_key_encoding
    if isinstance(keys, V2Keys) and not keys.is_explicit and get_dimension_separator(store) == "/":
        return replace(meta, chunk_key_encoding=V2Keys("/"))
    return meta


def use_text_type(meta: ArrayMeta, kind: str) -> ArrayMeta:
    """Return the metadata of a text array with another NumPy type for its elements."""
    return replace(meta, data_type=meta.data_type.of_kind(kind))
