"""Examples of the documentation return the results on the pages."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from docs.pages import ROOT, list_pages, read_blocks, run_page

PROGRAM_PACKAGES = {
    "anndata.md": ("anndata", "dask", "zarr"),
    "bioimaging.md": ("ome_zarr", "dask", "zarr"),
    "dask.md": ("distributed", "zarr"),
    "hdf5-netcdf.md": ("xarray", "h5py", "netCDF4"),
    "icechunk.md": ("icechunk",),
    "pytorch.md": (),
    "virtualizarr.md": ("virtualizarr", "h5netcdf", "icechunk", "obstore", "xarray"),
    "xarray.md": ("xarray", "dask"),
    "zarr-python.md": ("zarr",),
}
"""The packages of the pages on programs, which the exhaustive tier runs."""

# test_recipes.py runs the page on object stores.
PAGES = [page for page in list_pages() if page.name != "cloud.md"]


def _mark_page(page: Path) -> Any:
    marks = _PROGRAM_MARKS if page.parent.name == "programs" else []
    return pytest.param(page, id=str(page.relative_to(ROOT)), marks=marks)


# Programs warn of their own plans. Warnings of Tessarr still fail.
_PROGRAM_MARKS = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),
    pytest.mark.filterwarnings("error::tessarr.errors.TessarrWarning"),
]


@pytest.mark.parametrize("page", [_mark_page(page) for page in PAGES])
def test_page_examples_give_printed_results(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every example of the page returns the result below it."""
    if page.parent.name == "programs":
        for package in PROGRAM_PACKAGES[page.name]:
            if find_spec(package) is None:  # the page itself may import it later
                pytest.skip(f"the page needs {package}")
    monkeypatch.chdir(tmp_path)
    _, problems = run_page(page)
    assert not problems, "\n".join(problems)


def test_page_runner_finds_examples_of_teaching_pages() -> None:
    """A page that shows code has examples that run."""
    names = ["README.md", "docs/quickstart.md", "docs/tutorial.md", "docs/extending.md"]
    for name in names:
        blocks = read_blocks((ROOT / name).read_text(encoding="utf-8"))
        assert sum(block.text.count(">>> ") for block in blocks) > 5, name


def test_page_runner_reports_differences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong result, a wrong output, an exit code and an unknown language are reported."""
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nx = 1\n```\n\n```python\n>>> x\n1\n>>> x\n2\n\n```\n\n"
        "```console\n$ echo a\nb\n$ false\n```\n\n```perl\n1\n```\n",
        encoding="utf-8",
    )
    count, problems = run_page(page)
    assert count == 5
    assert len(problems) == 4
    assert "Expected:\n    2\nGot:\n    1" in problems[0]
    assert "line 8" in problems[0]
    assert "exit code 1" in problems[2]
