"""`copy_to`: copies of an array or a hierarchy with other chunks, codecs or another format."""

from __future__ import annotations

import hashlib
import os
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from tessarr.copying.copy_node import NodeCopier
from tessarr.copying.journal import Journal
from tessarr.copying.member_filter import MemberFilter
from tessarr.copying.plan import CopyStep, plan_steps
from tessarr.copying.report import warn_of_skipped
from tessarr.copying.source import StoredSource, open_source
from tessarr.errors import ArgumentError, DataError, NotFoundError
from tessarr.flow import create, edit
from tessarr.flow.consolidate import consolidate
from tessarr.flow.open import find_node, node_exists
from tessarr.flow.run import run_flow
from tessarr.format.node_path import join
from tessarr.metadata.node import ArrayMeta, GroupMeta
from tessarr.options import current
from tessarr.store import LocalStore
from tessarr.store.adapt import close_user_store
from tessarr.store.paths import expand_user
from tessarr.store.resolve import locate_node, refuse_icechunk
from tessarr.store.single_file import repair_zip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tessarr.copying.distributed import DaskRunner
    from tessarr.copying.report import CopiedLink, Skipped
    from tessarr.copying.source import CopySource
    from tessarr.store import Store
    from tessarr.store.resolve import StoreLike
    from tessarr.types import JSONObject, SelectionLike, ZarrFormat

__all__ = ["CopiedNode", "Copy", "copy_to"]


@dataclass(frozen=True, slots=True)
class CopiedNode:
    """The copy of one node.

    Parameters
    ----------
    path
        The path of the node at the target.
    kind
        "array" or "group".
    size_bytes
        The size of the elements in memory.
    as_stored
        Whether the copy transfers raw chunks; otherwise it decodes and encodes elements.
    chunks, shards
        The chunks and shards of the new array.
    decodes
        The average number of reads of a source chunk. A value well above 1 means that more memory
        would help: see `copy_to`.
    """

    path: str
    kind: str
    size_bytes: int
    as_stored: bool
    chunks: tuple[Any, ...] | None
    shards: tuple[Any, ...] | None
    decodes: float


@dataclass(frozen=True, slots=True)
class Copy:
    """The report of a copy; print it.

    Parameters
    ----------
    nodes
        All nodes, the top one first.
    done
        Whether the copy was executed; False after a dry run.
    links
        The links of an HDF5 file that became copies of their targets.
    skipped
        The nodes and attributes that cannot be copied, each with the reason.
    was_complete
        Whether a resumed copy was already complete.
    """

    nodes: tuple[CopiedNode, ...]
    done: bool
    links: tuple[CopiedLink, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    was_complete: bool = False

    @property
    def size_bytes(self) -> int:
        """The size of the elements in memory."""
        return sum(node.size_bytes for node in self.nodes)

    def asdict(self) -> JSONObject:
        """Return the report as plain JSON."""
        names = CopiedNode.__slots__
        nodes = [{name: getattr(node, name) for name in names} for node in self.nodes]
        return {
            "done": self.done,
            "was_complete": self.was_complete,
            "size_bytes": self.size_bytes,
            "nodes": nodes,
            "links": [asdict(link) for link in self.links],
            "skipped": [asdict(node) for node in self.skipped],
        }

    def __str__(self) -> str:
        links = [f"link {link}" for link in self.links]
        skipped = [f"skipped {node}" for node in self.skipped]
        return "\n".join([*map(_format_node, self.nodes), *links, *skipped])

    __repr__ = __str__


def _format_node(node: CopiedNode) -> str:
    if node.kind == "group":
        return f"/{node.path}: group"
    lengths = f"chunks {node.chunks}" + ("" if node.shards is None else f" in shards {node.shards}")
    method = "as they are stored" if node.as_stored else "re-encoded"
    if node.decodes >= 1.05:
        method = f"read {node.decodes:.1f} times and re-encoded"
    return f"/{node.path}: array, {node.size_bytes:,} bytes, {lengths}, {method}"


def copy_to(
    source: Any,
    target: StoreLike,
    *,
    path: str | None = None,
    target_path: str | None = None,
    select: SelectionLike = ...,
    include: str | Iterable[str] | None = None,
    exclude: str | Iterable[str] | None = None,
    zarr_format: ZarrFormat | None = None,
    overwrite: bool = False,
    resume: bool = False,
    dry_run: bool = False,
    memory_bytes: int | None = None,
    scratch: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], object] | None = None,
    client: Any = None,
    **settings: Any,
) -> Copy:
    """Copy an array, or a group with all nodes below, to another location.

    The copy has other chunks, codecs or another format if you pass them; all other properties stay
    the same. Chunks with the same encoding are copied without decoding.

    Parameters
    ----------
    source
        An array or a group of Tessarr, h5py or zarr-python; an array of Dask, xarray, NumPy or any
        other library; the path of a file of HDF5, of netCDF, or of NumPy (``.npy``); or a store,
        as for `tessarr.open`.
    target
        The target, as for `tessarr.open`.
    path, target_path
        The path of the node in the source, and of that in the target; by default the root.
    select
        Slices: copy only this part of an array.
    include, exclude
        Patterns of the paths of members to copy or to omit: one pattern or several. ``raw`` and
        ``run*/raw`` match the last names of a path, ``/raw`` matches the whole path, and ``**``
        matches any number of names. A pattern that matches a group applies to all nodes below it.
    zarr_format
        2 or 3; by default the format of the source, and for other libraries that of the options.
    overwrite
        Delete an existing node at the target. By default an existing node is an error.
    resume
        Continue an interrupted copy with the same arguments, or start a new one. A complete copy,
        which has the metadata of all nodes, stays unchanged; values are not compared.
    dry_run
        Only report the copy.
    memory_bytes
        The memory limit, beside the buffers of encoding and decoding; by default the option
        ``copy_bytes``.
    scratch
        A folder with space for the largest array, uncompressed. If memory does not suffice to read
        each chunk about once, as from rows to columns, the copy uses this folder.
    progress
        Called regularly with the copied bytes and their total.
    client
        A ``distributed.Client``: the workers of its Dask cluster copy the regions, each within
        `memory_bytes`. They need access to both stores. If a worker dies, others copy its regions.
    **settings
        Settings of the new arrays, as for `tessarr.create_array`: ``chunks``, ``shards``,
        ``compressors``, ``filters``, ``fill_value``, ``dtype``, … Chunks and shards apply to arrays
        with as many axes; a mapping of axis names to lengths applies to arrays with such axes. If
        you pass chunks without shards, shards stay if they are multiples of the chunks.

    Returns
    -------
    Copy
        The copied nodes, the links that became copies, and the skipped nodes.

    Raises
    ------
    NotFoundError
        If the node does not exist.
    ExistsError
        If a node or an interrupted copy exists at the target.
    ArgumentError
        If no member is included, settings do not fit an array, the target is part of the source, or
        the interrupted copy has other arguments; the store is then unchanged.

    Notes
    -----
    For arrays with other chunks, the copy reads regions that decode each chunk as rarely as memory
    allows; see `memory_bytes`. An array appears at the target when it is complete. A failed or
    interrupted copy leaves its data and a journal under the key ``.tessarr-copy``: pass
    ``resume=True`` to continue, or ``overwrite=True`` to start again. Resuming raises an error if
    the source or the settings have changed.

    Examples
    --------
    >>> import tessarr
    >>> a = tessarr.create_array("memory://rows", shape=(60, 60), dtype="f4", chunks=(1, 60))
    >>> a[...] = 7
    >>> tessarr.copy_to("memory://rows", "memory://columns", chunks=(60, 1))
    /: array, 14,400 bytes, chunks (60, 1), re-encoded
    >>> tessarr.open("memory://columns")[0, :3]
    array([7., 7., 7.], dtype=float32)
    """
    if memory_bytes is not None and (type(memory_bytes) is not int or memory_bytes < 1):
        raise ArgumentError(f"memory_bytes {memory_bytes!r} is not a positive integer")
    if not isinstance(scratch, str | os.PathLike | None):
        raise TypeError(f"scratch must be a folder, not {type(scratch).__name__}")
    scratch = None if scratch is None else expand_user(scratch)
    if scratch is not None and not os.path.isdir(scratch):  # noqa: PTH112 (of any kind of path)
        raise ArgumentError(f"scratch {os.fspath(scratch)!r} is not an existing folder")
    member_filter = MemberFilter.from_patterns(include, exclude)
    with ExitStack() as exit_stack:
        origin = open_source(source, path)
        if isinstance(source, str | os.PathLike):
            exit_stack.callback(origin.close)
        format_of_copy = zarr_format or origin.zarr_format or current().zarr_format
        try:
            target_store, base = locate_node(
                target, "r" if dry_run else "a", target_path, format_of_copy
            )
        except NotFoundError:  # a dry run does not create the file
            target_store, base = locate_node(None, "a", target_path, format_of_copy)
        except DataError as error:  # a killed copy left an incomplete Zip file
            if not repair_zip(target, enabled=(resume or overwrite) and not dry_run):
                error.add_note(
                    "if an interrupted copy left the file, pass resume=True to continue the copy, "
                    "or overwrite=True to start again"
                )
                raise
            target_store, base = locate_node(target, "a", target_path, format_of_copy)
        if isinstance(target, str | os.PathLike):
            exit_stack.callback(close_user_store, target_store)
        _check_disjoint(origin, target_store, base)
        steps = plan_steps(
            origin,
            target_store,
            select,
            settings,
            zarr_format=format_of_copy,
            member_filter=member_filter,
        )
        copier = NodeCopier(
            origin,
            target_store,
            base,
            memory_bytes or current().copy_bytes,
            None if scratch is None else os.fspath(scratch),
            progress,
            _make_runner(client, origin, target_store),
            total=sum(step.size_bytes for step in steps),
        )
        nodes = [_describe_step(step, base, copier) for step in steps]
        if dry_run:
            return _make_report(origin, nodes, done=False)
        journal = Journal(target_store, base, origin.fingerprint(), _hash_steps(steps))
        was_complete = resume and not journal.exists and _is_complete(steps, target_store, base)
        if not was_complete:
            _begin_copy(journal, target_store, base, overwrite=overwrite, resume=resume)
            _execute_steps(copier, steps, journal)
    skipped = {join(base, node.path) for node in origin.skipped if node.attribute is None}
    nodes = [node for node in nodes if node.path not in skipped]
    result = _make_report(origin, nodes, done=True, was_complete=was_complete)
    warn_of_skipped(result.skipped)
    return result


def _make_runner(client: Any, origin: CopySource, target_store: Store) -> DaskRunner | None:
    if client is None:
        return None
    from tessarr.copying.distributed import DaskRunner, check_shared

    if not isinstance(origin, StoredSource):
        raise ArgumentError("the workers of a cluster copy from Zarr stores only")
    check_shared(origin.store, target_store)
    return DaskRunner(client)


def _make_report(
    origin: CopySource, nodes: list[CopiedNode], *, done: bool, was_complete: bool = False
) -> Copy:
    return Copy(tuple(nodes), done, tuple(origin.links), tuple(origin.skipped), was_complete)


def _is_complete(steps: list[CopyStep], target_store: Store, base: str) -> bool:
    """Return whether all nodes of a copy exist with the planned metadata.

    A copy stores the metadata of an array after its chunks, so that the chunks are complete, too.
    """
    for step in steps:
        path = join(base, step.name)
        meta = run_flow(find_node(path, zarr_format=step.new.zarr_format), target_store)
        if isinstance(meta, GroupMeta):
            meta = replace(meta, consolidated=None)
        if meta is None or create.dump_documents(meta) != create.dump_documents(step.new):
            return False
    return True


def _execute_steps(copier: NodeCopier, steps: list[CopyStep], journal: Journal) -> None:
    try:
        for step in steps:
            copier.copy_node(step, journal)
        if copier.origin.is_consolidated:
            run_flow(consolidate(copier.path, zarr_format=steps[0].new.zarr_format), copier.goal)
    except BaseException as error:
        error.add_note(
            "the copied chunks stay: pass resume=True to continue, or overwrite=True to start again"
        )
        with suppress(Exception):  # report only the first error
            journal.save(now=True)
        raise
    journal.end()


def _describe_step(step: CopyStep, base: str, copier: NodeCopier) -> CopiedNode:
    path = join(base, step.name)
    new = step.new
    chunks, shards = (new.chunks, new.shards) if isinstance(new, ArrayMeta) else (None, None)
    kind = "group" if chunks is None else "array"
    decodes = copier.count_decodes(step)
    return CopiedNode(path, kind, step.size_bytes, step.as_stored, chunks, shards, decodes)


def _check_disjoint(origin: CopySource, target_store: Store, path: str) -> None:
    """Raise an error if source and target overlap."""
    if not isinstance(origin, StoredSource):
        return
    source_parts, target_parts = (
        _path_parts(origin.store, origin.path),
        _path_parts(target_store, path),
    )
    is_same_store = origin.store == target_store or (
        isinstance(origin.store, LocalStore) and isinstance(target_store, LocalStore)
    )
    shorter = min(len(source_parts), len(target_parts))
    if is_same_store and source_parts[:shorter] == target_parts[:shorter]:
        raise ArgumentError("source and target overlap")


def _path_parts(store: Store, path: str) -> tuple[str, ...]:
    from pathlib import Path

    parts = tuple(part for part in path.split("/") if part)
    return (*Path(store.path).resolve().parts, *parts) if isinstance(store, LocalStore) else parts


def _hash_steps(steps: list[CopyStep]) -> str:
    """Return a hash of the planned result."""
    digest = hashlib.sha256()
    for step in steps:
        digest.update(repr((step.name, step.ranges, create.dump_documents(step.new))).encode())
    return digest.hexdigest()


def _begin_copy(
    journal: Journal, target_store: Store, base: str, *, overwrite: bool, resume: bool
) -> None:
    if resume and journal.exists:
        journal.resume()
        return
    refuse_icechunk(target_store)
    node_exists_ = run_flow(node_exists(base, v1=True), target_store)
    if overwrite and (node_exists_ or journal.exists):
        run_flow(edit.delete_node(base), target_store)
    elif node_exists_ and not journal.exists:
        raise create.exists_error(base, target_store)
    journal.begin()
