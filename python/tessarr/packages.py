"""Which package to install for an extension that is not part of Tessarr.

Codecs of numcodecs' registry are found as soon as their package is installed.
"""

from __future__ import annotations

from typing import Final

__all__ = ["hint"]

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
