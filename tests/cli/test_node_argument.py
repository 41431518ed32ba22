"""The node argument of the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tessarr
from tessarr.cli.node_argument import NodeArgument

if TYPE_CHECKING:
    from cli.conftest import Run


@pytest.fixture
def data(here: Path) -> Path:
    g = tessarr.create_group("data.zarr")
    g.create_array("a/temperature", data=[1, 2, 3])
    tessarr.create_array("data.zarr/loose", data=[1])
    tessarr.create_array("alone", data=[1])
    return here


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("data.zarr", ("data.zarr", "")),
        ("data.zarr/", ("data.zarr/", "")),
        ("./data.zarr/a", ("data.zarr", "a")),
        ("data.zarr/a/temperature", ("data.zarr", "a/temperature")),
        ("data.zarr/a/wrong", ("data.zarr", "a/wrong")),
        ("data.zarr/a/new/deep", ("data.zarr", "a/new/deep")),
        ("data.zarr/a/temperature/c/new", ("data.zarr/a/temperature/c/new", "")),
        ("alone", ("alone", "")),
        ("nowhere/at/all", ("nowhere/at/all", "")),
        ("memory://x/y", ("memory://x/y", "")),
    ],
)
def test_hierarchy_above_node_is_opened(data: Path, text: str, expected: tuple[str, str]) -> None:
    """The hierarchy starts at the topmost group."""
    assert NodeArgument(text).split() == expected


def test_whole_paths_and_urls_of_files(data: Path) -> None:
    """Paths are absolute, and file URLs are percent-encoded."""
    tessarr.create_group(data / "my data").create_array("a b", data=[1])
    for text in (str(data / "my data/a b"), (data / "my data/a b").as_uri()):
        assert NodeArgument(text).split() == (str(data / "my data"), "a b")
    assert NodeArgument("my data", "a b").split() == ("my data", "a b")
    assert NodeArgument("data.zarr/a", "temperature").split() == ("data.zarr", "a/temperature")


def test_search_starts_in_working_folder(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working folder may be a node inside of the hierarchy."""
    monkeypatch.chdir(data / "data.zarr/a")
    assert NodeArgument("temperature").split() == (str(data / "data.zarr"), "a/temperature")
    assert NodeArgument(".").split() == (str(data / "data.zarr"), "a")


def test_wrong_name_suggests_similar_name(data: Path, run: Run) -> None:
    """Suggestions cover nodes, groups on the path, and folders."""
    for wrong, right in (
        ("data.zarr/a/temprature", "a/temperature"),
        ("data.zar", "data.zarr"),
        ("data.zarr/lose", "loose"),
    ):
        code, out, err = run("info", wrong)
        assert (code, out) == (1, "")
        assert f"did you mean {right!r}?" in err
        assert len(err.splitlines()) == 1
    code, _, err = run("info", "data.zarr/zzz")
    assert "it has 'a', 'loose'" in err


def test_group_instead_of_array_raises(data: Path, run: Run) -> None:
    """The message lists the arrays in the group."""
    code, _, err = run("cat", "data.zarr/a")
    assert code == 1
    assert "is a group, and an array is needed; arrays in it are 'temperature'" in err


@pytest.mark.parametrize(
    ("wrong", "right"), [("inf", "info"), ("atrs", "attrs"), ("converter", "convert")]
)
def test_wrong_verb_suggests_similar_verb(run: Run, wrong: str, right: str) -> None:
    """The message suggests a verb."""
    code, _, err = run(wrong, "x")
    assert code == 2
    assert f"there is no {wrong!r}; did you mean {right!r}?" in err


def test_wrong_option_suggests_similar_option(run: Run) -> None:
    """The message includes the usage of the verb."""
    code, _, err = run("ls", "x", "--recursiv-e")
    assert code == 2
    assert "usage: tessarr ls" in err
    assert "did you mean '--recursive'?" in err


def test_change_by_node_path_updates_consolidated_metadata(data: Path, run: Run) -> None:
    """The update happens even if the argument names only the folder of the array."""
    tessarr.consolidate_metadata("data.zarr")
    assert run("attrs", "data.zarr/a/temperature", "units=K")[0] == 0
    assert tessarr.consolidated_differences("data.zarr") == {}
    assert tessarr.open_consolidated("data.zarr")["a/temperature"].attrs["units"] == "K"
    assert run("rm", "data.zarr/a/temperature")[0] == 0
    assert tessarr.consolidated_differences("data.zarr") == {}


def test_foreign_errors_are_one_line(data: Path, run: Run) -> None:
    """An option shows the traceback instead."""
    document = data / "alone/zarr.json"
    document.write_text(json.dumps({**json.loads(document.read_text()), "shape": "x"}))
    code, out, err = run("info", "alone")
    assert (code, out, len(err.splitlines())) == (1, "", 1)
    with pytest.raises(tessarr.errors.MetadataError):
        run("--traceback", "info", "alone")


@pytest.fixture
def remote_items() -> dict[str, bytes]:
    """Register a URL scheme whose stores start at the path of the URL; return their values."""
    items: dict[str, bytes] = {}

    @tessarr.extensions.register_store("far")
    def open_remote(url: str, *, read_only: bool) -> Any:
        _, _, path = url.removeprefix("far://").partition("/")
        below = tessarr.stores.PrefixStore(items, path) if path else items
        return tessarr.stores.ReadOnlyStore(below) if read_only else below

    g = tessarr.create_group(items, path="data.zarr")
    g.create_array("a/x", data=[1, 2])
    return items


def test_address_url_opens_hierarchy(remote_items: dict[str, bytes], run: Run) -> None:
    """Changes and wrong names open the URLs of parent nodes."""
    assert run("cat", "far://host/data.zarr/a/x") == (0, "1\n2\n", "")
    assert NodeArgument("far://host/data.zarr/a/x").split() == ("far://host/data.zarr/a/x", "")
    assert NodeArgument("far://host/data.zarr/a/x").split(search_above=True) == (
        "far://host",
        "data.zarr/a/x",
    )
    assert NodeArgument("far://host/data.zarr/a/x::y").split(search_above=True) == (
        "far://host/data.zarr/a/x::y",
        "",
    )
    tessarr.consolidate_metadata(remote_items, path="data.zarr")
    assert run("attrs", "far://host/data.zarr/a/x", "n=1")[0] == 0
    assert tessarr.consolidated_differences(remote_items, path="data.zarr") == {}
    assert "it has 'x'" in run("info", "far://host/data.zarr/a/y")[2]
    assert run("rm", "far://host/data.zarr/a/x")[0] == 0
    assert tessarr.consolidated_differences(remote_items, path="data.zarr") == {}
    assert not any(key.startswith("data.zarr/a/x") for key in remote_items)


def test_folder_of_stores_error_lists_stores(data: Path, run: Run) -> None:
    (data / "plain").mkdir()
    (data / "packed.zip").touch()
    code, _, err = run("tree", ".")
    assert code == 1
    assert "; in this folder there are 'alone', 'data.zarr', 'packed.zip'" in err
    assert "plain" not in err
