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
    module_spec = importlib.util.find_spec(package)
    if module_spec is None or module_spec.origin is None:
        return None
    file = Path(module_spec.origin).with_name("__init__.pyi")
    return file.read_text(encoding="utf-8") if file.is_file() else None


def sessions(text: str) -> list[Session]:
    """Return the examples of each docstring of a stub, by qualified name."""
    parser = doctest.DocTestParser()
    sessions_: dict[str, Session] = {}
    for name, doc in _docs(ast.parse(text).body, ""):
        examples = tuple(parser.get_examples(inspect.cleandoc(doc)))
        if examples:
            number = sum(1 for other in sessions_ if other.partition("#")[0] == name)
            unique = f"{name}#{number}" if number else name
            sessions_[unique] = Session(unique, examples)
    return list(sessions_.values())


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
    faults = []
    count = 0
    missing: set[str] = set()
    with asyncio.Runner() as runner:
        for number, example in enumerate(session.examples):
            bound, needed = _names(example.source)
            if left_out.search(example.source) or needed & missing:
                missing |= bound
                continue
            missing -= bound
            count += 1
            output, error = _run(example.source, names, runner)
            if not _fits(example, output, error):
                expected = example.want or "nothing\n"
                text = f"{type(error).__name__}: {error}\n" if error else output
                faults.append(Difference(number, example.source, expected, text))
    return count, faults


def _names(source: str) -> tuple[set[str], set[str]]:
    """Return the names that the example defines, and the names that it needs."""
    bound, needed = set(), set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            (bound if isinstance(node.ctx, ast.Store) else needed).add(node.id)
    return bound, needed


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
    value = eval(code, names)
    if code.co_flags & inspect.CO_COROUTINE:
        await value


@contextlib.contextmanager
def _displayed() -> Iterator[None]:
    """Print values like an interactive session, independent of the environment."""
    before = sys.displayhook
    sys.displayhook = sys.__displayhook__
    try:
        yield
    finally:
        sys.displayhook = before


def _fits(example: doctest.Example, output: str, error: BaseException | None) -> bool:
    if example.want.startswith("Traceback"):  # Tessarr's messages differ; the class has to fit
        said = example.want.rpartition("    ...\n")[2] or example.want
        expected_words = set(re.findall(r"\w+", said))
        return error is not None and bool(
            expected_words & {kind.__name__ for kind in type(error).__mro__}
        )
    if error is not None or not example.want:
        return error is None
    checker = doctest.OutputChecker()
    return checker.check_output(example.want, output, FLAGS) or _same_value(example.want, output)


def _same_value(expected: str, actual: str) -> bool:
    """Return whether both texts are one value, with any order of members."""
    try:
        return _value(expected) == _value(actual)
    except (SyntaxError, ValueError):
        return False


def _value(text: str) -> tuple[str, Any]:
    """Parse a literal, or a literal in parentheses after a name, such as ``Spec({...})``."""
    match = re.fullmatch(r"([\w.]*)\((.*)\)", text.strip(), re.DOTALL)
    name, literal = match.groups() if match else ("", text.strip())
    return name, ast.literal_eval(literal)
