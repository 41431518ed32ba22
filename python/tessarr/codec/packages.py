"""Import of packages that single codecs need."""

from __future__ import annotations

import importlib
from typing import Any

from tessarr.errors import UnsupportedError

__all__ = ["import_package"]


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
