"""AWS credentials of the resource ``aws_credentials``."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from tessarr.errors import UnsupportedError
from tessarr.format.install_hints import scheme_hint

__all__ = ["session"]


def session(json: dict[str, Any], host: str | None = None) -> Any:
    """Return an aiobotocore session with the credentials that `json` describes.

    The session fetches credentials before the first request and refreshes them after they expire.
    With `host`, each request has this value in its ``Host`` header.

    Raises
    ------
    UnsupportedError
        If s3fs is not installed.
    """
    try:
        from aiobotocore.session import AioSession
    except ImportError as error:
        raise UnsupportedError(
            f"the driver 's3' needs the package s3fs{scheme_hint('s3')}",
            kind="missing_package",
            extension="s3",
        ) from error

    class Session(AioSession):  # type: ignore[misc] # untyped
        """A session that is pickled as its JSON, so that stores with equal JSON are shared."""

        only_credentials = host is None  # the session changes no requests

        def __reduce__(self) -> Any:
            return session, (json, host)

        def __repr__(self) -> str:
            return f"Session({json!r}, {host!r})"

    new = Session(profile=json.get("profile"))
    if host:
        new.register("request-created.s3", partial(_address, host))
    for option, name in (
        ("credentials_file", "filename"),
        ("credentials_file", "credentials_file"),
        ("config_file", "config_file"),
        ("ec2_metadata_service_endpoint", "metadata_endpoint"),
    ):
        if name in json:
            new.set_config_variable(option, json[name])
    provider = _provider(new, json)
    if provider is not None:
        from aiobotocore.credentials import AioCredentialResolver

        new.register_component("credential_provider", AioCredentialResolver([provider]))
    return new


def _address(host: str, request: Any, **_: Any) -> None:
    request.headers["Host"] = host


def _provider(made: Any, json: dict[str, Any]) -> Any:
    """Return the only credential provider to use, or None to try all in order."""
    from aiobotocore import credentials, utils

    if json["type"] == "environment":
        return credentials.AioEnvProvider()
    if json["type"] == "imds":
        fetcher = utils.AioInstanceMetadataFetcher(
            timeout=made.get_config_variable("metadata_service_timeout"),
            num_attempts=made.get_config_variable("metadata_service_num_attempts"),
            user_agent=made.user_agent(),
            config={
                "ec2_metadata_service_endpoint": made.get_config_variable(
                    "ec2_metadata_service_endpoint"
                ),
                "ec2_metadata_service_endpoint_mode": "ipv4",
            },
        )
        return credentials.AioInstanceMetadataProvider(iam_role_fetcher=fetcher)
    if json["type"] == "ecs":
        environment = dict(os.environ)
        if "endpoint" in json:
            environment.pop("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", None)
            environment["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = json["endpoint"]
        if "auth_token_file" in json:
            environment["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = json["auth_token_file"]
        return credentials.AioContainerProvider(environ=environment)
    if json["type"] == "profile":
        profiles = [
            one
            for one in made.get_component("credential_provider").providers
            if one.METHOD not in {"env", "container-role", "iam-role"}
        ]
        from aiobotocore.credentials import AioCredentialResolver

        return _All(AioCredentialResolver(profiles))
    return None


class _All:
    """Several credential providers as one."""

    METHOD = CANONICAL_NAME = "tessarr"

    def __init__(self, resolver: Any) -> None:
        self._resolver = resolver

    async def load(self) -> Any:
        return await self._resolver.load_credentials()
