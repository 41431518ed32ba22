"""Tessarr in place of zarr-python, for every program that imports ``zarr``."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Final, Self

from tessarr.errors import UnsupportedError
from tessarr.zarr.dropin.array import Array
from tessarr.zarr.dropin.functions import FUNCTIONS
from tessarr.zarr.dropin.group import Group
from tessarr.zarr.dropin.originals import import_zarr_python

__all__ = ["REPLACEMENTS", "Installation", "install"]

REPLACEMENTS: Final[dict[str, dict[str, Any]]] = {
    "zarr": {**FUNCTIONS, "Array": Array, "Group": Group},
    "zarr.api.synchronous": {**FUNCTIONS, "Array": Array, "Group": Group},
    "zarr.core.array": {"Array": Array},
    "zarr.core.group": {"Array": Array, "Group": Group},
    "zarr.core.sync_group": {"Group": Group},
}
"""The new objects in zarr-python, by module and name."""

_replaced: Final[dict[tuple[str, str], Any]] = {}
"""The replaced objects of zarr-python, by module and name."""
_installations: Final[set[Installation]] = set()
"""The present installations; the replacement ends with the last one."""


class Installation:
    """What `install` did; a context manager that ends it.

    Examples
    --------
    >>> import tessarr.zarr  # doctest: +SKIP
    >>> with tessarr.zarr.install():  # doctest: +SKIP
    ...     import zarr
    ...     zarr.open("data.zarr")
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.remove()

    def remove(self) -> None:
        """Put zarr-python back in its place, unless another installation is present."""
        _installations.discard(self)
        if _installations:
            return
        for (module, name), original in _replaced.items():
            setattr(import_zarr_python(module), name, original)
        _replaced.clear()


def install() -> Installation:
    """Put Tessarr in place of zarr-python 3 in this process.

    ``import zarr`` then gives a module with Tessarr's arrays, groups and functions; abstract
    classes, buffers, settings and stores remain those of zarr-python. Programs that imported names
    of ``zarr`` before keep the old ones.

    Returns
    -------
    Installation
        A context manager that ends it; so does its method `remove`. Of several installations, the
        last to end puts zarr-python back.

    Raises
    ------
    UnsupportedError
        If zarr-python 3 is missing.
    """
    try:
        modules = {module: import_zarr_python(module) for module in REPLACEMENTS}
    except ImportError as error:
        raise UnsupportedError(
            f"tessarr.zarr.install needs zarr-python 3: {error}; install tessarr[zarr]",
            kind="missing_package",
            extension="zarr",
        ) from error
    for module, objects in REPLACEMENTS.items():
        for name, value in objects.items():
            if hasattr(modules[module], name) and (module, name) not in _replaced:
                _replaced[module, name] = getattr(modules[module], name)
                setattr(modules[module], name, value)
    installation = Installation()
    _installations.add(installation)
    return installation
