"""URLs of arrays, such as ``file:///a|zarr3:b|cast:int32``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tessarr._safe_repr import safe_repr
from tessarr.errors import ArgumentError
from tessarr.tensorstore.kvstore.kvstore_url import (
    append_path,
    decode_part,
    split_pipeline,
    unquote_path,
)

if TYPE_CHECKING:
    from tessarr.types import JSONObject

__all__ = ["spec_of_url"]


def spec_of_url(url: str) -> JSONObject:
    """Return the spec of a URL as JSON.

    Raises
    ------
    ArgumentError
        If the URL is malformed.

    Examples
    --------
    >>> spec_of_url("memory://a|zarr2:b")
    {'driver': 'zarr', 'kvstore': {'driver': 'memory', 'path': 'a/b'}}
    """
    kvstore, rest = split_pipeline(url)
    json: JSONObject | None = None
    try:
        for part in rest:
            json = _after(part, json, kvstore)
    except ArgumentError as error:
        raise ArgumentError(f"cannot read the URL {safe_repr(url)}: {error}") from None
    return json or {"driver": "auto", "kvstore": kvstore}


def _after(part: str, base: JSONObject | None, kvstore: JSONObject) -> JSONObject:
    """Return the JSON after one more part of the URL; `found` is the JSON of earlier parts."""
    scheme = part.partition(":")[0]
    text = unquote_path(decode_part(part).removeprefix("//"))
    if scheme == "cast":
        base = base or {"driver": "auto", "kvstore": kvstore}
        return {"driver": "cast", "base": base, "dtype": text}
    if base is not None:
        raise ArgumentError(f"{safe_repr(scheme)} does not follow an array")
    if scheme == "json":
        return {"driver": "json", "kvstore": kvstore, "json_pointer": text}
    if scheme not in _FORMATS:
        raise ArgumentError(f"{safe_repr(scheme)} is not a format")
    if text and scheme == "auto":
        raise ArgumentError("no path follows 'auto:'")
    if text:
        kvstore = append_path(kvstore, text)
    return {"driver": _FORMATS[scheme], "kvstore": kvstore}


_FORMATS: Final = {"zarr3": "zarr3", "zarr2": "zarr", "auto": "auto"}
