"""Options of S3 stores: names of s3fs, botocore and object_store, and environment variables."""

from __future__ import annotations

import os
from collections import ChainMap
from typing import TYPE_CHECKING, Any, Final

from tessarr.errors import ArgumentError
from tessarr.store.object.aws_credentials import ContainerCredentials, get_profile_credentials
from tessarr.store.object.aws_profile import read_profile
from tessarr.store.object.botocore_options import (
    ATTEMPTS,
    CHECKSUM,
    CLIENT_OPTIONS,
    CONFIG_OPTIONS,
    ENCRYPTION,
    REQUEST_OPTIONS,
    REQUESTER_PAYS,
)
from tessarr.store.object.common_options import COMMON_OPTIONS
from tessarr.store.object.engine_arguments import build_bucket_arguments
from tessarr.store.object.option_values import one_of, to_bool, to_path, to_text, to_url
from tessarr.store.object.options import (
    IGNORED,
    Accept,
    Nest,
    Refuse,
    Rule,
    Set,
    Settings,
    add_prefixes,
    merge_settings,
    omit,
    read_environment,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tessarr.store.object.aws_profile import Profile
    from tessarr.store.object.engine_arguments import EngineArguments

__all__ = ["S3_ENVIRONMENT", "S3_OPTIONS", "resolve_s3"]


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


def _further(name: str, convert: Any = to_text) -> Set:
    return Set(f"aws_{name}", convert)


_BUCKET: Final = Refuse("the URL names the bucket")

_ENGINE_OPTIONS: Final[dict[str, Rule]] = {
    "access_key_id": Set("access_key_id"),
    "secret_access_key": Set("secret_access_key"),
    "session_token": Set("session_token"),
    "security_token": Set("session_token"),
    "profile": Set("profile"),
    "default_profile": Set("profile"),
    "region": Set("region"),
    "default_region": Set("region"),
    "bucket": _BUCKET,
    "bucket_name": _BUCKET,
    "endpoint_url_s3": Set("endpoint", to_url),
    "endpoint_url": Set("endpoint", to_url),
    "endpoint": Set("endpoint", to_url),
    "endpoint_url_sts": _further("endpoint_url_sts", to_url),
    "virtual_hosted_style_request": Set("virtual_hosted", to_bool),
    "s3_express": _further("s3_express", to_bool),
    "imdsv1_fallback": _further("imdsv1_fallback", to_bool),
    "metadata_endpoint": _further("metadata_endpoint", to_url),
    "ec2_metadata_service_endpoint": _further("metadata_endpoint", to_url),
    "unsigned_payload": _further("unsigned_payload", to_bool),
    "checksum_algorithm": CHECKSUM,
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
    "request_payer": REQUESTER_PAYS,
    "server_side_encryption": ENCRYPTION,
    "sse_kms_key_id": Set("kms_key_id"),
    "sse_bucket_key_enabled": _further("sse_bucket_key_enabled", to_bool),
    "sse_customer_key_base64": _further("sse_customer_key_base64"),
    "config_file": _further("config_file", to_path),
    "shared_credentials_file": _further("shared_credentials_file", to_path),
    "max_attempts": ATTEMPTS,
}
"""Options of ``object_store`` and of environment variables; an earlier one has precedence."""

_FILE_SYSTEM_OPTIONS: Final[dict[str, Rule]] = {
    "aws_token": Set("session_token"),
    "token": Set("session_token"),
    "anon": Set("anonymous", to_bool),
    "cache_regions": Accept((False,), "pass the region of the bucket as the option region"),
    "client_kwargs": Nest(CLIENT_OPTIONS),
    "config_kwargs": Nest(CONFIG_OPTIONS),
    "key": Set("access_key_id"),
    "local_expiry_check": IGNORED,
    "password": Set("secret_access_key"),
    "requester_pays": REQUESTER_PAYS,
    "s3_additional_kwargs": Nest(REQUEST_OPTIONS),
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
    "credential_source": Set("credential_source", one_of(*_SOURCES)),
    "kms_key_id": Set("kms_key_id"),
    "virtual_hosted": Set("virtual_hosted", to_bool),
}

S3_OPTIONS: Final[dict[str, Rule]] = {
    **add_prefixes(COMMON_OPTIONS | _ENGINE_OPTIONS, "aws_"),
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

S3_ENVIRONMENT: Final = (
    *(f"AWS_{name.upper()}" for name, rule in _ENGINE_OPTIONS.items() if isinstance(rule, Set)),
    "AWS_CA_BUNDLE",
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
        environment = omit(environment, others)
    elif explicit.get("profile"):
        environment = omit(environment, _CREDENTIALS)
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
