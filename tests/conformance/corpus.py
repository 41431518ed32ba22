"""Where the corpus of documents and stores is, and what is in it."""

from __future__ import annotations

import csv
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEFAULT = Path(__file__).parents[3] / "shared" / "corpus"
ROOT = Path(os.environ.get("TESSARR_CORPUS", _DEFAULT))

needs_corpus = pytest.mark.skipif(
    not (ROOT / "invalid" / "INVALID.tsv").exists(),
    reason=f"there is no corpus at {ROOT}; set TESSARR_CORPUS",
)


def rows(name: str) -> list[dict[str, str]]:
    """Return the rows of a table of the corpus; none where there is no corpus."""
    path = ROOT / name
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


@dataclass(frozen=True)
class Document:
    """One metadata document of a store."""

    where: str
    name: str
    data: bytes
    zattrs: bytes | None


def documents() -> Iterator[Document]:
    """Yield every metadata document of the stores of the corpus, also of those in zip files."""
    names = ("zarr.json", ".zarray", ".zgroup")
    for path in sorted(p for part in ("real", "generated") for p in (ROOT / part).rglob("*")):
        where = str(path.relative_to(ROOT))
        if path.name in names:
            zattrs = path.with_name(".zattrs")
            attributes = zattrs.read_bytes() if zattrs.exists() else None
            yield Document(where, path.name, path.read_bytes(), attributes)
        elif path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                members = set(archive.namelist())
                for member in sorted(members):
                    name = member.rpartition("/")[2]
                    if name in names:
                        zattrs_name = member[: -len(name)] + ".zattrs"
                        attributes = archive.read(zattrs_name) if zattrs_name in members else None
                        yield Document(f"{where}!{member}", name, archive.read(member), attributes)
