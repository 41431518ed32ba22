"""Each data type through each codec: written by Tessarr, read by Tessarr and by its peers.

``python tests/interop/matrix.py`` (``just matrix``) writes ``docs/matrix.md`` with the installed
peers. Cells are metadata documents, so that they do not depend on Tessarr's functions.
"""

from __future__ import annotations

import copy
import importlib
import itertools
import json
import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

import tessarr

__all__ = [
    "PAGE",
    "PEERS",
    "TABLES",
    "Cell",
    "Codec",
    "Table",
    "Type",
    "cells",
    "expected",
    "page",
    "peer_reads",
    "peer_versions",
    "read_page",
    "recorded",
    "same",
    "write",
]

PAGE = Path(__file__).parents[2] / "docs" / "matrix.md"
SHAPE, CHUNKS = (5, 6), (3, 4)

JSON = dict[str, Any]

_SMALL_INTEGERS = {"int2", "uint2", "int4", "uint4"}


# Data types


@dataclass(frozen=True)
class Type:
    """A data type in the form of a document, and elements to store."""

    name: str
    stated: Any
    fill: Any
    values: np.ndarray[Any, Any]
    kind: str
    serializer: JSON = field(default_factory=lambda: {"name": "bytes"})
    object_codec: JSON | None = None


def named(name: str, **configuration: Any) -> JSON:
    return {"name": name, **({"configuration": configuration} if configuration else {})}


def _numbers(dtype: Any) -> np.ndarray[Any, Any]:
    """Return a few small numbers that lossy codecs preserve, with runs of the fill value."""
    dtype = np.dtype(dtype)
    count = np.arange(30).reshape(SHAPE)
    if dtype.kind == "b":
        return np.asarray(count % 3 == 1)
    if dtype.kind == "c":
        return np.asarray((count % 8) + 1j * (count % 5), dtype)
    values = np.asarray(count % 13 if dtype.kind in "iu" else (count % 13) / 4, dtype)
    values[3:, 4:] = 0
    return values


def _v3_types() -> Iterator[Type]:
    little = named("bytes", endian="little")
    yield Type("bool", "bool", False, _numbers("bool"), "bool")
    for kind, bits in itertools.product(("int", "uint"), (8, 16, 32, 64)):
        yield Type(f"{kind}{bits}", f"{kind}{bits}", 0, _numbers(f"{kind}{bits}"), kind, little)
    for bits in (16, 32, 64):
        yield Type(f"float{bits}", f"float{bits}", 0.0, _numbers(f"f{bits // 8}"), "float", little)
    for bits in (64, 128):
        values = _numbers(f"c{bits // 8}")
        yield Type(f"complex{bits}", f"complex{bits}", [0.0, 0.0], values, "complex", little)
    raw = np.frombuffer(bytes(range(90)), "V3").reshape(SHAPE)
    yield Type("r24", "r24", [0, 0, 0], raw, "raw")
    yield Type("raw_bytes", named("raw_bytes", length_bytes=3), "AAAA", raw, "raw")
    text = np.array(["", "a", "bc", "dé", "日本"] * 6).reshape(SHAPE)
    yield from _v3_text(text, little)
    yield from _v3_times(little)
    yield from _v3_structs(little)
    yield from _v3_small()


def _v3_text(text: np.ndarray[Any, Any], little: JSON) -> Iterator[Type]:
    data_type = named("fixed_length_utf32", length_bytes=8)
    yield Type("fixed_length_utf32", data_type, "", text, "text", little)
    data = np.char.encode(text, "utf-8").astype("S6")
    yield Type(
        "null_terminated_bytes", named("null_terminated_bytes", length_bytes=6), "", data, "raw"
    )
    objects = text.astype(object)
    yield Type("string", "string", "", objects, "vlen", named("vlen-utf8"))
    objects = data.astype(object)
    yield Type("bytes", "bytes", "", objects, "vlen", named("vlen-bytes"))
    name = "variable_length_bytes"
    yield Type(name, name, "", objects, "vlen", named("vlen-bytes"))


def _v3_times(little: JSON) -> Iterator[Type]:
    counts = _numbers("i8")
    counts[0, 0] = -(2**63)
    for name, kind in (("numpy.datetime64", "M8"), ("numpy.timedelta64", "m8")):
        data_type = named(name, unit="ms", scale_factor=10)
        yield Type(f"{name} 10 ms", data_type, "NaT", counts.view(f"{kind}[10ms]"), "time", little)


def _v3_structs(little: JSON) -> Iterator[Type]:
    inner = [{"name": "x", "data_type": "float32"}, {"name": "y", "data_type": "uint8"}]
    fields = [
        {"name": "a", "data_type": "int16"},
        {"name": "in", "data_type": named("struct", fields=inner)},
    ]
    values = np.zeros(SHAPE, [("a", "i2"), ("in", [("x", "f4"), ("y", "u1")])])
    values["a"], values["in"]["x"] = _numbers("i2"), _numbers("f4")
    fill = {"a": 0, "in": {"x": 0.0, "y": 0}}
    yield Type("struct", named("struct", fields=fields), fill, values, "struct", little)


def _v3_small() -> Iterator[Type]:
    try:
        small = importlib.import_module("ml_dtypes")
    except ImportError:
        return
    for name in ("int2", "uint2", "int4", "uint4"):
        values = (np.arange(30).reshape(SHAPE) % 4 - (2 if name[0] == "i" else 0)).astype("i1")
        yield Type(name, name, 0, values.astype(getattr(small, name)), "small")
    little = named("bytes", endian="little")
    yield Type("bfloat16", "bfloat16", 0.0, _numbers("f4").astype(small.bfloat16), "bfloat", little)
    names = (
        *("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fnuz", "float8_e5m2"),
        *("float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"),
    )
    for name in names:
        numbers = np.array([0.5, 1, 2, 4, 1, 2] * 5).reshape(SHAPE)
        yield Type(name, name, 1.0, numbers.astype(getattr(small, name)), "float8")


def _v2_types() -> Iterator[Type]:
    yield Type("|b1", "|b1", False, _numbers("?"), "bool")
    plain = ("|i1", "<i2", ">i4", "<i8", "|u1", ">u2", "<u4", ">u8")
    for dtype in plain:
        yield Type(dtype, dtype, 0, _numbers(dtype), "int" if "i" in dtype else "uint")
    for dtype in ("<f2", ">f2", "<f4", ">f4", "<f8", ">f8"):
        yield Type(dtype, dtype, 0.0, _numbers(dtype), "float")
    for dtype in ("<c8", ">c16"):
        yield Type(dtype, dtype, [0.0, 0.0], _numbers(dtype), "complex")
    raw = np.frombuffer(bytes(range(90)), "V3").reshape(SHAPE)
    yield Type("|V3", "|V3", "AAAA", raw, "raw")
    text = np.array(["", "a", "bc", "dé", "日本"] * 6).reshape(SHAPE)
    data = np.char.encode(text, "utf-8").astype("S6")
    yield Type("|S6", "|S6", "AAAAAAAA", data, "raw")
    for dtype in ("<U2", ">U2"):
        yield Type(dtype, dtype, "", text.astype(dtype), "text")
    for dtype in ("<M8[ns]", ">M8[D]", "<m8[10ms]"):
        yield Type(dtype, dtype, 0, _numbers(dtype[0] + "i8").view(dtype), "time")
    record = np.zeros(SHAPE, [("a", "<i2"), ("b", ">f4")])
    record["a"], record["b"] = _numbers("i2"), _numbers("f4")
    yield Type("record", [["a", "<i2"], ["b", ">f4"]], "AAAAAAAA", record, "struct")
    nested = np.zeros(SHAPE, [("a", [("x", "<i2")]), ("b", "|u1", (2,))])
    nested["a"]["x"], nested["b"] = _numbers("i2"), _numbers("u1")[..., None]
    data_type = [["a", [["x", "<i2"]]], ["b", "|u1", [2]]]
    yield Type("record, nested", data_type, "AAAAAA=="[:6] + "==", nested, "struct")
    yield from _v2_objects(text.astype(object), data.astype(object))


def _v2_objects(text: np.ndarray[Any, Any], data: np.ndarray[Any, Any]) -> Iterator[Type]:
    yield Type("|O text", "|O", "", text, "vlen", object_codec={"id": "vlen-utf8"})
    yield Type("|O bytes", "|O", "", data, "vlen", object_codec={"id": "vlen-bytes"})
    lists = np.empty(SHAPE, object)
    arrays = np.empty(SHAPE, object)
    for i, j in np.ndindex(SHAPE):
        lists[i, j] = {"n": i, "list": [j, None, "é"]}
        arrays[i, j] = np.arange(i, dtype="<i4")
    yield Type("|O json", "|O", None, lists, "vlen", object_codec={"id": "json2"})
    yield Type("|O msgpack", "|O", None, lists, "vlen", object_codec={"id": "msgpack2"})
    codec = {"id": "vlen-array", "dtype": "<i4"}
    yield Type("|O arrays", "|O", None, arrays, "vlen", object_codec=codec)


# Codecs


@dataclass(frozen=True)
class Codec:
    """A column: the codecs of a document, for the data types that they support."""

    name: str
    stated: Callable[[Type], Any]
    kinds: str = "any"
    but: str = ""

    def fits(self, type_: Type) -> bool:
        if type_.name in self.but.split():
            return False
        if self.kinds == "any":
            return True
        if self.kinds == "fixed":
            return type_.kind != "vlen"
        return type_.kind in self.kinds.split()


def _after(*codecs: JSON) -> Callable[[Type], list[JSON]]:
    return lambda type_: [type_.serializer, *codecs]


def _before(*codecs: JSON) -> Callable[[Type], list[JSON]]:
    return lambda type_: [*codecs, type_.serializer]


def _sharded(location: str, *inner: JSON) -> Callable[[Type], list[JSON]]:
    index = [named("bytes", endian="little"), named("crc32c")]

    def make_codecs(type_: Type) -> list[JSON]:
        return [
            named(
                "sharding_indexed",
                chunk_shape=[3, 2],
                codecs=[type_.serializer, *inner],
                index_codecs=index,
                index_location=location,
            )
        ]

    return make_codecs


def _blosc(cname: str, shuffle: str) -> Callable[[Type], list[JSON]]:
    def make_codecs(type_: Type) -> list[JSON]:
        size = 1 if type_.kind == "vlen" else type_.values.dtype.itemsize
        codec = named("blosc", cname=cname, clevel=5, shuffle=shuffle, typesize=size, blocksize=0)
        return [type_.serializer, codec]

    return make_codecs


def _with_dtype(name: str, **members: Any) -> Callable[[Type], list[JSON]]:
    def make_codecs(type_: Type) -> list[JSON]:
        return [named(name, dtype=type_.values.dtype.str, **members), type_.serializer]

    return make_codecs


def _cast_value(type_: Type) -> list[JSON]:
    to = {"bool": "uint8", "float": "float64"}.get(type_.kind, "int64")
    return [named("cast_value", data_type=to), named("bytes", endian="little")]


def _astype(type_: Type) -> list[JSON]:
    wide = "<f8" if type_.kind == "float" else "<i8"
    codec = named("numcodecs.astype", encode_dtype=wide, decode_dtype=type_.values.dtype.str)
    return [codec, named("bytes", endian="little")]


def _scale_offset(type_: Type) -> list[JSON]:
    scale, offset = {"float": (0.5, 2.0), "int": (2, 1)}.get(type_.kind, (2, 0))
    return [named("scale_offset", scale=scale, offset=offset), type_.serializer]


V3_CORE = [
    Codec("bytes", _after()),
    Codec(
        "big-endian",
        lambda _: [named("bytes", endian="big")],
        "int uint float complex bfloat text time struct",
    ),
    Codec("transpose", _before(named("transpose", order=[1, 0]))),
    Codec("gzip", _after(named("gzip", level=5))),
    Codec("zstd", _after(named("zstd", level=3, checksum=True))),
    Codec("blosc lz4", _blosc("lz4", "shuffle")),
    Codec("blosc zstd, bits", _blosc("zstd", "bitshuffle")),
    Codec("crc32c", _after(named("crc32c"))),
    Codec("shards", _sharded("end")),
    Codec("shards, gzip, index first", _sharded("start", named("gzip", level=1))),
]
V3_EXTENSIONS = [
    Codec("bitround", _before(named("bitround", keepbits=8)), "float bfloat"),
    Codec("cast_value", _cast_value, "int float"),
    Codec("scale_offset", _scale_offset, "int uint float"),
    Codec("packbits", lambda _: [named("packbits")], "bool int uint small float8"),
    Codec("reshape", _before(named("reshape", shape=[12]))),
    Codec("zfp", lambda _: [named("zfp", mode="reversible")], "float"),
]
V3_NUMCODECS = [
    Codec("delta", _with_dtype("numcodecs.delta"), "int uint"),
    Codec(
        "fixedscaleoffset",
        _with_dtype("numcodecs.fixedscaleoffset", scale=4, offset=1, astype="<i4"),
        "float",
    ),
    Codec("quantize", _with_dtype("numcodecs.quantize", digits=3), "float"),
    Codec("astype", _astype, "int float"),
    Codec("packbits", lambda _: [named("numcodecs.packbits"), named("bytes")], "bool"),
    Codec(
        "shuffle",
        lambda t: [t.serializer, named("numcodecs.shuffle", elementsize=t.values.dtype.itemsize)],
        "fixed",
    ),
    Codec("zlib", _after(named("numcodecs.zlib", level=1))),
    Codec("bz2", _after(named("numcodecs.bz2", level=1))),
    Codec("lzma", _after(named("numcodecs.lzma", format=1, check=-1, preset=1))),
    Codec("lz4", _after(named("numcodecs.lz4", acceleration=1))),
    Codec("crc32", _after(named("numcodecs.crc32"))),
    Codec("adler32", _after(named("numcodecs.adler32"))),
    Codec("fletcher32", _after(named("numcodecs.fletcher32"))),
    Codec("jenkins", _after(named("numcodecs.jenkins_lookup3"))),
    Codec("pcodec", lambda _: [named("numcodecs.pcodec")], "int uint float", "int8 uint8"),
    Codec("zfpy", lambda _: [named("numcodecs.zfpy", mode=4, tolerance=-1)], "float", "float16"),
]


def _v2(compressor: JSON | None = None, *filters: JSON) -> Callable[[Type], JSON]:
    return lambda _: {"compressor": compressor, "filters": list(filters) or None}


def _v2_dtype(codec_id: str, **members: Any) -> Callable[[Type], JSON]:
    def make_codecs(type_: Type) -> JSON:
        codec = {"id": codec_id, "dtype": type_.values.dtype.str, **members}
        return {"compressor": None, "filters": [codec]}

    return make_codecs


V2_COMPRESSORS = [
    Codec("none", _v2()),
    Codec("order F", lambda _: {"compressor": None, "filters": None, "order": "F"}),
    Codec("blosc lz4", _v2({"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1})),
    Codec("blosc zstd, bits", _v2({"id": "blosc", "cname": "zstd", "clevel": 3, "shuffle": 2})),
    Codec("zlib", _v2({"id": "zlib", "level": 1})),
    Codec("gzip", _v2({"id": "gzip", "level": 1})),
    Codec("zstd", _v2({"id": "zstd", "level": 1})),
    Codec("bz2", _v2({"id": "bz2", "level": 1})),
    Codec("lzma", _v2({"id": "lzma", "format": 1, "check": -1, "preset": 1, "filters": None})),
    Codec("lz4", _v2({"id": "lz4", "acceleration": 1})),
]
V2_FILTERS = [
    Codec("delta", _v2_dtype("delta"), "int uint"),
    Codec(
        "fixedscaleoffset", _v2_dtype("fixedscaleoffset", scale=4, offset=1, astype="<i4"), "float"
    ),
    Codec("quantize", _v2_dtype("quantize", digits=3), "float"),
    Codec("bitround", _v2(None, {"id": "bitround", "keepbits": 8}), "float"),
    Codec(
        "astype",
        lambda t: {
            "compressor": None,
            "filters": [
                {"id": "astype", "encode_dtype": "<i8", "decode_dtype": t.values.dtype.str}
            ],
        },
        "int",
    ),
    Codec("packbits", _v2(None, {"id": "packbits"}), "bool"),
    Codec(
        "shuffle",
        lambda t: {
            "compressor": {"id": "zlib", "level": 1},
            "filters": [{"id": "shuffle", "elementsize": t.values.dtype.itemsize}],
        },
        "fixed",
    ),
    Codec("crc32", _v2(None, {"id": "crc32"})),
    Codec("crc32c", _v2(None, {"id": "crc32c"})),
    Codec("adler32", _v2(None, {"id": "adler32"})),
    Codec("fletcher32", _v2(None, {"id": "fletcher32"})),
    Codec("jenkins", _v2(None, {"id": "jenkins_lookup3"})),
    Codec("base64", _v2(None, {"id": "base64"})),
    Codec("pcodec", _v2({"id": "pcodec"}), "int uint float", "|i1 |u1 >u2 >i4 >u8 >f2 >f4 >f8"),
    Codec(
        "zfpy",
        lambda _: {
            "compressor": {"id": "zfpy", "mode": 4, "tolerance": -1, "rate": -1, "precision": -1},
            "filters": None,
        },
        "float",
        "<f2 >f2 >f4 >f8",
    ),
]


# Cells


@dataclass(frozen=True)
class Table:
    """One table of the page."""

    title: str
    zarr_format: int
    types: list[Type]
    codecs: list[Codec]


@dataclass(frozen=True)
class Cell:
    """One data type through one codec."""

    zarr_format: int
    type: Type
    codec: Codec

    def document(self) -> tuple[str, bytes]:
        """Return the name and the content of the metadata document."""
        if self.zarr_format == 3:
            document = {
                "zarr_format": 3,
                "node_type": "array",
                "shape": list(SHAPE),
                "data_type": self.type.stated,
                "chunk_grid": named("regular", chunk_shape=list(CHUNKS)),
                "chunk_key_encoding": named("default", separator="/"),
                "fill_value": self.type.fill,
                "codecs": self.codec.stated(self.type),
                "attributes": {},
            }
            return "zarr.json", json.dumps(document).encode()
        document = {
            "zarr_format": 2,
            "shape": list(SHAPE),
            "chunks": list(CHUNKS),
            "dtype": self.type.stated,
            "fill_value": self.type.fill,
            "order": "C",
            **copy.deepcopy(self.codec.stated(self.type)),
        }
        if self.type.object_codec is not None:
            document["filters"] = [self.type.object_codec, *(document["filters"] or [])]
        return ".zarray", json.dumps(document).encode()


_V3 = list(_v3_types())
_V2 = list(_v2_types())
TABLES = [
    Table("Format 3, codecs of the core", 3, _V3, V3_CORE),
    Table("Format 3, registered extensions", 3, _V3, V3_EXTENSIONS),
    Table("Format 3, codecs of numcodecs (`numcodecs.…`)", 3, _V3, V3_NUMCODECS),
    Table("Format 2, compressors", 2, _V2, V2_COMPRESSORS),
    Table("Format 2, filters and other codecs", 2, _V2, V2_FILTERS),
]


def cells(table: Table, type_: Type) -> list[Cell]:
    """Return the cells of one row."""
    return [Cell(table.zarr_format, type_, c) for c in table.codecs if c.fits(type_)]


def write(cell: Cell, path: Path) -> tessarr.Array:
    """Write the array of a cell: all of its chunks but one, which stays absent."""
    path.mkdir(parents=True)
    name, document = cell.document()
    (path / name).write_bytes(document)
    array = tessarr.open_array(path, mode="r+")
    array[:3] = cell.type.values[:3]
    array[3:, :4] = cell.type.values[3:, :4]
    return array


def expected(cell: Cell, array: tessarr.Array) -> np.ndarray[Any, Any]:
    """Return the expected elements: the values, and fill in the absent chunk."""
    values = cell.type.values.copy()
    fill = array[3, 4] if array.fill_value is None else array.fill_value
    for index in np.ndindex(2, 2):  # by element, because a fill value may be an array itself
        values[3 + index[0], 4 + index[1]] = fill
    return values


def same(actual: Any, expected_values: np.ndarray[Any, Any]) -> bool:
    """Return whether two arrays hold the same elements in any byte order."""
    actual = np.asarray(actual)
    if actual.shape != expected_values.shape:
        return False
    if expected_values.dtype.kind == "O":
        return all(
            _same_object(a, b) for a, b in zip(actual.flat, expected_values.flat, strict=True)
        )
    if actual.dtype.kind in "OT" or actual.dtype.names != expected_values.dtype.names:
        return bool(actual.tolist() == expected_values.tolist())
    if expected_values.dtype.name in _SMALL_INTEGERS:  # upper bits have no meaning
        return bool((actual.astype(int) == expected_values.astype(int)).all())
    if (
        actual.dtype.itemsize != expected_values.dtype.itemsize
        and actual.dtype.kind != expected_values.dtype.kind
    ):
        return False
    return actual.astype(expected_values.dtype).tobytes() == expected_values.tobytes()


def _same_object(actual: Any, expected: Any) -> bool:
    if isinstance(expected, np.ndarray):
        return bool(np.array_equal(actual, expected))
    if isinstance(expected, bytes):
        return bytes(actual) == expected
    return bool(actual == expected)


# Peers


def _zarr_python(path: Path, cell: Cell) -> Any:
    return importlib.import_module("zarr").open_array(path, mode="r")[...]


def _tensorstore(path: Path, cell: Cell) -> Any:
    spec = {
        "driver": "zarr3" if cell.zarr_format == 3 else "zarr2",
        "kvstore": {"driver": "file", "path": str(path)},
    }
    tensorstore = importlib.import_module("tensorstore")
    values = np.asarray(tensorstore.open(spec, open=True).result().read().result())
    if values.dtype.itemsize == 0:
        raise TypeError("bytes come as elements without a size, which say nothing")
    return values


def _zarrs(path: Path, cell: Cell) -> Any:
    zarrista = importlib.import_module("zarrista")
    store = importlib.import_module("zarrista.store").FilesystemStore(path)
    values = zarrista.Array.open(store).retrieve_array_subset((slice(0, 5), slice(0, 6)))
    try:
        return values.to_numpy()
    except TypeError:  # zarrs decoded it; the bindings lack its NumPy name
        dtype = cell.type.values.dtype.newbyteorder("=")
        return np.frombuffer(values.buffer(), dtype).reshape(SHAPE)


PEERS: dict[str, tuple[str, Callable[[Path, Cell], Any]]] = {
    "zarr-python": ("zarr", _zarr_python),
    "TensorStore": ("tensorstore", _tensorstore),
    "zarrs": ("zarrista", _zarrs),
}
"""The peers: their packages, and how they read an array in a folder."""


def peer_versions() -> dict[str, str]:
    """Return the versions of the installed peers."""
    versions = {}
    for peer, (package, _) in PEERS.items():
        try:
            versions[peer] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def peer_reads(
    peer: str, path: Path, cell: Cell, expected_values: np.ndarray[Any, Any]
) -> bool | None:
    """Return whether a peer reads the elements (true), others (false) or refuses (None)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values = PEERS[peer][1](path, cell)
        return same(values, expected_values)
    except Exception:  # peers refuse with errors of every class
        return None
    except BaseException as error:  # a panic of zarrs is no Exception
        if type(error).__name__ != "PanicException":
            raise
        return None


# The page

_HEAD = """\
# Data types and codecs

This page is generated (`just matrix`). For each data type and codec, Tessarr writes an array and
reads it back (✓). Each letter after ✓ is another library that reads the same elements:
{versions}.
A library without a letter refuses the array or lacks the data type or codec. "≠" precedes libraries
that return other elements; the last section gives the reasons. Empty cells are invalid
combinations.
"""

_LETTERS = {"zarr-python": "z", "TensorStore": "t", "zarrs": "r"}


_NOTES = """
## Differences in other libraries

- t, float8_e8m0fnu: for an absent chunk, TensorStore reads the fill value 1 as 2⁻⁶⁴.
- r, fixedscaleoffset of big-endian numbers: zarrs swaps the bytes of the stored integers, although
  `astype` defines their byte order.
"""


def _mark(cell: Cell, folder: Path, peers: dict[str, str]) -> str:
    array = write(cell, folder)
    expected_values = expected(cell, array)
    if not same(tessarr.open_array(folder, mode="r")[...], expected_values):
        raise AssertionError(f"{cell.type.name} through {cell.codec.name} is not what was written")
    results = {peer: peer_reads(peer, folder, cell, expected_values) for peer in peers}
    good = "".join(_LETTERS[peer] for peer, result in results.items() if result)
    wrong = "".join(_LETTERS[peer] for peer, result in results.items() if result is False)
    return f"✓ {good}".strip() + (f" ≠{wrong}" if wrong else "")


def page() -> str:
    """Write and read every cell, and return the text of the page."""
    logging.disable(logging.CRITICAL)
    peers = peer_versions()
    versions = ", ".join(f"{_LETTERS[peer]} {peer} {number}" for peer, number in peers.items())
    parts = [_HEAD.format(versions=versions or "none of which were installed")]
    with tempfile.TemporaryDirectory() as root:
        folders = (Path(root) / str(count) for count in itertools.count())
        for table in TABLES:
            parts.append(f"\n## {table.title}\n")
            columns = [codec.name for codec in table.codecs]
            parts.append(f"| | {' | '.join(columns)} |")
            parts.append("|---" * (len(columns) + 1) + "|")
            for type_ in table.types:
                row = {cell.codec.name: cell for cell in cells(table, type_)}
                if row:
                    marks = [
                        _mark(row[name], next(folders), peers) if name in row else ""
                        for name in columns
                    ]
                    name = type_.name.replace("|", "\\|")
                    parts.append(f"| {name} | {' | '.join(marks)} |")
    return "\n".join(parts) + "\n" + _NOTES


def read_page() -> tuple[dict[str, str], dict[tuple[str, str, str], str]]:
    """Return the page's records: versions of peers, and marks by table, data type and codec."""
    versions: dict[str, str] = {}
    marks: dict[tuple[str, str, str], str] = {}
    title, columns = "", []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        for peer, letter in _LETTERS.items():
            start = line.find(f"{letter} {peer} ")
            if start >= 0 and not title:
                versions[peer] = line[start:].split()[2].rstrip(",.")
        if line.startswith("## "):
            title = line[3:]
        elif line.startswith("| | "):
            columns = [column.strip() for column in line.split("|")[2:-1]]
        elif line.startswith("| "):
            name, *cells = line.replace("\\|", "\0").strip("|").split("|")
            name = name.strip().replace("\0", "|")
            for column, mark in zip(columns, cells, strict=True):
                marks[title, name, column] = mark.strip()
    return versions, marks


def recorded(
    marks: dict[tuple[str, str, str], str], table: Table, cell: Cell, peer: str
) -> bool | None:
    """Return the page's record of a peer, in the form of `peer_reads`."""
    good, _, wrong = marks[table.title, cell.type.name, cell.codec.name].partition("≠")
    if _LETTERS[peer] in good:
        return True
    return False if _LETTERS[peer] in wrong else None


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
