"""Options of object stores: every name of fsspec's file systems and of object_store."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from inspect import Parameter, signature
from types import SimpleNamespace
from typing import Any

import pytest

from tessarr.errors import ArgumentError
from tessarr.store.object.azure_options import AZURE_ENVIRONMENT, AZURE_OPTIONS, resolve_azure
from tessarr.store.object.common_options import COMMON_OPTIONS
from tessarr.store.object.gcs_options import GCS_ENVIRONMENT, GCS_OPTIONS, resolve_gcs
from tessarr.store.object.http_options import HTTP_OPTIONS, resolve_http
from tessarr.store.object.options import Nest, OptionTable, Set, interpret_options
from tessarr.store.object.s3_options import S3_ENVIRONMENT, S3_OPTIONS, resolve_s3
from tessarr.store.object.urls import parse_object_url

TABLES = {
    "S3Store": S3_OPTIONS,
    "GCSStore": GCS_OPTIONS,
    "AzureStore": AZURE_OPTIONS,
    "HTTPStore": HTTP_OPTIONS,
}


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Remove all variables and files that settings may come from."""
    words = ("AWS_", "AZURE_", "GOOGLE_", "STORAGE_", "SERVICE_", "IDENTITY_", "CLOUDSDK_")
    for name in list(os.environ):
        if name.startswith(words) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


def read(table: OptionTable, options: dict[str, Any]) -> dict[str, Any]:
    return interpret_options(table, options, "Store")


KEY = bytes(range(32))
KEY_TEXT = base64.b64encode(KEY).decode()


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        # s3fs
        ({"key": "a", "secret": "b", "token": "c"}, ("a", "b", "c")),
        ({"username": "a", "password": "b"}, ("a", "b")),
        (
            {"client_kwargs": {"aws_access_key_id": "a", "aws_secret_access_key": "b"}},
            ("a", "b"),
        ),
        ({"aws_access_key_id": "a", "aws_secret_access_key": "b"}, ("a", "b")),
        ({"access_key_id": "a", "secret_access_key": "b", "aws_token": "c"}, ("a", "b", "c")),
    ],
)
def test_s3_keys_have_many_names(options: dict[str, Any], settings: tuple[str, ...]) -> None:
    names = ("access_key_id", "secret_access_key", "session_token")
    assert read(S3_OPTIONS, options) == dict(zip(names, settings, strict=False))


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({"anon": True}, {"anonymous": True}),
        ({"anon": "true"}, {"anonymous": True}),
        ({"anon": None}, {}),
        ({"skip_signature": "true"}, {"anonymous": True}),
        ({"profile": "lab"}, {"profile": "lab"}),
        ({"endpoint_url": "http://localhost:9000/"}, {"endpoint": "http://localhost:9000"}),
        ({"aws_endpoint_url_s3": "http://localhost"}, {"endpoint": "http://localhost"}),
        ({"endpoint": "https://host/path"}, {"endpoint": "https://host/path"}),
        ({"region": "eu-west-1", "default_region": "eu-west-1"}, {"region": "eu-west-1"}),
        ({"requester_pays": True}, {"requester_pays": True}),
        ({"request_payer": "requester"}, {"requester_pays": True}),
        ({"virtual_hosted_style_request": "false"}, {"virtual_hosted": False}),
        ({"aws_unsigned_payload": True}, {"aws_unsigned_payload": True}),
        ({"checksum_algorithm": "SHA256"}, {"aws_checksum_algorithm": "sha256"}),
        ({"conditional_put": "disabled"}, {"conditional_writes": False}),
        ({"conditional_put": "etag"}, {"conditional_writes": True}),
        ({"s3_express": True}, {"aws_s3_express": True}),
        ({"sse_customer_key_base64": KEY_TEXT}, {"aws_sse_customer_key_base64": KEY_TEXT}),
        ({"use_ssl": False}, {"use_ssl": False}),
        (
            {
                "client_kwargs": {
                    "endpoint_url": "http://host",
                    "region_name": "x",
                    "verify": False,
                    "use_ssl": False,
                }
            },
            {"endpoint": "http://host", "region": "x", "verify": False, "use_ssl": False},
        ),
        ({"client_kwargs": {"verify": "/ca.pem"}}, {"ca_bundle": "/ca.pem"}),
        (
            {
                "config_kwargs": {
                    "read_timeout": 10,
                    "connect_timeout": 2.5,
                    "retries": {"max_attempts": 4, "mode": "standard"},
                    "s3": {"addressing_style": "virtual"},
                    "signature_version": "s3v4",
                    "max_pool_connections": 50,
                    "proxies": {"https": "http://proxy:3128"},
                    "tcp_keepalive": True,
                }
            },
            {
                "timeout_s": 10.0,
                "connect_timeout_s": 2.5,
                "retries": 4,
                "virtual_hosted": True,
                "concurrency": 50,
                "proxy": {"https": "http://proxy:3128"},
            },
        ),
        ({"config_kwargs": {"retries": {"total_max_attempts": 1}}}, {"retries": 0}),
        ({"config_kwargs": {"s3": {"addressing_style": "path"}}}, {"virtual_hosted": False}),
        ({"config_kwargs": {"s3": {"addressing_style": "auto"}}}, {}),
        (
            {"config_kwargs": {"s3": {"payload_signing_enabled": False}}},
            {"aws_unsigned_payload": True},
        ),
        (
            {
                "s3_additional_kwargs": {
                    "ServerSideEncryption": "aws:kms",
                    "SSEKMSKeyId": "k",
                    "BucketKeyEnabled": True,
                    "RequestPayer": "requester",
                    "ACL": "private",
                    "StorageClass": "STANDARD_IA",
                }
            },
            {
                "server_side_encryption": "aws:kms",
                "kms_key_id": "k",
                "aws_sse_bucket_key_enabled": True,
                "requester_pays": True,
                "headers": {"x-amz-acl": "private", "x-amz-storage-class": "STANDARD_IA"},
            },
        ),
        (
            {
                "s3_additional_kwargs": {
                    "SSECustomerAlgorithm": "AES256",
                    "SSECustomerKey": KEY,
                    "SSECustomerKeyMD5": "x",
                }
            },
            {
                "server_side_encryption": "sse-c",
                "aws_sse_customer_key_base64": KEY_TEXT,
            },
        ),
    ],
)
def test_s3_option_has_setting(options: dict[str, Any], settings: dict[str, Any]) -> None:
    assert read(S3_OPTIONS, options) == settings


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({"token": "anon"}, {"anonymous": True}),
        ({"token": "google_default"}, {}),
        ({"token": "cloud"}, {}),
        ({"token": "ya29.text"}, {"bearer_token": "ya29.text"}),
        ({"token": "/keys/a.json"}, {"application_credentials": "/keys/a.json"}),
        ({"token": {"private_key": "k"}}, {"service_account": '{"private_key": "k"}'}),
        ({"service_account_key": "{}"}, {"service_account": "{}"}),
        ({"google_service_account": "/a.json"}, {"service_account": "/a.json"}),
        ({"service_account": {"a": 1}}, {"service_account": '{"a": 1}'}),
        ({"application_credentials": "/a.json"}, {"application_credentials": "/a.json"}),
        ({"bearer_token": "t"}, {"bearer_token": "t"}),
        ({"google_skip_signature": "true"}, {"anonymous": True}),
        ({"endpoint_url": "http://h:1/"}, {"endpoint": "http://h:1"}),
        ({"base_url": "http://h:1"}, {"endpoint": "http://h:1"}),
        ({"project": "p", "requester_pays": True}, {"project": "p", "requester_pays": True}),
        ({"requester_pays": "p"}, {"project": "p", "requester_pays": True}),
        ({"access": "read_only"}, {"read_only": True}),
        ({"access": "full_control"}, {}),
        ({"timeout": 5, "requests_timeout": (3, 5)}, {"timeout_s": 5.0}),
        (
            {"session_kwargs": {"trust_env": True, "headers": {"X-A": "1"}}},
            {"headers": {"x-a": "1"}},
        ),
        ({"consistency": "md5", "check_connection": True, "default_location": "EU"}, {}),
    ],
)
def test_gcs_option_has_setting(options: dict[str, Any], settings: dict[str, Any]) -> None:
    assert read(GCS_OPTIONS, options) == settings


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
    assert read(AZURE_OPTIONS, options) == settings


def test_azure_development_storage_is_emulator() -> None:
    settings = read(AZURE_OPTIONS, {"connection_string": "UseDevelopmentStorage=true"})
    assert settings["account_name"] == "devstoreaccount1"
    assert settings["endpoint"] == "http://127.0.0.1:10000/devstoreaccount1"
    assert len(base64.b64decode(settings["account_key"])) == 64


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({"headers": {"Authorization": "Bearer x"}}, {"headers": {"authorization": "Bearer x"}}),
        ({"headers": [("A", "1")]}, {"headers": {"a": "1"}}),
        ({"params": {"v": 1}}, {"params": {"v": "1"}}),
        ({"ssl": False}, {"verify": False}),
        ({"ssl": True}, {"verify": True}),
        ({"auth": ("me", "pw")}, {"headers": {"authorization": "Basic bWU6cHc="}}),
        ({"cookies": {"a": "1", "b": "2"}}, {"headers": {"cookie": "a=1; b=2"}}),
        (
            {
                "client_kwargs": {"headers": {"B": "2"}, "timeout": 5, "auth": ("me", "pw")},
                "headers": {"A": "1"},
            },
            {"headers": {"b": "2", "authorization": "Basic bWU6cHc=", "a": "1"}, "timeout_s": 5.0},
        ),
        (
            {"client_kwargs": {"timeout": SimpleNamespace(total=7, sock_read=None)}},
            {"timeout_s": 7.0},
        ),
        ({"client_kwargs": {"timeout": SimpleNamespace(total=7, sock_read=2)}}, {"timeout_s": 2.0}),
        ({"simple_links": False, "same_scheme": False, "size_policy": "get"}, {}),
    ],
)
def test_http_option_has_setting(options: dict[str, Any], settings: dict[str, Any]) -> None:
    assert read(HTTP_OPTIONS, options) == settings


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize(
    ("options", "settings"),
    [
        (
            {"timeout": "30s", "connect_timeout": "500ms"},
            {"timeout_s": 30.0, "connect_timeout_s": 0.5},
        ),
        ({"timeout_s": 2, "connect_timeout_s": 1}, {"timeout_s": 2.0, "connect_timeout_s": 1.0}),
        ({"retries": 3}, {"retries": 3}),
        ({"retries": False}, {"retries": 0}),
        ({"retries": True}, {}),
        ({"proxy": "http://p:1", "no_proxy": "a,b"}, {"proxy": "http://p:1", "no_proxy": "a,b"}),
        (
            {"proxy_url": "http://p:1", "proxy_excludes": "a"},
            {"proxy": "http://p:1", "no_proxy": "a"},
        ),
        ({"ca_bundle": "/ca.pem"}, {"ca_bundle": "/ca.pem"}),
        ({"verify": False}, {"verify": False}),
        ({"allow_invalid_certificates": "true"}, {"verify": False}),
        ({"user_agent": "me"}, {"headers": {"user-agent": "me"}}),
        ({"concurrency": "8"}, {"concurrency": 8}),
        ({"conditional_writes": False}, {"conditional_writes": False}),
        ({"missing_status": (403,)}, {"missing_status": (403, 404)}),
        ({"read_only": True}, {"read_only": True}),
        ({"allow_http": True, "http1_only": True, "version_aware": False}, {}),
        (
            {
                "asynchronous": True,
                "skip_instance_cache": True,
                "use_listings_cache": False,
                "listings_expiry_time": 1,
                "default_block_size": 1,
                "default_cache_type": "none",
                "max_concurrency": 3,
            },
            {},
        ),
    ],
)
def test_every_store_has_common_options(
    table: OptionTable, options: dict[str, Any], settings: dict[str, Any]
) -> None:
    assert read(table, options) == settings


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_settings_are_options_themselves(table: OptionTable) -> None:
    """A store creates an equal one from its settings, for example in another process."""
    settings = {rule.setting for rule in table.values() if isinstance(rule, Set)}
    assert settings <= set(table)
    assert set(COMMON_OPTIONS) <= set(table)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("S3Store", {"secert": "x"}, "Store has no option secert; did you mean 'secret'"),
        (
            "S3Store",
            {"client_kwargs": {"regoin_name": "x"}},
            r"client_kwargs\['regoin_name'\].*region_name",
        ),
        (
            "S3Store",
            {"config_kwargs": {"s3": {"adressing_style": 1}}},
            r"\['s3'\]\['adressing_style'\]",
        ),
        ("GCSStore", {"projet": "x"}, "'project'"),
        ("AzureStore", {"account_nam": "x"}, "'account_name'"),
        ("HTTPStore", {"header": {}}, "'headers'"),
        ("HTTPStore", {"key": "x"}, "Store has no option key"),
        ("S3Store", {"session": object()}, "session is not supported: pass a profile"),
        ("S3Store", {"cache_regions": True}, "cache_regions must be False: pass the region"),
        ("S3Store", {"version_aware": True}, "FsspecStore"),
        ("S3Store", {"client_kwargs": {"config": object()}}, "config_kwargs"),
        ("S3Store", {"s3_additional_kwargs": {"Metadata": {}}}, "FsspecStore"),
        ("S3Store", {"s3_additional_kwargs": {"ServerSideEncryption": "x"}}, "'AES256'"),
        ("S3Store", {"s3_additional_kwargs": {"SSECustomerKey": b"x"}}, "32 bytes"),
        ("S3Store", {"config_kwargs": {"signature_version": "s3"}}, "UNSIGNED"),
        ("S3Store", {"config_kwargs": {"client_cert": "x"}}, "FsspecStore"),
        ("S3Store", {"config_kwargs": {"s3": {"addressing_style": "x"}}}, "'virtual'"),
        ("S3Store", {"config_kwargs": {"s3": {"use_accelerate_endpoint": True}}}, "endpoint_url"),
        ("S3Store", {"client_kwargs": 3}, "client_kwargs must be a mapping, not 3"),
        ("S3Store", {"bucket": "x"}, "the URL names the bucket"),
        ("S3Store", {"endpoint_url": "localhost:9000"}, "http or https"),
        ("S3Store", {"key": "a", "access_key_id": "b"}, "key and access_key_id contradict"),
        ("S3Store", {"key": 3}, "key must be a str, not int"),
        ("S3Store", {"verify": object()}, "ca_bundle"),
        ("S3Store", {"timeout": "soon"}, "number of seconds, not 'soon'"),
        ("S3Store", {"timeout": 0}, "positive"),
        ("S3Store", {"timeout": float("inf")}, "positive"),
        ("S3Store", {"concurrency": True}, "int from 0"),
        ("S3Store", {"retries": -1}, "int from 0"),
        ("S3Store", {"missing_status": (500,)}, r"\(403, 404\)"),
        ("S3Store", {"missing_status": 403}, r"\(403, 404\)"),
        ("S3Store", {"credentials": "x"}, "callable"),
        ("S3Store", {"anon": "maybe"}, "True or False, not 'maybe'"),
        ("S3Store", {"proxy": 3}, "proxy must be a URL"),
        ("S3Store", {"ca_bundle": b"x"}, "path of a file"),
        ("S3Store", {"default_content_type": "x"}, "FsspecStore"),
        ("S3Store", {"checksum_algorithm": "md5"}, "'SHA256'"),
        ("GCSStore", {"token": "browser"}, "gcloud auth"),
        ("GCSStore", {"token": 3}, "credentials object, not int"),
        ("GCSStore", {"access": "x"}, "read_only"),
        ("GCSStore", {"session_kwargs": {"connector": object()}}, "FsspecStore"),
        ("AzureStore", {"credential": object()}, "get_token"),
        ("AzureStore", {"location_mode": "secondary"}, "FsspecStore"),
        ("AzureStore", {"request_session": object()}, "FsspecStore"),
        ("AzureStore", {"use_emulator": True}, "UseDevelopmentStorage"),
        ("AzureStore", {"connection_string": "AccountName"}, "NAME=VALUE"),
        ("AzureStore", {"connection_string": "AccountKey=x"}, "AccountName"),
        ("AzureStore", {"connection_string": 3}, "must be a str"),
        ("HTTPStore", {"get_client": object()}, "FsspecStore"),
        ("HTTPStore", {"ssl": object()}, "SSL context"),
        ("HTTPStore", {"auth": "me"}, "pair"),
        ("HTTPStore", {"cookies": "x"}, "mapping"),
        ("HTTPStore", {"params": 3}, "mapping"),
        ("HTTPStore", {"allow_redirects": False}, "FsspecStore"),
        ("HTTPStore", {"headers": {"a b": "x"}}, "invalid name 'a b'"),
        ("HTTPStore", {"headers": 3}, "mapping"),
    ],
)
def test_option_outside_of_engine_is_argument_error(
    kind: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ArgumentError, match=message):
        read(TABLES[kind], options)


def test_values_of_secrets_are_not_in_messages() -> None:
    for options in (
        {"headers": {"a": "hush\n"}},
        {"key": "hush", "access_key_id": "other"},
        {"secret": ["hush"]},
    ):
        with pytest.raises(ArgumentError) as error:
            read(S3_OPTIONS, options)
        assert "hush" not in str(error.value)


def test_client_library_objects_are_recognised() -> None:
    class UnsignedMark:
        __module__ = "botocore"

    class Key:
        named_key = SimpleNamespace(name="a", key="k")

    class Sas:
        signature = "sv=1"

    unsigned = {"config_kwargs": {"signature_version": UnsignedMark()}}
    assert read(S3_OPTIONS, unsigned) == {"anonymous": True}
    named = {"account_name": "a", "account_key": "k"}
    assert read(AZURE_OPTIONS, {"credential": Key()}) == named
    assert read(AZURE_OPTIONS, {"credential": Sas()}) == {"sas_token": "sv=1"}


def test_azure_token_credential_becomes_callable() -> None:
    expiry = datetime(2030, 1, 1, tzinfo=UTC)

    class Credential:
        def get_token(self, scope: str) -> Any:
            assert scope == "https://storage.azure.com/.default"
            return SimpleNamespace(token="t", expires_on=int(expiry.timestamp()))

    class AsynchronousCredential:
        async def get_token(self, scope: str) -> Any:
            raise AssertionError(scope)

    credentials = read(AZURE_OPTIONS, {"credential": Credential()})["credentials"]
    assert credentials() == {"token": "t", "expires_at": expiry}
    with pytest.raises(ArgumentError, match=r"azure\.identity\.aio"):
        read(AZURE_OPTIONS, {"credential": AsynchronousCredential()})


def test_google_credentials_object_is_renewed_before_expiry() -> None:
    pytest.importorskip("google.auth", reason="google-auth is not installed")

    class Credentials:
        token: str | None = None
        expiry: datetime | None = None
        calls = 0

        def refresh(self, request: Any) -> None:
            assert callable(request)
            self.calls += 1
            self.token = f"t{self.calls}"
            lifetime = timedelta(minutes=5 if self.calls == 1 else 60)
            self.expiry = datetime.now(UTC).replace(tzinfo=None) + lifetime

    source = Credentials()
    credentials = read(GCS_OPTIONS, {"token": source})["credentials"]
    assert [credentials()["token"] for _ in range(3)] == ["t1", "t2", "t2"]
    assert credentials()["expires_at"] > datetime.now(UTC) + timedelta(minutes=50)


# Arguments of the engine

S3 = ("bucket", "a/b")


def test_s3_arguments_have_full_names_and_text() -> None:
    settings = read(
        S3_OPTIONS,
        {
            "key": "k",
            "secret": "s",
            "region": "eu-west-1",
            "endpoint_url": "http://host:1",
            "requester_pays": True,
            "timeout": 5,
            "headers": {"A": "1"},
            "missing_status": (403, 404),
            "retries": 2,
            "checksum_algorithm": "sha256",
        },
    )
    arguments = resolve_s3("bucket", "a%20b/c/", settings)
    assert (arguments.kind, arguments.url) == ("s3", "s3://bucket/a%20b/c")
    assert (arguments.bucket, arguments.prefix) == ("bucket", "a%20b/c")
    assert arguments.options == {
        "aws_access_key_id": "k",
        "aws_secret_access_key": "s",
        "aws_region": "eu-west-1",
        "aws_endpoint": "http://host:1",
        "aws_request_payer": "true",
        "aws_checksum_algorithm": "sha256",
    }
    assert (arguments.connection, arguments.timeout_s) == ({}, 5.0)
    assert arguments.headers == (("a", "1"),)
    assert (arguments.retries, arguments.concurrency) == (2, 64)
    assert arguments.forbidden_is_absent
    assert arguments.conditional_writes
    assert not arguments.read_only


def test_s3_virtual_host_style_puts_bucket_into_endpoint() -> None:
    settings = {"endpoint": "https://host", "virtual_hosted": True}
    for endpoint in ("https://host", "https://bucket.host"):
        options = resolve_s3("bucket", "", settings | {"endpoint": endpoint}).options
        assert options["aws_endpoint"] == "https://bucket.host"
        assert options["aws_virtual_hosted_style_request"] == "true"


def test_s3_directory_bucket_uses_sessions() -> None:
    assert resolve_s3("b--usw2-az1--x-s3", "", {}).options == {"aws_s3_express": "true"}


def test_s3_key_without_secret_is_argument_error() -> None:
    with pytest.raises(ArgumentError, match="have a key and lack a secret"):
        resolve_s3(*S3, {"access_key_id": "k"})
    with pytest.raises(ArgumentError, match="have a secret and lack a key"):
        resolve_s3(*S3, {"secret_access_key": "k"})


def test_s3_without_tls_needs_endpoint() -> None:
    with pytest.raises(ArgumentError, match="use_ssl=False needs an endpoint"):
        resolve_s3(*S3, {"use_ssl": False})
    settings = {"use_ssl": False, "endpoint": "http://host"}
    assert resolve_s3(*S3, settings).options == {"aws_endpoint": "http://host"}


def test_anonymous_settings_drop_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "k")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    assert resolve_s3(*S3, {"anonymous": True}).options == {"aws_skip_signature": "true"}
    assert "aws_access_key_id" in resolve_s3(*S3, {"anonymous": False}).options
    anonymous = {"anonymous": True, "account_name": "a", "account_key": "k"}
    assert resolve_azure("box", "", anonymous).options == {
        "azure_skip_signature": "true",
        "azure_storage_account_name": "a",
    }
    anonymous = {"anonymous": True, "bearer_token": "t", "service_account": "{}"}
    assert resolve_gcs("bucket", "", anonymous).options == {"google_skip_signature": "true"}


def test_prefix_with_relative_segment_is_argument_error() -> None:
    for prefix in ("a//b", "a/../b", "."):
        with pytest.raises(ArgumentError, match="of 's3://bucket': a segment is empty"):
            resolve_s3("bucket", prefix, {})


def test_url_outside_of_utf_8_is_argument_error() -> None:
    location = parse_object_url("https://s3.amazonaws.com/bucket/%FF")
    assert location is not None
    with pytest.raises(ArgumentError, match="not text in UTF-8"):
        resolve_s3(location.bucket, location.prefix, {})
    with pytest.raises(ArgumentError, match="not text in UTF-8"):
        resolve_http("https://host/\udcff", {})


def test_gcs_requester_pays_sends_project(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ArgumentError, match="requester_pays needs the project"):
        resolve_gcs("bucket", "", {"requester_pays": True})
    arguments = resolve_gcs("bucket", "", {"requester_pays": True, "project": "p"})
    assert arguments.headers == (("x-goog-user-project", "p"),)
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "q")
    arguments = resolve_gcs("bucket", "", {"requester_pays": True, "headers": {"a": "1"}})
    assert arguments.headers == (("a", "1"), ("x-goog-user-project", "q"))
    assert resolve_gcs("bucket", "", {}).headers == ()


def test_gcs_credential_files_go_to_engine_or_google_auth(tmp_path: Any) -> None:
    path = tmp_path / "key.json"
    settings = {"application_credentials": str(path)}
    for kind in ("service_account", "authorized_user"):
        path.write_text(f'{{"type": "{kind}"}}')
        options = resolve_gcs("bucket", "", settings).options
        assert options == {"google_application_credentials": str(path)}
    path.write_text('{"type": "unheard-of"}')
    with pytest.raises(ArgumentError, match="unknown type 'unheard-of'"):
        resolve_gcs("bucket", "", settings)
    path.write_text("[]")
    with pytest.raises(ArgumentError, match="member 'type'"):
        resolve_gcs("bucket", "", settings)
    with pytest.raises(ArgumentError, match="cannot read the Google credentials"):
        resolve_gcs("bucket", "", {"application_credentials": f"{path}x"})
    options = resolve_gcs("bucket", "", {"service_account": "~/a.json"}).options
    assert options == {"google_service_account": str(tmp_path / "a.json")}
    options = resolve_gcs("bucket", "", {"service_account": '{"a": 1}'}).options
    assert options == {"google_service_account_key": '{"a": 1}'}


def test_gcs_user_credentials_become_callable(tmp_path: Any) -> None:
    pytest.importorskip("google.oauth2", reason="google-auth is not installed")
    token = {"client_id": "i", "client_secret": "s", "refresh_token": "r"}
    credentials = read(GCS_OPTIONS, {"token": token})["credentials"]
    assert credentials.source.refresh_token == "r"
    with pytest.raises(ArgumentError, match="malformed"):
        read(GCS_OPTIONS, {"token": {"refresh_token": "r"}})
    path = tmp_path / "key.json"
    path.write_text(
        '{"type": "external_account", "audience": "a", "subject_token_type": "t", "token_url": '
        '"https://sts.googleapis.com/v1/token", "credential_source": {"file": "/f"}}'
    )
    arguments = resolve_gcs("bucket", "", {"application_credentials": str(path)})
    assert arguments.options == {}
    assert arguments.credentials is not None


def test_azure_account_is_required() -> None:
    with pytest.raises(ArgumentError, match=r"account of the container 'box'.*connection_string"):
        resolve_azure("box", "", {})


def test_http_arguments_keep_query_and_hide_password() -> None:
    settings = read(HTTP_OPTIONS, {"params": {"v": "1 2"}, "headers": {"A": "1"}})
    arguments = resolve_http("https://me:p%40@host:1/a%20b/?sig=x%2B", settings)
    assert arguments.url == "https://host:1/a%20b?sig=x%2B&v=1+2"
    assert dict(arguments.headers) == {"authorization": "Basic bWU6cEA=", "a": "1"}
    assert arguments.read_only
    for url in ("ftp://host/x", "https:///x", "https://host/x#y"):
        with pytest.raises(ArgumentError, match="HTTPStore needs a URL"):
            resolve_http(url, {})


@pytest.mark.parametrize(
    ("proxy", "endpoint", "expected"),
    [
        ("http://p:1", None, "http://p:1"),
        ("p:1", None, "http://p:1"),
        ({"https": "http://p:1", "http": "http://p:2"}, None, "http://p:1"),
        ({"https": "http://p:1", "http": "http://p:2"}, "http://host", "http://p:2"),
        ("", None, ""),
        ({"http": "http://p:2"}, None, ""),
    ],
)
def test_proxy_depends_on_scheme_of_endpoint(
    proxy: Any, endpoint: str | None, expected: str
) -> None:
    for excluded in ("", "localhost"):
        settings = {"proxy": proxy, "endpoint": endpoint, "no_proxy": excluded}
        assert resolve_s3(*S3, settings).connection == {"proxy": (expected, excluded)}


def test_hosts_without_proxy_need_proxy() -> None:
    with pytest.raises(ArgumentError, match="no_proxy needs the option proxy"):
        resolve_s3(*S3, {"no_proxy": "localhost"})


def test_explicit_false_forbids_anonymous_requests() -> None:
    assert resolve_s3(*S3, {}).may_be_anonymous
    assert not resolve_s3(*S3, {"anonymous": False}).may_be_anonymous


def test_certificates_are_read(tmp_path: Any) -> None:
    path = tmp_path / "ca.pem"
    path.write_bytes(b"-----BEGIN CERTIFICATE-----\n")
    arguments = resolve_s3(*S3, {"ca_bundle": str(path)})
    assert arguments.connection == {"ca_certificates": path.read_bytes()}
    path.write_bytes(b"x")
    with pytest.raises(ArgumentError, match="PEM"):
        resolve_s3(*S3, {"ca_bundle": str(path)})
    with pytest.raises(ArgumentError, match="cannot read the certificates"):
        resolve_s3(*S3, {"ca_bundle": f"{path}x"})


# Environment


@pytest.mark.parametrize(
    ("environment", "options"),
    [
        (
            {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t"},
            {
                "aws_access_key_id": "k",
                "aws_secret_access_key": "s",
                "aws_session_token": "t",
            },
        ),
        ({"AWS_REGION": "a", "AWS_DEFAULT_REGION": "b"}, {"aws_region": "a"}),
        ({"AWS_DEFAULT_REGION": "b"}, {"aws_region": "b"}),
        (
            {"AWS_ENDPOINT_URL": "http://a", "AWS_ENDPOINT_URL_S3": "http://b/"},
            {"aws_endpoint": "http://b"},
        ),
        (
            {"AWS_ENDPOINT_URL": "http://a", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"},
            {},
        ),
        ({"AWS_EC2_METADATA_DISABLED": "true"}, {"aws_skip_signature": "true"}),
        (
            {
                "AWS_EC2_METADATA_DISABLED": "true",
                "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/x",
            },
            {"aws_container_credentials_relative_uri": "/x"},
        ),
        (
            {
                "AWS_WEB_IDENTITY_TOKEN_FILE": "/t",
                "AWS_ROLE_ARN": "r",
                "AWS_ROLE_SESSION_NAME": "n",
            },
            {
                "aws_web_identity_token_file": "/t",
                "aws_role_arn": "r",
                "aws_role_session_name": "n",
            },
        ),
        (
            {
                "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://h",
                "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "/t",
            },
            {
                "aws_container_credentials_full_uri": "http://h",
                "aws_container_authorization_token_file": "/t",
            },
        ),
        (
            {"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://h"},
            {"aws_metadata_endpoint": "http://h"},
        ),
        ({"AWS_REQUEST_PAYER": "requester"}, {"aws_request_payer": "true"}),
        ({"AWS_ACCESS_KEY_ID": ""}, {}),
    ],
)
def test_s3_environment_has_options(
    environment: dict[str, str], options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert resolve_s3(*S3, {}).options == options


@pytest.mark.parametrize(
    ("environment", "explicit", "options"),
    [
        (
            {"STORAGE_EMULATOR_HOST": "localhost:9023"},
            {},
            {"google_base_url": "http://localhost:9023", "google_skip_signature": "true"},
        ),
        ({"STORAGE_EMULATOR_HOST": "default"}, {}, {}),
        (
            {"STORAGE_EMULATOR_HOST": "http://h/"},
            {"endpoint": "http://other"},
            {"google_base_url": "http://other"},
        ),
        ({"GOOGLE_SERVICE_ACCOUNT": "/a.json"}, {}, {"google_service_account": "/a.json"}),
        ({"SERVICE_ACCOUNT": "/a.json"}, {}, {"google_service_account": "/a.json"}),
        (
            {"GOOGLE_SERVICE_ACCOUNT": "/a.json"},
            {"bearer_token": "t"},
            {"google_bearer_token": "t"},
        ),
    ],
)
def test_gcs_environment_has_options(
    environment: dict[str, str],
    explicit: dict[str, Any],
    options: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert resolve_gcs("bucket", "", explicit).options == options


def test_gcs_default_credentials_come_from_environment_then_home(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [
        tmp_path / ".config" / "gcloud" / "application_default_credentials.json",
        tmp_path / "sdk" / "application_default_credentials.json",
        tmp_path / "key.json",
    ]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"type": "authorized_user"}')

    def find() -> str:
        return resolve_gcs("bucket", "", {}).options["google_application_credentials"]

    assert find() == str(paths[0])
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "sdk"))
    assert find() == str(paths[1])
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(paths[2]))
    assert find() == str(paths[2])


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


@pytest.mark.parametrize(
    ("table", "names"),
    [
        (S3_OPTIONS, S3_ENVIRONMENT),
        (GCS_OPTIONS, GCS_ENVIRONMENT),
        (AZURE_OPTIONS, AZURE_ENVIRONMENT),
    ],
)
def test_every_variable_is_an_option(table: OptionTable, names: tuple[str, ...]) -> None:
    assert {name.lower() for name in names} <= set(table)


def test_explicit_keys_replace_all_credentials_of_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "environment")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    keys = {"access_key_id": "k", "secret_access_key": "s"}
    assert resolve_s3(*S3, keys).options == {
        "aws_access_key_id": "k",
        "aws_secret_access_key": "s",
        "aws_region": "eu-west-1",
    }
    credentials: Callable[[], dict[str, str]] = dict
    arguments = resolve_s3(*S3, {"credentials": credentials})
    assert arguments.options == {"aws_region": "eu-west-1"}
    assert arguments.credentials is credentials


def test_invalid_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "localhost")
    with pytest.raises(ArgumentError, match="variable AWS_ENDPOINT_URL"):
        resolve_s3(*S3, {})


def test_certificates_come_from_environment(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ca.pem"
    path.write_bytes(b"-----BEGIN CERTIFICATE-----\n")
    monkeypatch.setenv("AWS_CA_BUNDLE", str(path))
    monkeypatch.setenv("HTTPS_PROXY", "http://p:1")  # the engine reads it
    assert resolve_s3(*S3, {}).connection == {"ca_certificates": path.read_bytes()}


def test_number_of_attempts_comes_from_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "3")
    assert resolve_s3(*S3, {}).retries == 2


def read_parameters(module: str, name: str) -> set[str]:
    """Return the names of the keywords of a class, and of the classes that it extends."""
    cls = getattr(pytest.importorskip(module, reason=f"{module} is not installed"), name)
    kinds = {Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY}
    parameters = [
        parameter
        for base in cls.__mro__
        if base.__module__.startswith(module.partition(".")[0]) and "__init__" in vars(base)
        for parameter in signature(base.__init__).parameters.values()
    ]
    return {parameter.name for parameter in parameters if parameter.kind in kinds} - {"self"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "name", "table"),
    [
        ("s3fs", "S3FileSystem", S3_OPTIONS),
        ("gcsfs", "GCSFileSystem", GCS_OPTIONS),
        ("adlfs", "AzureBlobFileSystem", AZURE_OPTIONS),
        ("fsspec.implementations.http", "HTTPFileSystem", HTTP_OPTIONS),
    ],
)
def test_every_argument_of_file_systems_is_known(
    module: str, name: str, table: OptionTable
) -> None:
    assert read_parameters(module, name) - set(table) == set()


@pytest.mark.slow
def test_every_argument_of_botocore_config_is_known() -> None:
    config = pytest.importorskip("botocore.config", reason="botocore is not installed").Config
    nested = S3_OPTIONS["config_kwargs"]
    assert isinstance(nested, Nest)
    assert set(config.OPTION_DEFAULTS) - set(nested.table) == set()
