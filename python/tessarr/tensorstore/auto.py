"""The driver ``auto``: finds out of which format an array is."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Self

from tessarr.errors import ArgumentError, NotFoundError
from tessarr.tensorstore.driver_spec import DriverSpec, Opened, Opening, Options, driver_spec
from tessarr.tensorstore.future import Future, start
from tessarr.tensorstore.kvstore.spec import Spec as Place
from tessarr.tensorstore.open_mode import OpenMode
from tessarr.tensorstore.zarr_spec import place_of

if TYPE_CHECKING:
    from tessarr.space import IndexTransform
    from tessarr.tensorstore.context import Context, Naming
    from tessarr.tensorstore.schema import Schema
    from tessarr.types import JSONObject

__all__ = ["AutoSpec"]

_DOCUMENTS = {"zarr.json": "zarr3", ".zarray": "zarr"}


class AutoSpec(DriverSpec):
    """What a spec says that does not name the format."""

    name = "auto"

    _place: Place | None
    _options: Options

    @classmethod
    def parse(cls, members: dict[str, Any], schema: Schema) -> Self:
        """Return the spec that JSON states."""
        made = cls(schema)
        made._place = place_of(members.pop("kvstore")) if "kvstore" in members else None
        made._options = Options()
        return made

    def members(self, naming: Naming, *, include_defaults: bool) -> JSONObject:
        """Return the members of its JSON."""
        if self._place is None:
            return {}
        return {"kvstore": self._place._json(naming, include_defaults=include_defaults)}

    def changed(self, options: Options) -> Self:
        """Return the spec with options."""
        made = copy(self)
        if options.schema is not None:
            made.schema = self.schema.merged(options.schema)
        if options.kvstore is not None:
            if self._place is not None:
                raise ArgumentError("kvstore is given twice: the spec has one")
            made._place = place_of(options.kvstore)
        old = self._options
        mode = OpenMode(open=True) if old.mode is None else old.mode
        made._options = Options(
            mode=mode.changed(options.mode, options.flags),
            recheck_metadata=_later(options.recheck_metadata, old.recheck_metadata),
            recheck_data=_later(options.recheck_data, old.recheck_data),
        )
        return made

    def see(self, naming: Naming) -> None:
        """Tell which bound resources are used."""
        if self._place is not None:
            self._place._see(naming)

    def same(self, other: DriverSpec) -> bool:
        """Return whether bound resources are the very same."""
        assert isinstance(other, AutoSpec)
        return self._place == other._place

    _context: Context | None = None

    def bind(self, context: Context) -> Self:
        """Return the spec with the resources of a context."""
        made = self._with(self._place and self._place._bound(context))
        made._context = context
        return made

    def strip(self) -> Self:
        """Return the spec without resources."""
        return self._with(self._place and self._place._stripped())

    def unbind(self, naming: Naming) -> Self:
        """Return the spec with the names of its resources."""
        return self._with(self._place and self._place._unbound(naming))

    def _with(self, place: Place | None) -> Self:
        made = copy(self)
        made._place = place
        made._context = None
        return made

    @property
    def open_mode(self) -> OpenMode:
        """What opening may do."""
        return OpenMode(open=True) if self._options.mode is None else copy(self._options.mode)

    @property
    def kvstore(self) -> Any:
        """Where it is."""
        return None if self._place is None else self._place.copy()

    @property
    def url(self) -> str:
        """The URL that says the same."""
        if self._place is None:
            raise ArgumentError("the spec has no kvstore: there is no URL")
        return self._place.url

    def open(self, view: IndexTransform | None, opening: Opening) -> Future[Opened]:
        """Start to open."""
        place = self._place
        if place is None:
            raise ArgumentError("the spec has no kvstore: where the array is has to be said")
        if self.open_mode.create:
            raise ArgumentError('a new array needs a format: give a driver, such as "zarr3"')
        context = self._context
        here = place._driver.name in {"file", "memory"}
        return start(lambda: self._opened(place, view, opening, context), here=here)

    def _opened(
        self,
        place: Place,
        view: IndexTransform | None,
        opening: Opening,
        context: Context | None,
    ) -> Opened:
        at = place._open()
        path = place.path if not place.path or place.path.endswith("/") else f"{place.path}/"
        for document, name in _DOCUMENTS.items():
            if at.store.size(at.key(path + document)) is not None:
                found = driver_spec(name).parse({"kvstore": place}, self.schema)
                if context is not None:
                    found = found.bind(context)
                return found.changed(self._options).open(view, opening).result()
        raise NotFoundError(
            f"there is no array that is known at {path!r} of {at.store}: neither "
            f"{' nor '.join(map(repr, _DOCUMENTS))} is there",
            kind="array_not_found",
            path=path,
        )


def _later(new: Any, old: Any) -> Any:
    return old if new is None else new
