"""Find how two nodes differ, with all that is below them: the work of ``tessarr diff``.

Values are compared box by box, a few at a time. Where two arrays are stored alike, stored
objects of the same bytes are the same values and are not decoded, and chunks that neither
has are not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from tessarr.array import Array
from tessarr.cli.output import Progress
from tessarr.cli.parallel import in_parallel
from tessarr.cli.regions import boxes, region_of, size_of
from tessarr.flow import measure
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

__all__ = ["ASPECTS", "Difference", "Terms", "differences"]

ASPECTS: Final = ("values", "attributes", "metadata", "storage")
"""What is compared: values, attributes, what an array is, and how it is stored."""

What: TypeAlias = Literal["node", "attribute", "metadata", "storage", "values"]

_MOST_BYTES: Final = 32 << 20
"""How much of an array is compared at a time, by one thread."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What counts as a difference.

    Parameters
    ----------
    aspects
        Some of `ASPECTS`.
    equal_nan
        Whether NaN, or NaT, is equal to itself.
    rtol, atol
        Numbers are equal that differ by at most ``atol + rtol * abs(second)``.
    """

    aspects: frozenset[str] = frozenset(ASPECTS)
    equal_nan: bool = True
    rtol: float = 0.0
    atol: float = 0.0

    @property
    def exact(self) -> bool:
        """Whether numbers have to be the same."""
        return self.rtol == 0 and self.atol == 0


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference.

    Parameters
    ----------
    path
        The path of the node, relative to what is compared.
    what
        Which sort of thing differs.
    name
        Its name: of an attribute, or of a member of the metadata.
    first, second
        What it is in either; None where it is absent.
    more
        Of values: how many differ, by how much, where.
    """

    path: str
    what: What
    name: str
    first: Any
    second: Any
    more: JSONObject = field(default_factory=dict)

    def asdict(self) -> JSONObject:
        """Return it as plain JSON."""
        found = {"path": self.path, "what": self.what, "name": self.name}
        return {**found, "first": self.first, "second": self.second, **self.more}


_Node: TypeAlias = "Array | Group | Unreadable"


def differences(first: Array | Group, second: Array | Group, terms: Terms) -> Iterator[Difference]:
    """Yield how two nodes differ, themselves and what is below them.

    Parameters
    ----------
    first, second
        What is compared.
    terms
        What counts as a difference.
    """
    yield from _nodes("", first, second, terms)
    if not (isinstance(first, Group) and isinstance(second, Group)):
        return
    ours, theirs = (dict(group.members(None)) for group in (first, second))
    missing: list[str] = []
    for path in sorted({*ours, *theirs}, key=lambda path: path.split("/")):
        if missing and path.startswith(missing[-1]):
            continue  # it is missing with the group that it is in
        a, b = ours.get(path), theirs.get(path)
        if a is None or b is None:
            missing.append(f"{path}/")
            yield Difference(path, "node", "", _kind(a), _kind(b))
        else:
            yield from _nodes(path, a, b, terms)


def _kind(node: _Node | None) -> str | None:
    if node is None:
        return None
    if isinstance(node, Unreadable):
        return "unreadable"
    return "array" if isinstance(node, Array) else "group"


def _nodes(path: str, first: _Node, second: _Node, terms: Terms) -> Iterator[Difference]:
    unreadable = isinstance(first, Unreadable) or isinstance(second, Unreadable)
    if unreadable or _kind(first) != _kind(second):
        yield Difference(path, "node", "", _kind(first), _kind(second))
        return
    if "attributes" in terms.aspects:
        ours, theirs = first.attrs.asdict(), second.attrs.asdict()
        for name in sorted({*ours, *theirs}):
            if name not in ours or name not in theirs or not _same(ours[name], theirs[name]):
                yield Difference(path, "attribute", name, ours.get(name), theirs.get(name))
    if isinstance(first, Array) and isinstance(second, Array):
        yield from _arrays(path, first, second, terms)
    elif "storage" in terms.aspects and first.zarr_format != second.zarr_format:
        forms = first.zarr_format, second.zarr_format
        yield Difference(path, "storage", "format", *forms)


def _same(first: Any, second: Any) -> bool:
    """Tell whether two JSON values are the same; 1, 1.0 and true are not, NaN is."""
    import json

    return json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)


def _arrays(path: str, first: Array, second: Array, terms: Terms) -> Iterator[Difference]:
    for what, describe in (("metadata", _meaning), ("storage", _storage)):
        ours, theirs = describe(first.metadata), describe(second.metadata)
        for name, value in ours.items():
            if what in terms.aspects and value != theirs[name]:
                yield Difference(path, what, name, value, theirs[name])  # type: ignore[arg-type]
    if "values" not in terms.aspects:
        return
    if first.shape == second.shape:
        yield from _values(path, first, second, terms)
    elif "metadata" not in terms.aspects:
        shapes = list(first.shape), list(second.shape)
        yield Difference(path, "metadata", "shape", *shapes)


def _meaning(meta: ArrayMeta) -> JSONObject:
    fill = meta.fill_value
    return {
        "shape": list(meta.shape),
        "data type": str(meta.data_type.ordered("native").numpy),
        "fill value": None if fill is None else meta.data_type.fill_to_json(fill, 3),
        "dimension names": list(meta.dimension_names) if meta.dimension_names else None,
    }


def _storage(meta: ArrayMeta) -> JSONObject:
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
    """How values differ, as far as they have been compared."""

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


def _values(path: str, first: Array, second: Array, terms: Terms) -> Iterator[Difference]:
    tally = _Tally()
    alike = _stored_alike(first.metadata, second.metadata)
    regions = _stored_regions(first, second, terms) if alike else _all_regions(first, second)

    def compare(region: tuple[slice, ...]) -> tuple[int, _Tally]:
        return size_of(region), _compare(first, second, region, terms)

    with Progress(first.name, first.nbytes or None, "bytes") as bar:
        for size, found in in_parallel(compare, regions):
            tally.add(found)
            bar.add(size * first.itemsize)
    if tally.count:
        assert tally.at is not None
        yield Difference(
            path,
            "values",
            "",
            tally.first,
            tally.second,
            {
                "count": tally.count,
                "size": first.size,
                "largest": tally.largest,
                "at": list(tally.at),
            },
        )


def _stored_alike(first: ArrayMeta, second: ArrayMeta) -> bool:
    """Tell whether equal bytes of chunks at one place are equal values."""
    members = ("data_type", "chunk_grid", "fill_value", "codecs")
    plain = not first.storage_transformers and not second.storage_transformers
    return plain and all(getattr(first, name) == getattr(second, name) for name in members)


def _all_regions(first: Array, second: Array) -> Iterator[tuple[slice, ...]]:
    """Yield boxes that are whole chunks of either array, or of both where these are small."""
    most = _MOST_BYTES // max(first.itemsize, second.itemsize, 1)
    pairs = list(zip(first.metadata.chunk_cuts, second.metadata.chunk_cuts, strict=True))
    joint = tuple(max(a.longest, b.longest) for a, b in pairs)
    size = 1
    for length in joint:
        size *= length
    cuts = [Cuts(((length, 1),)) for length in joint] if size <= most else [a for a, _ in pairs]
    yield from boxes(tuple(slice(0, length) for length in first.shape), cuts, most)


def _stored_regions(first: Array, second: Array, terms: Terms) -> Iterator[tuple[slice, ...]]:
    """Yield boxes of the chunks that are stored with different bytes."""
    meta = first.metadata
    most = _MOST_BYTES // max(first.itemsize, 1)
    by_bytes = terms.equal_nan or first.dtype.kind in "iubSU"
    places = [(array._store, _keys(array)) for array in (first, second)]

    def differs(cell: Shape) -> bool:
        keys = [(store, found.get(cell)) for store, found in places]
        values = [None if key is None else store.get(key) for store, key in keys]
        return not by_bytes or values[0] is None or values[0] != values[1]

    cells = sorted({*places[0][1], *places[1][1]})
    for cell, answer in zip(cells, in_parallel(differs, cells), strict=True):
        if answer:
            yield from boxes(region_of(meta, cell), meta.chunk_cuts, most)


def _keys(array: Array) -> dict[Shape, str]:
    """Return the keys of the stored chunks inside of an array, by their places in the grid."""
    meta = array.metadata
    found: dict[Shape, str] = {}
    for key in run_flow(measure.list_keys(array.path), array._store):
        cell = meta.chunk_key_encoding.decode(key, meta.rank)
        if cell is not None and all(a < b for a, b in zip(cell, meta.grid_shape, strict=True)):
            found[cell] = join(array.path, key)
    return found


def _compare(first: Array, second: Array, region: tuple[slice, ...], terms: Terms) -> _Tally:
    ours, theirs = np.asarray(first[region]), np.asarray(second[region])
    unequal = _unequal(ours, theirs, terms)
    count = int(np.count_nonzero(unequal))
    if not count:
        return _Tally()
    at = tuple(int(places[0]) for places in np.nonzero(unequal)) if unequal.ndim else ()
    largest = None
    if ours.dtype.kind in _NUMBERS and theirs.dtype.kind in _NUMBERS:
        with np.errstate(all="ignore"):
            apart = _apart(ours[unequal], theirs[unequal])
        finite = apart[np.isfinite(apart)]
        largest = float(finite.max()) if finite.size else None
    place = tuple(part.start + here for part, here in zip(region, at, strict=True))
    return _Tally(count, largest, place, _plain(ours[at]), _plain(theirs[at]))


_NUMBERS: Final = "iufcb"


def _unequal(ours: npt.NDArray[Any], theirs: npt.NDArray[Any], terms: Terms) -> npt.NDArray[Any]:
    """Return where two arrays of one shape differ."""
    if ours.dtype.names is not None and ours.dtype.names == theirs.dtype.names:
        found = np.zeros(ours.shape, bool)
        for name in ours.dtype.names:
            part = _unequal(ours[name], theirs[name], terms)
            found |= part.reshape(*found.shape, -1).any(axis=-1)
        return found
    if ours.dtype.hasobject or theirs.dtype.hasobject:
        pairs = zip(ours.ravel(), theirs.ravel(), strict=True)
        items = (not _equal_items(a, b, terms) for a, b in pairs)
        return np.fromiter(items, bool, ours.size).reshape(ours.shape)
    with np.errstate(all="ignore"):
        found = np.asarray(ours != theirs)
        if terms.equal_nan:
            found &= ~np.asarray((ours != ours) & (theirs != theirs))  # noqa: PLR0124 (NaN is)
        if not terms.exact and ours.dtype.kind in _NUMBERS and theirs.dtype.kind in _NUMBERS:
            near = _apart(ours, theirs) <= terms.atol + terms.rtol * np.abs(theirs.astype(_WIDE))
            found &= ~near
    return found


_WIDE: Final = np.longdouble


def _apart(ours: npt.NDArray[Any], theirs: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return how far numbers are apart; integers of 64 bits are not rounded."""
    wide = np.clongdouble if "c" in ours.dtype.kind + theirs.dtype.kind else _WIDE
    return np.abs(ours.astype(wide) - theirs.astype(wide))


def _equal_items(a: Any, b: Any, terms: Terms) -> bool:
    """Tell whether two elements that are any objects are equal."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        left, right = np.asarray(a), np.asarray(b)
        return left.shape == right.shape and not _unequal(left, right, terms).any()
    return bool(a == b) or (terms.equal_nan and bool(a != a) and bool(b != b))  # noqa: PLR0124


def _plain(value: Any) -> Any:
    """Return an element as JSON can have it, or as text."""
    item = value.item() if isinstance(value, np.generic) else value
    finite = isinstance(item, float) and np.isfinite(item)
    return item if finite or isinstance(item, int | str) else str(value)
