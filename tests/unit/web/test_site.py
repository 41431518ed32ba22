"""Responses of the viewer: descriptions of nodes, coordinates, numbers and text."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr.copying.file_store import FileStore
from tessarr.web.application import Application
from tessarr.web.viewer import values
from tessarr.web.viewer.site import build_viewer
from tessarr.web.viewer.values import parse_selection
from unit.web.asgi import Reply, send_request


class Client:
    """Sends requests to the viewer of a node."""

    def __init__(self, node: Any) -> None:
        self.app = Application("127.0.0.1")
        self.app.add(build_viewer(node), "t")

    def get(self, path: str) -> Reply:
        return send_request(self.app, f"/t/api/{path}")

    def node(self, path: str = "") -> Any:
        return self.get(f"node?path={path}").json


def cube(group: tessarr.Group, **settings: Any) -> np.ndarray:
    data = np.arange(2 * 5 * 7, dtype="i4").reshape(2, 5, 7)
    group.create_array("cube", data=data, chunks=(1, 2, 3), **settings)
    return data


def test_group_lists_members_with_shapes() -> None:
    g = tessarr.create_group(None, attributes={"title": "x"})
    cube(g)
    g.create_group("below")
    node = Client(g).node()
    assert (node["kind"], node["attributes"]) == ("group", {"title": "x"})
    cube_member, below = sorted(node["members"], key=lambda member: member["kind"])
    assert (below["name"], cube_member["name"]) == ("below", "cube")
    assert (cube_member["shape"], cube_member["numbers"]) == ([2, 5, 7], "<i4")


def test_array_has_facts_metadata_and_dimensions() -> None:
    g = tessarr.create_group(None)
    cube(g, dimension_names=["t", None, "x"])
    node = Client(g).node("cube")
    assert [axis["name"] for axis in node["dimensions"]] == ["t", None, "x"]
    assert ["Chunk shape", "(1, 2, 3)"] in node["facts"]
    assert node["metadata"]["codecs"][0]["name"] == "bytes"


@pytest.mark.parametrize(
    ("store", "name"),
    [("memory://lab/", "lab"), ({}, "ForeignStore(<dict>)"), ("{tmp}/data.zarr", "data.zarr")],
)
def test_root_is_named_after_location_of_store(tmp_path: Path, store: Any, name: str) -> None:
    if isinstance(store, str):
        store = store.format(tmp=tmp_path)
    assert Client(tessarr.create_group(store)).node()["name"] == name


def test_root_of_file_is_named_after_file(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(3))
    node = Client(tessarr.open(FileStore(f"{tmp_path}/a.npy"), "r")).node()
    assert node["name"] == "a.npy"
    assert node["store"] == f"FileStore({f'{tmp_path}/a.npy'!r})"


def test_root_array_is_shown() -> None:
    client = Client(tessarr.create_array(None, data=[1, 2, 3]))
    assert client.node()["shape"] == [3]
    assert client.get("values?selection=1:").numbers.tolist() == [2, 3]
    assert client.get("node?path=a").status == 404


def test_numbers_that_javascript_lacks_become_text() -> None:
    values = {"big": 2**60, "nan": float("nan"), "list": [float("-inf")]}
    with tessarr.options(nan_attributes="allow"):
        node = Client(tessarr.create_group(None, attributes=values)).node()
    assert node["attributes"] == {"big": str(2**60), "nan": "NaN", "list": ["-Infinity"]}


def test_broken_nodes_show_their_errors_beside_others() -> None:
    items = {
        "bad/zarr.json": b"{",
        "odd/zarr.json": b'{"zarr_format": 3, "node_type": "array"}',
    }
    g = tessarr.create_group(items)
    cube(g)
    client = Client(tessarr.open_group(items, "r"))
    members = {member["name"]: member for member in client.node()["members"]}
    assert {name: member["kind"] for name, member in members.items()} == {
        "bad": "unreadable",
        "cube": "array",
        "odd": "unreadable",
    }
    assert "not JSON" in members["bad"]["message"]
    assert client.node("odd")["kind"] == "unreadable"
    assert client.node("cube")["kind"] == "array"


def test_description_follows_changes_of_store() -> None:
    items: dict[str, Any] = {}
    g = tessarr.create_group(items)
    cube(g)
    client = Client(tessarr.open_group(items, "r"))
    assert client.node("cube")["shape"] == [2, 5, 7]
    g.get_array("cube").resize((9, 5, 7))
    assert client.node("cube")["shape"] == [9, 5, 7]
    assert client.get("values?path=cube&selection=8,0,0:2").numbers.tolist() == [0, 0]


@pytest.mark.parametrize("path", ["..", "../b", "a/../../b", "/..", "a/./b"])
def test_path_outside_of_root_is_refused(tmp_path: Path, path: str) -> None:
    tessarr.create_array(tmp_path, path="b", data=[1])
    tessarr.create_group(tmp_path, path="a")
    client = Client(tessarr.open_group(tmp_path, "r", path="a"))
    for kind in ("node", "values", "text", "coordinates"):
        assert client.get(f"{kind}?path={path}").status == 400


def test_absolute_path_is_relative_to_root() -> None:
    g = tessarr.create_group(None)
    g.create_array("b", data=[1])
    g.create_array("a/b", data=[1, 2])
    client = Client(g.get_group("a"))
    assert client.node("/b")["shape"] == [2]
    assert client.get("node?path=/a").status == 404


def test_file_outside_of_static_folder_is_not_served() -> None:
    app = Client(tessarr.create_group(None)).app
    assert send_request(app, "/t/").status == 200
    for path in ("/t/../site.py", "/t/%2e%2e/site.py", "/t//etc/passwd"):
        assert send_request(app, path).status == 404


# Numbers


def test_numbers_equal_selection() -> None:
    g = tessarr.create_group(None)
    data = cube(g)
    client = Client(g)
    reply = client.get("values?path=cube&selection=1,0:5:2,3:")
    assert reply.headers["tessarr-dtype"] == "<i4"
    assert np.array_equal(reply.numbers, data[1, 0:5:2, 3:])
    assert np.array_equal(client.get("values?path=cube").numbers, data)


@pytest.mark.parametrize(
    ("part", "expected"), [("abs", 5), ("real", 3), ("imag", 4), ("phase", np.angle(3 + 4j))]
)
def test_part_of_complex_numbers(part: str, expected: float) -> None:
    client = Client(tessarr.create_array(None, data=np.array([3 + 4j])))
    assert client.get(f"values?part={part}").numbers == pytest.approx(expected)


def test_times_are_counts_of_units() -> None:
    times = np.array(["1970-01-03", "NaT"], "M8[D]")
    numbers = Client(tessarr.create_array(None, data=times)).get("values").numbers
    assert numbers[0] == 2
    assert np.isnan(numbers[1])


def test_field_of_records_is_selected() -> None:
    records = np.array([(1, 2.5), (3, 4.5)], [("n", "i4"), ("v", "f8")])
    client = Client(tessarr.create_array(None, data=records))
    assert client.get("values?field=v").numbers.tolist() == [2.5, 4.5]
    assert client.get("values?field=x").status == 400
    assert client.get("values").json["error"] == "unsupported"


@pytest.mark.parametrize(
    "selection", ["5,:,:", "-1,:,:", "0,0", "a,0,0", "::0,0,0", "1:2:3:4,0,0", "0,0,0,0", ",0,0"]
)
def test_bad_selection_is_reported(selection: str) -> None:
    g = tessarr.create_group(None)
    cube(g)
    reply = Client(g).get(f"values?path=cube&selection={selection}")
    assert reply.status == 400
    assert reply.json["message"]


def test_large_selection_is_refused_without_reading() -> None:
    client = Client(tessarr.zeros((10000, 10000), dtype="i4", chunks=(1000, 1000)))
    assert client.get("values").status == 413
    assert client.get("text?selection=:,0:100").status == 413
    assert client.get("values?selection=::10,::10").numbers.shape == (1000, 1000)


@pytest.mark.parametrize("reduction", ["mean", "bounds"])
@pytest.mark.parametrize("selection", ["0:5:2,0:7:3", "1:5:3,2:", "::5,::7", "0:0:2,:"])
def test_reduction_of_blocks_equals_numpy(reduction: str, selection: str) -> None:
    data = np.arange(35, dtype="f4").reshape(5, 7)
    data[0, 0] = np.nan
    client = Client(tessarr.create_array(None, data=data, chunks=(2, 3)))
    numbers = client.get(f"values?selection={selection}&reduction={reduction}").numbers
    rows, columns = parse_selection(selection, data.shape)
    assert isinstance(rows, range)
    assert isinstance(columns, range)
    blocks = [[data[i : i + rows.step, j : j + columns.step] for j in columns] for i in rows]
    functions = {"mean": [np.nanmean], "bounds": [np.nanmin, np.nanmax]}[reduction]
    expected = [[[f(block) for f in functions] for block in row] for row in blocks]
    assert numbers.shape[:2] == (len(rows), len(columns))
    np.testing.assert_allclose(numbers.ravel(), np.ravel(expected), rtol=1e-6)


def test_mean_of_large_plane_reads_bands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tessarr.web.viewer.reduction._BAND_ELEMENTS", 40)
    data = np.random.default_rng(0).normal(size=(30, 20))
    client = Client(tessarr.create_array(None, data=data, chunks=(7, 7)))
    numbers = client.get("values?selection=::3,::4&reduction=mean").numbers
    np.testing.assert_allclose(numbers, data.reshape(10, 3, 5, 4).mean((1, 3)), rtol=1e-6)


@pytest.mark.parametrize("selection", ["::3,::20", "::30,::4", "::7,::6"])
def test_reduction_of_wide_blocks_reads_bounded_parts(
    monkeypatch: pytest.MonkeyPatch, selection: str
) -> None:
    data = np.random.default_rng(0).normal(size=(30, 20)).astype("f4")
    client = Client(tessarr.create_array(None, data=data, chunks=(7, 7)))
    url = f"values?selection={selection}&reduction=bounds"
    whole = client.get(url).numbers
    sizes = []

    def count(array: Any, part: Any, field: Any) -> Any:
        sizes.append(prod(len(axis) for axis in part))
        return read(array, part, field)

    read = values._read
    monkeypatch.setattr(values, "_read", count)
    monkeypatch.setattr("tessarr.web.viewer.reduction._BAND_ELEMENTS", 40)
    np.testing.assert_array_equal(client.get(url).numbers, whole)
    block = prod(axis.step for axis in parse_selection(selection, data.shape))  # type: ignore[union-attr]
    assert max(sizes) <= max(block, 40)


def test_reduction_of_huge_block_is_refused_without_reading() -> None:
    client = Client(tessarr.zeros((10**6, 10**6), dtype="f8", chunks=(1000, 1000)))
    for reduction in ("mean", "bounds"):
        reply = client.get(f"values?selection=::1000000,::1000000&reduction={reduction}")
        assert reply.status == 413
        assert "smaller step" in reply.json["message"]


@pytest.mark.parametrize("reduction", ["stride", "mean", "bounds"])
def test_step_longer_than_axis_selects_one_block(reduction: str) -> None:
    client = Client(tessarr.create_array(None, data=np.arange(4)))
    reply = client.get(f"values?selection=::{10**30}&reduction={reduction}")
    assert reply.numbers.tolist() == {"stride": [0], "mean": [1.5], "bounds": [[0, 3]]}[reduction]


# Text


def test_text_of_records_has_columns() -> None:
    records = np.array([(1, "a"), (3, "b")], [("n", "i4"), ("v", "U2")])
    reply = Client(tessarr.create_array(None, data=records)).get("text")
    assert reply.json == {"shape": [2], "columns": ["n", "v"], "cells": [["1", "3"], ["a", "b"]]}


@pytest.mark.parametrize(
    ("data", "cells"),
    [
        (np.array(["ü", ""]), ["ü", ""]),
        (np.array([2**60 + 1, -1]), [str(2**60 + 1), "-1"]),
        (np.array([0.1, np.nan], "f4"), ["0.1", "nan"]),
        (np.array(["2000-01-01"], "M8[D]"), ["2000-01-01"]),
        (np.array([b"a\xff"]), ["a\\xff"]),
        (np.array([1 + 2j]), ["(1+2j)"]),
    ],
)
def test_text_is_exact(data: np.ndarray, cells: list[str]) -> None:
    assert Client(tessarr.create_array(None, data=data)).get("text").json["cells"] == [cells]


def test_text_of_single_element() -> None:
    client = Client(tessarr.create_array(None, data=np.array("word", dtype=object), dtype=str))
    assert client.get("text").json == {"shape": [], "columns": None, "cells": [["word"]]}


# Coordinates


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_coordinates_label_axes_by_name(zarr_format: Any) -> None:
    g = tessarr.create_group(None, zarr_format=zarr_format)

    def create(name: str, data: Any, dims: list[str], **attributes: str) -> None:
        is_new = zarr_format == 3
        extra = {"dimension_names": dims} if is_new else {}
        named = attributes if is_new else {**attributes, "_ARRAY_DIMENSIONS": dims}
        g.create_array(name, data=data, attributes=named, **extra)

    create("t2m", np.zeros((2, 3, 4)), ["time", "lat", "lon"])
    create("time", np.array([0, 36]), ["time"], units="hours since 2000-01-01")
    create("lat", np.array([60.0, 50, 40]), ["lat"], units="degrees_north")
    time, lat, lon = Client(g).get("coordinates?path=t2m").json
    assert time["labels"] == ["2000-01-01T00:00", "2000-01-02T12:00"]
    assert lat == {
        "unit": "degrees_north",
        "positions": [60, 50, 40],
        "labels": ["60.0", "50.0", "40.0"],
    }
    assert lon is None


def test_coordinates_come_from_groups_above_root_array(tmp_path: Path) -> None:
    g = tessarr.create_group(tmp_path)
    g.create_array("x", data=[10, 20])
    g.create_array("below/a", data=[1, 2], dimension_names=["x"])
    root = tessarr.open_array(tmp_path, "r", path="below/a")
    (x,) = Client(root).get("coordinates").json
    assert x["labels"] == ["10", "20"]


def test_coordinates_of_other_length_or_damaged_are_ignored() -> None:
    items: dict[str, Any] = {"y/zarr.json": b"{"}
    g = tessarr.create_group(items)
    g.create_array("x", data=[1, 2, 3])
    g.create_array("a", data=np.zeros((2, 2)), dimension_names=["y", "x"])
    assert Client(g).get("coordinates?path=a").json == [None, None]


@pytest.mark.parametrize(
    "reference",
    ["9" * 5000 + "-1-1", "99999999999-01-01", "2000-13-01", "2000-01-01 99999999999999999999:00"],
)
def test_times_with_impossible_reference_stay_numbers(reference: str) -> None:
    g = tessarr.create_group(None)
    g.create_array(
        "t", data=[1, 2], dimension_names=["t"], attributes={"units": f"days since {reference}"}
    )
    (axis,) = Client(g).get("coordinates?path=t").json
    assert axis["labels"] == ["1", "2"]


# Images


def image(version: str, shapes: list[tuple[int, int, int]]) -> tessarr.Group:
    axes = [{"name": "c"}, {"name": "y", "unit": "micrometer"}, {"name": "x", "unit": "micrometer"}]
    datasets = [
        {
            "path": f"s{i}",
            "coordinateTransformations": [{"type": "scale", "scale": [1, 0.5 * 2**i, 0.5 * 2**i]}],
        }
        for i in range(len(shapes))
    ]
    multiscales = [{"axes": axes, "datasets": datasets}]
    is_new = version == "0.5"
    attributes = {"ome": {"multiscales": multiscales}} if is_new else {"multiscales": multiscales}
    root = tessarr.create_group(None, zarr_format=3 if is_new else 2)
    g = root.create_group("img", attributes=attributes)
    for i, shape in enumerate(shapes):
        g.create_array(f"s{i}", data=np.full(shape, i, "u2"))
    return root


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_image_has_levels_axes_and_units(version: str) -> None:
    client = Client(image(version, [(2, 8, 8), (2, 4, 4)]))
    assert client.node("img")["image"] == "img/s0"
    node = client.node("img/s0")
    assert node["levels"] == [[2, 8, 8], [2, 4, 4]]
    assert [axis["name"] for axis in node["dimensions"]] == ["c", "y", "x"]
    assert client.node("img/s1")["levels"] == [[2, 4, 4]]
    _, _, x = client.get("coordinates?path=img/s1").json
    assert (x["unit"], x["positions"]) == ("micrometer", [0, 1, 2, 3])


@pytest.mark.parametrize(("step", "level"), [(1, 0), (2, 1), (3, 1), (4, 2), (8, 2)], ids=str)
def test_step_selects_coarsest_level_with_its_resolution(step: int, level: int) -> None:
    client = Client(image("0.5", [(2, 17, 16), (2, 8, 8), (2, 4, 4)]))
    numbers = client.get(f"values?path=img/s0&levels=1&selection=1,::{step},0:16:{step}").numbers
    assert numbers.shape == (len(range(0, 17, step)), len(range(0, 16, step)))
    assert set(numbers.ravel().tolist()) == {level}


@pytest.mark.parametrize("lengths", [(1001, 501), (1001, 500), (1000, 334)])
def test_level_elements_stand_for_their_blocks(lengths: tuple[int, int]) -> None:
    """An element of a level is the one that holds the centre of the block."""
    full, coarse = lengths
    axes = [{"name": "x"}]
    datasets = [{"path": "a"}, {"path": "b"}]
    g = tessarr.create_group(
        None, attributes={"multiscales": [{"axes": axes, "datasets": datasets}]}
    )
    g.create_array("a", data=np.arange(full))
    g.create_array("b", data=np.arange(coarse))
    for step in (4, 8):
        numbers = Client(g).get(f"values?path=a&levels=1&selection=::{step}").numbers
        centres = (np.arange(0, full, step) + step / 2) * coarse / full
        assert np.array_equal(numbers, np.minimum(np.floor(centres), coarse - 1))


def scaled_image(scale: list[Any]) -> Any:
    dataset = {"path": "0", "coordinateTransformations": [{"type": "scale", "scale": scale}]}
    return {"multiscales": [{"axes": ["x"], "datasets": [dataset]}]}


@pytest.mark.parametrize(
    "attributes",
    [
        {"multiscales": []},
        {"multiscales": [{"axes": [{}], "datasets": [{"path": "0"}]}]},
        {"multiscales": "x"},
        {"ome": {"multiscales": [{"axes": [{"name": "x"}], "datasets": []}]}},
        {"multiscales": [{"axes": ["x", "y"], "datasets": [{"path": "0"}]}]},
        {"multiscales": [{"axes": [1], "datasets": [{"path": "0"}]}]},
        {"multiscales": [{"axes": ["x"], "datasets": ["0"]}]},
        scaled_image([10**400]),
        scaled_image(["nan"]),
        scaled_image(["inf"]),
    ],
)
def test_malformed_image_is_plain_group(attributes: Any) -> None:
    g = tessarr.create_group(None, attributes=attributes)
    g.create_array("0", data=[1, 2])
    client = Client(g)
    assert client.node("0")["levels"] == [[2]]
    assert client.node()["kind"] == "group"
    assert client.get("coordinates?path=0").json == [None]


def test_channels_of_image_are_labels() -> None:
    omero = {"channels": [{"label": "DAPI"}, {"label": "GFP"}]}
    axes = [{"name": "c", "type": "channel"}, {"name": "x", "type": "space"}]
    multiscale = {"axes": axes, "datasets": [{"path": "0"}]}
    attributes = {"ome": {"multiscales": [multiscale], "omero": omero}}
    g = tessarr.create_group(None, attributes=attributes)
    g.create_array("0", data=np.zeros((2, 8)))
    channel, x = Client(g).get("coordinates?path=0").json
    assert (channel["labels"], x) == (["DAPI", "GFP"], None)


def test_missing_level_is_left_out() -> None:
    root = image("0.5", [(1, 8, 8), (1, 4, 4), (1, 2, 2)])
    del root["img/s1"]
    client = Client(root)
    assert client.node("img/s0")["levels"] == [[1, 8, 8], [1, 2, 2]]
