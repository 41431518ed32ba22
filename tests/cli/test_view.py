"""The command ``tessarr view``."""

from __future__ import annotations

import json
import signal
import urllib.request
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import pytest

import tessarr
from cli.conftest import Run
from tessarr.web.server import Server


@pytest.mark.slow
@pytest.mark.parametrize("node", ["", "/below/a"])
def test_view_serves_node_until_interrupted(
    tmp_path: Path, program: Callable[..., Any], node: str
) -> None:
    tessarr.create_array(tmp_path / "data.zarr", path="below/a", data=[1, 2, 3])
    process = program("view", f"{tmp_path}/data.zarr{node}", "--no-open")
    url = process.stdout.readline().decode().strip()
    assert b"Ctrl-C" in process.stdout.readline()
    with urllib.request.urlopen(f"{url}api/node") as response:
        kind = json.load(response)["kind"]
    assert kind == ("array" if node else "group")
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[1] == b""
    assert process.returncode == 0


def test_view_opens_browser_at_secret_address(
    here: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    tessarr.create_group("data.zarr")
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(Server, "run", Server.stop)
    code, out, _ = run("view", "data.zarr")
    assert code == 0
    assert opened == [out.splitlines()[0]]
    assert len(opened[0].split("/")[3]) >= 32
    assert run("view", "data.zarr", "--no-open")[0] == 0
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    assert run("view", "data.zarr")[0] == 0
    assert len(opened) == 1


def test_view_shows_hdf5_file(here: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with h5py.File("data.h5", "w") as file:
        file["a"] = [[1, 2], [3, 4]]

    def fetch_text(server: Server) -> None:
        server.start()
        token = next(iter(server.application._sites))
        url = f"http://127.0.0.1:{server.port}/{token}/api/text?path=a"
        with urllib.request.urlopen(url) as response:
            print(json.load(response)["cells"])
        server.stop()

    monkeypatch.setattr(Server, "run", fetch_text)
    code, out, _ = run("view", "data.h5", "--no-open")
    assert (code, out.splitlines()[-1]) == (0, "[['1', '2', '3', '4']]")


def test_view_of_absent_node_is_reported(here: Path, run: Run) -> None:
    tessarr.create_array("data.zarr", path="temperature", data=[1])
    code, _, err = run("view", "data.zarr/temperatur", "--no-open")
    assert code == 1
    assert "'temperature'" in err


def test_view_with_missing_package_names_extra(
    here: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "uvicorn", None)
    tessarr.create_group("data.zarr")
    code, _, err = run("view", "data.zarr")
    assert code == 1
    assert "pip install 'tessarr[view]'" in err
