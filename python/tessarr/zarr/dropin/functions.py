"""The functions of the drop-in: Tessarr's, with zarr-python's arguments, nodes and errors."""

from __future__ import annotations

import inspect
from functools import wraps
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Final

import tessarr
from tessarr.zarr.dropin.arguments import parse_config, translate_arguments, translate_value
from tessarr.zarr.dropin.array import set_config
from tessarr.zarr.dropin.defaults import FUNCTIONS_WITH_DEFAULTS
from tessarr.zarr.dropin.errors import raises_zarr_errors
from tessarr.zarr.dropin.group import adopt_node
from tessarr.zarr.dropin.originals import import_zarr_python
from tessarr.zarr.dropin.settings import apply_zarr_settings

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FUNCTIONS"]

_NAMES: Final = (
    "array",
    "consolidate_metadata",
    "copy",
    "copy_all",
    "copy_store",
    "create",
    "create_array",
    "create_group",
    "create_hierarchy",
    "empty",
    "empty_like",
    "from_array",
    "full",
    "full_like",
    "group",
    "load",
    "ones",
    "ones_like",
    "open",
    "open_array",
    "open_consolidated",
    "open_group",
    "open_like",
    "save",
    "save_array",
    "save_group",
    "tree",
    "zeros",
    "zeros_like",
)


def _adopt_function(name: str) -> Callable[..., Any]:
    public = getattr(tessarr, name)
    function: Any = FUNCTIONS_WITH_DEFAULTS.get(name, public)
    names = tuple(inspect.signature(public).parameters)

    @wraps(public)
    @raises_zarr_errors
    def call(*arguments: Any, **settings: Any) -> Any:
        if function is tessarr.create_array:
            settings.setdefault("zarr_format", 3)  # zarr-python ignores its default format here
        values = map(translate_value, arguments, chain(names, repeat("")))
        with apply_zarr_settings():
            config = parse_config(settings, _find_format(name, arguments, settings))
            result = function(*values, **translate_arguments(settings))
        if hasattr(result, "__next__"):  # create_hierarchy yields nodes
            return ((path, adopt_node(node)) for path, node in result)
        return set_config(adopt_node(result), config)

    call.__module__ = "tessarr.zarr"
    original = getattr(import_zarr_python("zarr.api.asynchronous"), name, None)
    if original is not None:
        call.__signature__ = inspect.signature(original)  # type: ignore[attr-defined]
    return call


def _find_format(name: str, arguments: tuple[Any, ...], settings: dict[str, Any]) -> int | None:
    """Return the format of a new array; None for the default."""
    form: int | None = settings.get("zarr_format") or settings.get("zarr_version")
    if form is None and name.endswith("_like") and name != "open_like":
        array = arguments[0] if arguments else settings.get("a")
        form = getattr(getattr(array, "metadata", None), "zarr_format", None)
    return form


FUNCTIONS: Final = {name: _adopt_function(name) for name in _NAMES}
"""The functions by name."""
