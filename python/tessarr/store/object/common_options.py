"""Options of all object stores: connections, requests, and what fsspec's file objects need."""

from __future__ import annotations

from typing import Any, Final

from tessarr.store.object.option_values import (
    to_auth_header,
    to_bool,
    to_callable,
    to_cookie_header,
    to_count,
    to_headers,
    to_path,
    to_seconds,
    to_statuses,
    to_tls_settings,
)
from tessarr.store.object.options import IGNORED, Accept, Refuse, Rule, Set, Split

__all__ = ["COMMON_OPTIONS", "SESSION_OPTIONS", "TIMEOUT", "USE_FSSPEC"]

USE_FSSPEC: Final = (
    "create the file system with fsspec and pass it as tessarr.stores.FsspecStore(fs, path)"
)
"""The remedy for options that only a client library supports."""

TIMEOUT: Final = Set("timeout_s", to_seconds)
_CONNECT_TIMEOUT: Final = Set("connect_timeout_s", to_seconds)


def _to_retries(value: Any) -> int | None:
    """Return a number of retries; True means the default."""
    if isinstance(value, bool):
        return None if value else 0
    return to_count(value)


def _to_proxy(value: Any) -> str | dict[str, str]:
    """Return the URL of a proxy, or a mapping of schemes to URLs; "" means no proxy."""
    if isinstance(value, str):
        return value
    if not hasattr(value, "items") or not all(isinstance(url, str) for url in value.values()):
        raise ValueError("must be a URL, or a mapping of schemes to URLs")
    return dict(value)


_PROXY: Final = Set("proxy", _to_proxy)


def _invert(value: Any) -> bool:
    return not to_bool(value)


_HTTP_2: Final = Accept((False, "false"), "the engine uses HTTP/1.1")

_CLIENT_OPTIONS: Final[dict[str, Rule]] = {
    # Names of object_store's client options.
    "allow_http": IGNORED,  # the scheme of the endpoint decides
    "allow_invalid_certificates": Set("verify", _invert),
    "connect_timeout": _CONNECT_TIMEOUT,
    "default_content_type": Refuse(USE_FSSPEC),
    "disable_system_certificates": Accept((False, "false"), "pass ca_bundle"),
    "http1_only": Accept((True, "true"), "the engine uses HTTP/1.1"),
    "http2_only": _HTTP_2,
    "http2_keep_alive_interval": IGNORED,
    "http2_keep_alive_timeout": IGNORED,
    "http2_keep_alive_while_idle": IGNORED,
    "http2_max_frame_size": IGNORED,
    "pool_idle_timeout": IGNORED,
    "pool_max_idle_per_host": IGNORED,
    "proxy_url": _PROXY,
    "proxy_ca_certificate": Refuse("pass the certificates of the proxy in ca_bundle"),
    "proxy_excludes": Set("no_proxy"),
    "randomize_addresses": IGNORED,
    "read_timeout": TIMEOUT,
    "timeout": TIMEOUT,
    "user_agent": Set("headers", key="user-agent"),
}

_OWN_OPTIONS: Final[dict[str, Rule]] = {
    # Keywords of the store classes.
    "ca_bundle": Set("ca_bundle", to_path),
    "concurrency": Set("concurrency", to_count),
    "conditional_writes": Set("conditional_writes", to_bool),
    "connect_timeout_s": _CONNECT_TIMEOUT,
    "credentials": Set("credentials", to_callable),
    "headers": Set("headers", to_headers),
    "missing_status": Set("missing_status", to_statuses),
    "no_proxy": Set("no_proxy"),
    "proxy": _PROXY,
    "read_only": Set("read_only", to_bool),
    "retries": Set("retries", _to_retries),
    "timeout_s": TIMEOUT,
    "verify": Split(to_tls_settings),
}

_FILE_OPTIONS: Final[dict[str, Rule]] = dict.fromkeys(
    (
        # These configure file objects, caches of listings and event loops of fsspec.
        "asynchronous",
        "batch_size",
        "block_size",
        "blocksize",
        "cache_options",
        "cache_type",
        "default_block_size",
        "default_cache_options",
        "default_cache_type",
        "default_fill_cache",
        "fixed_upload_size",
        "listings_expiry_time",
        "loop",
        "max_concurrency",
        "max_paths",
        "skip_instance_cache",
        "use_listings_cache",
    ),
    IGNORED,
)

COMMON_OPTIONS: Final[dict[str, Rule]] = {
    **_CLIENT_OPTIONS,
    **_OWN_OPTIONS,
    **_FILE_OPTIONS,
    "version_aware": Accept((False,), USE_FSSPEC),
}
"""The rules that every object store has."""


def _to_session_tls(value: Any) -> dict[str, Any]:
    if value not in (True, False, None):
        raise ValueError(f"is an SSL context; pass ca_bundle or verify, or {USE_FSSPEC}")
    return {"verify": value is not False}


SESSION_OPTIONS: Final[dict[str, Rule]] = {
    "auth": Set("headers", to_auth_header, "authorization"),
    "connector": Refuse(USE_FSSPEC),
    "cookie_jar": Refuse(USE_FSSPEC),
    "cookies": Set("headers", to_cookie_header, "cookie"),
    "headers": Set("headers", to_headers),
    "proxy": _PROXY,
    "proxy_auth": Refuse("pass the proxy as http://name:password@host:port"),
    "ssl": Split(_to_session_tls),
    "timeout": TIMEOUT,
    "trust_env": IGNORED,  # the environment's proxies always apply
    "verify_ssl": Set("verify", to_bool),
}
"""Arguments of ``aiohttp.ClientSession``, and of its requests."""
