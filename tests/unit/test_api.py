"""Opening and creating: modes, formats, arguments."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr.errors import (
    ArgumentError,
    ExistsError,
    MetadataError,
    NotFoundError,
    ReadOnlyError,
    StoreError,
    UnsupportedError,
)
from tessarr.stores import LocalStore, MemoryStore

OPENERS: dict[str, Any] = {
    "open": lambda store, mode: tessarr.open(store, mode, shape=3),
    "open_array": lambda store, mode: tessarr.open_array(store, mode, shape=3),
    "open_group": tessarr.open_group,
}


@pytest.fixture(params=sorted(OPENERS))
def opener(request: pytest.FixtureRequest) -> Any:
    return OPENERS[request.param]


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_open_of_missing_node_raises(opener: Any, store: Any, mode: Any) -> None:
    for error in (NotFoundError, FileNotFoundError, KeyError, ValueError):
        with pytest.raises(error):
            opener(store, mode)
    assert store.list("") == []


@pytest.mark.parametrize("mode", ["a", "w", "w-", "x"])
def test_is_created(opener: Any, store: Any, mode: Any) -> None:
    node = opener(store, mode)
    assert not node.read_only
    assert tessarr.open(store, "r") == node


@pytest.mark.parametrize("mode", ["w-", "x"])
def test_must_not_exist(opener: Any, store: Any, mode: Any) -> None:
    node = opener(store, "w")
    node.attrs["x"] = 1
    for error in (ExistsError, FileExistsError, KeyError, ValueError):
        with pytest.raises(error):
            opener(store, mode)
    assert tessarr.open(store).attrs["x"] == 1


@pytest.mark.parametrize(("mode", "read_only"), [("r", True), ("r+", False), ("a", False)])
def test_open_existing_node_keeps_it(opener: Any, store: Any, mode: Any, read_only: bool) -> None:
    opener(store, "w").attrs["x"] = 1
    again = opener(store, mode)
    assert again.attrs["x"] == 1
    assert again.read_only is read_only


def test_open_mode_w_deletes_old_node(opener: Any, store: Any) -> None:
    tessarr.create_group(store).create_array("old/array", shape=1)
    node = opener(store, "w")
    assert store.list("") == ["zarr.json"]
    assert dict(node.attrs) == {}


def test_unknown_mode(opener: Any, store: Any) -> None:
    with pytest.raises(ArgumentError, match="mode 'rw'"):
        opener(store, "rw")


def test_open_without_shape_creates_group(store: Any) -> None:
    assert isinstance(tessarr.open(store), tessarr.Group)
    assert isinstance(tessarr.open(store, "w", data=[1, 2]), tessarr.Array)


def test_open_of_other_node_kind_is_refused(store: Any) -> None:
    tessarr.create_group(store, path="g")
    tessarr.create_array(store, path="a", shape=1)
    for mode in ("r", "r+", "a"):
        with pytest.raises(NotFoundError, match="open_group"):
            tessarr.open_array(store, mode, path="g", shape=1)
        with pytest.raises(NotFoundError, match="open_array"):
            tessarr.open_group(store, mode, path="a")
    with pytest.raises(ExistsError):
        tessarr.open_array(store, "w-", path="g", shape=1)


def test_open_array_without_shape_raises(store: Any) -> None:
    with pytest.raises(NotFoundError):
        tessarr.open_array(store)
    with pytest.raises(TypeError, match="shape"):
        tessarr.open_array(store, "w")
    assert store.list("") == []


def test_read_only_store_refuses_writes(tmp_path: Path) -> None:
    tessarr.create_array(tmp_path / "s", path="a", shape=1)
    store = LocalStore(tmp_path / "s", read_only=True)
    assert tessarr.open_array(store, path="a").read_only
    assert tessarr.open_array(store, "r+", path="a").read_only
    with pytest.raises(ReadOnlyError):
        tessarr.create_array(store, path="new", shape=1)
    with pytest.raises(NotFoundError):
        tessarr.open_array(store, path="new", shape=1)


def test_reading_creates_no_folder(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="nowhere"):
        tessarr.open(tmp_path / "nowhere", "r")
    assert list(tmp_path.iterdir()) == []


def test_stores_are_accepted_in_every_form(tmp_path: Path) -> None:
    path = tmp_path / "my data"
    tessarr.create_array(path, path="a", data=[1, 2])
    for store in (path, str(path), path.as_uri(), LocalStore(path)):
        assert tessarr.open_array(store, "r", path="a")[1] == 2
        assert tessarr.open_array(store, "r", path="/a/")[1] == 2
    tessarr.create_array("memory://spelling/b", data=[3])
    assert tessarr.open_group("memory://spelling")["b"][0] == 3
    with pytest.raises(UnsupportedError):
        tessarr.open("gopher://x")
    with pytest.raises(TypeError):
        tessarr.open(3.5)  # type: ignore[arg-type]


def test_open_finds_or_takes_format(store: Any, zarr_format: Any) -> None:
    tessarr.create_array(store, path="a", shape=1, zarr_format=zarr_format)
    assert tessarr.open(store, path="a").zarr_format == zarr_format
    assert tessarr.open(store, path="a", zarr_format=zarr_format).zarr_format == zarr_format
    for opener in (tessarr.open, tessarr.open_array, tessarr.open_group):
        with pytest.raises(NotFoundError):
            opener(store, "r", path="a", zarr_format=5 - zarr_format)


@pytest.mark.parametrize("document", [b"", b"{}", b'{"zarr_format": 4, "node_type": "array"}'])
def test_broken_document_is_error_in_every_mode_but_w(opener: Any, document: bytes) -> None:
    for mode in ("r", "r+", "a", "w-"):
        store = MemoryStore({"zarr.json": document})
        with pytest.raises((MetadataError, UnsupportedError, ExistsError)):
            opener(store, mode)
        assert store.get("zarr.json") == document
    store = MemoryStore({"zarr.json": document})
    opener(store, "w")
    assert tessarr.open(store).zarr_format == 3


def test_all_keywords(store: Any) -> None:
    a = tessarr.create_array(
        store,
        name="x/y",
        shape=(20, 30),
        dtype="uint16",
        chunks=(5, -1),
        shards=(10, -1),
        compressors=[{"name": "zstd", "configuration": {"level": 3}}],
        filters="auto",
        serializer="bytes",
        fill_value=7,
        order="F",
        dimension_names=["t", None],
        attributes={"k": [1, 2]},
        zarr_format=3,
        chunk_key_encoding={"name": "v2", "configuration": {"separator": "."}},
        overwrite=True,
        write_empty_chunks=True,
    )
    b = tessarr.open_array(store, path="x/y")
    for array in (a, b):
        assert (array.chunks, array.shards, array.order) == ((5, 30), (10, 30), "F")
        assert (array.fill_value, array.dimension_names) == (7, ("t", None))
        assert array.attrs["k"] == [1, 2]
    a[:] = 7
    assert store.list("x/y/") == ["x/y/0.0", "x/y/1.0", "x/y/zarr.json"]


@pytest.mark.parametrize("create", [tessarr.create_array, tessarr.open_array, tessarr.open])
def test_unknown_keyword(create: Any) -> None:
    store = MemoryStore()
    with pytest.raises(TypeError, match="chunk_size"):
        create(store, shape=3, chunk_size=4)
    assert store.list("") == []


@pytest.mark.parametrize(
    "settings",
    [
        {"shape": -1},
        {"shape": 4, "chunks": 0},
        {"shape": 4, "dtype": "nonsense"},
        {"shape": 4, "dtype": "u1", "fill_value": 300},
        {"shape": 4, "chunks": 3, "shards": 4},
        {"shape": 4, "zarr_format": 2, "shards": 4},
        {"shape": 4, "zarr_format": 4},
        {"shape": 4, "compressors": "nonsense"},
        {"shape": 4, "codecs": ["bytes"], "compressors": "zstd"},
        {"shape": 4, "order": "K"},
        {"shape": 4, "dimension_names": ["a", "b"]},
        {"shape": 4, "attributes": {"x": object()}},
        {"shape": 5, "data": [1, 2]},
        {"data": ["a", "b"], "dtype": "i4"},
    ],
)
def test_overwriting_with_invalid_arguments_loses_nothing(settings: Any) -> None:
    a = tessarr.create_array(MemoryStore(), data=[1, 2, 3])
    with pytest.raises((ArgumentError, UnsupportedError, TypeError)):
        tessarr.create_array(a.store, overwrite=True, **settings)
    with pytest.raises((ArgumentError, UnsupportedError, TypeError)):
        tessarr.open_array(a.store, "w", **settings)
    assert tessarr.open_array(a.store)[:].tolist() == [1, 2, 3]


def test_argument_error_lists_all_problems() -> None:
    with pytest.raises(ArgumentError) as caught:
        tessarr.create_array(None, shape=4, dtype="u1", fill_value=300, dimension_names="ab")
    assert "fill_value" in str(caught.value)
    assert "dimension_names" in str(caught.value)


def test_create_functions_fill_arrays(zarr_format: Any) -> None:
    settings: Any = {"dtype": "i4", "zarr_format": zarr_format}
    assert tessarr.zeros((2, 2), **settings)[:].tolist() == [[0, 0], [0, 0]]
    assert tessarr.ones(2, **settings)[:].tolist() == [1, 1]
    assert tessarr.full(2, 9, **settings)[:].tolist() == [9, 9]
    assert tessarr.empty(2, **settings).shape == (2,)
    a = tessarr.array(np.arange(4).reshape(2, 2), store="memory://short", overwrite=True)
    assert a[:].tolist() == [[0, 1], [2, 3]]
    assert tessarr.array(5)[()] == 5


def test_guessed_chunks_match_tutorial() -> None:
    assert tessarr.zeros((10000, 10000), dtype="i4").chunks == (313, 313)


def test_format_2_documents_have_tutorials_bytes() -> None:
    a = tessarr.zeros((10000, 10000), chunks=(1000, 1000), dtype="i4", zarr_format=2)
    assert a.nbytes_stored == 323


def test_two_programs_that_create_get_one_array() -> None:
    from threading import Barrier, Thread

    store = MemoryStore()
    barrier = Barrier(8)
    outcomes: list[str] = []

    def work(i: int) -> None:
        barrier.wait()
        try:
            tessarr.create_array(store, path="a/b", shape=1, attributes={"by": i})
            outcomes.append("created")
        except ExistsError:
            outcomes.append("exists")
        assert tessarr.open_array(store, path="a/b", shape=1).shape == (1,)

    threads = [Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["created"] + ["exists"] * 7


def test_open_missing_node_names_remedy(tmp_path: Path) -> None:
    """The errors explain a file in place of a folder, and a missing shape."""
    file = tmp_path / "data.bin"
    file.write_bytes(b"x")
    for opener in (tessarr.open, tessarr.open_array, tessarr.open_group):
        with pytest.raises(NotFoundError, match="which is a file: a store is a folder"):
            opener(file, "r")
    for opener in (tessarr.open, tessarr.open_group):  # and create no node there
        with pytest.raises(NotFoundError, match="which is a file: a store is a folder"):
            opener(file)
    with pytest.raises(StoreError, match="a file exists instead of a folder"):
        tessarr.open_group(file, "w")
    with pytest.raises(NotFoundError, match="to create one, give its shape, or data"):
        tessarr.open_array(tmp_path / "new")
    with pytest.raises(NotFoundError, match=r"read_only=True\), which does not exist$"):
        tessarr.open_array(tmp_path / "new", "r")


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (b"\x89HDF\r\n\x1a\n", r"a file of HDF5: tessarr\.copy_to\('my\.data', 'my\.zarr'\)"),
        (b"\x93NUMPY\x01\x00", r"a file of NumPy: tessarr\.copy_to\('my\.data', 'my\.zarr'\)"),
    ],
)
@pytest.mark.parametrize("mode", ["r", "r+", "a"])
def test_open_file_of_other_format_names_format(
    tmp_path: Path, start: bytes, message: str, mode: Any
) -> None:
    """The error about an HDF5 or .npy file says how to proceed."""
    (tmp_path / "my.data").write_bytes(start)
    with pytest.raises(NotFoundError, match=message):
        tessarr.open(tmp_path / "my.data", mode)


def test_create_existing_node_names_store(tmp_path: Path) -> None:
    store = re.escape(f"LocalStore('{tmp_path}')")
    tessarr.create_group(tmp_path).create_group("a")
    for create in (tessarr.create_group, partial(tessarr.create_array, shape=3)):
        with pytest.raises(ExistsError, match=f"a node at the root of {store} already: open it"):
            create(tmp_path)
        with pytest.raises(ExistsError, match=f"a node at path 'a' of {store} already: open it"):
            create(tmp_path, path="a")
    for create in (
        tessarr.open_group(tmp_path).create_group,
        partial(tessarr.open_group(tmp_path).create_array, shape=3),
    ):
        with pytest.raises(ExistsError, match=f"a node at path 'a' of {store} already: open it"):
            create("a")


def test_module_misspelt_name_error_has_name_and_object() -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(tessarr, "crate_array")  # noqa: B009 (type checkers know that it is not there)
    assert (caught.value.name, caught.value.obj) == ("crate_array", tessarr)


@pytest.mark.parametrize("attributes", [5, "text", [1, 2]])
def test_attributes_are_mapping(attributes: Any) -> None:
    """Every creation function refuses attributes that are no mapping."""
    creators: list[Any] = [tessarr.create_group, partial(tessarr.create_array, shape=1)]
    for create in creators:
        with pytest.raises(ArgumentError, match="is not a mapping"):
            create(None, attributes=attributes)


def test_misspelt_attribute_cannot_be_set() -> None:
    """A misspelt attribute is an error."""
    a, g = tessarr.create_array(None, shape=1), tessarr.create_group(None)
    for node in (a, g):
        with pytest.raises(AttributeError):
            node.atributes = {}  # type: ignore[union-attr]


def test_module_dir_lists_public_names() -> None:
    """Completion lists the public names, and the version exists."""
    assert set(dir(tessarr)) == {*tessarr.__all__, "__version__"}
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", tessarr.__version__)
    g = tessarr.create_group(None)
    g.create_group("a b")
    assert g._ipython_key_completions_() == ["a b"]
