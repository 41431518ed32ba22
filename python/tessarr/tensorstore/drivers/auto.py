"""The driver ``auto``: detects the format of an array."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Self

from tessarr.errors import ArgumentError, NotFoundError
from tessarr.index_space import IndexTransform
from tessarr.tensorstore.batch import ExpectedRead, ReadGroup, SharedReads
from tessarr.tensorstore.context.references import Naming, References, ResourceChange
from tessarr.tensorstore.context.resources import KINDS
from tessarr.tensorstore.future.future import Future, spawn
from tessarr.tensorstore.spec.driver_spec import OpenRequest, OpenResult, SpecChanges, driver_spec
from tessarr.tensorstore.spec.open_mode import OpenMode
from tessarr.tensorstore.spec.resource_spec import KvStoreDriverSpec

if TYPE_CHECKING:
    from tessarr.store import Store
    from tessarr.tensorstore.context.context import Context
    from tessarr.tensorstore.kvstore.kvstore_spec import Spec as Place
    from tessarr.tensorstore.schema.schema import Schema
    from tessarr.types import JSONObject

__all__ = ["AutoSpec"]

_DOCUMENTS = {"zarr.json": "zarr3", ".zarray": "zarr"}
_RESOURCES = {name: name for name in KINDS}


class AutoSpec(KvStoreDriverSpec):
    """A spec without a format."""

    name = "auto"

    _rechecks: SpecChanges
    _context: Context | None = None
    _formats: dict[str, KvStoreDriverSpec]
    _null_resources: tuple[str, ...] = ()  # resources that are null in JSON

    @classmethod
    def parse(cls, members: dict[str, Any], schema: Schema) -> Self:
        """Return the spec of JSON members."""
        spec = cls(schema)
        spec._read_kvstore(members)
        spec._mode = OpenMode(open=True)
        named = {name: members[name] for name in sorted(KINDS.keys() & members.keys())}
        spec._null_resources = tuple(name for name, value in named.items() if value is None)
        for name in (
            *spec._null_resources,
            *(name for name, value in named.items() if value == name),
        ):
            del members[name]  # a default
        spec._references = References.parse(_RESOURCES, members, in_context=True)
        spec._rechecks, spec._formats = SpecChanges(), {}
        return spec

    def apply_changes(self, options: SpecChanges) -> Self:
        """Return the spec with options."""
        spec = super().apply_changes(options)
        mode = OpenMode()._updated(options.mode, options.flags)
        if mode._flags() and not mode.open:
            raise ArgumentError('a new array needs a format: give a driver, such as "zarr3"')
        # only existing arrays are opened, whatever the mode
        spec._mode, spec._formats = self._mode, {}
        return spec

    def members(self, naming: Naming, *, include_defaults: bool) -> JSONObject:
        """Return the members of its JSON."""
        json: JSONObject = dict.fromkeys(self._null_resources)
        json.update(self._references.json(naming, include_defaults=include_defaults))
        if self._place is not None:
            json["kvstore"] = self._place._json(naming, include_defaults=include_defaults)
        return json

    def _set_rechecks(self, options: SpecChanges) -> None:
        old = self._rechecks
        self._rechecks = SpecChanges(
            recheck_metadata=_first_not_none(options.recheck_metadata, old.recheck_metadata),
            recheck_data=_first_not_none(options.recheck_data, old.recheck_data),
        )

    def change_resources(self, change: ResourceChange) -> Self:
        """Return the spec with other resources; it keeps the context for the format."""
        spec = super().change_resources(change)
        spec._context = change.context
        return spec

    def _with(self, references: References, kvstore_spec: Place | None) -> Self:
        spec = super()._with(references, kvstore_spec)
        spec._context, spec._null_resources = None, ()
        return spec

    def _suffix(self) -> str:
        return "auto:"

    def open(self, view: IndexTransform | None, opening: OpenRequest) -> Future[OpenResult]:
        """Start to open."""
        if self._place is None:
            raise ArgumentError("the spec has no kvstore: give the location of the array")
        if view is None and self.schema.domain is not None:
            # without a format, the bounds of the domain are explicit
            view = IndexTransform(self.schema.domain)
        kvstore, at_once = self._place._open(), self._place._driver.at_once
        keys = {kvstore.key(self._folder + key): name for key, name in _DOCUMENTS.items()}
        work = partial(self._open_array, kvstore.store, keys, view)
        alone = opening._replace(batch=None)

        def start(_: ReadGroup | None, sharing: SharedReads | None) -> Future[OpenResult]:
            return spawn(work, alone._replace(sharing=sharing), here=at_once > 0)

        if opening.batch is None or at_once == inf:
            return start(None, opening.sharing)
        documents = [ExpectedRead(kvstore.store, key) for key in keys]
        return opening.batch._defer(start, documents, opens=True)

    @property
    def _folder(self) -> str:
        """The path of the kvstore as a folder."""
        assert self._place is not None
        path = self._place.path
        return path if not path or path.endswith("/") else f"{path}/"

    def _open_array(
        self, store: Store, keys: dict[str, str], view: IndexTransform | None, opening: OpenRequest
    ) -> OpenResult:
        """Open the array with the format of the first existing document."""
        if opening.sharing is not None:
            store = opening.sharing.through(store, store)
        for key, name in keys.items():
            if store.size(key) is not None:
                assert self._context is not None
                assert self._place is not None
                spec = self._format_spec(name).at(self._place, self._references, self._context)
                return spec.open(view, opening).result()
        raise NotFoundError(
            f"no array of a known format exists at {self._where()}: neither "
            f"{' nor '.join(map(repr, _DOCUMENTS))} is there",
            kind="node_not_found",
            path=self._folder,
        )

    def _format_spec(self, name: str) -> KvStoreDriverSpec:
        """Return the spec of a format with the same members, without a location."""
        if name not in self._formats:
            spec = driver_spec(name).parse({}, self.schema).apply_changes(self._rechecks)
            assert isinstance(spec, KvStoreDriverSpec)
            self._formats[name] = spec
        return self._formats[name]


def _first_not_none(new: Any, old: Any) -> Any:
    return old if new is None else new
