"""Files of other formats that users have: what they are, and how a store is made of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

__all__ = ["format_of", "remedy"]

_SIGNATURES: Final = {
    b"\x89HDF\r\n\x1a\n": "HDF5",
    b"\x93NUMPY": "NumPy",
    b"PK\x03\x04": "Zip",
}

_TO_COPY: Final = ("HDF5", "NumPy")


def format_of(path: object) -> str | None:
    """Return the format of a file that can be copied from: "HDF5", as netCDF-4 is, or "NumPy".

    None is for all other files, for what is no path of a file, and for what cannot be read.

    Examples
    --------
    >>> format_of("https://example.org/data.h5") is None
    True
    """
    found = _signed(path)
    return found if found in _TO_COPY else None


def remedy(path: str) -> str:
    """Return what to say of a file where the folder of a store should be."""
    found = _signed(path)
    if found in _TO_COPY:
        name = Path(path).name
        copied = f"tessarr.copy_to({name!r}, {Path(name).stem + '.zarr'!r})"
        return f", which is a file of {found}: {copied} makes a store of it, as 'tessarr copy' does"
    if found == "Zip" and path.endswith(".npz"):
        return (
            ", which is a file of NumPy with several arrays: tessarr.save('new.zarr', "
            f"**numpy.load({Path(path).name!r})) makes a store of them"
        )
    if found == "Zip":
        return f", which is a Zip file: open it as {'zip://' + path!r}, or name it .zip"
    if path.lower().endswith((".sqlite", ".sqlite3", ".db")):
        return ", which is a file, but no SQLite database"
    return ", which is a file: a store is a folder"


def _signed(path: object) -> str | None:
    if not isinstance(path, str | os.PathLike) or "://" in str(path):
        return None
    try:
        file = Path(path)
        if not file.is_file():
            return None
        with file.open("rb") as opened:
            start = opened.read(max(map(len, _SIGNATURES)))
    except (OSError, ValueError):  # not to be read, or no name of a file
        return None
    return next((name for sign, name in _SIGNATURES.items() if start.startswith(sign)), None)
