"""Which package to install for what is not part of Tessarr: extensions, and URLs.

Codecs of numcodecs' registry are found as soon as their package is installed.
"""

from __future__ import annotations

from typing import Final

__all__ = ["for_scheme", "hint"]

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


def hint(name: str) -> str:
    """Return the end of a message that says what to install, where that is known.

    Examples
    --------
    >>> hint("flac"), hint("imagecodecs_jpegxl"), hint("unheard-of")
    (': pip install flac-numcodecs', ': pip install imagecodecs-numcodecs', '')
    """
    package = _PACKAGES.get(name)
    for prefix, offered in _PREFIXES.items():
        if name.startswith(prefix):
            package = offered
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


def for_scheme(scheme: str) -> str:
    """Return the end of a message that says what to install for URLs of a scheme.

    Examples
    --------
    >>> for_scheme("s3"), for_scheme("unheard-of")
    (': pip install fsspec s3fs', ': pip install fsspec')
    """
    package = _FILE_SYSTEMS.get(scheme)
    return f": pip install fsspec {package}" if package else ": pip install fsspec"
