"""Every verb works on every store that `tessarr.open` accepts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import tessarr

if TYPE_CHECKING:
    from cli.conftest import Run

STORES = ["folder", "file", "memory", "sqlite", "zip"]


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, here: Path) -> str:
    return {
        "folder": "data.zarr",
        "file": (here / "data.zarr").as_uri(),
        "memory": "memory://every-verb",
        "sqlite": f"sqlite://{here}/data.sqlite",
        "zip": "data.zip",
    }[request.param]


def test_every_verb_accepts_store(url: str, run: Run, here: Path) -> None:
    """The test runs the verbs from listing to deleting."""
    values = np.arange(12.0).reshape(3, 4)
    g = tessarr.create_group(url)
    g.create_array("a/x", data=values, chunks=(2, 2), attributes={"n": 1})
    g.create_array("y", data=values + 1)

    def done(verb: str, *arguments: str, node: str = "a/x") -> str:
        code, out, err = run(verb, url, *arguments, "--node", node)
        assert (code, err if verb != "verify" else "") == (0, "")
        return out

    assert "float64" in done("info")
    assert "└── x" in done("tree", node="/")
    assert done("ls", "-R", node="").split() == ["a", "a/x", "y"]
    assert len(json.loads(done("ls", "--keys", "--json"))) == 5
    assert done("cat", "[1, :2]") == "4.0\n5.0\n"
    done("attrs", "n=2", "m=x")
    assert done("attrs", "m") == "x\n"
    done("attrs", "--delete", "m")
    done("consolidate", node="a")
    done("verify", "--complete", node="")
    assert json.loads(done("advise", "--json"))["layouts"]
    assert "format 3 → 2" in run("convert", url, "--to", "2", "--dry-run")[1]
    assert run("diff", url, url)[0] == 0
    done("rm", "-r", node="a")
    assert list(tessarr.open_group(url)) == ["y"]


def test_store_in_single_file_is_accepted(here: Path, run: Run) -> None:
    """Paths of nodes extend the path of the file."""
    tessarr.create_group("data.zarr").create_array("a/x", data=[1, 2, 3])
    assert run("copy", "data.zarr", "data.zip")[0] == 0
    assert run("diff", "data.zarr", "data.zip") == (0, "", "")
    assert run("cat", "data.zip/a/x", "1") == (0, "2\n", "")
    assert run("attrs", "data.zip/a/x", "n=1")[0] == 0
    assert run("attrs", "data.zip/a/x", "n")[1] == "1\n"
    assert "it has 'x'" in run("info", "data.zip/a/y")[2]
    assert run("verify", "data.zip")[0] == 0
    code, _, err = run("rm", "data.zip")
    assert (code, "give -r" in err) == (1, True)
    assert run("rm", "-rn", "data.zip")[0] == 0
    assert (here / "data.zip").exists()
    assert run("rm", "-r", "data.zip")[0] == 0
    assert not (here / "data.zip").exists()
    (here / "letter").write_text("dear")
    assert run("rm", "-r", "letter")[0] == 1
    assert run("rm", "-rf", "letter")[1] == "there is nothing to delete\n"
    assert (here / "letter").exists()


@pytest.mark.slow
def test_rm_of_database_deletes_companion_files(here: Path, run: Run) -> None:
    """A database in use, or after the kill of its writer, has companion files."""
    a = tessarr.create_array("data.sqlite", data=[1, 2, 3])
    assert len(list(here.iterdir())) > 1
    assert run("rm", "data.sqlite", "-n")[0] == 0
    assert run("rm", "data.sqlite")[0] == 0
    assert list(here.iterdir()) == []
    del a
