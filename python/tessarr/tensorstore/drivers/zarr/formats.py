"""The specs of the drivers ``zarr3`` and ``zarr``: members that only one format has."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from tessarr._safe_repr import safe_repr
from tessarr.errors import ArgumentError
from tessarr.flow import open as open_flow
from tessarr.flow.run import Get
from tessarr.metadata import v2
from tessarr.store.wrappers.rename_keys import rename_keys
from tessarr.tensorstore.drivers.zarr.open_array import start_open
from tessarr.tensorstore.drivers.zarr.resolve_metadata import read_constraints
from tessarr.tensorstore.drivers.zarr.zarr_spec import ZarrSpec
from tessarr.tensorstore.json.parse import choice, text

if TYPE_CHECKING:
    from tessarr.index_space import IndexTransform
    from tessarr.store import Store
    from tessarr.tensorstore.context.references import Naming
    from tessarr.tensorstore.future.future import Future
    from tessarr.tensorstore.spec.driver_spec import OpenRequest, OpenResult
    from tessarr.types import JSONObject

__all__ = ["Zarr2Spec", "Zarr3Spec"]


class _OpenableSpec(ZarrSpec):
    """A spec of a Zarr array that can be opened or created."""

    def open(self, view: IndexTransform | None, opening: OpenRequest) -> Future[OpenResult]:
        """Start to open."""
        return start_open(self, view, opening)


class Zarr3Spec(_OpenableSpec):
    """The spec of an array of format 3."""

    name = "zarr3"
    zarr_format = 3
    _nothing = read_constraints("zarr3")
    _marker = "zarr.json"
    _scheme = "zarr3"
    _always: ClassVar[JSONObject] = {"node_type": "array"}

    def _parse_node(self, document: bytes, store: Store | None, path: str) -> open_flow.Node:
        return open_flow.parse_v3(document, path)


class Zarr2Spec(_OpenableSpec):
    """The spec of an array of format 2."""

    name = "zarr"
    zarr_format = 2
    _nothing = read_constraints("zarr")
    _marker = v2.ARRAY
    _scheme = "zarr2"

    _metadata_key: str = v2.ARRAY

    @property
    def document(self) -> str:
        """The key of the document."""
        return self._metadata_key

    @property
    def reads_attributes(self) -> bool:
        """Whether opening must read a separate attributes document."""
        return bool(self._constraints.attributes)

    def _parse_format_members(self, members: dict[str, Any]) -> None:
        """Read the members that only one format has."""
        self._metadata_key = text(members.pop("metadata_key", v2.ARRAY), "metadata_key")
        super()._parse_format_members(members)
        if "key_encoding" not in members:
            return
        separator = choice(".", "/")(members.pop("key_encoding"), "key_encoding")
        if self._constraints.separator not in {None, separator}:
            raise ArgumentError(
                f'"key_encoding": {safe_repr(separator)} does not match metadata, which have '
                f"{safe_repr(self._constraints.separator)}"
            )
        self._constraints = replace(self._constraints, separator=separator)

    def members(self, naming: Naming, *, include_defaults: bool) -> JSONObject:
        """Return the members of its JSON."""
        json = super().members(naming, include_defaults=include_defaults)
        if self._metadata_key != v2.ARRAY:
            json["metadata_key"] = self._metadata_key
        return json

    def _suffix(self) -> str:
        if self._metadata_key != v2.ARRAY:
            raise ArgumentError("a URL has no metadata_key: the document must be '.zarray'")
        return super()._suffix()

    def _parse_node(self, document: bytes, store: Store | None, path: str) -> open_flow.Node:
        attributes = None
        if self.reads_attributes and store is not None:
            attributes = Get(open_flow.prefix_of(path) + v2.ATTRIBUTES).perform(store)
        return open_flow.parse_v2(v2.ARRAY, document, attributes, path=path)

    def _metadata_store(self, store: Store, path: str) -> Store:
        if self._metadata_key == v2.ARRAY:
            return store
        prefix = open_flow.prefix_of(path)
        return rename_keys(store, {prefix + v2.ARRAY: prefix + self._metadata_key})
