"""Numbers of stored chunks: many keys are decoded together."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessarr
from tessarr.format.chunk_key_encoding import ChunkKeyEncoding, DefaultKeys, V2Keys

PARTS = st.sampled_from(["c", "0", "1", "17", "01", "-1", "", "9" * 19, "9" * 20, "²", "zarr.json"])
KEYS = st.lists(PARTS, min_size=1, max_size=4)


@given(
    st.sampled_from([DefaultKeys("/"), DefaultKeys("."), V2Keys("/"), V2Keys(".")]),
    st.lists(st.tuples(st.sampled_from(["/", ".", "\0", "\n"]), KEYS), max_size=5),
    st.sampled_from(["", "a/", "a.b/c[/"]),
    st.integers(1, 3),
)
def test_columns_equal_decoded_keys(
    encoding: ChunkKeyEncoding, names: list[tuple[str, list[str]]], prefix: str, rank: int
) -> None:
    """Text that is no chunk key is ignored, also beside chunk keys."""
    keys = [prefix + separator.join(parts) for separator, parts in names]
    decoded = [encoding.decode(key[len(prefix) :], rank) for key in keys]
    columns = encoding.decode_columns(keys, prefix, rank)
    assert len(columns) == rank
    cells = [tuple(map(int, cell)) for cell in zip(*columns, strict=True)]
    assert cells == [cell for cell in decoded if cell is not None]


@pytest.mark.parametrize(
    ("shape", "settings"),
    [
        ((7,), {"chunks": 2}),
        ((7, 5), {"chunks": (2, 2)}),
        ((7, 5), {"chunks": (2, 2), "zarr_format": 2}),
        ((7, 5), {"chunks": (2, 1), "shards": (4, 3)}),
        ((7, 5), {"chunks": ((3, 4), 2)}),
        ((), {}),
        ((0, 3), {"chunks": 1}),
    ],
)
def test_all_chunks_are_counted(shape: tuple[int, ...], settings: dict[str, Any]) -> None:
    array = tessarr.create_array(None, shape=shape, dtype="u1", **settings)
    assert array.nchunks_initialized == 0
    array[...] = 1
    assert array.nchunks_initialized == array.nchunks


def test_chunks_outside_of_array_are_not_counted() -> None:
    store = tessarr.stores.MemoryStore()
    array = tessarr.create_array(store, shape=(4, 4), chunks=(2, 2), dtype="u1")
    array[...] = 1
    for name in ("c/2/0", "c/0/2", f"c/0/{'9' * 19}", "c/0", "c/0/0/0", "x"):
        store[name] = b"1"
    assert array.nchunks_initialized == 4


def test_many_keys_are_not_decoded_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    array = tessarr.create_array(None, shape=(20, 20), chunks=1, dtype="u1")
    array[...] = 1
    decoded: list[str] = []
    decode = DefaultKeys.decode

    def note(self: DefaultKeys, key: str, rank: int) -> tuple[int, ...] | None:
        decoded.append(key)
        return decode(self, key, rank)

    monkeypatch.setattr(DefaultKeys, "decode", note)
    assert array.nchunks_initialized == 400
    assert not decoded
