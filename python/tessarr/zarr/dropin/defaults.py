"""Functions of Tessarr with the defaults of zarr-python, where these differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import tessarr
from tessarr.array.like import fill_settings_like
from tessarr.errors import ArgumentError, NotFoundError, ReadOnlyError
from tessarr.format.user_warnings import warn_user
from tessarr.group import Group
from tessarr.options import current

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FUNCTIONS_WITH_DEFAULTS"]


_CREATE_MODES: Final = (None, "a", "r+", "w", "w-")
_POSITION_OF_DTYPE: Final = 2


def _create(shape: Any, *arguments: Any, **settings: Any) -> Any:
    """Create an array; its data type does not follow `data`, and the mode may replace nodes."""
    settings = _apply_mode(settings)
    if len(arguments) < _POSITION_OF_DTYPE and settings.get("dtype") is None:
        settings["dtype"] = "float64"
    return tessarr.create(shape, *arguments, **settings)


def _apply_mode(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings with ``overwrite`` in place of the mode."""
    mode, overwrite = settings.get("mode"), settings.get("overwrite", False)
    if mode == "r":
        raise ReadOnlyError("mode 'r' opens the store read-only: nothing can be created in it")
    if mode not in _CREATE_MODES:
        raise ArgumentError(f"mode {mode!r} is not one of r, r+, a, w, w-")
    others = {name: value for name, value in settings.items() if name != "mode"}
    return {**others, "overwrite": mode == "w" or (overwrite and mode != "w-")}


def _array(data: Any, **settings: Any) -> Any:
    return tessarr.array(data, **_apply_mode(settings))


def _full(shape: Any, fill_value: Any, **settings: Any) -> Any:
    return _create(shape, fill_value=fill_value, **settings)


def _zeros(shape: Any, **settings: Any) -> Any:
    return _full(shape, "auto", **settings)


def _ones(shape: Any, **settings: Any) -> Any:
    return _full(shape, 1, **settings)


def _empty(shape: Any, **settings: Any) -> Any:
    """Create an array whose elements are the fill value, by default 0."""
    return _create(shape, **settings)


def _open(store: Any = None, mode: Any = None, **settings: Any) -> Any:
    """Open a node; ``config`` applies to arrays only."""
    has_config = settings.get("config") is not None
    is_array = settings.get("shape") is not None or settings.get("data") is not None
    mode = mode or _default_mode(store)
    if has_config and not is_array and mode not in ("r", "r+"):
        # Without a shape, these modes would create a group.
        mode = _require_existing(store, mode, settings)
    node = tessarr.open(store, mode, **settings)
    if has_config and isinstance(node, Group):
        raise _config_error()
    return node


def _require_existing(store: Any, mode: str, settings: dict[str, Any]) -> str:
    if mode != "a":
        raise _config_error()
    location: dict[str, Any] = {name: settings.get(name) for name in ("path", "storage_options")}
    try:
        tessarr.open(store, "r", **location)
    except NotFoundError as error:
        raise _config_error() from error
    return "r+"


def _config_error() -> TypeError:
    return TypeError("config applies to arrays, but this call resolves to a group")


def _default_mode(store: Any) -> str:
    return "r" if getattr(store, "read_only", False) is True else "a"


def _open_like(a: Any, path: Any, **settings: Any) -> Any:
    """Open an array of any format, or create one like another in the default format."""
    settings["zarr_format"] = settings.get("zarr_format")
    settings["mode"] = settings.get("mode") or "a"
    if settings["mode"] in ("r", "r+", "a"):
        options = settings.get("storage_options")
        location: dict[str, Any] = {"path": path, "storage_options": options}
        store = settings.get("store")
        mode: Any = "r" if settings["mode"] == "r" else "r+"
        try:
            return tessarr.open_array(store, mode, zarr_format=settings["zarr_format"], **location)
        except NotFoundError as error:
            if settings["mode"] != "a" or error.node_kind is not None:
                raise
    settings["zarr_format"] = settings["zarr_format"] or current().zarr_format
    return tessarr.open_like(a, path, **_drop_codecs(a, settings))


def _full_like(a: Any, fill_value: Any = "keep", **settings: Any) -> Any:
    """Create an array with the codecs of another one, if it has the same format."""
    return _create(**fill_settings_like(a, fill_value, _drop_codecs(a, settings)))


def _zeros_like(a: Any, **settings: Any) -> Any:
    return _full_like(a, "auto", **settings)


def _ones_like(a: Any, **settings: Any) -> Any:
    return _full_like(a, 1, **settings)


def _drop_codecs(a: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings with default codecs if the format is not that of the other array."""
    form = settings.get("zarr_format")
    source = getattr(getattr(a, "metadata", None), "zarr_format", form)
    if form in (None, source):
        return settings
    return {"compressors": "auto", "filters": "auto", **settings}


def _save_array(store: Any, arr: Any, **settings: Any) -> None:
    """Save an array; by default and with mode "w", the function replaces an existing node."""
    replaces = settings.get("mode") in {None, "w"}
    tessarr.save_array(store, arr, **_apply_mode({"overwrite": replaces, **settings}))


def _consolidate_metadata(store: Any, *arguments: Any, **settings: Any) -> Any:
    """Consolidate metadata; in format 3, where these are no part of the specification, warn."""
    group = tessarr.consolidate_metadata(store, *arguments, **settings)
    if group.zarr_format == 3 and len(group):
        from zarr.errors import ZarrUserWarning

        warn_user(
            "Consolidated metadata is currently not part in the Zarr format 3 specification. "
            "Other implementations may not support it.",
            ZarrUserWarning,
        )
    return group


def _tree(*arguments: Any, **settings: Any) -> Any:
    """Return the tree view of a group; the method `Group.tree` replaces this function."""
    from zarr.errors import ZarrDeprecationWarning

    warn_user("zarr.tree is deprecated: call Group.tree instead.", ZarrDeprecationWarning)
    return tessarr.tree(*arguments, **settings)


FUNCTIONS_WITH_DEFAULTS: Final[dict[str, Callable[..., Any]]] = {
    "array": _array,
    "consolidate_metadata": _consolidate_metadata,
    "create": _create,
    "empty": _empty,
    "empty_like": _full_like,  # elements are the fill value of the other array
    "full": _full,
    "full_like": _full_like,
    "ones": _ones,
    "ones_like": _ones_like,
    "open": _open,
    "open_like": _open_like,
    "save_array": _save_array,
    "tree": _tree,
    "zeros": _zeros,
    "zeros_like": _zeros_like,
}
