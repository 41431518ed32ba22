"""An ASGI application that dispatches requests to sites by the token in the address.

The first segment of a path is the token of a site: ``/TOKEN/api/node``. A request is refused with
status 403 unless all of these hold:

- The token is that of a site, or there is a site without a token, whose paths begin at the root.
  Other programs and users of the machine do not know the token.
- The header Host names this server. A page of another site cannot reach the server through a name
  that resolves to a loopback address (DNS rebinding).
- The header Origin, if present, is the server itself or an origin that the site allows. Scripts of
  other pages get no response.

Sites see the token as a part of ``root_path``, as applications of a Starlette ``Mount`` do.
"""

from __future__ import annotations

import logging
from ipaddress import ip_address
from secrets import compare_digest, token_urlsafe
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, MutableMapping

__all__ = ["Application", "Site", "is_loopback"]

_Message: TypeAlias = "MutableMapping[str, Any]"
_Receive: TypeAlias = "Callable[[], Awaitable[_Message]]"
_Send: TypeAlias = "Callable[[_Message], Awaitable[None]]"
Site: TypeAlias = "Callable[[_Message, _Receive, _Send], Awaitable[None]]"
"""An ASGI application."""

_log: Final = logging.getLogger("tessarr.web")

_HEADERS: Final = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),  # the address contains the token
]
_UNKNOWN_ADDRESS: Final = (
    "the address has no token of this server, or an old one: use the address that the server "
    "printed, or run the cell of the notebook again"
)
_LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class Application:
    """An ASGI application of several sites, each with a secret address.

    Parameters
    ----------
    host
        The address that the server binds. Loopback addresses accept only loopback names in the
        header Host. Other addresses also accept `host`, numeric addresses and `names`.
    names
        Further names of the server, such as that of a proxy.

    Examples
    --------
    >>> app = Application("127.0.0.1")
    >>> app.is_known_host("localhost:8000"), app.is_known_host("attacker.example")
    (True, False)
    """

    def __init__(self, host: str, names: Iterable[str] = ()) -> None:
        # Never changed in place: requests read it in another thread.
        self._sites: dict[str, tuple[Site, frozenset[str]]] = {}
        self._names = {name.lower() for name in (host, *names)} | _LOOPBACK_NAMES
        self._accepts_addresses = not is_loopback(host)

    def add(self, site: Site, token: str | None = None, origins: Iterable[str] = ()) -> str:
        """Add a site and return its token: the first segment of its paths.

        Parameters
        ----------
        site
            The site.
        token
            The token, by default a random one; "" for a site whose paths begin at the root. The
            site replaces another one with the same token.
        origins
            The origins of other pages that may send requests to the site; "*" means all.
        """
        token = token_urlsafe(24) if token is None else token
        self._sites = {**self._sites, token: (site, frozenset(origins))}
        return token

    def remove(self, token: str) -> None:
        """Remove the site with a token."""
        self._sites = {own: site for own, site in self._sites.items() if own != token}

    def is_known_host(self, host: str) -> bool:
        """Return whether a header Host names this server; the port is not compared.

        The port differs if a tunnel forwards another one, and does not matter for DNS rebinding.
        """
        name = _parse_hostname(f"//{host}")
        if name is None:
            return False
        return name in self._names or (self._accepts_addresses and _is_address(name))

    async def __call__(self, scope: _Message, receive: Any, send: Any) -> None:
        """Answer one request: check it and pass it to its site."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close"})
            return
        sent, _, _ = scope["path"].removeprefix("/").partition("/")
        found = self._find_site(sent)
        if found is None:
            await _send_refusal(send, _UNKNOWN_ADDRESS)
            return
        token, site, origins = found
        refusal = self._refuse(scope, origins)
        if refusal:
            await _send_refusal(send, refusal)
            return

        async def send_with_headers(message: _Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *_HEADERS]}
            await send(message)

        root = f"/{token}" if token else ""
        inner = {**scope, "root_path": f"{scope.get('root_path', '')}{root}"}
        try:
            await site(inner, receive, send_with_headers)
        except Exception:
            _log.exception("a request failed: %s", scope["method"])
            raise  # the server responds with the status 500, or closes the connection

    def _find_site(self, sent: str) -> tuple[str, Site, frozenset[str]] | None:
        """Return the token, the site and its origins; the time does not depend on what was sent."""
        sites = self._sites
        matches = [own for own in sites if compare_digest(own.encode(), sent.encode())]
        token = next(iter(matches), "")
        return (token, *sites[token]) if token in sites else None

    def _refuse(self, scope: _Message, origins: frozenset[str]) -> str:
        """Return why a request is refused, or ""."""
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get(b"host", "")
        if not self.is_known_host(host):
            return f"host {host!r} is not this server; see the option --allow-host"
        origin = headers.get(b"origin")
        if origin is None or origin in origins or "*" in origins:
            return ""
        if not _is_origin_of(origin, host):
            return f"the request comes from another site: {origin!r}; see the option --cors"
        return ""


def is_loopback(host: str) -> bool:
    """Return whether a name or an address means this machine only.

    Examples
    --------
    >>> is_loopback("127.0.0.2"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    return host.lower() == "localhost" or (_is_address(host) and ip_address(host).is_loopback)


def _parse_hostname(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _is_origin_of(origin: str, host: str) -> bool:
    """Return whether an origin is the server that the header Host names."""
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


async def _send_refusal(send: Any, reason: str) -> None:
    body = f"refused: {reason}\n".encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        *_HEADERS,
    ]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": body})
