"""Web server with TLS, and a forward proxy, on loopback."""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from stores.servers import Files

__all__ = ["run_forward_proxy", "run_tls_server"]

CA_FILE = "ca.pem"
"""The file with the certificate of the authority."""


def _write_certificates(folder: Path) -> Path:
    """Write the certificate of an authority, and the key and the certificate of a server."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    def write(name: str, issuer: Any, signing_key: Any) -> tuple[Any, Any, bytes]:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        now = datetime.now(UTC)
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer or subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), True)
            .add_extension(x509.SubjectAlternativeName([address]), False)
            .sign(signing_key or key, hashes.SHA256())
        )
        text = certificate.public_bytes(serialization.Encoding.PEM)
        return subject, key, text

    authority, signing_key, text = write("authority", None, None)
    (folder / CA_FILE).write_bytes(text)
    _, key, text = write("server", authority, signing_key)
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path = folder / "server.pem"
    path.write_bytes(secret + text)
    return path


@contextmanager
def run_tls_server(folder: Path, certificates: Path) -> Iterator[str]:
    """Run a web server of a folder; yield its URL. `certificates` gets the file `CA_FILE`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(_write_certificates(certificates))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=str(folder)))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with _run(server) as port:
        yield f"https://127.0.0.1:{port}"


class _ProxyHandler(BaseHTTPRequestHandler):
    """Handler that relays tunnels, and forwards requests of plain HTTP."""

    protocol_version = "HTTP/1.1"
    rbufsize = 0  # the relay reads the socket itself
    requests: list[str]

    def do_CONNECT(self) -> None:
        self.requests.append(f"CONNECT {self.path}")
        host, _, port = self.path.partition(":")
        with socket.create_connection((host, int(port))) as other:
            self.send_response(200)
            self.end_headers()
            back = threading.Thread(target=_relay, args=(other, self.connection))
            back.start()
            _relay(self.connection, other)
            back.join()
        self.close_connection = True

    def do_GET(self) -> None:
        self.requests.append(f"GET {self.path}")
        parts = urlsplit(self.path)
        connection = http.client.HTTPConnection(parts.netloc, timeout=30)
        connection.request("GET", parts.path, headers=dict(self.headers.items()))
        response = connection.getresponse()
        body = response.read()
        connection.close()
        self.send_response(response.status)
        for name in ("ETag", "Content-Range"):
            if value := response.getheader(name):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def _relay(source: socket.socket, target: socket.socket) -> None:
    """Send what arrives until one side ends."""
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # the other side has ended


@contextmanager
def run_forward_proxy() -> Iterator[tuple[str, list[str]]]:
    """Run a proxy; yield its URL, and the methods and targets of its requests."""
    requests: list[str] = []
    handler = type("Handler", (_ProxyHandler,), {"requests": requests})
    with _run(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as port:
        yield f"http://127.0.0.1:{port}", requests


@contextmanager
def _run(server: Any) -> Iterator[int]:
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
