"""Engine of zarr-python with its own codec pipelines, or with those of Tessarr and zarrs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import zarr

from bench.engines import Indexed

PIPELINES = {
    "": "zarr.core.codec_pipeline.BatchedCodecPipeline",
    "fused": "zarr.core.codec_pipeline.FusedCodecPipeline",
    "tessarr": "tessarr.zarr.CodecPipeline",
    "zarrs": "zarrs.ZarrsCodecPipeline",
}


class ZarrPython(Indexed):
    """The everyday interface.

    Parameters
    ----------
    pipeline
        The class of the codec pipeline, by its path.
    """

    def __init__(self, pipeline: str) -> None:
        self.pipeline = pipeline

    def open(self, path: Path, mode: str) -> Any:
        with zarr.config.set({"codec_pipeline.path": self.pipeline}):
            return zarr.open_array(path, mode=mode)


def make_engine(variant: str) -> ZarrPython:
    """Return the engine with the pipeline `variant`."""
    return ZarrPython(PIPELINES[variant])
