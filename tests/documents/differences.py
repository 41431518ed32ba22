"""What the documents print and Tessarr does not, each with its reason."""

from __future__ import annotations

from typing import Final, NamedTuple

STORES: Final = {"dict": "MemoryStore", "DictStore": "MemoryStore", "DirectoryStore": "LocalStore"}
"""Names of stores: one class has each of these names, and shows its own."""


class Difference(NamedTuple):
    """What is printed instead, or None for anything, and why."""

    instead: str | None
    reason: str


_ATTRIBUTES: Final = "attributes are stored at creation, as the other document has it"

DIFFERENCES: Final[dict[tuple[str, int], Difference]] = {
    ("003", 217): Difference(
        "Array((10000, 10000), int32, chunks=(1000, 1000), order=C)\n"
        "  nbytes: 381.5M; nbytes_stored: 248.9K; ratio: 1569.7; initialized: 100/100\n"
        "  compressor: LZMA(format=1, check=-1, preset=None, "
        "filters=[{'dist': 4, 'id': 3}, {'id': 33, 'preset': 1}])\n"
        "  store: MemoryStore\n",
        "the members of a dictionary had any order in the Python of then",
    ),
    ("003", 255): Difference(
        "Array((10000, 10000), int32, chunks=(1000, 1000), order=C)\n"
        "  nbytes: 381.5M; nbytes_stored: 1.2M; ratio: 309.9; initialized: 100/100\n"
        "  filters: Delta(dtype=int32)\n"
        "  compressor: Blosc(cname='zstd', clevel=1, shuffle=1)\n"
        "  store: MemoryStore\n",
        "Zstandard of today takes 12 kB for such a chunk at its lowest level, then 6 kB",
    ),
    ("003", 506): Difference(None, "as many threads as the machine has processors"),
}
"""By document and line."""

LEFT_OUT: Final = {
    ("003", 2322): "a store of format 1 is made, by a function that was gone in 2.1.2 already; "
    "Tessarr reads and migrates such stores (tests/conformance, tests/unit/test_v1.py)",
}
"""Sessions that are not run, by document and line."""
