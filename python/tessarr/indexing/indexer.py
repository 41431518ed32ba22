"""What stands behind ``a.oindex``, ``a.vindex`` and ``a.blocks``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from tessarr.indexing.selection import Selection

__all__ = ["Indexer"]


class Indexer:
    """Reads and writes by keys of one form: give it brackets.

    Parameters
    ----------
    normalize
        Makes a selection of a key.
    read, write
        Read a selection, and write a value to one.
    """

    __slots__ = ("_normalize", "_read", "_write")

    def __init__(
        self,
        normalize: Callable[[Any], Selection],
        read: Callable[[Selection], Any],
        write: Callable[[Selection, Any], None],
    ) -> None:
        self._normalize = normalize
        self._read = read
        self._write = write

    def __getitem__(self, key: Any) -> Any:
        return self._read(self._normalize(key))

    def __setitem__(self, key: Any, value: Any) -> None:
        self._write(self._normalize(key), value)
