"""Format 3: chains of codecs, and the codecs of the core."""

from __future__ import annotations

import gzip as gz
import json
import struct
import zlib

import numpy as np
import pytest

import tessarr
from conformance.sample_stores import (
    BIG,
    CRC,
    LITTLE,
    blosc,
    crc32c,
    expect_defect,
    expect_read_error,
    expect_unsupported,
    gzip,
    has_same_bits,
    open_v3,
    problems_v3,
    regular,
    rewrite_document,
    sharding,
    transpose,
    zstd,
)
from tessarr import codecs
from tessarr.errors import DataError

CHUNK = np.arange(1, 7, dtype="<i4").reshape(3, 2)


# Chains


@pytest.mark.covers("V3-PIPE-01")
@pytest.mark.parametrize("value", [{}, None, "bytes", 1])
def test_codecs_are_list(value):
    assert problems_v3(codecs=value) == {"/codecs": "wrong_type"}


@pytest.mark.covers("V3-PIPE-01", "V3-PIPE-02")
@pytest.mark.parametrize("chain", [[], [gzip()], [transpose(1, 0)]])
def test_absent_serializer_means_draft_default(chain):
    with expect_defect("no codec from arrays to bytes, taken for 'bytes'"):
        array = open_v3(codecs=chain, data_type="uint8")
    assert [codec.name for codec in array.codecs].count("bytes") == 1


@pytest.mark.covers("V3-PIPE-02")
@pytest.mark.parametrize(
    ("chain", "loc"),
    [
        ([LITTLE, LITTLE], "/codecs/1"),
        ([gzip(), LITTLE], "/codecs/0"),
        ([LITTLE, transpose(1, 0)], "/codecs/1"),
        ([LITTLE, gzip(), transpose(1, 0)], "/codecs/2"),
        ([transpose(1, 0), CRC, LITTLE], "/codecs/1"),
        ([sharding(3, 2), LITTLE], "/codecs/1"),
    ],
)
def test_order_of_codecs(chain, loc):
    assert problems_v3(codecs=chain) == {loc: "mismatch"}


@pytest.mark.covers("V3-PIPE-03")
def test_each_codec_gets_output_of_previous_codec():
    array = open_v3(codecs=[transpose(1, 0), BIG, gzip(), CRC])
    array[:3, :2] = CHUNK
    stored = array.store.get("c/0/0")
    raw = gz.decompress(stored[:-4])
    assert raw == CHUNK.T.astype(">i4").tobytes()
    assert stored[-4:] == crc32c(stored[:-4])


@pytest.mark.covers("V3-PIPE-04")
def test_first_codec_gets_whole_chunks_at_edge():
    array = open_v3(shape=[4, 3], fill_value=9, codecs=[transpose(1, 0), LITTLE])
    array[...] = 1
    stored = np.frombuffer(array.store.get("c/1/1"), "<i4").reshape(2, 3)
    assert stored.tolist() == [[1, 9, 9], [9, 9, 9]]


@pytest.mark.covers("V3-PIPE-05")
@pytest.mark.parametrize(
    ("chain", "loc"),
    [
        ([transpose(0, 1, 2), LITTLE], "/codecs/0/configuration/order"),
        ([transpose(0), LITTLE], "/codecs/0/configuration/order"),
        ([transpose(1, 0), sharding(3, 1)], "/codecs/1/configuration/chunk_shape/0"),
        (
            [sharding(3, 2, codecs=[transpose(0), LITTLE])],
            "/codecs/0/configuration/codecs/0/configuration/order",
        ),
    ],
)
def test_codec_input_must_fit_codec(chain, loc):
    assert problems_v3(codecs=chain) == {loc: "mismatch"}


@pytest.mark.covers("V3-PIPE-06")
@pytest.mark.parametrize(
    "chain",
    [[LITTLE, "nope"], ["nope"], ["nope", LITTLE], [sharding(3, 2, codecs=[LITTLE, "nope"])]],
)
def test_unknown_codecs_are_refused(chain):
    with expect_unsupported("nope"):
        open_v3(codecs=chain)


@pytest.mark.covers("V3-PIPE-07")
@pytest.mark.parametrize(
    "chain",
    [
        [LITTLE],
        [transpose(1, 0), LITTLE],
        [LITTLE, gzip(9)],
        [LITTLE, blosc()],
        [LITTLE, zstd(level=3)],
        [LITTLE, CRC],
        [sharding(1, 2)],
    ],
    ids=lambda chain: "-".join(codec["name"] for codec in chain),
)
def test_codecs_of_core(chain):
    array = open_v3(codecs=chain)
    values = np.arange(24, dtype="i4").reshape(6, 4)
    array[...] = values
    has_same_bits(tessarr.open_array(array.store, mode="r")[...], values)


@pytest.mark.covers("V3-PIPE-08", "V3-CRC-02")
@pytest.mark.parametrize(
    "chain",
    [
        [LITTLE, CRC, CRC],
        [LITTLE, CRC, gzip(), CRC],
        [LITTLE, gzip(), gzip(9)],
        [transpose(1, 0), transpose(1, 0), LITTLE, zstd(level=1), zstd(level=2)],
    ],
)
def test_codec_may_occur_more_than_once(chain):
    array = open_v3(codecs=chain)
    values = np.arange(24, dtype="i4").reshape(6, 4)
    array[...] = values
    has_same_bits(array[...], values)
    assert rewrite_document(array)["codecs"] == chain


# bytes


@pytest.mark.covers("V3-BYTES-01")
@pytest.mark.parametrize("data_type", ["bool", "int8", "uint8", "r8", "r24"])
@pytest.mark.parametrize("codec", [{"name": "bytes"}, LITTLE, BIG])
def test_types_of_one_byte_need_no_endian(data_type, codec):
    fill = {"bool": False, "r8": [0], "r24": [0, 0, 0]}.get(data_type, 0)
    array = open_v3(data_type=data_type, fill_value=fill, codecs=[codec])
    data = bytes([0, 1] * 3) * array.dtype.itemsize
    array.store.put("c/0/0", data)
    assert array[:3, :2].tobytes() == data


@pytest.mark.covers("V3-BYTES-01")
@pytest.mark.parametrize("data_type", ["int16", "uint64", "float32", "complex64"])
def test_absent_endian_is_little(data_type):
    fill = [0, 0] if data_type.startswith("complex") else 0
    with expect_defect(f"no endian for {data_type}, taken for little"):
        array = open_v3(data_type=data_type, fill_value=fill, codecs=[{"name": "bytes"}])
    chunk = np.arange(6).astype(array.dtype.newbyteorder("<"))
    array.store.put("c/0/0", chunk.tobytes())
    assert array[:3, :2].ravel().tolist() == list(range(6))


@pytest.mark.covers("V3-BYTES-01")
def test_endian_is_written():
    array = tessarr.create_array(None, shape=(2,), dtype="i2", compressors=[])
    assert json.loads(array.store.get("zarr.json"))["codecs"] == [LITTLE]
    array = tessarr.create_array(None, shape=(2,), dtype="u1", compressors=[])
    assert json.loads(array.store.get("zarr.json"))["codecs"] == [{"name": "bytes"}]


@pytest.mark.covers("V3-BYTES-02")
@pytest.mark.parametrize("value", ["Little", "native", "<", "", None, 1, True])
def test_endian_is_little_or_big(value):
    codec = {"name": "bytes", "configuration": {"endian": value}}
    assert list(problems_v3(codecs=[codec])) == ["/codecs/0/configuration/endian"]


@pytest.mark.covers("V3-BYTES-03")
@pytest.mark.parametrize(
    "data_type", ["bool", "int16", "uint32", "int64", "float16", "float64", "complex64"]
)
@pytest.mark.parametrize(("codec", "order"), [(LITTLE, "<"), (BIG, ">")])
def test_elements_are_in_c_order_and_swapped_part_by_part(data_type, codec, order):
    fill = {"bool": False, "complex64": [0, 0]}.get(data_type, 0)
    array = open_v3(data_type=data_type, fill_value=fill, codecs=[codec])
    values = (np.arange(1, 7) * (1 + 2j if data_type == "complex64" else 1)).astype(data_type)
    array[:3, :2] = values.reshape(3, 2)
    assert array.store.get("c/0/0") == values.astype(values.dtype.newbyteorder(order)).tobytes()
    has_same_bits(array[:3, :2], values.reshape(3, 2))


@pytest.mark.covers("V3-BYTES-04")
@pytest.mark.parametrize("byte", [2, 255])
@pytest.mark.parametrize("chain", [[{"name": "bytes"}], [{"name": "bytes"}, gzip()]])
def test_boolean_byte_above_1_raises(byte, chain):
    data = bytes([0, 1, byte, 0, 1, 0])
    stored = gz.compress(data) if len(chain) == 2 else data
    array = open_v3({"c/0/0": stored}, data_type="bool", fill_value=False, codecs=chain)
    with expect_read_error(key="c/0/0"):
        array[:3, :2]


@pytest.mark.covers("V3-BYTES-05")
def test_draft_name_of_bytes():
    with expect_defect("the codec 'bytes' is called 'endian'"):
        array = open_v3(codecs=[{"name": "endian", "configuration": {"endian": "big"}}])
    assert array.codecs == (codecs.Bytes("big"),)


# transpose


@pytest.mark.covers("V3-TRANS-01")
@pytest.mark.parametrize(
    "order", [[0, 0], [1, 2], [-1, 0], [0.0, 1.0], ["0", "1"], "f", None, 1, [True, False]]
)
def test_order_is_permutation(order):
    codec = {"name": "transpose", "configuration": {"order": order}}
    assert list(problems_v3(codecs=[codec, LITTLE])) == ["/codecs/0/configuration/order"]


@pytest.mark.covers("V3-TRANS-01")
def test_transpose_order_is_required_with_length_of_shape():
    assert problems_v3(codecs=[{"name": "transpose"}, LITTLE]) == {
        "/codecs/0/configuration": "missing_member"
    }
    for order in ([0], [0, 1, 2], []):
        problems = problems_v3(codecs=[transpose(*order), LITTLE])
        assert problems == {"/codecs/0/configuration/order": "mismatch"}


@pytest.mark.covers("V3-TRANS-02")
@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0), (0, 2, 1)])
def test_transpose_stores_axis_order_i_as_axis_i(order):
    chunk = np.arange(24, dtype="<i4").reshape(2, 3, 4)
    array = open_v3(
        shape=[4, 3, 4], chunk_grid=regular(2, 3, 4), codecs=[transpose(*order), LITTLE]
    )
    array[2:] = chunk
    stored = chunk.transpose(order)
    assert stored.shape == tuple(chunk.shape[axis] for axis in order)
    assert array.store.get("c/1/0/0") == stored.tobytes()
    has_same_bits(array[2:], chunk)


@pytest.mark.covers("V3-TRANS-03")
def test_no_axes_are_order_and_transpositions_compose():
    array = open_v3(shape=[], chunk_grid=regular(), codecs=[transpose(), LITTLE])
    array[()] = 5
    assert array[()] == 5
    chunk = np.arange(24, dtype="<i4").reshape(2, 3, 4)
    chain = [transpose(1, 2, 0), transpose(1, 2, 0), LITTLE]
    array = open_v3(shape=[2, 3, 4], chunk_grid=regular(2, 3, 4), codecs=chain)
    array[...] = chunk
    expected = chunk.transpose(1, 2, 0).transpose(1, 2, 0)
    assert array.store.get("c/0/0/0") == expected.tobytes()
    has_same_bits(array[...], chunk)


# gzip


@pytest.mark.covers("V3-GZIP-01")
@pytest.mark.parametrize("level", [-1, 10, "x", 5.0, None, True])
def test_levels_of_gzip(level):
    problems = problems_v3(codecs=[LITTLE, gzip(level)])
    assert list(problems) == ["/codecs/1/configuration/level"]


@pytest.mark.covers("V3-GZIP-01")
def test_gzip_needs_level():
    for codec in ("gzip", {"name": "gzip"}, {"name": "gzip", "configuration": {}}):
        assert list(problems_v3(codecs=[LITTLE, codec]).values()) == ["missing_member"]


@pytest.mark.covers("V3-GZIP-01")
@pytest.mark.parametrize("level", range(10))
def test_gzip_is_stream_of_rfc_1952(level):
    array = open_v3(codecs=[LITTLE, gzip(level)])
    array[:3, :2] = CHUNK
    assert gz.decompress(array.store.get("c/0/0")) == CHUNK.tobytes()


@pytest.mark.parametrize("seed", range(3))
def test_gzip_level_9_is_as_small_as_that_of_zlib(seed):
    """Level 9 means the smallest file: the excess over zlib is at most 2 %."""
    rng = np.random.default_rng(seed)
    waves = 280 + 20 * np.sin(np.arange(500) / 50)[:, None]
    samples = [
        (waves + rng.standard_normal((500, 200))).round(1),
        (waves[:200] + rng.standard_normal((200, 200)) / 50).round(1).astype("f4"),
        rng.integers(0, 1000, 50_000).astype("i4"),
        np.repeat(np.repeat(rng.integers(0, 20, (50, 50)), 10, 0), 10, 1).astype("u1"),
        np.arange(50_000),
    ]
    for sample in samples:
        data = sample.tobytes()
        assert len(codecs.GZip(9).encode(data)) <= 1.02 * len(zlib.compress(data, 9, 31))


@pytest.mark.covers("V3-GZIP-01")
def test_gzip_of_several_members():
    data = CHUNK.tobytes()
    header = struct.pack("<4sI2s", b"\x1f\x8b\x08\x18", 0, b"\0\xff") + b"name\0comment\0"
    body = zlib.compress(data[10:])[2:-4]
    second = header + body + struct.pack("<II", zlib.crc32(data[10:]), len(data) - 10)
    array = open_v3({"c/0/0": gz.compress(data[:10]) + second}, codecs=[LITTLE, gzip()])
    has_same_bits(array[:3, :2], CHUNK)


@pytest.mark.covers("V3-GZIP-01")
@pytest.mark.parametrize("position", [-8, -4])
def test_checksum_and_size_of_gzip_are_verified(position):
    stored = bytearray(gz.compress(CHUNK.tobytes()))
    stored[position] ^= 1
    array = open_v3({"c/0/0": bytes(stored)}, codecs=[LITTLE, gzip()])
    with expect_read_error(key="c/0/0"):
        array[0, 0]


# blosc


@pytest.mark.covers("V3-BLOSC-01")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("cname", value) for value in ("foo", "LZ4", "", None, 1)),
        *(("clevel", value) for value in (10, -1, "", 5.0, None)),
        *(("shuffle", value) for value in (1, 0, -1, "Shuffle", "bit", "", None)),
        *(("blocksize", value) for value in (-1, "0x", 1.5, None, 2**31)),
        *(("typesize", value) for value in (-1, "", 4.0, True)),
    ],
)
def test_parameters_of_blosc(name, value):
    problems = problems_v3(codecs=[LITTLE, blosc(**{name: value})])
    assert list(problems) == [f"/codecs/1/configuration/{name}"]


@pytest.mark.covers("V3-BLOSC-01")
@pytest.mark.parametrize("name", ["cname", "clevel", "shuffle", "blocksize"])
def test_blosc_needs_its_parameters(name):
    assert problems_v3(codecs=[LITTLE, blosc(name)]) == {
        "/codecs/1/configuration": "missing_member"
    }


@pytest.mark.covers("V3-BLOSC-02")
def test_blosc_typesize_is_required_with_shuffle():
    for shuffle in ("shuffle", "bitshuffle"):
        problems = problems_v3(codecs=[LITTLE, blosc("typesize", shuffle=shuffle)])
        assert problems == {"/codecs/1/configuration": "missing_member"}
    array = open_v3(codecs=[LITTLE, blosc("typesize", shuffle="noshuffle")])
    array[...] = 3
    assert (array[...] == 3).all()


@pytest.mark.covers("V3-BLOSC-03")
@pytest.mark.parametrize(
    ("dtype", "shuffle"), [("i1", "bitshuffle"), ("i4", "shuffle"), ("c16", "shuffle")]
)
def test_chosen_blosc_parameters_are_written(dtype, shuffle):
    array = tessarr.create_array(
        None, shape=(4,), dtype=dtype, compressors=codecs.Blosc(shuffle=-1)
    )
    configuration = json.loads(array.store.get("zarr.json"))["codecs"][-1]["configuration"]
    assert configuration["shuffle"] == shuffle
    assert configuration["typesize"] == np.dtype(dtype).itemsize


@pytest.mark.covers("V3-BLOSC-04", "V2-COMP-07")
@pytest.mark.parametrize("cname", ["lz4", "lz4hc", "blosclz", "zstd", "zlib"])
@pytest.mark.parametrize("shuffle", ["noshuffle", "shuffle", "bitshuffle"])
def test_blosc_container_equals_format_2(cname, shuffle):
    numcodecs = pytest.importorskip("numcodecs", reason="numcodecs is the other side")
    values = np.arange(10000, dtype="i4").reshape(100, 100)
    settings = {"shape": [100, 100], "chunk_grid": regular(100, 100)}
    array = open_v3(codecs=[LITTLE, blosc(cname=cname, shuffle=shuffle)], **settings)
    array[...] = values
    stored = array.store.get("c/0/0")
    version, _, _, typesize, size, _, total = struct.unpack("<4B3I", stored[:16])
    assert (version, typesize, size, total) == (2, 4, 40000, len(stored))
    assert numcodecs.blosc.decompress(stored) == values.tobytes()
    number = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}[shuffle]
    other = numcodecs.Blosc(cname=cname, clevel=1, shuffle=number).encode(values)
    array.store.put("c/0/0", other)
    has_same_bits(array[...], values)


# zstd


@pytest.mark.covers("V3-ZSTD-01", "X-ZSTD-01")
@pytest.mark.parametrize("level", [-131073, 23, "1.5", 1.0, None])
def test_levels_of_zstd(level):
    problems = problems_v3(codecs=[LITTLE, zstd(level=level)])
    assert list(problems) == ["/codecs/1/configuration/level"]


@pytest.mark.covers("V3-ZSTD-01", "X-ZSTD-01")
@pytest.mark.parametrize("checksum", ["maybe", "", 0, None])
def test_checksum_of_zstd_is_boolean(checksum):
    problems = problems_v3(codecs=[LITTLE, zstd(level=1, checksum=checksum)])
    assert list(problems) == ["/codecs/1/configuration/checksum"]
    assert list(problems_v3(codecs=[LITTLE, "zstd"]).values()) == ["missing_member"]


@pytest.mark.covers("V3-ZSTD-01", "X-ZSTD-01")
@pytest.mark.parametrize("level", [-131072, -5, 0, 1, 22])
@pytest.mark.parametrize("checksum", [False, True])
def test_zstd_is_frame_of_rfc_8878(level, checksum):
    array = open_v3(codecs=[LITTLE, zstd(level=level, checksum=checksum)])
    array[:3, :2] = CHUNK
    stored = array.store.get("c/0/0")
    assert stored[:4] == b"\x28\xb5\x2f\xfd"
    assert bool(stored[4] & 4) == checksum
    has_same_bits(array[:3, :2], CHUNK)


@pytest.mark.covers("V3-ZSTD-01", "X-ZSTD-01")
def test_zstd_of_format_3_always_writes_checksum():
    """The member is optional, but zarrs refuses documents that lack it; TensorStore writes it."""
    for checksum in (False, True):
        codec = codecs.Zstd(level=3, checksum=checksum)
        array = tessarr.create_array(None, shape=(2,), dtype="i4", compressors=codec)
        configuration = json.loads(array.store.get("zarr.json"))["codecs"][-1]["configuration"]
        assert configuration == {"level": 3, "checksum": checksum}


@pytest.mark.covers("V2-COMP-05")
def test_zstd_of_format_2_writes_checksum_only_if_true():
    """TensorStore refuses the member in format 2; numcodecs wrote none for years."""
    for checksum, more in ((False, {}), (True, {"checksum": True})):
        codec = codecs.Zstd(level=3, checksum=checksum)
        array = tessarr.create_array(None, shape=(2,), dtype="i4", compressors=codec, zarr_format=2)
        compressor = json.loads(array.store.get(".zarray"))["compressor"]
        assert compressor == {"id": "zstd", "level": 3, **more}


RAW_BLOCK = CHUNK.tobytes()
NO_SIZE = b"\x28\xb5\x2f\xfd" + b"\x00\x58" + struct.pack("<I", 1 | 24 << 3)[:3] + RAW_BLOCK


@pytest.mark.covers("V3-ZSTD-01", "X-ZSTD-01", "V2-COMP-05")
def test_frames_without_size_are_decoded():
    array = open_v3({"c/0/0": NO_SIZE}, codecs=[LITTLE, zstd(level=1)])
    has_same_bits(array[:3, :2], CHUNK)


@pytest.mark.covers("V3-ZSTD-01", "X-ZSTD-01")
@pytest.mark.parametrize("configuration", [True, False])
def test_checksum_of_zstd_is_verified(configuration):
    stored = bytearray(codecs.Zstd(level=1, checksum=True).encode(CHUNK))
    stored[-1] ^= 1
    array = open_v3(
        {"c/0/0": bytes(stored)}, codecs=[LITTLE, zstd(level=1, checksum=configuration)]
    )
    with expect_read_error(key="c/0/0"):
        array[0, 0]


# crc32c


@pytest.mark.covers("V3-CRC-01")
def test_crc32c_appends_four_bytes():
    array = open_v3(codecs=[LITTLE, CRC])
    array[:3, :2] = CHUNK
    assert array.store.get("c/0/0") == CHUNK.tobytes() + crc32c(CHUNK.tobytes())
    assert crc32c(b"123456789") == bytes.fromhex("839206e3")


@pytest.mark.covers("V3-CRC-01")
@pytest.mark.parametrize("position", [0, 10, -4, -1])
def test_crc32c_is_verified(position):
    stored = bytearray(CHUNK.tobytes() + crc32c(CHUNK.tobytes()))
    stored[position] ^= 0x40
    array = open_v3({"c/0/0": bytes(stored)}, codecs=[LITTLE, CRC])
    with expect_read_error("checksum_mismatch", "c/0/0"):
        array[0, 0]


@pytest.mark.covers("V3-CRC-01")
@pytest.mark.parametrize("size", range(4))
def test_data_shorter_than_checksum_raises(size):
    array = open_v3({"c/0/0": bytes(size)}, codecs=[LITTLE, CRC])
    with expect_read_error(key="c/0/0"):
        array[0, 0]
    with pytest.raises(DataError):
        codecs.Crc32c().decode(bytes(size))


@pytest.mark.covers("V3-CRC-01")
@pytest.mark.parametrize("codec", ["crc32c", CRC, {"name": "crc32c", "configuration": {}}])
def test_crc32c_has_no_configuration(codec):
    assert open_v3(codecs=[LITTLE, codec]).codecs[1] == codecs.Crc32c()
