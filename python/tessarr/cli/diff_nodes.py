"""Find the differences between two nodes and the nodes below them, for ``tessarr diff``.

Values are compared box by box, with a few boxes concurrently. If two arrays have equal encodings,
stored objects with equal bytes have equal values and are not decoded. Chunks that neither array
stores are skipped.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from tessarr.array import Array
from tessarr.array.parallel import map_in_parallel
from tessarr.array.regions import count_elements, get_chunk_region, split_region
from tessarr.cli.output import Progress
from tessarr.flow import stored_sizes
from tessarr.flow.run import run_flow
from tessarr.format.chunk_grid import Cuts
from tessarr.format.node_path import join
from tessarr.group import Group
from tessarr.node.node import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from tessarr.metadata.node import ArrayMeta
    from tessarr.types import JSONObject, Shape

__all__ = ["ASPECTS", "Criteria", "Difference", "find_differences"]

ASPECTS: Final = ("values", "attributes", "metadata", "storage")
"""Aspects to compare: values, attributes, the array's properties, and its encoding."""

Aspect: TypeAlias = Literal["node", "attribute", "metadata", "storage", "values"]

_REGION_BYTES: Final = 32 << 20
"""The size of the box that one thread compares."""


@dataclass(frozen=True, slots=True)
class Criteria:
    """Which differences to report.

    Parameters
    ----------
    aspects
        Some of `ASPECTS`.
    equal_nan
        Whether NaN equals NaN, and NaT equals NaT.
    rtol, atol
        Numbers are equal if they differ by at most ``atol + rtol * abs(second)``.
    """

    aspects: frozenset[str] = frozenset(ASPECTS)
    equal_nan: bool = True
    rtol: float = 0.0
    atol: float = 0.0

    @property
    def is_exact(self) -> bool:
        """Whether equal numbers must be identical."""
        return self.rtol == 0 and self.atol == 0


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference.

    Parameters
    ----------
    path
        The path of the node, relative to the compared node.
    what
        The aspect that differs.
    name
        The name of the attribute or of the metadata member.
    first, second
        The value in each node; None if it is absent.
    more
        For values: how many differ, by how much, and where.
    """

    path: str
    what: Aspect
    name: str
    first: Any
    second: Any
    more: JSONObject = field(default_factory=dict)

    def asdict(self) -> JSONObject:
        """Return the difference as plain JSON."""
        members = {"path": self.path, "what": self.what, "name": self.name}
        return {**members, "first": self.first, "second": self.second, **self.more}


_Node: TypeAlias = "Array | Group | Unreadable"


def find_differences(
    first: Array | Group, second: Array | Group, criteria: Criteria
) -> Iterator[Difference]:
    """Yield the differences between two nodes and between the nodes below them.

    Parameters
    ----------
    first, second
        The nodes.
    criteria
        Which differences to report.
    """
    yield from _compare_nodes("", first, second, criteria)
    if not (isinstance(first, Group) and isinstance(second, Group)):
        return
    ours, theirs = (dict(group.members(None)) for group in (first, second))
    missing: list[str] = []
    for path in sorted({*ours, *theirs}, key=lambda path: path.split("/")):
        if missing and path.startswith(missing[-1]):
            continue  # its group is missing, too
        a, b = ours.get(path), theirs.get(path)
        if a is None or b is None:
            missing.append(f"{path}/")
            yield Difference(path, "node", "", _get_kind(a), _get_kind(b))
        else:
            yield from _compare_nodes(path, a, b, criteria)


def _get_kind(node: _Node | None) -> str | None:
    if node is None:
        return None
    if isinstance(node, Unreadable):
        return "unreadable"
    return "array" if isinstance(node, Array) else "group"


def _compare_nodes(
    path: str, first: _Node, second: _Node, criteria: Criteria
) -> Iterator[Difference]:
    unreadable = isinstance(first, Unreadable) or isinstance(second, Unreadable)
    if unreadable or _get_kind(first) != _get_kind(second):
        yield Difference(path, "node", "", _get_kind(first), _get_kind(second))
        return
    if "attributes" in criteria.aspects:
        ours, theirs = first.attrs.asdict(), second.attrs.asdict()
        texts = [
            {name: json.dumps(value, sort_keys=True) for name, value in attributes.items()}
            for attributes in (ours, theirs)
        ]
        for name in sorted({*ours, *theirs}):
            if texts[0].get(name) != texts[1].get(name):
                yield Difference(path, "attribute", name, ours.get(name), theirs.get(name))
    if isinstance(first, Array) and isinstance(second, Array):
        yield from _compare_arrays(path, first, second, criteria)
    elif "storage" in criteria.aspects and first.zarr_format != second.zarr_format:
        forms = first.zarr_format, second.zarr_format
        yield Difference(path, "storage", "format", *forms)


def _compare_arrays(
    path: str, first: Array, second: Array, criteria: Criteria
) -> Iterator[Difference]:
    for aspect, describe in (("metadata", _describe_metadata), ("storage", _describe_storage)):
        ours, theirs = describe(first.metadata), describe(second.metadata)
        for name, value in ours.items():
            if aspect in criteria.aspects and value != theirs[name]:
                yield Difference(path, aspect, name, value, theirs[name])  # type: ignore[arg-type]
    if "values" not in criteria.aspects:
        return
    if first.shape == second.shape:
        yield from _compare_values(path, first, second, criteria)
    elif "metadata" not in criteria.aspects:
        shapes = list(first.shape), list(second.shape)
        yield Difference(path, "metadata", "shape", *shapes)


def _describe_metadata(meta: ArrayMeta) -> JSONObject:
    fill = meta.fill_value
    return {
        "shape": list(meta.shape),
        "data type": str(meta.data_type.ordered("native").numpy),
        "fill value": None if fill is None else meta.data_type.fill_to_json(fill, 3),
        "dimension names": list(meta.axis_names) if meta.axis_names else None,
    }


def _describe_storage(meta: ArrayMeta) -> JSONObject:
    return {
        "format": meta.document_format,
        "chunks": list(meta.chunks),
        "shards": list(meta.shards) if meta.shards else None,
        "codecs": [repr(codec) for codec in meta.codecs.codecs],
        "byte order": meta.data_type.numpy.byteorder.replace("=", "<"),
        "chunk keys": meta.chunk_key_encoding.to_json(),
    }


# Values


@dataclass(slots=True)
class _Tally:
    """The count and the extremes of differences between elements."""

    count: int = 0
    largest: float | None = None
    at: Shape | None = None
    first: Any = None
    second: Any = None

    def add(self, other: _Tally) -> None:
        self.count += other.count
        if other.largest is not None and not (self.largest or 0) > other.largest:
            self.largest = other.largest
        if other.at is not None and (self.at is None or other.at < self.at):
            self.at, self.first, self.second = other.at, other.first, other.second


def _compare_values(
    path: str, first: Array, second: Array, criteria: Criteria
) -> Iterator[Difference]:
    tally = _Tally()
    has_same_encoding = _has_same_encoding(first.metadata, second.metadata)
    regions = (
        _iterate_stored_regions(first, second, criteria)
        if has_same_encoding
        else _iterate_regions(first, second)
    )

    def compare_region(region: tuple[slice, ...]) -> tuple[int, _Tally]:
        return count_elements(region), _compare_region(first, second, region, criteria)

    with Progress(first.name, first.nbytes or None, "bytes") as bar:
        for size, part in map_in_parallel(compare_region, regions):
            tally.add(part)
            bar.add(size * first.itemsize)
    if tally.count:
        assert tally.at is not None
        more: JSONObject = {"count": tally.count, "size": first.size}
        more |= {"largest": tally.largest, "at": list(tally.at)}
        yield Difference(path, "values", "", tally.first, tally.second, more)


def _has_same_encoding(first: ArrayMeta, second: ArrayMeta) -> bool:
    """Return whether chunks with equal bytes have equal values."""
    members = ("data_type", "chunk_grid", "fill_value", "codecs")
    plain = not first.storage_transformers and not second.storage_transformers
    return plain and all(getattr(first, name) == getattr(second, name) for name in members)


def _iterate_regions(first: Array, second: Array) -> Iterator[tuple[slice, ...]]:
    """Yield boxes of whole chunks of either array, or of both if the chunks are small."""
    max_elements = _REGION_BYTES // max(first.itemsize, second.itemsize, 1)
    pairs = zip(first.metadata.chunk_cuts, second.metadata.chunk_cuts, strict=True)
    joint = tuple(max(a.longest, b.longest) for a, b in pairs)
    fits = prod(joint) <= max_elements
    cuts = [Cuts(((length, 1),)) for length in joint] if fits else first.metadata.chunk_cuts
    yield from split_region(tuple(slice(0, length) for length in first.shape), cuts, max_elements)


def _iterate_stored_regions(
    first: Array, second: Array, criteria: Criteria
) -> Iterator[tuple[slice, ...]]:
    """Yield boxes of the stored chunks, except chunks with equal bytes and equal values."""
    meta = first.metadata
    max_elements = _REGION_BYTES // max(first.itemsize, 1)
    by_bytes = criteria.equal_nan or first.dtype.kind in "iubSU"
    chunk_keys = [(array._store, _list_chunk_keys(array)) for array in (first, second)]

    def differs(cell: Shape) -> bool:
        keys = [(store, keys_by_cell.get(cell)) for store, keys_by_cell in chunk_keys]
        values = [None if key is None else store.get(key) for store, key in keys]
        return not by_bytes or values[0] is None or values[0] != values[1]

    cells = sorted({*chunk_keys[0][1], *chunk_keys[1][1]})
    for cell, answer in zip(cells, map_in_parallel(differs, cells), strict=True):
        if answer:
            yield from split_region(get_chunk_region(meta, cell), meta.chunk_cuts, max_elements)


def _list_chunk_keys(array: Array) -> dict[Shape, str]:
    """Return the keys of the stored chunks of an array, by their grid coordinates."""
    meta = array.metadata
    keys_by_cell: dict[Shape, str] = {}
    for key in run_flow(stored_sizes.list_keys(array.path), array._store):
        cell = meta.chunk_key_encoding.decode(key, meta.rank)
        if cell is not None and all(a < b for a, b in zip(cell, meta.grid_shape, strict=True)):
            keys_by_cell[cell] = join(array.path, key)
    return keys_by_cell


def _compare_region(
    first: Array, second: Array, region: tuple[slice, ...], criteria: Criteria
) -> _Tally:
    ours, theirs = np.asarray(first[region]), np.asarray(second[region])
    unequal = _find_unequal(ours, theirs, criteria)
    count = int(np.count_nonzero(unequal))
    if not count:
        return _Tally()
    first_index = tuple(int(indices[0]) for indices in np.nonzero(unequal)) if unequal.ndim else ()
    largest = None
    if ours.dtype.kind in _NUMBER_KINDS and theirs.dtype.kind in _NUMBER_KINDS:
        with np.errstate(all="ignore"):
            distance = _get_distance(ours[unequal], theirs[unequal])
        finite = distance[np.isfinite(distance)]
        largest = float(finite.max()) if finite.size else None
    position = tuple(part.start + offset for part, offset in zip(region, first_index, strict=True))
    return _Tally(
        count, largest, position, _to_json(ours[first_index]), _to_json(theirs[first_index])
    )


_NUMBER_KINDS: Final = "iufcb"


def _find_unequal(
    ours: npt.NDArray[Any], theirs: npt.NDArray[Any], criteria: Criteria
) -> npt.NDArray[Any]:
    """Return a mask of the unequal elements of two arrays with one shape."""
    if ours.dtype.names is not None and ours.dtype.names == theirs.dtype.names:
        unequal = np.zeros(ours.shape, bool)
        for name in ours.dtype.names:
            part = _find_unequal(ours[name], theirs[name], criteria)
            unequal |= part.reshape(*unequal.shape, -1).any(axis=-1)
        return unequal
    if ours.dtype.hasobject or theirs.dtype.hasobject:
        pairs = zip(ours.ravel(), theirs.ravel(), strict=True)
        items = (not _is_equal_item(a, b, criteria) for a, b in pairs)
        return np.fromiter(items, bool, ours.size).reshape(ours.shape)
    with np.errstate(all="ignore"):
        unequal = np.asarray(ours != theirs)
        if criteria.equal_nan:
            unequal &= ~np.asarray((ours != ours) & (theirs != theirs))  # noqa: PLR0124 (NaN is)
        if (
            not criteria.is_exact
            and ours.dtype.kind in _NUMBER_KINDS
            and theirs.dtype.kind in _NUMBER_KINDS
        ):
            is_close = _get_distance(ours, theirs) <= criteria.atol + criteria.rtol * np.abs(
                theirs.astype(_WIDE)
            )
            unequal &= ~is_close
    return unequal


_WIDE: Final = np.longdouble


def _get_distance(ours: npt.NDArray[Any], theirs: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the absolute differences of numbers, without rounding 64-bit integers."""
    wide = np.clongdouble if "c" in ours.dtype.kind + theirs.dtype.kind else _WIDE
    return np.abs(ours.astype(wide) - theirs.astype(wide))


def _is_equal_item(a: Any, b: Any, criteria: Criteria) -> bool:
    """Return whether two elements, which may be arbitrary objects, are equal."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        left, right = np.asarray(a), np.asarray(b)
        return left.shape == right.shape and not _find_unequal(left, right, criteria).any()
    return bool(a == b) or (criteria.equal_nan and bool(a != a) and bool(b != b))  # noqa: PLR0124


def _to_json(value: Any) -> Any:
    """Return an element as JSON or as text."""
    item = value.item() if isinstance(value, np.generic) else value
    finite = isinstance(item, float) and np.isfinite(item)
    return item if finite or isinstance(item, int | str) else str(value)
