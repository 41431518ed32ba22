"""Tables of the entries of Zip files, which may have very many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from tessarr.store.zip.format import LOCAL, Entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

__all__ = ["Entries", "EntryTable"]

_FIELDS: Final = np.dtype([(name, "i8") for name in Entry._fields[1:]])


@dataclass(frozen=True, slots=True)
class EntryTable:
    """A sequence of entries as columns.

    Attributes
    ----------
    names : list of bytes
        The names.
    fields : ndarray
        The other attributes of `Entry`, as fields of a structured array.
    """

    names: list[bytes]
    fields: NDArray[Any]

    @classmethod
    def from_entries(cls, entries: Iterable[Entry]) -> Self:
        """Return the table of some entries."""
        rows = list(entries)
        return cls([row.name for row in rows], np.array([row[1:] for row in rows], _FIELDS))

    @classmethod
    def from_columns(cls, names: list[bytes], **columns: Any) -> Self:
        """Return the table with some columns; the others are zero."""
        fields = np.zeros(len(names), _FIELDS)
        for name, column in columns.items():
            fields[name] = column
        return cls(names, fields)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, row: int) -> Entry:
        return Entry(self.names[row], *self.fields[row].item())

    def name_lengths(self) -> NDArray[np.int64]:
        """Return the number of bytes of each name."""
        return np.fromiter(map(len, self.names), "i8", len(self.names))

    def gaps(self) -> NDArray[np.int64]:
        """Return the bytes between the smallest end and the limit of each entry."""
        fields = self.fields
        ends = fields["offset"] + LOCAL.size + self.name_lengths() + fields["packed"]
        gaps: NDArray[np.int64] = fields["limit"] - ends
        return gaps


class Entries:
    """Entries by key, like a dictionary.

    An entry of the central directory is a row of a table until its use, so that opening a file
    does not build an object for each entry.

    Parameters
    ----------
    table
        The entries of the central directory.
    rows
        The row of each key.
    """

    def __init__(self, table: EntryTable | None = None, rows: dict[str, int] | None = None) -> None:
        self._table = EntryTable.from_entries([]) if table is None else table
        self._values: dict[str, int | Entry] = {**(rows or {})}

    def _get_entry(self, value: int | Entry | None) -> Entry | None:
        return self._table[value] if isinstance(value, int) else value

    def get(self, key: str) -> Entry | None:
        """Return the entry of a key; None for an absent key."""
        return self._get_entry(self._values.get(key))

    def pop(self, key: str) -> Entry | None:
        """Remove a key and return its entry; None for an absent key."""
        return self._get_entry(self._values.pop(key, None))

    def pop_prefix(self, prefix: str) -> dict[str, Entry]:
        """Remove the keys that start with a prefix, and return their entries."""
        keys = [key for key in self._values if key.startswith(prefix)]
        return {key: entry for key in keys if (entry := self.pop(key)) is not None}

    def __setitem__(self, key: str, entry: Entry) -> None:
        self._values[key] = entry

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def copy(self) -> Entries:
        """Return entries that change independently of these."""
        copied = Entries(self._table)
        copied._values = self._values.copy()
        return copied

    def collect(self, keys: Iterable[str]) -> EntryTable:
        """Return the entries of some keys in the order of the file."""
        values = [self._values[key] for key in keys]
        rows = [value for value in values if isinstance(value, int)]
        new = EntryTable.from_entries(value for value in values if not isinstance(value, int))
        fields = np.concatenate([self._table.fields[rows], new.fields])
        names = [self._table.names[row] for row in rows] + new.names
        order = np.argsort(fields["offset"], kind="stable")
        return EntryTable([names[row] for row in order.tolist()], fields[order])
