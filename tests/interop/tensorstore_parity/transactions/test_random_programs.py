"""Programs of handles, keys and transactions have TensorStore's results.

Both packages run the same random program, line by line. Omitted: atomic transactions over arrays in
files, which TensorStore 0.1.86 refuses even for one key; resizing in a transaction, which can hang
in TensorStore, or during one, which can fail its commit.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tessarr.tensorstore as ts

theirs = pytest.importorskip("tensorstore", reason="the package tensorstore is absent")


def some_spec(draw: random.Random, shape: list[int]) -> dict[str, Any]:
    """Return the spec of an array of integers, without a location."""
    rank = len(shape)
    kind = draw.choice(["zarr2", "zarr3", "sharded"])
    if kind == "zarr2":
        schema = {**of(shape), "chunk_layout": {"chunk": {"shape": [3] * rank}}}
        if draw.random() < 0.5:
            schema["fill_value"] = 0
        return {"driver": kind, "dtype": "int16", "schema": schema}
    if kind == "zarr3":
        return {"driver": kind, "dtype": "int16", "schema": {**of(shape), **cut(write=3)}}
    return {"driver": "zarr3", "dtype": "int16", "schema": {**of(shape), **cut(read=2, write=4)}}


def of(shape: list[int]) -> dict[str, Any]:
    return {"domain": {"shape": shape}}


def cut(**lengths: int) -> dict[str, Any]:
    """Return a layout with a number of elements per chunk."""
    return {"chunk_layout": {f"{name}_chunk": {"elements": n} for name, n in lengths.items()}}


class Program:
    """Generator of the lines of a program, each of which may fail."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.shape = [self.draw.randint(3, 9) for _ in range(self.draw.choice([1, 1, 2]))]
        self.spec = some_spec(self.draw, self.shape)
        self.in_memory = self.draw.random() < 0.5
        self.begun: list[str] = []
        self.lines = [line for _ in range(self.draw.randint(4, 16)) for line in self.act()]
        self.lines += [f"{name}.commit_sync()" for name in self.begun]
        self.lines += ["array.read().result().tolist()", "opened().read().result().tolist()"]
        self.lines += ["sorted(keys.list().result())"]

    def key(self) -> str:
        """Draw a key for brackets."""
        if self.draw.random() < 0.2:
            return "..."
        terms = []
        for length in self.shape:
            first = self.draw.randint(0, length - 1)
            terms.append(f"{first}:{self.draw.randint(first + 1, length)}")
        if self.draw.random() < 0.2:
            terms[0] += ":2"
        elif self.draw.random() < 0.2:
            terms[0] = str([self.draw.randrange(self.shape[0]) for _ in range(3)])
        return ", ".join(terms)

    def act(self) -> Iterator[str]:
        """Draw one or more lines."""
        inside = self.draw.choice(self.begun) if self.begun and self.draw.random() < 0.7 else None
        joined = f".with_transaction({inside})" if inside else ""
        name = f"x{self.draw.randint(0, 2)}"
        kind = self.draw.choice(["begin", "end", "resize", "keys", "read", "write", "write"])
        match kind:
            case "begin":
                yield from self.begin()
            case "end" if self.begun:
                ending = self.begun.pop(self.draw.randrange(len(self.begun)))
                yield f"{ending}.{self.draw.choice(['abort', 'commit_sync', 'commit_sync'])}()"
            case "resize" if not self.begun:
                yield from self.resize()
            case "write":
                yield f"array{joined}[{self.key()}].write({self.draw.randint(0, 4)}).result()"
            case "read":
                yield f"array{joined}[{self.key()}].read().result().tolist()"
                yield f"opened({inside}).read().result().tolist()"
            case "keys":
                value = self.draw.choice([b"1", b"2", None])
                yield f"keys{joined}.write({name!r}, {value!r}).result() and None"
                yield f"seen(keys{joined}.read({name!r}))"
                if self.draw.random() < 0.2:
                    yield f"keys{joined}.delete_range(ts.KvStore.KeyRange('x', 'y')).result()"
                if not inside:
                    yield "sorted(keys.list().result())"

    def begin(self) -> Iterator[str]:
        """Draw a transaction."""
        name = f"t{self.draw.randint(0, 99)}"
        if len(self.begun) < 3 and name not in self.begun:
            self.begun.append(name)
            atomic, repeatable = self.draw.random() < 0.2, self.draw.random() < 0.3
            yield f"{name} = ts.Transaction({atomic and self.in_memory}, {repeatable})"

    def resize(self) -> Iterator[str]:
        """Draw new bounds; half of all cases continue with the old handle."""
        self.shape = [max(1, length + self.draw.randint(-2, 3)) for length in self.shape]
        only = self.draw.random() < 0.5
        yield f"other = array.resize(None, {self.shape}, {only}).result()"
        if self.draw.random() < 0.5:
            yield "array = other"
        yield "array.resolve().result().shape"


def run(package: Any, program: Program, folder: Path) -> list[Any]:
    """Return the result, or the error, of each line."""
    context = package.Context({})
    file = {"driver": "file", "path": f"{folder}/"}
    kvstore = {"driver": "memory", "path": "p/"} if program.in_memory else file
    spec = {**program.spec, "kvstore": kvstore}
    names: dict[str, Any] = {
        "ts": package,
        "keys": package.KvStore.open(kvstore, context=context).result(),
        "array": package.open(spec, context=context, create=True).result(),
        "opened": lambda transaction=None: package.open(
            {"driver": spec["driver"], "kvstore": kvstore}, context=context, transaction=transaction
        ).result(),
        "seen": lambda future: (future.result().state, future.result().value),
    }
    result: list[Any] = []
    for line in program.lines:
        try:
            if " = " in line:
                exec(line, names)  # argument names have no surrounding blanks
                result.append(None)
            else:
                value = eval(line, names)
                result.append(None if isinstance(value, package.TensorStore) else value)
        except Exception as error:
            result.append(error)
    return result


@pytest.mark.parametrize("first", range(0, 200, 10))
def test_random_programs_match_tensorstore(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + 10):
        program = Program(seed)
        mine = run(ts, program, tmp_path / f"mine{seed}")
        other = run(theirs, program, tmp_path / f"other{seed}")
        for number, (_, actual, expected) in enumerate(
            zip(program.lines, mine, other, strict=True)
        ):
            fits = (
                isinstance(actual, type(expected))
                if isinstance(expected, Exception)
                else actual == expected
            )
            before = "\n".join(program.lines[: number + 1])
            assert fits, (
                f"{seed}, {program.spec}:\n{before}\nours: {actual!r}\ntheirs: {expected!r}"
            )
