"""Links that open a served store in other programs."""

from __future__ import annotations

import json
from urllib.parse import unquote, urlsplit

import tessarr
from tessarr.web.store.links import VIEWER_ORIGINS, build_links

URL = "http://localhost:8000/token/"


def test_links_of_array_open_its_format() -> None:
    array = tessarr.create_array(None, shape=(4, 4), dtype="u1", zarr_format=2)
    links = build_links(URL, array)
    assert links["TensorStore"] == f'tensorstore.open({{"driver": "zarr", "kvstore": "{URL}"}})'
    parts = urlsplit(links["neuroglancer"])
    assert f"{parts.scheme}://{parts.netloc}" in VIEWER_ORIGINS
    (layer,) = json.loads(unquote(parts.fragment.removeprefix("!")))["layers"]
    assert layer["source"] == f"{URL}|zarr2:"
    assert links["vizarr"].endswith("/vizarr/?source=http://localhost:8000/token")


def test_links_of_image_open_group() -> None:
    for attributes in ({"multiscales": []}, {"ome": {"version": "0.5"}}):
        group = tessarr.create_group(None, attributes=attributes)
        assert {"neuroglancer", "vizarr"} <= set(build_links(URL, group))


def test_links_of_other_group_have_no_viewers() -> None:
    links = build_links(URL, tessarr.create_group(None))
    assert set(links) == {"tessarr", "zarr-python", "TensorStore"}
    assert f"{URL}PATH/OF/ARRAY/" in links["TensorStore"]


def test_command_for_group_needs_listing_or_consolidated_metadata() -> None:
    """`tessarr tree` fails without both."""
    group = tessarr.create_group(None)
    assert build_links(URL, group)["tessarr"] == f"tessarr info {URL}PATH/OF/ARRAY/"
    assert build_links(URL, group, listing=True)["tessarr"] == f"tessarr tree {URL}"
    group.create_array("a", data=[1])
    consolidated = tessarr.consolidate_metadata(group.store)
    assert build_links(URL, consolidated)["tessarr"] == f"tessarr tree {URL}"


def test_links_of_1d_array_have_no_vizarr() -> None:
    array = tessarr.create_array(None, shape=(4,), dtype="u1")
    assert "vizarr" not in build_links(URL, array)


def test_store_without_node_has_no_links() -> None:
    assert build_links(URL, None) == {}
