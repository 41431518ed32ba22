"""URLs of object stores: kinds, buckets, prefixes, and the settings that an address implies.

Two forms name a bucket. A URL with the scheme of a cloud, such as ``s3://bucket/prefix``, holds
its prefix literally, as in fsspec. A web address of a known cloud, such as
``https://bucket.s3.amazonaws.com/prefix``, is percent-encoded. An address with a query, such as a
signed URL, belongs to a plain web server, because the query applies to every key.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from urllib.parse import unquote, urlsplit

from tessarr.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from urllib.parse import SplitResult

__all__ = ["SCHEMES", "ObjectURL", "StoreKind", "hide_query", "parse_object_url"]

StoreKind: TypeAlias = Literal["s3", "gcs", "azure", "http"]

SCHEMES: Final[Mapping[str, StoreKind]] = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gcs",
    "gcs": "gcs",
    "az": "azure",
    "azure": "azure",
    "adl": "azure",
    "abfs": "azure",
    "abfss": "azure",
    "http": "http",
    "https": "http",
}
"""The schemes of object stores, and the kinds of the stores."""


@dataclass(frozen=True, slots=True)
class ObjectURL:
    """The location of an object store.

    Parameters
    ----------
    kind
        The kind of the store.
    bucket
        The bucket or container; the whole URL of a web server.
    prefix
        The prefix of all keys, without slashes at its ends; "" for a web server.
    settings
        Keywords of the store class that the URL implies, such as ``region``.
    """

    kind: StoreKind
    bucket: str
    prefix: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


def parse_object_url(url: str) -> ObjectURL | None:
    """Return the location that a URL names; None for the schemes of other stores.

    Raises
    ------
    ArgumentError
        If the URL lacks a bucket or a host, or has a fragment.

    Examples
    --------
    >>> location = parse_object_url("https://s3.eu-west-1.amazonaws.com/bucket/a%20b")
    >>> location.kind, location.bucket, location.prefix, location.settings
    ('s3', 'bucket', 'a b', {'region': 'eu-west-1'})
    >>> parse_object_url("https://bucket.s3.amazonaws.com/x?X-Amz-Signature=1").kind
    'http'
    >>> parse_object_url("ftp://host/x") is None
    True
    """
    scheme, separator, rest = url.partition("://")
    kind = SCHEMES.get(scheme.lower())
    if kind is None or not separator or "::" in scheme:
        return None
    if kind == "http":
        return _parse_address(url)
    bucket, _, prefix = rest.partition("/")
    if kind == "azure" and ("@" in bucket or "." in bucket):
        return _parse_account(url, bucket, prefix)
    return _build(url, kind, bucket, prefix)


def hide_query(url: str) -> str:
    """Return a URL for messages, without its password and the values of its query.

    The parts of a chained URL are treated separately.

    Examples
    --------
    >>> hide_query("https://me:secret@host/x?sig=secret")
    'https://host/x?…'
    >>> hide_query("simplecache::ftp://me:secret@host/x?y")
    'simplecache::ftp://host/x?y'
    """
    return "::".join(map(_hide_in_part, url.split("::")))


def _hide_in_part(url: str) -> str:
    start, separator, rest = url.partition("://")
    is_web = start.lower() in {"http", "https"}
    authority, slash, path = rest.partition("/")
    user, _, host = authority.rpartition("@")
    if user and (is_web or ":" in user):
        authority = host
    path, mark, query = f"{authority}{slash}{path}".partition("?")
    if mark and not (is_web or "sig=" in query):
        return f"{start}{separator}{path}?{query}"
    return f"{start}{separator}{path}{'?…' if query else ''}"


def _build(
    url: str, kind: StoreKind, bucket: str, prefix: str, settings: Mapping[str, Any] | None = None
) -> ObjectURL:
    if not bucket:
        name = "container" if kind == "azure" else "bucket"
        raise ArgumentError(f"cannot open {hide_query(url)!r}: the URL lacks a {name}")
    if "@" in bucket:
        raise ArgumentError(
            f"cannot open {hide_query(url)!r}: the URL has credentials; pass them as "
            "storage_options, such as key and secret"
        )
    if kind == "azure" and "sig=" in prefix.partition("?")[2]:
        raise ArgumentError(
            f"cannot open {hide_query(url)!r}: the URL has a signature; pass it as the option "
            "sas_token, or open https://ACCOUNT.blob.core.windows.net/CONTAINER/…?…"
        )
    return ObjectURL(kind, bucket, prefix.strip("/"), settings or {})


def _parse_address(url: str) -> ObjectURL:
    """Return the location of a web address: a bucket of a known cloud, or a web server."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").lower()
        port = parts.port
    except ValueError as error:
        raise ArgumentError(f"cannot open {hide_query(url)!r}: {error}") from error
    if not host:
        raise ArgumentError(f"cannot open {hide_query(url)!r}: the URL lacks a host")
    if "#" in url:
        raise ArgumentError(
            f"cannot open {hide_query(url)!r}: the URL has a fragment; write '#' as %23"
        )
    is_plain = parts.scheme.lower() == "http" or "?" in url or parts.username or port
    if not is_plain:
        for parse in (_parse_aws, _parse_r2, _parse_google, _parse_azure):
            location = parse(url, host, parts)
            if location is not None:
                return location
    return ObjectURL("http", url)


def _split_path(parts: SplitResult) -> tuple[str, str]:
    """Return the bucket and the prefix of an address in path style."""
    bucket, _, prefix = unquote(parts.path.removeprefix("/"), errors="surrogateescape").partition(
        "/"
    )
    return bucket, prefix


def _locate(bucket: str | None, parts: SplitResult) -> tuple[str, str]:
    """Return the bucket and the prefix of an address, whose host may name the bucket."""
    if bucket:
        return bucket, unquote(parts.path, errors="surrogateescape")
    return _split_path(parts)


_AWS_HOST: Final = re.compile(
    r"(?:(?P<bucket>.+)\.)?"
    r"(?P<service>s3(?P<variant>-accelerate|-fips)?(?P<dualstack>\.dualstack)?"
    r"(?:[.-](?P<region>[a-z]{2}(?:-[a-z]+)+-[0-9]))?"
    r"\.amazonaws\.com(?P<china>\.cn)?)"
)


def _parse_aws(url: str, host: str, parts: SplitResult) -> ObjectURL | None:
    match = _AWS_HOST.fullmatch(host)
    if match is None:
        return None
    bucket, prefix = _locate(match["bucket"], parts)
    settings: dict[str, Any] = {}
    if match["region"]:
        settings["region"] = match["region"]
    if any(match[name] for name in ("variant", "dualstack", "china")):
        settings["endpoint"] = f"https://{match['service']}"
    if match["variant"] == "-accelerate":  # has addresses in virtual-host style only
        settings["virtual_hosted"] = True
    return _build(url, "s3", bucket, prefix, settings)


_R2_SUFFIX: Final = ".r2.cloudflarestorage.com"
_R2_JURISDICTIONS: Final = frozenset({"eu", "fedramp"})


def _parse_r2(url: str, host: str, parts: SplitResult) -> ObjectURL | None:
    if not host.endswith(_R2_SUFFIX):
        return None
    labels = host.removesuffix(_R2_SUFFIX).split(".")
    account_labels = 2 if labels[-1] in _R2_JURISDICTIONS and len(labels) > 1 else 1
    account = ".".join(labels[-account_labels:])
    bucket, prefix = _locate(".".join(labels[:-account_labels]), parts)
    settings = {"region": "auto", "endpoint": f"https://{account}{_R2_SUFFIX}"}
    return _build(url, "s3", bucket, prefix, settings)


_GOOGLE_HOSTS: Final = ("storage.googleapis.com", "storage.cloud.google.com")


def _parse_google(url: str, host: str, parts: SplitResult) -> ObjectURL | None:
    for service in _GOOGLE_HOSTS:
        if host == service or host.endswith(f".{service}"):
            bucket, prefix = _locate(host.removesuffix(service).removesuffix("."), parts)
            return _build(url, "gcs", bucket, prefix)
    return None


_AZURE_HOST: Final = re.compile(
    r"(?P<account>[^.]+)\.(?:dfs|blob)\."
    r"(?P<suffix>core\.(?:windows\.net|chinacloudapi\.cn|usgovcloudapi\.net))"
)
_FABRIC_HOST: Final = re.compile(
    r"(?P<account>[^.]+(?P<zone>\.z[0-9a-z]{2})?)\.(?:dfs|blob|onelake)\.fabric\.microsoft\.com"
)


def _read_azure_host(host: str) -> dict[str, Any] | None:
    """Return the settings that the host of an account implies; None for other hosts."""
    match = _AZURE_HOST.fullmatch(host)
    if match is not None:
        settings: dict[str, Any] = {"account_name": match["account"]}
        if match["suffix"] != "core.windows.net":
            settings["endpoint"] = f"https://{match['account']}.blob.{match['suffix']}"
        return settings
    match = _FABRIC_HOST.fullmatch(host)
    if match is None:
        return None
    settings = {"account_name": match["account"], "azure_use_fabric_endpoint": True}
    if match["zone"]:  # the host of one workspace
        settings["endpoint"] = f"https://{host}"
    return settings


def _parse_azure(url: str, host: str, parts: SplitResult) -> ObjectURL | None:
    settings = _read_azure_host(host)
    return None if settings is None else _build(url, "azure", *_split_path(parts), settings)


def _parse_account(url: str, authority: str, path: str) -> ObjectURL:
    """Return the location of a URL whose authority names an account, as those of Hadoop do."""
    container, separator, host = authority.rpartition("@")
    settings = _read_azure_host(host.lower())
    if settings is None:
        raise ArgumentError(
            f"cannot open {hide_query(url)!r}: {host!r} is not the host of a storage "
            "account, such as account.dfs.core.windows.net; pass other hosts as the option "
            "account_host"
        )
    if not separator:
        container, _, path = path.partition("/")
    return _build(url, "azure", container, path, settings)
