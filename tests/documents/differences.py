"""Differences between the output of the documents and Tessarr's, with reasons."""

from __future__ import annotations

from typing import Final, NamedTuple

STORES: Final = {"dict": "MemoryStore", "DictStore": "MemoryStore", "DirectoryStore": "LocalStore"}
"""Old names of stores, and the name in the class's repr."""


class Difference(NamedTuple):
    """Output that replaces the document's, or None to accept any output, with the reason."""

    instead: str | None
    reason: str


_AT_CREATION: Final = "the creation stores attributes, as in the document of the package"

_ORDER: Final = "attributes keep the order of the user"

_ATTRIBUTES: Final = """{
    "foo": 42,
    "bar": "apples",
    "baz": [
        1,
        2,
        3,
        4
    ]
}
"""

DIFFERENCES: Final[dict[tuple[str, int], Difference]] = {
    ("003", 217): Difference(
        "Array((10000, 10000), int32, chunks=(1000, 1000), order=C)\n"
        "  nbytes: 381.5M; nbytes_stored: 248.9K; ratio: 1569.7; initialized: 100/100\n"
        "  compressor: LZMA(format=1, check=-1, preset=None, "
        "filters=[{'dist': 4, 'id': 3}, {'id': 33, 'preset': 1}])\n"
        "  store: MemoryStore\n",
        "dictionaries had no order in the Python of that time",
    ),
    ("003", 255): Difference(
        "Array((10000, 10000), int32, chunks=(1000, 1000), order=C)\n"
        "  nbytes: 381.5M; nbytes_stored: 1.2M; ratio: 309.9; initialized: 100/100\n"
        "  filters: Delta(dtype=int32)\n"
        "  compressor: Blosc(cname='zstd', clevel=1, shuffle=1)\n"
        "  store: MemoryStore\n",
        "current Zstandard needs 12 kB for this chunk at its lowest level; the old one needed 6 kB",
    ),
    ("003", 446): Difference(
        "32321\n", "current Blosc and c-blosc need 236 bytes for this chunk; the old one needed 220"
    ),
    ("003", 2628): Difference(_ATTRIBUTES, _ORDER),
    ("002", 860): Difference("['.zarray', '.zattrs']", _AT_CREATION),
    ("002", 885): Difference("['.zarray', '.zattrs', '0.0']", _AT_CREATION),
    ("002", 890): Difference("['.zarray', '.zattrs', '0.0', '0.1', '1.0', '1.1']", _AT_CREATION),
    ("002", 909): Difference(_ATTRIBUTES, _ORDER),
    ("002", 933): Difference("['.zattrs', '.zgroup']", _AT_CREATION),
    ("002", 943): Difference("['.zattrs', '.zgroup', 'foo']", _AT_CREATION),
    ("002", 945): Difference("['.zattrs', '.zgroup']", _AT_CREATION),
    ("002", 953): Difference("['.zattrs', '.zgroup', 'foo']", _AT_CREATION),
    ("002", 955): Difference("['.zattrs', '.zgroup', 'bar']", _AT_CREATION),
    ("002", 970): Difference(
        ".zattrs .zgroup foo/.zattrs foo/.zgroup foo/bar/.zarray foo/bar/.zattrs "
        "foo/bar/0.0 foo/bar/0.1 foo/bar/1.0 foo/bar/1.1",
        _AT_CREATION,
    ),
    ("003", 506): Difference(None, "the number of threads is the number of processors"),
}
"""Differences by document and line."""

LEFT_OUT: Final = {
    ("003", 2322): "the session creates a store of format 1 with a function that 2.1.2 lacks; "
    "Tessarr reads and migrates such stores (tests/conformance, tests/unit/test_format_1.py)",
}
"""Sessions that do not run, by document and line."""
