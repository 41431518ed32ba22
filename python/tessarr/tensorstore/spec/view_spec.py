"""Base classes of specs of views over other specs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Self

from tessarr.errors import ArgumentError
from tessarr.index_space import IndexDomain
from tessarr.tensorstore.schema.layout_constraints import NO_LAYOUT
from tessarr.tensorstore.schema.schema import Schema
from tessarr.tensorstore.spec.driver_spec import DriverSpec
from tessarr.tensorstore.spec.serialize import context_json, spec_to_json
from tessarr.tensorstore.spec.spec import Spec

if TYPE_CHECKING:
    from tessarr.tensorstore.context.references import Naming, References, ResourceChange
    from tessarr.tensorstore.schema.codec_spec import CodecSpec
    from tessarr.tensorstore.schema.data_type import dtype as DataType  # noqa: N812
    from tessarr.tensorstore.spec.driver_spec import SpecChanges
    from tessarr.tensorstore.spec.open_mode import OpenMode
    from tessarr.types import JSONObject

__all__ = [
    "SingleBaseSpec",
    "ViewSpec",
    "base_of",
    "constraints_of",
    "nested_json",
    "read_nested_spec",
    "without_dtype",
]

_MAX_LEVELS: Final = 32
"""The maximum number of nested views."""


class ViewSpec(DriverSpec):
    """The spec of a view over other specs."""

    _nested: tuple[Spec, ...]
    _known: Schema | None = None

    def _with(self, nested: Iterable[Spec]) -> Self:
        new = copy(self)
        new._set_nested(nested)
        return new

    def _set_nested(self, nested: Iterable[Spec]) -> None:
        self._nested = tuple(nested)
        self._known = None
        if self._levels() > _MAX_LEVELS:
            raise ArgumentError(f"more than {_MAX_LEVELS} views are nested")

    def _levels(self) -> int:
        inner = (one._driver for one in self._nested)
        return 1 + max((one._levels() for one in inner if isinstance(one, ViewSpec)), default=0)

    def effective(self) -> Schema:
        """Return all constraints on the view that need no I/O."""
        if self._known is None:  # every view of the spec needs these constraints
            self._known = self._effective()
        return self._known

    def _effective(self) -> Schema:
        raise NotImplementedError

    def codec(self) -> CodecSpec | None:
        """Return the constraints on the encoding of the base, or None."""
        return None if self.base is None else self.base.codec

    def apply_changes(self, options: SpecChanges) -> Self:
        """Return the spec with changes; the base specs receive all changes except the schema."""
        if options.kvstore is not None and self.base is None:
            raise ArgumentError(f'a spec of the driver "{self.name}" takes no kvstore')
        passed = replace(options, schema=None)
        new = self._with(
            Spec._of(one._driver.apply_changes(passed), one._view, one._context)
            for one in self._nested
        )
        if options.schema is not None:
            new._constrain(options.schema)
        return new

    def _constrain(self, schema: Schema) -> None:
        """Add constraints on the schema."""
        self.schema = self.schema._merge_with(schema)
        self._known = None

    def references(self) -> Iterator[References]:
        """Return the references to resources."""
        for nested in self._nested:
            yield from nested._driver.references()

    def change_resources(self, change: ResourceChange) -> Self:
        """Return the spec with other resources."""
        return self._with(nested._change_resources(change) for nested in self._nested)

    def _check(self, domain: IndexDomain, data_type: DataType) -> None:
        """Raise an error if an open array contradicts the constraints."""
        Schema(domain=domain, dtype=data_type)._merge_with(
            Schema(domain=self.schema.domain, dtype=self.schema.dtype)
        )


class SingleBaseSpec(ViewSpec):
    """The spec of a view over one array, its base."""

    def _set_base(self, base: Spec, *, shown: bool) -> None:
        """Set the base; if `shown` is true, its JSON contains the transform if it is known."""
        view = base.transform if shown else base._view
        self._set_nested([Spec._of(base._driver, view, base._context)])

    @property
    def open_mode(self) -> OpenMode:
        """The open mode of the base."""
        return self._nested[0].open_mode

    @property
    def kvstore(self) -> Any:
        """The kvstore of the base."""
        return self._nested[0].kvstore

    @property
    def base(self) -> Spec:
        """The spec of the base."""
        return self._nested[0]


def constraints_of(schema: Schema, *names: str) -> dict[str, Any]:
    """Return the constraints with some names, and the chunk layout, that a schema has."""
    parts = {name: getattr(schema, name) for name in names}
    if schema._layout is not NO_LAYOUT:
        parts["chunk_layout"] = schema.chunk_layout
    return {name: value for name, value in parts.items() if value is not None}


def nested_json(spec: Spec, naming: Naming, *, include_defaults: bool) -> JSONObject:
    """Return the JSON of a nested spec; the outer spec's context holds its resources."""
    result = spec_to_json(spec, naming, include_defaults=include_defaults)
    result.pop("context", None)
    if spec._context is not None or include_defaults:
        result["context"] = context_json(spec._context, include_defaults=include_defaults)
    return result


def read_nested_spec(json: Any) -> Spec:
    """Return a nested spec from JSON."""
    try:
        return Spec(json)
    except RecursionError:
        raise ArgumentError(f"more than {_MAX_LEVELS} views are nested") from None


def base_of(members: dict[str, Any], data_type: DataType | None = None) -> Spec:
    """Remove ``base`` from `members` and return its spec; `data_type` is its default type."""
    if "base" not in members:
        raise ArgumentError('"base" is missing: a view needs the spec of its base')
    base = members.pop("base")
    return read_nested_spec(base if data_type is None else _with_dtype(base, data_type.name))


def without_dtype(json: JSONObject) -> JSONObject:
    """Return the JSON of a nested spec without the data type of the outer spec."""
    result = {name: value for name, value in json.items() if name != "dtype"}
    if "layers" in result:
        result["layers"] = [without_dtype(one) for one in result["layers"]]
    return result


def _with_dtype(json: Any, name: str) -> Any:
    if not isinstance(json, dict):
        return json
    result = {"dtype": name, **json}
    if isinstance(result.get("layers"), list):
        result["layers"] = [_with_dtype(one, name) for one in result["layers"]]
    return result
