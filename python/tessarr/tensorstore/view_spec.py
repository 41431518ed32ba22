"""Specs of views over other specs: ``cast``, ``downsample`` and ``stack``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Final, Self

from tessarr.errors import ArgumentError
from tessarr.space import IndexTransform
from tessarr.tensorstore.after import attempt
from tessarr.tensorstore.cast import CastDriver, cast_store
from tessarr.tensorstore.converting import conversion
from tessarr.tensorstore.downsample import (
    DownsampleDriver,
    check_factors,
    downsample_store,
    downsampled,
)
from tessarr.tensorstore.driver_spec import DriverSpec, Opened, Opening, Options, driver_spec
from tessarr.tensorstore.future import Future, converted
from tessarr.tensorstore.layers import StackDriver
from tessarr.tensorstore.opening import open_spec
from tessarr.tensorstore.reducing import METHODS, check_method
from tessarr.tensorstore.schema import Schema
from tessarr.tensorstore.spec import Spec
from tessarr.tensorstore.stack import Access, layered
from tessarr.tensorstore.store import TensorStore

if TYPE_CHECKING:
    from tessarr.space import IndexDomain
    from tessarr.tensorstore.context import Context, Naming
    from tessarr.tensorstore.data_type import dtype as DataType  # noqa: N812
    from tessarr.tensorstore.driver import Driver
    from tessarr.types import JSONObject

__all__ = ["CastSpec", "DownsampleSpec", "StackSpec"]

_MAX_LEVELS: Final = 32
"""How many views may be nested, which are opened one in the other."""


class ViewSpec(DriverSpec):
    """What a spec says of a view: what it is of, which are specs again."""

    _nested: tuple[Spec, ...]
    _known: Schema | None = None

    def _with(self, nested: Iterable[Spec]) -> Self:
        made = copy(self)
        made._set_nested(nested)
        return made

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

    def changed(self, options: Options) -> Self:
        """Return the spec with options: those of opening are those of what is viewed."""
        if options.kvstore is not None:
            raise ArgumentError(f'a spec of the driver "{self.name}" takes no kvstore')
        passed = Options(
            mode=options.mode,
            flags=options.flags,
            recheck_metadata=options.recheck_metadata,
            recheck_data=options.recheck_data,
            minimal=options.minimal,
        )
        made = self._with(
            Spec._of(one._driver.changed(passed), one._view, one._context) for one in self._nested
        )
        if options.schema is not None:
            made._constrain(options.schema)
        return made

    def _constrain(self, schema: Schema) -> None:
        """Add constraints."""
        self.schema = self.schema.merged(schema)
        self._known = None

    def see(self, naming: Naming) -> None:
        """Tell which bound resources are used."""
        for one in self._nested:
            one._driver.see(naming)

    def same(self, other: DriverSpec) -> bool:
        """Return whether bound resources are the very same."""
        assert isinstance(other, ViewSpec)
        return len(self._nested) == len(other._nested) and all(
            type(a._driver) is type(b._driver) and a._driver.same(b._driver)
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
        Schema(domain=domain, dtype=data_type).merged(
            Schema(domain=self.schema.domain, dtype=self.schema.dtype)
        )


def nested_json(
    spec: Spec, naming: Naming, *, include_defaults: bool, without: Sequence[str] = ()
) -> JSONObject:
    """Return the JSON of a spec inside of another one, whose context has its resources."""
    found = spec._json(naming, include_defaults=include_defaults)
    for name in ("context", *without):
        found.pop(name, None)
    if spec._context is not None:
        found["context"] = spec._context.to_json()
    return found


def _spec(given: Any) -> Spec:
    try:
        return Spec(given)
    except RecursionError:
        raise ArgumentError(f"more than {_MAX_LEVELS} views are nested") from None


def _base(members: dict[str, Any], data_type: DataType | None = None) -> Spec:
    if "base" not in members:
        raise ArgumentError('"base" is missing: the spec does not say what it is a view of')
    base = members.pop("base")
    if data_type is not None and isinstance(base, dict):
        base = {"dtype": data_type.name, **base}
    return _spec(base)


class CastSpec(ViewSpec):
    """What a spec says of a cast."""

    name = "cast"

    @classmethod
    def parse(cls, members: dict[str, Any], schema: Schema) -> Self:
        """Return the spec that JSON states."""
        made = cls(Schema(dtype=schema.dtype))
        base = _base(members)
        if base.domain is not None:
            base = Spec._of(base._driver, base.transform, base._context)
        made._set_nested([base])
        made._constrain(schema)
        return made

    @classmethod
    def made(cls, base: Spec, data_type: DataType) -> Spec:
        """Return the spec of a cast of what another one opens."""
        found = cls(Schema(dtype=data_type))
        found._set_nested([Spec._of(base._driver, None, base._context)])
        return Spec._of(found, base._view)

    def _constrain(self, schema: Schema) -> None:
        """Pass constraints on to what is viewed, but for the data type."""
        base = self._nested[0].copy()
        given: dict[str, Any] = {
            "rank": schema.rank,
            "domain": schema.domain,
            "codec": schema.codec,
            "dimension_units": schema.dimension_units,
            "fill_value": schema.fill_value,
        }
        if set(schema.chunk_layout.to_json()) - {"rank"}:
            given["chunk_layout"] = schema.chunk_layout
        base.update(**{name: value for name, value in given.items() if value is not None})
        self._set_nested([base])
        self.schema = self.schema.merged(Schema(dtype=schema.dtype))
        self._known = None

    @classmethod
    def of(
        cls, driver: Driver, view: IndexTransform, *, minimal: bool
    ) -> tuple[Self, IndexTransform]:
        """Return the spec of an open cast."""
        assert isinstance(driver, CastDriver)
        of = driver.of
        spec, shown = driver_spec(of.name).of(of, view, minimal=minimal)
        made = cls(Schema(dtype=driver.dtype))
        made._set_nested([Spec._of(spec, None)])
        return made, shown

    def members(self, naming: Naming, *, include_defaults: bool) -> JSONObject:
        """Return the members of its JSON."""
        base = self._nested[0]
        without = () if base._view is not None else ("transform",)
        return {
            "base": nested_json(base, naming, include_defaults=include_defaults, without=without)
        }

    def _effective(self) -> Schema:
        base, target = self._nested[0].schema, self.schema.dtype
        known = Schema(
            rank=base.rank,
            dtype=target,
            domain=base.domain,
            chunk_layout=base.chunk_layout,
            codec=base.codec,
            dimension_units=base.dimension_units,
        )
        if base.fill_value is not None and base.dtype is not None and target is not None:
            forward = conversion(base.dtype, target)
            if forward is not None:
                known.update(fill_value=forward(base.fill_value))
        return known

    @property
    def open_mode(self) -> Any:
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

    @property
    def url(self) -> str:
        """The URL that says the same."""
        if self.schema.dtype is None:
            raise ArgumentError("the data type has to be given: there is no URL")
        return f"{self._nested[0].url}|cast:{self.schema.dtype.name}"

    def open(self, view: IndexTransform | None, opening: Opening) -> Future[Opened]:
        """Start to open the base."""
        target = self.schema.dtype
        if target is None:
            raise ArgumentError("the data type has to be given")

        def opened(base: TensorStore) -> Opened:
            made = cast_store(base, target)
            for way, asked in (("r", opening.read), ("w", opening.write)):
                if asked and way not in made.mode and opening.read != opening.write:
                    raise ArgumentError(
                        f"elements of {base.dtype.name} are not converted to {target.name} and "
                        f"back: mode {made.mode!r} is all that is possible",
                        kind="cannot_cast",
                    )
            found = made._view if view is None else made._view[view]
            return Opened(made._driver, found)

        return converted(open_spec(self._nested[0], opening), opened)


class DownsampleSpec(ViewSpec):
    """What a spec says of a downsampled view."""

    name = "downsample"

    _factors: tuple[int, ...]
    _method: str

    @classmethod
    def parse(cls, members: dict[str, Any], schema: Schema) -> Self:
        """Return the spec that JSON states."""
        made = cls(Schema())
        base = _base(members, schema.dtype)
        factors = members.pop("downsample_factors", None)
        if not isinstance(factors, list) or not all(
            isinstance(one, int) and not isinstance(one, bool) for one in factors
        ):
            raise ArgumentError(f'"downsample_factors": {factors!r} is not a list of integers')
        method = members.pop("downsample_method", None)
        if not isinstance(method, str) or method not in METHODS:
            raise ArgumentError(
                f'"downsample_method": {method!r} is not one of {", ".join(METHODS)}'
            )
        made._set(base, factors, method)
        made._constrain(schema)
        return made

    def _set(self, base: Spec, factors: Sequence[int], method: str) -> None:
        check_factors(factors, len(factors) if base.rank is None else base.rank)
        if base.dtype is not None:
            check_method(method, base.dtype)
        self._factors, self._method = tuple(factors), method
        self._set_nested([base])

    @classmethod
    def made(cls, base: Spec, factors: Sequence[int], method: str) -> Spec:
        """Return the spec of a view of what another one opens."""
        found = cls(Schema(rank=len(factors)))
        if base.rank is None:
            base = base.copy()
            base.update(rank=len(factors))
        found._set(base, factors, method)
        return Spec._of(found, None)

    def _constrain(self, schema: Schema) -> None:
        if schema.dtype is not None:
            base = self._nested[0].copy()
            base.update(dtype=schema.dtype)
            self._set_nested([base])
        if schema.fill_value is not None or schema.codec is not None:
            raise ArgumentError(
                "a downsampled view has neither a fill value nor a codec of its own"
            )
        self.schema = self.schema.merged(schema)

    @classmethod
    def of(
        cls, driver: Driver, view: IndexTransform, *, minimal: bool
    ) -> tuple[Self, IndexTransform]:
        """Return the spec of an open view."""
        assert isinstance(driver, DownsampleDriver)
        made = cls(Schema())
        made._factors, made._method = driver.factors, driver.method
        made._set_nested([driver.base._spec(minimal=minimal)])
        return made, view

    def members(self, naming: Naming, *, include_defaults: bool) -> JSONObject:
        """Return the members of its JSON."""
        base = self._nested[0]
        return {
            "base": nested_json(
                base,
                naming,
                include_defaults=include_defaults,
                without=("dtype", "rank") if base._view is None else ("dtype",),
            ),
            "downsample_factors": list(self._factors),
            "downsample_method": self._method,
        }

    def _effective(self) -> Schema:
        base = self._nested[0]
        known = Schema(rank=len(self._factors), dtype=base.dtype)
        if base.domain is not None:
            known.update(domain=downsampled(base.domain, self._factors, self._method))
        if base.codec is not None:
            known.update(codec=base.codec)
        return known.merged(self.schema)

    @property
    def open_mode(self) -> Any:
        """What opening may do: that of the base."""
        return self._nested[0].open_mode

    @property
    def kvstore(self) -> Any:
        """Where the base is."""
        return self._nested[0].kvstore

    def open(self, view: IndexTransform | None, opening: Opening) -> Future[Opened]:
        """Start to open the base."""
        if not opening.read:
            raise ArgumentError("a downsampled view cannot be written")

        def opened(base: TensorStore) -> Opened:
            made = downsample_store(base, self._factors, self._method)
            self._check(made.domain, made.dtype)
            return Opened(made._driver, view)

        reading = Opening(True, False, opening.transaction, opening.batch)
        return converted(open_spec(self._nested[0], reading), opened)


class StackSpec(ViewSpec):
    """What a spec says of layers."""

    name = "stack"

    _context: Any = None

    @classmethod
    def parse(cls, members: dict[str, Any], schema: Schema) -> Self:
        """Return the spec that JSON states."""
        layers = members.pop("layers", None)
        if not isinstance(layers, list):
            raise ArgumentError(f'"layers": {layers!r} is not a list')
        made = cls(schema)
        made._set_nested(_spec(one) for one in layers)
        for k, one in enumerate(made._nested):
            if one.domain is None:
                raise ArgumentError(f"layer {k} has to have a domain")
        members.pop("data_copy_concurrency", None)
        return made

    @classmethod
    def of(
        cls, driver: Driver, view: IndexTransform, *, minimal: bool
    ) -> tuple[Self, IndexTransform]:
        """Return the spec of open layers."""
        assert isinstance(driver, StackDriver)
        made = cls(Schema(dtype=driver.dtype, domain=driver.domain))
        if any(unit is not None for unit in driver.dimension_units):
            made.schema.update(dimension_units=driver.dimension_units)
        made._set_nested(
            one._spec(minimal=minimal) if isinstance(one, TensorStore) else one
            for one in driver.layers
        )
        return made, view

    def members(self, naming: Naming, *, include_defaults: bool) -> JSONObject:
        """Return the members of its JSON."""
        return {
            "layers": [
                nested_json(one, naming, include_defaults=include_defaults) for one in self._nested
            ]
        }

    def _effective(self) -> Schema:
        known = self.schema.copy()
        for one in self._nested:
            if one.dtype is not None:
                known.update(dtype=one.dtype)
        if known.domain is None and self._nested and all(one.domain for one in self._nested):
            known.update(domain=self._layered(None).domain)
        return known

    def _layered(self, transaction: Any) -> TensorStore:
        return layered(self._nested, Access(None, None, None, transaction), {"schema": self.schema})

    def open(self, view: IndexTransform | None, opening: Opening) -> Future[Opened]:
        """Open no layer yet: each is opened when it is needed."""
        return attempt(lambda: Opened(self._layered(opening.transaction)._driver, view))
