"""URLs of key-value stores, and pipelines of them: ``file:///a.zip|zip:inner``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from string import hexdigits
from typing import Any, Final

from tessarr.errors import ArgumentError

__all__ = ["parse_url", "split_pipeline"]


def parse_url(url: str) -> dict[str, Any]:
    """Return the JSON of the key-value store that a URL means.

    Raises
    ------
    ArgumentError
        If it is malformed, or means something else.

    Examples
    --------
    >>> parse_url("file:///a%20b.zip|zip:x")
    {'driver': 'zip', 'base': {'driver': 'file', 'path': '/a b.zip'}, 'path': 'x'}
    """
    found, rest = split_pipeline(url)
    if rest:
        scheme = rest[0].partition(":")[0]
        raise _wrong(
            url, f'unsupported URL scheme "{scheme}" in "{rest[0]}": it is no store of keys'
        )
    return found


def split_pipeline(url: str) -> tuple[dict[str, Any], list[str]]:
    """Return the JSON of the key-value store that a pipeline begins with, and what follows.

    Raises
    ------
    ArgumentError
        If it begins with something else.

    Examples
    --------
    >>> split_pipeline("memory://a|zarr3:b")
    ({'driver': 'memory', 'path': 'a'}, ['zarr3:b'])
    """
    first, *rest = url.split("|")
    scheme, colon, _ = first.partition(":")
    if not colon:
        raise _wrong(url, f'URL scheme must be specified in "{first}"')
    if scheme not in _FIRST:
        raise _wrong(url, f'unsupported URL scheme "{scheme}" in "{first}"')
    if not first.startswith(f"{scheme}://"):
        raise _wrong(url, f'Invalid kvstore URL component "{first}": "{scheme}://" is missing')
    try:
        found = _FIRST[scheme](first)
    except ArgumentError as error:
        raise _wrong(url, f'Invalid kvstore URL component "{first}": {error}') from None
    while rest and rest[0].partition(":")[0] in _FURTHER:
        scheme, _, path = rest.pop(0).partition(":")
        found = {"driver": scheme, "base": found}
        if path:
            found["path"] = _unquoted(path)
    return found, rest


def _wrong(url: str, why: str) -> ArgumentError:
    return ArgumentError(f'Parsing spec from url: "{url}": {why}')


def _unquoted(path: str) -> str:
    if "%" not in path:
        return path
    from urllib.parse import unquote

    if not all(_HEX.issuperset(part[:2]) and part[1:2] for part in path.split("%")[1:]):
        raise ArgumentError(f'Invalid percent-encoding: "{path}"')
    try:
        return unquote(path, errors="strict")
    except UnicodeDecodeError:
        raise ArgumentError("it is not UTF-8") from None


def _plain(url: str) -> str:
    """Return what stands behind the scheme, where there is no query and no fragment."""
    for mark, name in (("?", "Query string"), ("#", "Fragment identifier")):
        if mark in url:
            raise ArgumentError(f"{name} not supported")
    return url.partition("://")[2]


def _at(driver: str, path: str, **members: Any) -> dict[str, Any]:
    return {"driver": driver, **members, **({"path": path} if path else {})}


def _file(url: str) -> dict[str, Any]:
    host, slash, path = _plain(url).partition("/")
    if host not in {"", "localhost"}:
        raise ArgumentError(f'file: URIs do not support authority: "{host}"')
    if not slash:
        raise ArgumentError(f'file: URIs do not support relative paths: "{path}"')
    return _at("file", _unquoted(slash + path))


def _memory(url: str) -> dict[str, Any]:
    return _at("memory", _unquoted(_plain(url)))


def _bucket(driver: str) -> Callable[[str], dict[str, Any]]:
    def parse(url: str) -> dict[str, Any]:
        bucket, _, path = _plain(url).partition("/")
        return _at(driver, _unquoted(path), bucket=bucket)

    return parse


def _web(url: str) -> dict[str, Any]:
    if "#" in url:
        raise ArgumentError("Fragment identifier not supported")
    whole, mark, query = url.partition("?")
    scheme, _, rest = whole.partition("://")
    host, slash, path = rest.partition("/")
    return _at("http", _unquoted(slash + path), base_url=f"{scheme}://{host}{mark}{query}")


_FIRST: Final[Mapping[str, Callable[[str], dict[str, Any]]]] = {
    "file": _file,
    "memory": _memory,
    "s3": _bucket("s3"),
    "gs": _bucket("gcs"),
    "http": _web,
    "https": _web,
}
_FURTHER: Final = frozenset({"zip"})
_HEX: Final = frozenset(hexdigits)
