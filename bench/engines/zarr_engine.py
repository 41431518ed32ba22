"""zarr-python with its default pipeline, its fused one, or that of zarrs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import zarr

PIPELINES = {
    "fused": "zarr.core.codec_pipeline.FusedCodecPipeline",
    "zarrs": "zarrs.ZarrsCodecPipeline",
}


class ZarrPython:
    """The everyday interface."""

    def open(self, path: Path, mode: str) -> Any:
        return zarr.open_array(path, mode=mode)

    def read(self, array: Any, key: tuple[Any, ...]) -> Any:
        return array[key]

    def write(self, array: Any, key: tuple[Any, ...], value: Any) -> None:
        array[key] = value

    def outer(self, array: Any, lists: tuple[Any, ...]) -> Any:
        return array.oindex[lists]

    def points(self, array: Any, columns: tuple[Any, ...]) -> Any:
        return array.vindex[columns]

    def append(self, array: Any, rows: Any) -> Any:
        array.append(rows)
        return array


def make(variant: str) -> ZarrPython:
    """Give the engine with the pipeline `variant`."""
    if variant:
        zarr.config.set({"codec_pipeline.path": PIPELINES[variant]})
    return ZarrPython()
