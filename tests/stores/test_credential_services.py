"""Services with credentials that fail: no request takes their refusals for those of the bucket."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from stores.proxy import Answer, Proxy, Refusal, run_proxy
from tessarr.errors import StoreError
from tessarr.stores import AzureStore, S3Store

DATE = "Mon, 01 Jan 2024 00:00:00 GMT"
OBJECT = Answer(200, {"ETag": '"1"', "Last-Modified": DATE}, b"1")
VALIDITY_S = 1


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Remove all variables and files that settings may come from."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "AZURE_", "IDENTITY_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


def answer_aws(line: str) -> Refusal:
    """Respond as the metadata service of EC2."""
    if "/api/token" in line:
        return Answer(200, {}, b"token")
    if line.endswith("/security-credentials/"):
        return Answer(200, {}, b"role")
    end = datetime.now(UTC) + timedelta(seconds=VALIDITY_S)
    credentials = {"AccessKeyId": "a", "SecretAccessKey": "b", "Token": "c"}
    credentials["Expiration"] = end.strftime("%Y-%m-%dT%H:%M:%SZ")
    return Answer(200, {}, json.dumps(credentials).encode())


def answer_azure(_: str) -> Refusal:
    """Respond as the metadata service of Azure."""
    token = {"access_token": "t", "expires_in": "1", "resource": "r", "token_type": "Bearer"}
    token["expires_on"] = str(int(time.time() + VALIDITY_S))
    return Answer(200, {}, json.dumps(token).encode())


@pytest.fixture
def bucket() -> Iterator[Proxy]:
    """Yield a server that has each object, for requests with credentials."""
    with run_proxy(9) as proxy:
        proxy.choose_refusal = lambda _: (
            OBJECT if "authorization" in proxy.headers[-1] else Answer(403, {}, b"")
        )
        yield proxy


@pytest.fixture
def service() -> Iterator[Proxy]:
    """Yield a service with credentials, which fails until a test sets `choose_refusal`."""
    with run_proxy(9) as proxy:
        proxy.choose_refusal = lambda _: 503
        yield proxy


def open_s3(bucket: Proxy, service: Proxy, **options: Any) -> S3Store:
    options = {"endpoint": bucket.url, "metadata_endpoint": service.url, **options}
    return S3Store.from_url("s3://b/x", options)


def open_azure(bucket: Proxy, service: Proxy, **options: Any) -> AzureStore:
    options = {"account_name": "account", "endpoint": bucket.url, **options}
    return AzureStore.from_url("az://b/x", {"msi_endpoint": f"{service.url}/token", **options})


@pytest.mark.parametrize(
    ("open_store", "answer"), [(open_s3, answer_aws), (open_azure, answer_azure)]
)
@pytest.mark.parametrize("status", [404, 503, 403, 401])
def test_failed_renewal_raises(
    bucket: Proxy, service: Proxy, open_store: Any, answer: Any, status: int
) -> None:
    """A service that does not exist any more does not make objects absent."""
    service.choose_refusal = answer
    store = open_store(bucket, service, retries=1)
    assert store.get("k") == b"1"
    bucket.reset_counts()
    service.choose_refusal = lambda _: status
    time.sleep(VALIDITY_S)
    for work in (lambda: store.get("k"), store.list, lambda: store.put("k", b"1")):
        with pytest.raises(StoreError, match=f"cannot get credentials: {status}") as caught:
            work()
        assert "://b/x" in str(caught.value)
        assert caught.value.retryable == (status in {404, 503})
    assert not bucket.requests
    service.choose_refusal = answer
    assert store.get("k") == b"1"


def test_request_for_credentials_is_retried(bucket: Proxy, service: Proxy) -> None:
    service.choose_refusal = answer_aws
    store = open_s3(bucket, service)
    assert store.get("k") == b"1"
    time.sleep(VALIDITY_S)
    service.refusals = [503, 404]
    assert store.get("k") == b"1"


def test_exceptions_of_callables_are_causes(bucket: Proxy) -> None:
    def fail() -> dict[str, str]:
        raise KeyError("LAB_KEY")

    store = S3Store("b", "x", endpoint=bucket.url, credentials=fail)
    with pytest.raises(StoreError, match="cannot get credentials: 'LAB_KEY'") as caught:
        store.get("k")
    assert isinstance(caught.value.__cause__, KeyError)


def test_time_without_zone_raises(bucket: Proxy) -> None:
    credentials = {"access_key_id": "a", "secret_access_key": "b"}
    end = datetime.now() + timedelta(hours=1)  # noqa: DTZ005 (the mistake under test)
    get_credentials = lambda: {**credentials, "expires_at": end}  # noqa: E731
    store = S3Store("b", "x", endpoint=bucket.url, credentials=get_credentials)
    with pytest.raises(StoreError, match="expires_at of the credentials has no zone"):
        store.get("k")


@pytest.mark.parametrize("name", ["session_token", "token"])
def test_session_token_is_sent(bucket: Proxy, name: str) -> None:
    """Functions for obstore return the token by the second name."""
    credentials = {"access_key_id": "a", "secret_access_key": "b", name: "c"}
    store = S3Store("b", "x", endpoint=bucket.url, credentials=lambda: credentials)
    assert store.get("k") == b"1"
    assert bucket.headers[0]["x-amz-security-token"] == "c"
