"""Zip archives as a read/write store.

The store appends values and never overwrites one. Replaced and deleted values stay in the file as
garbage, which readers do not see, until `close` rewrites the file. `flush` and `close` write the
directory after the values. So an open value keeps its position, readers need no locks, and the
file of a killed writer still contains all values.
"""

from __future__ import annotations

from tessarr.store.zip.store import ZipStore, find_only_folder, open_zip

__all__ = ["ZipStore", "find_only_folder", "open_zip"]
