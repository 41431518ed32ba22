"""Mistakes that type checkers have to find; nothing here runs.

`just types` reads it: mypy and pyright report what is ignored here and is no mistake to them.
"""
# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

import tessarr.tensorstore as ts

layout = ts.ChunkLayout(read_chunk_shpae=[3])  # type: ignore[call-arg]
layout.update(chunk_elements="many")  # type: ignore[arg-type]
ts.ChunkLayout.Grid(shpae=[3])  # type: ignore[call-arg]
ts.ChunkLayout.Grid().update(shape=3)  # type: ignore[arg-type]
ts.Schema(dimension_unit=["nm"])  # type: ignore[call-arg]
ts.open("memory://|zarr3:", creat=True)  # type: ignore[call-arg]
