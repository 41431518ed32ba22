"""Times of views over handles, beside TensorStore: ``python -m bench.views [NAME]``.

Both libraries view the same elements (in memory, unless the name says otherwise) and run the same
calls; NAME is a part of the names of rows. Their rounds alternate in one process, at least 20 of
them, for half a second. The least time of a round counts; the last column compares medians, which
are more reliable for large copies.
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


def reading_row(count: int, name: str, view: Callable[[Any], Any]) -> Row:
    """Return the row of reading a whole view `count` times."""

    def make(ts: Any) -> Callable[[], object]:
        viewed = view(ts)
        return lambda: viewed.read().result()

    return f"{name}: read", count, make


def writing_row(count: int, name: str, view: Callable[[Any], Any]) -> Row:
    """Return the row of writing a whole view `count` times."""

    def make(ts: Any) -> Callable[[], object]:
        viewed = view(ts)
        values = np.ones(viewed.shape, viewed.dtype.numpy_dtype)
        return lambda: viewed.write(values).result()

    return f"{name}: write", count, make


def store_values(ts: Any, values: Array, folder: Path, name: str) -> Any:
    """Return an array in a folder with these values."""
    spec = {"driver": "zarr3", "kvstore": (folder / ts.__name__ / name).as_uri() + "/"}
    layout = ts.ChunkLayout(chunk_shape=[100, 100])
    new = {"create": True, "dtype": values.dtype.name, "shape": list(values.shape)}
    store = ts.open(spec, open=True, chunk_layout=layout, **new).result()
    store.write(values).result()
    return store


def downsampling_rows(values: Array) -> Iterator[Row]:
    """Yield the rows of downsampled views."""
    for kind in KINDS:
        typed = (values % 2 if kind == "bool" else values % 100).astype(kind)
        for method in METHODS:
            for factors in FACTORS:

                def view(ts: Any, typed: Array = typed, arguments: Any = (factors, method)) -> Any:
                    return ts.downsample(ts.array(typed), *arguments)

                yield reading_row(1, f"downsample {kind} {method} {factors}", view)
    yield reading_row(50, "downsample, an element", lambda ts: ts.downsample(ts.array(values), [2, 2], "mean")[5, 5])  # fmt: skip # noqa: E501


def cast_rows(values: Array) -> Iterator[Row]:
    """Yield the rows of casts."""
    for source, target in CASTS:
        typed = (values % 100).astype(tensorstore.dtype(source).numpy_dtype)

        def view(ts: Any, typed: Array = typed, target: str = target) -> Any:
            return ts.cast(ts.array(typed.copy()), target)

        yield reading_row(1, f"cast {source} as {target}", view)
        yield writing_row(1, f"cast {source} as {target}", view)


def layer_rows(values: Array, folder: Path) -> Iterator[Row]:
    """Yield the rows of layers."""
    for count in (2, 20):
        size = EDGE // count

        def in_memory(ts: Any, count: int = count, size: int = size) -> list[Any]:
            return [ts.array(values[k * size : (k + 1) * size].copy()) for k in range(count)]

        def in_folders(ts: Any, count: int = count, size: int = size) -> list[Any]:
            blocks = [values[k * size : (k + 1) * size] for k in range(count)]
            return [store_values(ts, part, folder, f"{count}_{k}") for k, part in enumerate(blocks)]

        for location, layers in (("in memory", in_memory), ("in folders", in_folders)):

            def whole(ts: Any, layers: Any = layers) -> Any:
                return ts.concat(layers(ts), axis=0)

            def column(ts: Any, whole: Any = whole) -> Any:
                return whole(ts)[:, 5]

            def element(ts: Any, whole: Any = whole) -> Any:
                return whole(ts)[5, 5]

            def points(ts: Any, whole: Any = whole) -> Any:
                return whole(ts).vindex[POINTS]

            name = f"concat of {count} {location}"
            yield reading_row(1, name, whole)
            yield reading_row(5, f"{name}, a column", column)
            yield reading_row(20, f"{name}, an element", element)
            yield reading_row(5, f"{name}, 100 points", points)
            yield writing_row(1, name, whole)
            yield writing_row(5, f"{name}, 100 points", points)
        for function in ("concat", "stack", "overlay"):

            def make(ts: Any, function: str = function, count: int = count) -> Callable[[], object]:
                layers = [ts.array(values[:10, :10]) for _ in range(count)]
                options = {} if function == "overlay" else {"axis": 0}
                return lambda: getattr(ts, function)(layers, **options)

            yield f"{function} of {count}: create", 200, make


def virtual_chunk_rows(values: Array) -> Iterator[Row]:
    """Yield the rows of chunks that functions compute."""

    def fill(_: Any, chunk: Array, __: Any) -> None:
        chunk[...] = 1

    def discard(_: Any, __: Any, ___: Any) -> None:
        pass

    for edge in (2000, 200, 50):

        def view(ts: Any, edge: int = edge, **more: Any) -> Any:
            layout = ts.ChunkLayout(chunk_shape=[edge, edge])
            shape = {"shape": values.shape, "chunk_layout": layout}
            return ts.virtual_chunked(fill, discard, dtype=ts.uint16, **shape, **more)

        def cached(ts: Any, view: Any = view) -> Any:
            return view(ts, context=ts.Context({"cache_pool": {"total_bytes_limit": 10**8}}))

        yield reading_row(1, f"virtual chunks of {edge}²", view)
        yield reading_row(1, f"virtual chunks of {edge}², cached", cached)
        yield writing_row(1, f"virtual chunks of {edge}²", view)


def time_calls(calls: tuple[Callable[[], object], ...], count: int) -> list[list[float]]:
    """Return the microseconds of each call, round by round."""
    times: list[list[float]] = [[] for _ in calls]
    end = time.perf_counter() + SECONDS
    while len(times[0]) < ROUNDS or time.perf_counter() < end:
        for call, taken in zip(calls, times, strict=True):
            start = time.perf_counter()
            for _ in range(count):
                call()
            taken.append(1e6 * (time.perf_counter() - start) / count)
    return times


def main() -> None:
    """Print the table."""
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    values = np.random.default_rng(0).integers(0, 2**16, (EDGE, EDGE), "u2")
    print("| | TensorStore | Tessarr | ratio | of medians |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        groups = (
            downsampling_rows(values),
            cast_rows(values),
            layer_rows(values, Path(folder)),
            virtual_chunk_rows(values),
        )
        for name, count, make in (row for group in groups for row in group):
            if wanted not in name:
                continue
            theirs, ours = time_calls((make(tensorstore), make(tessarr.tensorstore)), count)
            least_theirs, least_ours = min(theirs), min(ours)
            middle = median(theirs) / median(ours)
            ratio = least_theirs / least_ours
            cells = [
                f"{least_theirs:.0f} µs",
                f"{least_ours:.0f} µs",
                f"{ratio:.2f}",
                f"{middle:.2f}",
            ]
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
