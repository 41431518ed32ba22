"""Copies of arrays and hierarchies: between stores, formats, chunks, and libraries.

`copy_to` is the copy of everything to everything, `copy_store` that of keys; `copy` and
`copy_all` are those that users of zarr-python 2 know. Elements are moved by `tessarr.transfer`.
"""

from tessarr.copying.copy_hierarchy import CopiedNode, Copy, copy_to
from tessarr.copying.copy_keys import copy_store
from tessarr.copying.copy_members import copy, copy_all
from tessarr.copying.report import NOT_COPIED, CopiedLink, Skipped

__all__ = [
    "NOT_COPIED",
    "CopiedLink",
    "CopiedNode",
    "Copy",
    "Skipped",
    "copy",
    "copy_all",
    "copy_store",
    "copy_to",
]
