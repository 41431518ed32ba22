"""An open value of a Zip archive."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from tessarr.errors import DataError, UnsupportedError
from tessarr.store.zip import format as zip_format

if TYPE_CHECKING:
    from collections.abc import Generator

    from tessarr.store.zip.file import File
    from tessarr.store.zip.format import Entry

__all__ = ["OpenedValue"]


class OpenedValue:
    """An open value; later changes of the key do not affect it.

    Parameters
    ----------
    file, entry
        The file and the entry of the value.
    label
        The name of the value in error messages.

    Attributes
    ----------
    version : bytes or None
        Bytes that identify the value among all values of archives that this process opens.
    """

    def __init__(self, file: File, entry: Entry, label: str, key: str) -> None:
        self.size = entry.size
        self.version: bytes | None = None
        self._file = file
        self._entry = entry
        self._label = label
        self._key = key
        self._start: int | None = None
        self._data: bytes | None = None

    @property
    def state(self) -> bytes:
        """Bytes that change with the value, unless its checksum and position stay the same."""
        return b"%x,%x,%x" % (self._entry.crc, self._entry.offset, self._entry.packed)

    def read_all(self) -> bytes:
        """Return the whole value, after a check of its checksum."""
        entry = self._entry
        with self._translate_errors():
            head = zip_format.LOCAL.size + len(entry.name)
            count = min(entry.limit - entry.offset, head + entry.packed + 64)
            raw = self._file.read(entry.offset, count)
            start = zip_format.find_data(entry, raw) - entry.offset
            packed = raw[start : start + entry.packed]
            if len(packed) < entry.packed:
                packed = self._file.read(entry.offset + start, entry.packed)
            return zip_format.decompress(packed, entry)

    def read(self, offset: int, count: int) -> bytes:
        """Return `count` bytes from `offset`; decompress a compressed value as a whole first."""
        if self._entry.method != zip_format.STORED or count == self.size:
            if self._data is None:
                self._data = self.read_all()
            return self._data[offset : offset + count]
        with self._translate_errors():
            if self._start is None:
                head = zip_format.LOCAL.size + len(self._entry.name)
                raw = self._file.read(self._entry.offset, head)
                self._start = zip_format.find_data(self._entry, raw)
            return self._file.read(self._start + offset, count)

    @contextmanager
    def _translate_errors(self) -> Generator[None]:
        try:
            yield
        except (DataError, UnsupportedError) as error:
            message = f"cannot read {self._label}: {error}"
            raise type(error)(message, kind=error.kind, key=self._key) from error
