"""The search of the site ranks guides before decisions and the reference."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from docs.pages import ROOT

pytestmark = pytest.mark.slow  # builds the site

FIRST_HITS = {
    "chunk size": "guide/chunks.html",
    "which chunk size": "guide/chunks.html",
    "zip": "guide/stores.html#zip-files",
    "S3": "guide/cloud.html",
    "amazon": "guide/cloud.html",
    "minio": "guide/cloud.html",
    "gcs": "guide/cloud.html",
    "azure": "guide/cloud.html",
    "credentials": "guide/cloud.html",
    "anonymous": "guide/cloud.html",
    "xarray": "programs/xarray.html",
    "dask": "programs/dask.html",
    "netcdf": "programs/hdf5-netcdf.html",
    "hdf5": "programs/hdf5-netcdf.html",
    "ome-zarr": "programs/bioimaging.html",
    "napari": "programs/bioimaging.html",
    "pytorch": "programs/pytorch.html",
    "training data": "programs/pytorch.html",
    "parallel writes": "guide/concurrency.html",
    "rechunk": "guide/copying.html",
    "compression": "guide/codecs.html",
    "viewer": "guide/viewer.html",
    "heat map": "guide/viewer.html",
    "too many files": "faq.html",
    "troubleshooting": "faq.html",
    "changelog": "changelog.html",
    "open_array": "reference/creating.html#tessarr.open_array",
    "S3Store": "reference/stores.html#tessarr.stores.S3Store",
}
"""The words that users type, and the page or section that they look for."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the built site."""
    if find_spec("mkdocstrings_handlers") is None or find_spec("material") is None:
        pytest.skip("the site needs the extra docs")
    if shutil.which("node") is None:
        pytest.skip("the search runs in node")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "--quiet", "build", "--strict", "--site-dir", folder]
    subprocess.run(
        [*map(str, command)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        check=True,
        timeout=300,
    )
    return folder


def test_search_ranks_guides_first(site: Path) -> None:
    """The first hit of each query is the page that its words describe."""
    script = ROOT / "docs/making/search.js"
    done = subprocess.run(
        ["node", str(script), str(site), *FIRST_HITS],
        capture_output=True,
        check=True,
        encoding="utf-8",
        timeout=60,
    )
    hits = dict(line.split("\t", 1) for line in done.stdout.splitlines())
    wrong = [
        f"{query!r} finds {hits.get(query)}, not {page}"
        for query, page in FIRST_HITS.items()
        if not hits.get(query, "").startswith(page)
    ]
    assert not wrong, "\n".join(wrong)
