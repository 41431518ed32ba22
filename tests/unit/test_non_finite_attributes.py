"""NaN and infinities in attributes: writing warns once, and reading does not."""

from __future__ import annotations

import json
import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tessarr
from tessarr.errors import ArgumentError, NotJSONError, TessarrWarning, UnsupportedError
from tessarr.store import MemoryStore

if TYPE_CHECKING:
    from pathlib import Path

VALUES: list[Any] = [
    math.nan,
    math.inf,
    -math.inf,
    np.float32("nan"),
    [1.0, math.nan],
    {"deep": [{"er": -math.inf}]},
    np.array([np.nan, np.inf]),
]
WARNING = "attribute 'x': JSON has none"


def plain(value: Any) -> str:
    """Return a value in a comparable text form: NaN equals NaN."""
    return json.dumps(value.tolist() if isinstance(value, np.generic | np.ndarray) else value)


@pytest.fixture(params=["array", "group"])
def kind(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


def create(store: Any, kind: str, zarr_format: Any, path: str = "n", **settings: Any) -> Any:
    if kind == "group":
        return tessarr.create_group(store, path=path, zarr_format=zarr_format, **settings)
    return tessarr.create_array(store, path=path, shape=2, zarr_format=zarr_format, **settings)


def with_nan(store: Any, kind: str, zarr_format: Any, path: str = "n") -> Any:
    with tessarr.options(nan_attributes="allow"):
        return create(store, kind, zarr_format, path, attributes={"x": math.nan, "a": 1})


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_non_finite_attribute_is_stored_with_one_warning(
    store: Any, kind: str, zarr_format: Any, value: Any
) -> None:
    """The warning comes at creation and in an edit; opening the node is silent."""
    with pytest.warns(TessarrWarning, match=WARNING) as caught:
        node = create(store, kind, zarr_format, attributes={"x": value, "a": 1})
    assert len(caught) == 1
    with pytest.warns(TessarrWarning, match="in attributes 'y~/', 'z': JSON") as caught:
        node.attrs.update({"y~/": value, "z": [value], "ok": 1.5})
    assert len(caught) == 1
    opened = tessarr.open(store, "r", path="n")
    for result in (node, opened):
        assert plain(result.attrs["x"]) == plain(result.attrs["y~/"]) == plain(value)
        assert result.attrs["ok"] == 1.5


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_non_finite_attributes_are_bare_tokens(zarr_format: Any) -> None:
    store = MemoryStore()
    with pytest.warns(TessarrWarning, match="'a', 'b', 'c'"):
        tessarr.create_group(
            store,
            zarr_format=zarr_format,
            attributes={"a": math.nan, "b": math.inf, "c": -math.inf},
        )
    text = bytes(store.get(".zattrs" if zarr_format == 2 else "zarr.json") or b"").decode()
    for line in ('"a": NaN', '"b": Infinity', '"c": -Infinity'):
        assert line in text


def test_many_non_finite_attributes_are_named_in_part() -> None:
    with pytest.warns(TessarrWarning, match="'a9' and 20 more"):
        tessarr.create_group(None, attributes={f"a{i}": math.nan for i in range(30)})


def test_non_finite_attributes_allowed_cause_no_warning(
    store: Any, kind: str, zarr_format: Any
) -> None:
    node = with_nan(store, kind, zarr_format)
    assert math.isnan(node.attrs["x"])


def test_non_finite_attributes_refused_change_nothing(
    store: Any, kind: str, zarr_format: Any
) -> None:
    """The error names each location; stored attributes of this kind block no edit."""
    node = with_nan(store, kind, zarr_format)
    with tessarr.options(nan_attributes="refuse"):
        with pytest.raises(NotJSONError, match="attributes/y/0: JSON has no nan"):
            node.attrs["y"] = [math.nan]
        with pytest.raises(ArgumentError, match="attributes/z: JSON has no inf"):
            create(store, kind, zarr_format, "new", attributes={"z": math.inf})
        node.attrs["a"] = 2
    assert sorted(node.attrs) == ["a", "x"]
    assert node.attrs["a"] == 2
    assert store.get("new/zarr.json") is None
    assert store.get("new/.zattrs") is None


def test_edit_beside_non_finite_attribute_causes_no_warning(
    store: Any, kind: str, zarr_format: Any
) -> None:
    node = with_nan(store, kind, zarr_format)
    node.attrs["a"] = 2
    node.attrs["x"] = math.nan
    node.attrs.put({"x": [math.inf], "b": 1})
    del node.attrs["b"]
    assert node.attrs["x"] == [math.inf]


def test_attributes_of_another_node_are_accepted(store: Any, kind: str, zarr_format: Any) -> None:
    node = with_nan(store, kind, zarr_format)
    with pytest.warns(TessarrWarning, match=WARNING):
        other = create(store, kind, zarr_format, "other", attributes=dict(node.attrs))
    assert plain(other.attrs.asdict()) == plain(node.attrs.asdict())


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_consolidate_non_finite_attributes_causes_no_warning(zarr_format: Any) -> None:
    """Tessarr creates, updates and compares consolidated metadata."""
    store = MemoryStore()
    root = tessarr.create_group(store, zarr_format=zarr_format)
    for kind in ("array", "group"):
        with_nan(store, kind, zarr_format, kind)
    group = tessarr.consolidate_metadata(store)
    assert math.isnan(group["array"].attrs["x"])
    root["array"].attrs["a"] = 3
    again = tessarr.open_consolidated(store)
    assert again["array"].attrs["a"] == 3
    assert math.isnan(again["group"].attrs["x"])
    assert tessarr.consolidated_differences(store) == {}


@pytest.mark.parametrize("to", [2, 3])
@pytest.mark.parametrize("settings", [{}, {"chunks": 1}], ids=["as stored", "recoded"])
def test_copy_non_finite_attributes_causes_no_warning(
    zarr_format: Any, to: Any, settings: Any
) -> None:
    store, target = MemoryStore(), MemoryStore()
    with tessarr.options(nan_attributes="allow"):
        tessarr.create_group(store, zarr_format=zarr_format, attributes={"top": math.nan})
    for kind in ("array", "group"):
        with_nan(store, kind, zarr_format, kind)
    tessarr.copy_to(store, target, zarr_format=to, **settings)
    group = tessarr.open_group(target, mode="r")
    for node in (group["array"], group["group"]):
        assert plain(node.attrs.asdict()) == '{"x": NaN, "a": 1}'
    assert math.isnan(group.attrs["top"])
    with tessarr.options(nan_attributes="refuse"), pytest.raises(ArgumentError, match="JSON has"):
        tessarr.copy_to(store, MemoryStore(), zarr_format=to, **settings)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_copy_of_nodes_non_finite_attributes_causes_no_warning(zarr_format: Any) -> None:
    source = tessarr.create_group(None, zarr_format=zarr_format)
    with_nan(source.store, "array", zarr_format, "array")
    with_nan(source.store, "group", zarr_format, "group")
    target = tessarr.create_group(None)
    tessarr.copy_all(source, target)
    target["assigned"] = source["array"]
    created = tessarr.from_array(data=source["array"])
    for node in (target["array"], target["group"], target["assigned"], created):
        assert math.isnan(node.attrs["x"])


@pytest.mark.parametrize(("old", "to"), [(2, 3), (3, 2)])
def test_convert_non_finite_attributes_causes_no_warning(old: Any, to: Any) -> None:
    store = MemoryStore()
    tessarr.create_group(store, zarr_format=old)
    for kind in ("array", "group"):
        with_nan(store, kind, old, kind)
    with (
        tessarr.options(nan_attributes="refuse"),
        pytest.raises(UnsupportedError, match="/attributes/x: JSON has no nan"),
    ):
        tessarr.convert(store, to=to)
    tessarr.convert(store, to=to, move_chunks=True)
    group = tessarr.open_group(store, mode="r", zarr_format=to)
    for kind in ("array", "group"):
        assert plain(group[kind].attrs.asdict()) == '{"x": NaN, "a": 1}'


def test_hdf5_attributes_with_nan_are_copied_with_one_warning(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="reads HDF5")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        data = file.create_dataset("t", data=np.arange(3.0))
        data.attrs["missing_value"] = np.nan
    with pytest.warns(TessarrWarning, match="'missing_value'") as caught:
        tessarr.copy_to(tmp_path / "a.h5", tmp_path / "a.zarr")
    assert len(caught) == 1
    assert math.isnan(tessarr.open(tmp_path / "a.zarr", "r")["t"].attrs["missing_value"])
    target = tessarr.group()
    with h5py.File(tmp_path / "a.h5") as file, pytest.warns(TessarrWarning, match="'missing_v"):
        tessarr.copy(file["t"], target)
    assert math.isnan(target["t"].attrs["missing_value"])


@pytest.mark.parametrize("value", ["no", None, True])
def test_option_nan_attributes_of_other_values_is_refused(value: Any) -> None:
    with pytest.raises(ArgumentError, match="nan_attributes must be"):
        tessarr.configure(nan_attributes=value)


@pytest.mark.slow
def test_non_finite_attributes_are_read_by_zarr_python_and_xarray(
    tmp_path: Path, zarr_format: Any
) -> None:
    """Both write the same tokens, and Tessarr reads these without a warning."""
    zarr = pytest.importorskip("zarr", reason="the other reader")
    xr = pytest.importorskip("xarray", reason="the other writer")
    with tessarr.options(nan_attributes="allow"):
        group = tessarr.create_group(
            tmp_path / "ours", zarr_format=zarr_format, attributes={"x": [math.nan, -math.inf]}
        )
    assert plain(dict(zarr.open_group(group.store.root, mode="r").attrs)) == (
        '{"x": [NaN, -Infinity]}'
    )
    theirs = xr.Dataset({"t": ("i", [1.0, 2.0], {"x": math.nan})}, attrs={"y": math.inf})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zarr-python's warning about unratified features
        theirs.to_zarr(tmp_path / "theirs", zarr_format=zarr_format)
    read = tessarr.open_consolidated(tmp_path / "theirs")
    assert math.isinf(read.attrs["y"])
    assert math.isnan(read["t"].attrs["x"])
