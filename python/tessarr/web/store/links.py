"""Addresses and code that open a served store in other programs.

Viewers in a browser show arrays and OME-Zarr images; other groups have no links to them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from tessarr.array import Array

if TYPE_CHECKING:
    from tessarr.group import Group

__all__ = ["VIEWER_ORIGINS", "build_links", "find_note"]

_NEUROGLANCER: Final = "https://neuroglancer-demo.appspot.com/"
_VIZARR: Final = "https://hms-dbmi.github.io/vizarr/"

VIEWER_ORIGINS: Final = tuple(
    "{0.scheme}://{0.netloc}".format(urlsplit(url)) for url in (_NEUROGLANCER, _VIZARR)
)
"""The origins of the viewers that the links open."""

_IMAGE_ATTRIBUTES: Final = ("multiscales", "plate", "well")


def build_links(url: str, node: Array | Group | None, *, listing: bool = False) -> dict[str, str]:
    """Return addresses, commands and code that open a store, by the name of the program.

    Parameters
    ----------
    url
        The address of the store; it ends in "/".
    node
        The node at the root, if any.
    listing
        Whether the server sends listings.

    Examples
    --------
    >>> import tessarr
    >>> array = tessarr.create_array(None, shape=(3,), dtype="u1")
    >>> for name, link in build_links("http://localhost:8000/", array).items():
    ...     print(name, link, sep=": ")
    tessarr: tessarr info http://localhost:8000/
    zarr-python: zarr.open("http://localhost:8000/", mode="r")
    TensorStore: tensorstore.open({"driver": "zarr3", "kvstore": "http://localhost:8000/"})
    neuroglancer: https://neuroglancer-demo.appspot.com/#!%7B%22layers%22%3A...
    """
    if node is None:
        return {}
    is_array = isinstance(node, Array)
    driver = "zarr3" if node.zarr_format == 3 else "zarr"
    has_tree = not isinstance(node, Array) and _lists_members(node, listing)
    array_url = url if is_array else f"{url}PATH/OF/ARRAY/"
    links = {
        "tessarr": f"tessarr tree {url}" if has_tree else f"tessarr info {array_url}",
        "zarr-python": f'zarr.open("{url}", mode="r")',
        "TensorStore": f'tensorstore.open({{"driver": "{driver}", "kvstore": "{array_url}"}})',
    }
    if is_array or _is_image(node):
        source = f"{url}|zarr{node.zarr_format}:"
        layer = {"type": "image", "source": source, "name": node.basename or "data"}
        state = json.dumps({"layers": [layer]}, separators=(",", ":"))
        links["neuroglancer"] = f"{_NEUROGLANCER}#!{quote(state, safe='')}"
    if (is_array and node.ndim > 1) or _is_image(node):
        links["vizarr"] = f"{_VIZARR}?source={quote(url.rstrip('/'), safe=':/')}"
    return links


def find_note(node: Array | Group | None, *, listing: bool) -> str:
    """Return why programs cannot open the root or list its members, and a remedy; otherwise "".

    Examples
    --------
    >>> find_note(None, listing=True)
    'the root is neither array nor group: append the path of a node to the address'
    """
    if node is None:
        return "the root is neither array nor group: append the path of a node to the address"
    if isinstance(node, Array) or _lists_members(node, listing):
        return ""
    return (
        "programs cannot list the members of the group: allow listings (--listing or "
        "listing=True), or consolidate its metadata (tessarr consolidate)"
    )


def _lists_members(group: Group, listing: bool) -> bool:
    """Return whether programs can list the members of the group at the root."""
    return listing or group.consolidated


def _is_image(node: Array | Group) -> bool:
    """Return whether a node is an OME-Zarr image, plate or well."""
    attributes = node.attrs.asdict()
    return "ome" in attributes or any(name in attributes for name in _IMAGE_ATTRIBUTES)
