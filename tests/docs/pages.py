"""Runner of the examples on the pages of the documentation.

A fenced block of ``python`` that begins with a prompt is a session, whose results are compared;
a block without prompts is a program. A block of ``console`` is a session of a shell. All
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
# CI runs these commands outside of the tests.
SKIPPED_COMMANDS = ("pip ", "python -m venv", "just ", "pytest", "cargo ")


@dataclass(frozen=True)
class Block:
    """Fenced block: its language, its text, and its line number in the page."""

    language: str
    text: str
    line: int


def list_pages() -> list[Path]:
    """Return the README and all pages of the documentation, except for decisions."""
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in paths if "adr" not in page.parts]


def read_sections(page: Path) -> dict[str, str]:
    """Return the sections of a page by their titles; each keeps its line numbers."""
    parts = re.split(r"^(?=## )", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    sections, line = {}, parts[0].count("\n")
    for part in parts[1:]:
        sections[part.partition("\n")[0].removeprefix("## ")] = "\n" * line + part
        line += part.count("\n")
    return sections


def read_blocks(text: str) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    return [
        Block(match[1], match[2], text.count("\n", 0, match.start(2)))
        for match in FENCE.finditer(text)
    ]


def run_page(page: Path) -> tuple[int, list[str]]:
    """Run a page in the current folder; return the number of examples, and the differences."""
    return run_text(page, page.read_text(encoding="utf-8"))


def run_text(page: Path, text: str) -> tuple[int, list[str]]:
    """Run a part of a page, like `run_page`."""
    options = {field.name: getattr(current(), field.name) for field in fields(Options)}
    try:
        return _run_blocks(page, text)
    finally:
        configure(**options)


def _run_blocks(page: Path, text: str) -> tuple[int, list[str]]:
    names: dict[str, object] = {"__name__": "__main__"}
    count, problems = 0, []
    for block in read_blocks(text):
        if block.language == "python":
            ran, wrong = _run_python(page, block, names)
        elif block.language == "console":
            ran, wrong = _run_console(block)
        elif block.language in NOT_RUN:
            continue
        else:
            ran, wrong = 0, [f"line {block.line}: no runner for {block.language!r}"]
        count += ran
        problems += wrong
    return count, problems


def _run_python(page: Path, block: Block, names: dict[str, object]) -> tuple[int, list[str]]:
    if not block.text.lstrip().startswith(">>>"):
        code = compile("\n" * block.line + block.text, str(page), "exec")
        exec(code, names)
        return 1, []
    parser = doctest.DocTestParser()
    test = parser.get_doctest(block.text, names, page.name, str(page), block.line)
    test.globs = names  # not a copy, because the next block uses the same names
    output: list[str] = []
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    runner.run(test, out=output.append, clear_globs=False)
    return len(test.examples), ["".join(output)] if output else []


def _run_console(block: Block) -> tuple[int, list[str]]:
    commands: list[tuple[str, str]] = []
    for line in block.text.splitlines(keepends=True):
        if line.startswith("$ "):
            commands.append((line[2:], ""))
        elif line.startswith("> ") and not commands[-1][1]:
            commands[-1] = (commands[-1][0] + line[2:], "")
        else:
            commands[-1] = (commands[-1][0], commands[-1][1] + line)
    count, problems = 0, []
    for command, expected in commands:
        if command.startswith(SKIPPED_COMMANDS):
            continue
        count += 1
        output = _run_command(command)
        if not doctest.OutputChecker().check_output(expected, output, FLAGS):
            problems.append(f"line {block.line}: $ {command}expected:\n{expected}got:\n{output}")
    return count, problems


def _run_command(command: str) -> str:
    """Run a command, with ``tessarr`` and ``python`` from the environment under test."""
    if command.startswith("tessarr ") and not set("|&;<>$`*") & set(command):
        return _run_in_process(shlex.split(command)[1:])
    script = (
        'tessarr() { "$PYTHON" -m tessarr "$@"; }\npython() { "$PYTHON" "$@"; }\n'
        f'{command}\nstatus=$?; [ $status = 0 ] || echo "exit code $status"\n'
    )
    # The command imports the same package as the tests, from a checkout or installed.
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


def _run_in_process(arguments: list[str]) -> str:
    """Run ``tessarr`` in this process, because a new process takes longer than the command."""
    output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with redirect_stdout(output), redirect_stderr(output), patch.dict(os.environ, WIDTH):
        try:
            code: object = main(arguments)
        except SystemExit as done:  # argparse exits
            code = done.code
    assert isinstance(output.buffer, io.BytesIO)
    text = output.buffer.getvalue().decode()
    return text if not code else f"{text}exit code {code}\n"
