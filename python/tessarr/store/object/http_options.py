"""Options of web servers: names of fsspec's HTTP file system and of aiohttp."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlencode, urlsplit, urlunsplit

from tessarr.errors import ArgumentError
from tessarr.store.object.common_options import COMMON_OPTIONS, SESSION_OPTIONS, USE_FSSPEC
from tessarr.store.object.engine_arguments import build_web_arguments
from tessarr.store.object.options import IGNORED, Accept, Nest, Refuse, Rule, Set, merge_settings
from tessarr.store.object.urls import hide_query

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tessarr.store.object.engine_arguments import EngineArguments

__all__ = ["HTTP_OPTIONS", "resolve_http"]


def _to_params(value: Any) -> dict[str, str]:
    pairs = value.items() if hasattr(value, "items") else value
    try:
        params = {name: str(text) for name, text in pairs}
    except (TypeError, ValueError):
        raise ValueError("must be a mapping of names to values") from None
    if not all(isinstance(name, str) for name in params):
        raise ValueError("must be a mapping of names to values")
    return params


HTTP_OPTIONS: Final[dict[str, Rule]] = {
    **COMMON_OPTIONS,
    **SESSION_OPTIONS,
    "allow_redirects": Accept((True,), USE_FSSPEC),
    "anon": Accept((True, "true"), "pass the authorization as the option auth or headers"),
    "client_kwargs": Nest(SESSION_OPTIONS),
    "encoded": IGNORED,  # the engine keeps escapes of the URL, and encodes keys
    "get_client": Refuse(USE_FSSPEC),
    "params": Set("params", _to_params),
    "same_scheme": IGNORED,
    "simple_links": IGNORED,
    "size_policy": IGNORED,
}
"""The rule for each name of `storage_options` of web servers."""


def resolve_http(url: str, explicit: Mapping[str, Any]) -> EngineArguments:
    """Return the arguments of the engine for a web server.

    A name and a password in the URL become a header. `params` extend the query, which requests for
    each key have.

    Parameters
    ----------
    url
        The root of the store.
    explicit
        Settings of the user.

    Raises
    ------
    ArgumentError
        If the URL has another scheme, no host, or a fragment.
    """
    settings = merge_settings(explicit, {}, frozenset())
    parts = urlsplit(url)
    if parts.scheme.lower() not in {"http", "https"} or not parts.hostname or "#" in url:
        raise ArgumentError(
            f"cannot open {hide_query(url)!r}: HTTPStore needs a URL with the scheme http or "
            "https, a host and no fragment"
        )
    credentials, _, host = parts.netloc.rpartition("@")
    if credentials:
        encoded = b64encode(unquote(credentials).encode()).decode()
        headers = {"authorization": f"Basic {encoded}", **settings.get("headers", {})}
        settings["headers"] = headers
    query = "&".join(filter(None, (parts.query, urlencode(settings.pop("params", {})))))
    root = urlunsplit((parts.scheme.lower(), host, parts.path.rstrip("/"), query, ""))
    return build_web_arguments(root, settings)
