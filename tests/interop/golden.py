"""Small stores that every later version of Tessarr must read.

``python tests/interop/golden.py NAME`` writes a new store to ``tests/golden``. The script never
overwrites an existing store.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parents[1] / "golden"

BLOSC = {"name": "blosc", "configuration": {"cname": "zstd", "clevel": 3, "shuffle": "bitshuffle"}}
ZSTD = {"name": "zstd", "configuration": {"level": 3, "checksum": True}}
GZIP = {"name": "gzip", "configuration": {"level": 6}}

STORES: dict[str, dict[str, Any]] = {
    "v2-default": {"zarr_format": 2, "dtype": "<i4"},
    "v2-big-endian-F-slash": {
        "zarr_format": 2,
        "dtype": ">f8",
        "order": "F",
        "dimension_separator": "/",
        "compressors": {"id": "zlib", "level": 1},
        "fill_value": float("nan"),
    },
    "v2-bool-raw": {"zarr_format": 2, "dtype": "bool", "compressors": [], "fill_value": None},
    "v3-default": {"dtype": "int32", "attributes": {"units": "K"}, "dimension_names": ["y", "x"]},
    "v3-complex-zstd": {"dtype": "complex64", "compressors": [ZSTD], "fill_value": 1 + 2j},
    "v3-shards": {"dtype": "uint16", "shards": (8, 10), "compressors": [BLOSC]},
    "v3-shards-gzip-crc": {
        "dtype": "float32",
        "shards": (4, 10),
        "compressors": [GZIP, "crc32c"],
        "fill_value": -0.0,
    },
}


def values(options: dict[str, Any]) -> np.ndarray[Any, Any]:
    """Return the (9, 12) values of a store: numbers that every type holds, and a corner of fill."""
    array = (np.arange(108).reshape(9, 12) % 100).astype(options["dtype"])
    array[4:, 5:] = options.get("fill_value") or 0
    if options.get("fill_value") == 0:
        array[4:, 5:] = options["fill_value"]  # -0.0 is not 0.0
    return array


def write(name: str, path: Path) -> None:
    """Write a store."""
    import tessarr

    options = STORES[name]
    array = tessarr.create_array(path, shape=(9, 12), chunks=(4, 5), **options)
    array[...] = values(options)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        if (FOLDER / name).exists():
            raise SystemExit(f"{name} is there, and golden")
        write(name, FOLDER / name)
