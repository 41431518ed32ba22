"""Endpoints of S3 and GCS buckets, with credentials, for the engine.

The first request goes through fsspec's file system, which obtains the credentials. Later requests
of the engine use the same ones. File systems with other settings, such as proxies, keep sending
all requests.
"""

from __future__ import annotations

import os
from math import inf
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from tessarr.store.object.http import Endpoint

if TYPE_CHECKING:
    from tessarr.store.object.http import ErrorResponse, SigningKey

__all__ = ["build_gcs_error", "build_s3_error", "find_gcs_endpoint", "find_s3_endpoint"]

_TIMEOUT_S: Final = 300.0
_UNESCAPED: Final = "-._~"

# S3

_SESSION_OPTIONS: Final = frozenset(
    {"profile", "use_listings_cache", "listings_expiry_time", "max_paths"}
)
_CLIENT_OPTIONS: Final = frozenset(
    {
        "aws_access_key_id",
        "aws_secret_access_key",
        "aws_session_token",
        "endpoint_url",
        "region_name",
        "use_ssl",
    }
)
_CONFIG_OPTIONS: Final = frozenset({"max_pool_connections", "retries", "s3", "signature_version"})
_MAX_STORED_BYTES: Final = 64 << 20
"""The file system stores larger values, for which the cost of a request does not matter."""
_VALID_S: Final = 240.0
"""Less than the usual remaining validity of keys that a session does not renew yet."""


async def find_s3_endpoint(fs: Any, root: str) -> Endpoint | None:
    """Return the endpoint of a folder, with the key that signs requests."""
    from botocore import UNSIGNED
    from botocore.utils import get_environ_proxies
    from s3fs import S3FileSystem

    bucket, folder, version = fs.split_path(root)
    express = bucket.endswith("--x-s3")  # S3 Express uses session credentials
    if (
        not bucket
        or version
        or express
        or type(fs) is not S3FileSystem
        or not _has_default_settings(fs)
    ):
        return None
    client: Any = await fs.get_s3(bucket)
    config = client.meta.config
    url, region = await _resolve_bucket(client, bucket)
    if not region or config.proxies or get_environ_proxies(url):
        return None
    session: Any = fs.session
    trusted = session.get_config_variable("ca_bundle")
    if url.startswith("https:") and trusted not in {None, os.environ.get("SSL_CERT_FILE")}:
        return None
    signing_key, valid_s = None, inf
    if config.signature_version is not UNSIGNED:
        if config.signature_version not in {"s3v4", "v4"}:
            return None
        signing_key, valid_s = await _get_signing_key(client, region)
        if signing_key is None:
            return None
    start = f"{url}/{quote(folder, safe=f'{_UNESCAPED}/')}".rstrip("/")
    headers = [("x-amz-request-payer", "requester")] if fs.req_kw else []
    endpoint = Endpoint(f"{start}/", "", headers, _TIMEOUT_S, f"{_UNESCAPED}/", "etag", signing_key)
    return endpoint._replace(max_stored_bytes=_MAX_STORED_BYTES, valid_s=valid_s)


def _has_default_settings(fs: Any) -> bool:
    """Return whether the engine supports all settings of a file system of S3."""
    session = fs.storage_options.get("session")
    return (
        (session is None or getattr(session, "only_credentials", False))
        and _SESSION_OPTIONS.issuperset(fs.kwargs)
        and _CLIENT_OPTIONS.issuperset(fs.client_kwargs)
        and _CONFIG_OPTIONS.issuperset(fs.config_kwargs)
        and {"addressing_style"}.issuperset(fs.config_kwargs.get("s3") or {})
        and not fs.s3_additional_kwargs
    )


async def _resolve_bucket(client: Any, name: str) -> tuple[str, str]:
    """Return the URL of a bucket and the region of signatures; "" for other signatures.

    The result holds for requests. Presigned URLs use a host for all regions, and the client's
    region.
    """
    get = client.meta.service_model.operation_model("GetObject")
    context: dict[str, Any] = {}
    where = {"Bucket": name, "Key": "x"}
    url, headers, _ = await client._resolve_endpoint_ruleset(get, where, context)
    signing = context.get("signing", {})
    is_plain = signing.get("signing_name", "s3") == "s3" and context.get("auth_type") in {
        "v4",
        "none",
    }
    region = signing.get("region") or client.meta.region_name
    region = "us-east-1" if region in {None, "aws-global"} else region
    return url.rstrip("/"), region if is_plain and not headers else ""


async def _get_signing_key(client: Any, region: str) -> tuple[SigningKey | None, float]:
    """Return the signing key of a client, and how long it is valid."""
    credentials = client._get_credentials()
    if credentials is None:
        return None, inf
    frozen = await credentials.get_frozen_credentials()
    valid_s = _VALID_S if hasattr(credentials, "refresh_needed") else inf
    return (frozen.access_key, frozen.secret_key, frozen.token, region), valid_s


def build_s3_error(fs: Any, path: str, response: ErrorResponse) -> Exception:
    """Return the error that a file system of S3 raises for an error response."""
    del fs, path
    from botocore.exceptions import ClientError
    from s3fs.errors import translate_boto_error

    words = {"Code": str(response.status), "Message": response.reason}
    answer = {"Error": words, "ResponseMetadata": {"HTTPStatusCode": response.status}}
    error: Exception = translate_boto_error(ClientError(answer, f"{response.method.title()}Object"))
    return error


# GCS

_TOKEN_S: Final = 60.0
"""Less than the remaining validity of a token that gcsfs still uses."""


async def find_gcs_endpoint(fs: Any, root: str) -> Endpoint | None:
    """Return the endpoint of a folder, with the token of requests."""
    from urllib.request import getproxies

    is_gcsfs = type(fs).__module__.partition(".")[0] == "gcsfs"
    secret = getattr(fs, "_use_client_cert", False)  # the engine lacks client certificates
    if not is_gcsfs or secret or fs.session_kwargs or fs.requests_timeout or getproxies():
        return None
    url, _, query = fs.url(f"{root}/a/x").partition("?")
    slash = "/" if url.endswith("a/x") else "%2F"
    if not url.endswith(f"a{slash}x"):
        return None
    query = "&".join(filter(None, (query, urlencode(fs._get_params({})))))
    headers: dict[str, str] = {}
    fs.credentials.apply(headers)
    plain = f"{_UNESCAPED}/" if slash == "/" else _UNESCAPED
    valid_s = _TOKEN_S if headers else inf
    end = len(url) - len(f"a{slash}x")
    pairs = [*headers.items()]
    endpoint = Endpoint(url[:end], f"?{query}", pairs, _TIMEOUT_S, plain, "x-goog-generation")
    return endpoint._replace(valid_s=valid_s)


def build_gcs_error(fs: Any, path: str, response: ErrorResponse) -> Exception:
    """Return the error that a file system of GCS raises for an error response."""
    del fs, path
    from gcsfs.retry import HttpError

    error: Exception = HttpError({"code": response.status, "message": response.reason})
    return error
