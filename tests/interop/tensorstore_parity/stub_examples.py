"""Examples of docstrings of an installed package, run with another package's interface.

The script parses the stub of that package as text, and neither imports nor runs it.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import doctest
import importlib.util
import inspect
import io
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@dataclass(frozen=True)
class Session:
    """The examples of one docstring, which share a namespace."""

    name: str
    examples: tuple[doctest.Example, ...]


@dataclass(frozen=True)
class Difference:
    """An example whose output differs from the documented output."""

    number: int
    source: str
    wanted: str
    got: str

    def __str__(self) -> str:
        return f"example {self.number}:\n{self.source}wanted:\n{self.wanted}got:\n{self.got}"


def stub(package: str) -> str | None:
    """Return the text of the stub of an installed package, or None."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        return None
    file = Path(found.origin).with_name("__init__.pyi")
    return file.read_text(encoding="utf-8") if file.is_file() else None


def sessions(text: str) -> list[Session]:
    """Return the examples of each docstring of a stub, by qualified name."""
    parser = doctest.DocTestParser()
    found: dict[str, Session] = {}
    for name, doc in _docs(ast.parse(text).body, ""):
        examples = tuple(parser.get_examples(inspect.cleandoc(doc)))
        if examples:
            number = sum(1 for other in found if other.partition("#")[0] == name)
            unique = f"{name}#{number}" if number else name
            found[unique] = Session(unique, examples)
    return list(found.values())


def _docs(body: list[ast.stmt], inside: str) -> Iterator[tuple[str, str]]:
    previous: ast.stmt | None = None
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _docs(node.body, f"{inside}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield inside + node.name, ast.get_docstring(node) or ""
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield _target(inside, previous), str(node.value.value)
        previous = node


def _target(inside: str, node: ast.stmt | None) -> str:
    """Return the name above a docstring: of a variable, or else of the class."""
    if isinstance(node, ast.AnnAssign):
        return inside + ast.unparse(node.target)
    if isinstance(node, ast.Assign):
        return inside + ast.unparse(node.targets[0])
    return inside.removesuffix(".") or "module"


def run(
    session: Session, names: dict[str, Any], left_out: re.Pattern[str]
) -> tuple[int, list[Difference]]:
    """Run the examples in one namespace; ``await`` may occur anywhere.

    Skip an example if `left_out` matches its source, or if it needs a name from a skipped example.

    Returns
    -------
    count, differences
        The number of executed examples, and the examples with other output.
    """
    found = []
    count = 0
    missing: set[str] = set()
    with asyncio.Runner() as runner:
        for number, example in enumerate(session.examples):
            made, needed = _names(example.source)
            if left_out.search(example.source) or needed & missing:
                missing |= made
                continue
            missing -= made
            count += 1
            got, error = _run(example.source, names, runner)
            if not _fits(example, got, error):
                wanted = example.want or "nothing\n"
                text = f"{type(error).__name__}: {error}\n" if error else got
                found.append(Difference(number, example.source, wanted, text))
    return count, found


def _names(source: str) -> tuple[set[str], set[str]]:
    """Return the names that the example defines, and the names that it needs."""
    made, needed = set(), set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            (made if isinstance(node.ctx, ast.Store) else needed).add(node.id)
    return made, needed


def _run(
    source: str, names: dict[str, Any], runner: asyncio.Runner
) -> tuple[str, BaseException | None]:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), _displayed():
        try:
            parts = ast.Interactive(ast.parse(source).body)  # one example can hold several lines
            flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            code = compile(parts, "<example>", "single", flags, dont_inherit=True)
            runner.run(_evaluate(code, names))
        except (Exception, asyncio.CancelledError) as error:
            return said.getvalue(), error
    return said.getvalue(), None


async def _evaluate(code: CodeType, names: dict[str, Any]) -> None:
    made = eval(code, names)
    if code.co_flags & inspect.CO_COROUTINE:
        await made


@contextlib.contextmanager
def _displayed() -> Iterator[None]:
    """Print values like an interactive session, independent of the environment."""
    before = sys.displayhook
    sys.displayhook = sys.__displayhook__
    try:
        yield
    finally:
        sys.displayhook = before


def _fits(example: doctest.Example, got: str, error: BaseException | None) -> bool:
    if example.want.startswith("Traceback"):  # Tessarr's messages differ; the class has to fit
        said = example.want.rpartition("    ...\n")[2] or example.want
        wanted = set(re.findall(r"\w+", said))
        return error is not None and bool(wanted & {kind.__name__ for kind in type(error).__mro__})
    if error is not None or not example.want:
        return error is None
    checker = doctest.OutputChecker()
    return checker.check_output(example.want, got, FLAGS) or _same_value(example.want, got)


def _same_value(wanted: str, got: str) -> bool:
    """Return whether both texts are one value, with any order of members."""
    try:
        return _value(wanted) == _value(got)
    except (SyntaxError, ValueError):
        return False


def _value(text: str) -> tuple[str, Any]:
    """Parse a literal, or a literal in parentheses after a name, such as ``Spec({...})``."""
    found = re.fullmatch(r"([\w.]*)\((.*)\)", text.strip(), re.DOTALL)
    name, literal = found.groups() if found else ("", text.strip())
    return name, ast.literal_eval(literal)
