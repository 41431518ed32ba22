"""Hints in messages: packages to install, and names like a misspelt one.

Codecs of numcodecs' registry work as soon as their package is installed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from tessarr.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["did_you_mean", "extension_hint", "import_package", "scheme_hint"]

_PACKAGES: Final = {
    "flac": "flac-numcodecs",
    "wavpack": "wavpack-numcodecs",
    "grib": "kerchunk",
    "fill_hdf_strings": "kerchunk",
    "FITSAscii": "kerchunk",
    "FITSVarBintable": "kerchunk",
    "record_member": "kerchunk",
}
_PREFIXES: Final = {"imagecodecs_": "imagecodecs-numcodecs"}


def extension_hint(name: str) -> str:
    """Return the end of a message with the package to install for an extension, or "".

    Examples
    --------
    >>> extension_hint("flac"), extension_hint("imagecodecs_jpegxl"), extension_hint("unheard-of")
    (': pip install flac-numcodecs', ': pip install imagecodecs-numcodecs', '')
    """
    package = _PACKAGES.get(name)
    for prefix, distribution in _PREFIXES.items():
        if name.startswith(prefix):
            package = distribution
    return f": pip install {package}" if package else ""


_FILE_SYSTEMS: Final = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "abfs": "adlfs",
    "abfss": "adlfs",
    "az": "adlfs",
    "http": "aiohttp",
    "https": "aiohttp",
    "sftp": "paramiko",
    "ssh": "paramiko",
    "smb": "smbprotocol",
    "hf": "huggingface_hub",
    "hdfs": "pyarrow",
    "gdrive": "gdrive_fsspec",
    "oss": "ossfs",
    "webdav": "webdav4[fsspec]",
}


def scheme_hint(scheme: str) -> str:
    """Return the end of a message with the packages to install for a URL scheme.

    Examples
    --------
    >>> scheme_hint("s3"), scheme_hint("unheard-of")
    (': pip install fsspec s3fs', ': pip install fsspec')
    """
    package = _FILE_SYSTEMS.get(scheme)
    return f": pip install fsspec {package}" if package else ": pip install fsspec"


def import_package(package: str, *, codec: str) -> Any:
    """Import a package that a codec needs.

    Raises
    ------
    UnsupportedError
        ``missing_package``, if it is not installed.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise UnsupportedError(
            f"codec {codec!r} needs the package {package}: pip install 'tessarr[codecs]'",
            kind="missing_package",
            extension=codec,
            codec=codec,
        ) from error


def did_you_mean(word: object, names: Iterable[str], *, count: int = 1, prefix: str = "") -> str:
    """Return the end of a message that suggests names like a misspelt one, or "".

    Parameters
    ----------
    word : object
        The misspelt name; a value that is not text has no suggestions.
    names : iterable of str
        The known names. Upper and lower case do not matter.
    count : int, default 1
        The maximum number of suggestions.
    prefix : str, default ""
        The text before each suggested name.

    Examples
    --------
    >>> did_you_mean("zstdd", ["zlib", "zstd"]), did_you_mean("unheard-of", ["zstd"])
    ("; did you mean 'zstd'?", '')
    >>> did_you_mean("tmp", ["temp", "Tmp"], count=2, prefix="data.zarr/")
    "; did you mean 'data.zarr/Tmp' or 'data.zarr/temp'?"
    """
    from difflib import get_close_matches

    if not isinstance(word, str):
        return ""
    known: dict[str, list[str]] = {}
    for name in names:
        known.setdefault(name.lower(), []).append(name)
    matches = get_close_matches(word.lower()[:60], known, count)
    suggested = [name for lower in matches for name in known[lower]][:count]
    return (
        f"; did you mean {' or '.join(repr(prefix + name) for name in suggested)}?"
        if suggested
        else ""
    )
