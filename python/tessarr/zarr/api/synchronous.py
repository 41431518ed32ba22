"""The functions of the drop-in under the names of ``zarr.api.synchronous``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tessarr.zarr.dropin.functions import FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = sorted(FUNCTIONS.keys() - {"create_group"})  # noqa: PLE0605 # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    try:
        return FUNCTIONS[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


def __dir__() -> Iterable[str]:
    return __all__
