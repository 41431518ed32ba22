"""Options of S3 stores by the names of botocore: of sessions, clients and requests."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final

from tessarr._safe_repr import safe_repr
from tessarr.store.object.common_options import COMMON_OPTIONS, TIMEOUT, USE_FSSPEC
from tessarr.store.object.option_values import (
    one_of,
    to_bool,
    to_count,
    to_tls_settings,
    to_url,
)
from tessarr.store.object.options import IGNORED, Accept, Nest, Refuse, Rule, Set, Split

if TYPE_CHECKING:
    from tessarr.store.object.options import Settings

__all__ = [
    "ATTEMPTS",
    "CHECKSUM",
    "CLIENT_OPTIONS",
    "CONFIG_OPTIONS",
    "ENCRYPTION",
    "REQUESTER_PAYS",
    "REQUEST_OPTIONS",
]


def _to_requester(value: Any) -> bool:
    """Return whether the requester pays: object_store and botocore write "requester"."""
    return str(value).lower() == "requester" or to_bool(value)


def _to_checksum(value: Any) -> str:
    if str(value).lower() not in {"sha256", "crc64nvme"}:
        raise ValueError(f"must be 'SHA256' or 'CRC64NVME', not {safe_repr(value)}")
    return str(value).lower()


def _to_further_attempts(value: Any) -> int:
    return max(to_count(value) - 1, 0)


REQUESTER_PAYS: Final = Set("requester_pays", _to_requester)
ENCRYPTION: Final = Set(
    "server_side_encryption", one_of("AES256", "aws:kms", "aws:kms:dsse", "sse-c")
)
CHECKSUM: Final = Set("aws_checksum_algorithm", _to_checksum)
ATTEMPTS: Final = Set("retries", _to_further_attempts)
"""Rules that the options of other libraries share."""


def _to_base64_key(value: Any) -> str:
    """Return a customer key as text; botocore takes its bytes."""
    if isinstance(value, str):
        value = value.encode("latin-1")
    if not isinstance(value, bytes | bytearray) or len(value) != 32:
        raise ValueError("must be a key of 32 bytes")
    return b64encode(value).decode()


def _to_anonymous(value: Any) -> Settings:
    """Return the settings of a signature version; ``botocore.UNSIGNED`` is an object."""
    if getattr(value, "__class__", None).__module__.startswith("botocore"):
        return {"anonymous": True}
    if value not in ("s3v4", "v4"):
        raise ValueError(f"must be 's3v4' or botocore.UNSIGNED, not {safe_repr(value)}")
    return {}


_to_style: Final = one_of("auto", "path", "virtual")


def _to_virtual_hosted(value: Any) -> Settings:
    style = _to_style(value)
    return {} if style == "auto" else {"virtual_hosted": style == "virtual"}


_NAME_ENDPOINT: Final = "pass the address of the service as the option endpoint_url"

CONFIG_OPTIONS: Final[dict[str, Rule]] = {
    "account_id_endpoint_mode": IGNORED,
    "auth_scheme_preference": Refuse(USE_FSSPEC),
    "client_context_params": Refuse(USE_FSSPEC),
    "client_cert": Refuse(USE_FSSPEC),
    "connect_timeout": COMMON_OPTIONS["connect_timeout"],
    "defaults_mode": IGNORED,
    "disable_request_compression": IGNORED,
    "endpoint_discovery_enabled": IGNORED,
    "ignore_configured_endpoint_urls": Accept(
        (False,), "set AWS_IGNORE_CONFIGURED_ENDPOINT_URLS=true in the environment"
    ),
    "inject_host_prefix": IGNORED,
    "max_pool_connections": Set("concurrency", to_count),
    "parameter_validation": IGNORED,
    "proxies": COMMON_OPTIONS["proxy"],
    "proxies_config": Refuse(USE_FSSPEC),
    "read_timeout": TIMEOUT,
    "region_name": Set("region"),
    "request_checksum_calculation": IGNORED,  # signatures contain the SHA-256 of each body
    "request_min_compression_size_bytes": IGNORED,
    "response_checksum_validation": IGNORED,
    "retries": Nest(
        {
            "max_attempts": Set("retries", to_count),
            "total_max_attempts": ATTEMPTS,
            "mode": IGNORED,
        }
    ),
    "s3": Nest(
        {
            "addressing_style": Split(_to_virtual_hosted),
            "payload_signing_enabled": Set("aws_unsigned_payload", lambda value: not value),
            "us_east_1_regional_endpoint": IGNORED,
            "use_accelerate_endpoint": Accept((False,), _NAME_ENDPOINT),
            "use_arn_region": Refuse(USE_FSSPEC),
            "use_dualstack_endpoint": Accept((False,), _NAME_ENDPOINT),
        }
    ),
    "s3_disable_express_session_auth": Accept((False,), USE_FSSPEC),
    "sigv4a_signing_region_set": Refuse(USE_FSSPEC),
    "signature_version": Split(_to_anonymous),
    "tcp_keepalive": IGNORED,
    "use_dualstack_endpoint": Accept((False,), _NAME_ENDPOINT),
    "use_fips_endpoint": Accept((False,), _NAME_ENDPOINT),
    "user_agent": Set("headers", key="user-agent"),
    "user_agent_appid": IGNORED,
    "user_agent_extra": IGNORED,
}
"""Arguments of ``botocore.config.Config``."""

CLIENT_OPTIONS: Final[dict[str, Rule]] = {
    "api_version": IGNORED,
    "aws_access_key_id": Set("access_key_id"),
    "aws_secret_access_key": Set("secret_access_key"),
    "aws_session_token": Set("session_token"),
    "config": Refuse("pass the arguments of botocore.config.Config as config_kwargs"),
    "endpoint_url": Set("endpoint", to_url),
    "region_name": Set("region"),
    "use_ssl": Set("use_ssl", to_bool),
    "verify": Split(to_tls_settings),
}
"""Arguments of ``create_client`` of a session."""


def _header(name: str) -> Set:
    return Set("headers", key=name)


REQUEST_OPTIONS: Final[dict[str, Rule]] = {
    "ACL": _header("x-amz-acl"),
    "BucketKeyEnabled": Set("aws_sse_bucket_key_enabled", to_bool),
    "ChecksumAlgorithm": CHECKSUM,
    "ExpectedBucketOwner": _header("x-amz-expected-bucket-owner"),
    "GrantFullControl": _header("x-amz-grant-full-control"),
    "GrantRead": _header("x-amz-grant-read"),
    "GrantReadACP": _header("x-amz-grant-read-acp"),
    "GrantWriteACP": _header("x-amz-grant-write-acp"),
    "RequestPayer": REQUESTER_PAYS,
    "SSECustomerAlgorithm": Split(lambda _: {"server_side_encryption": "sse-c"}),
    "SSECustomerKey": Set("aws_sse_customer_key_base64", _to_base64_key),
    "SSECustomerKeyMD5": IGNORED,  # the engine computes it
    "SSEKMSEncryptionContext": _header("x-amz-server-side-encryption-context"),
    "SSEKMSKeyId": Set("kms_key_id"),
    "ServerSideEncryption": ENCRYPTION,
    "StorageClass": _header("x-amz-storage-class"),
    "Tagging": _header("x-amz-tagging"),
    **dict.fromkeys(
        (
            "CacheControl",
            "ContentDisposition",
            "ContentEncoding",
            "ContentLanguage",
            "ContentType",
            "Metadata",
            "ObjectLockLegalHoldStatus",
            "ObjectLockMode",
            "ObjectLockRetainUntilDate",
        ),
        Refuse(USE_FSSPEC),
    ),
}
"""Arguments of the requests of a client."""
