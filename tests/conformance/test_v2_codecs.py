"""Format 2: compressors and filters, byte by byte."""

from __future__ import annotations

import base64
import bz2
import gzip
import lzma
import struct
import zlib

import numpy as np
import pytest

import tessarr
from conformance.sample_stores import (
    crc32c,
    expect_read_error,
    expect_unsupported,
    has_same_bits,
    open_chunk_v2,
    open_v2,
    problems_v2,
    rewrite_document,
    write_chunk,
)
from tessarr import codecs
from tessarr.errors import MetadataError

VALUES = np.arange(1, 7, dtype="<i4")
RAW = VALUES.tobytes()


# Compressors


@pytest.mark.covers("V2-COMP-01")
@pytest.mark.parametrize("slot", ["compressor", "filters"])
def test_unknown_id_is_refused_at_opening(slot):
    codec = {"id": "x.unknown", "level": 1}
    with expect_unsupported("x.unknown"):
        open_chunk_v2(RAW, **{slot: [codec] if slot == "filters" else codec})


LZ4_BLOCK = struct.pack("<I", 24) + bytes([0xF0, 24 - 15]) + RAW
COMPRESSED = {
    "zlib": ({"id": "zlib", "level": 1}, zlib.compress(RAW), zlib.decompress),
    "gzip": ({"id": "gzip", "level": 1}, gzip.compress(RAW), gzip.decompress),
    "bz2": ({"id": "bz2", "level": 1}, bz2.compress(RAW), bz2.decompress),
    "lzma": ({"id": "lzma"}, lzma.compress(RAW), lzma.decompress),
    "lzma alone": (
        {"id": "lzma", "format": 2},
        lzma.compress(RAW, lzma.FORMAT_ALONE),
        lambda data: lzma.decompress(data, lzma.FORMAT_ALONE),
    ),
    "lz4": ({"id": "lz4", "acceleration": 1}, LZ4_BLOCK, None),
    "zstd": ({"id": "zstd", "level": 1}, codecs.Zstd(1).encode(RAW), codecs.Zstd().decode),
}


@pytest.mark.covers("V2-COMP-02", "V2-COMP-03", "V2-COMP-04", "V2-COMP-05", "V2-COMP-06")
@pytest.mark.parametrize("name", COMPRESSED)
def test_codec_streams_follow_standards(name):
    codec, stored, decompress = COMPRESSED[name]
    array = open_chunk_v2(stored, compressor=codec)
    has_same_bits(array[...], VALUES)
    array[2] = 9
    if decompress is not None:
        assert (
            bytes(decompress(array.store.get("0"))) == np.array([1, 2, 9, 4, 5, 6], "<i4").tobytes()
        )
    assert array[...].tolist() == [1, 2, 9, 4, 5, 6]


@pytest.mark.covers("V2-COMP-10", "ALL-09")
@pytest.mark.parametrize("name", COMPRESSED)
def test_truncated_streams_are_errors(name):
    codec, stored, _ = COMPRESSED[name]
    array = open_chunk_v2(stored, compressor=codec)
    for size in range(len(stored)):
        array.store.put("0", stored[:size])
        with expect_read_error(key="0"):
            array[0]


@pytest.mark.covers("V2-COMP-02")
@pytest.mark.parametrize(("codec", "is_"), [("zlib", "gzip"), ("gzip", "zlib")])
def test_zlib_and_gzip_are_not_mixed_up(codec, is_):
    array = open_chunk_v2(COMPRESSED[is_][1], compressor=COMPRESSED[codec][0])
    with expect_read_error(key="0"):
        array[...]


@pytest.mark.covers("V2-COMP-02", "V2-COMP-03")
@pytest.mark.parametrize("codec", ["zlib", "gzip", "bz2"])
@pytest.mark.parametrize("level", [10, "x", 1.5, None, True])
def test_levels_are_checked(codec, level):
    problems = problems_v2(compressor={"id": codec, "level": level})
    assert all(loc.startswith("/compressor") for loc in problems)


@pytest.mark.covers("V2-COMP-03")
@pytest.mark.parametrize("level", [0, -1, "-3"])
def test_bz2_has_levels_from_1(level):
    problems = problems_v2(compressor={"id": "bz2", "level": level})
    assert all(loc.startswith("/compressor") for loc in problems)


@pytest.mark.covers("V2-COMP-04")
def test_raw_lzma_needs_its_filters():
    filters = [{"id": 3, "dist": 4}, {"id": 33, "preset": 1}]
    stored = lzma.compress(RAW, lzma.FORMAT_RAW, filters=filters)
    codec = {"id": "lzma", "format": 3, "check": -1, "preset": None, "filters": filters}
    array = open_chunk_v2(stored, compressor=codec)
    has_same_bits(array[...], VALUES)
    array[0] = 9
    assert (
        lzma.decompress(array.store.get("0"), lzma.FORMAT_RAW, filters=filters)[:4] == b"\x09\0\0\0"
    )


@pytest.mark.covers("V2-COMP-04")
@pytest.mark.parametrize("form", [1, 2])
def test_lzma_container_defines_filters(form):
    kind = {1: lzma.FORMAT_XZ, 2: lzma.FORMAT_ALONE}[form]
    filters = [{"id": 33, "preset": 1}] if form == 1 else [{"id": 0x4000000000000001, "preset": 1}]
    stored = lzma.compress(RAW, kind, filters=filters)
    array = open_chunk_v2(stored, compressor={"id": "lzma", "format": form, "filters": filters})
    has_same_bits(array[...], VALUES)


@pytest.mark.covers("V2-COMP-05")
@pytest.mark.parametrize("configuration", [None, False, True])
def test_checksum_of_zstd_is_verified(configuration):
    codec = {"id": "zstd", "level": 1} | (
        {} if configuration is None else {"checksum": configuration}
    )
    stored = bytearray(codecs.Zstd(1, checksum=True).encode(RAW))
    array = open_chunk_v2(bytes(stored), compressor=codec)
    has_same_bits(array[...], VALUES)
    stored[-1] ^= 1
    array.store.put("0", bytes(stored))
    with expect_read_error(key="0"):
        array[...]


@pytest.mark.covers("V2-COMP-06")
@pytest.mark.parametrize("size", [0, 23, 25, 2**31, 2**32 - 1])
def test_size_of_lz4_is_checked(size):
    array = open_chunk_v2(struct.pack("<I", size) + LZ4_BLOCK[4:], compressor={"id": "lz4"})
    with expect_read_error(key="0"):
        array[...]


@pytest.mark.covers("V2-COMP-07")
@pytest.mark.parametrize("configuration", [{"shuffle": 0}, {"cname": "zstd"}, {"clevel": 0}])
def test_blosc_container_defines_decoding(configuration):
    stored = codecs.Blosc(cname="lz4", clevel=5, shuffle=1, typesize=4).encode(VALUES)
    array = open_chunk_v2(stored, compressor={"id": "blosc", **configuration})
    has_same_bits(array[...], VALUES)


@pytest.mark.covers("V2-COMP-08")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("cname", value) for value in ("foo", "LZ4", None, 1)),
        *(("clevel", value) for value in (10, -1, "11", None)),
        *(("shuffle", value) for value in (3, -2, "shuffled", None)),
        *(("blocksize", value) for value in (-1, "-2", 1.5)),
    ],
)
def test_parameters_of_blosc_are_checked(name, value):
    problems = problems_v2(compressor={"id": "blosc", name: value})
    assert list(problems) == [f"/compressor/{name}"]


@pytest.mark.covers("V2-COMP-08")
@pytest.mark.parametrize(("dtype", "bits"), [("|u1", True), ("<i4", False), ("<c16", False)])
def test_shuffle_minus_1_chooses_by_element_size(dtype, bits):
    codec = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": -1}
    array = open_chunk_v2(None, dtype, count=5000, compressor=codec)
    flags = write_chunk(array, np.ones(5000, dtype))[2]
    assert (bool(flags & 1), bool(flags & 4)) == (not bits, bits)
    assert rewrite_document(array)["compressor"]["shuffle"] == -1


@pytest.mark.covers("V2-COMP-09")
def test_stored_buffer_is_read():
    stored = struct.pack("<4B3I", 2, 1, 0x02 | 1, 4, 24, 24, 40) + RAW
    has_same_bits(open_chunk_v2(stored, compressor={"id": "blosc"})[...], VALUES)


@pytest.mark.covers("V2-COMP-08", "V2-COMP-09")
@pytest.mark.parametrize("cname", ["blosclz", "lz4", "lz4hc", "zlib", "zstd"])
@pytest.mark.parametrize("clevel", [0, 1, 9])
@pytest.mark.parametrize("dtype", ["|u1", "<i2", "<f8", "|V20"])
def test_buffers_of_c_library_are_read(cname, clevel, dtype):
    """The buffers have split and unsplit blocks, incompressible blocks, and runs of one value."""
    numcodecs = pytest.importorskip("numcodecs", reason="numcodecs is the other side")
    of = np.dtype(dtype)
    noise = np.frombuffer(np.random.default_rng(1).bytes(3000 * of.itemsize), of)
    for values in (noise, np.zeros(3000, of), np.sort(noise.view("u1")).view(of)):
        for shuffle in (0, 1, 2):
            codec = numcodecs.Blosc(cname=cname, clevel=clevel, shuffle=shuffle, blocksize=0)
            array = open_chunk_v2(
                codec.encode(values), dtype, count=3000, compressor=codec.get_config()
            )
            assert array[...].tobytes() == values.tobytes()


@pytest.mark.covers("V2-COMP-08")
def test_snappy_inside_of_blosc_is_read():
    header = bytes([24, (24 - 1) << 2])  # 24 bytes, as one literal
    block = struct.pack("<I", len(header) + 24) + header + RAW
    stored = struct.pack("<4B3I", 2, 1, 0x40 | 0x10, 4, 24, 24, 20 + len(block)) + struct.pack(
        "<I", 20
    )
    has_same_bits(
        open_chunk_v2(stored + block, compressor={"id": "blosc", "cname": "snappy"})[...], VALUES
    )


@pytest.mark.covers("V2-COMP-11")
@pytest.mark.parametrize(
    "codec_id", ["crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3"]
)
def test_compressor_accepts_any_codec(codec_id):
    array = open_chunk_v2(compressor={"id": codec_id})
    stored = write_chunk(array, VALUES)
    assert len(stored) == 28
    assert RAW in stored
    has_same_bits(tessarr.open_array(array.store, mode="r")[...], VALUES)
    assert rewrite_document(array)["compressor"]["id"] == codec_id


# Filters


@pytest.mark.covers("V2-FILT-01")
@pytest.mark.parametrize("astype", [None, "|i1", "<i2", ">i8"])
def test_delta_stores_differences(astype):
    codec = {"id": "delta", "dtype": "<i4"} | ({} if astype is None else {"astype": astype})
    array = open_chunk_v2(filters=[codec])
    values = np.array([100, 101, 99, 99, 127, 0], "<i4")
    stored = write_chunk(array, values)
    assert stored == np.array([100, 1, -2, 0, 28, -127], astype or "<i4").tobytes()
    has_same_bits(tessarr.open_array(array.store, mode="r")[...], values)


@pytest.mark.covers("V2-FILT-01")
def test_delta_goes_through_buffer_in_its_order():
    array = open_v2(
        shape=[2, 3], chunks=[2, 3], order="F", filters=[{"id": "delta", "dtype": "<i4"}]
    )
    array[...] = [[1, 2, 3], [10, 20, 30]]
    assert np.frombuffer(array.store.get("0.0"), "<i4").tolist() == [1, 9, -8, 18, -17, 27]
    assert array[...].tolist() == [[1, 2, 3], [10, 20, 30]]


@pytest.mark.covers("V2-FILT-02")
def test_fixedscaleoffset_rounds_half_to_even():
    codec = {"id": "fixedscaleoffset", "scale": 1, "offset": 10, "dtype": "<f8", "astype": "|i1"}
    array = open_chunk_v2(None, "<f8", filters=[codec])
    stored = write_chunk(array, np.array([10.5, 11.5, 12.5, 9.5, 10.4, 0]))
    assert np.frombuffer(stored, "i1").tolist() == [0, 2, 2, 0, 0, -10]
    assert array[...].tolist() == [10, 12, 12, 10, 10, 0]


@pytest.mark.covers("V2-FILT-02")
def test_fixedscaleoffset_decodes_by_division():
    codec = {"id": "fixedscaleoffset", "scale": 10, "offset": 1000, "dtype": "<f8", "astype": "<u2"}
    stored = np.array([0, 5, 65535], "<u2").tobytes()
    array = open_chunk_v2(stored, "<f8", count=3, filters=[codec])
    assert array[...].tolist() == [1000.0, 1000.5, 7553.5]


@pytest.mark.covers("V2-FILT-03")
def test_quantize_decodes_by_cast():
    codec = {"id": "quantize", "digits": 1, "dtype": "<f8", "astype": "<f4"}
    exact = np.array([0.1, 0.123456, -1e30, 5, 0, 0], "<f4")
    array = open_chunk_v2(exact.tobytes(), "<f8", filters=[codec])
    has_same_bits(array[...], exact.astype("<f8"))
    stored = np.frombuffer(write_chunk(array, np.array([0.12345, 2.71, 0, 0, 0, 0])), "<f4")
    assert stored.tolist() == [0.125, 2.6875, 0, 0, 0, 0]


@pytest.mark.covers("V2-FILT-04")
@pytest.mark.parametrize("count", [1, 5, 8, 9, 16])
def test_packbits_begins_with_number_of_padding_bits(count):
    values = np.arange(count) % 3 == 0
    array = open_chunk_v2(None, "|b1", count=count, filters=[{"id": "packbits"}])
    stored = write_chunk(array, values)
    assert stored == bytes([-count % 8]) + np.packbits(values).tobytes()
    assert array[...].tolist() == values.tolist()


@pytest.mark.covers("V2-FILT-06")
def test_shuffle_transposes_bytes_of_elements():
    array = open_chunk_v2(filters=[{"id": "shuffle", "elementsize": 4}])
    stored = write_chunk(array, VALUES)
    assert stored == np.frombuffer(RAW, "u1").reshape(6, 4).T.tobytes()
    has_same_bits(array[...], VALUES)


@pytest.mark.covers("V2-FILT-06")
def test_shuffle_divides_buffer():
    with pytest.raises((MetadataError, tessarr.errors.DataError)):
        open_chunk_v2(RAW, filters=[{"id": "shuffle", "elementsize": 5}])[...]
    for size in (-1, "x", 4.0, True):
        problems = problems_v2(filters=[{"id": "shuffle", "elementsize": size}])
        assert list(problems) == ["/filters/0/elementsize"]


def fletcher32(data):
    """Compute the checksum as HDF5 does: words of two bytes, the high one first."""
    low = high = 0
    for position in range(0, len(data), 2):
        word = data[position : position + 2].ljust(2, b"\0")
        low = (low + int.from_bytes(word, "big")) % 65535
        high = (high + low) % 65535
    return struct.pack("<I", high << 16 | low)


CHECKSUMS = {
    "crc32": (lambda data: struct.pack("<I", zlib.crc32(data)), "start"),
    "adler32": (lambda data: struct.pack("<I", zlib.adler32(data)), "start"),
    "crc32c": (crc32c, "end"),
    "fletcher32": (fletcher32, "end"),
}


@pytest.mark.covers("V2-FILT-07")
@pytest.mark.parametrize(
    ("codec_id", "location"),
    [
        *((name, position) for name in CHECKSUMS for position in (None, "start", "end")),
    ][:-2],  # the last codec, fletcher32, has no location
)
def test_checksum_positions_match_numcodecs(codec_id, location):
    compute, default = CHECKSUMS[codec_id]
    codec = {"id": codec_id} | ({} if location is None else {"location": location})
    array = open_chunk_v2(filters=[codec])
    stored = write_chunk(array, VALUES)
    sum_ = compute(RAW)
    assert stored == (sum_ + RAW if (location or default) == "start" else RAW + sum_)
    has_same_bits(tessarr.open_array(array.store, mode="r")[...], VALUES)


@pytest.mark.covers("V2-FILT-07")
def test_checksum_of_jenkins():
    """The published example of lookup3 hashes this text to 17770551."""
    data = b"Four score and seven years ago"
    array = open_chunk_v2(None, "|u1", count=30, filters=[{"id": "jenkins_lookup3", "initval": 0}])
    stored = write_chunk(array, np.frombuffer(data, "u1"))
    assert stored == data + struct.pack("<I", 0x17770551)


@pytest.mark.covers("V2-FILT-08")
@pytest.mark.parametrize("codec_id", [*CHECKSUMS, "jenkins_lookup3"])
def test_wrong_and_missing_checksums_are_errors(codec_id):
    array = open_chunk_v2(filters=[{"id": codec_id}])
    stored = write_chunk(array, VALUES)
    for position in (0, 4, 12, len(stored) - 5, len(stored) - 1):
        damaged = bytearray(stored)
        damaged[position] ^= 0x10
        array.store.put("0", bytes(damaged))
        with expect_read_error(key="0"):
            array[...]
    for size in range(4):
        array.store.put("0", stored[:size])
        with expect_read_error(key="0"):
            array[...]


@pytest.mark.covers("V2-FILT-09")
def test_astype_stores_another_type():
    codec = {"id": "astype", "encode_dtype": ">f4", "decode_dtype": "<i4"}
    array = open_chunk_v2(filters=[codec])
    assert write_chunk(array, VALUES) == VALUES.astype(">f4").tobytes()
    has_same_bits(array[...], VALUES)


@pytest.mark.covers("V2-FILT-09")
def test_bitround_decode_returns_its_input():
    values = np.array([1.1, 3.14159, -1e10, 0.0, np.inf, 1e-40], "<f4")
    array = open_chunk_v2(values.tobytes(), "<f4", filters=[{"id": "bitround", "keepbits": 3}])
    has_same_bits(array[...], values)
    stored = np.frombuffer(write_chunk(array, values), "<f4")
    assert not (stored.view("u4") & 0xFFFFF)[:4].any()
    assert np.allclose(stored[:3], values[:3], rtol=0.07)


@pytest.mark.covers("V2-FILT-09")
def test_base64():
    array = open_chunk_v2(filters=[{"id": "base64"}])
    assert write_chunk(array, VALUES) == base64.standard_b64encode(RAW)
    has_same_bits(array[...], VALUES)
