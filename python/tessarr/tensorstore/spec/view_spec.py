"""Base classes of specs of views over other specs."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import TYPE_CHECKING, Any, Final, Self

from tessarr.errors import ArgumentError
from tessarr.index_space import IndexDomain
from tessarr.tensorstore.schema.schema import Schema
from tessarr.tensorstore.spec.driver_spec import DriverSpec, SpecChanges
from tessarr.tensorstore.spec.serialize import context_json, everything
from tessarr.tensorstore.spec.spec import Spec

if TYPE_CHECKING:
    from tessarr.tensorstore.context.context import Context
    from tessarr.tensorstore.context.references import Naming
    from tessarr.tensorstore.schema.codec_spec import CodecSpec
    from tessarr.tensorstore.schema.data_type import dtype as DataType  # noqa: N812
    from tessarr.tensorstore.spec.open_mode import OpenMode
    from tessarr.types import JSONObject

__all__ = [
    "SingleBaseSpec",
    "ViewSpec",
    "base_of",
    "nested_json",
    "read_nested_spec",
    "without_dtype",
]

_MAX_LEVELS: Final = 32
"""How many views may be nested, which are opened one in the other."""


class ViewSpec(DriverSpec):
    """What a spec says of a view: what it is of, which are specs again."""

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
        """Return all that is known of the view without looking."""
        if self._known is None:  # it is asked for by every view of it
            self._known = self._effective()
        return self._known

    def _effective(self) -> Schema:
        raise NotImplementedError

    def codec(self) -> CodecSpec | None:
        """Return what is known of the encoding: that of the base, if there is one."""
        return None if self.base is None else self.base.codec

    def apply_changes(self, options: SpecChanges) -> Self:
        """Return the spec with options: those of opening are those of what is viewed."""
        if options.kvstore is not None and self.base is None:
            raise ArgumentError(f'a spec of the driver "{self.name}" takes no kvstore')
        passed = SpecChanges(
            mode=options.mode,
            kvstore=options.kvstore,
            flags=options.flags,
            recheck_metadata=options.recheck_metadata,
            recheck_data=options.recheck_data,
            minimal=options.minimal,
        )
        new = self._with(
            Spec._of(one._driver.apply_changes(passed), one._view, one._context)
            for one in self._nested
        )
        if options.schema is not None:
            new._constrain(options.schema)
        return new

    def _constrain(self, schema: Schema) -> None:
        """Add constraints."""
        self.schema = self.schema._merge_with(schema)
        self._known = None

    def collect_resources(self, naming: Naming) -> None:
        """Tell which bound resources are used."""
        for one in self._nested:
            one._driver.collect_resources(naming)

    def has_same_resources(self, other: DriverSpec) -> bool:
        """Return whether bound resources are the very same."""
        assert isinstance(other, ViewSpec)
        return len(self._nested) == len(other._nested) and all(
            type(a._driver) is type(b._driver) and a._driver.has_same_resources(b._driver)
            for a, b in zip(self._nested, other._nested, strict=True)
        )

    def bind(self, context: Context) -> Self:
        """Return the spec with the resources of a context."""
        return self._with(one._bound(context) for one in self._nested)

    def strip(self) -> Self:
        """Return the spec without resources."""
        return self._with(Spec._of(one._driver.strip(), one._view) for one in self._nested)

    def unbind(self, naming: Naming) -> Self:
        """Return the spec with the names of its resources."""
        return self._with(
            Spec._of(one._driver.unbind(naming), one._view, one._context) for one in self._nested
        )

    def _check(self, domain: IndexDomain, data_type: DataType) -> None:
        """Raise an error if what was opened is not as the constraints say."""
        Schema(domain=domain, dtype=data_type)._merge_with(
            Schema(domain=self.schema.domain, dtype=self.schema.dtype)
        )


class SingleBaseSpec(ViewSpec):
    """What a spec says of a view of one array, its base."""

    def _set_base(self, base: Spec, *, shown: bool) -> None:
        """Say what is viewed: its transform is stated if it is `shown`, and known."""
        view = base.transform if shown else base._view
        self._set_nested([Spec._of(base._driver, view, base._context)])

    @property
    def open_mode(self) -> OpenMode:
        """What opening may do: that of the base."""
        return self._nested[0].open_mode

    @property
    def kvstore(self) -> Any:
        """Where the base is."""
        return self._nested[0].kvstore

    @property
    def base(self) -> Spec:
        """What is viewed."""
        return self._nested[0]


def nested_json(spec: Spec, naming: Naming, *, include_defaults: bool) -> JSONObject:
    """Return the JSON of a spec inside of another one, whose context has its resources."""
    result = everything(spec, naming, include_defaults=include_defaults)
    result.pop("context", None)
    if spec._context is not None or include_defaults:
        result["context"] = context_json(spec._context, include_defaults=include_defaults)
    return result


def read_nested_spec(given: Any) -> Spec:
    """Return a spec that JSON states inside of another one."""
    try:
        return Spec(given)
    except RecursionError:
        raise ArgumentError(f"more than {_MAX_LEVELS} views are nested") from None


def base_of(members: dict[str, Any], data_type: DataType | None = None) -> Spec:
    """Take the member ``base``; it has this data type if it says none."""
    if "base" not in members:
        raise ArgumentError('"base" is missing: the spec does not say what it is a view of')
    base = members.pop("base")
    return read_nested_spec(base if data_type is None else _with_dtype(base, data_type.name))


def without_dtype(json: JSONObject) -> JSONObject:
    """Return JSON of a spec inside without the data type that it has of what is around it."""
    result = {name: value for name, value in json.items() if name != "dtype"}
    if "layers" in result:
        result["layers"] = [without_dtype(one) for one in result["layers"]]
    return result


def _with_dtype(given: Any, name: str) -> Any:
    if not isinstance(given, dict):
        return given
    result = {"dtype": name, **given}
    if isinstance(result.get("layers"), list):
        result["layers"] = [_with_dtype(one, name) for one in result["layers"]]
    return result
