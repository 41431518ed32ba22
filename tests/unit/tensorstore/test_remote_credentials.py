"""Credentials and signatures of requests to S3 and GCS."""

from __future__ import annotations

import http.server
import json
import pickle
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import tessarr.tensorstore as ts
from stores import servers
from stores.servers import Proxy
from tessarr.errors import StoreError

pytestmark = pytest.mark.slow


@contextmanager
def answering(answers: dict[str, Any], seen: list[tuple[str, str]]) -> Iterator[str]:
    """A server with a few paths, like a credential server."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def _answer(self) -> None:
            path = self.path.partition("?")[0]
            seen.append((path, self.headers.get("Authorization", "")))
            answer = answers.get(path)
            data = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
            self.send_response(404 if answer is None else 200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PUT = _answer  # noqa: N815 (the library names them)

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def key_of(proxy: Proxy, path: str, credentials: Any) -> str:
    """Return the access key of a request's signature; "" without one. The server may refuse it."""
    spec = {**servers.kvstore_spec("s3", proxy, path), "aws_credentials": credentials}
    store = ts.KvStore.open(spec).result()
    proxy.reset_counts()
    with suppress(StoreError):
        store.read("absent").result()
    signed = proxy.headers[-1].get("Authorization", "")
    return signed.partition("Credential=")[2].partition("/")[0]


CREDENTIALS = {
    "Code": "Success",
    "AccessKeyId": "given",
    "SecretAccessKey": "secret",
    "Token": "token",
    "Expiration": "2999-01-01T00:00:00Z",
}


def test_credentials_of_each_type_are_used(
    moto: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "credentials"
    file.write_text(
        "[default]\naws_access_key_id = ofdefault\naws_secret_access_key = s\n"
        "[other]\naws_access_key_id = ofother\naws_secret_access_key = s\n"
    )
    path = f"{tmp_path.name}/"
    assert key_of(moto, path, {"type": "anonymous"}) == ""
    assert key_of(moto, path, {"type": "environment"}) == "key"
    assert key_of(moto, path, {"type": "default"}) == "key"
    profile = {"type": "profile", "profile": "other", "credentials_file": str(file)}
    assert key_of(moto, path, profile) == "ofother"
    assert key_of(moto, path, {"type": "profile", "credentials_file": str(file)}) == "ofdefault"
    assert key_of(moto, path, {"type": "profile", "credentials_file": "/absent"}) == ""
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    assert key_of(moto, path, {"type": "profile", "profile": "other"}) == "ofother"
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert key_of(moto, path, {"type": "environment"}) == ""
    assert key_of(moto, path, {"type": "default", "profile": "other"}) == "ofother"
    monkeypatch.delenv("AWS_SHARED_CREDENTIALS_FILE")
    assert key_of(moto, path, {"type": "default", "filename": str(file)}) == "ofdefault"


def test_credentials_of_containers(
    moto: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, str]] = []
    path = f"{tmp_path.name}/"
    token = tmp_path / "token"
    token.write_text("open sesame")
    with answering({"/credentials": CREDENTIALS}, seen) as url:
        credentials = {
            "type": "ecs",
            "endpoint": f"{url}/credentials",
            "auth_token_file": str(token),
        }
        assert key_of(moto, path, credentials) == "given"
        del credentials["auth_token_file"]
        assert key_of(moto, path, credentials) == "given"
        monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "of the environment")
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/unused")
        assert key_of(moto, path, credentials) == "given"
    tokens = ["open sesame", "", "of the environment"]
    assert seen == [("/credentials", token) for token in tokens]
    monkeypatch.delenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
    assert key_of(moto, path, {"type": "ecs"}) == ""
    with pytest.raises(StoreError, match="cannot read the credentials of the container"):
        store = {**servers.kvstore_spec("s3", moto, path), "aws_credentials": credentials}
        ts.KvStore.open(store).result()["a"]


def test_credentials_of_machines(
    moto: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    role = "/latest/meta-data/iam/security-credentials/"
    answers = {"/latest/api/token": "token", role: "role", f"{role}role": CREDENTIALS}
    with answering(answers, []) as url:
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", url)
        assert key_of(moto, f"{tmp_path.name}/", {"type": "imds"}) == "given"
        monkeypatch.delenv("AWS_EC2_METADATA_SERVICE_ENDPOINT")
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
        credentials = {"type": "default", "metadata_endpoint": url}
        assert key_of(moto, f"{tmp_path.name}/", credentials) == "given"


def test_metadata_of_machines_are_requested_on_demand(
    gcs: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store without other credentials takes its token from the metadata of the machine."""
    seen: list[tuple[str, str]] = []
    path = "/computeMetadata/v1/instance/service-accounts/default/token"
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))  # no credentials of gcloud
    spec = {
        **servers.kvstore_spec("gcs", gcs, f"{tmp_path.name}/"),
        "gcs_user_project": {"project_id": "payer"},
    }
    for answers, authorization in (
        ({path: {"access_token": "secret", "expires_in": 3600}}, "Bearer secret"),
        ({}, None),
    ):
        with answering(answers, seen) as url:
            monkeypatch.setenv("GCE_METADATA_HOST", url.removeprefix("http://"))
            store = pickle.loads(pickle.dumps(ts.KvStore.open(spec).result()))
            assert not seen
            gcs.reset_counts()
            for _ in range(2):
                assert store.read("absent").result().state == "missing"
        headers = [
            (headers.get("authorization"), headers["x-goog-user-project"])
            for headers in gcs.headers
        ]
        assert headers == [(authorization, "payer")] * 2
        assert seen
        seen.clear()


def test_s3_endpoint_without_bucket_is_refused() -> None:
    spec = {"driver": "s3", "endpoint": "http://127.0.0.1:1/"}
    with pytest.raises(ValueError, match="does not begin with one"):
        ts.KvStore.open(spec).result()


def test_host_header_is_signed(s3: Proxy, tmp_path: Path) -> None:
    """The signature contains it, too."""
    spec = {
        **servers.kvstore_spec("s3", s3, f"{tmp_path.name}/"),
        "host_header": "s3.amazonaws.com",
    }
    store = ts.KvStore.open(spec).result()
    s3.reset_counts()
    store.write("k", b"value").result()
    assert store.read("k").result().value == b"value"
    assert [headers["Host"] for headers in s3.headers] == ["s3.amazonaws.com"] * 2
    with pytest.raises(ValueError, match="without also setting"):
        ts.KvStore.open({"driver": "s3", "bucket": "bbb", "host_header": "x"}).result()
