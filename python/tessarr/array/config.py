"""Runtime settings of an array, which are not stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from tessarr.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

__all__ = [
    "RUNTIME_SETTINGS",
    "ArrayConfig",
    "check_keywords",
    "config_settings",
    "runtime_settings",
]

RUNTIME_SETTINGS: Final = (
    "write_empty_chunks",
    "missing",
    "synchronizer",
    "cache_metadata",
    "read_only",
)
"""The names of runtime settings."""

_MISSING: Final = ("fill", "refuse_chunks", "refuse")

_FOREIGN_NAMES: Final = {
    "dims": "dimension_names",
    "dim_names": "dimension_names",
    "fill": "fill_value",
    "level": "compression_opts",
    "format": "zarr_format",
}
"""Names that other libraries use for a setting."""

_RUNTIME_HINTS: Final = frozenset(
    ["order", "sharding_coalesce_max_bytes", "sharding_coalesce_max_gap_bytes"]
)
"""Members of zarr-python's ``config`` that Tessarr ignores: the engine controls these aspects."""


@dataclass(frozen=True, slots=True)
class ArrayConfig:
    """Runtime settings of an array.

    Parameters
    ----------
    write_empty_chunks
        Whether chunks that hold only the fill value are stored.
    read_missing_chunks
        Whether chunks that are not stored read as the fill value. If False, reading such a chunk
        raises `tessarr.errors.NotFoundError`. Without `write_empty_chunks`, that includes chunks
        that hold only the fill value.
    order
        The memory order of results: always C.
    """

    write_empty_chunks: bool = False
    read_missing_chunks: bool = True
    order: Literal["C"] = "C"


def runtime_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the runtime settings, as keywords of `tessarr.array.bind_array`.

    Examples
    --------
    >>> runtime_settings({"chunks": 10, "config": {"write_empty_chunks": True}})
    {'write_empty_chunks': True}
    """
    settings_given = {name: settings[name] for name in RUNTIME_SETTINGS if name in settings}
    if settings_given.get("synchronizer") is not None:
        from tessarr.node.synchronizer import check_synchronizer

        check_synchronizer(settings_given["synchronizer"])
    if settings.get("cache_attrs", True) is False:
        settings_given["cache_metadata"] = False
    result = {**config_settings(settings.get("config")), **settings_given}
    if result.get("missing", "fill") not in _MISSING:
        raise ArgumentError(f"missing {result['missing']!r} is not one of {', '.join(_MISSING)}")
    return result


def check_keywords(settings: Iterable[str], function: str, known: Collection[str]) -> None:
    """Raise a TypeError if a keyword is unknown.

    Examples
    --------
    >>> check_keywords({"compresion": None}, "zeros", ("chunks", "compression"))
    Traceback (most recent call last):
    TypeError: zeros() got an unexpected keyword argument 'compresion'; did you mean 'compression'?
    """
    for name in settings:
        if name not in known:
            from tessarr.format.suggestions import did_you_mean

            other = _FOREIGN_NAMES.get(name)
            hint = did_you_mean(other if other in known else name, known)
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{hint}")


def config_settings(config: Any) -> dict[str, Any]:
    """Return the runtime settings in a ``config`` of Tessarr or zarr-python.

    Raises
    ------
    TypeError
        If `config` is not a mapping, or has an unknown member.
    """
    if config is None:
        return {}
    if isinstance(config, ArrayConfig):
        config = asdict(config)
    if hasattr(config, "to_dict"):
        config = config.to_dict()
    if not isinstance(config, Mapping):
        raise TypeError(f"config is a mapping, not {config!r}")
    result: dict[str, Any] = {}
    for name, value in config.items():
        if name == "write_empty_chunks":
            result[name] = value
        elif name == "read_missing_chunks":
            result["missing"] = "fill" if value else "refuse_chunks"
        elif name not in _RUNTIME_HINTS:
            raise TypeError(f"config has no member {name!r}")
    return result
