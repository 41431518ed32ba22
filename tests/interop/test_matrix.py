"""Every data type with every codec, read by Tessarr and by the installed libraries."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import tessarr
from interop import matrix
from interop.matrix import Table, Type, cells
from tessarr.errors import UnsupportedError

RECORDED_VERSIONS, RECORDED = matrix.read_page()
PEERS = matrix.peer_versions()

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ml_dtypes") is None, reason="small types need ml_dtypes"
)

ROWS = [
    pytest.param(table, type_, id=f"{table.title} {type_.name}")
    for table in matrix.TABLES
    for type_ in table.types
    if cells(table, type_)
]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Silence the logs of zarr-python and TensorStore."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(("table", "type_"), ROWS)
def test_matrix_cell_is_read_back(table: Table, type_: Type, tmp_path: Path) -> None:
    """Tessarr reads every cell; a peer in the page's version has the page's outcome."""
    for number, cell in enumerate(cells(table, type_)):
        folder = tmp_path / str(number)
        try:
            expected = matrix.expected(cell, matrix.write(cell, folder))
        except UnsupportedError as error:
            assert error.kind == "missing_package"
            assert {"pcodec", "zfpy", "zfp"} >= {cell.codec.name, error.extension}
            continue  # optional packages; zfpy breaks the import of numcodecs in some versions
        values = tessarr.open_array(folder, mode="r")[...]
        assert matrix.same(values, expected), cell.codec.name
        for peer, installed in PEERS.items():
            reads = matrix.peer_reads(peer, folder, cell, expected)
            recorded = matrix.recorded(RECORDED, table, cell, peer)
            if installed == RECORDED_VERSIONS.get(peer):
                assert reads == recorded, (cell.codec.name, peer)
            else:
                assert reads is not False or recorded is False, (cell.codec.name, peer)


def test_matrix_page_has_every_cell() -> None:
    """The page has all current types and codecs, and peers read most cells."""
    listed = {
        (table.title, type_.name, cell.codec.name)
        for table in matrix.TABLES
        for type_ in table.types
        for cell in cells(table, type_)
    }
    assert listed == {key for key, mark in RECORDED.items() if mark}
    assert len(listed) > 1300
    assert set(RECORDED_VERSIONS) == set(matrix.PEERS)
    for letter, least in (("z", 850), ("t", 350), ("r", 550)):
        assert sum(letter in mark.partition("≠")[0] for mark in RECORDED.values()) >= least
