"""A read that does not fit into memory raises one clear error."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import tessarr
import tessarr.tensorstore as ts
from tessarr.errors import ArgumentError, OutOfMemoryError

ROWS = 2**40
VALUE = {"driver": "array", "array": 1, "dtype": "int8"}


def _stored(shape: list[int], data_type: str = "uint8") -> ts.TensorStore:
    spec = {"driver": "zarr3", "kvstore": "memory://", "dtype": data_type}
    layout = ts.ChunkLayout(chunk_shape=[64] * len(shape))
    return ts.open(spec, create=True, shape=shape, chunk_layout=layout).result()


def _repeated(shape: list[int], **members: Any) -> ts.TensorStore:
    view = {"input_inclusive_min": [0] * len(shape), "input_exclusive_max": shape, "output": []}
    return ts.open({**VALUE, **members, "transform": view}).result()


def _endless() -> ts.TensorStore:
    return ts.open({**VALUE, "transform": {"input_rank": 1, "output": []}}).result()


def _virtual(shape: list[int]) -> ts.TensorStore:
    layout = ts.ChunkLayout(read_chunk_shape=[64] * len(shape))
    return ts.virtual_chunked(lambda *_: None, dtype=ts.uint8, shape=shape, chunk_layout=layout)


LARGE = {
    "stored": lambda: _stored([ROWS, ROWS >> 20]),
    "stored, of more bytes than can be counted": lambda: _stored([2**60], "float64"),
    "a view": lambda: _stored([ROWS, ROWS >> 20]).T[5:, ::2],
    "in memory": lambda: _repeated([ROWS]),
    "in memory, with more elements than can be counted": lambda: _repeated([ROWS, ROWS]),
    "objects": lambda: _repeated([ROWS], dtype="json"),
    "cast": lambda: ts.cast(_repeated([ROWS]), "float64"),
    "downsample": lambda: ts.downsample(_stored([ROWS, ROWS >> 20]), [1, 2], "mean"),
    "overlay": lambda: ts.overlay([_stored([2**60]), _stored([2**60])]),
    "stack": lambda: ts.stack([_repeated([ROWS, ROWS]), _repeated([ROWS, ROWS])]),
    "virtual_chunked": lambda: _virtual([ROWS, ROWS]),
}


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("name", LARGE)
def test_allocation_failure_raises_out_of_memory(name: str, order: Any) -> None:
    reading = LARGE[name]().read(order=order)
    with pytest.raises(
        OutOfMemoryError, match="there is no memory for an array of shape"
    ) as result:
        reading.result()
    assert isinstance(result.value, MemoryError)
    assert isinstance(result.value, ValueError)
    assert result.value.kind == "out_of_memory"
    assert str(pickle.loads(pickle.dumps(result.value))) == str(result.value)


def test_allocation_error_states_size() -> None:
    with pytest.raises(
        OutOfMemoryError,
        match=r"\(1099511627776,\) and data type int8, which takes "
        r"1099511627776 bytes: read or write a part of it",
    ):
        _repeated([ROWS])[:].read().result()


def test_infinite_domain_is_not_memory_error() -> None:
    endless = _endless()
    for order in ("C", "F"):
        with pytest.raises(ArgumentError, match="not finite"):
            endless.read(order=order).result()  # type: ignore[arg-type]
    document = ts.open({"driver": "json", "kvstore": "memory://a"}, context=ts.Context()).result()
    document.write({"a": 1}).result()
    with pytest.raises(ArgumentError, match="not finite"):
        document[ts.IndexTransform(1, output=[])].read().result()
    with pytest.raises(ArgumentError, match="not finite"):
        ts.overlay([endless]).read().result()


def test_parts_of_infinite_domain_are_read() -> None:
    assert _stored([ROWS, ROWS >> 20])[5, :3].read().result().tolist() == [0, 0, 0]


@pytest.mark.parametrize("key", [slice(None), slice(None, None, 2), (slice(1, None), None)])
def test_allocation_error_of_other_drivers(key: Any) -> None:
    array = tessarr.create_array({}, shape=(ROWS << 10,), chunks=(64,), dtype="u1")
    with pytest.raises(OutOfMemoryError):
        array[key]
    with pytest.raises(OutOfMemoryError):
        array.lazy[key].read().result()
