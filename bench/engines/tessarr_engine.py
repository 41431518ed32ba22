"""Engine of Tessarr's plain interface."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import tessarr
from bench.engines import Indexed


class Tessarr(Indexed):
    """The everyday interface."""

    def open(self, path: Path, mode: Literal["r", "r+"]) -> Any:
        return tessarr.open_array(path, mode=mode)


def make_engine(variant: str) -> Tessarr:
    """Return the engine, which has no variants."""
    assert not variant
    return Tessarr()
