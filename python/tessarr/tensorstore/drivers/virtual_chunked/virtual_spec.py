"""Specs of the driver ``virtual_chunked``, whose functions JSON cannot represent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self

from tessarr.errors import ArgumentError, UnsupportedError
from tessarr.tensorstore.context.references import Naming, References
from tessarr.tensorstore.drivers.virtual_chunked.functions import Functions, running_loop
from tessarr.tensorstore.drivers.virtual_chunked.virtual_driver import VirtualDriver
from tessarr.tensorstore.future.future import Future, spawn
from tessarr.tensorstore.schema.schema import Schema
from tessarr.tensorstore.spec.driver_spec import OpenRequest, OpenResult, SpecChanges
from tessarr.tensorstore.spec.resource_spec import DATA_RESOURCES, ResourceSpec

if TYPE_CHECKING:
    from tessarr.index_space import IndexTransform
    from tessarr.tensorstore.driver import Driver
    from tessarr.types import JSONObject

__all__ = ["VirtualSpec"]

_FUNCTIONS: Final = ("read_function", "write_function")


class VirtualSpec(ResourceSpec):
    """The spec of a pair of functions."""

    name = "virtual_chunked"

    _functions: Functions

    @classmethod
    def parse(cls, members: dict[str, Any], schema: Schema) -> Self:
        """Return the spec of functions in the members of a pickle."""
        read, write = (members.pop(name, None) for name in _FUNCTIONS)
        if not callable(read) and not callable(write):
            raise ArgumentError('"driver": functions have no JSON: use virtual_chunked')
        spec = cls(schema)
        spec._functions = Functions(read, write, running_loop())
        spec._references = References.parse(DATA_RESOURCES, members)
        return spec

    @classmethod
    def of(
        cls, driver: Driver, view: IndexTransform, *, minimal: bool
    ) -> tuple[Self, IndexTransform]:
        """Return the spec of an open driver."""
        assert isinstance(driver, VirtualDriver)
        spec = cls(
            Schema(
                dtype=driver.dtype,
                domain=driver.domain,
                chunk_layout=driver.chunk_layout,
                dimension_units=driver.dimension_units,
            )
        )
        spec._functions = driver.functions
        spec._references = driver.references
        return spec, view

    def members(self, naming: Naming, *, include_defaults: bool) -> JSONObject:
        """Return the members of a pickle; raise an error for other JSON."""
        if not naming.brief:
            raise UnsupportedError("functions have no JSON")
        json = dict(zip(_FUNCTIONS, (self._functions.read, self._functions.write), strict=True))
        return json | self._references.json(naming, include_defaults=include_defaults)

    def apply_changes(self, options: SpecChanges) -> Self:
        """Return the spec with options."""
        schema = options.schema
        if schema is not None and (schema.fill_value is not None or schema.codec is not None):
            raise ArgumentError("a virtual_chunked has neither a fill value nor a codec")
        return super().apply_changes(options)

    def open(self, view: IndexTransform | None, opening: OpenRequest) -> Future[OpenResult]:
        """Return the driver."""

        def opened() -> OpenResult:
            functions = self._functions
            for requested, function, act in (
                (opening.read and not opening.write, functions.read, "read"),
                (opening.write and not opening.read, functions.write, "write"),
            ):
                if requested and function is None:
                    raise ArgumentError(f"a function to {act} chunks is missing")
            return OpenResult(VirtualDriver(functions, self.schema, self._references), view)

        return spawn(opened, here=True)
