"""Zip files as the standard library has them."""

from __future__ import annotations

import io
import zipfile
from typing import Any

from tessarr.stores import ZipStore

METHODS = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]


def contents(path: Any) -> dict[str, bytes]:
    """What the standard library finds in a file, which it takes for sound."""
    with zipfile.ZipFile(path) as file:
        assert file.testzip() is None
        names = file.namelist()
        assert len(set(names)) == len(names)
        return {name: file.read(name) for name in names}


def zipped(values: dict[str, bytes], *, method: int = zipfile.ZIP_STORED) -> bytes:
    """A file that the standard library has written."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as file:
        for name, value in values.items():
            file.writestr(name, value)
    return buffer.getvalue()


def opened(data: bytes) -> ZipStore:
    return ZipStore(io.BytesIO(data), mode="r")
