"""Options of Azure stores: names of adlfs and object_store, and environment variables."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from tessarr.errors import ArgumentError
from tessarr.store.object.azure_credentials import parse_connection_string, read_credential
from tessarr.store.object.common_options import COMMON_OPTIONS, TIMEOUT, USE_FSSPEC
from tessarr.store.object.engine_arguments import build_bucket_arguments
from tessarr.store.object.option_values import to_bool, to_seconds, to_text, to_url
from tessarr.store.object.options import (
    IGNORED,
    Accept,
    Refuse,
    Rule,
    Set,
    Split,
    add_prefixes,
    merge_settings,
    omit,
    read_environment,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tessarr.store.object.engine_arguments import EngineArguments

__all__ = ["AZURE_ENVIRONMENT", "AZURE_OPTIONS", "resolve_azure"]


def _to_host_url(value: Any) -> str:
    """Return the address of an account's host."""
    text = to_text(value)
    return to_url(text if "://" in text else f"https://{text}")


_KEY: Final = Set("account_key")
_ACCOUNT: Final = Set("account_name")
_TENANT: Final = Set("tenant_id")
_SAS: Final = Set("sas_token")
_CONTAINER: Final = Refuse("the URL names the container")
_MSI_ENDPOINT: Final = Set("azure_msi_endpoint", to_url)

_ENGINE_OPTIONS: Final[dict[str, Rule]] = {
    "account": _ACCOUNT,
    "account_name": _ACCOUNT,
    "account_key": _KEY,
    "access_key": _KEY,
    "master_key": _KEY,
    "key": _KEY,
    "sas_key": _SAS,
    "sas_token": _SAS,
    "token": Set("bearer_token"),
    "bearer_token": Set("bearer_token"),
    "client_id": Set("client_id"),
    "client_secret": Set("client_secret"),
    "tenant_id": _TENANT,
    "authority_id": _TENANT,
    "authority_host": Set("azure_storage_authority_host"),
    "use_emulator": Accept(
        (False, "false"), "pass connection_string='UseDevelopmentStorage=true' instead"
    ),
    "endpoint": Set("endpoint", to_url),
    "use_fabric_endpoint": Set("azure_use_fabric_endpoint", to_bool),
    "msi_endpoint": _MSI_ENDPOINT,
    "identity_endpoint": _MSI_ENDPOINT,
    "object_id": Set("azure_object_id"),
    "msi_resource_id": Set("azure_msi_resource_id"),
    "federated_token_file": Set("azure_federated_token_file"),
    "use_azure_cli": Set("azure_use_azure_cli", to_bool),
    "skip_signature": Set("anonymous", to_bool),
    "container_name": _CONTAINER,
    "disable_tagging": IGNORED,  # stores do not tag
    "fabric_token_service_url": Set("azure_fabric_token_service_url", to_url),
    "fabric_workload_host": Set("azure_fabric_workload_host"),
    "fabric_session_token": Set("azure_fabric_session_token"),
    "fabric_cluster_identifier": Set("azure_fabric_cluster_identifier"),
    "credential_type": Set("azure_credential_type"),
    "encryption_key": Set("azure_storage_encryption_key"),
    "connection_string": Split(parse_connection_string),
    "anon": Set("anonymous", to_bool),
}

_FILE_SYSTEM_OPTIONS: Final[dict[str, Rule]] = {
    "account_host": Set("endpoint", _to_host_url),
    "assume_container_exists": IGNORED,
    "connection_timeout": Set("connect_timeout_s", to_seconds),
    "credential": Split(read_credential),
    "location_mode": Accept(("primary",), USE_FSSPEC),
    "request_session": Refuse(USE_FSSPEC),
    "socket_timeout": TIMEOUT,
}

AZURE_OPTIONS: Final[dict[str, Rule]] = {
    **add_prefixes(COMMON_OPTIONS | _ENGINE_OPTIONS, "azure_storage_", "azure_"),
    **_FILE_SYSTEM_OPTIONS,
    "anonymous": Set("anonymous", to_bool),
}
"""The rule for each name of `storage_options` of Azure stores."""

AZURE_ENVIRONMENT: Final = (
    "AZURE_STORAGE_ACCOUNT",
    "AZURE_STORAGE_ACCOUNT_NAME",
    "AZURE_STORAGE_KEY",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_ACCESS_KEY",
    "AZURE_STORAGE_MASTER_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
    "AZURE_STORAGE_SAS_KEY",
    "AZURE_STORAGE_TOKEN",
    "AZURE_STORAGE_ENDPOINT",
    "AZURE_ENDPOINT",
    "AZURE_STORAGE_CONNECTION_STRING",
    "AZURE_STORAGE_ANON",
    "AZURE_SKIP_SIGNATURE",
    "AZURE_STORAGE_CLIENT_ID",
    "AZURE_CLIENT_ID",
    "AZURE_STORAGE_CLIENT_SECRET",
    "AZURE_CLIENT_SECRET",
    "AZURE_STORAGE_TENANT_ID",
    "AZURE_TENANT_ID",
    "AZURE_AUTHORITY_ID",
    "AZURE_AUTHORITY_HOST",
    "AZURE_FEDERATED_TOKEN_FILE",
    "AZURE_MSI_ENDPOINT",
    "IDENTITY_ENDPOINT",
    "AZURE_OBJECT_ID",
    "AZURE_MSI_RESOURCE_ID",
    "AZURE_USE_AZURE_CLI",
    "AZURE_USE_FABRIC_ENDPOINT",
    "AZURE_FABRIC_TOKEN_SERVICE_URL",
    "AZURE_FABRIC_WORKLOAD_HOST",
    "AZURE_FABRIC_SESSION_TOKEN",
    "AZURE_FABRIC_CLUSTER_IDENTIFIER",
    "AZURE_CREDENTIAL_TYPE",
    "AZURE_STORAGE_ENCRYPTION_KEY",
)
"""Environment variables; an earlier one has precedence over a later one of the same meaning."""

_NAMES: Final = {
    "account_name": "azure_storage_account_name",
    "account_key": "azure_storage_account_key",
    "sas_token": "azure_storage_sas_key",
    "bearer_token": "azure_storage_token",
    "client_id": "azure_storage_client_id",
    "client_secret": "azure_storage_client_secret",
    "tenant_id": "azure_storage_tenant_id",
    "endpoint": "azure_storage_endpoint",
    "anonymous": "azure_skip_signature",
}

_CREDENTIALS: Final = frozenset(
    {
        "account_key",
        "anonymous",
        "azure_federated_token_file",
        "bearer_token",
        "client_id",
        "client_secret",
        "credentials",
        "sas_token",
        "tenant_id",
    }
)
_ACCOUNT_SETTINGS: Final = frozenset({"account_name", "account_key", "sas_token", "endpoint"})
"""Settings of the environment that hold for one account."""


def resolve_azure(container: str, prefix: str, explicit: Mapping[str, Any]) -> EngineArguments:
    """Return the arguments of the engine for a container.

    Parameters
    ----------
    container, prefix
        The location.
    explicit
        Settings of the user, which have precedence over the environment. Keys of the environment
        do not apply to another account than that of the environment.

    Raises
    ------
    ArgumentError
        If no setting names the account.
    """
    environment = read_environment(AZURE_OPTIONS, AZURE_ENVIRONMENT, os.environ, "AzureStore")
    account = explicit.get("account_name")
    if account and environment.get("account_name", account) != account:
        environment = omit(environment, _ACCOUNT_SETTINGS)
    settings = merge_settings(explicit, environment, _CREDENTIALS)
    if not settings.get("account_name"):
        raise ArgumentError(
            f"AzureStore: no setting names the account of the container {container!r}; pass the "
            "option account_name or connection_string, set AZURE_STORAGE_ACCOUNT, or open "
            f"'az://{container}@ACCOUNT.blob.core.windows.net/…'"
        )
    return build_bucket_arguments("azure", f"az://{container}", prefix, settings, _NAMES)
