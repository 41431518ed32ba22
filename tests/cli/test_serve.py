"""``tessarr serve``: what it prints, and how it ends."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

import tessarr
from tessarr.web.server import Server

if TYPE_CHECKING:
    from cli.conftest import Run


@pytest.fixture
def data(here: Path) -> Path:
    array = tessarr.create_array(here / "data.zarr", shape=(2, 3), dtype="u1")
    array[:] = 7
    return here / "data.zarr"


@contextmanager
def running(process: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield a process that serves a store, and the JSON that it prints first."""
    try:
        lines: list[bytes] = []
        while not lines or lines[-1] != b"}\n":
            lines.append(process.stdout.readline())
            assert lines[-1], process.stderr.read()
        yield process, json.loads(b"".join(lines))
    finally:
        process.kill()
        process.communicate()


def stop(process: Any) -> tuple[int, str]:
    """Press Ctrl-C; return the exit code and the errors."""
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    return process.returncode, errors.decode()


@pytest.mark.slow
def test_serve_answers_until_interrupted(program: Any, data: Path) -> None:
    with running(program("serve", data, "--json")) as (process, facts):
        assert tessarr.open_array(facts["url"], mode="r")[1, 2] == 7
        assert set(facts["links"]) >= {"neuroglancer", "vizarr", "zarr-python", "TensorStore"}
        assert stop(process) == (0, "")


HANGING = """
import sys
from threading import Event
from tessarr.cli import main
from tessarr.extensions import register_store

class Hanging(dict):
    def __getitem__(self, key):
        if key == "hang":
            sys.stderr.write("hangs\\n")
            sys.stderr.flush()
            Event().wait()
        return super().__getitem__(key)

register_store("hanging")(lambda url, *, read_only: Hanging())
sys.exit(main(["serve", "hanging://x", "--no-token", "--json"]))
"""
"""A program that serves a store that never returns a value."""


@pytest.mark.slow
def test_interrupt_does_not_wait_for_hanging_store(here: Path) -> None:
    """Ctrl-C ends the server while a request waits for its store, without a traceback."""
    program = partial(subprocess.Popen, [sys.executable, "-c", HANGING])
    with running(program(stdout=subprocess.PIPE, stderr=subprocess.PIPE)) as (process, facts):
        parts = urlsplit(facts["url"])
        with socket.create_connection((parts.hostname, parts.port)) as client:
            client.sendall(b"GET /hang HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert process.stderr.readline() == b"hangs\n"
            code, errors = stop(process)
    assert code == 0
    assert "Traceback" not in errors


def test_serve_absent_folder_fails(run: Run, here: Path) -> None:
    tessarr.create_group(here / "weather.zarr").create_group("site")
    for path, name in (("wether.zarr", "weather.zarr"), ("weather.zarr/sit", "site")):
        code, out, err = run("serve", path)
        assert (code, out) == (1, "")
        assert f"did you mean {name!r}" in err


def test_serve_used_port_fails(run: Run, data: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = used.getsockname()[1]
        code, _, err = run("serve", data, "--port", port)
    assert code == 1
    assert f"cannot listen on '127.0.0.1', port {port}" in err


def test_serve_without_packages_names_extra(
    run: Run, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "starlette", None)
    code, _, err = run("serve", data)
    assert code == 1
    assert "pip install 'tessarr[view]'" in err


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Press Ctrl-C when the server waits."""

    def interrupt(server: Server) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Server, "wait", interrupt)


@pytest.mark.usefixtures("interrupted")
def test_serve_prints_links(run: Run, data: Path) -> None:
    code, out, _ = run("serve", data, "--no-token", "--host", "localhost")
    assert code == 0
    names = [line.split()[0] for line in out.splitlines()]
    links = ["tessarr", "zarr-python", "TensorStore", "neuroglancer", "vizarr"]
    assert names == ["address", *links, "Ctrl-C"]
    assert "tessarr info http://localhost:" in out


@pytest.mark.usefixtures("interrupted")
def test_serve_notes_what_programs_cannot_see(run: Run, here: Path) -> None:
    tessarr.create_group(here / "g.zarr")
    assert "note: programs cannot list the members" in run("serve", "g.zarr")[1]
    assert "note: the root is neither" in run("serve", ".")[1]
    assert "note" not in run("serve", "g.zarr", "--listing")[1]
    tessarr.consolidate_metadata(here / "g.zarr")
    assert "note" not in run("serve", "g.zarr")[1]


@pytest.mark.usefixtures("interrupted")
def test_serve_reports_wrong_options(run: Run, data: Path) -> None:
    assert "is not an origin" in run("serve", data, "--cors", "example.org")[2]
    assert "storage option" in run("serve", data, "--anon")[2]
