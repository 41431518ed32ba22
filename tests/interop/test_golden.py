"""Stores of earlier versions of Tessarr: values, and the bytes of documents."""

from __future__ import annotations

from pathlib import Path

import pytest

import tessarr
from interop.golden import FOLDER, STORES, values, write


def test_golden_stores_are_complete() -> None:
    """The golden folder contains every expected store."""
    assert {path.name for path in FOLDER.iterdir()} == set(STORES)


@pytest.mark.parametrize("name", STORES)
def test_golden_store_is_read_bit_by_bit(name: str) -> None:
    """The values equal the written values, to the bit."""
    array = tessarr.open_array(FOLDER / name, mode="r")
    expected = values(STORES[name])
    assert array.dtype == expected.dtype
    assert array[...].tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", STORES)
def test_golden_store_is_written_with_equal_bytes(name: str, tmp_path: Path) -> None:
    """The same files, and the same bytes of documents and of chunks without compression."""
    write(name, tmp_path / name)
    old, new = (
        {str(file.relative_to(root)): file for file in root.rglob("*") if file.is_file()}
        for root in (FOLDER / name, tmp_path / name)
    )
    assert set(old) == set(new)
    for key, file in old.items():
        if "zarr" in file.name or file.name.startswith(".z") or "raw" in name:
            assert new[key].read_bytes() == file.read_bytes(), key
