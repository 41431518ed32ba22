"""Format 3: shards, read from and written to byte by byte."""

from __future__ import annotations

import gzip as gz
import json
import struct
from itertools import product

import numpy as np
import pytest

import tessarr
from conformance.sample_stores import (
    BIG,
    CRC,
    LITTLE,
    blosc,
    chunk_keys,
    crc32c,
    expect_read_error,
    gzip,
    has_same_bits,
    open_v3,
    problems_v3,
    regular,
    sharding,
    store_v3,
    transpose,
    zstd,
)
from tessarr.store.wrappers.instrumented import CountingStore

ABSENT = 2**64 - 1
GRID = {"shape": [8], "chunk_grid": regular(8)}
"""One shard of four subchunks of two elements."""


def shard(index, payload=b"", *, location="end", order="<", checksum=True):
    """Return a shard: `index` lists the stored offset and size of each subchunk."""
    stored = struct.pack(
        f"{order}{2 * len(index)}Q", *(number for pair in index for number in pair)
    )
    if checksum:
        stored += crc32c(stored)
    return stored + payload if location == "start" else payload + stored


def read_index(stored, count, *, location="end"):
    size = 16 * count + 4
    part = stored[:size] if location == "start" else stored[-size:]
    assert part[-4:] == crc32c(part[:-4])
    return np.frombuffer(part[:-4], "<u8").reshape(count, 2)


def opened(stored=None, *, codec=None, **changes):
    chunks = {} if stored is None else {"c/0": stored}
    return open_v3(chunks, **(GRID | {"codecs": [codec or sharding(2)]} | changes))


def pair(*numbers):
    return np.array(numbers, "<i4").tobytes()


# The configuration


@pytest.mark.covers("V3-SHARD-01")
@pytest.mark.parametrize("name", ["chunk_shape", "codecs", "index_codecs"])
def test_every_member_is_required(name):
    codec = sharding(2)
    del codec["configuration"][name]
    assert problems_v3(**GRID, codecs=[codec]) == {"/codecs/0/configuration": "missing_member"}


@pytest.mark.covers("V3-SHARD-01")
@pytest.mark.parametrize("name", ["codecs", "index_codecs"])
@pytest.mark.parametrize("value", [[], {}, None, "bytes"])
def test_both_chains_have_codec(name, value):
    codec = sharding(2)
    codec["configuration"][name] = value
    assert list(problems_v3(**GRID, codecs=[codec])) == [f"/codecs/0/configuration/{name}"]


@pytest.mark.covers("V3-SHARD-01")
def test_location_of_index_may_be_left_out():
    assert opened().serializer is not None
    assert opened().codecs[0].index_location == "end"


@pytest.mark.covers("V3-SHARD-02")
@pytest.mark.parametrize(
    ("lengths", "loc"),
    [([3], "/0"), ([16], "/0"), ([0], "/0"), ([-2], "/0"), ([2, 2], ""), ([], ""), (["2"], "/0")],
)
def test_subchunks_divide_shard(lengths, loc):
    problems = problems_v3(**GRID, codecs=[sharding(*lengths)])
    assert list(problems) == ["/codecs/0/configuration/chunk_shape" + loc]


@pytest.mark.covers("V3-SHARD-02")
def test_nested_subchunks_divide_theirs():
    problems = problems_v3(**GRID, codecs=[sharding(4, codecs=[sharding(3)])])
    assert list(problems) == ["/codecs/0/configuration/codecs/0/configuration/chunk_shape/0"]


@pytest.mark.covers("V3-SHARD-03")
@pytest.mark.parametrize(
    ("index", "loc"),
    [
        ([LITTLE, gzip()], ""),
        ([LITTLE, zstd(level=1)], ""),
        ([LITTLE, blosc()], ""),
        ([CRC], ""),
        ([LITTLE, LITTLE], "/1"),
        ([CRC, LITTLE], "/0"),
        ([{"name": "bytes"}, CRC], "/0"),
        ([transpose(1, 0, 2), LITTLE], "/0/configuration/order"),
        ([LITTLE, "nope"], "/1"),
    ],
)
def test_index_has_fixed_size(index, loc):
    codec = sharding(2, index=index)
    store = store_v3(**GRID, codecs=[codec])
    with pytest.raises((tessarr.errors.MetadataError, tessarr.errors.UnsupportedError)) as caught:
        tessarr.open_array(store, mode="r")
    assert f"/codecs/0/configuration/index_codecs{loc}: " in str(caught.value)


@pytest.mark.covers("V3-SHARD-03")
def test_codecs_of_subchunks_are_chain():
    problems = problems_v3(**GRID, codecs=[sharding(2, codecs=[CRC, LITTLE])])
    assert list(problems) == ["/codecs/0/configuration/codecs/0"]


@pytest.mark.covers("V3-SHARD-04")
@pytest.mark.parametrize("location", ["start", "end"])
@pytest.mark.parametrize(("codec", "order"), [(LITTLE, "<"), (BIG, ">")])
@pytest.mark.parametrize("checksum", [True, False])
def test_forms_of_index(location, codec, order, checksum):
    base = (64 + 4 * checksum) if location == "start" else 0
    index = [(base + 8, 8), (ABSENT, ABSENT), (base, 8), (ABSENT, ABSENT)]
    stored = shard(
        index, pair(5, 6) + pair(1, 2), location=location, order=order, checksum=checksum
    )
    chain = [codec, CRC] if checksum else [codec]
    array = opened(stored, codec=sharding(2, index=chain, index_location=location))
    assert array[...].tolist() == [1, 2, 0, 0, 5, 6, 0, 0]
    array[2] = 9
    assert array[...].tolist() == [1, 2, 9, 0, 5, 6, 0, 0]


@pytest.mark.covers("V3-SHARD-04")
def test_index_may_be_transposed():
    index = np.array([(0, 8), (8, 8), (ABSENT,) * 2, (16, 8)], "<u8")
    stored = pair(1, 2) + pair(3, 4) + pair(7, 8) + index.T.tobytes()
    array = opened(stored, codec=sharding(2, index=[transpose(1, 0), LITTLE]))
    assert array[...].tolist() == [1, 2, 3, 4, 0, 0, 7, 8]


@pytest.mark.covers("V3-SHARD-04", "V3-SHARD-05")
def test_sharding_defaults_are_written():
    array = tessarr.create_array(None, shape=(8,), chunks=(2,), shards=(8,), dtype="i4")
    configuration = json.loads(array.store.get("zarr.json"))["codecs"][0]["configuration"]
    assert configuration["index_codecs"] == [LITTLE, CRC]
    assert configuration["index_location"] == "end"


@pytest.mark.covers("V3-SHARD-05")
@pytest.mark.parametrize("value", ["middle", "Start", "", None, 1, True])
def test_index_is_at_start_or_end(value):
    problems = problems_v3(**GRID, codecs=[sharding(2, index_location=value)])
    assert list(problems) == ["/codecs/0/configuration/index_location"]


@pytest.mark.covers("V3-SHARD-05", "V3-SHARD-06", "V3-SHARD-07")
@pytest.mark.parametrize("location", ["start", "end"])
def test_written_index_has_subchunk_ranges(location):
    array = opened(codec=sharding(2, index_location=location))
    array[2:6] = [3, 4, 5, 6]
    stored = array.store.get("c/0")
    index = read_index(stored, 4, location=location)
    assert index[0].tolist() == index[3].tolist() == [ABSENT, ABSENT]
    for position, expected in ((1, pair(3, 4)), (2, pair(5, 6))):
        offset, size = index[position].tolist()
        assert stored[offset : offset + size] == expected


# The index


@pytest.mark.covers("V3-SHARD-06")
def test_index_is_whole_and_in_c_order_also_past_edge():
    array = open_v3(
        shape=[3, 3], chunk_grid=regular(4, 6), codecs=[sharding(2, 2, codecs=[LITTLE])]
    )
    array[...] = np.arange(1, 10).reshape(3, 3)
    stored = array.store.get("c/0/0")
    index = read_index(stored, 6).reshape(2, 3, 2)
    assert (index[:, 2] == ABSENT).all()
    for i, j in product(range(2), range(2)):
        offset, size = index[i, j].tolist()
        block = np.frombuffer(stored[offset : offset + size], "<i4").reshape(2, 2)
        assert block[0, 0] == 1 + 6 * i + 2 * j


@pytest.mark.covers("V3-SHARD-08")
@pytest.mark.parametrize("entry", [(ABSENT, 8), (0, ABSENT), (ABSENT, 0)])
def test_index_entry_with_one_missing_number_raises(entry):
    array = opened(shard([entry, (0, 8), (ABSENT, ABSENT), (0, 8)], pair(1, 2)))
    assert array[2:].tolist() == [1, 2, 0, 0, 1, 2]
    with expect_read_error(key="c/0"):
        array[0]


@pytest.mark.covers("V3-SHARD-09")
def test_subchunks_lie_anywhere():
    junk = b"junk" * 3
    payload = junk + pair(1, 2) + b"?" + pair(3, 4) + junk
    index = [(21, 8), (12, 8), (21, 8), (16, 8)]
    array = opened(shard(index, payload))
    last = np.frombuffer(payload[16:24], "<i4").tolist()
    assert array[...].tolist() == [3, 4, 1, 2, 3, 4, *last]
    array[0] = 9
    assert array[...].tolist() == [9, 4, 1, 2, 3, 4, *last]


@pytest.mark.covers("V3-SHARD-10")
@pytest.mark.parametrize("size", [0, 1, 67])
def test_shard_is_at_least_as_long_as_its_index(size):
    with expect_read_error(key="c/0"):
        opened(bytes(size))[0]


@pytest.mark.covers("V3-SHARD-10")
@pytest.mark.parametrize("location", ["start", "end"])
def test_checksum_of_index_is_verified(location):
    stored = bytearray(shard([(0, 8)] * 4, pair(1, 2), location=location))
    stored[3 if location == "start" else -1] ^= 1
    with expect_read_error("checksum_mismatch", "c/0"):
        opened(bytes(stored), codec=sharding(2, index_location=location))[0]


@pytest.mark.covers("V3-SHARD-10")
@pytest.mark.parametrize(
    "entry",
    [(72, 8), (76, 1), (0, 77), (ABSENT - 1, 8), (8, ABSENT - 1), (2**63, 8), (0, 7), (0, 9)],
)
def test_index_out_of_range_raises(entry):
    array = opened(shard([(0, 8), entry, (0, 8), (0, 8)], pair(1, 2)))
    assert array[:2].tolist() == [1, 2]
    with expect_read_error(key="c/0"):
        array[...]


@pytest.mark.covers("V3-SHARD-10")
def test_damage_within_subchunk_is_error():
    good = gz.compress(pair(1, 2))
    bad = good[:-8] + bytes(8)
    index = [(0, len(good)), (len(good), len(bad)), (ABSENT,) * 2, (ABSENT,) * 2]
    array = opened(shard(index, good + bad), codec=sharding(2, codecs=[LITTLE, gzip()]))
    assert array[:2].tolist() == [1, 2]
    with expect_read_error(key="c/0"):
        array[3]


@pytest.mark.covers("V3-SHARD-08", "V3-SHARD-11")
def test_absent_shard_and_empty_shard_read_as_fill():
    for stored in (None, shard([(ABSENT, ABSENT)] * 4)):
        array = opened(stored, fill_value=7)
        assert array[...].tolist() == [7] * 8


@pytest.mark.covers("V3-SHARD-11")
def test_shard_of_fill_is_deleted():
    array = opened(fill_value=7)
    array[3] = 1
    assert chunk_keys(array) == {"c/0"}
    array[3] = 7
    assert chunk_keys(array) == set()
    assert array[...].tolist() == [7] * 8


# Around shards


@pytest.mark.covers("V3-SHARD-12")
def test_shard_holds_output_of_previous_codecs():
    settings = {"shape": [4, 6], "chunk_grid": regular(4, 6)}
    array = open_v3(**settings, codecs=[transpose(1, 0), sharding(3, 2)])
    values = np.arange(24, dtype="i4").reshape(4, 6)
    array[...] = values
    stored = array.store.get("c/0/0")
    offset, size = read_index(stored, 4)[1].tolist()
    assert stored[offset : offset + size] == values.T[:3, 2:].astype("<i4").tobytes()
    has_same_bits(array[...], values)
    problems = problems_v3(**settings, codecs=[transpose(1, 0), sharding(4, 3)])
    assert list(problems) == ["/codecs/1/configuration/chunk_shape/0"]


@pytest.mark.covers("V3-SHARD-13")
@pytest.mark.parametrize(
    "chain",
    [
        [sharding(4, 4, codecs=[sharding(2, 1)])],
        [transpose(1, 0), sharding(4, 2)],
        [sharding(4, 2, codecs=[transpose(1, 0), LITTLE])],
        [sharding(4, 2), CRC],
        [sharding(4, 2), gzip()],
        [transpose(1, 0), sharding(4, 4, codecs=[transpose(1, 0), sharding(2, 4)]), zstd(level=1)],
        [sharding(4, 4, codecs=[sharding(2, 2, index_location="start"), CRC])],
    ],
    ids=range(7),
)
def test_shards_nest_with_codecs_before_inside_and_after(chain):
    array = open_v3(shape=[10, 9], chunk_grid=regular(8, 8), codecs=chain)
    values = np.arange(90, dtype="i4").reshape(10, 9)
    array[...] = values
    array[3:9, 2:8] = -values[3:9, 2:8]
    values[3:9, 2:8] *= -1
    has_same_bits(tessarr.open_array(array.store, mode="r")[...], values)
    has_same_bits(array[9, ::-2], values[9, ::-2])


@pytest.mark.covers("V3-SHARD-14")
def test_partial_writes_keep_other_subchunks():
    untouched = gz.compress(pair(1, 2), mtime=1)  # differs from the engine's own output
    index = [(0, len(untouched)), *[(ABSENT, ABSENT)] * 3]
    array = opened(shard(index, untouched), codec=sharding(2, codecs=[LITTLE, gzip()]))
    array[5] = 6
    stored = array.store.get("c/0")
    offset, size = read_index(stored, 4)[0].tolist()
    assert stored[offset : offset + size] == untouched
    assert array[...].tolist() == [1, 2, 0, 0, 0, 6, 0, 0]
    assert "strategy" not in array.store.get("zarr.json").decode()


@pytest.mark.covers("V3-SHARD-15", "V3-STORE-02")
def test_partial_reads_fetch_index_and_needed_subchunks(tmp_path):
    size = 1 << 16
    array = tessarr.create_array(
        tmp_path,
        shape=(64 * size,),
        chunks=(size,),
        shards=(64 * size,),
        dtype="u1",
        compressors=[],
    )
    array[...] = np.arange(64 * size) % 256
    counting = CountingStore(array.store)
    again = tessarr.open_array(counting, mode="r")
    before = counting.counts()
    assert again[5 * size + 3] == 3
    after = counting.counts()
    read = {name: after[name] - before.get(name, 0) for name in after}
    assert 0 < read["read_bytes"] < 3 * size, read


@pytest.mark.covers("V3-SHARD-16", "ALL-11")
@pytest.mark.parametrize(
    ("fill", "other"),
    [
        (0.0, "0x80000000"),
        ("0x80000000", "0x00000000"),
        ("NaN", "0x7fc00001"),
        ("0x7fc00001", "0x7fc00000"),
    ],
)
@pytest.mark.parametrize("shards", [True, False])
def test_only_bitwise_fill_subchunks_are_omitted(fill, other, shards):
    codec = sharding(2) if shards else LITTLE
    array = opened(codec=codec, data_type="float32", fill_value=fill)
    bits = np.array([int(other, 16)], "u4").view("f4")
    array[2:4] = bits[0]
    assert chunk_keys(array) == {"c/0"}
    result = tessarr.open_array(array.store, mode="r")[2:4]
    assert result.tobytes() == bits.tobytes() * 2
    array[2:4] = array.fill_value
    assert chunk_keys(array) == set()


@pytest.mark.covers("V3-SHARD-17")
def test_subchunks_beyond_edge_are_optional():
    index = [(0, 8), (8, 8), (16, 8), (24, 8)]
    payload = pair(1, 2) + pair(3, 4) + pair(5, 6) + pair(7, 8)
    array = opened(shard(index, payload), shape=[3])
    assert array[...].tolist() == [1, 2, 3]
    array = opened(shape=[3])
    array[...] = [1, 2, 3]
    index = read_index(array.store.get("c/0"), 4)
    assert (index[2:] == ABSENT).all()
