"""URLs of key-value stores, and pipelines of them: ``file:///a.zip|zip:inner``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from string import hexdigits
from typing import Any, Final

from tessarr.errors import ArgumentError
from tessarr.tensorstore.json.parse import as_json

__all__ = [
    "append_path",
    "as_folder",
    "decode_part",
    "parse_url",
    "split_last_name",
    "split_pipeline",
    "unquote_path",
]


def parse_url(url: str) -> dict[str, Any]:
    """Return the JSON of the key-value store at `url`.

    Raises
    ------
    ArgumentError
        If `url` is malformed, or is no URL of a key-value store.

    Examples
    --------
    >>> parse_url("file:///a%20b.zip|zip:x")
    {'driver': 'zip', 'base': {'driver': 'file', 'path': '/a b.zip'}, 'path': 'x'}
    """
    result, rest = split_pipeline(url)
    if rest:
        scheme = rest[0].partition(":")[0]
        what = f"unsupported URL scheme {as_json(scheme)} in {as_json(rest[0])}"
        raise _url_error(url, f"{what}: it is not a key-value store")
    return result


def split_pipeline(url: str) -> tuple[dict[str, Any], list[str]]:
    """Return the JSON of the key-value store that starts a pipeline, and the remaining parts.

    Raises
    ------
    ArgumentError
        If the pipeline does not start with a key-value store.

    Examples
    --------
    >>> split_pipeline("memory://a|zarr3:b")
    ({'driver': 'memory', 'path': 'a'}, ['zarr3:b'])
    """
    first, *rest = url.split("|")
    scheme, colon, _ = first.partition(":")
    if not colon:
        raise _url_error(url, f"URL scheme must be specified in {as_json(first)}")
    if scheme not in _FIRST:
        raise _url_error(url, f"unsupported URL scheme {as_json(scheme)} in {as_json(first)}")
    if not first.startswith(f"{scheme}://"):
        raise _url_error(
            url, f'Invalid kvstore URL component {as_json(first)}: "{scheme}://" is missing'
        )
    part = first
    try:
        result = _FIRST[scheme](first)
        while rest and rest[0].partition(":")[0] in _FURTHER:
            part = rest.pop(0)
            result = _further(part, result)
    except ArgumentError as error:
        raise _url_error(url, f"Invalid kvstore URL component {as_json(part)}: {error}") from None
    return result, rest


def decode_part(part: str) -> str:
    """Return the text after the scheme of a part.

    Raises
    ------
    ArgumentError
        If the part has a query or a fragment.

    Examples
    --------
    >>> decode_part("zarr3:a"), decode_part("zarr3:a?")
    ('a', 'a')
    """
    rest, _, fragment = part.partition("#")
    rest, _, query = rest.partition("?")
    for result, name in ((query, "Query string"), (fragment, "Fragment identifier")):
        if result:
            raise ArgumentError(f"{name} not supported")
    return rest.partition(":")[2]


def unquote_path(path: str) -> str:
    """Return the decoded path of a URL.

    Raises
    ------
    ArgumentError
        If the percent-encoding of `path` is invalid.
    """
    if "%" not in path:
        return path
    from urllib.parse import unquote

    if not all(_HEX.issuperset(part[:2]) and part[1:2] for part in path.split("%")[1:]):
        raise ArgumentError(f"Invalid percent-encoding: {as_json(path)}")
    try:
        return unquote(path, errors="strict")
    except UnicodeDecodeError:
        raise ArgumentError("it is not UTF-8") from None


def split_last_name(path: str) -> tuple[str, str]:
    """Return the part of a web path that stays encoded, and the decoded key after it.

    To decode a reserved character would change the meaning of the URL.

    >>> split_last_name("/a%20b/c"), split_last_name("/a%2Fb/c%20d")
    (('', '/a b/c'), ('/a%2Fb', '/c d'))

    Raises
    ------
    ArgumentError
        If the percent-encoding of `path` is invalid.
    """
    decoded = unquote_path(path)
    encoded = _RESERVED.match(path)
    if encoded is None:
        return "", decoded
    return encoded[0], unquote_path(path[encoded.end() :])


_RESERVED: Final = re.compile("(?i:.*%(?:2[1346-9ABCF]|3[ABDF]|40|5[BD]))[^/]*", re.DOTALL)


def as_folder(driver: str, path: str) -> str:
    """Return a path with a slash at its end.

    A slash alone is the root folder for ``file``; for other drivers it is the empty path, as in
    TensorStore.
    """
    if path == "/" and driver != "file":
        return ""
    return path if not path or path.endswith("/") else f"{path}/"


def append_path(kvstore: dict[str, Any], path: str) -> dict[str, Any]:
    """Return the JSON of a key-value store with `path` appended to its folder."""
    driver = kvstore["driver"]
    whole = as_folder(driver, kvstore.get("path", "")) + path
    return {**kvstore, "path": _clean_path(whole) if driver == "file" else whole}


def _url_error(url: str, why: str) -> ArgumentError:
    return ArgumentError(f"Parsing spec from url: {as_json(url)}: {why}")


def _place(url: str) -> str:
    return decode_part(url).removeprefix("//")


def _at(driver: str, path: str, **members: Any) -> dict[str, Any]:
    return {"driver": driver, **members, **({"path": path} if path else {})}


def _file(url: str) -> dict[str, Any]:
    host, slash, path = _place(url).partition("/")
    if host not in {"", "localhost"}:
        raise ArgumentError(f"file: URIs do not support authority: {as_json(host)}")
    if not slash:
        raise ArgumentError(f"file: URIs do not support relative paths: {as_json(path)}")
    return _at("file", _clean_path(unquote_path(path)))


def _clean_path(path: str) -> str:
    """Return a file path without empty names, "." and ".."."""
    from posixpath import normpath

    whole = normpath(f"/{path.lstrip('/')}")
    ends = f"/{path}".endswith(("/", "/.", "/..")) and whole != "/"
    return f"{whole}/" if ends else whole


def _memory(url: str) -> dict[str, Any]:
    return _at("memory", unquote_path(_place(url)))


def _bucket(driver: str) -> Callable[[str], dict[str, Any]]:
    def parse(url: str) -> dict[str, Any]:
        bucket, _, path = _place(url).partition("/")
        return _at(driver, unquote_path(path), bucket=bucket)

    return parse


def _web(url: str) -> dict[str, Any]:
    url, _, fragment = url.partition("#")
    if fragment:
        raise ArgumentError("Fragment identifier not supported")
    whole, _, query = url.partition("?")
    scheme, _, rest = whole.partition("://")
    host, slash, path = rest.partition("/")
    reserved, path = split_last_name(slash + path)
    # After another path, a slash alone has no effect.
    base, path = (host + reserved, path) if path != "/" else (host + reserved + slash, "")
    return _at("http", path, base_url=f"{scheme}://{base}{query and f'?{query}'}")


def _further(part: str, base: dict[str, Any]) -> dict[str, Any]:
    path = decode_part(part)
    if path.startswith("//"):
        raise ArgumentError("a URL of this scheme has no host")
    return _at(part.partition(":")[0], unquote_path(path), base=base)


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
