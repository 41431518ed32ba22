"""``tessarr demo``: write, read and check the tutorial's array, and print the speed."""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr.api.create import create_array
from tessarr.cli.node_argument import add_json_option
from tessarr.cli.output import format_json, track_progress
from tessarr.cli.tables import format_table
from tessarr.errors import ArgumentError, DataError
from tessarr.node.info import format_size

if TYPE_CHECKING:
    import argparse

    import numpy.typing as npt

    from tessarr.array import Array
    from tessarr.types import JSONObject

__all__ = ["add_to"]

_SIZE: Final = 10_000
_CHUNKS: Final = 10
_PLANES: Final = 20
_CROPS: Final = 100


def add_to(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to the command."""
    parser = verbs.add_parser(
        "demo",
        help="write, read and check an array",
        description="Write the tutorial's 10000 × 10000 int32 array in 1000 × 1000 chunks, and the "
        "same in shards in format 3, to a temporary folder; read planes and crops back and check "
        "them; print sizes and throughput.",
    )
    parser.add_argument("--folder", metavar="DIR", help="write to this folder and keep the arrays")
    parser.add_argument(
        "--size", metavar="N", type=int, default=_SIZE, help="elements per axis, a multiple of 20"
    )
    add_json_option(parser)
    parser.set_defaults(run=_run)


@dataclass(frozen=True, slots=True)
class _Timing:
    what: str
    size_bytes: int
    seconds: float
    count: int

    def row(self) -> tuple[str, str]:
        rate = self.size_bytes / max(self.seconds, 1e-9) / 1e6
        each = f", {1e3 * self.seconds / self.count:.2f} ms each" if self.count > 1 else ""
        return self.what, f"{rate:,.0f} MB/s{each}"


def _run(arguments: argparse.Namespace) -> int:
    size: int = arguments.size
    if size < 20 or size % 20:
        raise ArgumentError(f"--size {size} is not a multiple of 20 from 20 on")
    chunk = size // _CHUNKS
    documents: list[JSONObject] = []
    with _open_folder(arguments.folder) as folder:
        plain: dict[str, Any] = {"zarr_format": 2}
        sharded: dict[str, Any] = {"zarr_format": 3, "shards": (2 * chunk, 2 * chunk)}
        for name, settings in (("format 2", plain), ("format 3 in shards", sharded)):
            path = folder / f"{name.replace(' ', '-')}.zarr"
            array = create_array(
                path, shape=(size, size), dtype="i4", chunks=(chunk, chunk), **settings
            )
            timings = [_time_write(name, array), *_time_all_reads(name, array)]
            document = {
                "name": name,
                "size_bytes": array.nbytes,
                "stored_bytes": array.nbytes_stored,
                "timings": [asdict(timing) for timing in timings],
            }
            documents.append(document)
            if not arguments.json:
                _print_timings(name, array, timings)
    summary = "everything that was read back is what was written"
    print(format_json(documents) if arguments.json else summary)
    return 0


@contextmanager
def _open_folder(path: str | None) -> Generator[Path, None, None]:
    if path is not None:
        yield Path(path)
        return
    with tempfile.TemporaryDirectory(prefix="tessarr-demo-") as folder:
        yield Path(folder)


def _build_expected(
    array: Array, rows: slice, columns: slice = slice(None)
) -> npt.NDArray[np.int32]:
    """Return the tutorial's values: consecutive numbers from 0, row by row."""
    height, width = array.shape
    down = np.arange(height, dtype="i4")[rows, None] * np.int32(width)
    return down + np.arange(width, dtype="i4")[None, columns]


def _list_bands(array: Array) -> list[slice]:
    """Return ranges of rows that end at the boundaries of stored objects."""
    height = (array.shards or array.chunks)[0]
    return [slice(start, start + height) for start in range(0, array.shape[0], height)]


def _time_write(name: str, array: Array) -> _Timing:
    seconds = 0.0
    bands = _list_bands(array)
    for rows in track_progress(f"writing {name}", bands, len(bands)):
        data = _build_expected(array, rows)
        started = perf_counter()
        array[rows] = data
        seconds += perf_counter() - started
    return _Timing("write", array.nbytes, seconds, 1)


def _time_all_reads(name: str, array: Array) -> Iterator[_Timing]:
    size, chunk = array.shape[0], array.chunks[0]
    random = np.random.default_rng(1)
    starts = random.integers(0, size, _PLANES).tolist()
    side = max(chunk // 4, 1)
    corners = random.integers(0, size - side + 1, (_CROPS, 2)).tolist()
    whole = slice(None)
    keys_by_label: dict[str, list[tuple[slice, ...]]] = {
        "all": [(rows, whole) for rows in _list_bands(array)],
        "rows": [(slice(start, start + 1), whole) for start in starts],
        "columns": [(whole, slice(start, start + 1)) for start in starts],
        f"{side}² crops": [
            tuple(slice(start, start + side) for start in corner) for corner in corners
        ],
    }
    for label, keys in keys_by_label.items():
        count = 1 if label == "all" else len(keys)
        tracked = track_progress(f"reading {label} of {name}", keys, len(keys))
        yield _time_reads(f"read {label}", tracked, array, count)


def _time_reads(name: str, keys: Iterable[tuple[slice, ...]], array: Array, count: int) -> _Timing:
    """Time reads of parts of the array; the timing excludes the checks of the values."""
    seconds, size_bytes = 0.0, 0
    for key in keys:
        started = perf_counter()
        data = array[key]
        seconds += perf_counter() - started
        size_bytes += data.nbytes
        if not np.array_equal(data, _build_expected(array, *key)):
            raise DataError(f"the values at {key} differ from the written values")
    return _Timing(name, size_bytes, seconds, count)


def _print_timings(name: str, array: Array, timings: list[_Timing]) -> None:
    stored = array.nbytes_stored
    rows = [
        ("array", repr(array)),
        ("size", f"{format_size(array.nbytes)}B, stored {format_size(stored)}B"),
        ("ratio", f"{array.nbytes / stored:.1f}"),
        ("chunks", f"{array.nchunks_initialized} of {array.nchunks} initialised"),
        *(timing.row() for timing in timings),
    ]
    print(f"{name}\n{format_table(rows)}\n", flush=True)
