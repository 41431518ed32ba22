"""Deletion of everything at a path; an interrupted deletion is completed later.

A store that deletes a prefix in one step (a folder, memory, SQLite) needs only that. Every other
store first gets a mark: a key beside the node, which is removed last. If the program dies, the
mark stays, and the creation of a node at the path, or below it, first completes the deletion.
So no deleted key becomes part of a new node.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from tessarr.flow.open import MARKERS, prefix_of
from tessarr.flow.run import (
    Delete,
    DeletePrefix,
    Flow,
    HasAtomicDelete,
    ListDir,
    Put,
    RemoveLink,
    Size,
)

__all__ = [
    "complete_deletion",
    "delete_all",
    "delete_mark",
    "has_mark",
    "mark_key",
    "put_mark",
    "remove_dangling_link",
]

_SUFFIX: Final = ".__deleted"
_CONTENT: Final = b"the deletion of this path has begun\n"


def mark_key(path: str) -> str:
    """Return the key of the deletion mark of `path`.

    Examples
    --------
    >>> mark_key("a/b"), mark_key("")
    ('a/b.__deleted', '.__deleted')
    """
    return path + _SUFFIX


def remove_dangling_link(path: str) -> Flow[bool]:
    """Remove a symbolic link without a target, and return whether it existed."""
    removed: bool = yield RemoveLink(prefix_of(path), dangling=True)
    return removed


def delete_all(path: str) -> Flow[None]:
    """Delete everything at a path.

    Documents go before the rest: a deletion that fails half-way leaves chunks without a
    node, never an array whose missing chunks read as fill. Of a symbolic link only the
    link goes.
    """
    prefix = prefix_of(path)
    yield RemoveLink(prefix)
    if (yield HasAtomicDelete(prefix)):
        yield DeletePrefix(prefix)
        return
    with suppress(Exception):  # a store that is full has to be cleared all the same
        yield from put_mark(path)
    documents = [prefix + name for names in MARKERS.values() for name in names]
    try:
        yield Delete(documents[0])
    except BaseException:
        yield from delete_mark(path)  # nothing is deleted
        raise
    yield tuple(Delete(key) for key in documents[1:])
    yield from complete_deletion(path)


def put_mark(path: str) -> Flow[None]:
    """Mark a path as being deleted."""
    yield Put(mark_key(path), _CONTENT)


def delete_mark(path: str) -> Flow[None]:
    """Remove the mark of a path."""
    yield Delete(mark_key(path))


def complete_deletion(path: str) -> Flow[None]:
    """Delete everything at a path, and then the mark."""
    if path:
        yield DeletePrefix(prefix_of(path))
    else:
        # The mark of the root is itself below the root.
        keys, prefixes = yield ListDir("")
        yield tuple(Delete(key) for key in keys if key != mark_key(path))
        yield tuple(DeletePrefix(prefix) for prefix in prefixes)
    yield from delete_mark(path)


def has_mark(path: str) -> Flow[bool]:
    """Return whether a path is being deleted."""
    return (yield Size(mark_key(path))) is not None
