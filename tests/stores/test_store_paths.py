"""Paths, URLs and the home folder in store arguments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tessarr
from tessarr import stores
from tessarr.errors import NotFoundError, TessarrError
from tessarr.store.resolve import is_url, open_store


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Yield a home folder beside the working folder."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return folder


@pytest.mark.parametrize("name", ["x.zarr", "x.zip", "x.sqlite"])
@pytest.mark.parametrize("kind", [str, Path])
def test_tilde_in_path_is_home_folder(home: Path, name: str, kind: Any) -> None:
    """Folders and file stores expand the tilde; the working folder remains empty."""
    tessarr.save(kind(f"~/{name}"), [1, 2, 3])
    assert (home / name).exists()
    assert tessarr.open_array(kind(f"~/{name}"), mode="r")[...].tolist() == [1, 2, 3]
    assert tessarr.open_array(str(home / name), mode="r")[...].tolist() == [1, 2, 3]
    assert list(Path().iterdir()) == []


def test_tilde_in_path_of_store_is_home_folder(home: Path) -> None:
    """Store constructors expand the tilde in every path argument."""
    assert stores.LocalStore("~/a").path == str(home / "a")
    assert stores.DirectoryStore("~").path == str(home)
    with stores.ZipStore("~/b.zip", mode="w") as store:
        store["a"] = b"1"
    assert (home / "b.zip").exists()
    assert stores.SQLiteStore("~/c.sqlite").path == str(home / "c.sqlite")
    assert tessarr.ProcessSynchronizer("~/locks").path == str(home / "locks")
    opened, _ = open_store("zip::~/b.zip", mode="r")
    assert isinstance(opened, stores.ZipStore)
    assert opened.path == str(home / "b.zip")


def test_folder_called_tilde_is_opened_by_relative_path(home: Path) -> None:
    """``./~`` is no home folder, nor is a tilde elsewhere in a path."""
    tessarr.save("./~", [1])
    tessarr.save("a~", [2])
    assert sorted(path.name for path in Path().iterdir()) == ["a~", "~"]
    assert list(home.iterdir()) == []


def test_tilde_in_arguments_of_command_is_home_folder(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A shell does not expand ``--log=~/x``, nor a quoted tilde."""
    from tessarr.cli import main

    tessarr.save("~/x.zarr", a=[1, 2, 3])
    assert main(["ls", "~/x.zarr"]) == 0
    assert main(["cat", "~/x.zarr/a"]) == 0
    assert main(["copy", "~/x.zarr", "~/y.zarr"]) == 0
    assert "a" in capsys.readouterr().out
    assert (home / "y.zarr" / "a").exists()
    assert list(Path().iterdir()) == []


URLS = ["reference::refs.json", "zip::/x.zip", "simplecache::/x", "ZIP::x.zip", "dir::x"]
PATHS = ["a::b", "./zip::x.zip", "C::/x", "x.zarr", "a:b", "::x", "/data/zip::x"]


def test_chained_url_is_recognised_by_file_system_over_another() -> None:
    """A chain that ends in a path is a URL if fsspec has a file system of that name."""
    assert [text for text in URLS + PATHS if is_url(text)] == URLS


def test_path_with_two_colons_is_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A prefix that names no file system is part of a folder name."""
    monkeypatch.chdir(tmp_path)
    tessarr.save("a::b", [1])
    assert (tmp_path / "a::b" / "zarr.json").exists()


def test_fsspec_chain_to_local_file_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """References, Zip files and caches over local files are opened, and create no file."""
    pytest.importorskip("fsspec", reason="fsspec is not installed")
    monkeypatch.chdir(tmp_path)
    tessarr.save("x.zarr", [1, 2, 3], zarr_format=2)
    tessarr.save("x.zip", [1, 2, 3])
    keys = {key: (tmp_path / "x.zarr" / key).read_text() for key in (".zarray", ".zattrs")}
    refs = {"version": 1, "refs": {**keys, "0": [str(tmp_path / "x.zarr" / "0")]}}
    Path("refs.json").write_text(json.dumps(refs))
    before = sorted(path.name for path in tmp_path.iterdir())
    for url in ("reference::refs.json", "zip::x.zip", f"zip::{tmp_path}/x.zip"):
        assert tessarr.open_array(url, mode="r")[...].tolist() == [1, 2, 3], url
    cached = f"simplecache::{tmp_path}/x.zarr"
    assert tessarr.open_array(cached, mode="r")[...].tolist() == [1, 2, 3]
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_chain_over_absent_file_raises_error_of_node(tmp_path: Path) -> None:
    """The cause of the error is the error of the file system."""
    pytest.importorskip("fsspec", reason="fsspec is not installed")
    with pytest.raises(NotFoundError, match="tar::"):
        tessarr.open(f"tar::{tmp_path}/none.tar", mode="r")
    with pytest.raises(TessarrError):
        tessarr.open(f"reference::{tmp_path}/none.json", mode="r")
    with pytest.raises(NotFoundError):
        tessarr.open(f"zip::{tmp_path}/none.zip", mode="r")
