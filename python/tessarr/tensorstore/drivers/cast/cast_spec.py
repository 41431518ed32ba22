"""Specs of the driver ``cast``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self

from tessarr.errors import ArgumentError
from tessarr.index_space import IndexTransform
from tessarr.tensorstore.drivers.cast.cast_driver import CastDriver, cast_handle
from tessarr.tensorstore.drivers.cast.conversion import find_conversion
from tessarr.tensorstore.future.combine import convert_result
from tessarr.tensorstore.future.future import Future
from tessarr.tensorstore.handle.handle import TensorStore
from tessarr.tensorstore.opening import open_spec
from tessarr.tensorstore.schema.data_type import dtype as DataType  # noqa: N812
from tessarr.tensorstore.schema.data_type import json
from tessarr.tensorstore.schema.schema import Schema
from tessarr.tensorstore.spec.driver_spec import OpenRequest, OpenResult, driver_spec
from tessarr.tensorstore.spec.spec import Spec
from tessarr.tensorstore.spec.view_spec import SingleBaseSpec, base_of, constraints_of, nested_json

if TYPE_CHECKING:
    import numpy.typing as npt

    from tessarr.tensorstore.context.references import Naming
    from tessarr.tensorstore.driver import Driver
    from tessarr.types import JSONObject

__all__ = ["CastSpec"]


class CastSpec(SingleBaseSpec):
    """The spec of a cast."""

    name = "cast"

    @classmethod
    def parse(cls, members: dict[str, Any], schema: Schema) -> Self:
        """Return the spec of JSON members."""
        spec = cls(Schema(dtype=schema.dtype))
        base = base_of(members)
        pickled_members = members.get("pickled")
        if isinstance(pickled_members, list) and pickled_members[:1] == [...]:
            _, rank, spec.ranked = members.pop("pickled")
            spec.schema.update(rank=rank)
            spec._set_base(base, shown=False)
            return spec
        spec._set_base(base, shown=True)
        spec.ranked = schema.rank is not None or base.transform is not None
        spec._constrain(schema)
        spec.schema = spec.schema._merge_with(Schema(rank=schema.rank))
        return spec

    @classmethod
    def from_base(cls, base: Spec, data_type: DataType) -> Spec:
        """Return the spec of a cast of another spec's array."""
        view = base._view
        rank = base._driver.outline().rank if view is None else view.output_rank
        spec = cls(Schema(dtype=data_type, rank=rank))
        spec._set_nested([Spec._of(base._driver, None, base._context)])
        return Spec._of(spec, view)

    @staticmethod
    def wrap_handle(base: TensorStore, data_type: DataType) -> TensorStore:
        """Return a view of a handle with another data type."""
        return cast_handle(base, data_type)

    def _constrain(self, schema: Schema) -> None:
        """Pass all constraints but the data type on to the base."""
        base = self._nested[0].copy()
        names = ("rank", "domain", "codec", "dimension_units", "fill_value")
        base.update(**constraints_of(schema, *names))
        self._set_base(base, shown=schema.domain is not None)
        self.schema = self.schema._merge_with(Schema(dtype=schema.dtype))
        self._known = None

    @classmethod
    def of(
        cls, driver: Driver, view: IndexTransform, *, minimal: bool
    ) -> tuple[Self, IndexTransform]:
        """Return the spec of an open cast."""
        assert isinstance(driver, CastDriver)
        of = driver.of
        spec, shown = driver_spec(of.name).of(of, view, minimal=minimal)
        cast = cls(Schema(dtype=driver.dtype, rank=driver.domain.rank))
        cast._set_nested([Spec._of(spec, None)])
        return cast, shown

    def members(self, naming: Naming, *, include_defaults: bool) -> JSONObject:
        """Return the members of its JSON."""
        base, rank = self._nested[0], self.schema.rank
        json = nested_json(base, naming, include_defaults=include_defaults)
        if base._view is None:
            json.pop("transform", None)  # the transform of the cast
        if naming.brief:
            # Pickles keep the base unchanged, and members that JSON does not have; JSON has no
            # ellipsis.
            return {"base": json, "pickled": [..., rank, self.ranked]}
        if not include_defaults and rank is not None:
            json.pop("rank", None)  # equal to the base's
        ranked = base._view is None and base._driver.ranked
        if include_defaults and ranked and rank is not None:
            json.update(rank=rank, schema={**json["schema"], "rank": rank})
        return {"base": json}

    def outline(self) -> Schema:
        """Return the known data type and domain, and the rank if the spec has one."""
        domain, schema = self._nested[0].domain, self.schema
        rank = schema.rank if domain is None else domain.rank
        return Schema(rank=rank, dtype=schema.dtype, domain=domain)

    def _effective(self) -> Schema:
        base, target = self._nested[0]._known_schema(), self.schema.dtype
        schema = Schema(
            rank=base.rank,
            dtype=target,
            domain=base.domain,
            chunk_layout=base.chunk_layout,
            dimension_units=base.dimension_units,
        )
        if base.fill_value is not None and target is not None:
            source = _fill_data_type(base.fill_value, base.dtype)
            forward = find_conversion(source, target)
            if forward is not None:
                schema.update(fill_value=forward(base.fill_value))
        return schema

    def base_of(self, view: IndexTransform) -> Spec:
        """Return the spec of the base of a view."""
        base = self._nested[0]
        if base._view is None:  # the view is serialised unchanged
            return Spec._of(base._driver, view, base._context)
        spec: Spec = super().base_of(view)
        return spec

    @property
    def url(self) -> str:
        """The URL of the spec."""
        if self.schema.dtype is None:
            raise ArgumentError("a URL needs a data type: give dtype")
        return f"{self._nested[0].url}|cast:{self.schema.dtype.name}"

    def open(self, view: IndexTransform | None, opening: OpenRequest) -> Future[OpenResult]:
        """Start to open the base."""
        target = self.schema.dtype
        if target is None:
            raise ArgumentError("the data type is missing: give dtype")

        def opened(base: TensorStore) -> OpenResult:
            view_handle = cast_handle(base, target)
            for letter, requested in (("r", opening.read), ("w", opening.write)):
                if (
                    requested
                    and letter not in view_handle.mode
                    and opening.read != (opening.write and not opening.both)
                ):
                    raise ArgumentError(
                        f"elements of {base.dtype.name} do not convert to {target.name} and "
                        f"back: only mode {view_handle.mode!r} is possible",
                        kind="cannot_cast",
                    )
            transform = view_handle._view if view is None else view_handle._view[view]
            return OpenResult(view_handle._driver, transform)

        return convert_result(open_spec(self._nested[0], opening), opened)


def _fill_data_type(fill: npt.NDArray[Any], known: DataType | None) -> DataType:
    """Return the data type of a fill value: JSON unless the schema has another one."""
    if not fill.dtype.hasobject:
        return known or DataType(fill.dtype)
    kind = None if known is None else _OBJECT_TYPES.get(known.name)
    if known is None or kind is None or not all(isinstance(item, kind) for item in fill.flat):
        return json
    return known


_OBJECT_TYPES: Final = {"string": bytes, "ustring": str}
