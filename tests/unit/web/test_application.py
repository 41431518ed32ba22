"""Access to sites: tokens, the headers Host and Origin, and the server that binds a port."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

import tessarr
from tessarr.errors import ArgumentError
from tessarr.web.application import Application, is_loopback
from tessarr.web.server import Server, _bind
from tessarr.web.viewer.site import build_viewer
from unit.web.asgi import send_request


@pytest.fixture
def app() -> Application:
    application = Application("127.0.0.1")
    application.add(build_viewer(tessarr.create_group(None)), "secret")
    return application


def test_request_with_token_is_answered(app: Application) -> None:
    assert send_request(app, "/secret/api/node").json["kind"] == "group"


@pytest.mark.parametrize("path", ["/", "/api/node", "/secre/api/node", "/secrets/", "//", "/é/"])
def test_request_without_token_is_refused(app: Application, path: str) -> None:
    reply = send_request(app, path)
    assert reply.status == 403
    assert b"token" in reply.body
    assert b"secret" not in reply.body


@pytest.mark.parametrize(
    "host", ["attacker.example", "localhost.evil:80", "10.0.0.1", "", "[", "a@b"]
)
def test_request_for_foreign_host_is_refused(app: Application, host: str) -> None:
    assert send_request(app, "/secret/api/node", host=host).status == 403


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9", "127.0.0.1:8000", "[::1]:80"])
def test_request_for_loopback_host_is_answered(app: Application, host: str) -> None:
    assert send_request(app, "/secret/api/node", host=host).status == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:81", "http://[", ""]
)
def test_request_of_foreign_origin_is_refused(app: Application, origin: str) -> None:
    assert send_request(app, "/secret/api/node", origin=origin).status == 403


def test_request_of_own_origin_is_answered(app: Application) -> None:
    own = {"host": "localhost:80", "origin": "http://localhost:80"}
    assert send_request(app, "/secret/api/node", **own).status == 200


def test_request_of_allowed_origin_is_answered(app: Application) -> None:
    site = build_viewer(tessarr.create_group(None))
    app.add(site, "open", ["https://example.org"])
    app.add(site, "all", ["*"])
    for token, origin, status in (
        ("open", "https://example.org", 200),
        ("open", "https://example.org:80", 403),
        ("all", "https://evil.example", 200),
        ("secret", "https://example.org", 403),
    ):
        assert send_request(app, f"/{token}/api/node", origin=origin).status == status


def test_site_without_token_has_all_other_paths(app: Application) -> None:
    array = tessarr.create_array(None, shape=(1,), dtype="u1")
    app.add(build_viewer(array), "")
    assert send_request(app, "/api/node").json["kind"] == "array"
    assert send_request(app, "/secret/api/node").json["kind"] == "group"
    assert send_request(app, "/api/node", host="evil.example").status == 403


def test_error_of_site_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(*_: object) -> None:
        raise RuntimeError("broken")

    app = Application("127.0.0.1")
    app.add(fail, "secret")
    with pytest.raises(RuntimeError):
        send_request(app, "/secret/")
    assert "RuntimeError: broken" in caplog.text
    assert "secret" not in caplog.messages


def test_public_address_accepts_addresses_and_listed_names() -> None:
    app = Application("0.0.0.0", ["lab.example"])
    known = ["10.0.0.1:80", "[fe80::1]", "Lab.example", "localhost"]
    assert [app.is_known_host(host) for host in known] == [True] * 4
    assert not app.is_known_host("evil.example")


@pytest.mark.parametrize(
    ("host", "expected"),
    [("::1", True), ("127.9.9.9", True), ("10.0.0.1", False), ("example.org", False)],
)
def test_loopback_addresses_are_recognised(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_all_responses_hide_address_from_other_sites(app: Application) -> None:
    for url in ("/secret/", "/secret/api/node", "/secret/nothing", "/"):
        headers = send_request(app, url).headers
        assert headers["referrer-policy"] == "no-referrer", url
        assert headers["x-content-type-options"] == "nosniff", url


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_methods_that_change_are_refused(app: Application, method: str) -> None:
    for url in ("/secret/", "/secret/api/node", "/secret/api/values"):
        assert send_request(app, url, method=method).status == 405


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    server.start()
    yield server
    server.stop()


def test_server_answers_at_url_of_site(server: Server) -> None:
    url = server.add(build_viewer(tessarr.create_group(None)))
    assert url.startswith(f"http://127.0.0.1:{server.port}/")
    with urllib.request.urlopen(f"{url}api/node") as response:
        assert b'"group"' in response.read()
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(f"http://127.0.0.1:{server.port}/api/node")


def test_sites_of_server_have_different_tokens(server: Server) -> None:
    site = build_viewer(tessarr.create_group(None))
    assert server.add(site) != server.add(site)


def test_port_in_use_is_reported(server: Server) -> None:
    with pytest.raises(ArgumentError, match=f"cannot listen on '127.0.0.1', port {server.port}"):
        Server(port=server.port)


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="the machine has no IPv6")
def test_server_on_all_addresses_answers_ipv4_and_ipv6() -> None:
    server = Server("::")
    server.start()
    try:
        for address in ("127.0.0.1", "::1"):
            socket.create_connection((address, server.port), timeout=10).close()
    finally:
        server.stop()


def test_connections_send_without_delay() -> None:
    """A body does not wait until the client acknowledges the headers."""
    with _bind("127.0.0.1", 0) as bound, socket.create_connection(bound.getsockname()):
        accepted, _ = bound.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
