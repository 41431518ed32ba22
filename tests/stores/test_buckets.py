"""Files of buckets are asked for by the engine, as their file systems would ask."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tessarr
from stores import servers
from tessarr.store import buckets, ranges
from tessarr.stores import FsspecStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stores.servers import Door

botocore = pytest.importorskip("botocore", reason="needs s3fs")
pytest.importorskip("s3fs", reason="needs s3fs")
gcsfs = pytest.importorskip("gcsfs", reason="needs gcsfs")

VALUES = np.arange(64 * 64, dtype="i4").reshape(64, 64)
ODD_KEYS = ("a b", "a+b", "ä/ö", "50%", "a?b", "a#b", "q=1&r=2", "~!$'()*,;:@", "\u2028")


def of_s3(door: Door, path: str, **options: Any) -> FsspecStore:
    """Return the store of a folder in a bucket of S3."""
    return FsspecStore.from_url(f"s3://bucket/{path}", {"endpoint_url": door.url, **options})


def of_gcs(door: Door, path: str, **options: Any) -> FsspecStore:
    """Return the store of a folder in a bucket of GCS."""
    options = {"endpoint_url": door.url, "token": "anon", **options}
    return FsspecStore.from_url(f"gs://bucket/{path}", options)


OF = {"s3": of_s3, "gcs": of_gcs}


def by_engine(door: Door) -> list[bool]:
    """Return, for each request since the last time, whether the engine has sent it."""
    found = [one["User-Agent"].startswith("tessarr/") for one in door.headers]
    door.forget()
    return found


def test_chunks_are_asked_for_by_the_engine(place: tuple[str, Door, str]) -> None:
    """Once the file system has done something; each by one request."""
    kind, door, path = place
    door.forget()
    store = OF[kind](door, path)
    array = tessarr.create_array(store, data=VALUES, chunks=16)
    assert not by_engine(door)[0]
    assert (array[:] == VALUES).all()
    assert by_engine(door) == [True] * 16
    assert store["c/0/0"] == store.fs.cat_file(f"bucket/{path}c/0/0")
    assert store.get("no such key") is None
    found = by_engine(door)
    assert (found[0], any(found[1:-1]), found[-1]) == (True, False, True)


def test_chunks_of_s3_are_stored_by_the_engine(s3: Door) -> None:
    """Each by one request, if it is as expected; the file system forgets what it has listed."""
    store = of_s3(s3, "stored")
    array = tessarr.create_array(store, shape=(64, 64), chunks=16, dtype="i4")
    assert store.fs.ls("bucket/stored") == ["bucket/stored/zarr.json"]
    s3.forget()
    array[:] = VALUES
    assert sorted(s3.requests) == sorted(
        f"PUT /bucket/stored/c/{i}/{j}" for i in range(4) for j in range(4)
    )
    assert by_engine(s3) == [True] * 16
    assert store.fs.ls("bucket/stored") == ["bucket/stored/c", "bucket/stored/zarr.json"]
    before = store.fs.info("bucket/stored/c/0/0")["ETag"]
    s3.forget()
    array[3, 3] = 7
    assert [line.split()[0] for line in s3.requests] == ["GET", "PUT"]
    assert s3.headers[1]["If-Match"] == before
    assert by_engine(s3) == [True, True]
    expected = VALUES.copy()
    expected[3, 3] = 7
    assert (array[:] == expected).all()


def test_what_others_have_stored_is_not_replaced(s3: Door) -> None:
    """Neither what was absent, nor what was in another state."""
    store, rival = of_s3(s3, "rivals"), of_s3(s3, "rivals", client_kwargs={"verify": None})
    store.put("a", b"one")
    s3.forget()
    assert not store.replace("a", b"two", None)
    assert store.replace("a", b"two", b"one")
    s3.then = [lambda: rival.put("a", b"theirs")]
    assert not store.replace("a", b"three", b"two")  # replaced after it was read
    assert store.get("a") == b"theirs"
    assert not store.replace("new", b"x", b"y")
    assert store.replace("new", b"x", None)
    assert all(by_engine(s3)[:3])


def test_states_are_those_that_the_file_system_tells(place: tuple[str, Door, str]) -> None:
    """What the engine has read may be what a change depends on."""
    kind, door, path = place
    import tessarr.tensorstore as ts

    spec = servers.spec(kind, door, path)
    store = ts.KvStore.open(spec).result()
    door.forget()
    first = store.write("a", b"one").result()
    found = store.read("a").result()
    assert by_engine(door)[-2:] == [False, True]
    door.refusals = [403]
    by_fs = store.read("a").result()
    assert by_engine(door)[-2:] == [True, False]
    for read in (by_fs, found):
        assert (read.value, read.stamp.generation) == (b"one", first.generation)
    made = store.write("a", b"two", if_equal=found.stamp.generation).result()
    refused = store.write("a", b"three", if_equal=found.stamp.generation).result()
    now = store.read("a").result()
    assert (now.value, now.stamp.generation) == (b"two", made.generation)
    assert refused.generation != made.generation


@pytest.mark.parametrize("kind", ["s3", "gcs"])
def test_odd_keys_and_folders(kind: str, request: pytest.FixtureRequest) -> None:
    """They are encoded as the server knows them."""
    door = request.getfixturevalue(kind)
    for folder in ("", "a folder/+ä"):
        store = OF[kind](door, folder)
        for key in ODD_KEYS:
            store.put(f"{kind} {key}", key.encode())
        door.forget()
        for key in ODD_KEYS:
            assert store.get(f"{kind} {key}") == key.encode()
        assert all(by_engine(door)[1:])


def signed_by_botocore(method: str, url: str, headers: Mapping[str, str], keys: Any) -> str:
    """Return the header with which botocore signs a request."""
    from botocore.auth import S3SigV4Auth
    from botocore.awsrequest import AWSRequest

    scope = headers["Authorization"].partition("Credential=")[2].split(",")[0].split("/")
    signed = headers["Authorization"].partition("SignedHeaders=")[2].split(",")[0].split(";")
    asked = AWSRequest(method, url, {name: headers[name] for name in signed})
    asked.context["timestamp"] = headers["x-amz-date"]
    asked.context["payload_signing_enabled"] = True
    signer = S3SigV4Auth(keys, "s3", scope[2])
    text = signer.string_to_sign(asked, signer.canonical_request(asked))
    name = f"{keys.access_key}/{signer.credential_scope(asked)}"
    signature = signer.signature(text, asked)
    return (
        f"AWS4-HMAC-SHA256 Credential={name}, SignedHeaders={';'.join(signed)}, "
        f"Signature={signature}"
    )


@pytest.mark.parametrize("token", [None, "a+token/=="])
@pytest.mark.parametrize("region", [None, "eu-central-1"])
def test_requests_are_signed_as_botocore_signs_them(
    s3: Door, token: str | None, region: str | None
) -> None:
    """With the keys that are given, whatever the key of the value is."""
    from botocore.credentials import Credentials

    options: dict[str, Any] = {"key": "name", "secret": "se/cret", "token": token}
    if region:
        options["client_kwargs"] = {"region_name": region}
    store = of_s3(s3, "signed", requester_pays=True, **options)
    for key in ODD_KEYS:
        store.put(key, b"x")
    store.get("a b")
    s3.forget()
    for key in ODD_KEYS:
        assert store.get(key) == b"x"
    asked = [*zip(s3.requests, s3.headers, strict=True)]
    assert all(by_engine(s3))
    keys = Credentials("name", "se/cret", token)
    for line, headers in asked:
        method, _, path = line.partition(" ")
        assert headers["x-amz-request-payer"] == "requester"
        assert headers.get("x-amz-security-token") == token
        expected = signed_by_botocore(method, f"{s3.url}{path}", headers, keys)
        assert headers["Authorization"] == expected


def test_who_is_nobody_signs_nothing(s3: Door) -> None:
    """Anonymous requests have no signature, nor a token."""
    of_s3(s3, "open", s3_additional_kwargs={"ACL": "public-read"}).put("a", b"x")
    store = of_s3(s3, "open", anon=True)
    s3.forget()
    assert [store.get("a") for _ in range(3)] == [b"x"] * 3
    assert all("Authorization" not in one for one in s3.headers)
    assert by_engine(s3) == [False, True, True]


def test_keys_that_expire_are_asked_for_again(s3: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine uses those that are valid for some minutes at least, and then asks again."""
    from aiobotocore.credentials import AioRefreshableCredentials

    of_s3(s3, "expire").put("a", b"x")
    store = of_s3(s3, "expire", key="k", secret="s", use_listings_cache=False)
    store.get("a")
    count = iter(range(10))

    async def renewed() -> dict[str, str]:
        until = datetime.now(UTC) + timedelta(seconds=1000)
        told = {"secret_key": "s", "token": "t", "expiry_time": until.isoformat()}
        return {"access_key": f"key{next(count)}", **told}

    first = asyncio.run(renewed())
    made = AioRefreshableCredentials.create_from_metadata(first, renewed, "test")
    monkeypatch.setattr("aiobotocore.client.AioBaseClient._get_credentials", lambda _: made)
    monkeypatch.setattr(buckets, "_VALID_S", 0.0)
    store = of_s3(s3, "expire", key="k", secret="s", skip_instance_cache=True)
    s3.forget()
    store.get("a")
    store.get("a")  # what was told is not valid any more
    assert by_engine(s3) == [False, False]
    monkeypatch.setattr(buckets, "_VALID_S", 1000.0)
    store.get("a")
    store.get("a")
    assert "Credential=key0/" in s3.headers[-1]["Authorization"]
    assert by_engine(s3) == [False, True]


def test_who_is_not_known_any_more_asks_by_the_file_system(
    s3: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows what is to be done then; the engine asks again later."""
    store = of_s3(s3, "known")
    store.put("a", b"x")
    store.get("a")
    s3.forget()
    assert store.get("a") == b"x"
    assert by_engine(s3) == [True]
    s3.refusals = [403]
    assert store.get("a") == b"x"
    assert by_engine(s3) == [True, False]
    assert [store.get("a") for _ in range(2)] == [b"x"] * 2
    assert by_engine(s3) == [False, False]
    later = monotonic() + 100
    monkeypatch.setattr(ranges, "monotonic", lambda: later)
    assert [store.get("a") for _ in range(2)] == [b"x"] * 2
    assert by_engine(s3) == [False, True]
    s3.refusals = [500]  # which the file system asks again for, more than once
    assert store.get("a") == b"x"
    assert by_engine(s3) == [True, False]


def plain_session(**_: Any) -> Any:
    from aiobotocore.session import get_session

    return get_session()


@pytest.mark.parametrize(
    "options",
    [
        {"config_kwargs": {"user_agent": "me"}},
        {"config_kwargs": {"proxies": {"https": "http://127.0.0.1:1"}}},
        {"config_kwargs": {"s3": {"payload_signing_enabled": True}}},
        {"config_kwargs": {"signature_version": "s3"}},
        {"s3_additional_kwargs": {"ExpectedBucketOwner": "me"}},
        {"client_kwargs": {"verify": False}},
        {"session": plain_session},
    ],
)
def test_what_the_engine_does_not_know_is_left_to_the_file_system(
    s3: Door, options: dict[str, Any]
) -> None:
    """Whoever says more than where, and who asks."""
    of_s3(s3, "more").put("a", b"x")
    options = {name: one() if callable(one) else one for name, one in options.items()}
    store = of_s3(s3, "more", **options)
    s3.forget()
    assert [store.get("a") for _ in range(3)] == [b"x"] * 3
    assert not any(by_engine(s3))


@pytest.mark.parametrize("of", ["s3", "gcs"])
def test_proxies_are_left_to_the_file_system(
    of: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are those of the environment."""
    door = request.getfixturevalue(of)
    OF[of](door, "proxies").put("a", b"x")
    store = OF[of](door, "proxies", skip_instance_cache=True)
    monkeypatch.setenv("http_proxy", door.url)
    door.forget()
    found = [store.get("a") for _ in range(2)]
    assert not any(by_engine(door))
    assert found == [b"x"] * 2


def test_tokens_of_gcs_are_sent(gcs: Door) -> None:
    """As the file system has them, for as long as they are valid."""
    from google.oauth2.credentials import Credentials

    of_gcs(gcs, "tokens").put("a", b"x")
    credentials = Credentials("secret")  # type: ignore[no-untyped-call]
    store = of_gcs(gcs, "tokens", token=credentials, requester_pays="my project")
    gcs.forget()
    assert [store.get("a") for _ in range(3)] == [b"x"] * 3
    assert [one["Authorization"] for one in gcs.headers] == ["Bearer secret"] * 3
    assert all("userProject=my+project" in line for line in gcs.requests)
    assert by_engine(gcs) == [False, True, True]


def test_what_goes_wrong_while_it_is_looked_for_hinders_nobody(
    s3: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values are read by the file system then."""

    async def broken(*_: Any) -> Any:
        raise RuntimeError("no")

    of_s3(s3, "broken").put("a", b"x")
    monkeypatch.setattr(buckets, "_keys", broken)
    store = of_s3(s3, "broken", key="other", secret="s")
    s3.forget()
    assert [store.get("a") for _ in range(3)] == [b"x"] * 3
    assert not any(by_engine(s3))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
def test_children_of_a_busy_parent_read_and_store(s3: Door) -> None:
    """While threads ask for values, by connections that are not the children's."""
    store = of_s3(s3, "forked")
    store.put("a", b"x")
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            assert store.get("a") == b"x"

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for number in range(5):
            child = os.fork()
            if child == 0:
                try:
                    signal.alarm(60)
                    store.put(f"b{number}", b"y")
                    os._exit(0 if store.get("a") == b"x" else 1)
                finally:
                    os._exit(2)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert [store.get(f"b{number}") for number in range(5)] == [b"y"] * 5
