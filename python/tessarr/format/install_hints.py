"""Install hints for packages that provide extensions and file systems.

Codecs of numcodecs' registry work as soon as their package is installed.
"""

from __future__ import annotations

from typing import Final

__all__ = ["extension_hint", "scheme_hint"]

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
