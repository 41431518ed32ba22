"""Tessarr in place of zarr-python: zarr-python's semantics, names and errors."""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

original = pytest.importorskip("zarr", minversion="3.1", reason="the drop-in takes its place")

import tessarr  # noqa: E402 (after zarr-python)
import tessarr.zarr as zarr  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

VALUES = np.arange(20, dtype="i4").reshape(4, 5)


@pytest.fixture(params=[2, 3])
def zarr_format(request: pytest.FixtureRequest) -> Any:
    """The format of a store."""
    return request.param


@pytest.fixture(params=["memory", "folder"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A store of zarr-python."""
    if request.param == "memory":
        return original.storage.MemoryStore()
    return original.storage.LocalStore(tmp_path)


@pytest.mark.parametrize(
    "key",
    [
        (np.array([True, False, True, False]), np.array([True, True, False, False, True])),
        (np.array([True, False, True, False]), [0, 3]),
        (slice(0, 2), [0, 2]),
        (1, [0, 2]),
        ([0, 2], [0, 1]),
        (slice(1, 4, 2), 3),
        (..., slice(2)),
        2,
    ],
    ids=[
        "masks",
        "mask and list",
        "slice and list",
        "integer and list",
        "lists",
        "step",
        "...",
        "2",
    ],
)
def test_keys_select_and_write_as_in_zarr_python(store: Any, zarr_format: Any, key: Any) -> None:
    theirs = original.create_array(
        store, shape=(4, 5), chunks=(2, 2), dtype="i4", zarr_format=zarr_format
    )
    theirs[:] = VALUES
    ours = zarr.open_array(store)
    np.testing.assert_array_equal(ours[key], theirs[key])
    ours[key] = -1
    expected = original.create_array({}, shape=(4, 5), chunks=(2, 2), dtype="i4")
    expected[:] = VALUES
    expected[key] = -1
    np.testing.assert_array_equal(theirs[:], expected[:])


def test_attributes_are_objects_of_zarr_python(store: Any, zarr_format: Any) -> None:
    theirs = original.create_array(
        store, name="a", shape=(4, 5), chunks=(2, 2), dtype="i4", zarr_format=zarr_format
    )
    ours = zarr.open_group(store)["a"]
    for name in (
        *("attrs", "basename", "chunks", "compressors", "dtype", "fill_value", "filters"),
        *("metadata", "name", "ndim", "path", "serializer", "shape", "shards", "store"),
        *("store_path", "cdata_shape", "nchunks", "order", "read_only"),
    ):
        if name != "attrs":
            assert getattr(ours, name) == getattr(theirs, name), name
    assert dict(ours.attrs) == dict(theirs.attrs)
    assert type(ours.async_array) is type(theirs.async_array)
    assert ours.nbytes_stored() == theirs.nbytes_stored()
    assert repr(ours) == repr(theirs)


def test_group_paths_are_relative(store: Any) -> None:
    root = zarr.create_group(store)
    inner = root.create_group("a")
    inner.create_array("/b", shape=3, dtype="i4")
    assert inner["/b"].path == "a/b"
    assert isinstance(inner["b"], zarr.Array)
    assert [name for name, _ in root.members(max_depth=None)] == ["a", "a/b"]


def test_missing_and_existing_nodes_raise_errors_of_zarr_python(store: Any) -> None:
    errors = original.errors
    root = zarr.create_group(store)
    root.create_array("a", shape=3, dtype="i4")
    with pytest.raises(errors.ContainsArrayError):
        root.create_array("a", shape=3, dtype="i4")
    with pytest.raises(FileNotFoundError):
        zarr.open_array(store, path="absent", mode="r")
    with pytest.raises(FileNotFoundError):
        zarr.open_group(store, path="absent", mode="r")
    with pytest.raises(KeyError, match="absent"):
        root["absent"]


def test_required_nodes_are_created_where_they_are_missing(store: Any, zarr_format: Any) -> None:
    root = zarr.open_group(store, mode="w", zarr_format=zarr_format)
    original.core.sync.sync(store.clear())
    assert root.require_group("/").path == ""
    assert root.require_group("a/b").path == "a/b"
    assert root.require_array("a/c", shape=3, dtype="i4").shape == (3,)
    assert sorted(original.open_group(store)["a"]) == ["b", "c"]


def test_data_types_and_codecs_of_zarr_python_are_accepted(store: Any) -> None:
    array = zarr.create_array(
        store,
        shape=(8,),
        chunks=(4,),
        dtype=original.dtype.Int16(),
        compressors=original.codecs.ZstdCodec(level=3),
        fill_value=2,
    )
    array[:4] = 1
    theirs = original.open_array(store)
    assert theirs.dtype == np.dtype("i2")
    assert theirs.compressors[0].level == 3
    assert theirs[:].tolist() == [1, 1, 1, 1, 2, 2, 2, 2]


def test_functions_follow_settings_of_zarr_python(store: Any) -> None:
    with original.config.set({"default_zarr_format": 2, "array.write_empty_chunks": True}):
        array = zarr.zeros(4, store=store, path="a", chunks=2, dtype="i4")
        group = zarr.open_group(store, path="g", mode="w")
        array[:2] = 0
    assert (array.metadata.zarr_format, group.metadata.zarr_format) == (2, 2)
    assert array.nchunks_initialized == 1
    with tessarr.options(zarr_format=2):  # the settings of zarr-python are the default ones
        assert zarr.create_group(store, path="h").metadata.zarr_format == 2
    assert zarr.create_group(store, path="i").metadata.zarr_format == 3


@pytest.mark.filterwarnings("ignore:Consolidated metadata:UserWarning")
def test_dictionary_is_shared_with_zarr_python(zarr_format: Any) -> None:
    items: dict[str, Any] = {}
    theirs = original.create_array(
        items, name="a", shape=(4, 5), chunks=(2, 2), dtype="i4", zarr_format=zarr_format
    )
    theirs[:] = VALUES
    ours = zarr.open_array(items, path="a", mode="r+")
    ours[0] = 7
    assert theirs[0].tolist() == [7] * 5
    group = zarr.open_group(store=items, path="g", mode="w", zarr_format=zarr_format)
    group.create_array("a", shape=3, dtype="i4")
    with warnings.catch_warnings(action="ignore", category=original.errors.ZarrUserWarning):
        zarr.consolidate_metadata(group.store, path="g")
    assert list(original.open_group(items, path="g").array_keys()) == ["a"]
    assert group.store is ours.store


@pytest.mark.parametrize(
    "name", ["RawBytes", "VariableLengthBytes", "VariableLengthUTF8", "DateTime64", "Int16"]
)
def test_every_data_type_of_zarr_python_is_accepted(zarr_format: Any, name: str) -> None:
    cls = getattr(original.dtype, name)
    options = {"RawBytes": {"length": 3}, "DateTime64": {"unit": "s"}}.get(name, {})
    values = [
        library.create_array(
            {}, shape=(3,), dtype=cls(**options), fill_value=None, zarr_format=zarr_format
        )
        for library in (original, zarr)
    ]
    theirs, ours = values
    assert ours.metadata.dtype == theirs.metadata.dtype
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(ours.fill_value, theirs.fill_value)
    positional = zarr.create((3,), None, cls(**options), zarr_format=zarr_format)
    assert positional.metadata.dtype == theirs.metadata.dtype


@pytest.mark.parametrize(
    ("kind", "selection"),
    [
        ("basic", slice(1, 3)),
        ("block", 0),
        ("coordinate", ([0, 3], [1, 2])),
        ("mask", VALUES > 7),
        ("orthogonal", ([0, 3], [1, 2])),
    ],
)
def test_selections_accept_prototypes(kind: str, selection: Any) -> None:
    prototype = original.buffer.default_buffer_prototype()
    array = zarr.array(VALUES, chunks=(2, 2))
    theirs = original.array(VALUES, chunks=(2, 2))
    get, put = f"get_{kind}_selection", f"set_{kind}_selection"
    for node in (array, theirs):
        read = getattr(node, get)(selection, prototype=prototype)
        getattr(node, put)(selection, read + 1, prototype=prototype)
    np.testing.assert_array_equal(array[:], theirs[:])


def test_store_of_dictionary_and_default_store_open_again() -> None:
    for array in (zarr.zeros(3, store={}), zarr.zeros(3)):
        array[1] = 7
        assert isinstance(array.store, original.storage.MemoryStore)
        assert original.open_array(array.store)[:].tolist() == [0, 7, 0]
        original.open_array(array.store)[2] = 8
        assert zarr.open_array(array.store)[:].tolist() == [0, 7, 8]
        assert array[:].tolist() == [0, 7, 8]


def test_settings_of_zarr_python_apply() -> None:
    def create(library: Any) -> list[Any]:
        array = library.create_array({}, shape=3, chunks=3, dtype="i4")
        array[:] = 0
        formats = [
            node.metadata.zarr_format
            for node in (library.zeros(3), library.create_group({}), library.group({}), array)
        ]
        return [formats, array.nchunks_initialized, array.compressors]

    for settings in ({}, {"default_zarr_format": 2}, {"array.write_empty_chunks": True}):
        with original.config.set(settings):
            assert create(zarr) == create(original), settings
    with tessarr.options(zarr_format=2, compressor=None):
        array = zarr.zeros(3)
    assert (array.metadata.zarr_format, array.compressors) == (2, ())


def test_names_of_the_module_are_looked_up_once() -> None:
    for name in ("open_array", "storage", "config", "Array", "__version__"):
        value = getattr(zarr, name)
        assert vars(zarr)[name] is value, name


def test_install_replaces_and_restores_names() -> None:
    before = original.Array, original.open, original.core.array.Array
    with zarr.install():
        import zarr as replaced

        array = replaced.create_array({}, shape=3, dtype="i4")
        assert isinstance(array, tessarr.Array)
        assert isinstance(array, replaced.Array)
        assert replaced.core.array.Array is replaced.Array
        assert replaced.storage.MemoryStore is original.storage.MemoryStore
        assert array.metadata.shape == (3,)
        with zarr.install():
            pass
        assert replaced.Array is type(array)
    assert (original.Array, original.open, original.core.array.Array) == before


def test_processes_of_a_program_under_the_drop_in_use_the_codec_pipeline(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import subprocess, sys\n"
        "code = \"import zarr; print(zarr.config.get('codec_pipeline.path'))\"\n"
        "subprocess.run([sys.executable, '-c', code], check=True)\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "tessarr.zarr", str(program)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "tessarr.zarr.CodecPipeline"


def test_module_runs_a_program_under_the_drop_in(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, zarr, neighbour\n"
        "a = zarr.create_array({}, shape=3, dtype='i4')\n"
        "print(type(a).__module__, sys.argv[1:])\n",
        encoding="utf-8",
    )
    (tmp_path / "neighbour.py").touch()
    command = [sys.executable, "-m", "tessarr.zarr", str(program), "x"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "tessarr.zarr ['x']"
    # Tessarr's own command is one that a package installs.
    for arguments, output in [(["tessarr", "--help"], "usage: "), (["-m", "this"], "Zen of")]:
        started = subprocess.run(
            [*command[:3], *arguments], capture_output=True, text=True, check=False
        )
        assert output in started.stdout, started.stderr
    for arguments, output in [([], "usage"), (["absent.py"], "'absent.py' is neither a file")]:
        failed = subprocess.run(
            [*command[:3], *arguments], capture_output=True, text=True, check=False
        )
        assert failed.returncode == 1
        assert failed.stderr.startswith(("usage", "tessarr.zarr: ")), failed.stderr
        assert output in failed.stderr


@pytest.mark.parametrize("layout", [{}, {"shards": (60, 60)}], ids=["chunks", "shards"])
def test_dask_blocks_across_chunks_lose_nothing(tmp_path: Path, layout: dict[str, Any]) -> None:
    dask_array = pytest.importorskip("dask.array", reason="Dask writes the blocks")
    values = np.arange(10_000, dtype="i4").reshape(100, 100) + 1
    with zarr.install():
        array = original.create_array(
            tmp_path / "a", shape=(100, 100), chunks=(30, 30), dtype="i4", **layout
        )
        dask_array.from_array(values, chunks=(7, 7)).store(array, lock=False)
        np.testing.assert_array_equal(dask_array.from_zarr(array).compute(), values)


def test_consolidation_in_format_3_warns_as_in_zarr_python(store: Any, zarr_format: Any) -> None:
    zarr.open_group(store, mode="w", zarr_format=zarr_format).create_array("a", shape=3, dtype="i4")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        zarr.consolidate_metadata(store)
    expected = [original.errors.ZarrUserWarning] if zarr_format == 3 else []
    assert [warning.category for warning in caught] == expected


def test_paths_with_suffixes_of_files_are_folders(tmp_path: Path) -> None:
    for path in (tmp_path / "a.zip", str(tmp_path / "b.db")):
        zarr.create_array(path, shape=3, dtype="i4")[:] = 7
        assert original.open_array(path, mode="r")[:].tolist() == [7, 7, 7]
    tessarr.save(str(tmp_path / "c.zip"), np.arange(3))
    with pytest.raises(original.errors.GroupNotFoundError):
        zarr.open(tmp_path / "c.zip", mode="r")


def test_nodes_are_instances_of_zarr_python(store: Any, zarr_format: Any) -> None:
    group = zarr.create_group(store, zarr_format=zarr_format)
    array = group.create_array("a", shape=3, dtype="i4")
    assert isinstance(group, original.Group)
    assert isinstance(array, original.Array)
    assert type(pickle.loads(pickle.dumps(group))) is type(zarr.open_group(store))
    for node in (group, array):
        asynchronous = node._async_group if node is group else node.async_array
        adopted = type(node)(asynchronous)
        assert adopted == node
        assert adopted.metadata is asynchronous.metadata


def test_wrong_node_kinds_raise_errors_of_both_libraries(store: Any) -> None:
    root = zarr.create_group(store)
    root.create_array("a", shape=3, dtype="i4")
    root.create_group("g")
    with pytest.raises(original.errors.ContainsGroupError):
        root.get_array("g")
    with pytest.raises(original.errors.ContainsArrayError) as caught:
        zarr.open_group(store, path="a")
    assert isinstance(caught.value, tessarr.errors.NotFoundError)
    copied = pickle.loads(pickle.dumps(caught.value))
    assert (type(copied), str(copied)) == (type(caught.value), str(caught.value))
    with pytest.raises(KeyError) as missing:
        root.attrs["absent"]
    assert missing.value.args == ("absent",)


def test_group_defaults_follow_zarr_python(store: Any, zarr_format: Any) -> None:
    root = zarr.create_group(store, attributes={"x": 1}, zarr_format=zarr_format)
    root.require_group("g").attrs["y"] = 2
    assert root.get("g", 8).attrs["y"] == 2
    assert root.get("absent", 8) == 8
    assert dict(asyncio.run(root.update_attributes_async({"z": 3})).attrs) == {"z": 3}
    like = root.empty_like(name="e", data=root.full(name="f", fill_value=7, shape=(3,)))
    assert like[:].tolist() == [7, 7, 7]
    assert root.empty(name="h", shape=(3,)).fill_value == 0
    with pytest.raises(ValueError, match="max_depth"):
        root.members(max_depth=-1)


def test_unknown_members_warn(store: Any, zarr_format: Any) -> None:
    root = zarr.create_group(store, zarr_format=zarr_format)
    buffer = original.core.buffer.default_buffer_prototype().buffer.from_bytes(b"0")
    for key in ("file", "folder/file"):
        original.core.sync.sync(store.set(key, buffer))
    with pytest.warns(original.errors.ZarrUserWarning, match="Object at") as caught:
        assert root.members() == ()
    assert sorted(str(warning.message).split()[2] for warning in caught) == ["file", "folder"]


def test_config_sets_the_memory_order_of_results() -> None:
    config = {"order": "F", "write_empty_chunks": True}
    array = zarr.create_array({}, shape=(2, 3), dtype="i4", config=config)
    assert array.config == original.core.array_spec.parse_array_config(config)
    for copied in (array, pickle.loads(pickle.dumps(array))):
        assert copied.order == "F"
        assert copied[:].flags.f_contiguous
        assert np.asarray(copied).flags.f_contiguous


def test_api_modules_have_the_functions_of_the_drop_in() -> None:
    assert zarr.api.synchronous.open is zarr.open
    assert zarr.api.asynchronous is original.api.asynchronous
    created = zarr.api.synchronous.ones_like(zarr.zeros(3, dtype="u1"))
    assert isinstance(created, zarr.Array)


@pytest.mark.parametrize("source_format", [2, 3])
def test_like_functions_keep_codecs_only_in_one_format(source_format: Any) -> None:
    source = zarr.create_array(
        {}, shape=4, dtype="i4", compressors=None, fill_value=7, zarr_format=source_format
    )
    same = zarr.empty_like(source, zarr_format=None)
    other = zarr.zeros_like(source, zarr_format=5 - source_format)
    assert (same.metadata.zarr_format, same.compressors) == (source_format, source.compressors)
    assert same[:].tolist() == [7] * 4
    assert other.compressors
    store = original.storage.MemoryStore()
    zarr.create_array(store, name="x", shape=4, dtype="i4", zarr_format=5 - source_format)
    assert zarr.open_like(source, path="x", store=store).metadata.zarr_format == 5 - source_format


def test_create_follows_mode_and_ignores_the_data_type_of_data(store: Any) -> None:
    created = zarr.create(3, store=store, data=np.arange(3, dtype="i1"))
    assert created.dtype == np.dtype("f8")
    for mode in (None, "a", "w-"):
        with pytest.raises(original.errors.ContainsArrayError):
            zarr.create(3, store=store, mode=mode, overwrite=mode == "w-")
    assert zarr.create(5, store=store, mode="w").shape == (5,)
    with pytest.raises(ValueError, match="read-only"):
        zarr.create(3, store=store, mode="r")
    with original.config.set({"default_zarr_format": 2}):
        assert zarr.create(3).metadata.zarr_format == 2


def test_overwrite_in_a_store_without_deletion_changes_nothing(tmp_path: Path) -> None:
    opening = original.storage.ZipStore.open(tmp_path / "a.zip", mode="w")
    with original.core.sync.sync(opening) as store:
        zarr.create_array(store, shape=3, dtype="i4")[:] = 1
        with pytest.raises(original.errors.ContainsArrayError):
            zarr.create_array(store, shape=5, dtype="i4", overwrite=True)
        assert zarr.open_array(store)[:].tolist() == [1, 1, 1]


def test_deprecated_arguments_warn() -> None:
    warning = original.errors.ZarrRuntimeWarning
    with pytest.warns(warning, match="`order`"):
        zarr.ones(3, order="F")
    with pytest.warns(warning, match="`write_empty_chunks`"):
        zarr.ones(3, write_empty_chunks=True)
    with pytest.warns(warning, match="meta_array"):
        zarr.ones(3, meta_array=np.ones(1))


def test_config_of_existing_arrays_and_groups(store: Any) -> None:
    root = zarr.create_group(store)
    root.create_array("a", shape=(4,), dtype="u1")
    config = {"write_empty_chunks": True}
    required = root.require_array("a", shape=(4,), dtype="u1", config=config)
    assert required.config.write_empty_chunks
    with pytest.raises(TypeError, match="no_such_setting"):
        root.require_array("a", shape=(4,), config={"no_such_setting": True})
    with pytest.raises(TypeError, match="resolves to a group"):
        zarr.open(store, config=config)
