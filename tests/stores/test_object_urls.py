"""URLs of object stores: kinds, buckets, prefixes and implied settings."""

from __future__ import annotations

from typing import Any

import pytest

from tessarr.errors import ArgumentError
from tessarr.store.object.urls import ObjectURL, hide_query, parse_object_url

R2_ACCOUNT = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("s3://bucket", ("s3", "bucket", "", {})),
        ("s3://bucket/a/b/", ("s3", "bucket", "a/b", {})),
        ("S3A://bucket/a%20b?#", ("s3", "bucket", "a%20b?#", {})),
        ("gs://bucket/a", ("gcs", "bucket", "a", {})),
        ("gcs://bucket/a", ("gcs", "bucket", "a", {})),
        ("az://box/a", ("azure", "box", "a", {})),
        ("adl://box/a", ("azure", "box", "a", {})),
        ("abfs://box/a", ("azure", "box", "a", {})),
        ("azure://box/a", ("azure", "box", "a", {})),
        (
            "abfss://box@acct.dfs.core.windows.net/a/b",
            ("azure", "box", "a/b", {"account_name": "acct"}),
        ),
        (
            "az://acct.blob.core.windows.net/box/a",
            ("azure", "box", "a", {"account_name": "acct"}),
        ),
        (
            "abfs://box@acct.dfs.core.chinacloudapi.cn/a",
            (
                "azure",
                "box",
                "a",
                {
                    "account_name": "acct",
                    "endpoint": "https://acct.blob.core.chinacloudapi.cn",
                },
            ),
        ),
        ("http://host/a/b", ("http", "http://host/a/b", "", {})),
        ("https://host:8443/a%20b", ("http", "https://host:8443/a%20b", "", {})),
        # AWS
        (
            "https://s3.eu-west-1.amazonaws.com/bucket/a%20b",
            ("s3", "bucket", "a b", {"region": "eu-west-1"}),
        ),
        (
            "https://s3-us-west-2.amazonaws.com/bucket",
            ("s3", "bucket", "", {"region": "us-west-2"}),
        ),
        ("https://s3.amazonaws.com/bucket/a", ("s3", "bucket", "a", {})),
        ("https://bucket.s3.amazonaws.com/a/b", ("s3", "bucket", "a/b", {})),
        (
            "https://my.bucket.s3.us-gov-west-1.amazonaws.com/a",
            ("s3", "my.bucket", "a", {"region": "us-gov-west-1"}),
        ),
        (
            "https://bucket.s3.dualstack.eu-west-1.amazonaws.com/a",
            (
                "s3",
                "bucket",
                "a",
                {
                    "region": "eu-west-1",
                    "endpoint": "https://s3.dualstack.eu-west-1.amazonaws.com",
                },
            ),
        ),
        (
            "https://bucket.s3.cn-north-1.amazonaws.com.cn/a",
            (
                "s3",
                "bucket",
                "a",
                {
                    "region": "cn-north-1",
                    "endpoint": "https://s3.cn-north-1.amazonaws.com.cn",
                },
            ),
        ),
        (
            "https://bucket.s3-accelerate.amazonaws.com/a",
            (
                "s3",
                "bucket",
                "a",
                {"endpoint": "https://s3-accelerate.amazonaws.com", "virtual_hosted": True},
            ),
        ),
        # R2
        (
            f"https://{R2_ACCOUNT}.r2.cloudflarestorage.com/bucket/a",
            (
                "s3",
                "bucket",
                "a",
                {"region": "auto", "endpoint": f"https://{R2_ACCOUNT}.r2.cloudflarestorage.com"},
            ),
        ),
        (
            f"https://{R2_ACCOUNT}.eu.r2.cloudflarestorage.com/bucket",
            (
                "s3",
                "bucket",
                "",
                {"region": "auto", "endpoint": f"https://{R2_ACCOUNT}.eu.r2.cloudflarestorage.com"},
            ),
        ),
        (
            f"https://bucket.{R2_ACCOUNT}.r2.cloudflarestorage.com/a",
            (
                "s3",
                "bucket",
                "a",
                {"region": "auto", "endpoint": f"https://{R2_ACCOUNT}.r2.cloudflarestorage.com"},
            ),
        ),
        # Google
        ("https://storage.googleapis.com/bucket/a%2Bb", ("gcs", "bucket", "a+b", {})),
        ("https://bucket.storage.googleapis.com/a", ("gcs", "bucket", "a", {})),
        ("https://storage.cloud.google.com/bucket/a", ("gcs", "bucket", "a", {})),
        # Azure
        (
            "https://acct.blob.core.windows.net/box/a",
            ("azure", "box", "a", {"account_name": "acct"}),
        ),
        (
            "https://acct.dfs.core.windows.net/box/a",
            ("azure", "box", "a", {"account_name": "acct"}),
        ),
        (
            "https://onelake.dfs.fabric.microsoft.com/space/item.Lakehouse/Files",
            (
                "azure",
                "space",
                "item.Lakehouse/Files",
                {"account_name": "onelake", "azure_use_fabric_endpoint": True},
            ),
        ),
        (
            "https://id1.z28.blob.fabric.microsoft.com/space/x",
            (
                "azure",
                "space",
                "x",
                {
                    "account_name": "id1.z28",
                    "azure_use_fabric_endpoint": True,
                    "endpoint": "https://id1.z28.blob.fabric.microsoft.com",
                },
            ),
        ),
    ],
)
def test_url_names_kind_bucket_prefix_and_settings(
    url: str, expected: tuple[str, str, str, dict[str, Any]]
) -> None:
    location = parse_object_url(url)
    assert location is not None
    assert (location.kind, location.bucket, location.prefix, location.settings) == expected


@pytest.mark.parametrize(
    "url",
    [
        "https://bucket.s3.amazonaws.com/a?X-Amz-Signature=1",
        "https://storage.googleapis.com/bucket/a?X-Goog-Signature=1",
        "https://acct.blob.core.windows.net/box/a?sv=1&sig=2",
        "https://bucket.s3-website-eu-west-1.amazonaws.com/a",
        "https://point-123.s3-accesspoint.eu-west-1.amazonaws.com/a",
        "http://s3.amazonaws.com/bucket/a",
        "https://s3.amazonaws.com:8443/bucket/a",
        "https://me:secret@s3.amazonaws.com/bucket",
        "https://s3.amazonaws.com.example.org/bucket",
        "https://notstorage.googleapis.com/bucket",
        "https://blob.core.windows.net/box/a",
        "https://example.org/s3.amazonaws.com/x",
    ],
)
def test_signed_and_other_addresses_stay_web_servers(url: str) -> None:
    assert parse_object_url(url) == ObjectURL("http", url)


@pytest.mark.parametrize("url", ["ftp://host/x", "/s3://x", "s3:/x", "simplecache::s3://b/x", "x"])
def test_other_schemes_are_no_object_stores(url: str) -> None:
    assert parse_object_url(url) is None


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("s3://", "lacks a bucket"),
        ("s3:///key", "lacks a bucket"),
        ("az://", "lacks a container"),
        ("https://s3.amazonaws.com/", "lacks a bucket"),
        ("https://", "lacks a host"),
        ("https://host/x#y", "fragment"),
        ("https://host:port/x", "cannot open"),
        ("abfs://box@host.example.org/x", "account_host"),
        ("s3://me:hush@bucket/x", "pass them as storage_options"),
        ("az://box/x?sv=1&sig=hush", "sas_token"),
        ("abfs://box@account.dfs.core.windows.net/x?sig=hush", "sas_token"),
        ("abfs://box@me:hush@host/x", "account_host"),
    ],
)
def test_malformed_url_is_argument_error(url: str, reason: str) -> None:
    with pytest.raises(ArgumentError, match=reason) as error:
        parse_object_url(url)
    assert "hush" not in str(error.value)


def test_secrets_of_url_are_hidden() -> None:
    assert hide_query("s3://bucket/a@b?c") == "s3://bucket/a@b?c"
    assert hide_query("https://me:pw@host?sig=1") == "https://host?…"
    assert hide_query("HTTPS://me@host/x") == "HTTPS://host/x"
    assert hide_query("a::ftp://me:pw@host/x::http://me:pw@host?s=1") == (
        "a::ftp://host/x::http://host?…"
    )
    assert hide_query("abfs://box@account.dfs.core.windows.net/x") == (
        "abfs://box@account.dfs.core.windows.net/x"
    )
    with pytest.raises(ArgumentError) as error:
        parse_object_url("https://host/x?sig=hush#y")
    assert "hush" not in str(error.value)
