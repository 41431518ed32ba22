"""A store in a Zip file.

Values are written one behind another and never over each other; what is replaced or deleted
stays in the file as garbage, which no reader sees, until closing moves the rest together. The
directory of the file is written behind the values, by flushing and closing. So a value that
was opened keeps its place as long as the file is open, readers need no locks, and a killed
writer leaves everything in the file that it had written.
"""

from __future__ import annotations

from tessarr.store.zip.store import ZipStore, find_only_folder, open_zip

__all__ = ["ZipStore", "find_only_folder", "open_zip"]
