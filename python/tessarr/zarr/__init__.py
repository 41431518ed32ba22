"""Tessarr below and in place of zarr-python 3: `CodecPipeline`, `install`, and zarr's names.

``import tessarr.zarr as zarr`` gives a program zarr-python's interface with Tessarr's arrays,
groups and functions. All other names are zarr-python's own, which are imported on first access.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from tessarr.errors import UnsupportedError

if TYPE_CHECKING:
    from tessarr.zarr.dropin.array import Array
    from tessarr.zarr.dropin.group import Group
    from tessarr.zarr.dropin.install import Installation, install
    from tessarr.zarr.pipeline import CodecPipeline

__all__ = ["Array", "CodecPipeline", "Group", "Installation", "install"]

_OWN: Final = {
    "Array": "tessarr.zarr.dropin.array",
    "CodecPipeline": "tessarr.zarr.pipeline",
    "Group": "tessarr.zarr.dropin.group",
    "Installation": "tessarr.zarr.dropin.install",
    "install": "tessarr.zarr.dropin.install",
}
"""The modules of Tessarr's names."""

_OTHERS: Final = {
    "AsyncArray": "zarr.core.array",
    "AsyncGroup": "zarr.core.group",
    "config": "zarr.core.config",
}
"""The modules of zarr-python's names."""


def __getattr__(name: str) -> Any:
    value = globals()[name] = _import_name(name)  # the lookup of packages is slow
    return value


def _import_name(name: str) -> Any:
    if name.startswith("__") and name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "api":
        return importlib.import_module("tessarr.zarr.api")
    if name in _OWN:
        return getattr(importlib.import_module(_OWN[name]), name)
    zarr_python_version = _get_zarr_python_version()
    if name == "__version__":
        return zarr_python_version
    from tessarr.zarr.dropin.originals import import_zarr_python

    import_zarr_python("zarr.api.synchronous")  # the order in which zarr-python imports
    from tessarr.zarr.dropin.functions import FUNCTIONS

    if name in FUNCTIONS:
        return FUNCTIONS[name]
    if name in _OTHERS:
        return getattr(import_zarr_python(_OTHERS[name]), name)
    try:
        return import_zarr_python(f"zarr.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"zarr.{name}":
            raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _get_zarr_python_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("zarr")
    except PackageNotFoundError as error:
        raise UnsupportedError(
            "tessarr.zarr needs zarr-python 3 beside it: install tessarr[zarr]",
            kind="missing_package",
            extension="zarr",
        ) from error
