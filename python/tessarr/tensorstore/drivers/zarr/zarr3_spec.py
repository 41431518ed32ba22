"""Specs of the driver ``zarr3``: members of format 3."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tessarr.flow import open as open_flow
from tessarr.tensorstore.drivers.zarr.open_spec import OpenableZarrSpec
from tessarr.tensorstore.drivers.zarr.resolve_metadata import read_constraints

if TYPE_CHECKING:
    from tessarr.store import Store
    from tessarr.types import JSONObject

__all__ = ["Zarr3Spec"]


class Zarr3Spec(OpenableZarrSpec):
    """The spec of an array of format 3."""

    name = "zarr3"
    zarr_format = 3
    _nothing = read_constraints("zarr3")
    _marker = "zarr.json"
    _scheme = "zarr3"
    _always: ClassVar[JSONObject] = {"node_type": "array"}

    def _parse_node(self, document: bytes, store: Store | None, path: str) -> open_flow.Node:
        return open_flow.parse_v3(document, path)
