"""Properties of the whole project: public names, documents, errors, decisions."""

from __future__ import annotations

import re
import subprocess
import tomllib
from importlib import import_module
from itertools import chain
from pathlib import Path

import pytest

import tessarr
from tessarr.errors import KINDS

ROOT = Path(__file__).parents[2]
MODULES = [
    *("tessarr", "tessarr.codecs", "tessarr.errors", "tessarr.extensions", "tessarr.storage"),
    "tessarr.stores",
]


def tracked() -> list[Path]:
    """Return the files under version control; skip the test outside of a checkout."""
    done = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / line for line in done.stdout.splitlines()]


def sources() -> str:
    """Return all Python and Rust code of the library as one text."""
    files = [*ROOT.glob("python/**/*.py"), *ROOT.glob("rust/*/src/**/*.rs")]
    return "\n".join(file.read_text(encoding="utf-8") for file in files if file.name != "errors.py")


@pytest.mark.parametrize("name", MODULES)
def test_exports_are_bound_once(name: str) -> None:
    """Every name in ``__all__`` exists and occurs once."""
    module = import_module(name)
    assert len(set(module.__all__)) == len(module.__all__)
    assert all(hasattr(module, item) for item in module.__all__)


def test_public_names_have_docstrings() -> None:
    """Every public object has a docstring."""
    for name in tessarr.__all__:
        assert getattr(tessarr, name).__doc__, name


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_error_is_used(kind: str) -> None:
    """The library raises every kind."""
    defaults = {
        value.default_kind
        for value in vars(tessarr.errors).values()
        if isinstance(value, type) and issubclass(value, tessarr.errors.TessarrError)
    }
    assert kind in defaults or f'"{kind}"' in sources()


def test_tracked_files_name_no_machine_or_registry() -> None:
    """No tracked file contains a machine's path, a registry host or a private address."""
    secret = re.compile(r"(?<![\w.])/(?:root|home/\w+|work|Users)/|pypi\.org|crates\.io/|/tmp/\w+/")
    for file in tracked():
        if file.suffix in {".lock", ".dat", ".npy"} or file == Path(__file__) or not file.is_file():
            continue
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        lines = [line for line in text.splitlines() if secret.search(line)]
        assert not lines, (file, lines[:3])


def test_readme_shows_two_commands() -> None:
    """The first screen has the commands, and CI runs the second."""
    screen = "\n".join((ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:30])
    assert "pip install . && tessarr demo" in screen
    assert 'pip install ".[test]" && pytest' in screen
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert 'install --quiet ".[test]"' in ci
    assert "&& pytest" in ci


def test_decisions_have_consecutive_numbers_and_four_short_sections() -> None:
    """At most 20 pages; a number names one page, and each section has fewer than 15 lines."""
    pages = sorted(ROOT.glob("docs/adr/0*.md"))
    assert len(pages) <= 20
    for number, page in enumerate(pages, 1):
        assert page.name.startswith(f"{number:04}-"), page.name
        title, *sections = page.read_text(encoding="utf-8").split("\n## ")
        assert title.startswith(f"# {number}. "), page.name
        names = [section.splitlines()[0] for section in sections]
        assert names[:4] == ["Context", "Decision", "Consequences", "Alternatives"], page.name
        lengths = [len(section.strip().splitlines()) - 2 for section in sections[:4]]
        assert max(lengths) < 15, (page.name, dict(zip(names, lengths, strict=False)))


def test_references_to_decisions_name_existing_pages() -> None:
    """``ADR 7`` in code and documents is the number of a page."""
    numbers = {int(page.name[:4]) for page in ROOT.glob("docs/adr/0*.md")}
    for file in tracked():
        if file.suffix in {".md", ".py", ".pyi", ".rs", ".toml", ".txt"} and file.is_file():
            text = file.read_text(encoding="utf-8")
            named = {int(number) for number in re.findall(r"\bADR (\d+)", text)}
            assert named <= numbers, (file, named - numbers)


def test_decision_on_dependencies_lists_every_package_and_crate() -> None:
    """The tables of ADR 6 hold what pyproject.toml and the Cargo.toml files name."""
    text = (ROOT / "docs/adr/0006-dependencies.md").read_text(encoding="utf-8")
    python, rust = text.split("## Python packages")[1].split("## Rust crates")
    listed = [
        {
            name
            for row in re.findall(r"^\| ([a-z][^|]*) \|", part, re.MULTILINE)
            for name in row.split(", ")
        }
        - {"package", "crate"}
        for part in (python, rust)
    ]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    packages = {match[0] for line in required if (match := re.match(r"[\w-]+", line))}
    crates: set[str] = set()
    for manifest in ROOT.glob("rust/*/Cargo.toml"):
        document = tomllib.loads(manifest.read_text(encoding="utf-8"))
        crates |= {*document["dependencies"], *document.get("dev-dependencies", ())}
    assert listed[0] == packages - {"tessarr"}
    assert listed[1] == crates - {"tessarr-engine"}


def test_links_in_documents_name_existing_files() -> None:
    """Relative links name existing files."""
    others = [ROOT / name for name in ("README.md", "CHANGELOG.md", "bench/NOTES.md")]
    for document in [*others, *ROOT.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), (document, target)


def test_promises_name_existing_tests() -> None:
    """Each promise in docs/safety.md names tests that check it."""
    text = (ROOT / "docs/safety.md").read_text(encoding="utf-8")
    promises = text[: text.index("## Limitations")].split("\n- ")[1:]
    assert len(promises) > 15
    for promise in promises:
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", promise)
        assert named, promise
        for file, function in named:
            source = (ROOT / file).read_text(encoding="utf-8")
            assert f"def {function}(" in source, (file, function)


def test_every_extension_of_decoder_has_fuzz_target() -> None:
    """Each decoder of foreign bytes has a fuzz target."""
    targets = {file.stem for file in ROOT.glob("rust/fuzz/fuzz_targets/*.rs")}
    assert {"blosc", "zstd", "gzip", "zlib", "lz4", "crc32c"} <= targets
