"""Arrays of the benchmarks: metadata as plain documents, and values.

Engines open these arrays and never create them, so that all engines use the same layout.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from bench.workloads import Row

BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
INDEX = [BYTES, {"name": "crc32c"}]


def make_blosc(cname: str, level: int, shuffle: str, typesize: int) -> dict[str, Any]:
    """Return the metadata of a Blosc codec."""
    configuration = {
        "cname": cname,
        "clevel": level,
        "shuffle": shuffle,
        "typesize": typesize,
        "blocksize": 0,
    }
    return {"name": "blosc", "configuration": configuration}


def make_codecs(name: str, item_bytes: int) -> list[dict[str, Any]]:
    """Return the compressors called `name`."""
    return {
        "raw": [],
        "zstd": [{"name": "zstd", "configuration": {"level": 1, "checksum": False}}],
        "gzip": [{"name": "gzip", "configuration": {"level": 5}}],
        "blosc-lz4": [make_blosc("lz4", 5, "shuffle", item_bytes)],
        "blosc-zstd-bit": [make_blosc("zstd", 3, "bitshuffle", item_bytes)],
    }[name]


@dataclass(frozen=True, slots=True)
class Layout:
    """Shape, chunks, codec and format of an array.

    Parameters
    ----------
    shape, chunks : tuple of int
        Shapes of the array and of the smallest unit that is decoded.
    codec : str
        A name of `make_codecs`.
    shards : tuple of int, optional
        Shape of a shard.
    dtype : str
        The name of a NumPy data type.
    zarr_format : int
        2 or 3; format 2 is written in order F.
    """

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    codec: str = "blosc-lz4"
    shards: tuple[int, ...] | None = None
    dtype: str = "uint16"
    zarr_format: int = 3

    def make_documents(self) -> dict[str, Any]:
        """Return the metadata documents by file name."""
        if self.zarr_format == 2:
            return {".zarray": self._v2(), ".zattrs": {}}
        return {"zarr.json": self._v3()}

    def _v2(self) -> dict[str, Any]:
        return {
            "zarr_format": 2,
            "shape": self.shape,
            "chunks": self.chunks,
            "dtype": np.dtype(self.dtype).str,
            "compressor": {
                "id": "blosc",
                "cname": "lz4",
                "clevel": 5,
                "shuffle": 1,
                "blocksize": 0,
            },
            "fill_value": 0,
            "order": "F",
            "filters": None,
        }

    def _v3(self) -> dict[str, Any]:
        chain = [BYTES, *make_codecs(self.codec, np.dtype(self.dtype).itemsize)]
        if self.shards:
            sharding = {"chunk_shape": self.chunks, "codecs": chain, "index_codecs": INDEX}
            chain = [{"name": "sharding_indexed", "configuration": sharding}]
        return {
            "zarr_format": 3,
            "node_type": "array",
            "shape": self.shape,
            "data_type": self.dtype,
            "chunk_grid": {
                "name": "regular",
                "configuration": {"chunk_shape": self.shards or self.chunks},
            },
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": 0,
            "codecs": chain,
            "attributes": {},
        }

    def create(self, path: Path) -> None:
        """Write the metadata below `path`."""
        path.mkdir(parents=True)
        for name, document in self.make_documents().items():
            (path / name).write_text(json.dumps(document))


def make_values(kind: str, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """Return an array: ``smooth`` like an image with little noise, or ``noisy``."""
    dice = np.random.default_rng(20)
    if kind == "noisy":
        return dice.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    smooth = dice.integers(0, 8, shape, dtype)
    scale = np.iinfo(dtype).max / 8 / len(shape)
    for number, axis in enumerate(np.ogrid[tuple(slice(size) for size in shape)]):
        smooth += ((np.sin(axis / (30 + 10 * number)) + 2) * scale).astype(dtype)
    return smooth


INPUTS: dict[str, np.ndarray[Any, Any]] = {}
"""The values that `write_all` writes: loaded once per process, before any timing."""


def load_inputs(row: Row, stored: Path) -> None:
    """Load the values that the row writes, from a file next to the store."""
    if row.operation != "write_all":
        return
    file = stored.parent / f"{row.data}-{row.layout.dtype}-{row.layout.shape[0]}.npy"
    if not file.exists():
        np.save(file, make_values(row.data, row.layout.shape, row.layout.dtype))
    INPUTS["values"] = np.load(file)
