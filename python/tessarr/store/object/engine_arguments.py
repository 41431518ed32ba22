"""Arguments of the engine's object stores, from the settings of a store class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from tessarr.errors import ArgumentError
from tessarr.store.object.connection import ConnectionSettings, build_connection

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tessarr.store.object.options import Settings
    from tessarr.store.object.urls import StoreKind

__all__ = ["EngineArguments", "build_bucket_arguments", "build_web_arguments"]

_NO_OPTIONS: Final = frozenset({*ConnectionSettings.__annotations__, "credentials"})
"""Settings that are no options of the ``object_store`` crate."""


class EngineArguments(NamedTuple):
    """The arguments of ``_engine.ObjectStore``.

    Parameters
    ----------
    kind
        The kind of the store.
    url
        The URL of the store for errors, or the root of a web server.
    bucket
        The bucket or container; the root of a web server.
    prefix
        The prefix of all keys, without a slash at its end.
    options
        Options of the ``object_store`` crate under their full names, without those of its client.
    connection
        Settings of connections: ``connect_timeout_s``, ``ca_certificates``, ``verify``, and
        ``proxy``, a pair of its URL and the hosts that need none. Absent ones have their defaults.
    headers
        Headers of each request.
    credentials
        A callable that returns credentials and when they expire.
    read_only, concurrency, retries, timeout_s, conditional_writes
        As for the store classes.
    may_be_anonymous
        Whether the store sends requests without credentials if it finds none.
    forbidden_is_absent
        Whether the status 403 means an absent key.
    """

    kind: StoreKind
    url: str
    bucket: str
    prefix: str
    options: dict[str, str]
    connection: dict[str, Any]
    headers: tuple[tuple[str, str], ...] = ()
    credentials: Callable[[], Mapping[str, Any]] | None = None
    read_only: bool = False
    concurrency: int = 64
    retries: int = 10
    timeout_s: float = 60.0
    conditional_writes: bool = True
    may_be_anonymous: bool = True
    forbidden_is_absent: bool = False


def build_bucket_arguments(
    kind: StoreKind,
    root: str,
    prefix: str,
    settings: Settings,
    names: Mapping[str, str],
) -> EngineArguments:
    """Return the arguments of the engine for a bucket.

    Parameters
    ----------
    kind
        The kind of the store.
    root
        The URL of the bucket or container, such as ``s3://bucket``.
    prefix
        The prefix of all keys.
    settings
        The complete settings; those of None have their defaults.
    names
        The engine's options for keywords of the store class.

    Raises
    ------
    ArgumentError
        If a segment of the prefix is empty, "." or "..", which requests cannot contain; or if a
        file with certificates is absent or malformed.
    """
    prefix = prefix.strip("/")
    if prefix and not {"", ".", ".."}.isdisjoint(prefix.split("/")):
        raise ArgumentError(
            f"cannot open the prefix {prefix!r} of {root!r}: a segment is empty, '.' or '..'"
        )
    options = {
        names.get(name, name): _to_option_text(value)
        for name, value in settings.items()
        if value is not None and name not in _NO_OPTIONS
    }
    location = (kind, f"{root}/{prefix}" if prefix else root, root.partition("://")[2], prefix)
    scheme = urlsplit(settings.get("endpoint") or "https:").scheme
    is_signed = settings.get("anonymous") is False
    return _build(location, options, settings, scheme, may_be_anonymous=not is_signed)


def build_web_arguments(url: str, settings: Settings) -> EngineArguments:
    """Return the arguments of the engine for a web server.

    Parameters
    ----------
    url
        The root of the store.
    settings
        The complete settings; those of None have their defaults.

    Raises
    ------
    ArgumentError
        If a file with certificates is absent or malformed.
    """
    return _build(("http", url, url, ""), {}, settings, urlsplit(url).scheme, read_only=True)


def _build(
    location: tuple[StoreKind, str, str, str],
    options: dict[str, str],
    settings: Settings,
    scheme: str,
    **further: bool,
) -> EngineArguments:
    url = location[1]
    try:
        url.encode()
    except UnicodeEncodeError as error:
        raise ArgumentError(f"cannot open {url!a}: it is not text in UTF-8") from error
    names = (name for name in EngineArguments._fields if settings.get(name) is not None)
    values: dict[str, Any] = {name: settings[name] for name in names}
    values["headers"] = tuple(settings.get("headers", {}).items())
    values["forbidden_is_absent"] = 403 in settings.get("missing_status", ())
    values.update(further)
    return EngineArguments(*location, options, build_connection(settings, scheme), **values)


def _to_option_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
