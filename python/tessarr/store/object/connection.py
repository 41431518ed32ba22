"""Settings of connections: the keywords of all object stores, and the arguments of the engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from tessarr.errors import ArgumentError
from tessarr.format.registry import set_public_module

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from os import PathLike

    from tessarr.store.object.options import Settings

__all__ = ["ConnectionSettings", "build_connection"]


class ConnectionSettings(TypedDict, total=False):
    """Settings of connections and requests, which all object stores have.

    Attributes
    ----------
    concurrency : int, default 64
        The maximum number of concurrent requests of an operation.
    timeout_s : float, default 60
        The maximum time without an answer, or between two parts of an answer.
    connect_timeout_s : float, default 10
        The maximum time to connect.
    retries : int or bool, default 10
        The maximum number of repetitions of a request after transient errors. None starts later
        than 180 s after the first attempt.
    proxy : str
        The URL of a proxy; "" means none. By default, the variables ``HTTPS_PROXY``,
        ``HTTP_PROXY`` and ``NO_PROXY`` apply.
    no_proxy : str
        Hosts that need no `proxy`, with commas between them.
    ca_bundle : str or os.PathLike
        A file in PEM format with certificates of authorities that TLS trusts, beside those of the
        system.
    verify : bool, default True
        Whether TLS verifies certificates.
    headers : mapping of str to str
        Headers of each request.
    conditional_writes : bool, default True
        Whether changes have a precondition on the version of the value. Without it, concurrent
        writers of one chunk lose changes.
    missing_status : tuple of int, default (404,)
        The status codes that mean an absent key: add 403 for servers that report absent keys as
        forbidden.
    read_only : bool, default False
        Refuse every change (`ReadOnlyError`); web servers are always read-only.
    """

    concurrency: int
    timeout_s: float
    connect_timeout_s: float
    retries: int | bool
    proxy: str
    no_proxy: str
    ca_bundle: str | PathLike[str]
    verify: bool
    headers: Mapping[str, str]
    conditional_writes: bool
    missing_status: Iterable[int]
    read_only: bool


def build_connection(settings: Settings, scheme: str) -> dict[str, Any]:
    """Return the settings of connections; without a proxy, those of the environment apply."""
    names = ("connect_timeout_s", "verify")
    connection = {name: settings[name] for name in names if name in settings}
    if path := settings.get("ca_bundle"):
        connection["ca_certificates"] = _read_certificates(path)
    proxy, excluded = settings.get("proxy"), settings.get("no_proxy")
    if proxy is not None:
        url = proxy if isinstance(proxy, str) else proxy.get(scheme.lower(), "")
        url = url if "://" in url or not url else f"http://{url}"
        connection["proxy"] = (url, excluded or "")
    elif excluded:
        raise ArgumentError(
            "the option no_proxy needs the option proxy; for proxies of the environment, set the "
            "variable NO_PROXY"
        )
    return connection


def _read_certificates(path: str) -> bytes:
    try:
        certificates = Path(path).expanduser().read_bytes()
    except (OSError, RuntimeError) as error:
        raise ArgumentError(f"cannot read the certificates in {path!r}: {error}") from error
    if b"-----BEGIN" not in certificates:
        raise ArgumentError(f"{path!r} contains no certificates in PEM format")
    return certificates


set_public_module("tessarr.stores", ConnectionSettings)
