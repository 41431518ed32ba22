"""Errors of clouds and web servers name the URL, the cause and what to do, and no secret."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tessarr
from stores.clouds import AZURE_ACCOUNT, AZURE_KEY, Cloud, WebServer
from stores.proxy import Answer, Fault, run_proxy
from tessarr.errors import NotFoundError, StoreError, TessarrError
from tessarr.store.object.object_store import ObjectStore
from tessarr.store.object.open import open_object_url

pytestmark = pytest.mark.usefixtures("empty_environment")


def open_store(cloud: Cloud, path: str = "", **options: Any) -> ObjectStore:
    return open_object_url(cloud.url(path), {**cloud.storage_options, **options})


def describe(error: BaseException) -> str:
    """Return everything that a traceback shows."""
    return "".join(traceback.format_exception(error))


def test_missing_bucket_raises(cloud: Cloud) -> None:
    url = f"{cloud.kind}://absent-{cloud.bucket}/x"
    options = cloud.storage_options
    works: list[Callable[[], object]] = [
        lambda: tessarr.create_array(url, shape=4, dtype="u1", storage_options=options),
        lambda: open_object_url(url, options).put("k", b"1"),
        lambda: open_object_url(url, options).list(),
        lambda: open_object_url(url, options).replace("k", b"1", None),
    ]
    if cloud.kind != "gs":  # reads of the emulator do not tell bucket and object apart
        works += [
            lambda: tessarr.open_array(url, mode="r", storage_options=options),
            lambda: tessarr.open_group(url, mode="r", storage_options=options),
            lambda: open_object_url(url, options).get("k"),
        ]
    for work in works:
        with pytest.raises(NotFoundError, match="does not exist") as caught:
            work()
        assert f"absent-{cloud.bucket}" in str(caught.value)
        assert url in str(caught.value)


@pytest.mark.parametrize("cloud", ["s3", "az"], indirect=True)
def test_wrong_secret_raises(cloud: Cloud) -> None:
    wrong = {"secret": "hidden"}
    if cloud.kind == "az":
        text = cloud.storage_options["connection_string"]
        wrong = {"connection_string": text.replace(AZURE_KEY, "aGlkZGVu")}
    for work in ("get", "put", "list"):
        store = open_store(cloud, "x", **wrong)
        arguments = {"get": ("k",), "put": ("k", b"1"), "list": ()}[work]
        with pytest.raises(StoreError, match=r"credentials may not|check the keys") as caught:
            getattr(store, work)(*arguments)
        assert cloud.url("x") in str(caught.value)
        assert not caught.value.retryable
        for secret in ("hidden", "aGlkZGVu", "AWS4-HMAC"):
            assert secret not in describe(caught.value)
            assert secret not in repr(store)


def anonymous_options(cloud: Cloud) -> dict[str, Any]:
    if cloud.kind == "az":
        return {
            "account_name": AZURE_ACCOUNT,
            "endpoint": f"{cloud.proxy.url}/{AZURE_ACCOUNT}",
        }
    return {"endpoint_url": cloud.proxy.url}


@pytest.mark.parametrize("cloud", ["s3", "az"], indirect=True)
@pytest.mark.parametrize("anonymous", [True, False])
def test_refused_anonymous_request_raises(cloud: Cloud, anonymous: bool) -> None:
    """Without credentials, requests go on anonymously; the error says so if they are refused."""
    options = {**anonymous_options(cloud), **({"anon": True} if anonymous else {})}
    store = open_object_url(cloud.url("x"), options)
    start = time.monotonic()
    for _ in range(3):
        with pytest.raises(StoreError, match="credentials") as caught:
            store.get("k")
        assert f"{cloud.url('x')}/k" in str(caught.value)
        assert "had no credentials" in str(caught.value)
        assert ("as the options" in str(caught.value)) == anonymous
    assert time.monotonic() - start < 10


@pytest.mark.parametrize("cloud", ["s3"], indirect=True)
def test_disabled_metadata_service_gets_no_request(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    cloud.proxy.forward = lambda *_: Answer(200, {"ETag": '"1"', "Last-Modified": DATE}, b"1")
    store = open_object_url(cloud.url("x"), anonymous_options(cloud))
    assert store.get("k") == b"1"
    assert "authorization" not in cloud.proxy.headers[0]


@pytest.mark.parametrize("cloud", ["s3"], indirect=True)
def test_absent_metadata_service_gets_one_request(cloud: Cloud) -> None:
    """Not every store of a process waits for a service with credentials that does not respond."""
    with run_proxy(cloud.proxy.port) as service:
        service.choose_refusal = lambda _: Fault.HANG
        options = {"metadata_endpoint": service.url, "timeout_s": 0.5}
        for _ in range(3):
            store = open_object_url(cloud.url("x"), {**anonymous_options(cloud), **options})
            with pytest.raises(StoreError, match="none were found"):
                store.get("k")
        assert len(service.requests) == 1


DATE = "Mon, 01 Jan 2024 00:00:00 GMT"


@pytest.mark.parametrize("cloud", ["s3", "gs"], indirect=True)
def test_anonymous_requests_follow_missing_credentials(cloud: Cloud) -> None:
    """A public object is read without any option."""
    headers = {"ETag": '"1"', "Last-Modified": DATE, "x-goog-generation": "1"}
    cloud.proxy.forward = lambda *_: Answer(200, headers, b"1")
    for _ in range(3):
        store = open_object_url(cloud.url("x"), anonymous_options(cloud))
        assert store.get("k") == b"1"
    assert not any("authorization" in headers for headers in cloud.proxy.headers)


def refuse_lists(line: str) -> Any:
    is_list = "list-type" in line or "comp=list" in line or "/o?" in line.replace("/upload", "")
    if is_list and line.startswith("GET"):
        text = "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
        return Answer(403, {"Content-Type": "application/xml"}, text.encode())
    return 0


def test_refused_listing_raises(cloud: Cloud) -> None:
    """The error advises consolidated metadata; arrays are opened all the same."""
    options = cloud.storage_options
    group = tessarr.create_group(cloud.url("g"), storage_options=options)
    group.create_array("a", data=np.arange(4))
    cloud.proxy.choose_refusal = refuse_lists
    group = tessarr.open_group(cloud.url("g"), mode="r", storage_options=options)
    assert np.asarray(group["a"]).sum() == 6
    with pytest.raises(StoreError, match="consolidate the metadata") as caught:
        list(group)
    assert cloud.url("g") in str(caught.value)


@pytest.mark.parametrize("cloud", ["s3"], indirect=True)
def test_forbidden_objects_are_absent_by_option(cloud: Cloud) -> None:
    """S3 reports absent objects as forbidden to clients that may not list the bucket."""
    text = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
    options = cloud.storage_options
    array = tessarr.create_array(
        cloud.url("x"), shape=4, chunks=2, dtype="u1", storage_options=options
    )
    array[:2] = 1
    cloud.proxy.choose_refusal = lambda line: Answer(403, {}, text) if "c/1" in line else 0
    with pytest.raises(StoreError, match=r"missing_status=\(404, 403\)"):
        array[:]
    options = {**options, "missing_status": (404, 403)}
    array = tessarr.open_array(cloud.url("x"), mode="r", storage_options=options)
    assert array[:].tolist() == [1, 1, 0, 0]


def test_unreachable_server_raises(cloud: Cloud) -> None:
    text = json.dumps(cloud.storage_options).replace(cloud.proxy.url, "http://127.0.0.1:9")
    options = {**json.loads(text), "retries": 1}
    with pytest.raises(StoreError, match="cannot connect") as caught:
        open_object_url(cloud.url("x"), options).get("k")
    assert f"{cloud.url('x')}/k" in str(caught.value)
    assert "check the address" in str(caught.value)


@pytest.mark.slow
def test_web_server_without_listing_raises(nginx: WebServer) -> None:
    """A group without consolidated metadata cannot be listed; its arrays are read by name."""
    path = nginx.folder / "unlisted"
    group = tessarr.create_group(path, overwrite=True)
    group.create_array("a", data=np.arange(4))
    url = f"http://127.0.0.1:{nginx.ports['ranges']}/unlisted"
    group = tessarr.open_group(url, mode="r")
    assert np.asarray(group["a"]).sum() == 6
    with pytest.raises(StoreError, match="consolidate the metadata") as caught:
        list(group)
    assert url in str(caught.value)
    tessarr.consolidate_metadata(path)
    assert list(tessarr.open_group(url, mode="r")) == ["a"]
    listed = f"http://127.0.0.1:{nginx.ports['listing']}/unlisted"
    assert list(tessarr.open_group(listed, mode="r", use_consolidated=False)) == ["a"]


@pytest.mark.slow
@pytest.mark.parametrize("status", [400, 403, 409, 412, 416, 418, 501])
def test_refusals_of_web_servers_raise(nginx: WebServer, status: int) -> None:
    tessarr.create_array(nginx.folder / "refused", data=np.arange(4), overwrite=True)
    with run_proxy(nginx.ports["ranges"]) as proxy:
        url = f"{proxy.url}/refused"
        array = tessarr.open_array(url, mode="r")
        proxy.choose_refusal = lambda _: status
        with pytest.raises(StoreError) as caught:
            array[:]
        assert f"{url}/c/0" in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [403, 503, Fault.RESET, Fault.HANG, 302])
def test_secrets_of_urls_are_hidden(nginx: WebServer, fault: Any) -> None:
    """Neither errors nor representations contain a password or a signature."""
    tessarr.create_array(nginx.folder / "signed", data=np.arange(4), overwrite=True)
    with run_proxy(nginx.ports["ranges"]) as proxy:
        authority = proxy.url.removeprefix("http://")
        url = f"http://me:s3cr3t@{authority}/signed?sig=s3cr3t"
        options = {"timeout_s": 0.3, "retries": 0, "headers": {"X-Token": "s3cr3t"}}
        array = tessarr.open_array(url, mode="r", storage_options=options)
        assert "sig=s3cr3t" in proxy.requests[0]
        assert proxy.headers[0]["authorization"].startswith("Basic")
        if fault == 302:
            fault = Answer(302, {"Location": f"{proxy.url}/signed/x?sig=s3cr3t"}, b"")
        proxy.choose_refusal = lambda _: fault
        with pytest.raises(TessarrError) as caught:
            array[:]
        for text in (describe(caught.value), repr(array), repr(array.store)):
            assert "s3cr3t" not in text


@pytest.mark.parametrize("cloud", ["az"], indirect=True)
@pytest.mark.parametrize(
    "fault",
    [403, 418, 503, Fault.RESET, Fault.HANG, Answer(200, {}, b"no XML"), Answer(206, {}, b"1")],
)
def test_sas_tokens_are_hidden(cloud: Cloud, fault: Any) -> None:
    options = {**anonymous_options(cloud), "sas_token": "sv=2020-01-01&sig=s3cr3t"}
    store = open_object_url(cloud.url(), {**options, "timeout_s": 0.3, "retries": 0})
    cloud.proxy.choose_refusal = lambda _: fault
    works: list[Callable[[], object]] = [
        lambda: store.get("k"),
        lambda: store.put("k", b"1"),
        store.list,
        lambda: store.delete("k"),
    ]
    for work in works:
        try:
            work()
        except TessarrError as error:
            assert "s3cr3t" not in describe(error)
    assert "sig=s3cr3t" in cloud.proxy.requests[0]
    assert "s3cr3t" not in repr(store)
