"""Settings of zarr-python that the drop-in follows."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr.codec.native import Zstd
from tessarr.options import current, options

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

__all__ = ["apply_zarr_settings"]

_SETTINGS: Final = {
    "default_zarr_format": ("zarr_format", 3),
    "array.write_empty_chunks": ("write_empty_chunks", False),
    "array.allow_unsafe_pickle_decode": ("allow_pickle", False),
}
"""The option of Tessarr and zarr-python's default for each setting in `zarr.config`."""


def apply_zarr_settings() -> AbstractContextManager[Any]:
    """Return a block with the options that correspond to `zarr.config`.

    A setting with zarr-python's default leaves Tessarr's option unchanged. The default compression
    is Zstandard and text has NumPy's ``StringDType`` in both formats, as in zarr-python.
    """
    from zarr.core.config import config

    changes: dict[str, Any] = {
        option: value
        for name, (option, default) in _SETTINGS.items()
        if (value := config.get(name, default)) != default
    }
    present = current()
    if present.compressor == "auto":
        changes["compressor"] = Zstd()
    if present.text == "auto" and hasattr(np.dtypes, "StringDType"):
        changes["text"] = "string"
    return options(**changes) if changes else nullcontext()
