"""Recipes of the page on object stores, each with the server that it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from docs import recipes
from docs.pages import ROOT, read_sections, run_text
from stores.tls import run_forward_proxy, run_tls_server

PAGE = ROOT / "docs/guide/cloud.md"
PREPARE: dict[str, Callable[[Any, Path], recipes.Recipe]] = {
    "versitygw": recipes.prepare_s3,
    "fake_gcs": recipes.prepare_gcs,
    "azurite": recipes.prepare_azure,
    "nginx": recipes.prepare_web,
    "tls": recipes.prepare_tls,
}
SERVERS = {
    "Google Cloud Storage (GCS)": "fake_gcs",
    "Azure with a shared access signature": "azurite",
    "Azure with a connection string": "azurite",
    "Signed URL": "azurite",
    "Web server": "nginx",
    "Proxy and own certificates": "tls",
    "Groups without listing": "nginx",
}
"""The servers of the recipes; all others need that of S3."""

ANONYMOUS = {
    "Public bucket without credentials (anonymous)",
    "AWS profile",
    "Access keys",
    "xarray on a bucket",
    "Credentials from a function",
    "Command line",
}
"""Recipes of S3 that must not use keys of the environment."""

SECTIONS = {title: text for title, text in read_sections(PAGE).items() if "```" in text}


@pytest.fixture
def tls(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Yield the URLs of a web server of the folder, with TLS, and of a proxy."""
    with run_tls_server(tmp_path, tmp_path) as url, run_forward_proxy() as (proxy, _):
        yield url, proxy


@pytest.mark.parametrize(
    ("title", "server"),
    [pytest.param(title, SERVERS.get(title, "versitygw"), id=title) for title in SECTIONS],
)
def test_recipe_gives_printed_results(
    title: str,
    server: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every example of the recipe returns the result below it."""
    if "import xarray" in SECTIONS[title]:
        pytest.importorskip("xarray")
    recipes.clear_environment(monkeypatch, tmp_path)
    recipe = PREPARE[server](request.getfixturevalue(server), tmp_path)
    for name, value in recipe.environment.items():
        monkeypatch.setenv(name, value)
    if server == "versitygw" and title not in ANONYMOUS:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", recipe.environment["LAB_KEY"])
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", recipe.environment["LAB_SECRET"])
    monkeypatch.chdir(tmp_path)
    _, problems = run_text(PAGE, recipe.replace_addresses(SECTIONS[title]))
    assert not problems, "\n".join(problems)


def test_servers_belong_to_recipes() -> None:
    """A section that has another name now needs its server under this name."""
    assert SERVERS.keys() | ANONYMOUS <= SECTIONS.keys()
