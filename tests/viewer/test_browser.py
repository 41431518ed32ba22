"""The page of the viewer in a browser: six stores, compared with the output of ``tessarr cat``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr.cli import main
from tessarr.web.viewer.show import ViewerFrame

Stores = Callable[..., Path]
View = Callable[[Path], Any]


def cat(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    capsys.readouterr()
    assert main(["cat", *map(str, arguments)]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_slider_of_climate_shows_times_and_values(
    view: View, stores: Stores, capsys: Any, zarr_format: int
) -> None:
    """The tree opens an array, the slider has times as labels, and the table equals `cat`."""
    path = stores("climate", zarr_format=zarr_format)
    viewer = view(path)
    page = viewer.open()
    page.get_by_role("navigation", name="Hierarchy").get_by_role("button", name="t2m").click()
    viewer.wait_for_slice("0,y,x")
    viewer.press("time", "ArrowRight", "ArrowRight", "ArrowRight")
    viewer.wait_for_slice("3,y,x")
    viewer.wait_for_position("time", "2024-03-01T18:00")
    page.get_by_text("lat (degrees_north)").wait_for()
    page.get_by_role("tab", name="Table").click()
    viewer.press("time", "ArrowRight")
    viewer.wait_for_slice("1,y,x")
    rows = cat(capsys, path / "t2m", "[1]").splitlines()
    assert viewer.read_cells(3) == rows[0].split()[:3]


def test_tooltip_of_heat_map_equals_cat(view: View, stores: Stores, capsys: Any) -> None:
    path = stores("climate")
    viewer = view(path)
    viewer.open("/t2m?slice=5,y,x")
    viewer.wait_for_slice("5,y,x")
    label, text = viewer.hover(0.5, 0.5)
    position = re.fullmatch(r"lon: (\S+) degrees_east, lat: (\S+) degrees_north", label)
    assert position is not None
    lon, lat = position.groups()
    row, column = round((87.5 - float(lat)) / 5), round((float(lon) + 177.5) / 5)
    assert text == cat(capsys, path / "t2m", f"[5, {row}, {column}]").strip()


def test_slider_step_compiles_no_shader(view: View, stores: Stores) -> None:
    """A compilation would delay each picture of a moving slider."""
    viewer = view(stores("climate"))
    viewer.page.add_init_script(
        "window.programs = 0; const link = WebGL2RenderingContext.prototype.linkProgram;"
        "WebGL2RenderingContext.prototype.linkProgram = function(program) {"
        " window.programs += 1; link.call(this, program) }"
    )
    page = viewer.open("/t2m")
    viewer.wait_for_slice("0,y,x")
    viewer.wait_for_frames()
    programs = page.evaluate("window.programs")
    assert programs > 0
    for step in range(1, 5):
        viewer.press("time", "ArrowRight")
        viewer.wait_for_slice(f"{step},y,x")
        viewer.wait_for_frames()
    assert page.evaluate("window.programs") == programs


def test_attributes_and_metadata_are_shown(view: View, stores: Stores) -> None:
    page = view(stores("climate", zarr_format=3)).open("/t2m?tab=properties")
    attributes = page.get_by_role("table", name="Attributes")
    assert attributes.get_by_role("row", name="long_name").text_content() == (
        "long_name2 metre temperature"
    )
    properties = page.get_by_role("table", name="Properties").text_content()
    assert "Blosc(" in properties
    assert json.loads(page.locator("pre").last.text_content())["dimension_names"][0] == "time"


def test_colours_contrast_and_scale_are_in_address(view: View, stores: Stores) -> None:
    """A link to the address shows the same view in another page."""
    path = stores("climate")
    viewer = view(path)
    page = viewer.open("/t2m")
    viewer.wait_for_slice("0,y,x")
    page.get_by_role("combobox", name="Viridis").click()
    page.get_by_role("option", name="Magma").click()
    page.get_by_role("combobox", name="Scale").click()
    page.get_by_role("option", name="Log", exact=True).click()
    page.get_by_role("button", name="Edit domain").click()
    page.get_by_label("max", exact=True).fill("300")
    page.get_by_label("max", exact=True).press("Enter")
    viewer.press("time", "End")
    viewer.wait_for_slice("95,y,x")
    address = "/t2m?colors=Magma&scale=log&max=300&slice=95,y,x"
    page.wait_for_function("hash => window.location.hash === hash", arg=f"#{address}")

    other = view(path)
    page = other.open(address)
    other.wait_for_slice("95,y,x")
    assert page.locator("figure[data-domain]").get_attribute("data-domain").endswith(",300")
    page.get_by_role("combobox", name="Magma").wait_for()


def test_histogram_is_shown_with_contrast(view: View, stores: Stores) -> None:
    viewer = view(stores("climate"))
    page = viewer.open("/t2m")
    viewer.wait_for_slice("0,y,x")
    page.get_by_role("button", name="Edit domain").click()
    bars = page.get_by_role("dialog", name="Edit domain").locator("rect")
    bars.nth(63).wait_for(state="attached")


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_image_pans_zooms_and_slides(view: View, stores: Stores, capsys: Any, version: str) -> None:
    """Zooming requests tiles of finer levels, each with at most a million elements."""
    path = stores("image", version)
    viewer = view(path)
    viewer.open()
    viewer.wait_for_slice("0,0,y,x")
    viewer.wait_for_position("z", "0 micrometer")
    viewer.press("z", "ArrowRight", "ArrowRight")
    viewer.press("c", "ArrowRight")
    viewer.wait_for_slice("1,2,y,x")
    viewer.wait_for_position("z", "4 micrometer")
    viewer.wait_for_position("c", "GFP")
    steps = {step for request in viewer.requests for step in re.findall(r"%3A(\d+)&", request)}
    assert "1" not in steps
    viewer.zoom_to_full_resolution()
    _, text = viewer.hover(0.5, 0.5)
    values = cat(capsys, path / "0", "[1, 2, 480:545, 480:545]").split()
    assert text in values


def test_levels_of_image_are_not_read_whole(view: View, stores: Stores) -> None:
    """The first picture of the full resolution needs a quarter of its elements."""
    viewer = view(stores("image", "0.5"))
    viewer.open("/0")
    viewer.wait_for_slice("0,0,y,x")
    values = [request for request in viewer.requests if request.startswith("values")]
    assert len(values) == 1
    assert "levels=1" in values[0]
    assert viewer.received_bytes < 600_000


def test_table_of_records_equals_cat(view: View, stores: Stores, capsys: Any) -> None:
    path = stores("tables")
    viewer = view(path)
    viewer.open("/stars")
    lines = cat(capsys, path / "stars", "--format", "csv").splitlines()
    assert viewer.read_cells(6) == [cell for line in lines[1:3] for cell in line.split(",")]
    for name in lines[0].split(","):
        viewer.page.get_by_text(name, exact=True).first.wait_for()


def test_field_of_records_is_drawn_as_line(view: View, stores: Stores) -> None:
    viewer = view(stores("tables"))
    viewer.open("/stars?field=mass").get_by_test_id("line").wait_for()


def test_text_equals_cat(view: View, stores: Stores, capsys: Any) -> None:
    path = stores("tables")
    viewer = view(path)
    viewer.open("/cities")
    assert viewer.read_cells(5) == json.loads(cat(capsys, path / "cities", "--format", "json"))


def test_large_integers_are_exact_and_scalars_shown(
    view: View, stores: Stores, capsys: Any
) -> None:
    path = stores("tables")
    viewer = view(path)
    viewer.open("/big")
    assert viewer.read_cells(4) == cat(capsys, path / "big").split()
    page = viewer.open("/answer")
    page.get_by_test_id("scalar").get_by_text("42").wait_for()


def test_part_of_complex_numbers_is_selected(view: View, stores: Stores) -> None:
    viewer = view(stores("tables"))
    page = viewer.open("/waves")
    page.get_by_test_id("line").wait_for()
    with page.expect_response(lambda response: "part=phase" in response.url):
        page.get_by_role("combobox", name="Part").click()
        page.get_by_role("option", name="phase").click()


def test_root_array_is_drawn_as_line(view: View, stores: Stores, capsys: Any) -> None:
    path = stores("root_array")
    viewer = view(path)
    page = viewer.open()
    page.get_by_test_id("line").wait_for()
    page.get_by_test_id("line").get_by_text("mV").wait_for()
    assert page.get_by_role("navigation", name="Hierarchy").count() == 0
    assert page.get_by_role("button", name="tree").count() == 0
    page.get_by_role("tab", name="Table").click()
    assert viewer.read_cells(5) == cat(capsys, path, "[:5]").split()


def test_large_plane_is_never_sent_whole(view: View, stores: Stores) -> None:
    """The plane has 400 MB. A zoom requests tiles, and values are exact."""
    viewer = view(stores("large_plane"))
    viewer.open()
    viewer.wait_for_slice("y,x")
    viewer.zoom_to_full_resolution()
    label, text = viewer.hover(0.52, 0.48)
    position = re.fullmatch(r"axis 1: (\d+), axis 0: (\d+)", label)
    assert position is not None
    column, row = map(int, position.groups())
    assert int(text) == row * 10 + column
    values = [request for request in viewer.requests if request.startswith("values")]
    assert len(values) < 150
    assert viewer.received_bytes < 150 * (1 << 20)


def test_broken_nodes_show_their_errors_and_hide_nothing(view: View, stores: Stores) -> None:
    viewer = view(stores("broken"))
    page = viewer.open()
    tree = page.get_by_role("navigation", name="Hierarchy")
    for name in ("good", "damaged", "not-json", "no-shape"):
        tree.get_by_role("button", name=name).wait_for()  # fails if there are two
    tree.get_by_role("button", name="not-json").click()
    page.get_by_role("alert").get_by_text("not JSON").wait_for()
    tree.get_by_role("button", name="damaged").click()
    page.get_by_text("cannot decode chunk (0, 0)").wait_for()
    tree.get_by_role("button", name="good").click()
    viewer.wait_for_slice("y,x")


@pytest.mark.parametrize("size", [40, 1200])
def test_repaired_chunk_is_shown_after_another_attempt(
    view: View, tmp_path: Path, size: int
) -> None:
    """The size 1200 has tiles, whose requests are cached apart from those of small planes."""
    array = tessarr.create_array(tmp_path, shape=(size, size), dtype="i4", chunks=(size, size))
    array[:] = np.arange(size)
    chunk = tmp_path / "c" / "0" / "0"
    content = chunk.read_bytes()
    chunk.write_bytes(b"damaged")
    viewer = view(tmp_path)
    page = viewer.open()
    page.get_by_text("cannot decode chunk (0, 0)").wait_for()
    chunk.write_bytes(content)
    page.get_by_role("button", name="Try again").click()
    viewer.wait_for_slice("y,x")


def test_group_that_refuses_listings_is_not_called_empty(view: View, tmp_path: Path) -> None:
    tessarr.create_group(tmp_path).create_array("a", data=[1, 2])
    with tessarr.serve(tmp_path) as server:
        viewer = view(server.url)
        page = viewer.open()
        page.get_by_role("main").get_by_text("cannot list").wait_for()
        assert page.get_by_text("no members").count() == 0
        viewer.open("/a").get_by_test_id("line").wait_for()


def test_packed_elements_are_drawn_as_values(view: View, tmp_path: Path) -> None:
    """A missing value does not set the limits of the colours."""
    data = np.arange(1600, dtype="i2").reshape(40, 40)
    data[0, 0] = -32768
    data[20:] = 100
    attributes = {"scale_factor": 0.5, "add_offset": 10.0, "_FillValue": -32768}
    tessarr.create_array(tmp_path, data=data, attributes=attributes)
    viewer = view(tmp_path)
    page = viewer.open()
    viewer.wait_for_slice("y,x")
    page.get_by_text("Values by the attributes scale_factor, add_offset, _FillValue.").wait_for()
    domain = page.locator("figure[data-domain]").get_attribute("data-domain")
    assert domain == "10.5,409.5"
    assert viewer.hover(0.5, 0.6)[1] == "60 (stored: 100)"
    page.get_by_role("tab", name="Table").click()
    page.get_by_text("Stored elements, without regard to the attributes").wait_for()
    assert viewer.read_cells(2) == ["-32768", "1"]


def test_unknown_node_in_address_is_reported(view: View, stores: Stores) -> None:
    page = view(stores("broken")).open("/nothing")
    page.get_by_role("alert").get_by_text("there is no array or group 'nothing'").wait_for()


def test_damaged_address_is_reported(view: View, stores: Stores) -> None:
    viewer = view(stores("broken"))
    viewer.open("/%E0%A4%A").get_by_role("alert").get_by_text("no array or group").wait_for()
    viewer.open("/good?colors=constructor&slice=-1,NaN&min=x")
    viewer.wait_for_slice("y,x")


def test_markup_in_names_and_attributes_is_text(view: View, tmp_path: Path) -> None:
    markup = "<img src=x onerror='window.hasRun = true'>"
    settings: Any = {"attributes": {markup: markup, "units": markup}}
    group = tessarr.create_group(tmp_path, **settings)
    names = [markup, "a%b#c?d&e=f", "constructor", "%E0%A4%A"]
    for name in names:
        dims = [markup, "constructor", "x"]
        data = np.zeros((2, 3, 4))
        group.create_array(name, data=data, dimension_names=dims, **settings)
    viewer = view(tmp_path)
    page = viewer.open()
    for name in names:
        page.get_by_role("navigation", name="Hierarchy").get_by_role("button", name=name).click()
        page.get_by_role("heading", name=name).wait_for()
        viewer.wait_for_slice("0,y,x")
        viewer.press(markup, "ArrowRight")
        viewer.wait_for_slice("1,y,x")
    page.get_by_role("tab", name="Properties").click()
    page.get_by_role("rowheader", name=markup).wait_for()
    assert page.evaluate("window.hasRun") is None


def test_page_without_token_is_refused(view: View, stores: Stores) -> None:
    viewer = view(stores("broken"))
    root = viewer.url.rstrip("/").rpartition("/")[0]
    response = viewer.page.goto(f"{root}/")
    assert response.status == 403
    assert "token" in viewer.page.content()


def test_frame_works_in_page_of_another_origin(view: View, stores: Stores) -> None:
    """Notebooks have another port, and so another origin, than the server of the frame."""
    viewer = view(stores("root_array"))
    viewer.page.goto(viewer.url.replace("127.0.0.1", "localhost").rpartition("/")[0][:-8])
    viewer.page.set_content(ViewerFrame(viewer.url, 400)._repr_html_())
    frame = viewer.page.frame_locator("iframe")
    frame.get_by_test_id("line").wait_for()
    frame.get_by_role("tab", name="Table").click()
    assert copy_link(viewer.page, frame) == f"{viewer.url}#/?view=table"


def test_link_of_insecure_page_is_copied(view: View, stores: Stores) -> None:
    """Browsers hide their clipboard from pages of other machines without HTTPS."""
    viewer = view(stores("root_array"))
    url = viewer.url.replace("127.0.0.1", "lab.test")
    viewer.page.goto(url)
    viewer.page.get_by_test_id("line").wait_for()
    assert viewer.page.evaluate("navigator.clipboard === undefined")
    assert copy_link(viewer.page, viewer.page) == f"{url}#/"


def copy_link(page: Any, frame: Any) -> str:
    """Click on the button and return what a paste inserts."""
    frame.get_by_role("button", name="Copy link").click()
    frame.get_by_role("button", name="Copied").wait_for()
    page.evaluate("document.body.append(document.createElement('textarea'))")
    page.locator("textarea").press("Control+v")
    text: str = page.locator("textarea").input_value()
    return text


def test_page_of_another_site_gets_no_values(view: View, stores: Stores) -> None:
    """A script of another page, which knows the address, cannot read responses."""
    viewer = view(stores("root_array"))
    other = viewer.url.replace("127.0.0.1", "localhost")
    viewer.open()
    result = viewer.page.evaluate(
        "async url => fetch(url).then(reply => reply.status, () => 'refused')", f"{other}api/node"
    )
    assert result == "refused"
