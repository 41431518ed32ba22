"""Codec pipelines of zarr-python on reads and writes: ``python -m bench.pipelines --help``.

The engines are Tessarr, and zarr-python with Tessarr as its codec pipeline, with its own pipeline
and with that of zarrs. Boxes of 100³ and 8³ cut chunks and shards, so that their writes read the
other elements of each chunk first. `bench.interleaved` measures the rows.
"""

from __future__ import annotations

from bench.interleaved import parse_arguments, print_table
from bench.layouts import Layout
from bench.workloads import Row

ENGINES = "zarr-tessarr,tessarr,zarr,zarr-zarrs"
OPERATIONS = {
    "read all": ("read_all", 0, 1),
    "100³ crops": ("crops", 100, 4),
    "write all": ("write_all", 0, 1),
    "100³ partial writes": ("partial_writes", 100, 4),
    "8³ partial writes": ("partial_writes", 8, 20),
}
"""Operation, edge of the boxes, and number of boxes."""


def make_pipeline_rows(edge: int) -> list[Row]:
    """Return the rows for a volume of ``edge``³ uint16."""
    cube = (edge,) * 3
    layouts = {
        "64³ chunks": Layout(cube, (64,) * 3, codec="zstd"),
        "16³ chunks": Layout(cube, (16,) * 3, codec="zstd"),
        "128³ shards of 32³": Layout(cube, (32,) * 3, codec="zstd", shards=(128,) * 3),
        "128³ shards of 32³, raw": Layout(cube, (32,) * 3, codec="raw", shards=(128,) * 3),
    }
    return [
        Row(f"{title}, {name}", operation, layout, size=size, count=count)
        for name, layout in layouts.items()
        for title, (operation, size, count) in OPERATIONS.items()
    ]


def main() -> None:
    """Print the table."""
    options = parse_arguments(ENGINES)
    print_table(make_pipeline_rows(options.edge), options)


if __name__ == "__main__":
    main()
