"""The description of an array: its metadata in the form that the engine reads."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

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


def describe_array(meta: ArrayMeta, write_empty_chunks: bool, missing: Missing) -> Description:
    """Return the description of an array for the engine, and cache it in the metadata.

    Descriptions of arrays that differ only in shape share all other parts.
    """
    key = write_empty_chunks, missing
    description: Description | None = meta.derived.get(key)
    if description is None:
        similar: Description | None = meta.shared.get(key)
        if similar is None:
            json = meta.description(store_fill=write_empty_chunks, missing=missing)
            similar = description = meta.shared[key] = Description(json)
        else:
            description = similar.with_shape(meta.shape)
        meta.derived[key] = description
    return description


def resolve_separator(meta: ArrayMeta, store: Store) -> ArrayMeta:
    """Return the metadata with the store's separator, if format 2 metadata omits it."""
    keys = meta.chunk_key_encoding
    if isinstance(keys, V2Keys) and not keys.is_explicit and get_dimension_separator(store) == "/":
        return replace(meta, chunk_key_encoding=V2Keys("/"))
    return meta


def use_text_type(meta: ArrayMeta, kind: str) -> ArrayMeta:
    """Return the metadata of a text array with another NumPy type for its elements."""
    return replace(meta, data_type=meta.data_type.of_kind(kind))
