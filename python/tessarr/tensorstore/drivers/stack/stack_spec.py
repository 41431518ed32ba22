"""Specs of the driver ``stack``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from tessarr._safe_repr import safe_repr
from tessarr.errors import ArgumentError
from tessarr.index_space import IndexTransform
from tessarr.tensorstore.context.references import Naming, References
from tessarr.tensorstore.drivers.stack.combine import (
    LayersKeywords,
    check_parts,
    combine_layers,
    overlay_domain,
    with_data_type,
)
from tessarr.tensorstore.drivers.stack.stack_driver import Layer, StackDriver, common_units
from tessarr.tensorstore.future.future import Future, spawn
from tessarr.tensorstore.handle.handle import TensorStore
from tessarr.tensorstore.schema.schema import Schema
from tessarr.tensorstore.spec.driver_spec import OpenRequest, OpenResult, SpecChanges
from tessarr.tensorstore.spec.open_mode import OpenMode
from tessarr.tensorstore.spec.resource_spec import COPY_RESOURCES, ResourceSpec
from tessarr.tensorstore.spec.view_spec import ViewSpec, nested_json, read_nested_spec

if TYPE_CHECKING:
    from tessarr.tensorstore.driver import Driver
    from tessarr.tensorstore.spec.spec import Spec
    from tessarr.types import JSONObject

__all__ = ["StackSpec"]


class StackSpec(ResourceSpec, ViewSpec):
    """The spec of layers."""

    name = "stack"

    @classmethod
    def parse(cls, members: dict[str, Any], schema: Schema) -> Self:
        """Return the spec of JSON members."""
        layers = members.pop("layers", None)
        if not isinstance(layers, list):
            raise ArgumentError(f'"layers": {safe_repr(layers)} is not a list')
        spec = cls(schema)
        spec._references = References.parse(COPY_RESOURCES, members)
        spec._set_nested(read_nested_spec(layer) for layer in layers)
        for k, layer in enumerate(spec._nested):
            if layer.domain is None:
                raise ArgumentError(f"layer {k} needs a domain")
        spec._settle()
        return spec

    def _constrain(self, schema: Schema) -> None:
        """Add constraints; the data type applies to all layers."""
        super()._constrain(schema)
        self._settle()

    def apply_changes(self, options: SpecChanges) -> Self:
        """Return the spec with changes; the layers receive all changes except the schema."""
        return super(ResourceSpec, self).apply_changes(options)

    def _settle(self) -> None:
        """Check constraints, and set the common data type on layers without one."""
        check_parts(self.schema)
        shared = self.effective().dtype
        if shared is not None:
            self._set_nested(with_data_type(layer, shared) for layer in self._nested)

    @classmethod
    def of(
        cls, driver: Driver, view: IndexTransform, *, minimal: bool
    ) -> tuple[Self, IndexTransform]:
        """Return the spec of open layers."""
        assert isinstance(driver, StackDriver)
        spec = cls(Schema(dtype=driver.dtype, domain=driver.domain))
        if any(unit is not None for unit in driver.dimension_units):
            spec.schema.update(dimension_units=driver.dimension_units)
        spec._references = driver.references

        def layer_spec(layer: Layer) -> Spec:
            if isinstance(layer, TensorStore):
                return layer._spec(minimal=minimal)
            spec: Spec = layer
            return spec._minimal() if minimal else spec

        spec._set_nested(map(layer_spec, driver.layers))
        return spec, view

    def members(self, naming: Naming, *, include_defaults: bool) -> JSONObject:
        """Return the members of its JSON."""
        layers = [
            nested_json(layer, naming, include_defaults=include_defaults) for layer in self._nested
        ]
        return {
            "layers": layers,
            **self._references.json(naming, include_defaults=include_defaults),
        }

    def _effective(self) -> Schema:
        schema = self.schema.copy()
        for layer in self._nested:
            if layer.dtype is not None:
                schema.update(dtype=layer.dtype)
        domains = [layer.domain for layer in self._nested]
        if domains and None not in domains:
            schema = schema._merge_with(Schema(domain=overlay_domain(self._nested, schema.domain)))
        if schema.rank is not None:
            units = schema.dimension_units or (None,) * schema.rank
            schema.update(dimension_units=common_units(units, self._nested))
        return schema

    @property
    def open_mode(self) -> OpenMode:
        """The open mode, if all layers have the same one."""
        modes = [layer.open_mode for layer in self._nested]
        return modes[0] if modes and modes.count(modes[0]) == len(modes) else OpenMode()

    def open(self, view: IndexTransform | None, opening: OpenRequest) -> Future[OpenResult]:
        """Open no layer: each layer is opened on first use."""

        def opened() -> OpenResult:
            keywords: LayersKeywords = {"transaction": opening.transaction, "schema": self.schema}
            handle = combine_layers(self._nested, "overlay", None, keywords, self._references)
            return OpenResult(handle._driver, view)

        return spawn(opened, here=True)
