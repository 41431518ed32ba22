"""Deletion of everything at a path, complete or continued later.

A store that deletes a prefix in one step (a folder, memory, SQLite) needs no more. In every other
store a mark comes first: a key beside the node, which is removed last. If the program dies
meanwhile, the mark stays, and creating a node at the path, or below it, completes the deletion
first.
So nothing that was deleted is part of a new node.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from tessarr.flow.open import MARKERS, prefix_of
from tessarr.flow.run import (
    Delete,
    DeletePrefix,
    DeletesAtOnce,
    Flow,
    ListDir,
    Put,
    RemoveLink,
    Size,
)

__all__ = [
    "complete",
    "delete",
    "is_marked",
    "mark",
    "mark_of",
    "remove_dangling_link",
    "unmark",
]

_SUFFIX: Final = ".__deleted"
_CONTENT: Final = b"the deletion of this path has begun\n"


def mark_of(path: str) -> str:
    """Return the key that tells that the deletion of `path` has begun.

    Examples
    --------
    >>> mark_of("a/b"), mark_of("")
    ('a/b.__deleted', '.__deleted')
    """
    return path + _SUFFIX


def remove_dangling_link(path: str) -> Flow[bool]:
    """Remove a symbolic link that leads nowhere, and return whether there was one."""
    removed: bool = yield RemoveLink(prefix_of(path), dangling=True)
    return removed


def delete(path: str) -> Flow[None]:
    """Delete everything at a path.

    Documents go before the rest: a deletion that fails half-way leaves chunks without a
    node, never an array whose missing chunks read as fill. Of a symbolic link only the
    link goes.
    """
    prefix = prefix_of(path)
    yield RemoveLink(prefix)
    if (yield DeletesAtOnce(prefix)):
        yield DeletePrefix(prefix)
        return
    with suppress(Exception):  # a store that is full has to be cleared all the same
        yield from mark(path)
    documents = [prefix + name for names in MARKERS.values() for name in names]
    try:
        yield Delete(documents[0])
    except BaseException:
        yield from unmark(path)  # nothing is deleted
        raise
    yield tuple(Delete(key) for key in documents[1:])
    yield from complete(path)


def mark(path: str) -> Flow[None]:
    """Tell that what is at a path is no node, or soon none."""
    yield Put(mark_of(path), _CONTENT)


def unmark(path: str) -> Flow[None]:
    """Tell that it is one."""
    yield Delete(mark_of(path))


def complete(path: str) -> Flow[None]:
    """Delete what is left at a path, and then the mark."""
    if path:
        yield DeletePrefix(prefix_of(path))
    else:
        # The mark of the root is itself below the root.
        keys, prefixes = yield ListDir("")
        yield tuple(Delete(key) for key in keys if key != mark_of(path))
        yield tuple(DeletePrefix(prefix) for prefix in prefixes)
    yield from unmark(path)


def is_marked(path: str) -> Flow[bool]:
    """Return whether the deletion of a path has begun and not ended."""
    return (yield Size(mark_of(path))) is not None
