"""Metadata documents, and what they say in terms that no format owns."""

from __future__ import annotations

from tessarr.metadata.node import ArrayMeta, GroupMeta

__all__ = ["ArrayMeta", "GroupMeta"]
