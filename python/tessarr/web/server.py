"""A server of an application: uvicorn on a bound socket, in the foreground or in a thread."""

from __future__ import annotations

import socket
from threading import Thread
from typing import TYPE_CHECKING, Any

from tessarr.errors import ArgumentError, UnsupportedError
from tessarr.web.application import Application

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tessarr.web.application import Site

__all__ = ["Server", "check_packages"]


def check_packages() -> None:
    """Raise an `UnsupportedError` unless starlette and uvicorn are installed."""
    try:
        import starlette
        import uvicorn
    except ImportError as error:
        message = f"the viewer needs the package {error.name}: pip install 'tessarr[view]'"
        raise UnsupportedError(message, kind="missing_package") from error
    del starlette, uvicorn


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
        If the address cannot be bound.
    UnsupportedError
        If starlette or uvicorn is missing.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = 0, names: Iterable[str] = ()) -> None:
        check_packages()
        import uvicorn

        if host in {"", "0.0.0.0", "::"}:  # noqa: S104 (the user passes it)
            names = [*names, socket.gethostname(), socket.getfqdn()]
        self.application = Application(host, names)
        self._socket = _bind(host, port)
        self._host = host
        config = uvicorn.Config(
            self.application,  # type: ignore[arg-type, unused-ignore] # looser ASGI types
            log_level="warning",
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        self._uvicorn = uvicorn.Server(config)
        self._thread: Thread | None = None

    @property
    def port(self) -> int:
        """The bound port."""
        port: int = self._socket.getsockname()[1]
        return port

    def add(self, site: Site) -> str:
        """Add a site and return its URL, which contains the token."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        if host in {"", "0.0.0.0", "[::]"}:  # noqa: S104 (the user passes it)
            host = socket.gethostname()
        return f"http://{host}:{self.port}/{self.application.add(site)}/"

    def run(self) -> None:
        """Answer requests until Ctrl-C."""
        try:
            self._uvicorn.run(sockets=[self._socket])
        except KeyboardInterrupt:
            pass  # uvicorn has closed all connections and repeats the signal
        finally:
            self._socket.close()

    def start(self) -> None:
        """Answer requests in a thread that ends with the process, or at `stop`."""
        arguments: dict[str, Any] = {"sockets": [self._socket]}
        self._thread = Thread(
            target=self._uvicorn.run, kwargs=arguments, name="tessarr-web", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End the thread of `start` and close the port."""
        self._uvicorn.should_exit = True
        if self._thread is not None:
            self._thread.join()
        self._socket.close()


def _bind(host: str, port: int) -> socket.socket:
    """Return a listening socket."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise ArgumentError(f"cannot listen on {host!r}, port {port}: {error}") from error
