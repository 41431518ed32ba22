"""Shell completion: each script runs in its shell."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tessarr.cli import build_parser

if TYPE_CHECKING:
    from cli.conftest import Run

ACTIONS: list[Any] = list(build_parser()._actions)
VERBS = next(action.choices for action in ACTIONS if action.nargs == "A...")

CASES = [
    ("tessarr ver", {"verify"}),
    ("tessarr ls --rec", {"--recursive"}),
    ("tessarr verify --ignore sta", {"stale"}),
    ("tessarr cat --format ", {"text", "csv", "json", "npy", "raw"}),
    ("tessarr completion ", {"bash", "zsh", "fish"}),
    ("tessarr info my", {"my data.zarr"}),
]


def needs(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not installed")


@pytest.fixture
def script(here: Path, run: Run, request: pytest.FixtureRequest) -> Path:
    (here / "my data.zarr").mkdir()
    code, out, _ = run("completion", request.param)
    assert code == 0
    path = here / f"script.{request.param}"
    path.write_text(out)
    return path


def run_shell(*words: str) -> list[str]:
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout.splitlines()


@pytest.mark.slow
@needs("bash")
@pytest.mark.parametrize("script", ["bash"], indirect=True)
@pytest.mark.parametrize(("line", "expected"), CASES)
def test_bash(script: Path, line: str, expected: set[str]) -> None:
    """The script completes verbs, options, choices and paths with spaces."""
    words = line.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    code = (
        f"source {script}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _tessarr; "
        "printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    assert set(run_shell("bash", "--norc", "-c", code)) == expected


@pytest.mark.slow
@needs("fish")
@pytest.mark.parametrize("script", ["fish"], indirect=True)
@pytest.mark.parametrize(("line", "expected"), CASES)
def test_fish(script: Path, line: str, expected: set[str]) -> None:
    """The script completes verbs, options, choices and paths with spaces."""
    completions = run_shell("fish", "--no-config", "-c", f"source {script}; complete -C '{line}'")
    names = {line.split("\t")[0].rstrip("/").replace("\\ ", " ") for line in completions}
    assert expected <= names
    assert names <= expected or line.endswith(" ")


@pytest.mark.slow
@needs("zsh")
@pytest.mark.parametrize("script", ["zsh"], indirect=True)
def test_zsh(script: Path) -> None:
    """The script defines a function that completes the command."""
    code = f"autoload -U compinit; compinit -u -d dump; source {script}; print $_comps[tessarr]"
    assert run_shell("zsh", "-f", "-c", code) == ["_tessarr"]
    run_shell("zsh", "-n", str(script))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_has_every_verb_and_option(run: Run, shell: str) -> None:
    """The scripts include every verb and option of the parser."""
    _, out, _ = run("completion", shell)
    for name, verb in VERBS.items():
        assert name in out
        for action in verb._actions:
            for option in action.option_strings:
                assert (option if shell != "fish" else option.lstrip("-")) in out


def test_completion_of_unknown_shell_raises(run: Run) -> None:
    """The message lists the known shells."""
    code, _, err = run("completion", "bsh")
    assert code == 2
    assert "did you mean 'bash'?" in err
