"""Moving of a node to another path.

Some stores rename a prefix in one step. In other stores, the flow copies values: first chunks,
then the documents of the nodes below, and last the node's own document, exclusively. Then it
deletes the old node. At every point the node is complete at the old or the new path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tessarr.errors import ArgumentError, ExistsError
from tessarr.flow import consolidated_copies, create, deletion
from tessarr.flow.batch import MoveInBatches
from tessarr.flow.changes import CopyUpdate, run_with_copy_updates
from tessarr.flow.open import MARKERS, find_node, not_found_error, prefix_of, read_documents
from tessarr.flow.run import Copy, Delete, Flow, List, Rename
from tessarr.format.node_path import ancestors, join, split

if TYPE_CHECKING:
    from tessarr.types import ZarrFormat

__all__ = ["move_node"]


def move_node(source: str, target: str, zarr_format: ZarrFormat) -> Flow[None]:
    """Move a node, and everything below it, to another path.

    Parameters
    ----------
    source, target
        The old and the new path; normalised.
    zarr_format
        The format to look for first.

    Raises
    ------
    NotFoundError
        If no node exists at `source`.
    ExistsError
        If a node exists at `target`, or an array above it.
    ArgumentError
        If `source` is the root, or `target` is below `source`.
    """
    if not source or source in ancestors(target):
        into = f"into itself: {target!r} lies below it" if source else "anywhere: all lies below it"
        raise ArgumentError(f"cannot move {source or '/'!r} {into}", path=source)
    meta = yield from find_node(source, within=zarr_format)
    if meta is None:
        raise not_found_error(source, None)
    if (yield from deletion.has_mark(target)):
        yield from deletion.complete_deletion(target)
    if (yield List(prefix_of(target))):
        # Reject keys without a node, too: leftover chunks would become part of the moved node.
        raise _exists_error(source, target)
    form = meta.zarr_format
    old_groups = yield from consolidated_copies.find_consolidated_groups(source, 3, 2)
    new_groups = yield from consolidated_copies.find_consolidated_groups(target, form)
    if form == 3:
        create.warn_of_reserved(target)

    def run_move() -> Flow[None]:
        yield from create.create_ancestors(target, meta)
        is_renamed = yield Rename(prefix_of(source), prefix_of(target))
        if not is_renamed:
            yield from _copy_node(source, target, form)
        yield MoveInBatches(source, target)
        if not is_renamed:
            yield from deletion.delete_all(source)

    # The nodes below are new at this path, too.
    targets = [CopyUpdate(group, target, rebuild=True) for group in new_groups]
    targets += [
        CopyUpdate(group, source, below=True) for group in old_groups if group not in new_groups
    ]
    yield from run_with_copy_updates(targets, run_move)


def _copy_node(source: str, target: str, zarr_format: ZarrFormat) -> Flow[None]:
    old, new = prefix_of(source), prefix_of(target)
    keys_below = yield List(old)
    keys = [key[len(old) :] for key in keys_below]
    documents = {name for names in consolidated_copies.DOCUMENTS.values() for name in names}
    # Chunks first, then the documents of the deepest nodes; the marker of each node last.
    keys.sort(key=lambda key: (split(key)[1] in documents, -key.count("/"), _makes_node(key)))
    node_documents = [name for name in MARKERS[zarr_format] if name in keys]
    copied = []
    # If this program dies, the next creation of a node at the target deletes the copied values.
    yield from deletion.put_mark(target)
    try:
        for key in keys:
            if key not in node_documents:
                copied.append(key)
                yield Copy(join(source, key), join(target, key))
        yield from _copy_node_documents(source, target, node_documents)
    except BaseException:
        for key in copied:
            yield Delete(new + key)
        yield from deletion.delete_mark(target)
        raise
    yield from deletion.delete_mark(target)


def _copy_node_documents(source: str, target: str, names: list[str]) -> Flow[None]:
    """Copy the documents that mark the node, which makes it visible at its new path."""
    documents = yield from read_documents(source, names)
    if not documents:
        raise not_found_error(source, None)
    if not (yield from create.create_documents(prefix_of(target), documents)):
        raise _exists_error(source, target)


def _makes_node(key: str) -> bool:
    return split(key)[1] != ".zattrs"


def _exists_error(source: str, target: str) -> ExistsError:
    return ExistsError(
        f"cannot move {source!r} to {target or '/'!r}: the target already holds keys; delete "
        "them first",
        kind="node_exists",
        path=target,
    )
