"""Options that every object store has: connections, certificates, proxies, and errors."""

from __future__ import annotations

from inspect import Parameter, signature
from types import SimpleNamespace
from typing import Any

import pytest

from stores.option_tables import TABLES, interpret
from tessarr.errors import ArgumentError
from tessarr.store.object.azure_options import AZURE_ENVIRONMENT, AZURE_OPTIONS, resolve_azure
from tessarr.store.object.common_options import COMMON_OPTIONS
from tessarr.store.object.gcs_options import GCS_ENVIRONMENT, GCS_OPTIONS, resolve_gcs
from tessarr.store.object.http_options import HTTP_OPTIONS, resolve_http
from tessarr.store.object.options import OptionTable, Set
from tessarr.store.object.s3_options import S3_ENVIRONMENT, S3_OPTIONS, resolve_s3
from tessarr.store.object.urls import parse_object_url

pytestmark = pytest.mark.usefixtures("empty_environment")

S3 = ("bucket", "a/b")


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
    assert interpret(table, options) == settings


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
        interpret(TABLES[kind], options)


def test_values_of_secrets_are_not_in_messages() -> None:
    for options in (
        {"headers": {"a": "hush\n"}},
        {"key": "hush", "access_key_id": "other"},
        {"secret": ["hush"]},
    ):
        with pytest.raises(ArgumentError) as error:
            interpret(S3_OPTIONS, options)
        assert "hush" not in str(error.value)


def test_client_library_objects_are_recognised() -> None:
    class UnsignedMark:
        __module__ = "botocore"

    class Key:
        named_key = SimpleNamespace(name="a", key="k")

    class Sas:
        signature = "sv=1"

    unsigned = {"config_kwargs": {"signature_version": UnsignedMark()}}
    assert interpret(S3_OPTIONS, unsigned) == {"anonymous": True}
    named = {"account_name": "a", "account_key": "k"}
    assert interpret(AZURE_OPTIONS, {"credential": Key()}) == named
    assert interpret(AZURE_OPTIONS, {"credential": Sas()}) == {"sas_token": "sv=1"}


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


def test_explicit_false_forbids_anonymous_requests() -> None:
    assert resolve_s3(*S3, {}).may_be_anonymous
    assert not resolve_s3(*S3, {"anonymous": False}).may_be_anonymous


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


def test_certificates_come_from_environment(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ca.pem"
    path.write_bytes(b"-----BEGIN CERTIFICATE-----\n")
    monkeypatch.setenv("AWS_CA_BUNDLE", str(path))
    monkeypatch.setenv("HTTPS_PROXY", "http://p:1")  # the engine reads it
    assert resolve_s3(*S3, {}).connection == {"ca_certificates": path.read_bytes()}


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


def test_invalid_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "localhost")
    with pytest.raises(ArgumentError, match="variable AWS_ENDPOINT_URL"):
        resolve_s3(*S3, {})


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
