"""Third-party extensions: entry points, plug-in keys, stores by URL, unknown names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr.errors import ArgumentError, UnsupportedError
from tessarr.extensions import ChunkKeyEncoding, Members, register_key_encoding, register_store
from tessarr.format import hints
from tessarr.stores import MemoryStore

MODULE = """
from dataclasses import dataclass

import numpy as np

from tessarr.extensions import (
    BytesBytesCodec, ChunkGrid, ChunkKeyEncoding, Cuts, DataType, StorageTransformer, deliver,
)

print("loaded")


@dataclass(frozen=True)
class Xor(BytesBytesCodec):
    name = "lab.xor"
    mask: int = 255

    def encode(self, data):
        return np.frombuffer(data, "u1") ^ np.uint8(self.mask)

    def decode(self, data, out=None):
        return deliver(self.encode(data), out)


class Cents(DataType):
    v3_names = ("lab.cents",)
    name = "lab.cents"

    @classmethod
    def from_v3(cls, name, configuration):
        configuration.done()
        return cls(np.dtype("i8"))

    def fill_from_json(self, value, zarr_format, loc, problems):
        return self.cast_fill(value)

    def fill_to_json(self, fill, zarr_format):
        return f"{self.scalar(fill) / 100:.2f}"

    def cast_fill(self, value):
        return np.array(round(float(value) * 100), self.numpy).tobytes()


class Plain:
    @classmethod
    def from_json(cls, configuration):
        configuration.done()
        return cls()

    def to_json(self):
        return {"name": self.name}


class Halves(Plain, ChunkGrid):
    name = "lab.grid"
    cuts = (Cuts(((8, 1), (4, 1), (2, 1))),)


class Reversed(Plain, ChunkKeyEncoding):
    name = "lab.keys"

    def encode(self, cell):
        return "k" + "".join(map(str, reversed(cell)))

    def decode(self, key, rank):
        return (int(key[1:]),) if key[:1] == "k" and key[1:].isdigit() else None


class Below(Plain, StorageTransformer):
    name = "lab.below"

    def key(self, key):
        return "below/" + key

    def original(self, key):
        return key.removeprefix("below/")


shelf = {}


def open_shelf(url, *, read_only):
    return shelf, url.removeprefix("shelf://")
"""

ENTRY_POINTS = """
[tessarr.codecs]
lab.xor = lab_extensions:Xor
lab.broken = lab_extensions:Missing
[tessarr.data_types]
lab.cents = lab_extensions:Cents
[tessarr.chunk_grids]
lab.grid = lab_extensions:Halves
[tessarr.chunk_key_encodings]
lab.keys = lab_extensions:Reversed
[tessarr.storage_transformers]
lab.below = lab_extensions:Below
[tessarr.stores]
shelf = lab_extensions:open_shelf
"""

PROGRAM = """
import numpy as np
import tessarr

a = tessarr.create_array(None, shape=3, dtype="u1")
a[:] = 1
print("not yet")
codec = {"name": "lab.xor", "configuration": {"mask": 3}}
a = tessarr.create_array(
    "shelf://a", shape=17, dtype="i8", chunks={"name": "lab.grid"}, compressors=[codec],
    chunk_key_encoding="lab.keys", storage_transformers=["lab.below"],
)
a[:] = np.arange(17)
from lab_extensions import shelf
print(*sorted(shelf))
again = tessarr.open_array("shelf://a", mode="r")
assert (again[:] == np.arange(17)).all(), again[:]
assert again.chunks == ((8, 4, 2, 2, 1),) and again.nchunks_initialized == 5
assert repr(again.compressors) == "(Xor(mask=3),)"
try:
    tessarr.create_array(None, shape=3, dtype="u1", compressors="lab.broken")
except tessarr.errors.UnsupportedError as error:
    print(error.kind, error.extension)
document = again.store.get("a/zarr.json").replace(b'"int64"', b'"lab.cents"')
document = document.replace(b'"fill_value": 0', b'"fill_value": "2.50"')
cents = tessarr.open_array({"zarr.json": document})
print(cents.metadata.data_type, cents[0])
"""


@pytest.mark.slow
def test_extension_entry_point_is_loaded(tmp_path: Path) -> None:
    """An installed package provides all six extension points without an import by the user."""
    (tmp_path / "lab_extensions.py").write_text(MODULE, encoding="utf-8")
    info = tmp_path / "lab_extensions-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: lab-extensions\nVersion: 1.0\n", encoding="utf-8"
    )
    (info / "entry_points.txt").write_text(ENTRY_POINTS, encoding="utf-8")
    package = str(Path(tessarr.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(PROGRAM)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), package])},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "not yet",
        "loaded",
        "a/below/k0 a/below/k1 a/below/k2 a/below/k3 a/below/k4 a/zarr.json zarr.json",
        "missing_package lab.broken",
        "lab.cents 250",
    ]


@register_key_encoding
@dataclass(frozen=True)
class Morton(ChunkKeyEncoding):
    """A key encoding of two-dimensional grids in Morton order, up to 16 × 16."""

    name = "tests.morton"
    fault: str = ""

    @classmethod
    def from_json(cls, configuration: Members) -> Morton:
        configuration.done()
        return cls()

    def to_json(self) -> Any:
        return {"name": self.name}

    def encode(self, cell: Any) -> str:
        if self.fault:
            return self.fault
        places = (
            (axis >> bit & 1) << 2 * bit + i for i, axis in enumerate(cell) for bit in range(4)
        )
        return f"m{sum(places)}"

    def decode(self, key: str, rank: int) -> tuple[int, ...] | None:
        if key[:1] != "m" or not key[1:].isdigit():
            return None
        number = int(key[1:])
        return tuple(
            sum(((number >> (2 * bit + i)) & 1) << bit for bit in range(4)) for i in (0, 1)
        )


@pytest.mark.parametrize("chunks", [(2, 3), [[1, 3, 2, 2], 3]])
def test_user_key_encoding_names_chunks(chunks: Any) -> None:
    a = tessarr.create_array(
        None, shape=(8, 9), dtype="i4", chunks=chunks, chunk_key_encoding="tests.morton"
    )
    values = np.arange(1, 73, dtype="i4").reshape(8, 9)
    a[:] = values
    expected = {Morton().encode((i, j)) for i in range(4) for j in range(3)}
    assert set(a.store.list("")) == expected | {"zarr.json"}
    again = tessarr.open_array(a.store)
    np.testing.assert_array_equal(again[:], values)
    assert again.metadata.chunk_key_encoding == Morton()
    assert again.nchunks_initialized == 12
    again.resize(3, 3)
    assert again.nchunks_initialized == len(a.store.list("")) - 1 == 2
    again.append(values[:2, :3])
    np.testing.assert_array_equal(again[3:], values[:2, :3])


@pytest.mark.parametrize(
    ("fault", "error"),
    [("zarr.json", ArgumentError), ("../x", ArgumentError), ("", None), (3, TypeError)],
)
def test_invalid_user_key_encoding_raises(fault: Any, error: Any) -> None:
    """Keys of plug-ins can neither overwrite the metadata nor leave the array."""
    a = tessarr.create_array(None, shape=3, dtype="u1", chunk_key_encoding=Morton(fault), path="a")
    before = a.store.get("a/zarr.json")
    if error is None:
        a[:] = 1
    else:
        with pytest.raises(error):
            a[:] = 1
    assert a.store.get("a/zarr.json") == before


class Half:
    """A store whose methods raise a ConnectionError, or are missing."""

    def get(self, key: str) -> None:
        raise ConnectionError("no connection")

    put = delete = list = get


def test_registered_store_opens_by_url_scheme() -> None:
    items: dict[str, bytes] = {}
    store = MemoryStore()

    @register_store("tests")
    def open_tests(url: str, *, read_only: bool) -> Any:
        kind, _, path = url.removeprefix("tests://").partition("/")
        return {"dict": items, "store": (store, path), "half": (Half(), path)}[kind]

    tessarr.create_array("tests://dict", shape=3, dtype="u1")
    assert list(items) == ["zarr.json"]
    a = tessarr.create_array("tests://store/a//b/", shape=3, dtype="u1")
    assert (a.store, a.path) == (store, "a/b")
    with pytest.raises(tessarr.errors.ReadOnlyError):
        tessarr.open_array("tests://dict", mode="r")[:] = 1
    with pytest.raises(ConnectionError, match="no connection"):
        tessarr.open_array("tests://half/a")
    with pytest.raises(UnsupportedError, match="'nowhere' are not supported") as caught:
        tessarr.open_array("nowhere://a")
    assert caught.value.extension == "nowhere"


def document(**members: Any) -> dict[str, bytes]:
    a = tessarr.create_array(None, shape=3, dtype="u1", compressors=None)
    document_value = json.loads(a.store.get("zarr.json") or b"")
    return {"zarr.json": json.dumps({**document_value, **members}).encode()}


UNKNOWN = {"name": "lab.unheard_of", "configuration": {"a": [1, {"b": None}]}}
POINTS = {
    "data_type": ("unsupported_data_type", lambda unknown: unknown),
    "chunk_grid": ("unsupported_chunk_grid", lambda unknown: unknown),
    "chunk_key_encoding": ("unsupported_chunk_key_encoding", lambda unknown: unknown),
    "codecs": ("unsupported_codec", lambda unknown: ["bytes", unknown]),
    "storage_transformers": ("unsupported_storage_transformer", lambda unknown: [unknown]),
}


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("form", ["bare", "object", "true", "false"])
def test_unknown_extension_error_has_name(point: str, form: str) -> None:
    """V3-EXT-02 to 08: all forms, and the effect of ``must_understand``."""
    kind, put = POINTS[point]
    unknown: Any = {
        "bare": "lab.unheard_of",
        "object": UNKNOWN,
        "true": {**UNKNOWN, "must_understand": True},
        "false": {**UNKNOWN, "must_understand": False},
    }[form]
    items = document(**{point: put(unknown)})
    if form == "false" and point in {"codecs", "storage_transformers"}:
        a = tessarr.open_array(items)
        a[:] = [1, 2, 3]
        a.attrs["x"] = 1
        a.resize(4)
        assert json.loads(items["zarr.json"])[point] == put(unknown)
        assert tessarr.open_array(items)[:].tolist() == [1, 2, 3, 0]
        return
    with pytest.raises(UnsupportedError, match=r"'lab\.unheard_of' is not supported") as caught:
        tessarr.open_array(items)
    assert caught.value.extension == "lab.unheard_of"
    assert caught.value.kind == kind
    assert f"/{point}" in str(caught.value)


@pytest.mark.parametrize("group", [False, True])
def test_unknown_optional_members_survive_edits(group: bool) -> None:
    """V3-EXT-06 and V3-EXT-12."""
    extra = {"must_understand": False, "deep": [1, {"x": None}]}
    if group:
        items = {
            "zarr.json": json.dumps({"zarr_format": 3, "node_type": "group", "lab": extra}).encode()
        }
        tessarr.open_group(items).attrs["x"] = 1
    else:
        items = document(lab=extra)
        a = tessarr.open_array(items)
        a.attrs["x"] = 1
        a.append([1, 2])
    assert json.loads(items["zarr.json"])["lab"] == extra


def test_unknown_extension_error_has_install_hint() -> None:
    v2 = {
        ".zarray": json.dumps(
            {
                "zarr_format": 2, "shape": [3], "chunks": [3], "dtype": "|u1", "fill_value": 0,
                "order": "C", "filters": None, "compressor": {"id": "imagecodecs_jpegxl"},
            }
        ).encode()
    }  # fmt: skip
    with pytest.raises(UnsupportedError, match="pip install imagecodecs-numcodecs"):
        tessarr.open_array(v2)
    with pytest.raises(UnsupportedError, match="pip install kerchunk"):
        tessarr.create_array(None, shape=3, dtype="u1", compressors={"id": "grib"})
    assert hints.extension_hint("lab.unheard_of") == ""
