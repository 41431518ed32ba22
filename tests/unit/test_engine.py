"""Checks of the binding itself, independent of the layers above it."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import tessarr
from tessarr import codecs
from tessarr._engine import ArrayBase, Description, MemoryStore, start_reads
from tessarr.flow.future import Future
from tessarr.tensorstore import IndexDomain, IndexTransform, OutputIndexMap

BYTES = {"kind": "bytes", "unit_bytes": 4, "swap": False}
CHAIN: dict[str, Any] = {"order": None, "array_bytes": BYTES, "bytes_bytes": []}


def describe(**changes: object) -> Description:
    """Return the description of an int32 array of 4 × 4 in chunks of 2 × 2, with changes."""
    description: dict[str, object] = {
        "shape": (4, 4),
        "grid": (2, 2),
        "dtype": np.dtype("int32"),
        "item_bytes": 4,
        "is_bool": False,
        "elements": None,
        "fill": b"\0\0\0\0",
        "keys": {"kind": "default", "separator": "/"},
        "store_fill": False,
        "chain": CHAIN,
    }
    return Description({**description, **changes})


def handle(*, read_only: bool = False, **changes: object) -> ArrayBase:
    return ArrayBase(describe(**changes), MemoryStore(), "", read_only)


@pytest.mark.parametrize(
    "changes",
    [
        {"dtype": np.dtype("int64")},
        {"dtype": np.dtype("int16")},
        {"dtype": np.dtype(object), "item_bytes": 8, "fill": bytes(8)},
        {"is_bool": True},
        {"grid": (2,)},
        {"grid": (1 << 62, 4)},
    ],
)
def test_engine_read_with_wrong_item_size_raises(changes: dict[str, object]) -> None:
    """Items have the size in the description, and contain no references."""
    with pytest.raises(tessarr.errors.ArgumentError):
        describe(**changes)


ROWS, ROW = (0, 1, 4), (0, 1, 1)


@pytest.mark.parametrize(
    ("axes", "out_axes", "shape"),
    [
        ((ROWS, ROWS), (0, 0), (4,)),
        ((ROWS, (np.arange(4),)), (0, 0), (4,)),
        ((ROWS, np.arange(4)), (0, 0), (4,)),
        ((ROWS, ROW), (0, None), (4, 2)),
        ((ROWS, ROWS), (0, 1), (4, 3)),
        ((ROWS, ROWS), (0, None), (4,)),
        ((ROWS, ROWS), (0, 2), (4, 4)),
        ((ROWS, ROWS), (0,), (4, 4)),
    ],
)
def test_engine_read_with_invalid_out_axes_raises(
    axes: Any, out_axes: Any, shape: tuple[int, ...]
) -> None:
    """Each axis of the buffer is an axis of the selection, or the joint axis."""
    with pytest.raises(TypeError):
        handle()._read(axes, out_axes, np.zeros(shape, "int32"))
    with pytest.raises(TypeError):
        handle()._write(axes, out_axes, np.zeros(shape, "int32"))


def test_engine_read_into_overlapping_buffer_raises() -> None:
    """Workers write to the buffer concurrently; only values may overlap."""
    array = handle()
    for strides in [(0, 4), (4, 4), (8, 4), (-4, 4)]:
        shared = as_strided(np.zeros(40, "int32")[20:], (4, 4), strides)
        with pytest.raises(ValueError, match="share memory"):
            array._read((ROWS, ROWS), (0, 1), shared)
        array._write((ROWS, ROWS), (0, 1), shared)
    for apart in [np.zeros((8, 8), "int32")[::-2, ::2], np.zeros((4, 4), "int32", order="F")]:
        array._read((ROWS, ROWS), (0, 1), apart)


def test_engine_read_only_handle_rejects_writes() -> None:
    """The binding checks it, too, without the layers above."""
    array, value = handle(read_only=True), np.zeros((4, 4), "int32")
    with pytest.raises(tessarr.errors.ReadOnlyError):
        array._write((ROWS, ROWS), (0, 1), value)
    with pytest.raises(tessarr.errors.ReadOnlyError):
        array._write_future((ROWS, ROWS), (0, 1), value, Future())


def test_future_keeps_description_across_resize() -> None:
    """A read keeps the description that its selection was checked against."""
    array = handle()
    small = describe(shape=(1,), grid=(1,))
    large = describe()
    stop = threading.Event()

    def flip() -> None:
        while not stop.is_set():
            array._replace_description(small)
            array._replace_description(large)

    thread = threading.Thread(target=flip)
    thread.start()
    try:
        for _ in range(300):
            future: Future[Any] = Future()
            buffer = np.ones((4, 4), "int32")
            with suppress(tessarr.errors.SelectionError):
                start_reads([array._prepare_read((ROWS, ROWS), (0, 1), buffer)], [future])
                assert future.result(10) is buffer
    finally:
        stop.set()
        thread.join()


class Owning(np.ndarray[Any, Any]):
    """An array that can keep other objects alive, like any subclass."""


@pytest.mark.parametrize("order", [[0, 1, 2], [0, 2, 1]])
def test_read_in_reference_cycle_is_collected(order: list[int]) -> None:
    """The dimensions of an index array may be separate, and the result arrives in a buffer."""
    points = OutputIndexMap(index_array=[[[0], [1]], [[2], [3]]])
    domain = IndexDomain(shape=[2, 2, 4])
    view = IndexTransform(domain=domain, output=[points, OutputIndexMap(input_dimension=2)])
    view = view.transpose(order)
    out = np.zeros(view.domain.shape, "int32").view(Owning)
    out.prepared = handle()._prepare_view_read(view._view, out.dtype, out)  # type: ignore[attr-defined]
    seen = weakref.ref(out)
    del out
    gc.collect()
    assert seen() is None


@pytest.mark.parametrize("key", [slice(0, None, 1 << 62), slice(None, None, -(1 << 62))])
def test_engine_step_of_single_index_is_ignored(key: slice) -> None:
    """The step of a single remaining index has no effect."""
    array = tessarr.create_array(None, shape=(5,), chunks=(2,), dtype="i4", fill_value=3)
    array[key] = 7
    assert array[key].tolist() == [7]


def test_engine_chunk_larger_than_memory_raises_memory_error() -> None:
    """The size of a chunk comes from the metadata; the process continues."""
    chain = {**CHAIN, "bytes_bytes": [{"name": "crc32c", "at_start": False}]}
    array = handle(grid=(1 << 29, 1 << 29), chain=chain)
    with pytest.raises(MemoryError, match=r"chunk \(0, 0\)"):
        array._write((ROWS, ROWS), (0, 1), np.ones((4, 4), "int32"))


class Refusing:
    """A codec that rejects every chunk as damaged."""

    codec_id = "refusing"

    def encode(self, buf: Any) -> bytes:
        return bytes(buf)

    def decode(self, buf: Any, limit: int) -> bytes:
        raise tessarr.errors.DataError("no", kind="checksum_mismatch")


def test_data_errors_have_kinds(tmp_path: Path) -> None:
    """Checksum and size errors differ from other damage, also in codecs in Python."""
    checked: Any = codecs.Crc32c()
    array = tessarr.create_array(
        tmp_path / "a", shape=(4,), chunks=(4,), dtype="i4", compressors=checked
    )
    array[:] = 1
    file = tmp_path / "a" / "c" / "0"
    whole = file.read_bytes()
    for stored, kind in [
        (b"\2" + whole[1:], "checksum_mismatch"),
        (whole[:3], "wrong_size"),
    ]:
        file.write_bytes(stored)
        with pytest.raises(tessarr.errors.DataError) as caught:
            array[:]
        assert (caught.value.kind, caught.value.key) == (kind, "c/0")
    codec = {"name": "refusing", "codec": Refusing()}
    foreign = handle(chain={**CHAIN, "bytes_bytes": [codec]})
    foreign._write((ROWS, ROWS), (0, 1), np.ones((4, 4), "int32"))
    with pytest.raises(tessarr.errors.DataError) as caught:
        foreign._read((ROWS, ROWS), (0, 1), np.ones((4, 4), "int32"))
    assert (caught.value.kind, caught.value.codec) == ("checksum_mismatch", "refusing")
    assert "refusing, codec 1 of 1: " in str(caught.value)


@pytest.mark.slow
def test_allocator_purge_delay_is_set() -> None:
    program = [sys.executable, "-c", "import tessarr._engine"]
    requested = {**os.environ, "MIMALLOC_VERBOSE": "1"}
    process = subprocess.run(program, env=requested, capture_output=True, check=True, text=True)
    # The engine passes the option by number, and numbers change between versions.
    assert "'purge_delay': 1000" in process.stdout + process.stderr
    requested["MIMALLOC_PURGE_DELAY"] = "7"
    process = subprocess.run(program, env=requested, capture_output=True, check=True, text=True)
    assert "'purge_delay': 7" in process.stdout + process.stderr
