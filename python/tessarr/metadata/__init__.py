"""Metadata documents of all formats, and their common model: `ArrayMeta` and `GroupMeta`."""

from __future__ import annotations

from tessarr.metadata.node import ArrayMeta, GroupMeta

__all__ = ["ArrayMeta", "GroupMeta"]
