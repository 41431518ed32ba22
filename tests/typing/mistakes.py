"""Mistakes that type checkers must find; nothing here runs.

`just types` checks this file: mypy and pyright report each comment that ignores no mistake.
"""
# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

import tessarr
import tessarr.tensorstore as ts

layout = ts.ChunkLayout(read_chunk_shpae=[3])  # type: ignore[call-arg]
layout.update(chunk_elements="many")  # type: ignore[arg-type]
ts.ChunkLayout.Grid(shpae=[3])  # type: ignore[call-arg]
ts.ChunkLayout.Grid().update(shape=3)  # type: ignore[arg-type]
ts.Schema(dimension_unit=["nm"])  # type: ignore[call-arg]
ts.open("memory://|zarr3:", creat=True)  # type: ignore[call-arg]

a = tessarr.create_array(shape=3, chunks=2.5)  # type: ignore[arg-type]
tessarr.create_array(shape=3, chunsk=2)  # type: ignore[call-arg]
tessarr.create_array(shape=3, shards=(2, "auto"))  # type: ignore[arg-type]
tessarr.open("memory://x", "w", shape=3, zarr_formt=2)  # type: ignore[call-arg]
tessarr.open_array("memory://x", "w", 3, 2.5)  # type: ignore[arg-type]
tessarr.open_group("memory://x", shape=3)  # type: ignore[call-arg]
tessarr.zeros(3, fill_value=1)  # type: ignore[call-arg]
tessarr.options(thread=2)  # type: ignore[call-arg]
tessarr.configure(threads="x")  # type: ignore[arg-type]
print(a.read(...).result().shpae)  # type: ignore[attr-defined]
tessarr.Array("memory://x", chunks=2)  # type: ignore[call-arg]

g = tessarr.create_group()
g.create_array("a", 3, "u1", chunk=2)  # type: ignore[call-arg]
g.zeros("a", 3, chunks=2.5)  # type: ignore[arg-type]
g.require_array("a", 3, compressor=None, order="D")  # type: ignore[arg-type]
g.create_groups("a", attribute={})  # type: ignore[call-arg]
