"""Detection of files of other formats, and hints on how to copy them to a store."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO, Final

__all__ = ["detect_format", "is_zip", "suggest_remedy"]

_HDF5: Final = b"\x89HDF\r\n\x1a\n"

_MIN_USER_BLOCK: Final = 512
_MAX_USER_BLOCKS: Final = 16
"""The sizes of a user block before HDF5 data: 512 bytes times a power of two, up to 16 MiB."""

_SIGNATURES: Final = {
    _HDF5: "HDF5",
    b"\x93NUMPY": "NumPy",
    b"CDF\x01": "netCDF-3",
    b"CDF\x02": "netCDF-3",
    b"CDF\x05": "netCDF-3",
    b"PK\x03\x04": "Zip",
}

_COPIED_FORMATS: Final = ("HDF5", "NumPy", "netCDF-3")

_EMPTY_ZIP: Final = b"PK\x05\x06"


def detect_format(path: object) -> str | None:
    """Return the format of a file that `copy_to` reads: "HDF5", "netCDF-3" or "NumPy".

    netCDF-4 files are HDF5 files. The result is None for all other files, for values that are not
    file paths, and for unreadable files.

    Examples
    --------
    >>> detect_format("https://example.org/data.h5") is None
    True
    """
    name = _detect_signature(path)
    return name if name in _COPIED_FORMATS else None


def is_zip(path: str) -> bool:
    """Return whether a file is a Zip file by its content, except NumPy's ``.npz``.

    Examples
    --------
    >>> is_zip("no/such/file.zarr")
    False
    """
    path = os.path.expanduser(path)  # noqa: PTH111 (pathlib is slow)
    if not os.path.isfile(path) or path.lower().endswith(".npz"):  # noqa: PTH113 (pathlib is slow)
        return False
    try:
        with Path(path).open("rb") as opened:
            start = opened.read(len(_EMPTY_ZIP))
    except OSError:
        return False
    return start == _EMPTY_ZIP or _SIGNATURES.get(start) == "Zip"


def suggest_remedy(path: str) -> str:
    """Return a hint for a file at a path where a store needs a folder."""
    format_name = _detect_signature(path)
    if format_name in _COPIED_FORMATS:
        name = Path(path).name
        copied = f"tessarr.copy_to({name!r}, {Path(name).stem + '.zarr'!r})"
        return (
            f", which is a file of {format_name}: {copied} or 'tessarr copy' converts it to a store"
        )
    if format_name == "Zip" and path.endswith(".npz"):
        return (
            ", which is a file of NumPy with several arrays: convert it to a store by "
            f"tessarr.save('new.zarr', **numpy.load({Path(path).name!r}))"
        )
    if format_name == "Zip":
        return f", which is a Zip file: open it by its path, or as {'zip://' + path!r}"
    if path.lower().endswith((".sqlite", ".sqlite3", ".db")):
        return ", which is a file, but not an SQLite database"
    return ", which is a file: a store is a folder"


def _detect_signature(path: object) -> str | None:
    if not isinstance(path, str | os.PathLike) or "://" in str(path):
        return None
    try:
        file = Path(path).expanduser()
        if not file.is_file():
            return None
        with file.open("rb") as opened:
            start = opened.read(max(map(len, _SIGNATURES)))
            names = (name for sign, name in _SIGNATURES.items() if start.startswith(sign))
            return next(names, None) or ("HDF5" if _is_hdf5_after_user_block(opened) else None)
    except (OSError, ValueError, RuntimeError):  # unreadable, or not a file name
        return None


def _is_hdf5_after_user_block(file: BinaryIO) -> bool:
    """Return whether HDF5 data starts after a user block, as in MATLAB files."""
    for power in range(_MAX_USER_BLOCKS):
        file.seek(_MIN_USER_BLOCK << power)
        start = file.read(len(_HDF5))
        if len(start) < len(_HDF5):
            return False
        if start == _HDF5:
            return True
    return False
