"""A server of an application: uvicorn on a bound socket, in the foreground or in a thread."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

from tessarr._safe_repr import safe_repr
from tessarr.errors import ArgumentError, UnsupportedError
from tessarr.web.application import Application

if TYPE_CHECKING:
    from tessarr.web.application import Site

__all__ = ["Server", "check_packages", "check_texts"]

_STOP_TIMEOUT_S: Final = 5.0


def check_packages() -> None:
    """Raise an `UnsupportedError` unless starlette and uvicorn are installed."""
    try:
        import starlette
        import uvicorn
    except ImportError as error:
        message = f"the server needs the package {error.name}: pip install 'tessarr[view]'"
        raise UnsupportedError(message, kind="missing_package") from error
    del starlette, uvicorn


def check_texts(name: str, values: object, example: str) -> list[str]:
    """Return the texts of an argument; another value raises an `ArgumentError`.

    Examples
    --------
    >>> check_texts("allow_hosts", ("a.org", "b.org"), "a.org")
    ['a.org', 'b.org']
    """
    if isinstance(values, Iterable) and not isinstance(values, str):
        texts = list(values)
        if all(isinstance(text, str) for text in texts):
            return texts
    raise ArgumentError(f"{name} {safe_repr(values)} is not a list of texts such as [{example!r}]")


class Server:
    """A bound port and the application that answers on it.

    Parameters
    ----------
    host
        The address to bind; by default only this machine can connect.
    port
        The port; 0 means any free port.
    names
        Further names of the server, as for `Application`.

    Raises
    ------
    ArgumentError
        If an argument is invalid, or the address cannot be bound.
    UnsupportedError
        If starlette or uvicorn is missing.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = 0, names: Iterable[str] = ()) -> None:
        check_packages()
        import uvicorn

        if not isinstance(host, str):
            raise ArgumentError(f"host {safe_repr(host)} is not an address such as '127.0.0.1'")
        if type(port) is not int or not 0 <= port < 1 << 16:
            raise ArgumentError(f"port {safe_repr(port)} is not an integer from 0 to 65535")
        names = check_texts("allow_hosts", names, "data.example.org")
        if host in {"", "0.0.0.0", "::"}:  # noqa: S104 (the user passes it)
            names = [*names, socket.gethostname(), socket.getfqdn()]
        self.application = Application(host, names)
        self._socket = _bind(host, port)
        self._host = host
        config = uvicorn.Config(
            self.application,  # type: ignore[arg-type, unused-ignore] # looser ASGI types
            log_level="critical",  # `Application` logs errors, but not cancellations at the end
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        self._uvicorn = uvicorn.Server(config)
        self._ended = Event()  # Ctrl-C in `Thread.join` would mark the thread as ended
        self._ended.set()

    @property
    def port(self) -> int:
        """The bound port."""
        port: int = self._socket.getsockname()[1]
        return port

    def add(self, site: Site, token: str | None = None, origins: Iterable[str] = ()) -> str:
        """Add a site and return its URL, which contains the token; see `Application.add`."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        if host in {"", "0.0.0.0", "[::]"}:  # noqa: S104 (the user passes it)
            host = socket.gethostname()
        token = self.application.add(site, token, origins)
        return f"http://{host}:{self.port}/{token}/" if token else f"http://{host}:{self.port}/"

    def run(self) -> None:
        """Answer requests until Ctrl-C.

        Requests run in other threads, so that Ctrl-C does not wait for a store that hangs.
        """
        self.start()
        try:
            self.wait()
        except KeyboardInterrupt:
            pass
        finally:
            self.stop()

    def start(self) -> None:
        """Answer requests in a thread that ends with the process, or at `stop`."""
        self._ended.clear()
        Thread(target=self._answer, name="tessarr-web", daemon=True).start()

    def _answer(self) -> None:
        try:
            self._uvicorn.run(sockets=[self._socket])
        finally:
            self._ended.set()

    def wait(self) -> None:
        """Wait for `stop` in another thread, or for Ctrl-C."""
        self._ended.wait()

    def stop(self) -> None:
        """End the thread of `start` and close the port; requests that hang do not delay it."""
        self._uvicorn.should_exit = True
        self._ended.wait(_STOP_TIMEOUT_S)
        self._socket.close()


def _bind(host: str, port: int) -> socket.socket:
    """Return a listening socket."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    is_dual = host == "::" and socket.has_dualstack_ipv6()  # all addresses, as users expect
    try:
        bound = socket.create_server((host, port), family=family, dualstack_ipv6=is_dual)
    except (OSError, ValueError) as error:  # ValueError: a name that has no encoding
        raise ArgumentError(f"cannot listen on {safe_repr(host)}, port {port}: {error}") from error
    # Accepted connections inherit this option. Without it a body waits up to 40 ms for the client's
    # acknowledgement of the headers.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return bound
