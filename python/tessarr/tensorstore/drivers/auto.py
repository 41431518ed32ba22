"""The driver ``auto``: detects the format of an array."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Self

from tessarr.errors import ArgumentError, NotFoundError
from tessarr.index_space import IndexTransform
from tessarr.tensorstore.batch.shared_reads import Expected
from tessarr.tensorstore.context.references import References
from tessarr.tensorstore.context.resources import KINDS
from tessarr.tensorstore.future.future import Future
from tessarr.tensorstore.future.spawn import start
from tessarr.tensorstore.spec.driver_spec import Opened, Opening, Options, driver_spec
from tessarr.tensorstore.spec.kvstore_driver_spec import PlacedSpec
from tessarr.tensorstore.spec.open_mode import OpenMode

if TYPE_CHECKING:
    from tessarr.tensorstore.batch.read_group import Together
    from tessarr.tensorstore.batch.shared_reads import Sharing
    from tessarr.tensorstore.context.context import Context
    from tessarr.tensorstore.context.references import Naming
    from tessarr.tensorstore.kvstore.kvstore_spec import Spec as Place
    from tessarr.tensorstore.schema.schema import Schema
    from tessarr.types import JSONObject

__all__ = ["AutoSpec"]

_DOCUMENTS = {"zarr.json": "zarr3", ".zarray": "zarr"}
_RESOURCES = {name: name for name in KINDS}


class AutoSpec(PlacedSpec):
    """A spec without a format."""

    name = "auto"

    _rechecks: Options
    _context: Context | None = None
    _null_resources: tuple[str, ...] = ()  # resources that are null in JSON
    # specs of each format with the same members, without a location
    _formats: dict[str, PlacedSpec]

    @classmethod
    def parse(cls, members: dict[str, Any], schema: Schema) -> Self:
        """Return the spec of JSON members."""
        made = cls(schema)
        made._take_place(members)
        made._mode = OpenMode(open=True)
        said = {name: members[name] for name in sorted(KINDS.keys() & members.keys())}
        made._null_resources = tuple(name for name, value in said.items() if value is None)
        for name in (
            *made._null_resources,
            *(name for name, value in said.items() if value == name),
        ):
            del members[name]  # a default
        made._references = References.parse(_RESOURCES, members, in_context=True)
        made._rechecks = Options()
        made._formats = {}
        return made

    def changed(self, options: Options) -> Self:
        """Return the spec with options."""
        made = super().changed(options)
        asked = OpenMode()._changed(options.mode, options.flags)
        if any(asked._values()) and not asked.open:
            raise ArgumentError('a new array needs a format: give a driver, such as "zarr3"')
        # only existing arrays are opened, whatever the mode
        made._mode, made._formats = self._mode, {}
        return made

    def members(self, naming: Naming, *, include_defaults: bool) -> JSONObject:
        """Return the members of its JSON."""
        found: JSONObject = dict.fromkeys(self._null_resources)
        found.update(self._references.json(naming, include_defaults=include_defaults))
        if self._place is not None:
            found["kvstore"] = self._place._json(naming, include_defaults=include_defaults)
        return found

    def _take_rechecks(self, options: Options) -> None:
        old = self._rechecks
        self._rechecks = Options(
            recheck_metadata=_first_given(options.recheck_metadata, old.recheck_metadata),
            recheck_data=_first_given(options.recheck_data, old.recheck_data),
        )

    def bind(self, context: Context) -> Self:
        """Return the spec with a context's resources; it keeps the context for the format."""
        made = super().bind(context)
        made._context = context
        return made

    def _with(self, references: References, place: Place | None) -> Self:
        made = super()._with(references, place)
        made._context, made._null_resources = None, ()
        return made

    def _suffix(self) -> str:
        return "auto:"

    def open(self, view: IndexTransform | None, opening: Opening) -> Future[Opened]:
        """Start to open."""
        place = self._place
        if place is None:
            raise ArgumentError("the spec has no kvstore: where the array is has to be said")
        if view is None and self.schema.domain is not None:
            # the domain of no format: its bounds are explicit
            view = IndexTransform(self.schema.domain)
        at_once, batch, alone = place._driver.at_once, opening.batch, opening._replace(batch=None)
        work, here = partial(self._open_array, place, view), at_once > 0
        if batch is None or at_once == inf:
            return start(work, alone, here=here)

        def begin(_: Together, sharing: Sharing) -> Future[Opened]:
            return start(work, alone._replace(sharing=sharing), here=here)

        at, path = place._open(), self._folder_path(place)
        documents = [Expected(at.store, at.key(path + document)) for document in _DOCUMENTS]
        later: Future[Opened] = batch._later(begin, documents, opens=True)
        return later

    @staticmethod
    def _folder_path(place: Place) -> str:
        """Return the path as a folder."""
        return place.path if not place.path or place.path.endswith("/") else f"{place.path}/"

    def _open_array(self, place: Place, view: IndexTransform | None, opening: Opening) -> Opened:
        at, path, sharing = place._open(), self._folder_path(place), opening.sharing
        store = at.store if sharing is None else sharing.through(at.store, at.store)
        for document, name in _DOCUMENTS.items():
            if store.size(at.key(path + document)) is not None:
                assert self._context is not None
                found = self._format_spec(name).at(place, self._references, self._context)
                return found.open(view, opening).result()
        raise NotFoundError(
            f"there is no array that is known at {self._where()}: neither "
            f"{' nor '.join(map(repr, _DOCUMENTS))} is there",
            kind="node_not_found",
            path=path,
        )

    def _format_spec(self, name: str) -> PlacedSpec:
        """Return the spec of a format with the same members, without a location."""
        found = self._formats.get(name)
        if found is None:
            made = driver_spec(name).parse({}, self.schema).changed(self._rechecks)
            assert isinstance(made, PlacedSpec)
            found = self._formats[name] = made
        return found


def _first_given(new: Any, old: Any) -> Any:
    return old if new is None else new
