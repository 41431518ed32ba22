"""The verbs do their work on whatever `tessarr.open` takes as a store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import tessarr

if TYPE_CHECKING:
    from cli.conftest import Run

STORES = ["folder", "file", "memory", "sqlite"]


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, here: Path) -> str:
    return {
        "folder": "data.zarr",
        "file": (here / "data.zarr").as_uri(),
        "memory": "memory://every-verb",
        "sqlite": f"sqlite://{here}/data.sqlite",
    }[request.param]


def test_every_verb(url: str, run: Run, here: Path) -> None:
    """From looking to deleting."""
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
