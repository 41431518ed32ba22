"""Deletion of everything at a path; an interrupted deletion is completed later.

Some stores delete a prefix in one step: folders, memory and SQLite. In other stores, a deletion
first stores a mark, a key beside the node, and removes it last. If the program dies, the mark
stays. The creation of a node at the path, or below it, first completes the deletion. So no
deleted key becomes part of a new node.
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

    Documents are deleted first: an interrupted deletion leaves chunks without a node, but never
    an array whose deleted chunks read as the fill value. The target of a symbolic link stays.
    """
    prefix = prefix_of(path)
    yield RemoveLink(prefix)
    if (yield HasAtomicDelete(prefix)):
        yield DeletePrefix(prefix)
        return
    with suppress(Exception):  # deletion must also work in a full store
        yield from put_mark(path)
    documents = [prefix + name for names in MARKERS.values() for name in names]
    try:
        yield Delete(documents[0])
    except BaseException:
        yield from delete_mark(path)  # the deletion has not started
        raise
    yield tuple(Delete(key) for key in documents[1:])
    yield from complete_deletion(path)


def put_mark(path: str) -> Flow[None]:
    """Store the deletion mark of a path."""
    yield Put(mark_key(path), _CONTENT)


def delete_mark(path: str) -> Flow[None]:
    """Remove the deletion mark of a path."""
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
    """Return whether a path has a deletion mark."""
    return (yield Size(mark_key(path))) is not None
