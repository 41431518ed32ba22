"""Where the corpus of foreign stores is, and how its digests are made."""

from __future__ import annotations

import csv
import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(os.environ.get("TESSARR_CORPUS", Path(__file__).parents[3] / "shared" / "corpus"))

needs_corpus = pytest.mark.skipif(
    not ROOT.is_dir(),
    reason="the corpus of foreign stores is absent (TESSARR_CORPUS names its folder)",
)


def table(name: str) -> list[dict[str, str]]:
    """Give the rows of a table of the corpus; none where the corpus is absent."""
    if not ROOT.is_dir():
        return []
    csv.field_size_limit(1 << 24)
    with (ROOT / name).open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream, delimiter="\t"))


def arrays() -> list[tuple[str, Path, dict[str, str]]]:
    """Give (id, folder, row) of every single array of formats 2 and 3 in a folder."""
    found = []
    for part, kinds in (("real", {"array"}), ("generated", {None})):
        for row in table(f"{part}/MANIFEST.tsv"):
            single = row.get("kind") in kinds and row["canon"] != "tree"
            if single and row["format"] in {"2", "3"} and ".zip" not in row["path"]:
                found.append((row["id"], ROOT / part / row["path"], row))
    return found


def digest(values: Any) -> str:
    """Give the SHA-256 of the canonical bytes: C order, little-endian, packed."""
    array = np.asarray(values)
    array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return hashlib.sha256(array.tobytes()).hexdigest()
