"""Blocks of buffered writes of an array, or of all arrays below a group."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from tessarr._engine import BufferScope
from tessarr.array import Array
from tessarr.errors import ArgumentError
from tessarr.flow.open import prefix_of
from tessarr.group import Group
from tessarr.node.buffered_writes import BufferedWrites

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["buffered"]

N = TypeVar("N", Array, Group)


def buffered(node: N, *, max_bytes: int = 1 << 28) -> BufferedWrites[N]:
    """Collect writes to parts of chunks in memory, and store each chunk once.

    Parameters
    ----------
    node
        An array, or a group: the block then includes all arrays below it, however they are opened
        from the group, before or in the block.
    max_bytes
        The memory limit in bytes, for all arrays together; by default 256 MiB.

    Returns
    -------
    BufferedWrites
        A context manager for a ``with`` statement, as `Array.buffered` describes.

    Raises
    ------
    ArgumentError
        If `node` is no array or group, or `max_bytes` is not an integer of at least 0.
    ReadOnlyError
        If the node is open for reading only.

    Examples
    --------
    >>> import tessarr
    >>> g = tessarr.create_group(None)
    >>> x, y = (g.create_array(name, shape=(4, 3), dtype="i4", chunks=(2, 3)) for name in "xy")
    >>> with tessarr.buffered(g):
    ...     for i in range(4):
    ...         x[i] = i
    ...         g["y"][i] = x[i] + 1
    >>> y[:, 0]
    array([1, 2, 3, 4], dtype=int32)
    """
    opened: Any = node
    if isinstance(opened, Array):
        start: Callable[[int], BufferScope] = opened._start_buffer
    elif isinstance(opened, Group):
        start = partial(BufferScope, opened._store, prefix_of(opened.path))
    else:
        kind = type(opened).__name__
        raise ArgumentError(f"buffered() needs an open array or group, not a {kind}")
    node._check_writable()
    return BufferedWrites(node, start, max_bytes)
