"""Requests of the engine to buckets: they equal those of the fsspec file systems."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import TYPE_CHECKING, Any

import fsspec
import numpy as np
import pytest

import tessarr
from stores import servers
from stores.servers import Answer
from tessarr.errors import UnsupportedError
from tessarr.store.fsspec import remote_files
from tessarr.store.object import buckets
from tessarr.stores import FsspecStore, LimitedStore, Limits

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stores.servers import Proxy
    from tessarr.store.object.http import Endpoint

botocore = pytest.importorskip("botocore", reason="needs s3fs")
s3fs = pytest.importorskip("s3fs", reason="needs s3fs")
gcsfs = pytest.importorskip("gcsfs", reason="needs gcsfs")

VALUES = np.arange(64 * 64, dtype="i4").reshape(64, 64)
POINT = "arn:aws:s3:us-west-2:123456789012:accesspoint/mine"
ODD_KEYS = ("a b", "a+b", "ä/ö", "50%", "a?b", "a#b", "q=1&r=2", "~!$'()*,;:@", "\u2028")


def of_s3(proxy: Proxy, path: str, **options: Any) -> FsspecStore:
    """Return the store of a folder in an S3 bucket."""
    return FsspecStore.from_url(f"s3://bucket/{path}", {"endpoint_url": proxy.url, **options})


def of_gcs(proxy: Proxy, path: str, **options: Any) -> FsspecStore:
    """Return the store of a folder in a GCS bucket."""
    options = {"endpoint_url": proxy.url, "token": "anon", **options}
    return FsspecStore.from_url(f"gs://bucket/{path}", options)


OF = {"s3": of_s3, "gcs": of_gcs}


def by_engine(proxy: Proxy) -> list[bool]:
    """Return, for each request since the last call, whether the engine sent it."""
    found = [one["User-Agent"].startswith("tessarr/") for one in proxy.headers]
    proxy.reset_counts()
    return found


def test_engine_requests_chunks(remote_path: tuple[str, Proxy, str]) -> None:
    """After the first use of the file system, the engine reads each value with one request."""
    kind, proxy, path = remote_path
    proxy.reset_counts()
    store = OF[kind](proxy, path)
    array = tessarr.create_array(store, data=VALUES, chunks=16)
    assert not by_engine(proxy)[0]
    assert (array[:] == VALUES).all()
    assert by_engine(proxy) == [True] * 16
    assert store["c/0/0"] == store.fs.cat_file(f"bucket/{path}c/0/0")
    assert store.get("no such key") is None
    found = by_engine(proxy)
    assert (found[0], any(found[1:-1]), found[-1]) == (True, False, True)


def test_engine_stores_chunks_on_s3(s3: Proxy) -> None:
    """Each replaced value takes one request; the file system drops its cached listing."""
    store = of_s3(s3, "stored")
    array = tessarr.create_array(store, shape=(64, 64), chunks=16, dtype="i4")
    assert store.fs.ls("bucket/stored") == ["bucket/stored/zarr.json"]
    s3.reset_counts()
    array[:] = VALUES
    assert sorted(s3.requests) == sorted(
        f"PUT /bucket/stored/c/{i}/{j}" for i in range(4) for j in range(4)
    )
    assert by_engine(s3) == [True] * 16
    assert store.fs.ls("bucket/stored") == ["bucket/stored/c", "bucket/stored/zarr.json"]
    before = store.fs.info("bucket/stored/c/0/0")["ETag"]
    s3.reset_counts()
    array[3, 3] = 7
    assert [line.split()[0] for line in s3.requests] == ["GET", "PUT"]
    assert s3.headers[1]["If-Match"] == before
    assert by_engine(s3) == [True, True]
    expected = VALUES.copy()
    expected[3, 3] = 7
    assert (array[:] == expected).all()


def test_storing_threads_call_no_python(s3: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Uploads run no file system code on the threads of the engine."""
    store = LimitedStore(of_s3(s3, "asked"), Limits(concurrency=32))
    array = tessarr.create_array(store, shape=(64, 64), chunks=4, dtype="i4")
    array[:] = VALUES  # create the bucket's client
    asked: list[str] = []
    reentry = remote_files.RemoteFiles._reentry_error

    def counted(self: remote_files.RemoteFiles) -> Exception | None:
        asked.append(threading.current_thread().name)
        return reentry(self)

    monkeypatch.setattr(remote_files.RemoteFiles, "_reentry_error", counted)
    s3.reset_counts()
    array[:] = VALUES + 1
    assert by_engine(s3) == [True] * 256
    assert set(asked) <= {threading.current_thread().name}
    assert len(asked) < 64  # the first upload on this thread, and one-time setup
    assert (array[:] == VALUES + 1).all()


def test_changed_value_is_not_overwritten(s3: Proxy) -> None:
    """A precondition guards absent values and values with another generation."""
    store, rival = of_s3(s3, "rivals"), of_s3(s3, "rivals", client_kwargs={"verify": None})
    store.put("a", b"one")
    s3.reset_counts()
    assert not store.replace("a", b"two", None)
    assert store.replace("a", b"two", b"one")
    s3.callbacks = [lambda: rival.put("a", b"theirs")]
    assert not store.replace("a", b"three", b"two")  # replaced after the read
    assert store.get("a") == b"theirs"
    assert not store.replace("new", b"x", b"y")
    assert store.replace("new", b"x", None)
    assert all(by_engine(s3)[:3])


def test_versions_equal_those_of_file_system(remote_path: tuple[str, Proxy, str]) -> None:
    """A generation that the engine read is a valid precondition for the file system."""
    kind, proxy, path = remote_path
    import tessarr.tensorstore as ts

    spec = servers.kvstore_spec(kind, proxy, path)
    store = ts.KvStore.open(spec).result()
    proxy.reset_counts()
    first = store.write("a", b"one").result()
    found = store.read("a").result()
    assert by_engine(proxy)[-2:] == [False, True]
    proxy.refusals = [403]
    by_fs = store.read("a").result()
    assert by_engine(proxy)[-2:] == [True, False]
    for read in (by_fs, found):
        assert (read.value, read.stamp.generation) == (b"one", first.generation)
    made = store.write("a", b"two", if_equal=found.stamp.generation).result()
    refused = store.write("a", b"three", if_equal=found.stamp.generation).result()
    now = store.read("a").result()
    assert (now.value, now.stamp.generation) == (b"two", made.generation)
    assert refused.generation != made.generation


@pytest.mark.parametrize("more", [5, 32])
def test_long_tags_are_compared_whole(
    s3: Proxy, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    """Some servers compute ETags from other hashes than Amazon does."""
    end = f'{"z" * more}"'

    def longer(ask: Callable[[dict[str, str]], Answer], headers: dict[str, str]) -> Answer:
        told = {name: value.replace(end, '"') for name, value in headers.items()}
        answer = ask(told)
        tag = answer.headers.get("ETag")
        return answer if tag is None else answer._replace(headers={"ETag": f"{tag[:-1]}{end}"})

    monkeypatch.setattr(s3, "forward", longer)
    path = f"long{more}"
    store, rival = of_s3(s3, path), of_s3(s3, path, client_kwargs={"verify": None})
    array = tessarr.create_array(store, data=VALUES, chunks=64, compressors=None)
    s3.callbacks = [lambda: rival.put("c/0/0", (VALUES + 1).tobytes())]
    array[0, 0] = 9
    found = array[:]
    assert (found[0, 0], found[1, 1]) == (9, VALUES[1, 1] + 1)
    assert store.replace("new", b"one", None)
    assert store.replace("new", b"two", b"one")


def test_kvstore_on_server_without_conditions_raises(s3: Proxy) -> None:
    """The message says what to do, in the engine and in the file system."""
    import tessarr.tensorstore as ts

    store = ts.KvStore.open(servers.kvstore_spec("s3", s3, "unconditional/")).result()
    store.write("a", b"one").result()
    found = store.read("a").result()
    s3.reset_counts()
    s3.refusals = [501, 501]
    with pytest.raises(UnsupportedError, match="use_conditional_write"):
        store.write("a", b"two", if_equal=found.stamp.generation).result()
    assert by_engine(s3) == [True, False]


@pytest.mark.parametrize("kind", ["s3", "gcs"])
def test_unusual_keys_and_folders_round_trip(kind: str, request: pytest.FixtureRequest) -> None:
    """The client percent-encodes keys as the server expects."""
    proxy = request.getfixturevalue(kind)
    for folder in ("", "a folder/+ä"):
        store = OF[kind](proxy, folder)
        for key in ODD_KEYS:
            store.put(f"{kind} {key}", key.encode())
        proxy.reset_counts()
        for key in ODD_KEYS:
            assert store.get(f"{kind} {key}") == key.encode()
        assert all(by_engine(proxy)[1:])


@pytest.mark.parametrize("options", [{}, {"client_kwargs": {"verify": None}}])
def test_keys_like_version_suffixes_round_trip(s3: Proxy, options: dict[str, Any]) -> None:
    """The engine and the file system treat them as separate keys."""
    store = of_s3(s3, f"versions-{len(options)}", **options)
    odd = "a?versionId=b"
    store.put(odd, b"odd")
    store.put("a", b"plain")
    assert store.replace(odd, b"other", b"odd")
    assert (store.list(), store["a"], store[odd]) == (["a", odd], b"plain", b"other")
    store.delete(odd)
    assert (store.list(), store.get(odd)) == (["a"], None)


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
    s3: Proxy, token: str | None, region: str | None
) -> None:
    """The engine signs with the same credentials, for any key."""
    from botocore.credentials import Credentials

    options: dict[str, Any] = {"key": "name", "secret": "se/cret", "token": token}
    if region:
        options["client_kwargs"] = {"region_name": region}
    store = of_s3(s3, "signed", requester_pays=True, **options)
    for key in ODD_KEYS:
        store.put(key, b"x")
    store.get("a b")
    s3.reset_counts()
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


def elsewhere(ask: Callable[[dict[str, str]], Answer], headers: dict[str, str]) -> Answer:
    """Respond like a bucket in another region than the client's."""
    if any("/eu-central-1/s3/" in value for value in headers.values()):
        return ask(headers)
    region = "<Region>eu-central-1</Region>"
    words = f"<Error><Code>AuthorizationHeaderMalformed</Code>{region}</Error>".encode()
    return Answer(400, {"x-amz-bucket-region": "eu-central-1"}, words)


def test_requests_are_signed_for_region_of_bucket(
    s3: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file system discovers the region and remembers it."""
    of_s3(s3, "region").put("a", b"x")
    monkeypatch.setattr(s3, "forward", elsewhere)
    store = of_s3(s3, "region", client_kwargs={"region_name": "us-west-2"})
    assert store.get("a") == b"x"
    s3.reset_counts()
    assert [store.get("a") for _ in range(3)] == [b"x"] * 3
    assert by_engine(s3) == [True] * 3


@pytest.mark.parametrize(
    ("bucket", "folder", "options", "url", "region"),
    [
        ("name", "/a", {}, "https://name.s3.amazonaws.com", "us-east-1"),
        ("name", "", {"region_name": "eu-west-1"}, "https://name.s3.eu-west-1.amazonaws.com", ""),
        ("na.me", "/ä b", {"region_name": "eu-west-1"}, "", ""),
        (POINT, "/a/b", {"region_name": "eu-west-1"}, "", "us-west-2"),
        ("name", "/a/b", {"endpoint_url": "http://[::1]:99/base/"}, "", "us-east-1"),
    ],
)
def test_endpoint_equals_that_of_file_system(
    monkeypatch: pytest.MonkeyPatch,
    bucket: str,
    folder: str,
    options: dict[str, str],
    url: str,
    region: str,
) -> None:
    """Hosts of presigned URLs do not serve all regions, so the engine does not use them."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    fs = s3fs.S3FileSystem(client_kwargs=options, skip_instance_cache=True)
    asked: list[str] = []

    def note(request: Any, **_: Any) -> None:
        asked.append(request.url)
        raise InterruptedError

    async def look() -> Endpoint | None:
        client = await fs.set_session()
        client.meta.events.register("before-send.s3", note)
        with suppress(InterruptedError):
            await client.get_object(Bucket=bucket, Key=f"{folder}/x"[1:])
        return await buckets.find_s3_endpoint(fs, f"{bucket}{folder}")

    found = fsspec.asyn.sync(fs.loop, look)
    assert f"{found.root}x" == asked[0]
    assert found.root.startswith(url)
    assert found.signing_key[3] == (region or options["region_name"])


def test_anonymous_requests_are_unsigned(s3: Proxy) -> None:
    """Anonymous requests have neither a signature nor a token."""
    of_s3(s3, "open", s3_additional_kwargs={"ACL": "public-read"}).put("a", b"x")
    store = of_s3(s3, "open", anon=True)
    s3.reset_counts()
    assert [store.get("a") for _ in range(3)] == [b"x"] * 3
    assert all("Authorization" not in one for one in s3.headers)
    assert by_engine(s3) == [False, True, True]


def test_expired_signing_keys_are_renewed(s3: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine uses credentials that stay valid for some minutes, and then refreshes them."""
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
    s3.reset_counts()
    store.get("a")
    store.get("a")  # the cached credentials are no longer valid
    assert by_engine(s3) == [False, False]
    monkeypatch.setattr(buckets, "_VALID_S", 1000.0)
    store.get("a")
    store.get("a")
    assert "Credential=key0/" in s3.headers[-1]["Authorization"]
    assert by_engine(s3) == [False, True]


def test_rejected_credentials_fall_back_to_file_system(
    s3: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file system handles the rejection; the engine sends requests again later."""
    store = of_s3(s3, "known")
    store.put("a", b"x")
    store.get("a")
    s3.reset_counts()
    assert store.get("a") == b"x"
    assert by_engine(s3) == [True]
    s3.refusals = [403]
    assert store.get("a") == b"x"
    assert by_engine(s3) == [True, False]
    assert [store.get("a") for _ in range(2)] == [b"x"] * 2
    assert by_engine(s3) == [False, False]
    later = monotonic() + 100
    monkeypatch.setattr(remote_files, "monotonic", lambda: later)
    assert [store.get("a") for _ in range(2)] == [b"x"] * 2
    assert by_engine(s3) == [False, True]
    s3.refusals = [500]  # the file system retries this request more than once
    assert store.get("a") == b"x"
    assert by_engine(s3) == [True, False]


def forbids(ask: Callable[[dict[str, str]], Answer], headers: dict[str, str]) -> Answer:
    """Respond like a bucket that hides absent keys from users without list permission."""
    answer = ask(headers)
    words = b"<Error><Code>AccessDenied</Code></Error>"
    return Answer(403, {}, words) if answer.status == 404 else answer


@pytest.mark.parametrize("anon", [True, False])
def test_absent_file_reported_as_forbidden_is_absent(
    s3: Proxy, monkeypatch: pytest.MonkeyPatch, anon: bool
) -> None:
    """After the file system gets the same refusal, the engine sends one request for each key."""
    path = f"sparse {anon}"
    array = tessarr.create_array(
        of_s3(s3, path, s3_additional_kwargs={"ACL": "public-read"}),
        shape=(64, 64),
        chunks=16,
        dtype="i4",
    )
    array[0, 0] = 1
    monkeypatch.setattr(s3, "forward", forbids)
    denied = (FileNotFoundError, PermissionError)
    options: dict[str, Any] = {"endpoint_url": s3.url, "anon": anon}
    store = FsspecStore.from_url(f"s3://bucket/{path}", options, allowed_exceptions=denied)
    array = tessarr.open_array(store)
    assert store.get("none") is None
    s3.reset_counts()
    assert array[:].sum() == 1
    assert by_engine(s3) == [True] * 16
    strict = FsspecStore.from_url(f"s3://bucket/{path}", options)
    assert strict.get("zarr.json") is not None
    for _ in range(2):
        with pytest.raises(PermissionError):
            strict.get("none")


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
        {"s3_additional_kwargs": {"ServerSideEncryption": "AES256"}},
        {"client_kwargs": {"verify": False}},
        {"session": plain_session},
    ],
)
def test_unsupported_settings_use_file_system(s3: Proxy, options: dict[str, Any]) -> None:
    """The engine handles only a region, an endpoint and credentials."""
    of_s3(s3, "more").put("a", b"x")
    options = {name: one() if callable(one) else one for name, one in options.items()}
    store = of_s3(s3, "more", **options)
    s3.reset_counts()
    assert [store.get("a") for _ in range(3)] == [b"x"] * 3
    store.put("a", b"y")
    assert store.replace("a", b"x", b"y")
    assert not any(by_engine(s3))


@pytest.mark.parametrize("of", ["s3", "gcs"])
def test_proxies_use_file_system(
    of: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxies come from the environment."""
    proxy = request.getfixturevalue(of)
    OF[of](proxy, "proxies").put("a", b"x")
    store = OF[of](proxy, "proxies", skip_instance_cache=True)
    monkeypatch.setenv("http_proxy", proxy.url)
    proxy.reset_counts()
    found = [store.get("a") for _ in range(2)]
    assert not any(by_engine(proxy))
    assert found == [b"x"] * 2


def test_tokens_of_gcs_are_sent(gcs: Proxy) -> None:
    """The engine sends the token of the file system until it expires."""
    from google.oauth2.credentials import Credentials

    of_gcs(gcs, "tokens").put("a", b"x")
    credentials = Credentials("secret")  # type: ignore[no-untyped-call]
    store = of_gcs(gcs, "tokens", token=credentials, requester_pays="my project")
    gcs.reset_counts()
    assert [store.get("a") for _ in range(3)] == [b"x"] * 3
    assert [one["Authorization"] for one in gcs.headers] == ["Bearer secret"] * 3
    assert all("userProject=my+project" in line for line in gcs.requests)
    assert by_engine(gcs) == [False, True, True]


def test_error_while_finding_endpoint_is_ignored(
    s3: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file system reads the values instead."""

    async def broken(*_: Any) -> Any:
        raise RuntimeError("no")

    of_s3(s3, "broken").put("a", b"x")
    monkeypatch.setattr(buckets, "_get_signing_key", broken)
    store = of_s3(s3, "broken", key="other", secret="s")
    s3.reset_counts()
    assert [store.get("a") for _ in range(3)] == [b"x"] * 3
    assert not any(by_engine(s3))
    monkeypatch.undo()
    later = monotonic() + 100
    monkeypatch.setattr(remote_files, "monotonic", lambda: later)
    assert [store.get("a") for _ in range(3)] == [b"x"] * 3
    assert by_engine(s3) == [False, True, True]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
def test_children_of_a_busy_parent_read_and_store(s3: Proxy) -> None:
    """While threads of the parent read, children open their own connections."""
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


def test_stored_files_invalidate_shared_listings_only(
    s3: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The invalidation runs for each stored value, so its cost must stay below a request's."""
    import tessarr.tensorstore as ts

    told: list[str] = []
    monkeypatch.setattr(remote_files.RemoteFiles, "_on_stored", lambda _, key: told.append(key))
    store = ts.KvStore.open(servers.kvstore_spec("s3", s3, "private/")).result()
    store.write("a", b"x").result()
    assert store.list().result() == [b"a"]
    store.write("b", b"y").result()
    assert by_engine(s3)[-1]
    assert sorted(store.list().result()) == [b"a", b"b"]
    assert told == []
    shared = of_s3(s3, "shared")
    shared.put("a", b"x")
    shared.put("b", b"y")
    assert told == ["b"]
