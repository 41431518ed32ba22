"""The arrays of the bench: their metadata as plain documents, and their data.

Every engine opens what stands here and creates nothing itself, so that all of
them work on the same layout to the byte.
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


def blosc(cname: str, level: int, shuffle: str, typesize: int) -> dict[str, Any]:
    """Give the metadata of a Blosc codec."""
    configuration = {
        "cname": cname,
        "clevel": level,
        "shuffle": shuffle,
        "typesize": typesize,
        "blocksize": 0,
    }
    return {"name": "blosc", "configuration": configuration}


def codecs(name: str, item_bytes: int) -> list[dict[str, Any]]:
    """Give the codecs behind ``bytes`` that `name` stands for."""
    return {
        "raw": [],
        "zstd": [{"name": "zstd", "configuration": {"level": 1, "checksum": False}}],
        "gzip": [{"name": "gzip", "configuration": {"level": 5}}],
        "blosc-lz4": [blosc("lz4", 5, "shuffle", item_bytes)],
        "blosc-zstd-bit": [blosc("zstd", 3, "bitshuffle", item_bytes)],
    }[name]


@dataclass(frozen=True, slots=True)
class Layout:
    """An array without data.

    Parameters
    ----------
    shape, chunks : tuple of int
        Of the array and of the smallest unit that is decoded.
    codec : str
        A name that `codecs` knows.
    shards : tuple of int, optional
        Shape of a shard.
    dtype : str
        NumPy's name.
    zarr_format : int
        2 or 3; format 2 is written in order F.
    """

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    codec: str = "blosc-lz4"
    shards: tuple[int, ...] | None = None
    dtype: str = "uint16"
    zarr_format: int = 3

    def documents(self) -> dict[str, Any]:
        """Give the metadata documents by file name."""
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
        chain = [BYTES, *codecs(self.codec, np.dtype(self.dtype).itemsize)]
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
        for name, document in self.documents().items():
            (path / name).write_text(json.dumps(document))


def data(kind: str, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """Make an array: ``smooth`` like an image with a little noise, or ``noisy``."""
    dice = np.random.default_rng(20)
    if kind == "noisy":
        return dice.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    smooth = dice.integers(0, 8, shape, dtype)
    scale = np.iinfo(dtype).max / 8 / len(shape)
    for place, axis in enumerate(np.ogrid[tuple(slice(size) for size in shape)]):
        smooth += ((np.sin(axis / (30 + 10 * place)) + 2) * scale).astype(dtype)
    return smooth


KEPT: dict[str, np.ndarray[Any, Any]] = {}
"""What `write_all` writes: made once per process, before anything is timed."""


def input_values(row: Row, stored: Path) -> None:
    """Load what the row writes, from a file beside the store."""
    if row.operation != "write_all":
        return
    file = stored.parent / f"{row.data}-{row.layout.dtype}-{row.layout.shape[0]}.npy"
    if not file.exists():
        np.save(file, data(row.data, row.layout.shape, row.layout.dtype))
    KEPT["values"] = np.load(file)
