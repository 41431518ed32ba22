"""URLs of arrays: a store of keys, then formats and views: ``file:///a|zarr3:b|cast:int32``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tessarr.errors import ArgumentError
from tessarr.tensorstore.kvstore.url import split_pipeline

if TYPE_CHECKING:
    from collections.abc import Callable

    from tessarr.types import JSONObject

__all__ = ["spec_of_url"]


def spec_of_url(url: str) -> JSONObject:
    """Return the JSON of the spec that a URL means.

    Raises
    ------
    ArgumentError
        If it is malformed.

    Examples
    --------
    >>> spec_of_url("memory://a|zarr2:b")
    {'driver': 'zarr', 'kvstore': {'driver': 'memory', 'path': 'a'}, 'path': 'b'}
    """
    kvstore, rest = split_pipeline(url)
    found: JSONObject | None = None
    for part in rest:
        scheme, _, text = part.partition(":")
        if scheme in _FORMATS and found is None:
            found = {"driver": _FORMATS[scheme], "kvstore": kvstore}
            if text and scheme == "auto":
                raise ArgumentError(f"cannot read the URL {url!r}: no path follows 'auto:'")
            if text:
                found["path"] = _unquoted(url, text)
        elif scheme == "json" and found is None:
            found = {"driver": "json", "kvstore": kvstore, "json_pointer": _unquoted(url, text)}
        elif scheme in _VIEWS:
            base = found or {"driver": "auto", "kvstore": kvstore}
            found = _VIEWS[scheme](base, _unquoted(url, text))
        else:
            why = f"{scheme!r} does not follow an array" if found else f"{scheme!r} is no format"
            raise ArgumentError(f"cannot read the URL {url!r}: {why}")
    return found or {"driver": "auto", "kvstore": kvstore}


def _unquoted(url: str, text: str) -> str:
    from urllib.parse import unquote

    for mark, name in (("?", "a query"), ("#", "a fragment")):
        if mark in text:
            raise ArgumentError(f"cannot read the URL {url!r}: {name} is not supported")
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise ArgumentError(f"cannot read the URL {url!r}: it is not UTF-8") from None


def _cast(base: JSONObject, text: str) -> JSONObject:
    return {"driver": "cast", "base": base, "dtype": text}


_FORMATS: Final = {"zarr3": "zarr3", "zarr2": "zarr", "auto": "auto"}
_VIEWS: Final[dict[str, Callable[[JSONObject, str], Any]]] = {"cast": _cast}
