"""Programs of batches end as they do with TensorStore, and ask for no more.

The same random program is run with either package, line by line: reads of arrays, of views over
them and of keys, and what opens, in batches that are submitted, left or let go. Left out is waiting
for what has to be asked for before its batch is submitted, which never ends with TensorStore.
"""

from __future__ import annotations

import random
import time
from asyncio import CancelledError
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from interop.asking import Side, codecs_of, requests
from stores import servers

SHAPE = (48, 40)
STORED = ("chunks", "chunks, zstd", "shards", "shards, zstd")
ARRAYS = ("a", "b")
VIEWS = (
    "ts.cast({0}, ts.float64)",
    "ts.stack([{0}, {1}])",
    "ts.concat([{0}, {1}], axis=1)",
    "ts.overlay([{0}[:20], {1}[10:]])",
    "ts.downsample({0}, [2, 3], 'max')",
    "{0}[::2, 3:].T",
    "{0}[ts.d[0, 1].translate_to[5, 5]]",
)


class Program:
    """Draws lines of a program, each of which may fail."""

    def __init__(self, seed: int) -> None:
        self.draw = draw = random.Random(seed)
        self.place = draw.choice(["memory", "file", "file", "http", "http"])
        self.stored = [draw.choice(STORED) for _ in ARRAYS]
        self.inside = [draw.choice([(4, 8), (8, 4), (16, 2)]) for _ in ARRAYS]
        self.limit = draw.choice([0, 0, 10**8])
        self.spec = {
            "driver": "zarr3",
            "recheck_cached_data": draw.choice([False, "open", True]),
            "recheck_cached_metadata": draw.choice(["open", "open", True, False]),
        }
        self.lost = draw.choice(["", "", "c/0/0", "c/1/1"])
        self.damaged = draw.choice(["", "", "", "c/0/1", "c/2/0"])
        if self.place == "memory" and self.limit:
            self.lost = self.damaged = ""  # what was there before may still be in a cache
        # Of a file that has changed TensorStore may read new bytes by an old index, and where a
        # write fails, others of its chunks may be stored a little later.
        kept = self.limit > 0 and self.spec["recheck_cached_data"] is not True
        self.writes = not (kept or self.damaged)
        self.rounds = [list(self.round()) for _ in range(draw.randint(1, 4))]

    def along(self, length: int) -> str:
        draw = self.draw
        start = draw.choice([0, 4, 8, 16, draw.randrange(length)])
        stop = start + draw.choice([1, 1, 4, 9, 16, length])
        if draw.random() < 0.97:  # else it is outside
            stop = min(length, stop)
        return f"{start}:{stop}" + draw.choice(["", "", "", ":3"])

    def array(self) -> str:
        """Draw an array, or a view over one or two, and a part of it."""
        draw = self.draw
        one, other = draw.choice(ARRAYS), draw.choice(ARRAYS)
        if draw.random() < 0.25:
            return draw.choice(VIEWS).format(one, other)
        if draw.random() < 0.15:
            places = [[draw.randrange(length) for _ in range(3)] for length in SHAPE]
            return f"{one}.{draw.choice(['vindex', 'oindex'])}[{places[0]}, {places[1]}]"
        if draw.random() < 0.15:
            return one
        return f"{one}[{', '.join(map(self.along, SHAPE))}]"

    def key(self) -> str:
        """Draw the arguments of a read of a key."""
        draw = self.draw
        name = draw.choice(["k", "k", "l", "none"])
        start = draw.choice([0, 0, 3, 100, 9_000, 70_000, 130_000, -7])
        if name == "l" and self.place == "http":
            start = min(start, 3)  # to tell the size of what is shorter is one request more
        stop = max(0, start) + (2 if name == "l" else 50)
        span = draw.choice(["None", f"slice({start}, {stop})", f"slice({start}, None)"])
        # The server that is asked here does not compare.
        known = draw.choice(["", "", "", ", if_not_equal=known" * (self.place != "http")])
        return f"{name!r}, byte_range={span}{known}"

    def begun(self) -> str:
        """Draw what begins something in a batch."""
        kinds = ["read", "read", "read", "key", "key", "resolve"]
        if self.spec["recheck_cached_metadata"] is not True:
            kinds += ["open", "auto"]
        match self.draw.choice(kinds):
            case "read":
                return f"{self.array()}.read(batch=batch)"
            case "key":
                return f"keys.read({self.key()}, batch=batch)"
            case "open":
                name = self.draw.choice([*ARRAYS, "none"])
                wrong = self.draw.choice(["", "", "", ", dtype='int8'"])
                return f"ts.open(spec({name!r}), context=context, batch=batch{wrong})"
            case "auto":
                name = self.draw.choice([*ARRAYS, "none"])
                return f"ts.open(auto({name!r}), context=context, batch=batch)"
        return f"{self.draw.choice(ARRAYS)}.resolve(batch=batch)"

    def round(self) -> Iterator[str]:
        """Draw a batch, and what is done with it."""
        draw = self.draw
        many = draw.randint(1, 6)
        lines = [f"f{number} = {self.begun()}" for number in range(many)]
        part = ", ".join(map(self.along, SHAPE))
        write = f"writer_{draw.choice(ARRAYS)}[{part}] = {draw.randint(0, 9)}"
        yield "; ".join(f"f{number} = None" for number in range(many))
        if draw.random() < 0.4:
            yield "with ts.Batch() as batch:\n    " + "\n    ".join(lines)
        else:
            yield "batch = ts.Batch()"
            yield from lines
            if draw.random() < 0.2 and self.writes:
                yield write
            waits = self.place != "memory" and not self.limit
            gone = [
                k for k, line in enumerate(lines) if waits and line == f"f{k} = a.read(batch=batch)"
            ]
            if gone and draw.random() < 0.3:
                yield f"f{draw.choice(gone)}.cancel()"
            yield draw.choice(
                [
                    "batch.submit()",
                    "batch.submit()",
                    "batch = None",
                    "batch.submit(); batch.submit()",
                ]
            )
        order = draw.sample(range(many), many)
        yield from (f"seen(f{number})" for number in order)
        if draw.random() < 0.2:
            yield f"seen({self.begun()})"  # it may be too late for that batch
        if draw.random() < 0.3 and self.writes:
            yield write


class Run:
    """One implementation, with arrays and keys of its own."""

    def __init__(self, program: Program, folder: Path, door: servers.Door | None, *, real: bool):
        self.side = side = Side(folder, real=real)
        self.package, self.door, self.program = side.ts, door, program
        self.context = side.ts.Context({"cache_pool": {"total_bytes_limit": program.limit}})
        kept = side.ts.Context()
        if program.place == "memory":
            self.place = self.source = {"driver": "memory", "path": "p/"}
            kept = self.context
        else:
            self.source = {"driver": "file", "path": f"{folder}/"}
            self.place = side.kvstore
        if door is not None:
            self.place = {"driver": "http", "base_url": door.url, "path": f"/{folder.name}/"}
        keys = self._keys(self.source, kept)
        made = {"ts": side.ts, "context": self.context, "spec": self._spec, "seen": self._seen}
        for name, stored, inside in zip(ARRAYS, program.stored, program.inside, strict=True):
            made[f"writer_{name}"] = self._made(name, stored, inside, kept)
        keys["k"], keys["l"] = bytes(range(256)) * 800, b"short"
        if program.lost:
            del keys[f"a/{program.lost}"]
        if program.damaged:
            keys[f"b/{program.damaged}"] = b"damaged"
        time.sleep(0.03)  # until time stamps tell whether files are changed again
        reader = self._keys(self.place, self.context)
        known = reader.read("l").result().stamp.generation
        self.names = made | {"keys": reader, "known": known, "auto": self._auto}
        for name in ARRAYS:
            self.names[name] = side.ts.open(self._spec(name), context=self.context).result()

    def _keys(self, place: Any, context: Any) -> Any:
        return self.package.KvStore.open(place, context=context).result()

    def _auto(self, name: str) -> Any:
        return {**self.place, "path": f"{self.place.get('path', '')}{name}/"}

    def _spec(self, name: str) -> Any:
        return {**self.program.spec, "kvstore": self._auto(name)}

    def _made(self, name: str, stored: str, inside: tuple[int, int], context: Any) -> Any:
        grid = {"name": "regular", "configuration": {"chunk_shape": [16, 16]}}
        metadata = {"chunk_grid": grid, "codecs": codecs_of(stored, inside)}
        place = {**self.source, "path": f"{self.source['path']}{name}/"}
        spec = {"driver": "zarr3", "kvstore": place, "metadata": metadata}
        how = {"create": True, "dtype": self.package.int32, "shape": SHAPE}
        array = self.package.open(spec, context=context, **how).result()
        values = np.arange(1, 1 + SHAPE[0] * SHAPE[1], dtype="i4")
        array.write(values.reshape(SHAPE)).result()
        return array

    def _seen(self, future: Any) -> Any:
        """Return what a future gives, to be compared."""
        if future is None:
            return None
        found = future.result(timeout=30)
        if isinstance(found, self.package.TensorStore):
            return str(found.domain)
        if isinstance(found, self.package.KvStore.ReadResult):
            return found.state, found.value
        return found.tolist()

    def line(self, line: str) -> Any:
        """Return what a line gives, or the error that it raises."""
        try:
            if line.startswith("seen"):
                return eval(line, self.names)
            exec(line, self.names)
        except (Exception, CancelledError) as error:
            return error.with_traceback(None)  # which would keep the batch
        return None

    def all(self) -> tuple[list[Any], Any]:
        """Return what each line gives, and what was asked for until after each batch."""
        found, asked = [], []
        for lines in self.program.rounds:
            time.sleep(0.03 * (self.program.place == "file"))
            if self.door is not None:
                self.door.forget()
            with self.side.counting():
                found += [self.line(line) for line in lines]
            asked.append((0, 0))
            if self.program.place == "file":
                asked[-1] = requests(self.side.counts)
            elif self.door is not None:
                asked[-1] = (len(self.door.requests), 0)
        return found, np.cumsum(asked, axis=0)


def check(seed: int, folder: Path, door: servers.Door) -> None:
    """Assert that a program ends as there, and asks for no more."""
    program = Program(seed)
    ends = []
    for word in ("mine", "other"):
        place = folder / f"{word}{seed}"
        place.mkdir()
        run = Run(program, place, door if program.place == "http" else None, real=word == "other")
        ends.append(run.all())
    (mine, asked), (other, real) = ends
    lines = [line for lines in program.rounds for line in lines]
    for number, (here, there) in enumerate(zip(mine, other, strict=True)):
        fits = isinstance(here, type(there)) if isinstance(there, BaseException) else here == there
        before = "\n".join(lines[: number + 1])
        assert fits, f"{seed}, {vars(program)}:\n{before}\nours: {here!r}\ntheirs: {there!r}"
    if program.damaged:  # of what is asked beside, some is not any more when the error is there
        return
    told = "\n".join(lines)
    assert (asked <= real).all(), (
        f"{seed}, {vars(program)}:\n{told}\n{asked.tolist()}, {real.tolist()}"
    )


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_batches_end_as_with_tensorstore(first: int, tmp_path: Path) -> None:
    with servers.files(tmp_path) as door:
        for seed in range(first, first + 10):
            check(seed, tmp_path, door)


@pytest.mark.parametrize("stored", STORED)
def test_what_is_in_a_cache_is_not_asked_for_when_several_want_it(
    stored: str, tmp_path: Path
) -> None:
    values = np.arange(SHAPE[0] * SHAPE[1], dtype="i4").reshape(SHAPE)
    grid = {"name": "regular", "configuration": {"chunk_shape": [16, 16]}}
    for word in ("mine", "other"):
        side = Side(tmp_path / word, real=word == "other")
        members = {"metadata": {"chunk_grid": grid, "codecs": codecs_of(stored, (4, 8))}}
        how = {"create": True, "dtype": side.ts.int32, "shape": SHAPE}
        side.open("a/", members=members, **how).write(values).result()
        time.sleep(0.03)
        found = side.open("a/", members={"recheck_cached_data": "open"}, pool="cache_pool#big")
        found.read().result()
        with side.counting():
            both = side.ts.concat([found, found], axis=1).read().result()
        assert np.array_equal(both, np.hstack([values, values]))
        assert requests(side.counts) == (0, 0)
