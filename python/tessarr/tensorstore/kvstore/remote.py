"""The drivers ``s3``, ``gcs`` and ``http``, which use fsspec."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final

from tessarr._safe_repr import safe_repr
from tessarr.errors import ArgumentError, UnsupportedError
from tessarr.tensorstore.json.object_members import as_json, boolean, member_error, text
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

    from tessarr.tensorstore.context.references import References

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


def _open_remote(
    resources: References, kind: str, url: str, options: dict[str, Any], **settings: Any
) -> StoreLocation:
    """Return the store location of `url`, with the limits and retries of `resources`.

    The concurrency limit and the rate limit apply to each attempt of a request.
    """
    from tessarr.store.fsspec.store import FsspecStore

    concurrency = resources.resource(f"{kind}_request_concurrency")
    store = FsspecStore.from_url(
        url, options, concurrency=concurrency_limit(concurrency), retries=False, **settings
    )
    rate = f"experimental_{kind}_rate_limiter"
    turned = limit_concurrency(store, concurrency)
    timed = limit_rate(turned, resources.resource(rate) if resources.has(rate) else None)
    return StoreLocation(retry_requests(timed, resources.resource(f"{kind}_request_retries")))


# S3


def _check_s3(found: dict[str, Any], path: str) -> tuple[dict[str, Any], str]:
    if "endpoint" not in found:
        if "bucket" not in found:
            raise ArgumentError('"bucket" must be specified when "endpoint" is not set')
        if "host_header" in found:
            raise ArgumentError('"host_header" cannot be set without also setting "endpoint"')
    return found, path


def _open_s3(resources: References, given: Mapping[str, Any], *_: Any) -> StoreLocation:
    bucket, endpoint = given.get("bucket", ""), given.get("endpoint", "")
    client: dict[str, Any] = {}
    options: dict[str, Any] = {"client_kwargs": client}
    if not bucket:
        bucket, endpoint = _bucket_of(endpoint)
        options["config_kwargs"] = {"s3": {"addressing_style": "virtual"}}
    if endpoint:
        client["endpoint_url"] = endpoint
    if given.get("aws_region"):
        client["region_name"] = given["aws_region"]
    if given.get("requester_pays"):
        options["requester_pays"] = True
    options |= _credentials(resources, given)
    conditional = given.get("use_conditional_write", True)
    return _open_remote(resources, "s3", f"s3://{bucket}", options, conditional_writes=conditional)


def _s3_url(given: Mapping[str, Any], path: str) -> str:
    if "endpoint" in given:
        raise UnsupportedError("a URL of s3 does not say which endpoint there is")
    return f"s3://{given['bucket']}/{quote_path(path)}"


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


def _credentials(resources: References, given: Mapping[str, Any]) -> dict[str, Any]:
    json = resources.resource("aws_credentials").to_json(include_defaults=True)
    from tessarr.tensorstore.kvstore.aws_credentials import session

    host = given.get("host_header")
    if json["type"] != "anonymous":
        return {"session": session(json, host)}
    return {"anon": True} | ({"session": session(json, host)} if host else {})


S3: Final = Driver(
    name="s3",
    open=_open_s3,
    members={
        "bucket": _bucket("S3", _S3_BUCKET),
        "endpoint": text,
        "host_header": text,
        "aws_region": text,
        "requester_pays": boolean,
        "use_conditional_write": boolean,
    },
    defaults={"aws_region": "", "requester_pays": False},
    kinds={
        "aws_credentials": "aws_credentials",
        "data_copy_concurrency": "data_copy_concurrency",
        "experimental_s3_rate_limiter": "experimental_s3_rate_limiter",
        "s3_request_concurrency": "s3_request_concurrency",
        "s3_request_retries": "s3_request_retries",
    },
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


def _open_gcs(resources: References, given: Mapping[str, Any], *_: Any) -> StoreLocation:
    project = resources.resource("gcs_user_project").to_json().get("project_id")
    from tessarr.tensorstore.kvstore.gcs_credentials import find_credentials

    server = os.environ.get("TENSORSTORE_GCS_HTTP_URL")
    options: dict[str, Any] = {"token": find_credentials()}
    if project:
        options["requester_pays"] = project
    if server:
        options["endpoint_url"] = server
    return _open_remote(resources, "gcs", f"gs://{given['bucket']}", options)


GCS: Final = Driver(
    name="gcs",
    open=_open_gcs,
    members={"bucket": _bucket("GCS", _BUCKET)},
    needs=("bucket",),
    kinds={
        "data_copy_concurrency": "data_copy_concurrency",
        "experimental_gcs_rate_limiter": "experimental_gcs_rate_limiter",
        "gcs_request_concurrency": "gcs_request_concurrency",
        "gcs_request_retries": "gcs_request_retries",
        "gcs_user_project": "gcs_user_project",
    },
    optional=frozenset({"experimental_gcs_rate_limiter"}),
    url=lambda given, path: f"gs://{given['bucket']}/{quote_path(path)}",
    path=_gcs_path,
)


# Web servers


def _check_http(found: dict[str, Any], path: str) -> tuple[dict[str, Any], str]:
    from urllib.parse import urlsplit

    base = found["base_url"]
    try:
        parts = urlsplit(base)
        host = parts.hostname
    except ValueError as error:
        raise member_error("base_url", ArgumentError(str(error))) from None
    if parts.scheme not in {"http", "https"} or not host or parts.fragment:
        raise member_error("base_url", ArgumentError(f"Invalid URL: {as_json(base)}"))
    query = f"?{parts.query}" if parts.query else ""
    kept, whole = split_last_name(parts.path)
    if path.startswith("/") and path != "/" and whole not in {"", "/"}:
        raise ArgumentError(
            f"the path {as_json(path)} does not follow {as_json(base)}, which has one"
        )
    if path != "/":
        whole = path if path.startswith("/") else join_path(whole, path)
    return {**found, "base_url": f"{parts.scheme}://{parts.netloc}{kept}{query}"}, whole


def _open_http(resources: References, given: Mapping[str, Any], *_: Any) -> StoreLocation:
    from urllib.parse import parse_qsl

    url, _, query = given["base_url"].partition("?")
    options: dict[str, Any] = {}
    if query:
        options["params"] = tuple(parse_qsl(query, keep_blank_values=True))
    if given.get("headers"):
        pairs = (line.partition(":") for line in given["headers"])
        headers = [(name.strip(), value.strip()) for name, _, value in pairs]
        options["client_kwargs"] = {"headers": headers}
    result = _open_remote(resources, "http", url, options, read_only=True)
    return StoreLocation(result.store, strip_slash=True, read_only=True)


def _http_url(given: Mapping[str, Any], path: str) -> str:
    origin, mark, query = given["base_url"].partition("?")
    slash = "" if not path or path.startswith("/") else "/"
    return f"{origin}{slash}{quote_path(path)}{mark}{query}"


HTTP: Final = Driver(
    name="http",
    open=_open_http,
    members={"base_url": text, "headers": read_strings},
    needs=("base_url",),
    defaults={"headers": []},
    kinds={
        "data_copy_concurrency": "data_copy_concurrency",
        "http_request_concurrency": "http_request_concurrency",
        "http_request_retries": "http_request_retries",
    },
    check=_check_http,
    url=_http_url,
)
