"""The pages of the documentation, cut into what can be run.

A fenced block of ``python`` that begins with a prompt is a session, whose results are compared;
one without prompts is run as it stands. A block of ``console`` is a session of a shell. All
blocks of a page share one namespace and one folder, from top to bottom. Other blocks (``json``,
``text``, ``toml``) are not run.
"""

from __future__ import annotations

import doctest
import io
import os
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, fields
from pathlib import Path
from unittest.mock import patch

from tessarr.cli import main
from tessarr.options import Options, configure, current

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
NOT_RUN = {"json", "text", "toml", "rust", ""}
WIDTH = {"COLUMNS": "100"}
# What installs and checks is done by CI itself, outside of the tests.
INSTALLS = ("pip ", "python -m venv", "just ", "pytest", "cargo ")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, text, and the line of its first line in the page."""

    language: str
    text: str
    line: int


def pages() -> list[Path]:
    """Give all documents that people write; those of decisions tell of their time."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in found if "adr" not in page.parts]


def blocks(page: Path) -> list[Block]:
    """Give the fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(found[1], found[2], text.count("\n", 0, found.start(2)))
        for found in FENCE.finditer(text)
    ]


def run(page: Path) -> tuple[int, list[str]]:
    """Run a page in the current folder; give how many examples there were, and what differs."""
    options = {field.name: getattr(current(), field.name) for field in fields(Options)}
    try:
        return _run(page)
    finally:
        configure(**options)


def _run(page: Path) -> tuple[int, list[str]]:
    names: dict[str, object] = {"__name__": "__main__"}
    count, problems = 0, []
    for block in blocks(page):
        if block.language == "python":
            ran, wrong = _python(page, block, names)
        elif block.language == "console":
            ran, wrong = _console(block)
        elif block.language in NOT_RUN:
            continue
        else:
            ran, wrong = 0, [f"line {block.line}: nobody runs {block.language!r}"]
        count += ran
        problems += wrong
    return count, problems


def _python(page: Path, block: Block, names: dict[str, object]) -> tuple[int, list[str]]:
    if not block.text.lstrip().startswith(">>>"):
        code = compile("\n" * block.line + block.text, str(page), "exec")
        exec(code, names)
        return 1, []
    parser = doctest.DocTestParser()
    test = parser.get_doctest(block.text, names, page.name, str(page), block.line)
    test.globs = names  # not a copy: the next block goes on with them
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    runner.run(test, out=said.append, clear_globs=False)
    return len(test.examples), ["".join(said)] if said else []


def _console(block: Block) -> tuple[int, list[str]]:
    commands: list[tuple[str, str]] = []
    for line in block.text.splitlines(keepends=True):
        if line.startswith("$ "):
            commands.append((line[2:], ""))
        elif line.startswith("> ") and not commands[-1][1]:
            commands[-1] = (commands[-1][0] + line[2:], "")
        else:
            commands[-1] = (commands[-1][0], commands[-1][1] + line)
    count, problems = 0, []
    for command, wanted in commands:
        if command.startswith(INSTALLS):
            continue
        count += 1
        got = _shell(command)
        if not doctest.OutputChecker().check_output(wanted, got, FLAGS):
            problems.append(f"line {block.line}: $ {command}expected:\n{wanted}got:\n{got}")
    return count, problems


def _shell(command: str) -> str:
    """Run a command; ``tessarr`` and ``python`` are those under test."""
    if command.startswith("tessarr ") and not set("|&;<>$`*") & set(command):
        return _here(shlex.split(command)[1:])
    script = (
        'tessarr() { "$PYTHON" -m tessarr "$@"; }\npython() { "$PYTHON" "$@"; }\n'
        f'{command}\nstatus=$?; [ $status = 0 ] || echo "exit code $status"\n'
    )
    # Ran from a checkout or installed, the command finds what the tests import.
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = os.environ | {"PYTHON": sys.executable, "PYTHONPATH": paths} | WIDTH
    done = subprocess.run(
        ["sh", "-c", script],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout


def _here(arguments: list[str]) -> str:
    """Run ``tessarr`` in this process: to start another one takes longer than the command."""
    said = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with redirect_stdout(said), redirect_stderr(said), patch.dict(os.environ, WIDTH):
        try:
            code: object = main(arguments)
        except SystemExit as done:  # of argparse
            code = done.code
    assert isinstance(said.buffer, io.BytesIO)
    text = said.buffer.getvalue().decode()
    return text if not code else f"{text}exit code {code}\n"
