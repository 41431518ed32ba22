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
from tessarr.errors import ArgumentError, DataError, ExistsError, NotFoundError
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
from tessarr.store.resolve import locate_node
from tessarr.store.single_file import repair_zip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tessarr.copying.report import CopiedLink, Skipped
    from tessarr.copying.source import CopySource
    from tessarr.store import Store
    from tessarr.store.resolve import StoreLike
    from tessarr.types import JSONObject, SelectionLike, ZarrFormat

__all__ = ["CopiedNode", "Copy", "copy_to"]


@dataclass(frozen=True, slots=True)
class CopiedNode:
    """What a copy does with one node.

    Parameters
    ----------
    path
        Its path at the target.
    kind
        "array" or "group".
    size_bytes
        How much there is to copy, as it is in memory.
    as_stored
        Whether chunks are copied as they are stored, or read and written anew.
    chunks, shards
        Those of the new array.
    decodes
        How often each chunk of the source is read, on average. Much more than 1 means that there
        is little memory for what is to change: see `copy_to`.
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
    """What a copy does, or did; print it.

    Parameters
    ----------
    nodes
        All nodes, the one at the top first.
    done
        Whether it was done: not if that was only tried.
    links
        The links of an HDF5 file that became copies of what they lead to.
    skipped
        The nodes and attributes that cannot be copied, each with the reason.
    was_complete
        Whether a copy that was to be resumed was complete, so that nothing was left to do.
    """

    nodes: tuple[CopiedNode, ...]
    done: bool
    links: tuple[CopiedLink, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    was_complete: bool = False

    @property
    def size_bytes(self) -> int:
        """How much there is to copy, as it is in memory."""
        return sum(node.size_bytes for node in self.nodes)

    def asdict(self) -> JSONObject:
        """Return it as plain JSON."""
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
    method = "as they are stored" if node.as_stored else "read and written anew"
    if node.decodes >= 1.05:
        method = f"read {node.decodes:.1f} times and written anew"
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
    **settings: Any,
) -> Copy:
    """Copy an array, or a group with all that is below, to another place.

    What is copied has other chunks, codecs or another format there, if you ask for that;
    all else stays what it is. Chunks that need not change are copied as they are stored.

    Parameters
    ----------
    source
        An array or a group of Tessarr, h5py or zarr-python; an array of Dask, xarray, NumPy or any
        other library; the path of a file of HDF5, of netCDF, or of NumPy (``.npy``); or a store,
        as for `tessarr.open`.
    target
        Where to, as for `tessarr.open`.
    path, target_path
        The path of the node in the source, and of that in the target; by default the root.
    select
        Slices: copy only this part of an array.
    include, exclude
        Patterns of the paths of members to copy, or to leave out; a text or several. ``raw`` and
        ``run*/raw`` match the last names of a path, ``/raw`` matches the whole path, and ``**`` any
        number of names. A pattern that matches a group stands for all below it.
    zarr_format
        2 or 3; by default as it is, and what comes from elsewhere as the options say.
    overwrite
        Delete what is at the target. By default that there is a node is an error.
    resume
        Continue where a copy with the same arguments was interrupted; begin, if there was none. A
        copy that is complete is left as it is: one with the metadata of all nodes; values are not
        compared.
    dry_run
        Only find out what would be done.
    memory_bytes
        How much may be in memory at a time, beside what encoding and decoding take; by default
        as the option ``copy_bytes`` says.
    scratch
        A folder on a disk with room for the largest array, uncompressed. Where memory is too little
        to read each chunk about once, as from rows to columns, the copy goes by way of that.
    progress
        Called with the bytes that are done and their total, from time to time.
    **settings
        What new arrays shall have otherwise, as for `tessarr.create_array`: ``chunks``, ``shards``,
        ``compressors``, ``filters``, ``fill_value``, ``dtype``, … Chunks and shards are
        those of arrays with as many axes; or a mapping of names of axes to lengths, for arrays
        that have such axes. Where chunks are given and shards are not, shards stay
        if they are multiples of the chunks.

    Returns
    -------
    Copy
        What was done to each node, which links became copies, and what was left out.

    Raises
    ------
    NotFoundError
        If there is no such node.
    ExistsError
        If there is a node at the target, or an interrupted copy.
    ArgumentError
        If no member is included, settings do not fit an array, the target is part of the source,
        or what is to be resumed is another copy; nothing has changed then.

    Notes
    -----
    Arrays that are cut otherwise are read in regions that decode each chunk as
    seldom as memory allows, several regions at a time; see `memory_bytes`. An array appears at the
    target when all of it is there. A copy that fails or is interrupted leaves what it has
    done and notes of that under the key ``.tessarr-copy``: give ``resume=True`` to continue, or
    ``overwrite=True`` to begin anew. If the source has changed in between, or the settings
    are other ones, resuming is an error.

    Examples
    --------
    >>> import tessarr
    >>> a = tessarr.create_array("memory://rows", shape=(60, 60), dtype="f4", chunks=(1, 60))
    >>> a[...] = 7
    >>> tessarr.copy_to("memory://rows", "memory://columns", chunks=(60, 1))
    /: array, 14,400 bytes, chunks (60, 1), read and written anew
    >>> tessarr.open("memory://columns")[0, :3]
    array([7., 7., 7.], dtype=float32)
    """
    if memory_bytes is not None and (type(memory_bytes) is not int or memory_bytes < 1):
        raise ArgumentError(f"memory_bytes {memory_bytes!r} is not a positive integer")
    if not isinstance(scratch, str | os.PathLike | None):
        raise TypeError(f"scratch is a folder, not {type(scratch).__name__}")
    scratch = None if scratch is None else expand_user(scratch)
    if scratch is not None and not os.path.isdir(scratch):  # noqa: PTH112 (of any kind of path)
        raise ArgumentError(f"scratch {os.fspath(scratch)!r} is not a folder that exists")
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
        except NotFoundError:  # of a file that a dry run does not create
            target_store, base = locate_node(None, "a", target_path, format_of_copy)
        except DataError as error:  # of a Zip file that a killed copy left
            if not repair_zip(target, enabled=(resume or overwrite) and not dry_run):
                error.add_note(
                    "if it was a copy that was killed, give resume=True to continue it, or "
                    "overwrite=True to begin anew"
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


def _make_report(
    origin: CopySource, nodes: list[CopiedNode], *, done: bool, was_complete: bool = False
) -> Copy:
    return Copy(tuple(nodes), done, tuple(origin.links), tuple(origin.skipped), was_complete)


def _is_complete(steps: list[CopyStep], target_store: Store, base: str) -> bool:
    """Tell whether all nodes of a copy are there, with the metadata that they are to have.

    The metadata of an array is stored after its chunks, so that they are complete, too.
    """
    for step in steps:
        path = join(base, step.name) if step.name else base
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
            "what has been copied is kept: give resume=True to continue, or overwrite=True to "
            "begin anew"
        )
        with suppress(Exception):  # it is the first error that counts
            journal.save(now=True)
        raise
    journal.end()


def _describe_step(step: CopyStep, base: str, copier: NodeCopier) -> CopiedNode:
    path = join(base, step.name) if step.name else base
    new = step.new
    chunks, shards = (new.chunks, new.shards) if isinstance(new, ArrayMeta) else (None, None)
    kind = "group" if chunks is None else "array"
    decodes = copier.count_decodes(step)
    return CopiedNode(path, kind, step.size_bytes, step.as_stored, chunks, shards, decodes)


def _check_disjoint(origin: CopySource, target_store: Store, path: str) -> None:
    """Check that neither of source and target is inside of the other."""
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
        raise ArgumentError("source and target are the same place, or one is inside of the other")


def _path_parts(store: Store, path: str) -> tuple[str, ...]:
    from pathlib import Path

    parts = tuple(part for part in path.split("/") if part)
    return (*Path(store.path).resolve().parts, *parts) if isinstance(store, LocalStore) else parts


def _hash_steps(steps: list[CopyStep]) -> str:
    """Return a hash of what is to come out."""
    digest = hashlib.sha256()
    for step in steps:
        digest.update(repr((step.name, step.ranges, create.dump_documents(step.new))).encode())
    return digest.hexdigest()


def _format_location(target_store: Store, base: str) -> str:
    return f"path {base!r} of {target_store}" if base else f"the root of {target_store}"


def _begin_copy(
    journal: Journal, target_store: Store, base: str, *, overwrite: bool, resume: bool
) -> None:
    if resume and journal.exists:
        journal.resume()
        return
    node_exists_ = run_flow(node_exists(base, v1=True), target_store)
    if overwrite and (node_exists_ or journal.exists):
        run_flow(edit.delete_node(base), target_store)
    elif node_exists_ and not journal.exists:
        raise ExistsError(
            f"there is a node at {_format_location(target_store, base)} already: give "
            "overwrite=True to replace it with "
            "everything below it",
            kind="node_exists",
            path=base,
        )
    journal.begin()
