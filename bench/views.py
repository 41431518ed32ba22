"""What views over handles cost, here and with TensorStore: ``python -m bench.views [name]``.

Both view the same elements, in memory unless the name says otherwise, and do the same calls; a part
of their names chooses rows. Rounds of the two alternate in one process, at least 20 of them, for
half a second. The least time of a round counts; the last column compares medians, which copies that
meet other work are told by.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorstore

import tessarr.tensorstore

ROUNDS, SECONDS = 20, 0.5
EDGE = 2000
METHODS = ("mean", "median", "mode", "min", "max")
FACTORS = ((2, 2), (3, 3), (1, 4), (10, 10))
KINDS = ("bool", "uint8", "int16", "uint16", "int32", "int64", "float16", "float32", "float64")
CASTS = (
    *(("uint16", "float32"), ("float32", "uint8"), ("float64", "float32"), ("int32", "bool")),
    *(("uint8", "float64"), ("float32", "float16"), ("int16", "int64"), ("complex64", "float32")),
    *(("float8_e4m3fn", "float32"), ("float32", "float8_e5m2"), ("bfloat16", "float32")),
)

POINTS = tuple(np.random.default_rng(1).integers(0, EDGE, (2, 100)))

Array = npt.NDArray[Any]
Make = Callable[[Any], Callable[[], object]]
Row = tuple[str, int, Make]


def reading(count: int, name: str, view: Callable[[Any], Any]) -> Row:
    """Return the row of reading a whole view `count` times."""

    def make(ts: Any) -> Callable[[], object]:
        found = view(ts)
        return lambda: found.read().result()

    return f"{name}: read", count, make


def writing(count: int, name: str, view: Callable[[Any], Any]) -> Row:
    """Return the row of writing a whole view `count` times."""

    def make(ts: Any) -> Callable[[], object]:
        found = view(ts)
        values = np.ones(found.shape, found.dtype.numpy_dtype)
        return lambda: found.write(values).result()

    return f"{name}: write", count, make


def stored(ts: Any, values: Array, folder: Path, name: str) -> Any:
    """Return an array in a folder."""
    spec = {"driver": "zarr3", "kvstore": (folder / ts.__name__ / name).as_uri() + "/"}
    layout = ts.ChunkLayout(chunk_shape=[100, 100])
    new = {"create": True, "dtype": values.dtype.name, "shape": list(values.shape)}
    store = ts.open(spec, open=True, chunk_layout=layout, **new).result()
    store.write(values).result()
    return store


def downsampled(values: Array) -> Iterator[Row]:
    """Give the rows of downsampled views."""
    for kind in KINDS:
        typed = (values % 2 if kind == "bool" else values % 100).astype(kind)
        for method in METHODS:
            for factors in FACTORS:

                def view(ts: Any, typed: Array = typed, how: Any = (factors, method)) -> Any:
                    return ts.downsample(ts.array(typed), *how)

                yield reading(1, f"downsample {kind} {method} {factors}", view)
    yield reading(50, "downsample, an element", lambda ts: ts.downsample(ts.array(values), [2, 2], "mean")[5, 5])  # fmt: skip # noqa: E501


def cast(values: Array) -> Iterator[Row]:
    """Give the rows of casts."""
    for one, other in CASTS:
        typed = (values % 100).astype(tensorstore.dtype(one).numpy_dtype)

        def view(ts: Any, typed: Array = typed, other: str = other) -> Any:
            return ts.cast(ts.array(typed.copy()), other)

        yield reading(1, f"cast {one} as {other}", view)
        yield writing(1, f"cast {one} as {other}", view)


def layered(values: Array, folder: Path) -> Iterator[Row]:
    """Give the rows of layers."""
    for count in (2, 20):
        size = EDGE // count

        def parts(ts: Any, count: int = count, size: int = size) -> list[Any]:
            return [ts.array(values[k * size : (k + 1) * size].copy()) for k in range(count)]

        def in_folders(ts: Any, count: int = count, size: int = size) -> list[Any]:
            places = [values[k * size : (k + 1) * size] for k in range(count)]
            return [stored(ts, part, folder, f"{count}_{k}") for k, part in enumerate(places)]

        for where, layers in (("in memory", parts), ("in folders", in_folders)):

            def whole(ts: Any, layers: Any = layers) -> Any:
                return ts.concat(layers(ts), axis=0)

            def column(ts: Any, whole: Any = whole) -> Any:
                return whole(ts)[:, 5]

            def element(ts: Any, whole: Any = whole) -> Any:
                return whole(ts)[5, 5]

            def points(ts: Any, whole: Any = whole) -> Any:
                return whole(ts).vindex[POINTS]

            name = f"concat of {count} {where}"
            yield reading(1, name, whole)
            yield reading(5, f"{name}, a column", column)
            yield reading(20, f"{name}, an element", element)
            yield reading(5, f"{name}, 100 points", points)
            yield writing(1, name, whole)
            yield writing(5, f"{name}, 100 points", points)
        for how in ("concat", "stack", "overlay"):

            def made(ts: Any, how: str = how, count: int = count) -> Callable[[], object]:
                layers = [ts.array(values[:10, :10]) for _ in range(count)]
                options = {} if how == "overlay" else {"axis": 0}
                return lambda: getattr(ts, how)(layers, **options)

            yield f"{how} of {count}: made", 200, made


def virtual(values: Array) -> Iterator[Row]:
    """Give the rows of chunks by functions."""

    def fill(_: Any, chunk: Array, __: Any) -> None:
        chunk[...] = 1

    def forget(_: Any, __: Any, ___: Any) -> None:
        pass

    for edge in (2000, 200, 50):

        def view(ts: Any, edge: int = edge, **more: Any) -> Any:
            layout = ts.ChunkLayout(chunk_shape=[edge, edge])
            shape = {"shape": values.shape, "chunk_layout": layout}
            return ts.virtual_chunked(fill, forget, dtype=ts.uint16, **shape, **more)

        def cached(ts: Any, view: Any = view) -> Any:
            return view(ts, context=ts.Context({"cache_pool": {"total_bytes_limit": 10**8}}))

        yield reading(1, f"virtual chunks of {edge}²", view)
        yield reading(1, f"virtual chunks of {edge}², cached", cached)
        yield writing(1, f"virtual chunks of {edge}²", view)


def times(acts: tuple[Callable[[], object], ...], count: int) -> list[list[float]]:
    """Return the microseconds that each act takes, in rounds of some of it."""
    found: list[list[float]] = [[] for _ in acts]
    end = time.perf_counter() + SECONDS
    while len(found[0]) < ROUNDS or time.perf_counter() < end:
        for act, taken in zip(acts, found, strict=True):
            begun = time.perf_counter()
            for _ in range(count):
                act()
            taken.append(1e6 * (time.perf_counter() - begun) / count)
    return found


def main() -> None:
    """Print the table."""
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    values = np.random.default_rng(0).integers(0, 2**16, (EDGE, EDGE), "u2")
    print("| | TensorStore | here | ratio | of medians |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        groups = (downsampled(values), cast(values), layered(values, Path(folder)), virtual(values))
        for name, count, make in (row for group in groups for row in group):
            if wanted not in name:
                continue
            theirs, here = times((make(tensorstore), make(tessarr.tensorstore)), count)
            one, other = min(theirs), min(here)
            middle = median(theirs) / median(here)
            cells = [f"{one:.0f} µs", f"{other:.0f} µs", f"{one / other:.2f}", f"{middle:.2f}"]
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
