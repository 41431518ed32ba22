"""Copies of arrays and hierarchies: between stores, formats, chunks, and libraries.

`copy_to` copies nodes from any source, `copy_store` copies keys; `copy` and `copy_all` have the
interface of zarr-python 2. `tessarr.transfer` copies the elements.
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
