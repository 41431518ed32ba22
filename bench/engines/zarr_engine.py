"""Engine of zarr-python with its default pipeline, its fused pipeline, or that of zarrs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import zarr

from bench.engines import Indexed

PIPELINES = {
    "fused": "zarr.core.codec_pipeline.FusedCodecPipeline",
    "zarrs": "zarrs.ZarrsCodecPipeline",
}


class ZarrPython(Indexed):
    """The everyday interface."""

    def open(self, path: Path, mode: str) -> Any:
        return zarr.open_array(path, mode=mode)


def make_engine(variant: str) -> ZarrPython:
    """Return the engine with the pipeline `variant`."""
    if variant:
        zarr.config.set({"codec_pipeline.path": PIPELINES[variant]})
    return ZarrPython()
