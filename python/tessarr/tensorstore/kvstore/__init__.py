"""Key-value stores with the interface of TensorStore."""

from __future__ import annotations

from tessarr.tensorstore.kvstore.kvstore import KvStore

__all__ = ["KvStore"]
