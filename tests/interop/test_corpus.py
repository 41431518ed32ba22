"""Real and generated stores of many writers are read exactly, damaged ones refused."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from interop.corpus import ROOT, arrays, digest, needs_corpus, table

pytestmark = needs_corpus

ARRAYS = arrays()

SUPPORTED_TYPES = {
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    *("bool", "float16", "float32", "float64", "complex64", "complex128"),
}
SUPPORTED_CODECS = {
    *("bytes", "transpose", "blosc", "zstd", "gzip", "zlib", "lz4", "crc32c", "sharding_indexed"),
    *("numcodecs.zlib", "numcodecs.lz4"),
}


def opened(path: Path) -> tessarr.Array:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tessarr.errors.TessarrWarning)
        return tessarr.open_array(path, mode="r")


def undefined(row: dict[str, str]) -> np.ndarray[Any, Any] | None:
    """Cells that the specification leaves undefined: fill null, and no chunk."""
    mask = ROOT / "generated" / "expected" / f"{row['id']}.mask.npy"
    return ~np.load(mask) if mask.exists() else None


def filtered_xz(path: Path) -> bool:
    document = path / ".zarray"
    compressor = json.loads(document.read_bytes())["compressor"] if document.exists() else None
    return bool(compressor and compressor["id"] == "lzma" and compressor.get("filters"))


@pytest.mark.parametrize(("path", "row"), [pytest.param(*rest, id=name) for name, *rest in ARRAYS])
def test_array_reads_as_recorded(path: Path, row: dict[str, str]) -> None:
    """The contents equal the digest, or the array says which extension it needs."""
    try:
        array = opened(path)
    except tessarr.errors.UnsupportedError as error:
        assert error.extension not in SUPPORTED_TYPES | SUPPORTED_CODECS
        return
    except tessarr.errors.MetadataError:
        assert row.get("expect") in {"reject", "reject-data"}
        return
    if row.get("expect") == "reject-data":
        with pytest.raises(tessarr.errors.DataError):
            array[...]
        return
    if filtered_xz(path):
        pytest.skip("numcodecs cannot decode the xz streams that it wrote with filters")
    values = np.array(array[...])
    if row.get("expect") == "reject":
        assert values.shape == array.shape  # read leniently, with a warning at opening
        return
    holes = undefined(row)
    if holes is not None:
        values[holes] = np.load(ROOT / "generated" / row["expected"])[holes]
    assert digest(values) == row["sha256"]


def test_enough_arrays_are_in_scope() -> None:
    """The test above cannot shrink to nothing: most arrays are opened."""
    outcomes: Counter[str] = Counter()
    for _, path, row in ARRAYS:
        try:
            opened(path)
        except tessarr.errors.UnsupportedError:
            outcomes["unsupported"] += 1
        except tessarr.errors.MetadataError:
            outcomes["rejected"] += 1
        else:
            outcomes["read" if row["sha256"] else "lenient"] += 1
    assert outcomes["read"] >= 595, outcomes
    assert outcomes["unsupported"] <= 180, outcomes


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=row["id"]) for row in table("generated/CORRUPT.tsv")]
)
def test_damage_is_an_error_that_says_where(row: dict[str, str]) -> None:
    """Damaged chunks raise DataError with key and grid position."""
    path = ROOT / "generated" / row["path"]
    try:
        array = opened(path)
    except tessarr.errors.UnsupportedError as error:
        assert error.extension not in SUPPORTED_TYPES | SUPPORTED_CODECS
        return
    with pytest.raises(tessarr.errors.DataError) as caught:
        array[...]
    assert caught.value.key
    assert caught.value.chunk is not None
