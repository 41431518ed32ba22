"""Reads of several arrays that start together share one call of the engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ts
from calls import record_calls
from tessarr import _engine
from tessarr.errors import ArgumentError, TessarrError

VALUES = np.arange(6 * 40).reshape(6, 40).astype("i4")


@pytest.fixture
def group_sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the number of reads of each engine call."""
    result: list[int] = []
    real = _engine.start_reads

    def counted(reads: Any, futures: Any, **options: Any) -> Any:
        result.append(len(reads))
        return real(reads, futures, **options)

    monkeypatch.setattr(_engine, "start_reads", counted)
    return result


def rows(folder: Path) -> list[Any]:
    built = []
    for number, values in enumerate(VALUES):
        kvstore = {"driver": "file", "path": f"{folder}/{number}/"}
        spec = {"driver": "zarr3", "kvstore": kvstore}
        layout = ts.ChunkLayout(chunk_shape=[10])
        row = ts.open(spec, create=True, dtype="int32", shape=[40], chunk_layout=layout).result()
        row.write(values).result()
        built.append(row)
    return built


ROW, PLACE = ts.OutputIndexMap(input_dimension=0), ts.OutputIndexMap(input_dimension=2, offset=4)
TWICE = ts.IndexTransform(domain=ts.IndexDomain(shape=[6, 2, 3]), output=[ROW, PLACE])
BETWEEN = ts.OutputIndexMap(index_array=[[[0, 5]], [[2, 0]]])
ALSO = ts.OutputIndexMap(index_array=[[[39, 0]], [[7, 7]]])
SPARSE = ts.IndexTransform(domain=ts.IndexDomain(shape=[2, 3, 2]), output=[BETWEEN, ALSO])
PICKED = [0, 5, 2, 0], [39, 0, 7, 7]
SQUARE = [[0, 5], [2, 0]], [[39, 0], [7, 7]]
VIEWS: dict[str, Callable[[Any], Any]] = {
    "all": lambda a: a[:, :],
    "a column": lambda a: a[1:5, 3],
    "transposed": lambda a: a[1:, 5:9].T,
    "steps": lambda a: a[::2, ::-3],
    "new dimensions": lambda a: a[:, None, 5:7, None],
    "points": lambda a: a.vindex[PICKED],
    "points of two dimensions": lambda a: a.vindex[SQUARE],
    "points, transposed": lambda a: a.vindex[SQUARE].T,
    "rows": lambda a: a[[4, 1, 4]],
    "columns": lambda a: a[:, [30, 2, 30]],
    "an outer product": lambda a: a.oindex[[4, 1], [30, 2, 30]],
    "a diagonal": lambda a: a[ts.d[0, 1].diagonal],
    "twice": lambda a: a[TWICE],
    "points apart": lambda a: a[SPARSE],
    "points apart, backwards": lambda a: a[SPARSE][::-1, :, ::-1].transpose([1, 2, 0]),
}  # fmt: skip
OF_TYPES = {
    "int32": VALUES,
    "string": VALUES.astype("S").astype("O"),
    "ustring": VALUES.astype("U").astype("O"),
}


@pytest.mark.parametrize("dtype", OF_TYPES)
@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("order", ["C", "F"])
def test_batched_views_of_one_array_are_read(
    tmp_path: Path, name: str, order: Any, dtype: str
) -> None:
    """Elements go to the output directly or through a buffer; so do objects."""
    values = OF_TYPES[dtype]
    spec = {"driver": "zarr3", "kvstore": tmp_path.as_uri() + "/"}
    layout = ts.ChunkLayout(chunk_shape=[4, 10])
    array = ts.open(spec, create=True, dtype=dtype, shape=[6, 40], chunk_layout=layout).result()
    array.write(values).result()
    view, expected = VIEWS[name](array), VIEWS[name](ts.array(values, dtype=dtype)).read().result()
    result = view.read(order=order).result()
    np.testing.assert_array_equal(result, expected)
    assert result.flags.c_contiguous or order == "F"
    out = np.zeros((2, *expected.shape), expected.dtype)[1, ..., ::-1]
    with ts.Batch() as batch:
        built = view.read(batch=batch), view.read(batch=batch, out=out)
    assert built[1].result() is out
    np.testing.assert_array_equal(built[0].result(), expected)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("name", VIEWS)
def test_layers_of_text(name: str) -> None:
    """Objects from a buffer reach their positions among those of other layers."""
    values = OF_TYPES["ustring"][:3]
    layers: list[Any] = [ts.array(row, dtype="ustring") for row in values]
    for k in (0, 2):
        spec = {"driver": "zarr3", "kvstore": "memory://"}
        layers[k] = ts.open(spec, create=True, dtype="ustring", shape=[20, 2]).result()
        layers[k].write(values[k].reshape(20, 2)).result()
        layers[k] = layers[k].vindex[np.arange(40) // 2, np.arange(40) % 2]
    six = np.array([0, 2, 1, 1, 0, 2])
    view = VIEWS[name](ts.stack(layers)[six])
    expected = VIEWS[name](ts.array(values[six], dtype="ustring")).read().result()
    np.testing.assert_array_equal(view.read().result(), expected)
    np.testing.assert_array_equal(view.read(order="F").result(), expected)


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("order", ["C", "F"])
def test_layers_are_read_by_single_call(tmp_path: Path, name: str, order: Any) -> None:
    view = VIEWS[name](ts.stack(rows(tmp_path), axis=0))
    expected = VIEWS[name](ts.array(VALUES)).read().result()
    result: Any = None

    def read() -> None:
        nonlocal result
        result = view.read(order=order).result()

    calls = Counter(record_calls(read).native)
    np.testing.assert_array_equal(result, expected)
    assert result.flags.c_contiguous or order == "F"
    assert calls["VisibleLayers.read"] == 1, calls
    assert calls["View.to_selection"] == calls["apply_view"] == calls["put"] == 0, calls


def test_layers_of_all_kinds(tmp_path: Path) -> None:
    """Layers in memory, stored layers, and combinations of them."""
    item, two, *_ = rows(tmp_path)
    fields = {"metadata": {"dtype": [["x", "<i4"], ["y", "<f8"]]}, "field": "x"}
    spec = {"driver": "zarr", "kvstore": "memory://", **fields}
    other = ts.open(spec, create=True, shape=[40]).result()
    other.write(VALUES[4]).result()
    layers = [
        *(item, ts.array(VALUES[1]), two, item, other),
        *(ts.cast(ts.cast(two, "int64"), "int32"), item[10:20].translate_to[0], two[5]),
    ]
    layers[7] = layers[7][ts.IndexTransform(domain=ts.IndexDomain(shape=[40]), output=[])]
    layers[6] = ts.overlay([ts.array(VALUES[3]), layers[6]])
    expected = VALUES[[0, 1, 1, 0, 4, 1, 3, 1]]
    expected[6, :10], expected[7] = VALUES[0, 10:20], VALUES[1, 5]
    stack = ts.stack(layers, axis=1)
    np.testing.assert_array_equal(stack.read().result(), expected.T)
    out = np.zeros((80, 8), "i4")
    stack.read(out=out[::-2]).result()
    np.testing.assert_array_equal(out[::-2], expected.T)
    assert not out[::2].any()
    places = np.array([3, 3, 0, 39, 11]), np.array([6, 4, 7, 0, 6])
    np.testing.assert_array_equal(stack.vindex[places].read().result(), expected.T[places])


@pytest.mark.parametrize("dtype", ["string", "bool", "float8_e5m2", "int4", "complex64"])
def test_layers_of_all_types(tmp_path: Path, dtype: str) -> None:
    built = []
    for k in range(3):
        spec = {"driver": "zarr3", "kvstore": (tmp_path / str(k)).as_uri() + "/"}
        item = ts.open(spec, create=True, dtype=dtype, shape=[2]).result()
        values = (
            [b"ab", b""] if dtype == "string" else np.array([k, 1]).astype(item.dtype.numpy_dtype)
        )
        item.write(values).result()
        built.append(item)
    expected = np.stack([item.read().result() for item in built])
    stack = ts.stack(built, axis=0)
    np.testing.assert_array_equal(stack.read().result(), expected)
    np.testing.assert_array_equal(
        stack.vindex[[2, 0], [0, 1]].read().result(), expected[[2, 0], [0, 1]]
    )


def test_layers_changed_by_other_writers(tmp_path: Path) -> None:
    """A shortened layer has no elements beyond its new end."""
    layers = rows(tmp_path)
    stack = ts.stack(layers, axis=0)
    layers[2].resize(exclusive_max=[20]).result()
    with pytest.raises(ArgumentError):
        stack.read().result()
    np.testing.assert_array_equal(stack[:, :20].read().result(), VALUES[:, :20])
    layers[2].resize(exclusive_max=[60]).result()
    result = stack.read().result()
    np.testing.assert_array_equal(result[2, 20:], 0)
    np.testing.assert_array_equal(np.delete(result, 2, 0), np.delete(VALUES, 2, 0))


def test_layers_into_unsuitable_output_are_refused(tmp_path: Path) -> None:
    stack = ts.stack(rows(tmp_path), axis=0)
    fixed = np.zeros_like(VALUES)
    fixed.flags.writeable = False
    shared = np.lib.stride_tricks.as_strided(np.zeros(40, "i4"), (6, 40), (0, 4))
    for out in (fixed, shared):
        with pytest.raises(ValueError, match="to read into"):
            stack.read(out=out).result()


def test_layers_of_layers_too(tmp_path: Path, group_sizes: list[int]) -> None:
    layers = rows(tmp_path)
    halves = [ts.stack(layers[:3], axis=0), ts.stack(layers[3:], axis=0)]
    cast = ts.cast(ts.concat(halves, axis=0), "float64")
    np.testing.assert_array_equal(cast.read().result(), VALUES.astype("f8"))
    assert group_sizes == [6]


def test_layers_in_batch_start_at_submit(tmp_path: Path) -> None:
    layers = rows(tmp_path)
    with ts.Batch() as batch:
        stack = ts.stack(layers, axis=0)
        later = stack.read(batch=batch)
        early = stack[1:, 3].read(batch=batch)
        np.testing.assert_array_equal(early.result(), VALUES[1:, 3])  # requested before
        layers[0][...] = 7
    np.testing.assert_array_equal(later.result(), [np.full(40, 7), *VALUES[1:]])


def test_failed_read_fails_its_future(tmp_path: Path) -> None:
    """The other reads succeed."""
    layers = rows(tmp_path)
    for chunk in (tmp_path / "2" / "c").iterdir():
        chunk.write_bytes(b"damaged")
    out = np.zeros_like(VALUES)
    with pytest.raises(TessarrError, match="metadata says 40"):
        ts.stack(layers, axis=0).read(out=out).result()
    np.testing.assert_array_equal(np.delete(out, 2, 0), np.delete(VALUES, 2, 0))
