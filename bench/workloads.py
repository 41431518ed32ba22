"""Rows of the benchmark table, as data."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bench.layouts import Layout


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: an operation on a layout.

    Parameters
    ----------
    name : str
        The label in the table.
    operation : str
        A function of `bench.operations`.
    layout : Layout
        The array.
    data : str
        ``smooth`` or ``noisy``.
    size : int
        The parameter of the operation: edge of a crop, number of points, …
    count : int
        Repetitions in one timing.
    """

    name: str
    operation: str
    layout: Layout
    data: str = "smooth"
    size: int = 0
    count: int = 1


def volume_layouts(edge: int) -> dict[str, Layout]:
    """Return the layouts of the cubic volume by name."""
    cube = (edge,) * 3
    return {
        "128³ chunks": Layout(cube, (128,) * 3),
        "32³ chunks": Layout(cube, (32,) * 3),
        "256³ shards of 64³": Layout(cube, (64,) * 3, shards=(256,) * 3),
        "256³ shards of 32³": Layout(cube, (32,) * 3, shards=(256,) * 3),
    }


def make_rows(edge: int = 512) -> list[Row]:
    """Return all rows for a volume of ``edge``³ uint16."""
    layouts = volume_layouts(edge)
    big = layouts["128³ chunks"]
    table_rows = [
        Row(
            f"{verb} all, {kind}, 128³ chunks, {codec}",
            f"{verb}_all",
            replace(big, codec=codec),
            kind,
        )
        for kind in ("smooth", "noisy")
        for codec in ("raw", "zstd", "blosc-lz4", "blosc-zstd-bit", "gzip")
        for verb in ("read", "write")
    ]
    table_rows += [
        Row(
            f"{verb} all, smooth, {name}, {codec}",
            f"{verb}_all",
            replace(layout, codec=codec),
        )
        for name, layout in layouts.items()
        if name != "128³ chunks"
        for codec in ("raw", "zstd", "blosc-lz4")
        for verb in ("read", "write")
    ]
    parts = [
        ("64³ crops", "crops", 64, 20),
        ("8³ crops", "crops", 8, 200),
        ("10000 points", "points", 10_000, 1),
        ("outer selection 50×50×50", "outer", 50, 1),
        ("every 4th element", "every", 4, 1),
        ("planes across the order", "planes", 0, 4),
        ("8³ partial writes", "partial_writes", 8, 20),
    ]
    chosen = [
        ("128³ chunks", "raw"),
        ("128³ chunks", "blosc-lz4"),
        ("32³ chunks", "zstd"),
    ]
    chosen += [("256³ shards of 32³", "blosc-lz4"), ("256³ shards of 32³", "zstd")]
    table_rows += [
        Row(
            f"{title}, {name}, {codec}",
            operation,
            replace(layouts[name], codec=codec),
            size=size,
            count=count,
        )
        for title, operation, size, count in parts
        for name, codec in chosen
    ]
    small = Layout((4096, 64), (64, 64))
    table = Layout((0, 1000), (100, 1000), dtype="int32")
    edges = Layout((1000 * edge // 512,) * 3, (256,) * 3, dtype="uint8")
    table_rows += [
        Row("one 8 kB chunk, raw", "small_chunk", replace(small, codec="raw"), count=10_000),
        Row("one 8 kB chunk, blosc-lz4", "small_chunk", small, count=10_000),
        Row(
            "one 8 kB subchunk of a shard",
            "small_chunk",
            replace(small, shards=(4096, 64)),
            count=10_000,
        ),
        Row("open an array again", "reopen", small, count=1000),
        Row("open an array for the first time", "first_open", small),
        Row("append 100 rows", "append", table, size=100, count=50),
        Row("read all, edge chunks of 256³", "read_all", edges),
        Row("write all, edge chunks of 256³", "write_all", edges),
        Row("read all, format 2 order F", "read_all", replace(big, zarr_format=2)),
        Row("write all, format 2 order F", "write_all", replace(big, zarr_format=2)),
    ]
    return table_rows
