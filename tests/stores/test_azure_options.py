"""Options of Azure stores: names, arguments of the engine, and environment variables."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from stores.option_tables import interpret
from tessarr.errors import ArgumentError
from tessarr.store.object.azure_options import AZURE_OPTIONS, resolve_azure

pytestmark = pytest.mark.usefixtures("empty_environment")

CONNECTION_STRING = (
    "DefaultEndpointsProtocol=https;AccountName=acct;AccountKey=a2V5PQ==;"
    "EndpointSuffix=core.windows.net"
)


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({"account_name": "a", "account_key": "k"}, {"account_name": "a", "account_key": "k"}),
        ({"azure_storage_account_name": "a"}, {"account_name": "a"}),
        ({"access_key": "k", "master_key": "k"}, {"account_key": "k"}),
        ({"sas_token": "?sv=1&sig=2"}, {"sas_token": "?sv=1&sig=2"}),
        ({"azure_storage_sas_key": "sv=1"}, {"sas_token": "sv=1"}),
        ({"credential": "sv=1&sig=2"}, {"sas_token": "sv=1&sig=2"}),
        ({"credential": "a2V5"}, {"account_key": "a2V5"}),
        (
            {"client_id": "i", "client_secret": "s", "tenant_id": "t"},
            {"client_id": "i", "client_secret": "s", "tenant_id": "t"},
        ),
        ({"azure_authority_id": "t"}, {"tenant_id": "t"}),
        ({"anon": True}, {"anonymous": True}),
        (
            {"account_host": "a.blob.core.windows.net"},
            {"endpoint": "https://a.blob.core.windows.net"},
        ),
        ({"azure_endpoint": "http://h:1/a/"}, {"endpoint": "http://h:1/a"}),
        (
            {"connection_timeout": 2, "read_timeout": 3, "socket_timeout": 3},
            {"connect_timeout_s": 2.0, "timeout_s": 3.0},
        ),
        ({"msi_endpoint": "http://h"}, {"azure_msi_endpoint": "http://h"}),
        ({"azure_use_azure_cli": "true"}, {"azure_use_azure_cli": True}),
        ({"encryption_key": "k"}, {"azure_storage_encryption_key": "k"}),
        ({"location_mode": "primary", "assume_container_exists": True}, {}),
        (
            {"connection_string": CONNECTION_STRING},
            {"account_name": "acct", "account_key": "a2V5PQ=="},
        ),
        (
            {
                "connection_string": "AccountName=a;AccountKey=k;"
                "EndpointSuffix=core.chinacloudapi.cn"
            },
            {
                "account_name": "a",
                "account_key": "k",
                "endpoint": "https://a.blob.core.chinacloudapi.cn",
            },
        ),
        (
            {
                "connection_string": "BlobEndpoint=https://a.blob.core.windows.net/;SharedAccessSignature=sv=1&sig=x%3D"
            },
            {
                "account_name": "a",
                "sas_token": "sv=1&sig=x%3D",
                "endpoint": "https://a.blob.core.windows.net",
            },
        ),
        (
            {"connection_string": "AccountName=d1;AccountKey=k;BlobEndpoint=http://h:10000/d1;"},
            {"account_name": "d1", "account_key": "k", "endpoint": "http://h:10000/d1"},
        ),
    ],
)
def test_azure_option_has_setting(options: dict[str, Any], settings: dict[str, Any]) -> None:
    assert interpret(AZURE_OPTIONS, options) == settings


def test_azure_development_storage_is_emulator() -> None:
    settings = interpret(AZURE_OPTIONS, {"connection_string": "UseDevelopmentStorage=true"})
    assert settings["account_name"] == "devstoreaccount1"
    assert settings["endpoint"] == "http://127.0.0.1:10000/devstoreaccount1"
    assert len(base64.b64decode(settings["account_key"])) == 64


def test_azure_token_credential_becomes_callable() -> None:
    expiry = datetime(2030, 1, 1, tzinfo=UTC)

    class Credential:
        def get_token(self, scope: str) -> Any:
            assert scope == "https://storage.azure.com/.default"
            return SimpleNamespace(token="t", expires_on=int(expiry.timestamp()))

    class AsynchronousCredential:
        async def get_token(self, scope: str) -> Any:
            raise AssertionError(scope)

    credentials = interpret(AZURE_OPTIONS, {"credential": Credential()})["credentials"]
    assert credentials() == {"token": "t", "expires_at": expiry}
    with pytest.raises(ArgumentError, match=r"azure\.identity\.aio"):
        interpret(AZURE_OPTIONS, {"credential": AsynchronousCredential()})


def test_azure_account_is_required() -> None:
    with pytest.raises(ArgumentError, match=r"account of the container 'box'.*connection_string"):
        resolve_azure("box", "", {})


@pytest.mark.parametrize(
    ("environment", "explicit", "options"),
    [
        (
            {"AZURE_STORAGE_ACCOUNT": "a", "AZURE_STORAGE_KEY": "k"},
            {},
            {"azure_storage_account_name": "a", "azure_storage_account_key": "k"},
        ),
        (
            {"AZURE_STORAGE_CONNECTION_STRING": "AccountName=a;AccountKey=k"},
            {},
            {"azure_storage_account_name": "a", "azure_storage_account_key": "k"},
        ),
        (
            {"AZURE_STORAGE_ACCOUNT_NAME": "a", "AZURE_STORAGE_SAS_TOKEN": "sv=1"},
            {"account_name": "a"},
            {"azure_storage_account_name": "a", "azure_storage_sas_key": "sv=1"},
        ),
        (
            {"AZURE_STORAGE_CONNECTION_STRING": "AccountName=a;AccountKey=k"},
            {"account_name": "b"},
            {"azure_storage_account_name": "b"},
        ),
        (
            {"AZURE_STORAGE_ACCOUNT": "a", "AZURE_STORAGE_KEY": "k"},
            {"sas_token": "sv=1"},
            {"azure_storage_account_name": "a", "azure_storage_sas_key": "sv=1"},
        ),
        (
            {
                "AZURE_STORAGE_ACCOUNT": "a",
                "AZURE_CLIENT_ID": "i",
                "AZURE_CLIENT_SECRET": "s",
                "AZURE_TENANT_ID": "t",
                "AZURE_STORAGE_CLIENT_ID": "j",
            },
            {},
            {
                "azure_storage_account_name": "a",
                "azure_storage_client_id": "j",
                "azure_storage_client_secret": "s",
                "azure_storage_tenant_id": "t",
            },
        ),
        (
            {"AZURE_STORAGE_ACCOUNT": "a", "AZURE_STORAGE_ANON": "true"},
            {},
            {"azure_storage_account_name": "a", "azure_skip_signature": "true"},
        ),
        (
            {"AZURE_STORAGE_ACCOUNT": "a", "IDENTITY_ENDPOINT": "http://h"},
            {},
            {"azure_storage_account_name": "a", "azure_msi_endpoint": "http://h"},
        ),
    ],
)
def test_azure_environment_has_options(
    environment: dict[str, str],
    explicit: dict[str, Any],
    options: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert resolve_azure("box", "", explicit).options == options
