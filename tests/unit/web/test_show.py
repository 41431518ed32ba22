"""Frames of the viewer in notebooks, and the files of its page."""

from __future__ import annotations

import gc
import hashlib
import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
import weakref
from pathlib import Path
from typing import Any

import pytest

import tessarr
from tessarr.errors import ArgumentError
from tessarr.web.viewer.site import STATIC_FOLDER

ROOT = Path(__file__).parents[3]


def test_show_returns_frame_of_node() -> None:
    g = tessarr.create_group(None)
    g.create_array("a", data=[1, 2])
    frame = g.get_array("a").show(height=300)
    html = frame._repr_html_()
    assert f'src="{frame.url}"' in html
    assert "height: 300px" in html
    with urllib.request.urlopen(f"{frame.url}api/node") as response:
        assert json.load(response)["shape"] == [2]


@pytest.mark.parametrize("height", [0, 1.5, "300", True])
def test_invalid_height_is_an_error(height: Any) -> None:
    with pytest.raises(ArgumentError, match="positive number of pixels"):
        tessarr.ones(3).show(height)


def test_frames_share_one_server() -> None:
    first, second = tessarr.create_group(None).show(), tessarr.ones(3).show()
    port, other = (re.findall(r":(\d+)/", frame.url) for frame in (first, second))
    assert port == other
    assert first.url != second.url


def fetch_status(url: str) -> int:
    try:
        with urllib.request.urlopen(url) as response:
            status: int = response.status
            return status
    except urllib.error.HTTPError as error:
        return error.code


def test_equal_nodes_have_one_address_with_current_metadata(tmp_path: Path) -> None:
    array = tessarr.create_array(tmp_path, shape=(3,), dtype="i4")
    urls = {tessarr.open_array(tmp_path, "r").show(height).url for height in range(300, 400)}
    array.resize(5)
    urls.add(tessarr.open_array(tmp_path, "r").show().url)
    (url,) = urls
    with urllib.request.urlopen(f"{url}api/values") as response:
        assert response.headers["Tessarr-Shape"] == "5"


def test_number_of_addresses_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell that creates and shows an array many times does not fill the memory."""
    monkeypatch.setattr("tessarr.web.viewer.show._MAX_NODES", 3)
    first = tessarr.ones(3)
    url = first.show().url
    others: list[str] = []
    arrays: list[weakref.ref[tessarr.Array]] = []
    for array in (tessarr.ones(3) for _ in range(10)):
        arrays.append(weakref.ref(array))
        others.append(array.show().url)
        assert first.show().url == url
        del array
    gc.collect()
    assert sum(array() is not None for array in arrays) == 2
    assert [fetch_status(other) for other in (url, *others)] == [200, *[403] * 8, 200, 200]


@pytest.mark.slow
def test_process_with_frame_ends() -> None:
    """The thread of the server does not keep the process alive."""
    code = "import tessarr; print(tessarr.ones(3).show().url)"
    done = subprocess.run([sys.executable, "-c", code], timeout=60, capture_output=True, check=True)
    assert done.stdout.startswith(b"http://127.0.0.1:")


def test_page_loads_nothing_from_other_hosts() -> None:
    page = (STATIC_FOLDER / "index.html").read_text(encoding="utf-8")
    assert not re.findall(r'(?:src|href)="(?!viewer\.|data:)', page)
    style = (STATIC_FOLDER / "viewer.css").read_text(encoding="utf-8")
    assert not re.findall(r"url\((?!data:)|@import", style)


def test_page_is_built_from_current_sources() -> None:
    """`just viewer` records a hash of the sources. Run it after a change of the folder viewer."""
    folder = ROOT / "viewer"
    sources = sorted(f"src/{path.name}" for path in (folder / "src").iterdir())
    digest = hashlib.sha256()
    for name in [*sources, "index.html", "package-lock.json", "build.mjs"]:
        digest.update(f"{name}\0".encode())
        digest.update((folder / name).read_bytes())
    recorded = (STATIC_FOLDER / "sources.sha256").read_text(encoding="utf-8").strip()
    assert recorded == digest.hexdigest()


def test_licences_of_bundled_packages_are_listed() -> None:
    text = (STATIC_FOLDER / "licenses.txt").read_text(encoding="utf-8")
    licences = dict(re.findall(r"^(\S+) \S+ \((.+)\)$", text, re.MULTILINE))
    assert {"@h5web/app", "@h5web/lib", "three", "react"} <= set(licences)
    free = {"MIT", "ISC", "BSD-3-Clause", "Apache-2.0", "0BSD"}
    assert set(licences.values()) <= free, licences


def test_lock_file_names_no_registry() -> None:
    lock = json.loads((ROOT / "viewer" / "package-lock.json").read_text(encoding="utf-8"))
    assert [name for name, package in lock["packages"].items() if "resolved" in package] == []
