"""What is to be done for each node: what it becomes, and how its elements get there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, Final

from tessarr.array import Array
from tessarr.array.create import Plan as Creation
from tessarr.array.like import settings_like
from tessarr.copying import hdf5, netcdf
from tessarr.copying.member_filter import EVERYTHING, Choice
from tessarr.copying.report import Skipped, skip_attribute
from tessarr.copying.source import Stored
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

    from tessarr.copying.source import Origin
    from tessarr.indexing import Range
    from tessarr.store import Store
    from tessarr.types import Shape, ZarrFormat

__all__ = ["Step", "steps_for"]


@dataclass(frozen=True, slots=True)
class Step:
    """What is to be done for one node.

    Parameters
    ----------
    name
        Its path from the node at the top.
    old
        What it is: metadata of Zarr, or a node of another library.
    new
        The metadata that it becomes.
    ranges
        Which part of an array is copied.
    as_stored
        Whether its chunks stay the bytes that they are.
    """

    name: str
    old: Any
    new: ArrayMeta | GroupMeta
    ranges: tuple[Range, ...] = ()
    as_stored: bool = False

    @property
    def size_bytes(self) -> int:
        """How much there is to copy, as it is in memory."""
        if not isinstance(self.new, ArrayMeta):
            return 0
        return prod(self.new.shape) * self.new.data_type.item_bytes


def steps_for(
    origin: Origin,
    store: Store,
    select: Any,
    settings: Mapping[str, Any],
    *,
    zarr_format: ZarrFormat,
    choice: Choice = EVERYTHING,
) -> list[Step]:
    """Return what is to be done, the node at the top first.

    Parameters
    ----------
    origin
        What is copied.
    store
        Where to.
    select
        Which part of it, if it is an array.
    settings
        What new arrays shall have otherwise; ``chunks`` and ``shards`` count for those of as
        many axes, or with axes of these names.
    zarr_format
        The format of the new nodes.
    choice
        Which members of a group are copied.

    Raises
    ------
    ArgumentError
        If no member is included, settings do not fit an array, or chunks fit none.
    """
    nodes = origin.nodes(choice)
    top = nodes[""]
    whole = select is ... or select is None
    if not whole and not (isinstance(top, ArrayMeta) or hasattr(top, "shape")):
        raise ArgumentError("a part can be selected of an array only, not of a group")
    steps: list[Step] = []
    wanted = _Chunks(settings)
    is_copied = isinstance(origin, Stored) and "attributes" not in settings
    for name, node in nodes.items():
        reason = _why_not(name, node, settings, zarr_format)
        if reason is not None:
            origin.skipped.append(Skipped(name, reason))
            continue
        with allow_copied_tokens(copied=is_copied):
            if isinstance(node, ArrayMeta) or hasattr(node, "shape"):
                ranges = _ranges(select, tuple(node.shape), whole=whole)
                given = wanted.settings_of(node, len(ranges))
                steps.append(_array_step(origin, store, name, node, ranges, given, zarr_format))
            else:
                steps.append(Step(name, node, _group(origin, name, node, zarr_format)))
    wanted.check_used()
    return steps


def _why_not(
    path: str, node: Any, settings: Mapping[str, Any], zarr_format: ZarrFormat
) -> str | None:
    """Return why a node of another library is left out; the one at the top never is."""
    if isinstance(node, ArrayMeta | GroupMeta) or not path:
        return None
    return hdf5.why_not_storable(path, node, zarr_format, settings.get("dtype"))


def _group(origin: Origin, name: str, node: Any, zarr_format: ZarrFormat) -> GroupMeta:
    if isinstance(node, GroupMeta):
        return GroupMeta(zarr_format, normalize_attributes(node.attributes))
    attributes = netcdf.group_attributes(node, skip_attribute(origin.skipped, name))
    return GroupMeta(zarr_format, normalize_attributes(attributes))


def _ranges(select: Any, shape: Shape, *, whole: bool) -> tuple[Range, ...]:
    if whole:
        return tuple((0, 1, length) for length in shape)
    found = select_basic(select, shape)
    if None in found.out_axes or found.shape != found.buffer_shape:
        raise ArgumentError(
            "select takes slices, so that the array keeps its axes: in place of 3 write 3:4"
        )
    ranges: Any = found.axes
    return tuple(ranges)


def _array_step(  # noqa: PLR0917 (of private parts)
    origin: Origin,
    store: Store,
    name: str,
    node: Any,
    ranges: tuple[Range, ...],
    given: dict[str, Any],
    zarr_format: ZarrFormat,
) -> Step:
    shape = tuple(count for _, _, count in ranges)
    old = node if isinstance(node, ArrayMeta) else None
    new = _as_it_is(old, store, shape, zarr_format) if old is not None and not given else None
    if new is None:
        array = origin.array(name, node)
        try:
            new = _otherwise(array, store, shape, given, zarr_format)
            if _is_foreign(array) and "attributes" not in given:
                skip = skip_attribute(origin.skipped, name)
                own = netcdf.array_attributes(
                    array, new.data_type.numpy, zarr_format, skip, is_alone=not name
                )
                new = replace(new, attributes=normalize_attributes(own))
        except ArgumentError as error:
            raise ArgumentError(f"array {name or '/'!r}: {error}", kind=error.kind) from error
    same = old is not None and tuple(old.shape) == shape and has_same_chunks(old, new)
    whole = all(start == 0 and step == 1 for start, step, _ in ranges)
    return Step(name, node, new, ranges, as_stored=same and whole)


def _as_it_is(
    old: ArrayMeta, store: Store, shape: Shape, zarr_format: ZarrFormat
) -> ArrayMeta | None:
    """Return the metadata itself, or in the words of the other format, if it has any."""
    meta: Any = old
    if old.zarr_format != zarr_format or old.is_v1:
        meta = convert_metadata(old, "", zarr_format).meta
    if not isinstance(meta, ArrayMeta):
        return None
    found = replace(meta, attributes=normalize_attributes(meta.attributes))
    if found.shape != shape:
        if not isinstance(found.chunk_grid, RegularGrid):
            return None
        found = replace(found, shape=shape)
    own = get_dimension_separator(store)
    if zarr_format == 2 and own is not None:
        found = replace(found, chunk_key_encoding=V2Keys(own))
    return found


def _otherwise(
    array: Any, store: Store, shape: Shape, given: dict[str, Any], zarr_format: ZarrFormat
) -> ArrayMeta:
    """Return metadata with settings that are given, and for all others those of an array."""
    settings = {"zarr_format": zarr_format, "shape": shape, **given}
    like = settings_like(array, settings, whole=True)
    if isinstance(array, Array):
        attributes, names = convert_dimension_names(array.metadata, zarr_format)
        like |= {"attributes": attributes, "dimension_names": names}
        regular = isinstance(array.metadata.chunk_grid, RegularGrid)
        if not regular and (array.shape != shape or zarr_format == 2):
            like["chunks"] = array.metadata.chunk_shape
    elif _is_foreign(array):
        like["dimension_names"] = netcdf.dimension_names_of(array)
        if netcdf.is_netcdf(array) and not {"fill_value", "fillvalue"} & set(given):
            like["fill_value"] = netcdf.fill_value_of(array, zarr_format)
    if zarr_format == 2:
        like = {name: value for name, value in like.items() if name not in _ONLY_3}
        if get_dimension_separator(store) is not None:
            like.pop("dimension_separator", None)
    if "chunks" in given and "shards" not in given and not _fit(like):
        like.pop("shards", None)
    like.update(given)
    return Creation.of(store, **like).meta


def _is_foreign(array: Any) -> bool:
    """Tell whether an array is of a library other than one for Zarr."""
    return not hasattr(array, "zarr_format") and not hasattr(array, "fill_value")


_ONLY_3 = ("shards", "dimension_names", "serializer", "chunk_key_encoding")


def _fit(like: dict[str, Any]) -> bool:
    """Tell whether shards are multiples of chunks."""
    shards, chunks = like.get("shards"), like["chunks"]
    if not isinstance(shards, tuple) or not isinstance(chunks, tuple | list):
        return False
    pairs = list(zip(shards, chunks, strict=False))
    plain = len(shards) == len(chunks) and all(
        isinstance(shard, int) and isinstance(chunk, int) and chunk > 0 for shard, chunk in pairs
    )
    return plain and all(shard % chunk == 0 for shard, chunk in pairs)


_CUT: Final = ("chunks", "shards")
"""Settings that say how arrays are cut, which those of other axes need not heed."""


class _Chunks:
    """Settings for arrays of which chunks and shards may be meant for some only."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = {name: value for name, value in settings.items() if value is not None}
        self._cut = {name: self._settings[name] for name in _CUT if name in self._settings}
        self._used: set[str] = set()
        self._axes: set[str] = set()
        self._ranks: set[int] = set()

    def settings_of(self, node: Any, rank: int) -> dict[str, Any]:
        """Return those for an array of `rank` axes."""
        self._axes.update(name for name in _names_of(node) or () if name)
        self._ranks.add(rank)
        found = {}
        for name, value in self._settings.items():
            lengths = _lengths(name, value, node, rank) if name in _CUT else value
            if lengths is not None:
                found[name] = lengths
                self._used.add(name)
        return found

    def check_used(self) -> None:
        """Check that there was an array for the chunks, and for each axis, that were asked for."""
        for setting, value in self._cut.items():
            if hasattr(value, "items"):
                unknown = sorted(str(name) for name in value if name not in self._axes)
                if unknown:
                    known = ", ".join(map(repr, sorted(self._axes)))
                    there = f"named axes are {known}" if known else "axes have no names"
                    raise ArgumentError(
                        f"{setting}={value!r}: there is no axis {unknown[0]!r}; {there}"
                    )
            elif setting not in self._used:
                ranks = " or ".join(map(str, sorted(self._ranks)))
                there = f"arrays of {ranks} axes" if ranks else "no arrays"
                raise ArgumentError(
                    f"{setting}={value!r} is for arrays of as many axes, and there are {there}"
                )


def _lengths(setting: str, value: Any, node: Any, rank: int) -> Any:
    """Return what a setting for chunks or shards is for an array; None if it is not for that."""
    if hasattr(value, "items"):
        names = _names_of(node) or ()
        if not any(name in value for name in names):
            return None
        own = getattr(node, setting, None) or getattr(node, "chunks", None) or (None,) * rank
        return tuple(value.get(name, length) for name, length in zip(names, own, strict=True))
    if isinstance(value, list | tuple) and len(value) != rank:
        return None
    return value


def _names_of(node: Any) -> Sequence[str | None] | None:
    if isinstance(node, ArrayMeta):
        return convert_dimension_names(node, 3)[1]
    return netcdf.dimension_names_of(node)
