"""What the documents print and Tessarr does not, each with its reason."""

from __future__ import annotations

from typing import Final

STORES: Final = {"dict": "MemoryStore", "DictStore": "MemoryStore", "DirectoryStore": "LocalStore"}
"""Names of stores: one class has each of these names, and shows its own."""

DIFFERENCES: Final[dict[tuple[str, int], dict[str, str]]] = {}
"""What is printed instead, by document, first line of the session and statement."""
