"""Options of S3 stores: names of s3fs, botocore and object_store, and environment variables."""

from __future__ import annotations

import os
from base64 import b64encode
from collections import ChainMap
from typing import TYPE_CHECKING, Any, Final

from tessarr._safe_repr import safe_repr
from tessarr.errors import ArgumentError
from tessarr.store.object.aws_credentials import ContainerCredentials, get_profile_credentials
from tessarr.store.object.aws_profile import read_profile
from tessarr.store.object.common_options import COMMON_OPTIONS, TIMEOUT, USE_FSSPEC
from tessarr.store.object.engine_arguments import build_bucket_arguments
from tessarr.store.object.option_values import (
    to_bool,
    to_count,
    to_path,
    to_text,
    to_tls_settings,
    to_url,
)
from tessarr.store.object.options import (
    IGNORED,
    Accept,
    Nest,
    Refuse,
    Rule,
    Set,
    Settings,
    Split,
    add_prefixes,
    merge_settings,
    read_environment,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tessarr.store.object.aws_profile import Profile
    from tessarr.store.object.engine_arguments import EngineArguments

__all__ = ["S3_ENVIRONMENT", "S3_OPTIONS", "resolve_s3"]


def _to_requester(value: Any) -> bool:
    """Return whether the requester pays: object_store and botocore write "requester"."""
    return str(value).lower() == "requester" or to_bool(value)


def _to_encryption(value: Any) -> str:
    kinds = ("AES256", "aws:kms", "aws:kms:dsse", "sse-c")
    if value not in kinds:
        raise ValueError(f"must be one of {', '.join(map(repr, kinds))}, not {safe_repr(value)}")
    return str(value)


def _to_base64_key(value: Any) -> str:
    """Return a customer key as text; botocore takes its bytes."""
    if isinstance(value, str):
        value = value.encode("latin-1")
    if not isinstance(value, bytes | bytearray) or len(value) != 32:
        raise ValueError("must be a key of 32 bytes")
    return b64encode(value).decode()


def _to_checksum(value: Any) -> str:
    if str(value).lower() not in {"sha256", "crc64nvme"}:
        raise ValueError(f"must be 'SHA256' or 'CRC64NVME', not {safe_repr(value)}")
    return str(value).lower()


def _to_source(value: Any) -> str:
    if value not in _SOURCES:
        raise ValueError(f"must be one of {', '.join(map(repr, _SOURCES))}, not {safe_repr(value)}")
    return str(value)


def _to_further_attempts(value: Any) -> int:
    return max(to_count(value) - 1, 0)


# object_store


def _further(name: str, convert: Any = to_text) -> Set:
    return Set(f"aws_{name}", convert)


_BUCKET: Final = Refuse("the URL names the bucket")

_ENGINE_OPTIONS: Final[dict[str, Rule]] = {
    "access_key_id": Set("access_key_id"),
    "secret_access_key": Set("secret_access_key"),
    "session_token": Set("session_token"),
    "token": Set("session_token"),
    "region": Set("region"),
    "default_region": Set("region"),
    "bucket": _BUCKET,
    "bucket_name": _BUCKET,
    "endpoint": Set("endpoint", to_url),
    "endpoint_url": Set("endpoint", to_url),
    "endpoint_url_s3": Set("endpoint", to_url),
    "endpoint_url_sts": _further("endpoint_url_sts", to_url),
    "virtual_hosted_style_request": Set("virtual_hosted", to_bool),
    "s3_express": _further("s3_express", to_bool),
    "imdsv1_fallback": _further("imdsv1_fallback", to_bool),
    "metadata_endpoint": _further("metadata_endpoint", to_url),
    "unsigned_payload": _further("unsigned_payload", to_bool),
    "checksum_algorithm": _further("checksum_algorithm", _to_checksum),
    "container_credentials_relative_uri": _further("container_credentials_relative_uri"),
    "container_credentials_full_uri": _further("container_credentials_full_uri"),
    "container_authorization_token_file": _further("container_authorization_token_file"),
    "web_identity_token_file": _further("web_identity_token_file"),
    "role_arn": _further("role_arn"),
    "role_session_name": _further("role_session_name"),
    "skip_signature": Set("anonymous", to_bool),
    "copy_if_not_exists": IGNORED,  # stores do not copy in the bucket
    "conditional_put": Set("conditional_writes", lambda value: value != "disabled"),
    "disable_tagging": IGNORED,  # stores do not tag
    "disable_bulk_delete": _further("disable_bulk_delete", to_bool),
    "request_payer": Set("requester_pays", _to_requester),
    "server_side_encryption": Set("server_side_encryption", _to_encryption),
    "sse_kms_key_id": Set("kms_key_id"),
    "sse_bucket_key_enabled": _further("sse_bucket_key_enabled", to_bool),
    "sse_customer_key_base64": _further("sse_customer_key_base64"),
    # Names of environment variables.
    "security_token": Set("session_token"),
    "default_profile": Set("profile"),
    "config_file": _further("config_file", to_path),
    "shared_credentials_file": _further("shared_credentials_file", to_path),
    "max_attempts": Set("retries", _to_further_attempts),
    "ec2_metadata_service_endpoint": _further("metadata_endpoint", to_url),
}

# botocore


def _to_anonymous(value: Any) -> Settings:
    """Return the settings of a signature version; ``botocore.UNSIGNED`` is an object."""
    if getattr(value, "__class__", None).__module__.startswith("botocore"):
        return {"anonymous": True}
    if value not in ("s3v4", "v4"):
        raise ValueError(f"must be 's3v4' or botocore.UNSIGNED, not {safe_repr(value)}")
    return {}


def _to_virtual_hosted(value: Any) -> Settings:
    styles: dict[Any, Settings] = {
        "auto": {},
        "path": {"virtual_hosted": False},
        "virtual": {"virtual_hosted": True},
    }
    if value not in styles:
        raise ValueError(f"must be 'auto', 'path' or 'virtual', not {safe_repr(value)}")
    return styles[value]


_NAME_ENDPOINT: Final = "pass the address of the service as the option endpoint_url"

_CONFIG_OPTIONS: Final[dict[str, Rule]] = {
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
            "total_max_attempts": Set("retries", _to_further_attempts),
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

_CREDENTIAL_OPTIONS: Final[dict[str, Rule]] = {
    "aws_access_key_id": Set("access_key_id"),
    "aws_secret_access_key": Set("secret_access_key"),
    "aws_session_token": Set("session_token"),
}

_CLIENT_KWARGS: Final[dict[str, Rule]] = {
    **_CREDENTIAL_OPTIONS,
    "api_version": IGNORED,
    "config": Refuse("pass the arguments of botocore.config.Config as config_kwargs"),
    "endpoint_url": Set("endpoint", to_url),
    "region_name": Set("region"),
    "use_ssl": Set("use_ssl", to_bool),
    "verify": Split(to_tls_settings),
}


def _header(name: str) -> Set:
    return Set("headers", key=name)


_REQUEST_OPTIONS: Final[dict[str, Rule]] = {
    "ACL": _header("x-amz-acl"),
    "BucketKeyEnabled": _further("sse_bucket_key_enabled", to_bool),
    "ChecksumAlgorithm": _further("checksum_algorithm", _to_checksum),
    "ExpectedBucketOwner": _header("x-amz-expected-bucket-owner"),
    "GrantFullControl": _header("x-amz-grant-full-control"),
    "GrantRead": _header("x-amz-grant-read"),
    "GrantReadACP": _header("x-amz-grant-read-acp"),
    "GrantWriteACP": _header("x-amz-grant-write-acp"),
    "RequestPayer": Set("requester_pays", _to_requester),
    "SSECustomerAlgorithm": Split(lambda _: {"server_side_encryption": "sse-c"}),
    "SSECustomerKey": _further("sse_customer_key_base64", _to_base64_key),
    "SSECustomerKeyMD5": IGNORED,  # the engine computes it
    "SSEKMSEncryptionContext": _header("x-amz-server-side-encryption-context"),
    "SSEKMSKeyId": Set("kms_key_id"),
    "ServerSideEncryption": Set("server_side_encryption", _to_encryption),
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

# s3fs

_FILE_SYSTEM_OPTIONS: Final[dict[str, Rule]] = {
    "anon": Set("anonymous", to_bool),
    "cache_regions": Accept((False,), "pass the region of the bucket as the option region"),
    "client_kwargs": Nest(_CLIENT_KWARGS),
    "config_kwargs": Nest(_CONFIG_OPTIONS),
    "key": Set("access_key_id"),
    "local_expiry_check": IGNORED,
    "password": Set("secret_access_key"),
    "profile": Set("profile"),
    "requester_pays": Set("requester_pays", _to_requester),
    "s3_additional_kwargs": Nest(_REQUEST_OPTIONS),
    "secret": Set("secret_access_key"),
    "session": Refuse(
        "pass a profile, keys or a callable as credentials, such as "
        "tessarr.stores.S3Store(…, credentials=…)"
    ),
    "use_ssl": Set("use_ssl", to_bool),
    "username": Set("access_key_id"),
}

_OWN_OPTIONS: Final[dict[str, Rule]] = {
    "anonymous": Set("anonymous", to_bool),
    "credential_source": Set("credential_source", _to_source),
    "kms_key_id": Set("kms_key_id"),
    "virtual_hosted": Set("virtual_hosted", to_bool),
}

S3_OPTIONS: Final[dict[str, Rule]] = {
    **add_prefixes(COMMON_OPTIONS | _ENGINE_OPTIONS | {"profile": Set("profile")}, "aws_"),
    **_FILE_SYSTEM_OPTIONS,
    **_OWN_OPTIONS,
}
"""The rule for each name of `storage_options` of S3 stores."""

_NAMES: Final = {
    "access_key_id": "aws_access_key_id",
    "secret_access_key": "aws_secret_access_key",
    "session_token": "aws_session_token",
    "region": "aws_region",
    "endpoint": "aws_endpoint",
    "virtual_hosted": "aws_virtual_hosted_style_request",
    "anonymous": "aws_skip_signature",
    "requester_pays": "aws_request_payer",
    "server_side_encryption": "aws_server_side_encryption",
    "kms_key_id": "aws_sse_kms_key_id",
}
"""The engine's options for the keywords of `S3Store`."""

_CREDENTIALS: Final = frozenset(
    {
        "access_key_id",
        "secret_access_key",
        "session_token",
        "anonymous",
        "credentials",
        "aws_web_identity_token_file",
        "aws_role_arn",
        "aws_role_session_name",
    }
)
"""Settings that only belong together if one source has them."""

_CONTAINER: Final = frozenset(
    {
        "aws_container_credentials_relative_uri",
        "aws_container_credentials_full_uri",
        "aws_container_authorization_token_file",
    }
)

_SOURCES: Final[Mapping[str, frozenset[str]]] = {
    "environment": frozenset({"access_key_id", "secret_access_key", "session_token"}),
    "profile": frozenset(),
    "ecs": _CONTAINER,
    "imds": frozenset(),
}
"""The sources to which credentials can be restricted, and their settings in the environment."""

S3_ENVIRONMENT: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_SECURITY_TOKEN",
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT",
    "AWS_ENDPOINT_URL_STS",
    "AWS_VIRTUAL_HOSTED_STYLE_REQUEST",
    "AWS_S3_EXPRESS",
    "AWS_IMDSV1_FALLBACK",
    "AWS_METADATA_ENDPOINT",
    "AWS_EC2_METADATA_SERVICE_ENDPOINT",
    "AWS_UNSIGNED_PAYLOAD",
    "AWS_CHECKSUM_ALGORITHM",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_SKIP_SIGNATURE",
    "AWS_CONDITIONAL_PUT",
    "AWS_DISABLE_BULK_DELETE",
    "AWS_REQUEST_PAYER",
    "AWS_SERVER_SIDE_ENCRYPTION",
    "AWS_SSE_KMS_KEY_ID",
    "AWS_SSE_BUCKET_KEY_ENABLED",
    "AWS_SSE_CUSTOMER_KEY_BASE64",
    "AWS_CA_BUNDLE",
    "AWS_MAX_ATTEMPTS",
)
"""Environment variables; an earlier one has precedence over a later one of the same meaning."""


def resolve_s3(bucket: str, prefix: str, explicit: Mapping[str, Any]) -> EngineArguments:
    """Return the arguments of the engine for a bucket.

    Explicit settings have precedence over the environment, and the environment over profiles. An
    explicit profile replaces the keys of the environment.

    Parameters
    ----------
    bucket, prefix
        The location.
    explicit
        Settings of the user.

    Raises
    ------
    ArgumentError
        If the settings contradict each other, or a profile is absent.
    UnsupportedError
        ``missing_package``, if the credentials need botocore, which is not installed.
    """
    environment = read_environment(S3_OPTIONS, S3_ENVIRONMENT, os.environ, "S3Store")
    if os.environ.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "").lower() == "true":
        environment.pop("endpoint", None)
    if explicit.get("aws_container_credentials_full_uri"):
        environment.pop("aws_container_credentials_relative_uri", None)
    source = explicit.get("credential_source")
    if source is not None:
        others = (_CREDENTIALS | _CONTAINER) - _SOURCES[source]
        environment = {n: value for n, value in environment.items() if n not in others}
    elif explicit.get("profile"):
        environment = {n: value for n, value in environment.items() if n not in _CREDENTIALS}
    settings = merge_settings(explicit, environment, _CREDENTIALS)
    profile = _read_profile(settings)
    if profile is not None:
        settings = {**profile.get_settings(), **settings}
        is_source = source in {None, "profile"}
        if is_source and not any(settings.get(name) for name in _CREDENTIALS):
            settings.update(get_profile_credentials(profile))
    _complete_credentials(settings)
    _complete_endpoint(settings, bucket)
    if bucket.endswith("--x-s3"):  # a directory bucket, with credentials of a session
        settings.setdefault("aws_s3_express", True)
    return build_bucket_arguments("s3", f"s3://{bucket}", prefix, settings, _NAMES)


def _read_profile(settings: Settings) -> Profile | None:
    """Take the name of a profile and its files out of settings, and return the profile."""
    variables = ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE")
    files = {name: settings.pop(name.lower()) for name in variables if name.lower() in settings}
    return read_profile(settings.pop("profile", None), ChainMap(files, os.environ))


def _complete_credentials(settings: Settings) -> None:
    """Check the keys, and choose the source of credentials if no setting does."""
    source = settings.pop("credential_source", None)
    if settings.get("anonymous"):
        for name in _CREDENTIALS - {"anonymous"}:
            settings.pop(name, None)
        return
    has_key, has_secret = (name in settings for name in ("access_key_id", "secret_access_key"))
    if has_key != has_secret:
        present, absent = ("key", "secret") if has_key else ("secret", "key")
        raise ArgumentError(
            f"S3Store: the credentials have a {present} and lack a {absent}; pass the options "
            "key and secret, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    if has_key or "credentials" in settings or "aws_web_identity_token_file" in settings:
        return
    full_uri = settings.get("aws_container_credentials_full_uri")
    if full_uri and "aws_container_authorization_token_file" not in settings:
        # The engine requires the file of a token.
        settings["credentials"] = ContainerCredentials(full_uri)
    elif (
        not full_uri
        and "aws_container_credentials_relative_uri" not in settings
        and (source not in {None, "imds"} or _is_metadata_disabled())
    ):
        settings["anonymous"] = True


def _is_metadata_disabled() -> bool:
    return os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true"


def _complete_endpoint(settings: Settings, bucket: str) -> None:
    """Put the bucket into the host of an endpoint in virtual-host style."""
    endpoint = settings.get("endpoint")
    if settings.pop("use_ssl", True) is False and endpoint is None:
        raise ArgumentError(
            "S3Store: use_ssl=False needs an endpoint; pass endpoint_url='http://host:port'"
        )
    if endpoint is not None and settings.get("virtual_hosted"):
        scheme, _, host = endpoint.partition("://")
        if not host.startswith(f"{bucket}."):
            settings["endpoint"] = f"{scheme}://{bucket}.{host}"
