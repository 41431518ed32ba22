"""Give a node another path.

Where the store can rename, that is one step. Else values are copied, chunks first, the
documents of what is below next, and the node's own document last and exclusively; only
then the old node is deleted. So there is a complete node at the old path or at the new one at
any time, whatever happens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tessarr.errors import ArgumentError, ExistsError
from tessarr.flow import copies, create, deletion
from tessarr.flow.changes import Target, tracked_in
from tessarr.flow.open import MARKERS, find, missing, prefix_of
from tessarr.flow.run import Copy, Delete, Flow, Get, List, Rename
from tessarr.format.node_path import ancestors, join, split

if TYPE_CHECKING:
    from tessarr.types import ZarrFormat

__all__ = ["move"]


def move(source: str, target: str, zarr_format: ZarrFormat) -> Flow[None]:
    """Move a node, and everything below it, to another path.

    Parameters
    ----------
    source, target
        Where it is, and where it is to be; normalised.
    zarr_format
        What is looked for first.

    Raises
    ------
    NotFoundError
        If there is no node at `source`.
    ExistsError
        If there is a node at `target`, or an array above it.
    ArgumentError
        If the root is to be moved, or a group into itself.
    """
    if not source or source in ancestors(target):
        into = f"into itself: {target!r} lies below it" if source else "anywhere: all lies below it"
        raise ArgumentError(f"cannot move {source or '/'!r} {into}", path=source)
    meta = yield from find(source, within=zarr_format)
    if meta is None:
        raise missing(source, None)
    if (yield from deletion.is_marked(target)):
        yield from deletion.complete(target)
    if (yield List(prefix_of(target))):
        # Also what is no node: chunks that were left over would become part of this one.
        raise _occupied(source, target)
    form = meta.zarr_format
    leaves = yield from copies.keepers(source, 3, 2)
    enters = yield from copies.keepers(target, form)
    if form == 3:
        create.warn_of_reserved(target)

    def move_node() -> Flow[None]:
        yield from create.ancestors_of(target, meta)
        if not (yield Rename(prefix_of(source), prefix_of(target))):
            yield from _copy(source, target, form)
            yield from deletion.delete(source)

    # What is below is new there, too.
    targets = [Target(keeper, target, rebuild=True) for keeper in enters]
    targets += [Target(keeper, source, below=True) for keeper in leaves if keeper not in enters]
    yield from tracked_in(targets, move_node)


def _copy(source: str, target: str, zarr_format: ZarrFormat) -> Flow[None]:
    old, new = prefix_of(source), prefix_of(target)
    found = yield List(old)
    keys = [key[len(old) :] for key in found]
    documents = {name for names in copies.DOCUMENTS.values() for name in names}
    # Chunks first, then what is deepest; of one node what makes it a node last.
    keys.sort(key=lambda key: (split(key)[1] in documents, -key.count("/"), _makes_node(key)))
    own = [name for name in MARKERS[zarr_format] if name in keys]
    copied = []
    # What is copied is no node yet: if this program dies, the creation of a node deletes it first.
    yield from deletion.mark(target)
    try:
        for key in keys:
            if key not in own:
                copied.append(key)
                yield Copy(join(source, key), join(target, key))
        yield from _copy_own(source, target, own)
    except BaseException:
        for key in copied:
            yield Delete(new + key)
        yield from deletion.unmark(target)
        raise
    yield from deletion.unmark(target)


def _copy_own(source: str, target: str, names: list[str]) -> Flow[None]:
    """Copy what makes the node one: here and only here it comes to be."""
    found = yield tuple(Get(join(source, name)) for name in names)
    own = {name: value for name, value in zip(names, found, strict=True) if value is not None}
    if not own:
        raise missing(source, None)
    if not (yield from create.commit(prefix_of(target), own)):
        raise _occupied(source, target)


def _makes_node(key: str) -> bool:
    return split(key)[1] != ".zattrs"


def _occupied(source: str, target: str) -> ExistsError:
    return ExistsError(
        f"cannot move {source!r} to {target or '/'!r}: something is stored there already; delete "
        "that first",
        kind="node_exists",
        path=target,
    )
