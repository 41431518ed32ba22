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
from typing import TYPE_CHECKING, Final

from tessarr.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable

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


class Values:
    """The values of a file, collected in the order of its entries."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self._staged: dict[str, Entry] = {}

    def add(self, entry: Entry, kind: bytes, data: bytes) -> None:
        """Process the next entry of the file.

        Raises
        ------
        DataError
            If the entry is a damaged record.
        """
        key = entry.key
        if kind == DELETED:
            self._delete(key)
        elif kind == REPLACED:
            if len(data) != OFFSET.size:
                raise DataError(f"the record of the replacement of {key!r} is damaged")
            self._delete(key)
            (first,) = OFFSET.unpack(data)
            for name in [name for name in self._staged if name.startswith(key)]:
                staged = self._staged.pop(name)
                if staged.offset >= first:
                    self.entries[name] = staged
        elif kind == STAGED:
            self._staged[key] = entry
        else:
            self.entries.pop(key, None)
            self.entries[key] = entry

    def _delete(self, key: str) -> None:
        if key and not key.endswith("/"):
            self.entries.pop(key, None)
        else:
            self.entries = {
                name: it for name, it in self.entries.items() if not name.startswith(key)
            }

    def retain(self, keys: Iterable[str]) -> None:
        """Process a directory: drop all keys that it lacks."""
        known = {**self._staged, **self.entries}
        self.entries = {key: known[key] for key in keys if key in known}
