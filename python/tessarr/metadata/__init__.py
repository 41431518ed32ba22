"""Metadata documents of all formats, and their common model: `ArrayMeta` and `GroupMeta`."""

from __future__ import annotations

# They register how documents are written.
from tessarr.metadata import v2, v3  # noqa: F401 # pyright: ignore[reportUnusedImport]
from tessarr.metadata.node import ArrayMeta, GroupMeta

__all__ = ["ArrayMeta", "GroupMeta"]
