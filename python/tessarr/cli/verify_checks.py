"""Find problems of a stored hierarchy, for ``tessarr verify``.

The checks parse every metadata document, look at every key, and read every stored chunk, which
verifies its codecs and checksums. An absent chunk is no problem by default: it reads as the fill
value, and the store cannot distinguish an unwritten chunk from a lost one.
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
from tessarr.array.parallel import map_in_parallel
from tessarr.array.regions import count_elements, get_chunk_region, split_region
from tessarr.cli.output import track_progress
from tessarr.errors import MetadataError, TessarrError, UnsupportedError
from tessarr.flow import consolidate, stored_sizes, walk
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
    from tessarr.types import Shape

__all__ = ["MEANINGS", "Counts", "Finding", "Kind", "find_problems"]

Kind: TypeAlias = Literal[
    "damaged", "metadata", "defect", "stray", "outside", "leftover", "missing", "stale"
]
"""The kind of problem: a key of `MEANINGS`."""

MEANINGS: Final[dict[Kind, str]] = {
    "damaged": "a stored object cannot be decoded",
    "metadata": "a document breaks its specification, or needs what is not supported",
    "defect": "a document breaks its specification, but can be read",
    "stray": "a key belongs to no node",
    "outside": "a chunk lies outside of its array",
    "leftover": "a stopped writer left a temporary file",
    "missing": "what should be stored is not",
    "stale": "consolidated metadata differs from the nodes",
}

_DOCUMENTS: Final = frozenset({"zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"})
_V1_DOCUMENTS: Final = frozenset({"meta", "attrs"})
_LOCK: Final = ".__lock"
_TEMPORARY: Final = re.compile(r"\.partial$|\.te?mp$|~$|^\.nfs|[._-]tmp[._-]|__lock$", re.I)  # noqa: FURB167
_READ_BYTES: Final = 64 << 20
"""The size of the part of a shard that is read in one step."""
_MAX_COUNTED_SUBCHUNKS: Final = 10_000
"""The lost subchunks of a damaged shard with more subchunks are not counted."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem.

    Parameters
    ----------
    kind
        The kind of problem.
    path
        The path of the node.
    message
        A description of the problem.
    key
        The key in the store, if the problem concerns one.
    """

    kind: Kind
    path: str
    message: str
    key: str | None = None


@dataclass(slots=True)
class Counts:
    """The numbers of checked nodes, keys and chunks."""

    nodes: int = 0
    objects: int = 0
    decoded_bytes: int = 0
    chunks: int = 0
    stored_chunks: int = 0


def find_problems(
    store: Store, path: str, *, data: bool, complete: bool, counts: Counts
) -> Iterator[Finding]:
    """Yield all problems of a node and of the nodes below it.

    Parameters
    ----------
    store, path
        The store, and the path of the node.
    data
        Whether to read chunks; otherwise the checks cover metadata and keys.
    complete
        Whether an absent chunk is a problem.
    counts
        Counters, which the function increments.

    Raises
    ------
    NotFoundError
        If the node is absent.
    """
    top = run_flow(_read_top_documents(path), store)
    nodes = {path: top}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if isinstance(meta := _parse(path, top), GroupMeta):
            stored = run_flow(walk.list_documents(path, meta.zarr_format, max_depth=None), store)
            nodes |= {path_below: documents for path_below, (documents, _) in stored.items()}
    yield from (
        Finding("defect", path, str(warning.message)) for warning in _remove_repeats(caught, "both")
    )
    examiner = _Examiner(store, data, complete, counts)
    for path_below, documents in nodes.items():
        yield from examiner.check_node(path_below, documents, nodes)
    yield from _find_leftovers(store, path)


def _read_top_documents(path: str) -> Flow[walk.StoredNode]:
    """Return the documents of the node at `path`; raise an error if it is absent."""
    prefix = open_flow.prefix_of(path)
    names = ("zarr.json", ".zarray", ".zgroup", ".zattrs", "meta", "attrs")
    values = yield tuple(Get(prefix + name) for name in names)
    documents: dict[str, bytes | None] = dict(zip(names, values, strict=True))
    attributes_of = {".zarray": ".zattrs", ".zgroup": ".zattrs", "meta": "attrs"}
    for name in ("zarr.json", ".zarray", ".zgroup", "meta"):
        document = documents[name]
        if document is not None:
            return walk.StoredNode(name, document, documents.get(attributes_of.get(name, "")))
    raise open_flow.not_found_error(path, None)


def _parse(path: str, documents: walk.StoredNode) -> NodeOrError:
    """Parse documents without the memo, so that the parser repeats its warnings."""
    if documents.error is not None:
        return documents.error
    try:
        if documents.name == "zarr.json":
            return v3.parse(documents.document, where=path)
        if documents.name == "meta":
            return v1.parse(documents.document, documents.attributes, where=path)
        if documents.name == ".zarray":
            return v2.parse_array(documents.document, documents.attributes, where=path)
        return v2.parse_group(documents.document, documents.attributes, where=path)
    except (MetadataError, UnsupportedError) as error:
        return error


def _remove_repeats(
    caught: list[warnings.WarningMessage], word: str = ""
) -> list[warnings.WarningMessage]:
    texts = {str(warning.message): warning for warning in caught}
    return [warning for text, warning in texts.items() if word in text]


@dataclass(frozen=True, slots=True)
class _Examiner:
    """Checks nodes one by one."""

    store: Store
    data: bool
    complete: bool
    counts: Counts

    def check_node(
        self, path: str, documents: walk.StoredNode, nodes: Container[str]
    ) -> Iterator[Finding]:
        self.counts.nodes += 1
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            meta = _parse(path, documents)
        key = join(path, documents.name)
        for warning in _remove_repeats(caught):
            yield Finding("defect", path, str(warning.message), key)
        if isinstance(meta, GroupMeta):
            yield from self.check_group(path, meta, nodes)
        elif isinstance(meta, ArrayMeta):
            yield from self.check_array(path, meta)
        elif isinstance(meta, MetadataError) and meta.problems:
            for problem in meta.problems:
                yield Finding("metadata", path, str(problem), key)
        else:
            yield Finding("metadata", path, str(meta), key)

    def check_group(self, path: str, meta: GroupMeta, nodes: Container[str]) -> Iterator[Finding]:
        """Check a group's keys outside of nodes, and its consolidated metadata."""
        keys, prefixes = self.store.list_dir(open_flow.prefix_of(path))
        documents = _DOCUMENTS if path else _DOCUMENTS | _V1_DOCUMENTS
        for key in keys:
            if key.rpartition("/")[2] not in documents:
                yield _build_stray_finding(path, key)
        for prefix in prefixes:
            if prefix[:-1] not in nodes:
                yield from self.check_folder(path, prefix)
        if meta.consolidated is not None or join(path, ".zmetadata") in keys:
            yield from self.check_consolidated(path, meta)

    def check_folder(self, path: str, prefix: str) -> Iterator[Finding]:
        """Check a folder in a group that is not a node."""
        keys = self.store.list(prefix)
        nodes = [key for key in keys if key.rpartition("/")[2] in _DOCUMENTS]
        if nodes:
            message = f"{prefix!r} has no metadata, which hides {nodes[0].rpartition('/')[0]!r}"
            yield Finding(
                "missing", path, message + (" and others" if len(nodes) > 1 else ""), prefix
            )
        else:
            yield from (_build_stray_finding(path, key) for key in keys)

    def check_consolidated(self, path: str, meta: GroupMeta) -> Iterator[Finding]:
        """Compare consolidated metadata with the nodes."""
        words = {"missing": "has no copy", "gone": "is gone, but has a copy", "changed": "differs"}
        key = join(path, "zarr.json" if meta.zarr_format == 3 else ".zmetadata")
        try:
            flow = consolidate.compare_copies(path, zarr_format=meta.zarr_format)
            differences = run_flow(flow, self.store)
        except TessarrError as error:
            yield Finding("stale", path, str(error), key)
            return
        for node, difference in differences.items():
            message = f"{join(path, node)!r} {words[difference]} in the consolidated metadata"
            yield Finding("stale", path, message, key)

    def check_array(self, path: str, meta: ArrayMeta) -> Iterator[Finding]:
        """Check the keys of an array, and read its chunks."""
        store, chunk_path = get_chunk_store(self.store, path, meta.storage_transformers)
        prefix = open_flow.prefix_of(chunk_path)
        documents = _DOCUMENTS | _V1_DOCUMENTS if meta.is_v1 else _DOCUMENTS
        cells: list[Shape] = []
        for key in run_flow(stored_sizes.list_keys(chunk_path), store):
            cell = meta.chunk_key_encoding.decode(key, meta.rank)
            if cell is None and key not in documents:
                yield _build_stray_finding(path, prefix + key)
            elif cell is not None and not _is_inside(cell, meta):
                message = (
                    f"chunk {cell} is outside of the array, which has {meta.grid_shape} chunks"
                )
                yield Finding("outside", path, message, prefix + key)
            elif cell is not None:
                cells.append(cell)
        stored, count = len(cells), prod(meta.grid_shape)
        self.counts.stored_chunks += stored
        self.counts.chunks += count
        if self.complete and stored < count:
            stored_cells = set(cells)
            all_cells = product(*map(range, meta.grid_shape))
            first = next(cell for cell in all_cells if cell not in stored_cells)
            message = f"{count - stored} of {count} chunks are not stored, {first} among them"
            yield Finding("missing", path, message, prefix + meta.chunk_key_encoding.encode(first))
        if self.data:
            yield from self.check_chunks(path, meta, cells)

    def check_chunks(self, path: str, meta: ArrayMeta, cells: list[Shape]) -> Iterator[Finding]:
        """Read chunks; read a failing chunk part by part, to count the lost subchunks."""
        try:
            array = bind_array(meta, self.store, path, read_only=True)
        except (TessarrError, ImportError) as error:
            yield Finding("metadata", path, str(error))
            return

        def read(cell: Shape) -> Finding | None:
            return _read_chunk(array, cell)

        checked = map_in_parallel(read, cells)
        for cell, finding in zip(
            cells, track_progress(f"/{path}", checked, len(cells)), strict=True
        ):
            if finding is not None:
                yield finding
            self.counts.objects += 1
            self.counts.decoded_bytes += (
                count_elements(get_chunk_region(meta, cell)) * array.itemsize
            )


def _build_stray_finding(path: str, key: str) -> Finding:
    if _TEMPORARY.search(key.rpartition("/")[2]):
        return Finding("leftover", path, "a temporary file of a writer", key)
    return Finding("stray", path, "belongs to nothing", key)


def _is_inside(cell: Shape, meta: ArrayMeta) -> bool:
    return all(index < count for index, count in zip(cell, meta.grid_shape, strict=True))


def _read_chunk(array: Array, cell: Shape) -> Finding | None:
    """Read the chunk at `cell`, a shard part by part; return the problem, if any."""
    meta = array.metadata
    region = get_chunk_region(meta, cell)
    max_elements = _READ_BYTES // max(array.itemsize, 1)
    failed: list[tuple[slice, ...]] = []
    first: Exception | None = None
    for part in split_region(region, meta.chunk_cuts, max_elements):
        try:
            array[part]
        except Exception as error:  # noqa: BLE001 (codecs of users raise what they like)
            first = first or error
            failed.append(part)
    if first is None:
        return None
    text = str(first) if isinstance(first, TessarrError) else f"{type(first).__name__}: {first}"
    key = join(array.path, meta.chunk_key_encoding.encode(cell))
    return Finding("damaged", array.path, text + _count_lost(array, region, failed), key)


def _count_lost(array: Array, region: tuple[slice, ...], failed: list[tuple[slice, ...]]) -> str:
    """Return how many subchunks of a shard are lost; `failed` lists its unreadable parts."""
    cuts = array.metadata.chunk_cuts
    pairs = zip(region, cuts, strict=True)
    count = prod(axis.cell(part.stop - 1) - axis.cell(part.start) + 1 for part, axis in pairs)
    if not 1 < count <= _MAX_COUNTED_SUBCHUNKS:
        return ""
    lost = 0
    for box in failed:
        for part in split_region(box, cuts, 1):
            try:
                array[part]
            except Exception:  # noqa: BLE001 (as above)
                lost += 1
    return f" ({lost:,} of {count:,} subchunks are lost)" if lost else ""


def _find_leftovers(store: Store, path: str) -> Iterator[Finding]:
    """Yield temporary files of interrupted writers, which no listing of the store shows."""
    if not isinstance(store, LocalStore):
        return
    root = Path(store.path)
    for folder, folders, names in os.walk(root / path):
        for name in sorted(name for name in folders if name.endswith(_LOCK)):
            folders.remove(name)
            lock = Path(folder, f"{name.removesuffix(STAGED)}.replace{_LOCK}")
            if not lock.exists() or not _is_locked(lock):
                message = "an interrupted deletion or replacement; the next one removes it"
                yield Finding("leftover", path, message, str(Path(folder, name).relative_to(root)))
        for name in names:
            file = Path(folder, name)
            if name.endswith(_LOCK) and not _is_locked(file):
                key = str(file.relative_to(root))
                message = "the lock file of a stopped writer; the next writer reuses it"
                yield Finding("leftover", path, message, key)


def _is_locked(file: Path) -> bool:
    """Return whether a writer holds the lock of a lock file."""
    import fcntl

    if not hasattr(fcntl, "F_OFD_GETLK"):
        return False
    request = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    try:
        with file.open("rb") as opened:
            reply = fcntl.fcntl(opened, fcntl.F_OFD_GETLK, request)
    except OSError:
        return True  # the file disappeared meanwhile
    return bool(struct.unpack("hhqqi4x", reply)[0] != fcntl.F_UNLCK)
