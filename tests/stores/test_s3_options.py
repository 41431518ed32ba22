"""Options of S3 stores: names, arguments of the engine, and environment variables."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest

from stores.option_tables import interpret
from tessarr.errors import ArgumentError
from tessarr.store.object.options import Nest
from tessarr.store.object.s3_options import S3_OPTIONS, resolve_s3

pytestmark = pytest.mark.usefixtures("empty_environment")

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
    assert interpret(S3_OPTIONS, options) == dict(zip(names, settings, strict=False))


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
    assert interpret(S3_OPTIONS, options) == settings


S3 = ("bucket", "a/b")


def test_s3_arguments_have_full_names_and_text() -> None:
    settings = interpret(
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


def test_number_of_attempts_comes_from_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "3")
    assert resolve_s3(*S3, {}).retries == 2


@pytest.mark.slow
def test_every_argument_of_botocore_config_is_known() -> None:
    config = pytest.importorskip("botocore.config", reason="botocore is not installed").Config
    nested = S3_OPTIONS["config_kwargs"]
    assert isinstance(nested, Nest)
    assert set(config.OPTION_DEFAULTS) - set(nested.table) == set()
