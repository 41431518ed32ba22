"""The keywords that opening, specs and schemas have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt

    from tessarr.space import IndexDomain
    from tessarr.tensorstore.chunk_layout import ChunkLayout
    from tessarr.tensorstore.codec_spec import CodecSpec
    from tessarr.tensorstore.data_type import DTypeLike
    from tessarr.tensorstore.kvstore.spec import Spec as Place
    from tessarr.tensorstore.kvstore.store import KvStore
    from tessarr.tensorstore.open_mode import OpenMode
    from tessarr.tensorstore.schema import Schema
    from tessarr.tensorstore.units import UnitLike

__all__ = ["OF_SCHEMA", "OpenKeywords", "SchemaKeywords", "SpecKeywords", "given"]


class OpenKeywords(TypedDict, total=False):
    """How something is opened.

    Parameters
    ----------
    open_mode, open, create, delete_existing, assume_metadata, assume_cached_metadata
        What opening may do: see `OpenMode`.
    recheck_cached_metadata, recheck_cached_data, recheck_cached
        Since when metadata and chunks, or both, that are remembered are fresh: True (they are
        looked at again), False, ``"open"``, or seconds since 1970.
    """

    open_mode: OpenMode | None
    open: bool | None
    create: bool | None
    delete_existing: bool | None
    assume_metadata: bool | None
    assume_cached_metadata: bool | None
    recheck_cached_metadata: bool | float | str | None
    recheck_cached_data: bool | float | str | None
    recheck_cached: bool | float | str | None


class SchemaKeywords(TypedDict, total=False):
    """What an array has to be, and what a new one shall be.

    Parameters
    ----------
    rank : int
        The number of dimensions.
    dtype : dtype_like
        The data type.
    domain : IndexDomain
        The bounds and labels; what is infinite and implicit is left open.
    shape : sequence of int
        The domain, from the origin on.
    chunk_layout : ChunkLayout
        How the array is cut into chunks.
    codec : CodecSpec
        How chunks are encoded.
    fill_value : array_like
        What positions have that were never written; broadcast to the domain.
    dimension_units : sequence of unit_like
        What one step along each dimension is.
    schema : Schema
        More constraints.
    """

    rank: int | None
    dtype: DTypeLike | None
    domain: IndexDomain | None
    shape: Iterable[int] | None
    chunk_layout: ChunkLayout | None
    codec: CodecSpec | None
    fill_value: npt.ArrayLike | None
    dimension_units: Iterable[UnitLike] | None
    schema: Schema | None


class SpecKeywords(OpenKeywords, SchemaKeywords, total=False):
    """What a spec says beside its driver.

    Parameters
    ----------
    kvstore
        Where the array is, if that is not said yet.
    """

    kvstore: KvStore | Place | str | dict[str, Any] | None


OF_SCHEMA: Final = frozenset(SchemaKeywords.__annotations__)
"""The keywords of schemas."""


def given(keywords: Mapping[str, Any], known: type[Any]) -> dict[str, Any]:
    """Return the keywords that are not None.

    Raises
    ------
    TypeError
        If one is not known.
    """
    unknown = keywords.keys() - known.__annotations__.keys()
    if unknown:
        raise TypeError(f"unknown keywords {', '.join(map(repr, sorted(unknown)))}")
    return {name: value for name, value in keywords.items() if value is not None}
