"""Tessarr."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import tessarr


class Tessarr:
    """The everyday interface."""

    def open(self, path: Path, mode: Literal["r", "r+"]) -> Any:
        return tessarr.open_array(path, mode=mode)

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


def make(variant: str) -> Tessarr:
    """Give the engine; there are no variants."""
    assert not variant
    return Tessarr()
