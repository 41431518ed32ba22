"""Arrays of text, bytes and objects: typical uses, and refused values."""

from __future__ import annotations

import asyncio
import gc
import json
import pickle
import sys
import warnings
from dataclasses import dataclass

import numpy as np
import pytest

import tessarr
from tessarr import codecs
from tessarr.codec.elements import join_elements
from tessarr.errors import ArgumentError, CastError, DataError, MetadataError, UnsupportedError

STRINGS = hasattr(np.dtypes, "StringDType")
WORDS = ["a", "é\0", "", "日本語", "x" * 99]


def words(zarr_format=3, **settings):
    array = tessarr.create_array(
        None, shape=(5,), dtype=str, chunks=(2,), zarr_format=zarr_format, **settings
    )
    array[...] = WORDS
    return array


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_text_array_reads_as_strings(zarr_format):
    array = words(zarr_format)
    modern = STRINGS and zarr_format == 3
    assert array.dtype == (np.dtypes.StringDType() if modern else object)
    assert array[...].dtype == array.dtype
    assert list(array) == array[...].tolist() == np.asarray(array).tolist() == WORDS
    assert type(array[3]) is str
    assert array[3] == "日本語"
    assert array.fill_value == ""
    assert array.itemsize == array.dtype.itemsize
    for kind in ("object", "string"):
        with tessarr.options(text=kind):
            opened = tessarr.open_array(array.store, mode="r+")
        expected = np.dtypes.StringDType() if kind == "string" and STRINGS else np.dtype(object)
        assert opened.dtype == opened[1:].dtype == expected
        assert opened[...].tolist() == WORDS
        opened[0] = "b"
        opened.append(["new"])
        assert opened[[0, 5]].tolist() == ["b", "new"]
        opened[0] = "a"
        opened.resize(5)


def test_bytes_are_bytes():
    array = tessarr.create_array(None, shape=(3,), dtype=bytes, fill_value=b"\0f")
    array[0] = b"\xff\0"
    array[1] = bytearray(b"ab")
    assert array[...].tolist() == [b"\xff\0", b"ab", b"\0f"]
    array[...] = np.array([b"x", b"yz", b""], "S2")
    assert array[...].tolist() == [b"x", b"yz", b""]
    array[0] = memoryview(b"view")
    assert type(array[0]) is bytes
    assert array[0] == b"view"


@pytest.mark.parametrize("value", ["é", ["é"] * 5, np.array(["é"] * 5), ("é",), np.array("é")])
def test_values_broadcast(value):
    array = words()
    array[...] = value
    assert array[...].tolist() == ["é"] * 5


@pytest.mark.skipif(not STRINGS, reason="NumPy 2 has StringDType")
def test_arrays_of_string_dtype_are_written():
    for zarr_format in (2, 3):
        array = words(zarr_format)
        array[...] = np.array(WORDS[::-1], np.dtypes.StringDType())[::-1][::-1]
        assert array[...].tolist() == WORDS[::-1]
    missing = np.array(["a", None], np.dtypes.StringDType(na_object=None))
    with pytest.raises(ArgumentError, match="missing value"):
        array[:2] = missing


@pytest.mark.parametrize(
    "value", [1, 1.5, b"a", ["a", 2, "b", "c", "d"], [["a"], ["b"]], np.arange(5), "\ud800"]
)
def test_write_non_text_raises_before_storing(value):
    array = words()
    with pytest.raises(ArgumentError) as caught:
        array[...] = value
    assert caught.value.kind in {"cannot_cast", "shape_mismatch"}
    assert array[...].tolist() == WORDS


def test_none_is_empty_element():
    array = words(2)
    array[1:3] = np.array([None, "b"], object)
    assert array[1:3].tolist() == ["", "b"]


def test_futures_and_coroutines():
    array = words()
    array.write(slice(1, 3), ["b", "c"]).result(60)
    out = np.empty(4, array.dtype)[::-1]
    assert array.read(slice(1, None), out=out).result(60) is out
    assert out.tolist() == ["b", "c", *WORDS[3:]]

    async def read():
        return await array.read(slice(2))

    assert asyncio.run(read()).tolist() == ["a", "b"]
    with pytest.raises(ArgumentError):
        array.write(0, 1)


def test_read_into_out_of_variable_length_elements():
    array = words()
    wide = np.zeros((5, 3), object)
    with tessarr.options(text="object"):
        opened = tessarr.open_array(array.store)
    opened.get_basic_selection(..., out=wide[:, 1])
    assert wide[:, 1].tolist() == WORDS
    assert wide[:, 0].tolist() == [0] * 5
    with pytest.raises(ArgumentError):
        opened.get_basic_selection(..., out=np.zeros(5))


def test_growing_shrinking_and_pickling():
    array = words(fill_value="-")
    array.resize(3)
    array.resize(6)
    assert array[...].tolist() == [*WORDS[:3], "-", "-", "-"]
    assert array.append(["n"]) == (7,)
    again = pickle.loads(pickle.dumps(words(2)))
    assert repr(again) == "Array((5,), object, chunks=(2,), order=C)"
    assert "VLenUTF8()" in str(array.info)
    assert array.info.asdict()["fill_value"] == "-"


def test_creating_from_data():
    array = tessarr.create_array(None, data=np.array([["a", "é\0"]], object))
    assert array.shape == (1, 2)
    assert array[0].tolist() == ["a", "é\0"]
    assert tessarr.create_array(None, data=[b"a\0", b""], dtype=bytes)[...].tolist() == [
        b"a\0",
        b"",
    ]
    assert tessarr.create_array(None, data=[["a\0"], ["b"]], dtype=str)[...].tolist() == [
        ["a\0"],
        ["b"],
    ]
    ragged = tessarr.create_array(None, data=[[1, 2], [3]], dtype="array:<i2", zarr_format=2)
    assert [item.tolist() for item in ragged] == [[1, 2], [3]]
    with pytest.raises(ArgumentError, match="more than one way"):
        tessarr.create_array(None, data=np.array(["a", 1], object))
    assert tessarr.full(2, "x", dtype=str)[...].tolist() == ["x", "x"]
    assert tessarr.zeros(2, dtype=str)[...].tolist() == ["", ""]


def test_group_creates_variable_length_arrays():
    group = tessarr.create_group(None, zarr_format=2)
    array = group.create_array("a", shape=(2,), dtype=object, object_codec=codecs.JSON())
    array[0] = {"b": [1]}
    assert group["a"][...].tolist() == [{"b": [1]}, None]


def test_sequence_elements_round_trip():
    array = tessarr.create_array(
        None, shape=(2, 2), dtype=object, zarr_format=2, filters=[codecs.JSON()]
    )
    array[0, 0] = [1, 2]
    array[1] = [[3], [4, 5]]
    array[0, 1] = np.array([6, 7])
    assert array[...].tolist() == [[[1, 2], [6, 7]], [[3], [4, 5]]]
    ragged = tessarr.create_array(None, shape=(3,), dtype="array:<f4", zarr_format=2)
    ragged[0] = np.arange(3)
    ragged[1:] = [[1.5], []]
    assert [(item.dtype.str, item.tolist()) for item in ragged] == [
        ("<f4", [0, 1, 2]),
        ("<f4", [1.5]),
        ("<f4", []),
    ]
    ragged[0][:] = 9  # elements are arrays themselves
    assert ragged[0].tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="2 axes"):
        ragged[0] = np.zeros((2, 2))


class Trap:
    """An object that reports its own unpickling."""

    opened = 0

    def __reduce__(self):
        return (setattr, (Trap, "opened", 1))


def test_pickled_array_needs_permission():
    with tessarr.options(allow_pickle=True):
        array = tessarr.create_array(
            None, shape=(2,), dtype=object, zarr_format=2, object_codec=codecs.Pickle()
        )
        array[0] = {1, 2}
        assert tessarr.open_array(array.store)[0] == {1, 2}
    array.store.put("0", pickle.dumps(np.array([Trap(), 1], object)))
    with pytest.raises(UnsupportedError, match="allow_pickle") as caught:
        tessarr.open_array(array.store)  # its metadata is known, but the option is off
    assert (caught.value.kind, caught.value.extension) == ("unsupported_codec", "pickle")
    assert Trap.opened == 0
    with pytest.raises(UnsupportedError):
        tessarr.create_array(
            None, shape=(1,), dtype=object, zarr_format=2, object_codec=codecs.Pickle()
        )


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_damage_names_chunk_key_and_reason(zarr_format):
    array = words(zarr_format, compressors=None)
    key = "c/1" if zarr_format == 3 else "1"
    good = join_elements([b"a", b"b"])
    for damaged in (
        b"",
        good[:-1],
        good + b"!",
        join_elements([b"a"]),
        join_elements([b"a", b"\xff"]),
        b"\xff" * 9,
    ):
        array.store.put(key, damaged)
        with pytest.raises(DataError) as caught:
            array[...]
        assert (caught.value.key, caught.value.chunk) == (key, (1,))
        with pytest.raises(DataError):
            array[2] = "merged with what is there"
        assert array[:2].tolist() == WORDS[:2]
        assert array.store.get(key) == damaged
    array[2:4] = ["full", "chunk"]
    assert array[2:4].tolist() == ["full", "chunk"]


@pytest.mark.parametrize(
    "codec", [codecs.JSON(), codecs.MsgPack(), codecs.Categorize(["a"], object)]
)
def test_damaged_documents_name_their_chunk(codec):
    array = tessarr.create_array(
        None,
        shape=(4,),
        chunks=(2,),
        dtype=object,
        zarr_format=2,
        object_codec=codec,
        compressors=None,
    )
    array[...] = "a"
    array.store.put("1", b"damaged")
    with pytest.raises(DataError) as caught:
        array[...]
    assert (caught.value.key, caught.value.chunk) == ("1", (1,))


def test_fill_value_0_of_text_is_empty_without_warning():
    """zarr-python 2 writes no other value for arrays of objects."""
    document = b"""{"zarr_format": 2, "shape": [2], "chunks": [1], "dtype": "|O",
        "compressor": null, "fill_value": 0, "order": "C", "filters": [{"id": "vlen-utf8"}]}"""
    array = tessarr.open_array({".zarray": document}, mode="r")
    assert array[...].tolist() == ["", ""]


def test_object_reads_keep_reference_counts():
    array = words(2)
    value = np.array([f"element {n}" for n in range(5)], object)
    counts = [sys.getrefcount(item) for item in value]
    for _ in range(3):
        array[...] = value
        array[1:3] = value[1:3]
        array.write(..., value).result(60)
    gc.collect()
    assert [sys.getrefcount(item) for item in value] == counts
    out = np.array([object() for _ in range(5)], object)
    first = out[0]
    array.get_basic_selection(..., out=out)
    assert sys.getrefcount(first) == 2
    assert all(sys.getrefcount(item) <= 4 for item in out)


def test_fill_chunks_are_not_stored():
    array = tessarr.create_array(
        None, shape=(6,), chunks=(2,), dtype=str, fill_value="aa", compressors=None
    )
    array[...] = ["aa", "aa", "a", "aaa", "aa", "b"]
    assert array.nchunks_initialized == 2
    array[...] = "aa"
    assert array.nchunks_initialized == 0


def test_order_f_matches_numcodecs():
    for maker in (codecs.VLenUTF8(), codecs.JSON()):
        array = tessarr.create_array(
            None, shape=(2, 3), dtype=object, zarr_format=2, order="F", object_codec=maker
        )
        values = np.array([["a", "b", "c"], ["d", "e", "f"]], object)
        array[...] = values
        assert tessarr.open_array(array.store)[...].tolist() == values.tolist()


def test_import_stays_quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert words()[0] == "a"


@codecs.register_codec
@dataclass(frozen=True)
class Lines(codecs.ArrayBytesCodec):
    """A codec that writes text without line breaks, one line for each element."""

    name = "example.lines"
    takes_any_length = True

    def encode(self, array):
        return "\n".join(array.reshape(-1).tolist()).encode()

    def decode(self, data, spec):
        return np.array(bytes(data).decode().split("\n"), object).reshape(spec.shape)


@pytest.mark.parametrize("shards", [None, (4, 4)])
def test_codecs_of_users_take_text(shards):
    array = tessarr.create_array(
        None,
        shape=(3, 4),
        dtype=str,
        chunks=(2, 2),
        shards=shards,
        serializer=Lines(),
        compressors=None,
    )
    array[1:, 1:] = "é"
    array[2, 2] = "b"
    opened = tessarr.open_array(array.store)
    assert opened[1:].tolist() == [["", "é", "é", "é"], ["", "é", "b", "é"]]
    if shards is None:
        assert array.store.get("c/1/1").decode() == "b\né\n\n"
        array.store.put("c/1/1", b"too\nfew")
        with pytest.raises(ValueError, match="reshape"):
            array[...]


@pytest.mark.parametrize("codec", [codecs.JSON(), codecs.MsgPack()])
def test_object_without_json_is_refused(codec) -> None:
    """The error is one of Tessarr and a TypeError, and no value is stored."""
    a = tessarr.create_array(None, shape=2, dtype=object, object_codec=codec, zarr_format=2)
    a[...] = [1, 2]
    for value in ({1, 2}, object(), 2**70 if isinstance(codec, codecs.MsgPack) else {(1, 2): 3}):
        with pytest.raises(CastError, match="cannot be stored as"):
            a[0] = value
        with pytest.raises(CastError):
            codec.encode(np.array([value, 1], object))
    assert a[...].tolist() == [1, 2]


def test_fill_value_outside_messagepack_is_problem() -> None:
    """A document of format 2 may contain an integer of any size."""
    store = tessarr.stores.MemoryStore()
    settings = {"dtype": object, "object_codec": codecs.MsgPack(), "zarr_format": 2}
    tessarr.create_array(store, shape=2, **settings)
    document = json.loads(bytes(store.get(".zarray")))
    store.put(".zarray", json.dumps({**document, "fill_value": 10**30}).encode())
    with pytest.raises(MetadataError, match="an integer of 100 bits"):
        tessarr.open_array(store)
