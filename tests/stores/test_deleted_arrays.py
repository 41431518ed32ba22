"""Open arrays whose folder vanishes, and chunks under keys of another encoding."""

from __future__ import annotations

import os
import pickle
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr import stores
from tessarr.errors import NotFoundError, StoreError
from tessarr.extensions import ChunkKeyEncoding, Members, register_key_encoding
from tessarr.types import ZarrFormat


@pytest.fixture(params=[2, 3])
def zarr_format(request: pytest.FixtureRequest) -> ZarrFormat:
    """Return a format."""
    form: ZarrFormat = request.param
    return form


def opened(folder: Path, zarr_format: ZarrFormat, origin: str) -> Any:
    """Return a 4×4 array in a folder, with half of its chunks stored."""
    group = tessarr.create_group(folder, zarr_format=zarr_format)
    array = group.create_array("g/a", shape=(4, 4), chunks=2, dtype="i4", fill_value=7)
    array[:2] = 1
    if origin == "created":
        return array
    if origin == "opened":
        return tessarr.open_array(folder / "g" / "a", mode="r+")
    if origin == "constructor":
        return tessarr.Array(folder, "g/a")
    if origin == "pickled":
        return pickle.loads(pickle.dumps(group.get_array("g/a")))
    if origin == "consolidated":
        tessarr.consolidate_metadata(folder)
        return tessarr.open_group(folder, use_consolidated=True).get_array("g/a")
    return group.get_array("g/a").with_config({})


ORIGINS = ["created", "opened", "constructor", "pickled", "consolidated", "configured"]


@pytest.mark.parametrize("origin", ORIGINS)
def test_read_and_write_of_vanished_array_raise(
    tmp_path: Path, zarr_format: ZarrFormat, origin: str
) -> None:
    """An absent folder neither reads as the fill value nor receives a chunk."""
    array = opened(tmp_path / "store", zarr_format, origin)
    assert array[3, 3] == 7  # an absent chunk
    (tmp_path / "store" / "g" / "a").rename(tmp_path / "moved")
    reads: list[Any] = [lambda: array[:], lambda: array[3, 3], lambda: array.read(...).result()]
    for read in reads:
        with pytest.raises(NotFoundError, match="vanished") as caught:
            read()
        assert caught.value.kind == "array_not_found"
    for value in (2, 7):
        with pytest.raises(NotFoundError, match="vanished"):
            array[:] = value
        with pytest.raises(NotFoundError, match="vanished"):
            array[:1] = value
        with pytest.raises(NotFoundError, match="vanished"):
            array.write(..., value).result()
    assert not (tmp_path / "store" / "g" / "a").exists()
    (tmp_path / "moved").rename(tmp_path / "store" / "g" / "a")
    assert array[:2].tolist() == [[1] * 4] * 2
    assert array[3, 3] == 7


def test_read_of_empty_mount_point_raises(tmp_path: Path, zarr_format: ZarrFormat) -> None:
    """The folder exists and is empty."""
    array = tessarr.create_array(
        tmp_path / "a", data=np.arange(6), chunks=2, zarr_format=zarr_format
    )
    shutil.rmtree(tmp_path / "a")
    (tmp_path / "a").mkdir()
    with pytest.raises(NotFoundError, match="unmounted"):
        array[:]
    with pytest.raises(NotFoundError, match="unmounted"):
        array[0] = 1
    assert list((tmp_path / "a").iterdir()) == []


def test_read_of_deleted_array_raises(tmp_path: Path) -> None:
    """After a group deletes an array, its open handles raise errors."""
    group = tessarr.create_group(tmp_path)
    array = group.create_array("a", data=np.arange(6), chunks=2)
    del group["a"]
    with pytest.raises(NotFoundError, match="vanished"):
        array[:]


def test_read_of_array_with_other_chunk_store_needs_its_document(tmp_path: Path) -> None:
    """The store of the metadata must exist; the store of the chunks need not."""
    array = tessarr.create_array(
        tmp_path / "a", shape=3, dtype="i1", chunk_store=stores.LocalStore(tmp_path / "chunks")
    )
    assert array[:].tolist() == [0, 0, 0]
    shutil.rmtree(tmp_path / "a")
    with pytest.raises(NotFoundError, match="vanished"):
        array[:]


def renamed(folder: Path, key: str, other: str) -> None:
    """Rename a chunk, and remove the folders that become empty."""
    (folder / other).parent.mkdir(parents=True, exist_ok=True)
    (folder / key).rename(folder / other)


@pytest.mark.parametrize(
    ("zarr_format", "separator", "stored", "other"),
    [
        (2, ".", "1.1", "1/1"),
        (2, "/", "1/1", "1.1"),
        (3, "/", "c/1/1", "c.1.1"),
        (3, ".", "c.1.1", "c/1/1"),
    ],
)
def test_read_of_chunk_under_other_separator_raises(
    tmp_path: Path, zarr_format: ZarrFormat, separator: Any, stored: str, other: str
) -> None:
    """The error names both keys, also if the first missing chunks have no key at all."""
    array = tessarr.create_array(
        tmp_path,
        shape=(4, 4),
        chunks=2,
        dtype="i4",
        zarr_format=zarr_format,
        dimension_separator=separator,
    )
    assert array[:].tolist() == [[0] * 4] * 4
    array[2:, 2:] = 5
    renamed(tmp_path, stored, other)
    array = tessarr.open_array(tmp_path, mode="r+")
    for access in (lambda: array[:], lambda: array.__setitem__((3, 3), 1)):
        with pytest.raises(StoreError, match="separator") as caught:
            access()
        assert f'"{stored}"' in str(caught.value)
        assert f'"{other}"' in str(caught.value)
    assert not (tmp_path / stored).exists()
    array[2:, 2:] = 6  # reads nothing
    assert array[3, 3] == 6


@register_key_encoding
@dataclass(frozen=True)
class PlusKeys(ChunkKeyEncoding):
    """Key encoding that joins the coordinates with a plus sign."""

    name = "tests.plus"

    @classmethod
    def from_json(cls, configuration: Members) -> PlusKeys:
        configuration.done()
        return cls()

    def to_json(self) -> Any:
        return {"name": self.name}

    def encode(self, cell: Any) -> str:
        return "+".join(map(str, cell))

    def decode(self, key: str, rank: int) -> tuple[int, ...] | None:
        parts = key.split("+")
        return tuple(map(int, parts)) if all(part.isdigit() for part in parts) else None


ENCODINGS: dict[str, dict[str, Any]] = {
    f"{name} {separator}": {"name": name, "separator": separator}
    for name in ("default", "v2")
    for separator in "/."
}


def key_of(encoding: str, cell: tuple[int, ...]) -> str:
    """Return the key of a chunk."""
    name, separator = encoding.split()
    return separator.join([*(["c"] if name == "default" else []), *map(str, cell)]) or "0"


def sparse(folder: Path, encoding: str, shape: tuple[int, ...]) -> tessarr.Array:
    """Create an array of format 3 with chunks of one element along each axis."""
    return tessarr.create_array(
        folder,
        shape=shape,
        chunks=(1,) * len(shape),
        dtype="i1",
        chunk_key_encoding=ENCODINGS[encoding],
        compressors=None,
    )


def store_chunk(folder: Path, key: str) -> None:
    """Store a file under a key."""
    (folder / key).parent.mkdir(parents=True, exist_ok=True)
    (folder / key).write_bytes(b"1")


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
@pytest.mark.parametrize("stored", ENCODINGS)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_read_of_chunk_under_other_key_encoding_raises(
    tmp_path: Path, encoding: str, stored: str, rank: int
) -> None:
    """A read of any missing chunk raises the error, unless both encodings give the same key."""
    cell = (2, 1, 0)[:rank]
    sparse(tmp_path, encoding, (3,) * rank)
    own, other = key_of(encoding, cell), key_of(stored, cell)
    store_chunk(tmp_path, other)
    array = tessarr.open_array(tmp_path)
    if own == other:
        assert array[(0,) * rank] == (0 if rank else ord("1"))
        return
    for _ in range(2):
        with pytest.raises(StoreError, match="metadata") as caught:
            array[(0,) * rank]
        assert f'"{own}"' in str(caught.value)
        assert f'"{other}"' in str(caught.value)
    (tmp_path / own).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / other).rename(tmp_path / own)
    assert tessarr.open_array(tmp_path)[cell] == ord("1")


@pytest.mark.parametrize(("separator", "stored"), [(".", "60/0"), ("/", "60.0")])
def test_read_of_sparse_array_under_other_separator_raises(
    tmp_path: Path, separator: Any, stored: str
) -> None:
    """A stored row under the other separator is far from the requested row."""
    tessarr.create_array(
        tmp_path,
        shape=(100, 10),
        chunks=(1, 10),
        dtype="i1",
        zarr_format=2,
        dimension_separator=separator,
    )
    store_chunk(tmp_path, stored)
    array = tessarr.open_array(tmp_path, mode="r+")
    for access in (lambda: array[0], lambda: array.__setitem__((99, 9), 1)):
        with pytest.raises(StoreError, match=f'but one is under "{stored}"'):
            access()


def test_read_of_array_with_chunks_under_both_encodings_holds(tmp_path: Path) -> None:
    """A chunk under both keys is no error; nor is a key outside of the array."""
    array = sparse(tmp_path, "default /", (3, 3))
    array[2, 1] = 5
    store_chunk(tmp_path, "2.1")
    store_chunk(tmp_path, "3.0")
    store_chunk(tmp_path, "0.18446744073709551615")
    store_chunk(tmp_path, "notes.txt")
    store_chunk(tmp_path, "1/notes")
    (tmp_path / "0" / "0").mkdir(parents=True)  # an empty folder
    array = tessarr.open_array(tmp_path)
    assert array[0].tolist() == [0, 0, 0]
    assert array[2, 1] == 5


def test_read_of_array_with_registered_key_encoding_checks_no_keys(tmp_path: Path) -> None:
    """The search covers only the encodings of the specifications."""
    array = tessarr.create_array(
        tmp_path, shape=(2, 2), chunks=1, dtype="i1", chunk_key_encoding="tests.plus"
    )
    store_chunk(tmp_path, "c/1/1")
    assert not array[:].any()
    array[1, 1] = 1
    assert (tmp_path / "1+1").exists()


def test_read_of_missing_chunks_searches_keys_once_and_within_bounds(tmp_path: Path) -> None:
    """An open array searches once; more than a thousand chunks of its own end the search."""
    array = tessarr.create_array(
        tmp_path, shape=(1, 1000), chunks=1, dtype="i1", dimension_separator="."
    )
    assert not array[:].any()
    store_chunk(tmp_path, "c/0/99")
    assert not array[:].any()
    with pytest.raises(StoreError, match="separator"):
        tessarr.open_array(tmp_path)[0, 99]


def test_folder_or_pipe_at_path_of_chunk_raises(tmp_path: Path) -> None:
    """A pipe or a folder with files at a chunk's path raises an error; an empty folder does not."""
    array = tessarr.create_array(tmp_path, shape=6, chunks=2, dtype="i1")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "c" / "0").mkdir(parents=True)
    (tmp_path / "c" / "1" / "deep").mkdir(parents=True)
    (tmp_path / "pipe").rename(tmp_path / "c" / "2")
    assert array[:2].tolist() == [0, 0]
    assert array[2:4].tolist() == [0, 0]
    (tmp_path / "c" / "1" / "deep" / "file").write_bytes(b"1")
    with pytest.raises(StoreError, match="folder with files"):
        array[2:4]
    with pytest.raises(StoreError, match="pipe"):
        array[4:]
    with pytest.raises(StoreError, match="pipe"):
        array[4] = 1


@pytest.mark.parametrize("stored", ENCODINGS)
def test_copy_of_array_with_chunks_under_other_key_encoding_raises(
    tmp_path: Path, stored: str
) -> None:
    """Copies detect all four encodings, in every store."""
    encoding = "v2 /" if stored == "default /" else "default /"
    sparse(tmp_path / "a", encoding, (3, 3))
    store_chunk(tmp_path / "a", key_of(stored, (2, 1)))
    store = stores.MemoryStore(dict(stores.LocalStore(tmp_path / "a").items()))
    with pytest.raises(StoreError, match=r'"(default|v2)"'):
        tessarr.copy_to(store, tmp_path / "copy")


@pytest.mark.parametrize("settings", [{}, {"chunks": 4}, {"zarr_format": 3}])
def test_copy_of_array_with_chunks_under_other_separator_raises(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    """Copies raise an error with and without decoding, in every store."""
    source = tessarr.create_array(tmp_path / "a", data=np.ones((4, 4)), chunks=2, zarr_format=2)
    for cell in ("0.0", "0.1", "1.0", "1.1"):
        renamed(tmp_path / "a", cell, cell.replace(".", "/"))
    items = {key: source.store[key] for key in source.store}
    for name, array in (("folder", source), ("mapping", tessarr.open_array(items))):
        with pytest.raises(StoreError, match="separator"):
            tessarr.copy_to(array, tmp_path / name, **settings)
        assert not list((tmp_path / name).rglob("*.0"))


def test_chunks_of_both_formats_are_no_error(tmp_path: Path, zarr_format: ZarrFormat) -> None:
    """An array that was converted beside its old documents has chunks of both formats."""
    path = tmp_path / "a.zarr"
    tessarr.create_array(path, data=[1, 2, 3, 4], chunks=2, zarr_format=zarr_format)
    new: Any = 5 - zarr_format
    tessarr.convert(path, to=new, move_chunks=True, keep=True)
    array = tessarr.open_array(path, mode="r+", zarr_format=new)
    array[:2] = 0
    assert array[:].tolist() == [0, 0, 3, 4]
    assert tessarr.open_array(path, mode="r", zarr_format=new)[:].tolist() == [0, 0, 3, 4]
