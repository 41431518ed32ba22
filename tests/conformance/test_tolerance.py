"""The rule of reading (docs/guide/tolerance.md): defects with one meaning cause a warning."""

from __future__ import annotations

import bz2
import gzip as gz
import json
import lzma
import zlib
from typing import Any

import numpy as np
import pytest

import tessarr
from conformance.sample_stores import (
    LITTLE,
    V2,
    blosc,
    document,
    expect_defect,
    gzip,
    has_same_bits,
    open_v2,
    open_v3,
    problems_v2,
    problems_v3,
    zstd,
)
from tessarr import codecs, stores
from tessarr.errors import ArgumentError, MetadataError, TessarrWarning
from tessarr.metadata import v2, v3

VALUES = np.arange(100, 106, dtype="<i4")
RAW = VALUES.tobytes()


def open_one_chunk(
    stored: bytes | None, /, *without: str, dtype: str = "<i4", **changes: Any
) -> Any:
    """Open an array of format 2 with one chunk of six elements."""
    items = {} if stored is None else {"0": stored}
    return open_v2(items, *without, shape=[6], chunks=[6], dtype=dtype, **changes)


def document_of(array: Any) -> dict[str, Any]:
    """Return the document that Tessarr writes for an array like this one."""
    return (v2 if array.zarr_format == 2 else v3).to_json(array.metadata)


def shuffled(data: bytes, size: int) -> bytes:
    return np.frombuffer(data, "u1").reshape(-1, size).T.tobytes()


# Codecs whose configuration holds the item size


@pytest.mark.covers("V2-FILT-06")
@pytest.mark.parametrize("size", [0, None, 4])
def test_shuffle_elementsize_0_is_size_of_data_type(size: Any) -> None:
    """NCZarr writes 0, and reading causes no warning; new documents contain the size."""
    array = open_one_chunk(shuffled(RAW, 4), filters=[{"id": "shuffle", "elementsize": size}])
    has_same_bits(array[...], VALUES)
    array[0] = 7
    assert array.store.get("0") == shuffled(array[...].tobytes(), 4)
    assert document_of(array)["filters"] == [{"id": "shuffle", "elementsize": 4}]


@pytest.mark.covers("V2-FILT-06")
def test_shuffle_elementsize_text_is_number() -> None:
    with expect_defect("/filters/0/elementsize: the text '4', taken for 4"):
        array = open_one_chunk(shuffled(RAW, 4), filters=[{"id": "shuffle", "elementsize": "4"}])
    has_same_bits(array[...], VALUES)
    with expect_defect("the text '0', taken for 0"):
        array = open_one_chunk(shuffled(RAW, 4), filters=[{"id": "shuffle", "elementsize": "0"}])
    has_same_bits(array[...], VALUES)


@pytest.mark.covers("V2-FILT-06")
@pytest.mark.parametrize(
    ("dtype", "filters", "size"),
    [
        ("<f8", [], 8),
        (">i2", [], 2),
        ("|S3", [], 3),
        ([["a", "<i4"], ["b", "|u1"]], [], 5),
        ("<i4", [{"id": "delta", "dtype": "<i4", "astype": "<i2"}], 2),
        ("<f8", [{"id": "fixedscaleoffset", "scale": 1, "offset": 0, "astype": "|u1"}], 1),
    ],
)
def test_shuffle_elementsize_0_follows_codecs_before_it(
    dtype: Any, filters: Any, size: int
) -> None:
    """The elements that shuffle encodes define the size, not those of the array."""
    chain = [*filters, {"id": "shuffle", "elementsize": 0}]
    array = open_one_chunk(None, dtype=dtype, filters=chain, fill_value=None)
    chain = [*filters, {"id": "shuffle", "elementsize": size}]
    expected = open_one_chunk(None, dtype=dtype, filters=chain, fill_value=None)
    values = np.arange(100, 106).astype("i4").astype(array.dtype)
    for target in (array, expected):
        target[...] = values
    assert array.store.get("0") == expected.store.get("0")
    assert document_of(array)["filters"][-1] == {"id": "shuffle", "elementsize": size}
    has_same_bits(array[...], expected[...])


def test_new_array_writes_size_for_shuffle_0() -> None:
    array = tessarr.create_array(
        None, data=VALUES, zarr_format=2, filters=[codecs.Shuffle(0)], compressors=None
    )
    assert json.loads(array.store.get(".zarray"))["filters"][0]["elementsize"] == 4
    assert array.store.get("0") == shuffled(RAW, 4)


@pytest.mark.covers("V3-BLOSC-01")
@pytest.mark.parametrize("size", [0, None])
def test_blosc_typesize_0_is_size_of_data_type(size: Any) -> None:
    with expect_defect("/typesize: .*, taken for the size of the elements"):
        array = open_v3(codecs=[LITTLE, blosc(typesize=size)])
    array[...] = 5
    assert array.store.get("c/0/0")[3] == 4
    assert document_of(array)["codecs"][1]["configuration"]["typesize"] == 4


@pytest.mark.parametrize("dtype", ["absent", None])
def test_filters_without_types_take_array_type(dtype: Any) -> None:
    types = {} if dtype == "absent" else {"dtype": None, "astype": None}
    chunk = np.diff(VALUES, prepend=0).astype("<i4")
    has_same_bits(open_one_chunk(chunk.tobytes(), filters=[{"id": "delta", **types}])[...], VALUES)
    offset = {"id": "fixedscaleoffset", "scale": 1, "offset": 100, **types}
    has_same_bits(open_one_chunk((VALUES - 100).tobytes(), filters=[offset])[...], VALUES)


# Text in place of a number or a boolean


PARAMETERS: list[tuple[dict[str, Any], str, str]] = [
    ({"id": "zlib"}, "level", "3"),
    ({"id": "gzip"}, "level", "-1"),
    ({"id": "bz2"}, "level", "3"),
    ({"id": "lz4"}, "acceleration", "2"),
    ({"id": "zstd"}, "level", "3"),
    ({"id": "zstd", "level": 1}, "checksum", "NO"),
    ({"id": "zstd", "level": 1}, "checksum", "true"),
    ({"id": "lzma"}, "format", "1"),
    ({"id": "lzma"}, "check", "-1"),
    ({"id": "lzma"}, "preset", " 3 "),
    ({"id": "blosc"}, "clevel", "3"),
    ({"id": "blosc"}, "shuffle", "2"),
    ({"id": "blosc"}, "blocksize", "0"),
]
FILTERS: list[tuple[dict[str, Any], str, str]] = [
    ({"id": "bitround"}, "keepbits", "3"),
    ({"id": "quantize"}, "digits", "2"),
    ({"id": "fixedscaleoffset", "offset": 0}, "scale", "1e1"),
    ({"id": "fixedscaleoffset", "scale": 1}, "offset", "2.5"),
]


def parse_text_value(text: str) -> Any:
    words = {"NO": False, "true": True}
    return words[text] if text in words else json.loads(text)


@pytest.mark.covers("V2-COMP-01")
@pytest.mark.parametrize(("codec", "name", "text"), PARAMETERS)
def test_numeric_text_in_compressor_is_number(codec: dict[str, Any], name: str, text: str) -> None:
    with expect_defect(f"/compressor/{name}: the text"):
        array = open_one_chunk(None, compressor={**codec, name: text})
    expected = open_one_chunk(None, compressor={**codec, name: parse_text_value(text)})
    assert array.metadata == expected.metadata
    array[...] = VALUES
    has_same_bits(array[...], VALUES)
    assert document_of(array)["compressor"] == document_of(expected)["compressor"]


@pytest.mark.covers("V2-FILT-01")
@pytest.mark.parametrize(("codec", "name", "text"), FILTERS)
def test_numeric_text_in_filter_is_number(codec: dict[str, Any], name: str, text: str) -> None:
    with expect_defect(f"/filters/0/{name}: the text"):
        array = open_one_chunk(None, dtype="<f8", filters=[{**codec, name: text}])
    assert (
        array.metadata
        == open_one_chunk(
            None, dtype="<f8", filters=[{**codec, name: parse_text_value(text)}]
        ).metadata
    )


@pytest.mark.covers("V3-GZIP-01", "V3-ZSTD-01", "V3-BLOSC-01")
@pytest.mark.parametrize(
    ("value", "meant"),
    [
        (gzip("5"), gzip(5)),  # type: ignore[arg-type]
        (zstd(level="-5", checksum=False), zstd(level=-5, checksum=False)),
        (zstd(level=1, checksum="NO"), zstd(level=1, checksum=False)),
        (zstd(level=1, checksum="YES"), zstd(level=1, checksum=True)),
        (blosc(clevel="9"), blosc(clevel=9)),
        (blosc(typesize="4"), blosc(typesize=4)),
        (blosc(blocksize="0"), blosc(blocksize=0)),
    ],
)
def test_numeric_text_in_format_3_codec_is_number(value: Any, meant: Any) -> None:
    with expect_defect("/codecs/1/configuration/.*: the text"):
        array = open_v3(codecs=[LITTLE, value])
    assert array.metadata == open_v3(codecs=[LITTLE, meant]).metadata
    array[...] = 5
    assert (array[...] == 5).all()


@pytest.mark.parametrize("text", ["", "x", "4.5", "0x4", "1_0", "4 4", "NaN", "9" * 60, "²"])
def test_text_without_integer_is_refused(text: str) -> None:
    problems = problems_v2(compressor={"id": "zlib", "level": text})
    assert problems == {"/compressor/level": "wrong_type"}
    assert problems_v2(compressor={"id": "bz2", "level": text}) == {
        "/compressor/level": "wrong_type"
    }


@pytest.mark.parametrize("text", ["10", "-2"])
def test_text_of_number_out_of_range_is_refused(text: str) -> None:
    assert problems_v2(compressor={"id": "zlib", "level": text}) == {
        "/compressor/level": "invalid_value"
    }


@pytest.mark.covers("V2-META-02", "V2-META-03", "V3-META-03", "V3-META-05", "V3-EXT-06")
def test_text_in_layout_members_is_refused() -> None:
    """Formats, shapes, chunks and must_understand are exact, as all writers write them."""
    assert list(problems_v2(zarr_format="2")) == ["/zarr_format"]
    assert list(problems_v2(shape=["5", 4])) == ["/shape/0"]
    assert list(problems_v2(chunks=[2, "3"])) == ["/chunks/1"]
    assert list(problems_v3(zarr_format="3")) == ["/zarr_format"]
    assert list(problems_v3(shape=["6", 4])) == ["/shape/0"]
    odd = {"name": "odd", "must_understand": "false"}
    assert list(problems_v3(codecs=[LITTLE, odd])) == ["/codecs/1/must_understand"]


@pytest.mark.parametrize(
    "settings",
    [
        {"compressors": {"id": "zlib", "level": "4"}},
        {"compressors": {"id": "zlib", "level": 4, "x": 1}},
        {"compressors": {"name": "gzip", "configuration": {"level": "4"}}},
        {"fill_value": "0"},
    ],
)
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_text_from_user_is_refused(settings: dict[str, Any], zarr_format: Any) -> None:
    """Tessarr reads these documents but never writes them."""
    with pytest.raises(ArgumentError):
        tessarr.create_array(None, shape=3, dtype="i4", zarr_format=zarr_format, **settings)


# Fill values


@pytest.mark.covers("V2-FILL-02", "V2-FILL-03", "V2-FILL-04", "V2-FILL-05")
@pytest.mark.parametrize(
    ("dtype", "value", "fill"),
    [
        ("<i4", "0", 0),
        ("|i1", "-7", -7),
        (">u8", str(2**64 - 1), 2**64 - 1),
        ("<i4", "5.0", 5),
        ("<f4", "0", 0.0),
        ("<f8", "-1.5e3", -1500.0),
        ("|b1", "true", True),
        ("|b1", "0", False),
        ("<c16", ["1", "-2.5"], 1 - 2.5j),
        ("<M8[s]", "5", np.datetime64(5, "s")),
    ],
)
def test_text_fill_value_of_format_2_is_parsed(dtype: str, value: Any, fill: Any) -> None:
    """The writer n5-zarr stores every fill value as text."""
    with pytest.warns(TessarrWarning, match="/fill_value.*: the text") as caught:
        array = open_one_chunk(None, dtype=dtype, fill_value=value)
    assert len(caught) == 1
    assert array[0] == fill
    again = document_of(array)["fill_value"]
    assert not isinstance(again, str)


@pytest.mark.covers("V3-FILL-02", "V3-FILL-03", "V3-FILL-05", "V3-FILL-09")
@pytest.mark.parametrize(
    ("data_type", "value", "fill"),
    [
        ("int32", "0", 0),
        ("uint8", "255", 255),
        ("float32", "0", 0.0),
        ("float64", "2.5", 2.5),
        ("bool", "false", False),
        ("complex64", ["1", "NaN"], complex(1, np.nan)),
    ],
)
def test_text_fill_value_of_format_3_is_parsed(data_type: str, value: Any, fill: Any) -> None:
    with expect_defect("/fill_value.*: the text"):
        array = open_v3(data_type=data_type, fill_value=value)
    np.testing.assert_array_equal(array[0, 0], np.array(fill, data_type))


@pytest.mark.covers("V2-FILL-02", "V2-FILL-03")
@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("<i4", "0.5"),
        ("|i1", "128"),
        ("<i4", "true"),
        ("<f4", "1e400"),
        ("<f4", "0x0"),
        ("|S3", "0"),
    ],
)
def test_unparsable_text_fill_value_is_refused(dtype: str, value: str) -> None:
    assert list(problems_v2(dtype=dtype, fill_value=value)) == ["/fill_value"]


@pytest.mark.parametrize(
    ("data_type", "codec", "fill"),
    [
        ("string", {"name": "vlen-utf8"}, ""),
        ("bytes", {"name": "vlen-bytes"}, b""),
        ({"name": "fixed_length_utf32", "configuration": {"length_bytes": 8}}, LITTLE, ""),
        (
            {"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 1}},
            LITTLE,
            np.datetime64("NaT"),
        ),
        ("bfloat16", LITTLE, 0),
    ],
)
def test_fill_value_null_of_extension_types_is_their_default(
    data_type: Any, codec: Any, fill: Any
) -> None:
    with expect_defect("/fill_value: null, taken for the default of"):
        array = open_v3(data_type=data_type, fill_value=None, codecs=[codec])
    expected = tessarr.create_array(None, shape=1, dtype=array.metadata.data_type)
    assert array.metadata.fill_value == expected.metadata.fill_value
    assert str(array[0, 0]) == str(fill)


@pytest.mark.covers("V2-FILL-05")
@pytest.mark.parametrize(("value", "real"), [(0.0, 0.0), (7, 7.0), ("0", 0.0), ("NaN", np.nan)])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_number_as_complex_fill_value_is_its_real_part(
    zarr_format: int, value: Any, real: float
) -> None:
    """GDAL writes one number in format 2."""
    open_, changes = (
        (open_v2, {"dtype": "<c8"}) if zarr_format == 2 else (open_v3, {"data_type": "complex64"})
    )
    with expect_defect("a complex fill value is written as"):
        array = open_(fill_value=value, **changes)
    has_same_bits(array[0, 0], np.complex64(real))


@pytest.mark.covers("V2-FILL-06")
def test_character_as_fill_value_of_one_byte_is_byte() -> None:
    """NetCDF writes this text; for several bytes, it may be Base64 by chance."""
    with expect_defect("'x' is no base64, taken for the byte"):
        array = open_v2(dtype="|S1", fill_value="x")
    assert array[0, 0] == b"x"
    assert list(problems_v2(dtype="|S2", fill_value="x")) == ["/fill_value"]


@pytest.mark.covers("V2-COMP-08")
@pytest.mark.parametrize(
    ("value", "meant"), [("NONE", 0), ("BYTE", 1), ("BIT", 2), ("bitshuffle", 2), ("1", 1)]
)
def test_blosc_shuffle_text_of_format_2_is_number(value: str, meant: int) -> None:
    """GDAL writes "NONE" and "BIT"."""
    with expect_defect(f"/compressor/shuffle: the text '{value}', taken for {meant}"):
        array = open_one_chunk(None, compressor={"id": "blosc", "cname": "lz4", "shuffle": value})
    assert array.compressors[0].shuffle == meant
    array[...] = VALUES
    has_same_bits(array[...], VALUES)


@pytest.mark.covers("V3-TRANS-01")
@pytest.mark.parametrize(("order", "axes"), [("F", [1, 0]), ("C", [0, 1])])
def test_transpose_order_c_and_f_are_orders_of_axes(order: str, axes: list[int]) -> None:
    """The first version of the specification allows both, and GDAL writes them."""
    codec = {"name": "transpose", "configuration": {"order": order}}
    with expect_defect(f"order: '{order}', taken for"):
        array = open_v3(codecs=[codec, LITTLE])
    chunk = np.arange(6, dtype="<i4").reshape(3, 2)
    array[:3, :2] = chunk
    assert array.store.get("c/0/0") == chunk.transpose(axes).tobytes()
    assert document_of(array)["codecs"][0]["configuration"]["order"] == axes


# Members that are absent or unknown


@pytest.mark.covers("V2-META-01")
@pytest.mark.parametrize(
    "without",
    [("filters",), ("compressor",), ("fill_value",), ("filters", "compressor", "fill_value")],
)
def test_absent_members_of_format_2_are_null(without: tuple[str, ...]) -> None:
    with pytest.warns(TessarrWarning, match="is missing, taken for null") as caught:
        array = open_one_chunk(RAW, *without)
    assert len(caught) == 1
    for name in without:
        assert f"member '{name}' is missing" in str(caught[0].message)
        assert document_of(array)[name] is None
    has_same_bits(array[...], VALUES)


@pytest.mark.covers("V2-COMP-01")
@pytest.mark.parametrize(
    ("codec", "unknown", "stored"),
    [
        ({"id": "zlib", "level": 1}, {"useZlib": True}, zlib.compress(RAW)),
        ({"id": "gzip", "level": 1}, {"x": [1]}, gz.compress(RAW)),
        ({"id": "bz2", "level": 1}, {"blockSize": 9}, bz2.compress(RAW)),
        ({"id": "lzma", "preset": 1}, {"delta": 4}, lzma.compress(RAW)),  # GDAL
        (
            {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
            {"nthreads": 1},  # jzarr
            codecs.Blosc().encode(VALUES),
        ),
        ({"id": "zstd", "level": 1}, {"nbThreads": 4}, codecs.Zstd().encode(RAW)),
    ],
    ids=["zlib", "gzip", "bz2", "lzma", "blosc", "zstd"],
)
def test_unknown_members_of_codec_of_format_2_are_ignored(
    codec: dict[str, Any], unknown: dict[str, Any], stored: bytes
) -> None:
    (name,) = unknown
    with expect_defect(f"/compressor/{name}: unknown member '{name}', ignored"):
        array = open_one_chunk(stored, compressor=codec | unknown)
    has_same_bits(array[...], VALUES)
    assert name not in document_of(array)["compressor"]


@pytest.mark.covers("V2-FILT-01")
def test_unknown_members_of_filters_of_format_2_are_ignored() -> None:
    with expect_defect("/filters/0/foo: unknown member 'foo', ignored"):
        array = open_one_chunk(RAW, filters=[{"id": "delta", "dtype": "<i4", "foo": 1}])
    has_same_bits(array[...], np.cumsum(VALUES).astype("<i4"))


@pytest.mark.covers("V3-EXT-11")
def test_unknown_members_of_codec_of_format_3_are_refused() -> None:
    """The specification requires an error, because the effect of an unknown member is unknown."""
    assert problems_v3(codecs=[LITTLE, zstd(level=1, x=1)]) == {
        "/codecs/1/configuration/x": "unknown_member"
    }


def test_all_defects_of_document_are_one_warning() -> None:
    with expect_defect(
        "level: the text '3', taken for 3; /compressor/nthreads: unknown member"
    ) as _:
        open_one_chunk(None, "filters", compressor={"id": "zlib", "level": "3", "nthreads": 1})


def test_compressor_of_type_raw_is_none() -> None:
    """The writer n5-zarr stores "raw", as in N5."""
    with expect_defect("/compressor: .*'raw'.*, taken for null"):
        array = open_one_chunk(RAW, compressor={"type": "raw"})
    has_same_bits(array[...], VALUES)
    assert document_of(array)["compressor"] is None
    assert problems_v2(compressor={"type": "gzip"}) == {"/compressor": "missing_member"}


# Empty documents


@pytest.mark.covers("V2-ATTR-01")
@pytest.mark.parametrize("text", [b"", b" \n"])
def test_empty_zattrs_are_no_attributes(text: bytes) -> None:
    """Tessarr reads, lists, edits, copies and consolidates these nodes."""
    store = stores.MemoryStore(
        {
            ".zgroup": b'{"zarr_format": 2}',
            "a/.zarray": document(V2, shape=[50 + len(text), 4]),
            "a/.zattrs": text,
            "g/.zgroup": b'{"zarr_format": 2, "text": %d}' % len(text),
            "g/.zattrs": text,
        }
    )
    for name in ("a", "g"):
        with expect_defect("it is empty, taken for {}"):
            node = tessarr.open(store, mode="r+", path=name)
        assert not node.attrs
    assert sorted(tessarr.open_group(store, mode="r")) == ["a", "g"]
    group = tessarr.consolidate_metadata(store)
    assert not group["a"].attrs
    node.attrs["x"] = 1
    assert json.loads(store.get("g/.zattrs") or b"") == {"x": 1}


@pytest.mark.parametrize("key", ["zarr.json", ".zarray", ".zgroup"])
def test_other_empty_documents_are_refused(key: str) -> None:
    """A truncated write looks like the document of an array of any shape."""
    with pytest.raises(MetadataError, match="not JSON"):
        tessarr.open(stores.MemoryStore({key: b""}), mode="r")
