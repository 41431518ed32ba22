"""The drivers ``s3``, ``gcs`` and ``http``, which use the object stores of the engine."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from weakref import WeakKeyDictionary

from tessarr._safe_repr import safe_repr
from tessarr.errors import ArgumentError, UnsupportedError
from tessarr.tensorstore.json.parse import as_json, boolean, member_error, text
from tessarr.tensorstore.kvstore.kvstore_driver import Driver, quote_path, read_strings
from tessarr.tensorstore.kvstore.kvstore_url import split_last_name
from tessarr.tensorstore.kvstore.limits import (
    concurrency_limit,
    limit_concurrency,
    limit_rate,
    retry_requests,
)
from tessarr.tensorstore.kvstore.values import StoreLocation, join_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tessarr.store import Store
    from tessarr.tensorstore.context.context import Resource
    from tessarr.tensorstore.context.references import References

OpenLocation: TypeAlias = "Callable[..., StoreLocation]"
"""The opening function of a driver, as in `Driver`."""

__all__ = ["GCS", "HTTP", "S3"]

_BUCKET: Final = re.compile(r"(?!.*(?:\.\.|\.-|-\.))[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]")
# Old buckets may have longer names with capitals; S3 reserves some prefixes and suffixes.
_S3_BUCKET: Final = re.compile(
    r"(?!.*(?:\.\.|\.-|-\.)|xn--|sthree-|.*(?:-s3alias|--ol-s3)\Z|(?:\d+\.){3}\d+\Z)"
    r"[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9]"
)


def _bucket(kind: str, names: re.Pattern[str]) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        name = text(value)
        if not names.fullmatch(name):
            raise ArgumentError(f"Invalid {kind} bucket name: {as_json(name)}")
        return name

    return read


def _resource_kinds(kind: str, *others: str) -> dict[str, str]:
    """Return the resource members of a driver; each has the name of its kind of resource."""
    own = (f"{kind}_request_concurrency", f"{kind}_request_retries")
    return {name: name for name in sorted(("data_copy_concurrency", *own, *others))}


def _open_once(kind: str, open_location: OpenLocation) -> OpenLocation:
    """Return the opening function of a driver that opens each location once in a context.

    The arrays of a context then share the client of a bucket, with its connections, and find
    credentials once. The resource ``…_request_concurrency`` owns the open locations.
    """
    owners: WeakKeyDictionary[Resource, dict[Any, StoreLocation]] = WeakKeyDictionary()

    def open_shared(
        resources: References, members: Mapping[str, Any], *arguments: Any
    ) -> StoreLocation:
        owner = resources.resource(f"{kind}_request_concurrency")
        others = frozenset(item for item in resources.values.items() if item[1] is not owner)
        key = json.dumps(members, sort_keys=True), others
        locations = owners.setdefault(owner, {})
        if key not in locations:
            locations.setdefault(key, open_location(resources, members, *arguments))
        return locations[key]

    return open_shared


def _open_remote(
    resources: References,
    kind: str,
    store_class: Callable[..., Store],
    location: str,
    **settings: Any,
) -> StoreLocation:
    """Return the location of a store with the limits and retries of `resources`.

    The concurrency limit and the rate limit apply to each attempt of a request.
    """
    concurrency = resources.resource(f"{kind}_request_concurrency")
    store = store_class(location, concurrency=concurrency_limit(concurrency), retries=0, **settings)
    rate = f"experimental_{kind}_rate_limiter"
    limited = limit_concurrency(store, concurrency)
    if rate in resources.values:
        limited = limit_rate(limited, resources.resource(rate))
    return StoreLocation(retry_requests(limited, resources.resource(f"{kind}_request_retries")))


# S3


def _check_s3(members: dict[str, Any], path: str) -> tuple[dict[str, Any], str]:
    if "endpoint" not in members:
        if "bucket" not in members:
            raise ArgumentError('"bucket" must be specified when "endpoint" is not set')
        if "host_header" in members:
            raise ArgumentError('"host_header" cannot be set without also setting "endpoint"')
    return members, path


def _open_s3(resources: References, members: Mapping[str, Any], *_: Any) -> StoreLocation:
    from tessarr.store.object.s3_store import S3Store

    bucket, endpoint = members.get("bucket", ""), members.get("endpoint") or None
    settings = _convert_credentials(resources.resource("aws_credentials").to_json())
    if not bucket:
        bucket, endpoint = _bucket_of(endpoint or "")
        settings["virtual_hosted"] = True
    if members.get("host_header"):
        settings["headers"] = {"host": members["host_header"]}
    return _open_remote(
        resources,
        "s3",
        S3Store,
        bucket,
        endpoint=endpoint,
        region=members.get("aws_region") or None,
        requester_pays=members.get("requester_pays"),
        conditional_writes=members.get("use_conditional_write"),
        **settings,
    )


_CREDENTIAL_OPTIONS: Final = {
    "profile": "profile",
    "filename": "aws_shared_credentials_file",
    "credentials_file": "aws_shared_credentials_file",
    "config_file": "aws_config_file",
    "metadata_endpoint": "aws_metadata_endpoint",
    "endpoint": "aws_container_credentials_full_uri",
    "auth_token_file": "aws_container_authorization_token_file",
}
"""The options of `S3Store` for the members of ``aws_credentials``."""


def _convert_credentials(json: dict[str, Any]) -> dict[str, Any]:
    """Return the options of `S3Store` for the JSON of the resource ``aws_credentials``."""
    kind = json["type"]
    if kind == "anonymous":
        return {"anonymous": True}
    options = {_CREDENTIAL_OPTIONS[name]: json[name] for name in json if name != "type"}
    return options if kind == "default" else {"credential_source": kind, **options}


def _s3_url(members: Mapping[str, Any], path: str) -> str:
    if "endpoint" in members:
        raise UnsupportedError("an s3 URL has no endpoint")
    return f"s3://{members['bucket']}/{quote_path(path)}"


def _bucket_of(endpoint: str) -> tuple[str, str]:
    """Return the bucket and the server of an `endpoint` whose host starts with the bucket."""
    from urllib.parse import urlsplit

    parts = urlsplit(endpoint)
    bucket, _, host = parts.netloc.partition(".")
    number = (parts.hostname or "").replace(".", "").isdigit()
    if number or not host or not _BUCKET.fullmatch(bucket):
        raise ArgumentError(
            f'"bucket" must be specified, as the host of the endpoint "{endpoint}" does not '
            "begin with one"
        )
    return bucket, f"{parts.scheme}://{host}"


S3: Final = Driver(
    name="s3",
    open=_open_once("s3", _open_s3),
    members={
        "bucket": _bucket("S3", _S3_BUCKET),
        "endpoint": text,
        "host_header": text,
        "aws_region": text,
        "requester_pays": boolean,
        "use_conditional_write": boolean,
    },
    defaults={"aws_region": "", "requester_pays": False},
    kinds=_resource_kinds("s3", "aws_credentials", "experimental_s3_rate_limiter"),
    optional=frozenset({"experimental_s3_rate_limiter"}),
    check=_check_s3,
    url=_s3_url,
)


# GCS


def _gcs_path(path: str) -> str:
    if _BAD_OBJECT.search(path) or len(path.encode(errors="surrogateescape")) > _LONGEST_OBJECT:
        raise ArgumentError(f"Invalid GCS path: {safe_repr(path)}")
    return path


_BAD_OBJECT: Final = re.compile(r"[\x00-\x1f\x7f]|\A\.{1,2}\Z|\A\.well-known/acme-challenge")
_LONGEST_OBJECT: Final = 1024


def _open_gcs(resources: References, members: Mapping[str, Any], *_: Any) -> StoreLocation:
    from tessarr.store.object.gcs_store import GCSStore

    project = resources.resource("gcs_user_project").to_json().get("project_id")
    return _open_remote(
        resources,
        "gcs",
        GCSStore,
        members["bucket"],
        endpoint=os.environ.get("TENSORSTORE_GCS_HTTP_URL") or None,
        project=project,
        requester_pays=bool(project),
    )


GCS: Final = Driver(
    name="gcs",
    open=_open_once("gcs", _open_gcs),
    members={"bucket": _bucket("GCS", _BUCKET)},
    needs=("bucket",),
    kinds=_resource_kinds("gcs", "experimental_gcs_rate_limiter", "gcs_user_project"),
    optional=frozenset({"experimental_gcs_rate_limiter"}),
    url=lambda members, path: f"gs://{members['bucket']}/{quote_path(path)}",
    path=_gcs_path,
)


# Web servers


def _check_http(members: dict[str, Any], path: str) -> tuple[dict[str, Any], str]:
    from urllib.parse import urlsplit

    base = members["base_url"]
    try:
        parts = urlsplit(base)
        host = parts.hostname
    except ValueError as error:
        raise member_error("base_url", ArgumentError(str(error))) from None
    if parts.scheme not in {"http", "https"} or not host or parts.fragment:
        raise member_error("base_url", ArgumentError(f"Invalid URL: {as_json(base)}"))
    query = f"?{parts.query}" if parts.query else ""
    reserved, whole = split_last_name(parts.path)
    if path.startswith("/") and path != "/" and whole not in {"", "/"}:
        raise ArgumentError(
            f"the path {as_json(path)} does not follow {as_json(base)}, which has one"
        )
    if path != "/":
        whole = path if path.startswith("/") else join_path(whole, path)
    return {**members, "base_url": f"{parts.scheme}://{parts.netloc}{reserved}{query}"}, whole


def _open_http(resources: References, members: Mapping[str, Any], *_: Any) -> StoreLocation:
    from tessarr.store.object.http_store import HTTPStore

    pairs = (line.partition(":") for line in members.get("headers", ()))
    headers = [(name.strip(), value.strip()) for name, _, value in pairs]
    opened = _open_remote(resources, "http", HTTPStore, members["base_url"], headers=headers)
    return replace(opened, strip_slash=True, read_only=True)


def _http_url(members: Mapping[str, Any], path: str) -> str:
    origin, mark, query = members["base_url"].partition("?")
    slash = "" if not path or path.startswith("/") else "/"
    return f"{origin}{slash}{quote_path(path)}{mark}{query}"


HTTP: Final = Driver(
    name="http",
    open=_open_once("http", _open_http),
    members={"base_url": text, "headers": read_strings},
    needs=("base_url",),
    defaults={"headers": []},
    kinds=_resource_kinds("http"),
    check=_check_http,
    url=_http_url,
)
