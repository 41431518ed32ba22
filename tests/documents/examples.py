"""Runner of the examples of a document: the statements after ``>>>`` and their output.

The documents are those of zarr 2.1.2 and of format 2, whose users expect the same output. The
module `differences` lists intended differences with their reasons.
"""

from __future__ import annotations

import contextlib
import doctest
import gc
import io
import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import tessarr
from documents.differences import DIFFERENCES, STORES, Difference

ROOT = Path(os.environ.get("TESSARR_DOCUMENTS", Path(__file__).parents[3] / "shared" / "seeds"))

PACKAGE: Final = "003_*.txt"
FORMAT_2: Final = "002_*.txt"


@dataclass(frozen=True)
class Session:
    """Examples that share a namespace; the first one is an import."""

    document: str
    line: int
    examples: tuple[doctest.Example, ...]

    @property
    def name(self) -> str:
        """Return the name of the test."""
        return f"{self.document[:3]}-line-{self.line}"


def sessions() -> list[Session]:
    """Return the sessions of both documents, or none if the documents are absent."""
    paths = [path for pattern in (PACKAGE, FORMAT_2) for path in sorted(ROOT.glob(pattern))]
    return [session for path in paths for session in _sessions(path)]


def _sessions(path: Path) -> Iterator[Session]:
    text = path.read_text("utf-8")
    if ">>> for name" in text and "\n... print" in text:
        # This document has lost its indentation.
        text = re.sub(r"^\.\.\. (?=print)", "...     ", text, flags=re.MULTILINE)
    collected: list[doctest.Example] = []
    for block in _blocks(text):
        starts = any(re.match(r"(import|from) zarr\b(?!\.storage$)", line.source) for line in block)
        if starts and not block[0].source.startswith("from zarr import blosc") and collected:
            yield Session(path.name, collected[0].lineno + 1, tuple(collected))
            collected = []
        collected += block
    if collected:
        yield Session(path.name, collected[0].lineno + 1, tuple(collected))


def _blocks(text: str) -> Iterator[list[doctest.Example]]:
    """Yield runs of examples without prose between them."""
    run: list[doctest.Example] = []
    previous = -1
    for example in doctest.DocTestParser().get_examples(_closed(text)):
        if run and example.lineno > previous:
            yield run
            run = []
        run.append(example)
        previous = example.lineno + example.source.count("\n") + example.want.count("\n")
    if run:
        yield run


def _closed(text: str) -> str:
    """Replace a heading that directly follows an output by an empty line."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if _ENDS_OUTPUT.match(line):
            lines[number] = ""
    return "\n".join(lines)


# A signature of the reference, or prose: a capitalised word alone or before another.
_ENDS_OUTPUT: Final = re.compile(
    r"\.\. |(class )?zarr\.\w+\.|(?!array\()[a-z_]+\(.*\)$|(?!True$|False$)[A-Z][a-z]+( |$)"
)


def run(session: Session, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Run a session in a folder and return its differences, except for the known ones."""
    monkeypatch.chdir(folder)
    (folder / "data").mkdir()
    faults = []
    names: dict[str, Any] = {"__name__": "__main__", "np": np}  # one session lacks this import
    stubs = {name.replace("tessarr", "zarr"): module for name, module in _modules().items()}
    for name, module in stubs.items():
        monkeypatch.setitem(sys.modules, name, module)
    keeps_indentation = not fnmatch(session.document, FORMAT_2)
    with tessarr.options(zarr_format=2), _numpy_of_then(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the examples close no files
        for example in session.examples:
            known = DIFFERENCES.get((session.document[:3], example.lineno + 1))
            fault = _fault(example, names, known, keeps_indentation=keeps_indentation)
            if fault:
                faults.append(f"line {example.lineno + 1}: {fault}")
        names.clear()
        gc.collect()
    return faults


def _modules() -> dict[str, Any]:
    return {name: import_module(name) for name in ("tessarr", "tessarr.blosc", "tessarr.storage")}


@contextlib.contextmanager
def _numpy_of_then() -> Iterator[None]:
    """Print arrays and scalars like NumPy at the time of the documents."""
    saved = np.get_printoptions()
    np.set_printoptions(legacy="1.13")
    try:
        yield
    finally:
        np.set_printoptions(**saved)


def _fault(
    example: doctest.Example,
    names: dict[str, Any],
    known: Difference | None,
    *,
    keeps_indentation: bool,
) -> str:
    printed, shown = io.StringIO(), []

    def display(value: object) -> None:
        if value is not None:
            shown.append(_output_of(value))

    hook, sys.displayhook = sys.displayhook, display
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(example.source, "<example>", "single"), names)
    except Exception:
        return f"{example.source}{traceback.format_exc(limit=-2)}"
    finally:
        sys.displayhook = hook
    output = printed.getvalue() + "".join(f"{text}\n" for text in shown)
    want = known.instead if known else example.want
    if want is None:
        return ""
    if _comparable(output) == _comparable(want) or _equals_but_for_size(output, want):
        return ""
    if not keeps_indentation and output.split() == want.split():
        return ""
    return f"{example.source}expected:\n{want}found:\n{output}"


def _output_of(value: object) -> str:
    if isinstance(value, (tessarr.Array, tessarr.Group)):
        return str(value.info)  # the info without I/O is in the repr
    return repr(value)


def _comparable(text: str) -> str:
    text = re.sub(r"<class '[\w.]+\.(\w+)'>", r"<class '\1'>", text)
    for theirs, ours in STORES.items():
        text = re.sub(rf"store: {theirs}\b", f"store: {ours}", text)
    return "\n".join(line.rstrip() for line in text.strip().split("\n"))


_STORED: Final = re.compile(r"nbytes_stored: ([\d.]+[KMG]?); ratio: [\d.]+; initialized: ([1-9])")


def _equals_but_for_size(actual: str, want: str) -> bool:
    """Compare outputs, but accept stored sizes up to 1.3 times the documented ones."""
    ours, theirs = _STORED.search(actual), _STORED.search(want)
    if ours is None or theirs is None or _size(ours[1]) > 1.3 * _size(theirs[1]):
        return False
    plain = [_STORED.sub(r"initialized: \2", text) for text in (actual, want)]
    return _comparable(plain[0]) == _comparable(plain[1])


def _size(text: str) -> float:
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    return float(text.rstrip("KMG")) * units.get(text[-1], 1)
