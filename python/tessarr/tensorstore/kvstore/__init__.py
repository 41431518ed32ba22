"""Key-value stores under TensorStore's names."""

from __future__ import annotations

from tessarr.tensorstore.kvstore.kvstore import KvStore

__all__ = ["KvStore"]
