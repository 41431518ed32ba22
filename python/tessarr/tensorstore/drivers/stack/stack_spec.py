"""Specs of the driver ``stack``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from tessarr._safe_repr import safe_repr
from tessarr.errors import ArgumentError
from tessarr.index_space import IndexTransform
from tessarr.tensorstore.context.references import References
from tessarr.tensorstore.drivers.stack.combine import (
    RESOURCES,
    LayersKeywords,
    check_parts,
    combine_layers,
    overlay_domain,
    with_data_type,
)
from tessarr.tensorstore.drivers.stack.stack_driver import StackDriver, common_units
from tessarr.tensorstore.future.future import Future
from tessarr.tensorstore.future.spawn import start
from tessarr.tensorstore.handle.handle import TensorStore
from tessarr.tensorstore.schema.schema import Schema
from tessarr.tensorstore.spec.driver_spec import DriverSpec, Opened, Opening
from tessarr.tensorstore.spec.open_mode import OpenMode
from tessarr.tensorstore.spec.view_spec import ViewSpec, nested_json, spec_inside

if TYPE_CHECKING:
    from tessarr.tensorstore.context.context import Context
    from tessarr.tensorstore.context.references import Naming
    from tessarr.tensorstore.driver import Driver
    from tessarr.tensorstore.drivers.stack.stack_driver import Layer
    from tessarr.tensorstore.spec.spec import Spec
    from tessarr.types import JSONObject

__all__ = ["StackSpec"]


class StackSpec(ViewSpec):
    """The spec of layers."""

    name = "stack"

    _references: References

    @classmethod
    def parse(cls, members: dict[str, Any], schema: Schema) -> Self:
        """Return the spec of JSON members."""
        layers = members.pop("layers", None)
        if not isinstance(layers, list):
            raise ArgumentError(f'"layers": {safe_repr(layers)} is not a list')
        made = cls(schema)
        made._references = References.parse(RESOURCES, members)
        made._set_nested(spec_inside(one) for one in layers)
        for k, one in enumerate(made._nested):
            if one.domain is None:
                raise ArgumentError(f"layer {k} has to have a domain")
        made._settle()
        return made

    def _constrain(self, schema: Schema) -> None:
        """Add constraints; the data type applies to all layers."""
        super()._constrain(schema)
        self._settle()

    def _settle(self) -> None:
        """Check constraints, and set the common data type on layers without one."""
        check_parts(self.schema)
        shared = self.effective().dtype
        if shared is not None:
            self._set_nested(with_data_type(one, shared) for one in self._nested)

    @classmethod
    def of(
        cls, driver: Driver, view: IndexTransform, *, minimal: bool
    ) -> tuple[Self, IndexTransform]:
        """Return the spec of open layers."""
        assert isinstance(driver, StackDriver)
        made = cls(Schema(dtype=driver.dtype, domain=driver.domain))
        if any(unit is not None for unit in driver.dimension_units):
            made.schema.update(dimension_units=driver.dimension_units)
        made._references = driver.references

        def told(one: Layer) -> Spec:
            if isinstance(one, TensorStore):
                return one._spec(minimal=minimal)
            spec: Spec = one
            return spec._minimal() if minimal else spec

        made._set_nested(map(told, driver.layers))
        return made, view

    def members(self, naming: Naming, *, include_defaults: bool) -> JSONObject:
        """Return the members of its JSON."""
        layers = [
            nested_json(one, naming, include_defaults=include_defaults) for one in self._nested
        ]
        return {
            "layers": layers,
            **self._references.json(naming, include_defaults=include_defaults),
        }

    def see(self, naming: Naming) -> None:
        """Report the bound resources."""
        self._references.see(naming)  # before the layers, as TensorStore numbers them
        super().see(naming)

    def same(self, other: DriverSpec) -> bool:
        """Return whether the bound resources are identical."""
        assert isinstance(other, StackSpec)
        return super().same(other) and self._references.same(other._references)

    def bind(self, context: Context) -> Self:
        """Return the spec with the resources of a context."""
        return super().bind(context)._referring(self._references.bind(context))

    def strip(self) -> Self:
        """Return the spec without resources."""
        return super().strip()._referring(self._references.strip())

    def unbind(self, naming: Naming) -> Self:
        """Return the spec with the names of its resources."""
        return super().unbind(naming)._referring(self._references.unbind(naming))

    def _referring(self, references: References) -> Self:
        self._references = references  # a new spec
        return self

    def _effective(self) -> Schema:
        known = self.schema.copy()
        for one in self._nested:
            if one.dtype is not None:
                known.update(dtype=one.dtype)
        domains = [one.domain for one in self._nested]
        if domains and None not in domains:
            known = known._merged(Schema(domain=overlay_domain(self._nested, known.domain)))
        if known.rank is not None:
            stated = known.dimension_units or (None,) * known.rank
            known.update(dimension_units=common_units(stated, self._nested))
        return known

    @property
    def open_mode(self) -> OpenMode:
        """The open mode, if all layers have the same."""
        modes = [one.open_mode for one in self._nested]
        return modes[0] if modes and modes.count(modes[0]) == len(modes) else OpenMode()

    def open(self, view: IndexTransform | None, opening: Opening) -> Future[Opened]:
        """Open no layer: each layer is opened on first use."""

        def opened() -> Opened:
            keywords: LayersKeywords = {"transaction": opening.transaction, "schema": self.schema}
            made = combine_layers(self._nested, "overlay", None, keywords, self._references)
            return Opened(made._driver, view)

        return start(opened, here=True)
