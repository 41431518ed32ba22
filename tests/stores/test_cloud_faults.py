"""Faults of servers and connections: operations succeed, or raise an error that names the URL."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

import tessarr
from stores.clouds import KEYS, Cloud, WebServer
from stores.proxy import (
    EXPIRED_TOKEN,
    SLOW_DOWN,
    TOO_MANY_REQUESTS,
    WRONG_REGION,
    Answer,
    Fault,
    Refusal,
    every,
    run_proxy,
)
from tessarr.errors import StoreError
from tessarr.store.object.open import open_object_url
from tessarr.stores import S3Store

DATA = np.random.default_rng(0).integers(0, 1000, (64, 64))
FAULTS: list[Any] = [
    pytest.param(503, id="503"),
    pytest.param(SLOW_DOWN, id="SlowDown"),
    pytest.param(TOO_MANY_REQUESTS, id="429"),
    pytest.param(500, id="500"),
    pytest.param(502, id="502"),
    *(pytest.param(fault, id=fault.name.lower()) for fault in Fault),
]


def create_array(cloud: Cloud) -> tessarr.Array:
    settings: dict[str, Any] = {"chunks": (16, 16), "compressors": None}
    return tessarr.create_array(
        cloud.url("x"), data=DATA, storage_options=cloud.storage_options, **settings
    )


def open_array(cloud: Cloud, **options: Any) -> tessarr.Array:
    return tessarr.open_array(cloud.url("x"), storage_options={**cloud.storage_options, **options})


@pytest.mark.parametrize("fault", FAULTS)
def test_reads_survive_faults(cloud: Cloud, fault: Refusal) -> None:
    create_array(cloud)
    array = open_array(cloud, timeout_s=1)
    cloud.proxy.reset_counts()
    cloud.proxy.choose_refusal = every(5, fault)
    np.testing.assert_array_equal(array[:], DATA)
    assert len(cloud.proxy.requests) > 16


@pytest.mark.parametrize("fault", FAULTS)
def test_whole_writes_survive_faults(cloud: Cloud, fault: Refusal) -> None:
    create_array(cloud)
    array = open_array(cloud, timeout_s=1)
    cloud.proxy.reset_counts()
    cloud.proxy.choose_refusal = every(5, fault)
    array[:] = -DATA
    array[:] = DATA[::-1]
    cloud.proxy.reset()
    np.testing.assert_array_equal(array[:], DATA[::-1])


@pytest.mark.parametrize("fault", FAULTS)
def test_partial_writes_survive_faults(cloud: Cloud, fault: Refusal) -> None:
    """A repeated partial write applies the change once more to the current value."""
    create_array(cloud)
    array = open_array(cloud, timeout_s=1)
    cloud.proxy.choose_refusal = every(5, fault)
    array[3:60, 2:63] = -5
    cloud.proxy.reset()
    expected = DATA.copy()
    expected[3:60, 2:63] = -5
    np.testing.assert_array_equal(array[:], expected)


@pytest.mark.parametrize("fault", [Fault.LOST_RESPONSE, Fault.RESET, 503, Fault.HANG])
def test_append_succeeds_or_raises_after_faults(cloud: Cloud, fault: Refusal) -> None:
    """If the answer to an append is lost, the error says so; no row is appended twice."""
    create_array(cloud)
    array = open_array(cloud, timeout_s=1)
    rows, raised = 64, 0
    for position in range(6):  # the fault hits each of the requests of an append
        cloud.proxy.refusals = [*[0] * position, fault]
        try:
            array.append(DATA[:1])
            rows += 1
        except StoreError as error:
            raised += 1
            assert error.kind == "answer_lost"
        cloud.proxy.reset()
        array = open_array(cloud, timeout_s=1)
        assert array.shape[0] - rows in ({0, 1} if raised else {0})
        rows = array.shape[0]


def test_server_that_always_hangs_raises(cloud: Cloud) -> None:
    """The error names the URL, the cause and the option."""
    create_array(cloud)
    array = open_array(cloud, timeout_s=0.3, retries=1)
    cloud.proxy.choose_refusal = lambda _: Fault.HANG
    start = time.monotonic()
    for work in (lambda: array[:], lambda: array.__setitem__(slice(None), 1)):
        with pytest.raises(StoreError, match=r"did not answer within 0\.3 s") as caught:
            work()
        assert f"{cloud.url('x')}/c/" in str(caught.value)
        assert "timeout_s" in str(caught.value)
        assert caught.value.retryable
    assert time.monotonic() - start < 20


@pytest.mark.parametrize("fault", [503, Fault.RESET, Fault.DROPPED_BODY, Fault.STALLED_BODY])
def test_lasting_faults_raise(cloud: Cloud, fault: Refusal) -> None:
    create_array(cloud)
    array = open_array(cloud, timeout_s=0.3, retries=1)
    cloud.proxy.choose_refusal = lambda _: fault
    with pytest.raises(StoreError) as caught:
        array[:]
    assert f"cannot read {cloud.url('x')}/c/" in str(caught.value)
    assert caught.value.retryable


def test_slow_upload_is_no_hang(cloud: Cloud) -> None:
    """A timeout limits the time without progress, and not that of a whole upload."""
    store = open_object_url(cloud.url("x"), {**cloud.storage_options, "timeout_s": 1})
    value = bytes(8_000_000)
    cloud.proxy.delay_s = 0.6
    store.put("k", value)
    cloud.proxy.delay_s = 0
    assert store.get("k") == value


@pytest.mark.parametrize("cloud", ["s3"], indirect=True)
@pytest.mark.parametrize("status", [301, 400])
def test_bucket_in_other_region_opens(cloud: Cloud, status: int) -> None:
    """The client signs for the region that the server names."""
    refusal = Answer(status, WRONG_REGION.headers, WRONG_REGION.data)
    cloud.put("k", b"1")
    store = open_object_url(cloud.url(), cloud.storage_options)
    cloud.proxy.refusals = [refusal]
    with pytest.raises(StoreError, match="region") as caught:
        store.get("k")  # versitygw has one region, and refuses the other
    assert cloud.url("k") in str(caught.value)
    assert "/eu-west-3/s3/" in cloud.proxy.headers[1]["authorization"]


@pytest.mark.parametrize("cloud", ["s3"], indirect=True)
def test_credentials_are_renewed(cloud: Cloud) -> None:
    """A callable is called before the credentials expire, or when the server says so."""
    calls = []

    def get_credentials() -> dict[str, Any]:
        calls.append(datetime.now(UTC))
        keys = {"access_key_id": KEYS["key"], "secret_access_key": KEYS["secret"]}
        return {**keys, "expires_at": calls[-1] + timedelta(seconds=1)}

    endpoint = cloud.storage_options["endpoint_url"]
    store = S3Store(cloud.bucket, endpoint=endpoint, credentials=get_credentials)
    array = tessarr.create_array(store, data=np.arange(64), chunks=1)
    end = time.monotonic() + 60
    while len(calls) < 4 and time.monotonic() < end:
        assert array[:].sum() == 2016
    assert len(calls) == 4
    assert len(cloud.proxy.requests) > 40
    calls.clear()
    store = S3Store(
        cloud.bucket,
        endpoint=endpoint,
        credentials=lambda: {**get_credentials(), "expires_at": None},
    )
    assert store.get("zarr.json")
    cloud.proxy.refusals = [EXPIRED_TOKEN]
    assert store.get("zarr.json")
    assert len(calls) == 2
    cloud.proxy.choose_refusal = lambda _: EXPIRED_TOKEN
    with pytest.raises(StoreError, match="expired"):
        store.get("zarr.json")


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.slow
def test_web_reads_survive_faults(nginx: WebServer, fault: Refusal) -> None:
    tessarr.create_array(nginx.folder / "faults", data=DATA, chunks=(16, 16), overwrite=True)
    with run_proxy(nginx.ports["ranges"]) as proxy:
        array = tessarr.open_array(
            f"{proxy.url}/faults", mode="r", storage_options={"timeout_s": 1}
        )
        proxy.choose_refusal = every(5, fault)
        np.testing.assert_array_equal(array[:], DATA)


@pytest.mark.slow
def test_web_server_that_always_hangs_raises(nginx: WebServer) -> None:
    tessarr.create_array(nginx.folder / "hangs", data=DATA, chunks=(16, 16), overwrite=True)
    with run_proxy(nginx.ports["ranges"]) as proxy:
        url = f"{proxy.url}/hangs"
        options = {"timeout_s": 0.3, "retries": 1}
        array = tessarr.open_array(url, mode="r", storage_options=options)
        proxy.choose_refusal = lambda _: Fault.HANG
        with pytest.raises(StoreError, match=r"did not answer within 0\.3 s") as caught:
            array[:]
        assert f"{url}/c/" in str(caught.value)
