"""The functions of the drop-in under the names of ``zarr.api``.

`asynchronous` is the module of zarr-python.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

__all__ = ["asynchronous", "synchronous"]  # pyright: ignore[reportUnsupportedDunderAll]

_MODULES: Final = {
    "asynchronous": "zarr.api.asynchronous",
    "synchronous": "tessarr.zarr.api.synchronous",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(_MODULES[name])
