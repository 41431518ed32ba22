"""Find what is wrong with a stored hierarchy: the work of ``tessarr verify``.

Every document is parsed, every key is looked at, and every stored chunk is read, which checks
what its codecs and their checksums can. A chunk that is absent is no fault: it reads as the
fill value, and nothing tells one that was never written from one that was lost.
"""

from __future__ import annotations

import os
import re
import struct
import warnings
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from tessarr.array import bind_array
from tessarr.cli.output import progress
from tessarr.cli.parallel import in_parallel
from tessarr.cli.regions import boxes, region_of, size_of
from tessarr.errors import MetadataError, TessarrError, UnsupportedError
from tessarr.flow import consolidate, measure, walk
from tessarr.flow import open as open_flow
from tessarr.flow.run import Flow, Get, run_flow
from tessarr.format.node_path import STAGED, join
from tessarr.metadata import v1, v2, v3
from tessarr.metadata.node import ArrayMeta, GroupMeta
from tessarr.store import LocalStore
from tessarr.store.wrappers.transformer_adapter import get_chunk_store

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from tessarr.array import Array
    from tessarr.metadata.node import NodeOrError
    from tessarr.store import Store
    from tessarr.types import JSONObject, Shape

__all__ = ["MEANINGS", "Counts", "Finding", "Kind", "findings"]

Kind: TypeAlias = Literal[
    "damaged", "metadata", "defect", "stray", "outside", "leftover", "missing", "stale"
]
"""What is wrong: see `MEANINGS`."""

MEANINGS: Final[dict[Kind, str]] = {
    "damaged": "a stored object cannot be decoded",
    "metadata": "a document breaks its specification, or needs what is not supported",
    "defect": "a document breaks its specification, but can be read",
    "stray": "a key belongs to no node",
    "outside": "a chunk lies outside of its array",
    "leftover": "a writer that was stopped left a temporary file",
    "missing": "what should be stored is not",
    "stale": "consolidated metadata differs from the nodes",
}

_DOCUMENTS: Final = frozenset({"zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"})
_V1_DOCUMENTS: Final = frozenset({"meta", "attrs"})
_LOCK: Final = ".__lock"
_TEMPORARY: Final = re.compile(r"\.partial$|\.te?mp$|~$|^\.nfs|[._-]tmp[._-]|__lock$", re.I)  # noqa: FURB167
_MOST_BYTES: Final = 64 << 20
"""How much of a shard is read at a time."""
_COUNTED: Final = 10_000
"""Of a damaged shard with more subchunks it is not counted how many are lost."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    Parameters
    ----------
    kind
        What sort of fault it is.
    path
        The path of the node.
    message
        What is wrong.
    key
        The key in the store, where there is one.
    """

    kind: Kind
    path: str
    message: str
    key: str | None = None

    def asdict(self) -> JSONObject:
        """Return it as plain JSON."""
        return {"kind": self.kind, "path": self.path, "key": self.key, "message": self.message}


@dataclass(slots=True)
class Counts:
    """How much was looked at."""

    nodes: int = 0
    objects: int = 0
    decoded_bytes: int = 0
    chunks: int = 0
    stored_chunks: int = 0


def findings(
    store: Store, path: str, *, data: bool, complete: bool, counts: Counts
) -> Iterator[Finding]:
    """Yield all that is wrong with a node and what is below it.

    Parameters
    ----------
    store, path
        Where.
    data
        Whether to read chunks; without, metadata and keys are looked at.
    complete
        Whether a chunk that is not stored is a fault.
    counts
        Counts along.

    Raises
    ------
    NotFoundError
        If there is no node.
    """
    top = run_flow(_top(path), store)
    nodes = {path: top}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        if isinstance(found := _parse(path, top), GroupMeta):
            stored = run_flow(walk.list_documents(path, found.zarr_format, max_depth=None), store)
            nodes |= {below: own for below, (own, _) in stored.items()}
    yield from (Finding("defect", path, str(said.message)) for said in _once(told, "both"))
    work = _Examination(store, data, complete, counts)
    for below, own in nodes.items():
        yield from work.node(below, own, nodes)
    yield from _left_over(store, path)


def _top(path: str) -> Flow[walk.StoredNode]:
    """Return the documents of the node at `path`, which has to exist."""
    prefix = open_flow.prefix_of(path)
    names = ("zarr.json", ".zarray", ".zgroup", ".zattrs", "meta", "attrs")
    found = yield tuple(Get(prefix + name) for name in names)
    documents: dict[str, bytes | None] = dict(zip(names, found, strict=True))
    beside = {".zarray": ".zattrs", ".zgroup": ".zattrs", "meta": "attrs"}
    for name in ("zarr.json", ".zarray", ".zgroup", "meta"):
        document = documents[name]
        if document is not None:
            return walk.StoredNode(name, document, documents.get(beside.get(name, "")))
    raise open_flow.not_found_error(path, None)


def _parse(path: str, own: walk.StoredNode) -> NodeOrError:
    """Parse documents anew: what was parsed before does not warn again."""
    if own.error is not None:
        return own.error
    try:
        if own.name == "zarr.json":
            return v3.parse(own.document, where=path)
        if own.name == "meta":
            return v1.parse(own.document, own.attributes, where=path)
        if own.name == ".zarray":
            return v2.parse_array(own.document, own.attributes, where=path)
        return v2.parse_group(own.document, own.attributes, where=path)
    except (MetadataError, UnsupportedError) as error:
        return error


def _once(told: list[warnings.WarningMessage], word: str = "") -> list[warnings.WarningMessage]:
    texts = {str(said.message): said for said in told}
    return [said for text, said in texts.items() if word in text]


@dataclass(frozen=True, slots=True)
class _Examination:
    """Looks at one node after the other."""

    store: Store
    data: bool
    complete: bool
    counts: Counts

    def node(self, path: str, own: walk.StoredNode, nodes: Container[str]) -> Iterator[Finding]:
        self.counts.nodes += 1
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            meta = _parse(path, own)
        key = join(path, own.name)
        for said in _once(told):
            yield Finding("defect", path, str(said.message), key)
        if isinstance(meta, GroupMeta):
            yield from self.group(path, meta, nodes)
        elif isinstance(meta, ArrayMeta):
            yield from self.array(path, meta)
        elif isinstance(meta, MetadataError) and meta.problems:
            for problem in meta.problems:
                yield Finding("metadata", path, str(problem), key)
        else:
            yield Finding("metadata", path, str(meta), key)

    def group(self, path: str, meta: GroupMeta, nodes: Container[str]) -> Iterator[Finding]:
        """Look for what is in a group beside its nodes, and at its copies of metadata."""
        keys, prefixes = self.store.list_dir(open_flow.prefix_of(path))
        documents = _DOCUMENTS if path else _DOCUMENTS | _V1_DOCUMENTS
        for key in keys:
            if key.rpartition("/")[2] not in documents:
                yield _stray(path, key)
        for prefix in prefixes:
            if prefix[:-1] not in nodes:
                yield from self.folder(path, prefix)
        if meta.consolidated is not None or join(path, ".zmetadata") in keys:
            yield from self.copies(path, meta)

    def folder(self, path: str, prefix: str) -> Iterator[Finding]:
        """Look at a folder in a group that is no node."""
        keys = self.store.list(prefix)
        nodes = [key for key in keys if key.rpartition("/")[2] in _DOCUMENTS]
        if nodes:
            what = f"{prefix!r} has no metadata, so nobody finds {nodes[0].rpartition('/')[0]!r}"
            yield Finding("missing", path, what + (" and others" if len(nodes) > 1 else ""), prefix)
        else:
            yield from (_stray(path, key) for key in keys)

    def copies(self, path: str, meta: GroupMeta) -> Iterator[Finding]:
        """Compare consolidated metadata with the nodes."""
        words = {"missing": "has no copy", "gone": "is gone, but has a copy", "changed": "differs"}
        key = join(path, "zarr.json" if meta.zarr_format == 3 else ".zmetadata")
        try:
            flow = consolidate.compare_copies(path, zarr_format=meta.zarr_format)
            differences = run_flow(flow, self.store)
        except TessarrError as error:
            yield Finding("stale", path, str(error), key)
            return
        for below, difference in differences.items():
            what = f"{join(path, below)!r} {words[difference]} in the consolidated metadata"
            yield Finding("stale", path, what, key)

    def array(self, path: str, meta: ArrayMeta) -> Iterator[Finding]:
        """Look at the keys of an array, and read its chunks."""
        store, below = get_chunk_store(self.store, path, meta.storage_transformers)
        prefix = open_flow.prefix_of(below)
        documents = _DOCUMENTS | _V1_DOCUMENTS if meta.is_v1 else _DOCUMENTS
        cells: list[Shape] = []
        for key in run_flow(measure.list_keys(below), store):
            cell = meta.chunk_key_encoding.decode(key, meta.rank)
            if cell is None and key not in documents:
                yield _stray(path, prefix + key)
            elif cell is not None and not _is_inside(cell, meta):
                what = f"chunk {cell} is outside of the array, which has {meta.grid_shape} chunks"
                yield Finding("outside", path, what, prefix + key)
            elif cell is not None:
                cells.append(cell)
        stored, count = len(cells), prod(meta.grid_shape)
        self.counts.stored_chunks += stored
        self.counts.chunks += count
        if self.complete and stored < count:
            there = set(cells)
            every = product(*map(range, meta.grid_shape))
            first = next(cell for cell in every if cell not in there)
            what = f"{count - stored} of {count} chunks are not stored, {first} among them"
            yield Finding("missing", path, what, prefix + meta.chunk_key_encoding.encode(first))
        if self.data:
            yield from self.chunks(path, meta, cells)

    def chunks(self, path: str, meta: ArrayMeta, cells: list[Shape]) -> Iterator[Finding]:
        """Read chunks; of one that fails each part, to tell which are lost."""
        try:
            array = bind_array(meta, self.store, path, read_only=True)
        except (TessarrError, ImportError) as error:
            yield Finding("metadata", path, str(error))
            return

        def read(cell: Shape) -> Finding | None:
            return _read(array, cell)

        checked = in_parallel(read, cells)
        for cell, found in zip(cells, progress(f"/{path}", checked, len(cells)), strict=True):
            if found is not None:
                yield found
            self.counts.objects += 1
            self.counts.decoded_bytes += size_of(region_of(meta, cell)) * array.itemsize


def _stray(path: str, key: str) -> Finding:
    if _TEMPORARY.search(key.rpartition("/")[2]):
        return Finding("leftover", path, "a temporary file of a writer", key)
    return Finding("stray", path, "belongs to nothing", key)


def _is_inside(cell: Shape, meta: ArrayMeta) -> bool:
    return all(at < count for at, count in zip(cell, meta.grid_shape, strict=True))


def _read(array: Array, cell: Shape) -> Finding | None:
    """Read the chunk of the grid at `cell`, a shard part by part; tell what cannot be read."""
    meta = array.metadata
    region = region_of(meta, cell)
    most = _MOST_BYTES // max(array.itemsize, 1)
    bad: list[tuple[slice, ...]] = []
    first: Exception | None = None
    for part in boxes(region, meta.chunk_cuts, most):
        try:
            array[part]
        except Exception as error:  # noqa: BLE001 (codecs of users raise what they like)
            first = first or error
            bad.append(part)
    if first is None:
        return None
    text = str(first) if isinstance(first, TessarrError) else f"{type(first).__name__}: {first}"
    key = join(array.path, meta.chunk_key_encoding.encode(cell))
    return Finding("damaged", array.path, text + _lost(array, region, bad), key)


def _lost(array: Array, region: tuple[slice, ...], bad: list[tuple[slice, ...]]) -> str:
    """Return how many subchunks of a shard are lost, given what cannot be read of it."""
    cuts = array.metadata.chunk_cuts
    pairs = zip(region, cuts, strict=True)
    count = prod(axis.cell(part.stop - 1) - axis.cell(part.start) + 1 for part, axis in pairs)
    if not 1 < count <= _COUNTED:
        return ""
    lost = 0
    for box in bad:
        for part in boxes(box, cuts, 1):
            try:
                array[part]
            except Exception:  # noqa: BLE001 (as above)
                lost += 1
    return f" ({lost:,} of {count:,} subchunks are lost)" if lost else ""


def _left_over(store: Store, path: str) -> Iterator[Finding]:
    """Yield what writers that were stopped left, and no listing of the store shows."""
    if not isinstance(store, LocalStore):
        return
    root = Path(store.path)
    for folder, folders, names in os.walk(root / path):
        for name in sorted(name for name in folders if name.endswith(_LOCK)):
            folders.remove(name)
            lock = Path(folder, f"{name.removesuffix(STAGED)}.replace{_LOCK}")
            if not lock.exists() or not _is_held(lock):
                what = "a deletion or replacement that was stopped; the next one removes it"
                yield Finding("leftover", path, what, str(Path(folder, name).relative_to(root)))
        for name in names:
            file = Path(folder, name)
            if name.endswith(_LOCK) and not _is_held(file):
                key = str(file.relative_to(root))
                what = "the lock file of a writer that was stopped; the next writer takes it over"
                yield Finding("leftover", path, what, key)


def _is_held(file: Path) -> bool:
    """Tell whether somebody holds the lock of a lock file: a writer is at work."""
    import fcntl

    if not hasattr(fcntl, "F_OFD_GETLK"):
        return False
    question = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    try:
        with file.open("rb") as opened:
            answer = fcntl.fcntl(opened, fcntl.F_OFD_GETLK, question)
    except OSError:
        return True  # it has gone by now
    return bool(struct.unpack("hhqqi4x", answer)[0] != fcntl.F_UNLCK)
