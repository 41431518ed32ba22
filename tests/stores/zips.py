"""Zip files that the standard library reads and writes."""

from __future__ import annotations

import io
import zipfile
from typing import Any

from tessarr.stores import ZipStore

METHODS = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]


def read_zip(path: Any) -> dict[str, bytes]:
    """Return the members of a file, after the standard library checks it."""
    with zipfile.ZipFile(path) as file:
        assert file.testzip() is None
        names = file.namelist()
        assert len(set(names)) == len(names)
        return {name: file.read(name) for name in names}


def write_zip(values: dict[str, bytes], *, method: int = zipfile.ZIP_STORED) -> bytes:
    """Return the bytes of a file that the standard library writes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as file:
        for name, value in values.items():
            file.writestr(name, value)
    return buffer.getvalue()


def open_zip(data: bytes) -> ZipStore:
    """Return a read-only store of the bytes of a file."""
    return ZipStore(io.BytesIO(data), mode="r")
