"""The plan of a copy: for each node, its new metadata and the method of copying."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, Final

from tessarr.array import Array
from tessarr.array.create import CreationPlan as Creation
from tessarr.array.like import settings_like
from tessarr.copying import hdf5, netcdf
from tessarr.copying.member_filter import ALL_MEMBERS, MemberFilter
from tessarr.copying.report import Skipped, skip_attribute
from tessarr.copying.source import StoredSource
from tessarr.errors import ArgumentError
from tessarr.format.chunk_grid import RegularGrid
from tessarr.format.chunk_key_encoding import V2Keys
from tessarr.indexing import select_basic
from tessarr.metadata.attributes import allow_copied_tokens, normalize_attributes
from tessarr.metadata.convert import convert_dimension_names, convert_metadata
from tessarr.metadata.node import ArrayMeta, GroupMeta
from tessarr.store.adapt import get_dimension_separator
from tessarr.transfer import has_same_chunks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tessarr.copying.source import CopySource
    from tessarr.indexing import Range
    from tessarr.store import Store
    from tessarr.types import Shape, ZarrFormat

__all__ = ["CopyStep", "plan_steps"]


@dataclass(frozen=True, slots=True)
class CopyStep:
    """The plan for one node.

    Parameters
    ----------
    name
        The path from the top node.
    old
        The source: metadata of Zarr, or a node of another library.
    new
        The metadata of the copy.
    ranges
        The part of an array to copy.
    as_stored
        Whether to copy raw chunks.
    """

    name: str
    old: Any
    new: ArrayMeta | GroupMeta
    ranges: tuple[Range, ...] = ()
    as_stored: bool = False

    @property
    def size_bytes(self) -> int:
        """The size of the elements in memory."""
        if not isinstance(self.new, ArrayMeta):
            return 0
        return prod(self.new.shape) * self.new.data_type.item_bytes


def plan_steps(
    origin: CopySource,
    store: Store,
    select: Any,
    settings: Mapping[str, Any],
    *,
    zarr_format: ZarrFormat,
    member_filter: MemberFilter = ALL_MEMBERS,
) -> list[CopyStep]:
    """Return the steps of a copy, the top node first.

    Parameters
    ----------
    origin
        The source.
    store
        The target.
    select
        The part of the source, if it is an array.
    settings
        Settings of the new arrays; ``chunks`` and ``shards`` apply to arrays with as many axes, or
        with axes of these names.
    zarr_format
        The format of the new nodes.
    member_filter
        The filter for members of a group.

    Raises
    ------
    ArgumentError
        If no member is included, settings do not fit an array, or chunks fit none.
    """
    nodes = origin.nodes(member_filter)
    top = nodes[""]
    is_whole = select is ... or select is None
    if not is_whole and not (isinstance(top, ArrayMeta) or hasattr(top, "shape")):
        raise ArgumentError("select applies to an array, not to a group")
    steps: list[CopyStep] = []
    chunk_settings = _ChunkSettings(settings)
    is_copied = isinstance(origin, StoredSource) and "attributes" not in settings
    for name, node in nodes.items():
        reason = _reason_not_storable(name, node, settings, zarr_format)
        if reason is not None:
            origin.skipped.append(Skipped(name, reason))
            continue
        with allow_copied_tokens(copied=is_copied):
            if isinstance(node, ArrayMeta) or hasattr(node, "shape"):
                ranges = _parse_ranges(select, tuple(node.shape), is_whole=is_whole)
                array_settings = chunk_settings.settings_of(node, len(ranges))
                steps.append(
                    _plan_array(origin, store, name, node, ranges, array_settings, zarr_format)
                )
            else:
                steps.append(CopyStep(name, node, _group_meta(origin, name, node, zarr_format)))
    chunk_settings.check_used()
    return steps


def _reason_not_storable(
    path: str, node: Any, settings: Mapping[str, Any], zarr_format: ZarrFormat
) -> str | None:
    """Return why the copy skips a node of another library, or None; it never skips the top node."""
    if isinstance(node, ArrayMeta | GroupMeta) or not path:
        return None
    return hdf5.reason_not_storable(path, node, zarr_format, settings.get("dtype"))


def _group_meta(origin: CopySource, name: str, node: Any, zarr_format: ZarrFormat) -> GroupMeta:
    if isinstance(node, GroupMeta):
        return GroupMeta(zarr_format, normalize_attributes(node.attributes))
    attributes = netcdf.group_attributes(node, skip_attribute(origin.skipped, name))
    return GroupMeta(zarr_format, normalize_attributes(attributes))


def _parse_ranges(select: Any, shape: Shape, *, is_whole: bool) -> tuple[Range, ...]:
    if is_whole:
        return tuple((0, 1, length) for length in shape)
    selection = select_basic(select, shape)
    if None in selection.out_axes or selection.shape != selection.buffer_shape:
        raise ArgumentError("select keeps all axes and takes only slices: write 3:4 instead of 3")
    ranges: Any = selection.axes
    return tuple(ranges)


def _plan_array(  # noqa: PLR0917 (of private parts)
    origin: CopySource,
    store: Store,
    name: str,
    node: Any,
    ranges: tuple[Range, ...],
    settings: dict[str, Any],
    zarr_format: ZarrFormat,
) -> CopyStep:
    shape = tuple(count for _, _, count in ranges)
    old = node if isinstance(node, ArrayMeta) else None
    new = (
        _meta_unchanged(old, store, shape, zarr_format)
        if old is not None and not settings
        else None
    )
    if new is None:
        array = origin.array(name, node)
        try:
            new = _meta_with_settings(array, store, shape, settings, zarr_format)
            if _is_foreign(array) and "attributes" not in settings:
                skip = skip_attribute(origin.skipped, name)
                attributes = netcdf.array_attributes(
                    array, new.data_type.numpy, zarr_format, skip, is_single_array=not name
                )
                new = replace(new, attributes=normalize_attributes(attributes))
        except ArgumentError as error:
            raise ArgumentError(f"array {name or '/'!r}: {error}", kind=error.kind) from error
    is_same = old is not None and tuple(old.shape) == shape and has_same_chunks(old, new)
    is_whole = all(start == 0 and step == 1 for start, step, _ in ranges)
    return CopyStep(name, node, new, ranges, as_stored=is_same and is_whole)


def _meta_unchanged(
    old: ArrayMeta, store: Store, shape: Shape, zarr_format: ZarrFormat
) -> ArrayMeta | None:
    """Return the metadata converted to the format, if it has an equivalent."""
    meta: Any = old
    if old.zarr_format != zarr_format or old.is_v1:
        meta = convert_metadata(old, "", zarr_format).meta
    if not isinstance(meta, ArrayMeta):
        return None
    new = replace(meta, attributes=normalize_attributes(meta.attributes))
    if new.shape != shape:
        if not isinstance(new.chunk_grid, RegularGrid):
            return None
        new = replace(new, shape=shape)
    store_separator = get_dimension_separator(store)
    if zarr_format == 2 and store_separator is not None:
        new = replace(new, chunk_key_encoding=V2Keys(store_separator))
    return new


def _meta_with_settings(
    array: Any, store: Store, shape: Shape, overrides: dict[str, Any], zarr_format: ZarrFormat
) -> ArrayMeta:
    """Return metadata from the overriding settings and the settings of an array."""
    settings = {"zarr_format": zarr_format, "shape": shape, **overrides}
    like = settings_like(array, settings, with_metadata=True)
    if isinstance(array, Array):
        attributes, names = convert_dimension_names(array._metadata, zarr_format)
        like |= {"attributes": attributes, "dimension_names": names}
        regular = isinstance(array._metadata.chunk_grid, RegularGrid)
        if not regular and (array.shape != shape or zarr_format == 2):
            like["chunks"] = array._metadata.chunk_shape
    elif _is_foreign(array):
        like |= netcdf.get_zarr_settings(array, zarr_format, overrides)
    if zarr_format == 2:
        like = {name: value for name, value in like.items() if name not in _V3_SETTINGS}
        if get_dimension_separator(store) is not None:
            like.pop("dimension_separator", None)
    if "chunks" in overrides and "shards" not in overrides and not _shards_fit_chunks(like):
        like.pop("shards", None)
    like.update(overrides)
    return Creation.from_settings(store, **like).meta


def _is_foreign(array: Any) -> bool:
    """Return whether an array belongs to a library without Zarr arrays."""
    return not hasattr(array, "zarr_format") and not hasattr(array, "fill_value")


_V3_SETTINGS = ("shards", "dimension_names", "serializer", "chunk_key_encoding")


def _shards_fit_chunks(like: dict[str, Any]) -> bool:
    """Return whether shards are multiples of chunks."""
    shards, chunks = like.get("shards"), like["chunks"]
    if not isinstance(shards, tuple) or not isinstance(chunks, tuple | list):
        return False
    pairs = list(zip(shards, chunks, strict=False))
    is_regular = len(shards) == len(chunks) and all(
        isinstance(shard, int) and isinstance(chunk, int) and chunk > 0 for shard, chunk in pairs
    )
    return is_regular and all(shard % chunk == 0 for shard, chunk in pairs)


_CHUNK_SETTINGS: Final = ("chunks", "shards")
"""Settings that apply only to arrays with matching axes."""


class _ChunkSettings:
    """Settings whose chunks and shards may apply to only some arrays."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = {name: value for name, value in settings.items() if value is not None}
        self._chunk_settings = {
            name: self._settings[name] for name in _CHUNK_SETTINGS if name in self._settings
        }
        self._used: set[str] = set()
        self._axes: set[str] = set()
        self._ranks: set[int] = set()

    def settings_of(self, node: Any, rank: int) -> dict[str, Any]:
        """Return the settings for an array of `rank` axes."""
        self._axes.update(name for name in _dimension_names(node) or () if name)
        self._ranks.add(rank)
        settings = {}
        for name, value in self._settings.items():
            lengths = _chunk_setting(name, value, node, rank) if name in _CHUNK_SETTINGS else value
            if lengths is not None:
                settings[name] = lengths
                self._used.add(name)
        return settings

    def check_used(self) -> None:
        """Raise an error if no array matched the chunks, or one of the axis names."""
        for setting, value in self._chunk_settings.items():
            if hasattr(value, "items"):
                unknown = sorted(str(name) for name in value if name not in self._axes)
                if unknown:
                    known = ", ".join(map(repr, sorted(self._axes)))
                    available = f"named axes are {known}" if known else "axes have no names"
                    raise ArgumentError(
                        f"{setting}={value!r}: there is no axis {unknown[0]!r}; {available}"
                    )
            elif setting not in self._used:
                ranks = " or ".join(map(str, sorted(self._ranks)))
                available = f"arrays of {ranks} axes" if ranks else "no arrays"
                raise ArgumentError(
                    f"{setting}={value!r} is for arrays of as many axes, and there are {available}"
                )


def _chunk_setting(setting: str, value: Any, node: Any, rank: int) -> Any:
    """Return a setting for chunks or shards for an array; None if it does not apply."""
    if hasattr(value, "items"):
        names = _dimension_names(node) or ()
        if not any(name in value for name in names):
            return None
        node_lengths = (
            getattr(node, setting, None) or getattr(node, "chunks", None) or (None,) * rank
        )
        return tuple(
            value.get(name, length) for name, length in zip(names, node_lengths, strict=True)
        )
    if isinstance(value, list | tuple) and len(value) != rank:
        return None
    return value


def _dimension_names(node: Any) -> Sequence[str | None] | None:
    if isinstance(node, ArrayMeta):
        return convert_dimension_names(node, 3)[1]
    return netcdf.read_dimension_names(node)
