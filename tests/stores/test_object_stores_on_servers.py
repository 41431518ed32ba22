"""Object stores on real servers: the options of users reach the requests."""

from __future__ import annotations

import base64
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stores.clouds import AZURE_ACCOUNT, KEYS, Cloud, WebServer
from tessarr.store.object.object_store import ObjectStore
from tessarr.store.object.open import open_object_url
from tessarr.stores import HTTPStore, S3Store

pytestmark = pytest.mark.usefixtures("empty_environment")


def open_store(cloud: Cloud, path: str, **options: Any) -> ObjectStore:
    store = open_object_url(cloud.url(path), {**cloud.storage_options, **options})
    assert store is not None
    return store


@pytest.mark.parametrize("prefix", ["", "a", "100%25 + é/b c"])
def test_store_round_trips_below_prefix(cloud: Cloud, prefix: str) -> None:
    store = open_store(cloud, prefix)
    store.put("x/y", b"1")
    assert store.get("x/y") == b"1"
    assert store.list() == ["x/y"]
    start = f"{prefix}/" if prefix else ""
    assert cloud.list() == [f"{start}x/y"]
    store.delete("x/y")
    assert store.get("x/y") is None


def test_headers_reach_server(cloud: Cloud) -> None:
    store = open_store(cloud, "", headers={"X-Test": "1"}, user_agent="me")
    assert store.get("x") is None
    (headers,) = cloud.proxy.headers
    assert (headers["x-test"], headers["user-agent"]) == ("1", "me")


@pytest.mark.parametrize("cloud", ["s3"], indirect=True)
def test_s3_keys_come_from_environment_profile_or_callable(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """Each source of credentials signs requests that the server accepts."""
    cloud.put("x", b"1")
    endpoint = cloud.storage_options["endpoint_url"]
    calls: list[int] = []

    def get_credentials() -> dict[str, Any]:
        calls.append(threading.get_ident())
        expires_at = datetime.now(UTC) + timedelta(hours=1)
        keys = {"access_key_id": KEYS["key"], "secret_access_key": KEYS["secret"]}
        return {**keys, "expires_at": expires_at}

    store = S3Store(cloud.bucket, endpoint=endpoint, credentials=get_credentials)
    assert [store.get("x") for _ in range(3)] == [b"1"] * 3
    assert len(calls) == 1

    config = tmp_path / "config"
    config.write_text(
        f"[profile lab]\nendpoint_url = {endpoint}\naws_access_key_id = {KEYS['key']}\n"
        f"aws_secret_access_key = {KEYS['secret']}\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    assert S3Store(cloud.bucket, profile="lab").get("x") == b"1"

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEYS["key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS["secret"])
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    assert S3Store(cloud.bucket).get("x") == b"1"


@pytest.mark.parametrize("cloud", ["s3"], indirect=True)
def test_s3_request_options_stay_in_engine(cloud: Cloud) -> None:
    options = {
        "config_kwargs": {
            "read_timeout": 10,
            "connect_timeout": 5,
            "s3": {"addressing_style": "path"},
        },
        "s3_additional_kwargs": {"ACL": "private", "StorageClass": "STANDARD"},
        "client_kwargs": {"verify": False},
        "requester_pays": True,
    }
    store = open_store(cloud, "", **options)
    store.put("x", b"1")
    assert cloud.get("x") == b"1"
    assert store.get("x") == b"1"
    for headers in cloud.proxy.headers:
        assert headers["x-amz-acl"] == "private"
        assert headers["x-amz-request-payer"] == "requester"
        assert "x-amz-acl" in headers["authorization"]  # servers refuse unsigned headers
    assert store.list() == ["x"]
    assert store.list_dir() == (["x"], [])
    store.delete_prefix("")
    assert cloud.get("x") is None


@pytest.mark.parametrize("cloud", ["az"], indirect=True)
def test_azure_sas_token_opens_container(cloud: Cloud) -> None:
    blob = pytest.importorskip("azure.storage.blob", reason="azure-storage-blob is not installed")
    cloud.put("x", b"1")
    connection = cloud.storage_options["connection_string"]
    parts = dict(part.partition("=")[::2] for part in connection.split(";"))
    assert base64.b64decode(parts["AccountKey"])
    token = blob.generate_container_sas(
        AZURE_ACCOUNT,
        cloud.bucket,
        parts["AccountKey"],
        permission="rl",
        expiry=datetime.now(UTC) + timedelta(hours=1),
    )
    options = {
        "account_name": AZURE_ACCOUNT,
        "sas_token": token,
        "endpoint": parts["BlobEndpoint"],
    }
    store = open_object_url(cloud.url(), options)
    assert store is not None
    assert store.get("x") == b"1"
    assert store.list() == ["x"]


@pytest.mark.slow
def test_web_server_receives_query_and_headers(nginx: WebServer) -> None:
    (nginx.folder / "x").write_bytes(b"1")
    url = f"http://me:secret@127.0.0.1:{nginx.ports['ranges']}/?signature=a%2Bb"
    store = HTTPStore(url, params={"v": "1"})
    assert store.get("x") == b"1"
    assert store.get("y") is None
    forbidden = f"http://127.0.0.1:{nginx.ports['forbidden']}"
    assert HTTPStore(forbidden, missing_status=(403,)).get("y") is None
