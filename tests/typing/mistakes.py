"""Mistakes that type checkers must find; nothing here runs.

`just types` checks this file: mypy and pyright report each comment that ignores no mistake.
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
