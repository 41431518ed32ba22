"""Benchmark of codecs on five kinds of data: ``just codecs`` writes docs/guide/codecs-measured.md.

Rates are bytes of elements per second of one thread's processor time, so that other work on the
machine matters little. Each rate is the best of some repetitions.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import numpy.typing as npt

import tessarr
from tessarr.codecs import (
    BZ2,
    LZ4,
    LZMA,
    BitRound,
    Blosc,
    Crc32c,
    Delta,
    FixedScaleOffset,
    GZip,
    PCodec,
    Quantize,
    Shuffle,
    Zlib,
    Zstd,
)

PAGE = Path(__file__).parents[1] / "docs/guide/codecs-measured.md"
EDGE, CHUNK, REPEATS = 1024, 512, 3

Elements = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Data:
    """A kind of data.

    Parameters
    ----------
    name, description
        The title of the column, and the line of the page that explains it.
    elements
        The array.
    """

    name: str
    description: str
    elements: Elements


def make_data() -> Iterator[Data]:
    """Yield the kinds of data, the same in each run."""
    random = np.random.default_rng(20260)
    shape = (EDGE, EDGE)
    y, x = np.mgrid[0:EDGE, 0:EDGE] / EDGE
    smooth = 15 + 20 * np.sin(3 * y) * np.cos(5 * x) + 3 * np.sin(40 * x * y)
    field = (smooth + random.normal(0, 0.05, shape)).astype("f4")
    yield Data("field", "float32, a smooth field with little noise, such as weather data", field)
    light = 400 * np.exp(-(((y - 0.5) / 0.2) ** 2) - ((x - 0.4) / 0.3) ** 2) + 100
    yield Data(
        "image", "uint16, photon counts, such as a camera image", random.poisson(light).astype("u2")
    )
    cells = (np.floor(y * 13) * 17 + np.floor((x + 0.05 * np.sin(30 * y)) * 17)).astype("u4")
    yield Data("labels", "uint32, regions of constant value, such as a segmentation", cells)
    times = np.cumsum(random.integers(900_000, 1_100_000, EDGE * EDGE)).reshape(shape)
    yield Data("times", "int64, sorted, steps that vary by 10 %, such as event times", times)
    tenths = np.round(smooth + random.normal(0, 0.5, shape), 1)
    yield Data("decimals", "float64, values with one decimal, such as instrument readings", tenths)


@dataclass(frozen=True, slots=True)
class Row:
    """A combination of codecs.

    Parameters
    ----------
    compressors, filters
        Arguments of `tessarr.create_array`; a codec class is configured for the data type.
    only
        Names of the measured data; by default all.
    is_lossy
        Whether the decoded values may differ from the original values.
    """

    name: str
    compressors: Any
    filters: Any = None
    serializer: Any = "auto"
    only: tuple[str, ...] = ()
    is_lossy: bool = False


ROWS = [
    Row("none", None),
    Row("`Blosc()`, the default", "auto"),
    Row('`Blosc("lz4", shuffle=2)`', Blosc("lz4", shuffle=2)),
    Row('`Blosc("lz4hc", clevel=9)`', Blosc("lz4hc", clevel=9)),
    Row('`Blosc("zstd", clevel=1)`', Blosc("zstd", clevel=1)),
    Row('`Blosc("zstd", clevel=5)`', Blosc("zstd", clevel=5)),
    Row('`Blosc("zstd", clevel=5, shuffle=2)`', Blosc("zstd", clevel=5, shuffle=2)),
    Row('`Blosc("zstd", clevel=9)`', Blosc("zstd", clevel=9)),
    Row("`LZ4()`", LZ4()),
    Row("`Zstd(0)`", Zstd(0)),
    Row("`Zstd(9)`", Zstd(9)),
    Row("`Shuffle()`, `Zstd(3)`", [Shuffle, Zstd(3)]),
    Row("`GZip(5)`", GZip(5)),
    Row("`Zlib(1)`", Zlib(1)),
    Row("`BZ2(5)`", BZ2(5)),
    Row("`LZMA(preset=1)`", LZMA(preset=1)),
    Row(
        "`PCodec()`",
        None,
        serializer=PCodec(),
    ),
    Row("`Blosc()`, `Crc32c()`", [Blosc(), Crc32c()]),
    Row('`Delta`, `Blosc("zstd")`', Blosc("zstd"), Delta, only=("image", "labels", "times")),
    Row(
        '`FixedScaleOffset(0, 10)`, `Blosc("zstd")`',
        Blosc("zstd"),
        [FixedScaleOffset(offset=0, scale=10, dtype="f8", astype="i2")],
        only=("decimals",),
    ),
    Row(
        '`BitRound(10)`, `Blosc("zstd")`',
        Blosc("zstd"),
        [BitRound(10)],
        only=("field",),
        is_lossy=True,
    ),
    Row('`Quantize(1)`, `Blosc("zstd")`', Blosc("zstd"), Quantize, only=("field",), is_lossy=True),
]


def _configure_codec(codec: Any, elements: Elements) -> Any:
    """Return a codec with the parameters that depend on the data type."""
    dtype = elements.dtype.str
    if codec is Shuffle:
        return Shuffle(elementsize=elements.dtype.itemsize)
    if codec is Delta:
        return [Delta(dtype=dtype)]
    if codec is Quantize:
        return [Quantize(digits=1, dtype=dtype)]
    if isinstance(codec, list):
        return [_configure_codec(part, elements) for part in codec]
    return codec


def measure(row: Row, kind: Data) -> tuple[float, float, float]:
    """Return the compression ratio, and the rates of writing and reading in MB/s."""
    elements = kind.elements
    array = tessarr.create_array(
        None,
        shape=elements.shape,
        dtype=elements.dtype,
        chunks=(CHUNK, CHUNK),
        compressors=_configure_codec(row.compressors, elements),
        filters=_configure_codec(row.filters, elements),
        serializer=row.serializer,
    )
    metadata_bytes = array.nbytes_stored

    def write() -> None:
        array[:] = elements

    target = np.empty_like(elements)

    def read() -> None:
        array.get_basic_selection(..., out=target)

    rates = [elements.nbytes / _best_time(action) / 1e6 for action in (write, read)]
    if not row.is_lossy and not np.array_equal(target, elements):
        raise AssertionError(f"{row.name} changed {kind.name}")
    return elements.nbytes / (array.nbytes_stored - metadata_bytes), rates[0], rates[1]


def _best_time(action: Any) -> float:
    times = []
    for _ in range(REPEATS + 1):  # the first one warms up
        start = process_time()
        action()
        times.append(process_time() - start)
    return max(min(times[1:]), 1e-6)


TABLES: dict[str, Callable[[float], str]] = {
    "Compression ratio": lambda ratio: f"{ratio:.0f}" if ratio >= 9.95 else f"{ratio:.1f}",
    "Write, MB/s": lambda rate: f"{float(f'{rate:.2g}'):.0f}",
    "Read, MB/s": lambda rate: f"{float(f'{rate:.2g}'):.0f}",
}
ABOUT = """# Codec benchmarks

This page is generated (`just codecs`). One thread writes and reads arrays of {edge} × {edge}
elements in chunks of {chunk} × {chunk}, in memory. The tables show compression ratios, and the
megabytes of elements written and read per second of processor time. They were measured on one core
of a server ({machine}) on which NumPy copies an array of this size at {copying:.0f} MB/s. Compare
rates with each other; other machines have other rates. † marks lossy codecs.
"""
END = """
Noise limits lossless compression. For smaller arrays, round (`BitRound`, `Quantize`), or store the
measured values instead of the converted ones (`FixedScaleOffset`).
"""


def make_page() -> str:
    """Measure every row and return the page."""
    kinds = list(make_data())
    about = ABOUT.format(
        edge=EDGE, chunk=CHUNK, machine=platform.machine(), copying=round(_copy_rate(), -2)
    )
    lines = [about, *(f"- **{kind.name}**: {kind.description}" for kind in kinds)]
    with tessarr.options(threads=1):
        measured = {
            (row.name, kind.name): measure(row, kind)
            for row in ROWS
            for kind in kinds
            if not row.only or kind.name in row.only
        }
    for i, (title, text) in enumerate(TABLES.items()):
        lines += ["", f"## {title}", "", f"| | {' | '.join(kind.name for kind in kinds)} |"]
        lines += ["|---" + "|--:" * len(kinds) + "|"]
        for row in ROWS:
            results = [measured.get((row.name, kind.name)) for kind in kinds]
            cells = ["" if numbers is None else text(numbers[i]) for numbers in results]
            lines.append(f"| {row.name}{' †' if row.is_lossy else ''} | {' | '.join(cells)} |")
    return "\n".join([*lines, END])


def _copy_rate() -> float:
    array = np.ones((EDGE, EDGE), "f8")
    target = np.empty_like(array)
    return array.nbytes / _best_time(lambda: np.copyto(target, array)) / 1e6


if __name__ == "__main__":
    PAGE.write_text(make_page(), encoding="utf-8")
