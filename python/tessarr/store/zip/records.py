"""Records of deletions and replacements, which the repair of a Zip file reads.

The directory at the end of a Zip file lists its values. A killed writer leaves no directory, and
a repair collects the values from the beginning. An extra field in local headers records deletions
and replacements for the repair; other programs ignore this field.

- A *staged* value belongs to an incomplete node. It is valid after the record of the
  replacement, or if a directory lists it.
- The record of a *deletion* names a key, or a prefix that is empty or ends in "/".
- The record of a *replacement* names a prefix. Its data is the offset of the first staged value.
"""

from __future__ import annotations

import struct
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from tessarr.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tessarr.store.zip.format import Entry

__all__ = ["DELETED", "OFFSET", "REPLACED", "STAGED", "Values", "decode_kind", "encode_kind"]

STAGED: Final = b"s"
DELETED: Final = b"d"
REPLACED: Final = b"r"

OFFSET: Final = struct.Struct("<Q")

_FIELD: Final = struct.Struct("<HH")
_ID: Final = 0x7354


def encode_kind(kind: bytes) -> bytes:
    """Return the extra field for a kind of entry; empty for a plain value.

    Examples
    --------
    >>> decode_kind(encode_kind(STAGED)), decode_kind(encode_kind(b"")), decode_kind(b"?")
    (b's', b'', b'')
    """
    return _FIELD.pack(_ID, len(kind)) + kind if kind else b""


def decode_kind(extra: bytes) -> bytes:
    """Return the kind of an entry from the extra fields of its local header."""
    position = 0
    while position + _FIELD.size <= len(extra):
        field, length = _FIELD.unpack_from(extra, position)
        position += _FIELD.size
        if field == _ID:
            return extra[position : position + length]
        position += length
    return b""


class _Tree:
    """Entries by key, in nested dictionaries of folders: a prefix is one folder.

    The name of a folder ends in "/", so that it differs from the name of a value.
    """

    def __init__(self) -> None:
        self._root: dict[str, Any] = {}

    def get(self, key: str) -> Entry | None:
        """Return the entry of a key; None for an absent key."""
        *folders, name = key.split("/")
        folder = self._find_folder(folders)
        return None if folder is None else folder.get(name)

    def set(self, key: str, entry: Entry) -> None:
        """Store the entry of a key."""
        *folders, name = key.split("/")
        folder = self._root
        for part in folders:
            folder = folder.setdefault(f"{part}/", {})
        folder[name] = entry

    def pop(self, name: str) -> Iterator[Entry]:
        """Remove a key, or a prefix that is empty or ends in "/"; return the removed entries."""
        *folders, last = name.removesuffix("/").split("/")
        folder = self._find_folder(folders)
        if not name:
            removed, self._root = self._root, {}
        elif folder is None:
            removed = {}
        elif name.endswith("/"):
            removed = folder.pop(f"{last}/", {})
        else:
            removed = {last: folder.pop(last)} if last in folder else {}
        return _walk(removed)

    def _find_folder(self, names: list[str]) -> dict[str, Any] | None:
        folder = self._root
        for part in names:
            if (found := folder.get(f"{part}/")) is None:
                return None
            folder = found
        return folder

    def __iter__(self) -> Iterator[Entry]:
        return _walk(self._root)


def _walk(folder: dict[str, Any]) -> Iterator[Entry]:
    """Yield the entries of a folder and below it."""
    folders = [folder]  # names may be too deep for recursion
    while folders:
        for item in folders.pop().values():
            if isinstance(item, dict):
                folders.append(item)
            else:
                yield item


class Values:
    """The values of a file, collected in the order of its entries."""

    def __init__(self) -> None:
        self._entries = _Tree()
        self._staged = _Tree()

    def list_entries(self) -> list[Entry]:
        """Return the entries of all values in the order of the file."""
        return sorted(self._entries, key=attrgetter("offset"))

    def add(self, entry: Entry, kind: bytes, data: bytes) -> None:
        """Process the next entry of the file.

        Raises
        ------
        DataError
            If the entry is a damaged record.
        """
        key = entry.key
        if kind == DELETED:
            self._entries.pop(key)
        elif kind == REPLACED:
            if len(data) != OFFSET.size:
                raise DataError(f"the record of the replacement of {key!r} is damaged")
            self._entries.pop(key)
            (first,) = OFFSET.unpack(data)
            for staged in self._staged.pop(key):
                if staged.offset >= first:
                    self._entries.set(staged.key, staged)
        elif kind == STAGED:
            self._staged.set(key, entry)
        else:
            self._entries.set(key, entry)

    def retain(self, keys: Iterable[str]) -> None:
        """Process a directory: drop all keys that it lacks."""
        before, self._entries = self._entries, _Tree()
        for key in keys:
            if (entry := before.get(key) or self._staged.get(key)) is not None:
                self._entries.set(key, entry)
