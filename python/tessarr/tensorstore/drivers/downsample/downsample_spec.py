"""Specs of the driver ``downsample``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from tessarr._safe_repr import safe_repr
from tessarr.errors import ArgumentError
from tessarr.index_space import Dim, IndexDomain, IndexTransform, OutputIndexMap
from tessarr.tensorstore.drivers.downsample.blocks import (
    BlockGrid,
    check_factors,
    downsample_domain,
)
from tessarr.tensorstore.drivers.downsample.downsample_driver import (
    DownsampleDriver,
    downsample_handle,
)
from tessarr.tensorstore.drivers.downsample.reduction import METHODS, check_method
from tessarr.tensorstore.future.combine import convert_result
from tessarr.tensorstore.future.future import Future
from tessarr.tensorstore.handle.handle import TensorStore
from tessarr.tensorstore.json.parse import lengths
from tessarr.tensorstore.opening import open_spec
from tessarr.tensorstore.schema.schema import Schema
from tessarr.tensorstore.spec.driver_spec import OpenRequest, OpenResult
from tessarr.tensorstore.spec.spec import Spec
from tessarr.tensorstore.spec.view_spec import (
    SingleBaseSpec,
    base_of,
    constraints_of,
    nested_json,
    without_dtype,
)

if TYPE_CHECKING:
    from tessarr.tensorstore.context.references import Naming
    from tessarr.tensorstore.driver import Driver
    from tessarr.types import JSONObject

__all__ = ["DownsampleSpec"]


class DownsampleSpec(SingleBaseSpec):
    """The spec of a downsampled view."""

    name = "downsample"

    _factors: tuple[int, ...]
    _method: str

    @classmethod
    def parse(cls, members: dict[str, Any], schema: Schema) -> Self:
        """Return the spec of JSON members."""
        spec = cls(Schema())
        base = base_of(members, schema.dtype)
        factors = lengths(1)(members.pop("downsample_factors", None), "downsample_factors")
        method = members.pop("downsample_method", None)
        if not isinstance(method, str) or method not in METHODS:
            raise ArgumentError(
                f'"downsample_method": {safe_repr(method)} is not one of {", ".join(METHODS)}'
            )
        spec._set(base, factors, method)
        spec._constrain(schema)
        return spec

    def _set(self, base: Spec, factors: Sequence[int], method: str) -> None:
        check_factors(factors, len(factors) if base.rank is None else base.rank)
        if base.dtype is not None:
            check_method(method, base.dtype)
        self._factors, self._method = tuple(factors), method
        self._set_base(base, shown=True)

    @classmethod
    def from_base(cls, base: Spec, factors: Sequence[int], method: str) -> Spec:
        """Return the spec of a view of another spec's array."""
        spec = cls(Schema(rank=len(factors)))
        spec._set(base, factors, method)
        return Spec._of(spec, None)

    def _constrain(self, schema: Schema) -> None:
        """Pass constraints on to the base; of the domain, pass only the common parts."""
        base, rank = self._nested[0].copy(), len(self._factors)
        schema = Schema(rank=rank)._merge_with(schema)
        constraints = constraints_of(schema, "dtype", "codec", "dimension_units", "fill_value")
        if schema.domain is not None:
            constraints["domain"] = self._in_common(schema.domain)
        base.update(schema=Schema(rank=rank, **constraints)._propagate_back(self._strided()))
        self._set_base(base, shown=schema.domain is not None)
        self.schema = self.schema._merge_with(
            Schema(rank=rank, dtype=schema.dtype, domain=schema.domain)
        )
        self._known = None
        self.effective()  # raises an error for a domain that differs from the base

    def _in_common(self, domain: IndexDomain) -> IndexDomain:
        """Return the domain constraints of the base: labels, and bounds with factor 1."""
        return IndexDomain._of(
            tuple(
                dim if factor == 1 else Dim(label=dim.label)
                for dim, factor in zip(domain._dims, self._factors, strict=True)
            )
        )

    def _strided(self) -> IndexTransform:
        """Return the view of the first element of each block."""
        maps = [OutputIndexMap._along(k, 0, factor) for k, factor in enumerate(self._factors)]
        return IndexTransform._of(IndexDomain(len(maps)), tuple(maps))

    @classmethod
    def of(
        cls, driver: Driver, view: IndexTransform, *, minimal: bool
    ) -> tuple[Self, IndexTransform]:
        """Return the spec of an open view."""
        assert isinstance(driver, DownsampleDriver)
        spec = cls(Schema())
        spec._factors, spec._method = driver.factors, driver.method
        spec._set_nested([driver.base._spec(minimal=minimal)])
        return spec, view

    def members(self, naming: Naming, *, include_defaults: bool) -> JSONObject:
        """Return the members of its JSON."""
        base = self._nested[0]
        json = nested_json(base, naming, include_defaults=include_defaults)
        if base._view is None and not include_defaults:
            json.pop("rank", None)
            json.pop("transform", None)
        return {
            "base": json if include_defaults else without_dtype(json),
            "downsample_factors": list(self._factors),
            "downsample_method": self._method,
        }

    def _effective(self) -> Schema:
        base = self._nested[0]
        known = Schema(rank=len(self._factors), dtype=base.dtype)
        if base.domain is not None:
            known.update(domain=downsample_domain(base.domain, self._factors, self._method))
        strided = base._known_schema()._propagate_fields(self._strided())
        known.update(chunk_layout=strided.chunk_layout, dimension_units=strided.dimension_units)
        return known._merge_with(self.schema)

    def base_of(self, view: IndexTransform) -> Spec | None:
        """Return the spec of the base of a view: see `DownsampleDriver.base_of`."""
        base = self._nested[0]
        domain = IndexDomain(len(self._factors)) if base.domain is None else base.domain
        blocks = BlockGrid(domain, self._factors, self._method)
        blocks.check(view)
        base_view = blocks.base_view(view)
        return None if base_view is None else base[base_view]

    def open(self, view: IndexTransform | None, opening: OpenRequest) -> Future[OpenResult]:
        """Start to open the base."""
        if opening.both or not opening.read:
            raise ArgumentError("a downsampled view cannot be written")
        if view is None and self.schema.domain is not None:
            known = self.outline().domain
            view = None if known is None else IndexTransform(known)

        def opened(base: TensorStore) -> OpenResult:
            handle = downsample_handle(base, self._factors, self._method)
            self._check(handle.domain, handle.dtype)
            return OpenResult(handle._driver, view)

        reading = OpenRequest(True, False, opening.transaction, opening.batch)
        return convert_result(open_spec(self._nested[0], reading), opened)
