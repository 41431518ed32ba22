"""Reads that begin together, of several arrays: by one call of the engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ts
import tessarr.tensorstore.together as together
from tessarr.errors import TessarrError

VALUES = np.arange(6 * 40).reshape(6, 40).astype("i4")


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many reads each call of the engine began."""
    found: list[int] = []
    real = together.read_together

    def counted(reads: Any) -> Any:
        found.append(len(reads))
        return real(reads)

    monkeypatch.setattr(together, "read_together", counted)
    return found


def rows(folder: Path) -> list[Any]:
    made = []
    for number, values in enumerate(VALUES):
        place = {"driver": "file", "path": f"{folder}/{number}/"}
        spec = {"driver": "zarr3", "kvstore": place}
        layout = ts.ChunkLayout(chunk_shape=[10])
        row = ts.open(spec, create=True, dtype="int32", shape=[40], chunk_layout=layout).result()
        row.write(values).result()
        made.append(row)
    return made


def test_layers_are_read_by_one_call(tmp_path: Path, begun: list[int]) -> None:
    stack = ts.stack(rows(tmp_path), axis=0)
    np.testing.assert_array_equal(stack.read().result(), VALUES)
    np.testing.assert_array_equal(stack[1:5, 3].read().result(), VALUES[1:5, 3])
    picked = [0, 5, 2, 0], [39, 0, 7, 7]
    np.testing.assert_array_equal(stack.vindex[picked].read().result(), VALUES[picked])
    assert begun == [6, 4, 3]


def test_layers_of_layers_too(tmp_path: Path, begun: list[int]) -> None:
    layers = rows(tmp_path)
    halves = [ts.stack(layers[:3], axis=0), ts.stack(layers[3:], axis=0)]
    cast = ts.cast(ts.concat(halves, axis=0), "float64")
    np.testing.assert_array_equal(cast.read().result(), VALUES.astype("f8"))
    assert begun == [6]


def test_layers_in_a_batch_begin_when_it_is_submitted(tmp_path: Path) -> None:
    layers = rows(tmp_path)
    with ts.Batch() as batch:
        stack = ts.stack(layers, axis=0)
        later = stack.read(batch=batch)
        early = stack[1:, 3].read(batch=batch)
        np.testing.assert_array_equal(early.result(), VALUES[1:, 3])  # wanted before
        layers[0][...] = 7
    np.testing.assert_array_equal(later.result(), [np.full(40, 7), *VALUES[1:]])


def test_one_that_fails_is_told_by_its_future(tmp_path: Path) -> None:
    """The others are read."""
    layers = rows(tmp_path)
    for chunk in (tmp_path / "2" / "c").iterdir():
        chunk.write_bytes(b"damaged")
    out = np.zeros_like(VALUES)
    with pytest.raises(TessarrError, match="metadata says 40"):
        ts.stack(layers, axis=0).read(out=out).result()
    np.testing.assert_array_equal(np.delete(out, 2, 0), np.delete(VALUES, 2, 0))
