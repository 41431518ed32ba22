"""Corpus of foreign stores and documents: location, contents and digests."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tessarr.stores import LocalStore, Store, ZipStore

ROOT = Path(os.environ.get("TESSARR_CORPUS", Path(__file__).parents[3] / "shared" / "corpus"))

needs_corpus = pytest.mark.skipif(
    not ROOT.is_dir(),
    reason="the corpus of foreign stores is absent (TESSARR_CORPUS names its folder)",
)

DOCUMENTS = ("zarr.json", ".zarray", ".zgroup")

Row = dict[str, str]


def table(name: str) -> list[Row]:
    """Return the rows of a table of the corpus, or no rows without the corpus."""
    if not ROOT.is_dir():
        return []
    csv.field_size_limit(1 << 24)
    with (ROOT / name).open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream, delimiter="\t"))


def stores(*, hierarchies: bool = False) -> list[Any]:
    """Return every array, or every hierarchy, as parameters ``place, row`` of a test."""
    results = []
    for part in ("real", "generated"):
        for row in table(f"{part}/MANIFEST.tsv"):
            if row.get("kind") == "codec-vector" or (row["canon"] == "tree") != hierarchies:
                continue
            location = f"{part}/{row['path']}"
            if location.endswith(".zip"):
                location += "!/" + row["notes"].removeprefix("array at ").strip("/")
            results.append(pytest.param(location, row, id=row["id"]))
    return results


def located(location: str) -> tuple[Store, str]:
    """Return the store and the path of ``folder`` or ``file.zip!/path``."""
    file, separator, path = location.partition("!/")
    if separator:
        return _zipped(ROOT / file), path
    return LocalStore(ROOT / file, read_only=True), ""


@cache
def _zipped(file: Path) -> Store:
    return ZipStore(file, mode="r")


def contents(row: Row) -> np.ndarray[Any, Any]:
    """Return the recorded elements of a generated array."""
    return np.asarray(np.load(ROOT / "generated" / row["expected"], allow_pickle=False))


def undefined(row: Row) -> np.ndarray[Any, Any] | None:
    """Return the elements that the specification leaves open: fill null, and no chunk."""
    mask = ROOT / "generated" / "expected" / f"{row['id']}.mask.npy"
    return ~np.load(mask) if mask.exists() else None


def digest(values: Any, canon: str = "raw") -> str:
    """Return the SHA-256 of the canonical bytes."""
    return hashlib.sha256(_CANONICAL[canon](np.asarray(values))).hexdigest()


def _raw(values: np.ndarray[Any, Any]) -> bytes:
    """C order, little-endian, packed."""
    if values.dtype.names is None and values.dtype.isbuiltin == 2:  # of ml_dtypes
        signed = values.dtype.type.__name__ in {"int2", "int4"}
        return np.ascontiguousarray(values, dtype=np.int8 if signed else None).tobytes()
    return np.ascontiguousarray(values, dtype=_packed(values.dtype)).tobytes()


def _packed(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.names is not None and dtype.fields is not None:
        return np.dtype([(name, _packed(dtype.fields[name][0])) for name in dtype.names])
    if dtype.subdtype is not None:
        return np.dtype((_packed(dtype.subdtype[0]), dtype.subdtype[1]))
    return dtype.newbyteorder("<")


def _vlen(values: np.ndarray[Any, Any]) -> bytes:
    """Return the size of each element, as four bytes, and its bytes."""
    parts = []
    for item in values.ravel():
        if isinstance(item, str):
            data = item.encode()
        else:
            data = _raw(np.asarray(item)) if isinstance(item, np.ndarray) else bytes(item)
        parts += [struct.pack("<I", len(data)), data]
    return b"".join(parts)


def _json(values: np.ndarray[Any, Any]) -> bytes:
    text = json.dumps(values.tolist(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode()


_CANONICAL = {"raw": _raw, "vlen": _vlen, "json": _json}


@dataclass(frozen=True)
class Document:
    """One metadata document of a store."""

    where: str
    name: str
    data: bytes
    zattrs: bytes | None


def documents() -> Iterator[Document]:
    """Yield every metadata document of the stores of the corpus, including zip files."""
    for path in sorted(p for part in ("real", "generated") for p in (ROOT / part).rglob("*")):
        where = str(path.relative_to(ROOT))
        if path.name in DOCUMENTS:
            zattrs = path.with_name(".zattrs")
            attributes = zattrs.read_bytes() if zattrs.exists() else None
            yield Document(where, path.name, path.read_bytes(), attributes)
        elif path.suffix == ".zip":
            store = _zipped(path)
            for key in sorted(store.list("")):
                name = key.rpartition("/")[2]
                data = store.get(key)
                if name in DOCUMENTS and data is not None:
                    attributes = store.get(key.removesuffix(name) + ".zattrs")
                    yield Document(f"{where}!{key}", name, data, attributes)
