"""The driver ``auto``: detects the format of an array."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Self

from tessarr.errors import ArgumentError, NotFoundError
from tessarr.index_space import IndexTransform
from tessarr.tensorstore.batch.shared_reads import ExpectedRead
from tessarr.tensorstore.context.references import References
from tessarr.tensorstore.context.resources import KINDS
from tessarr.tensorstore.future.future import Future
from tessarr.tensorstore.future.spawn import spawn
from tessarr.tensorstore.spec.driver_spec import OpenRequest, OpenResult, SpecChanges, driver_spec
from tessarr.tensorstore.spec.kvstore_driver_spec import KvStoreDriverSpec
from tessarr.tensorstore.spec.open_mode import OpenMode

if TYPE_CHECKING:
    from tessarr.tensorstore.batch.read_group import ReadGroup
    from tessarr.tensorstore.batch.shared_reads import SharedReads
    from tessarr.tensorstore.context.context import Context
    from tessarr.tensorstore.context.references import Naming
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
    _null_resources: tuple[str, ...] = ()  # resources that are null in JSON
    # specs of each format with the same members, without a location
    _formats: dict[str, KvStoreDriverSpec]

    @classmethod
    def parse(cls, members: dict[str, Any], schema: Schema) -> Self:
        """Return the spec of JSON members."""
        spec = cls(schema)
        spec._take_place(members)
        spec._mode = OpenMode(open=True)
        named = {name: members[name] for name in sorted(KINDS.keys() & members.keys())}
        spec._null_resources = tuple(name for name, value in named.items() if value is None)
        for name in (
            *spec._null_resources,
            *(name for name, value in named.items() if value == name),
        ):
            del members[name]  # a default
        spec._references = References.parse(_RESOURCES, members, in_context=True)
        spec._rechecks = SpecChanges()
        spec._formats = {}
        return spec

    def apply_changes(self, options: SpecChanges) -> Self:
        """Return the spec with options."""
        spec = super().apply_changes(options)
        mode = OpenMode()._changed(options.mode, options.flags)
        if any(mode._values()) and not mode.open:
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

    def _take_rechecks(self, options: SpecChanges) -> None:
        old = self._rechecks
        self._rechecks = SpecChanges(
            recheck_metadata=_first_not_none(options.recheck_metadata, old.recheck_metadata),
            recheck_data=_first_not_none(options.recheck_data, old.recheck_data),
        )

    def bind(self, context: Context) -> Self:
        """Return the spec with a context's resources; it keeps the context for the format."""
        spec = super().bind(context)
        spec._context = context
        return spec

    def _with(self, references: References, kvstore_spec: Place | None) -> Self:
        spec = super()._with(references, kvstore_spec)
        spec._context, spec._null_resources = None, ()
        return spec

    def _suffix(self) -> str:
        return "auto:"

    def open(self, view: IndexTransform | None, opening: OpenRequest) -> Future[OpenResult]:
        """Start to open."""
        kvstore_spec = self._place
        if kvstore_spec is None:
            raise ArgumentError("the spec has no kvstore: give the location of the array")
        if view is None and self.schema.domain is not None:
            # without a format, the bounds of the domain are explicit
            view = IndexTransform(self.schema.domain)
        operations_inline, batch, without_batch = (
            kvstore_spec._driver.at_once,
            opening.batch,
            opening._replace(batch=None),
        )
        work, inline = partial(self._open_array, kvstore_spec, view), operations_inline > 0
        if batch is None or operations_inline == inf:
            return spawn(work, without_batch, here=inline)

        def start_operation(_: ReadGroup, sharing: SharedReads) -> Future[OpenResult]:
            return spawn(work, without_batch._replace(sharing=sharing), here=inline)

        kvstore, path = kvstore_spec._open(), self._folder_path(kvstore_spec)
        documents = [
            ExpectedRead(kvstore.store, kvstore.key(path + document)) for document in _DOCUMENTS
        ]
        later: Future[OpenResult] = batch._defer(start_operation, documents, opens=True)
        return later

    @staticmethod
    def _folder_path(kvstore_spec: Place) -> str:
        """Return the path as a folder."""
        return (
            kvstore_spec.path
            if not kvstore_spec.path or kvstore_spec.path.endswith("/")
            else f"{kvstore_spec.path}/"
        )

    def _open_array(
        self, kvstore_spec: Place, view: IndexTransform | None, opening: OpenRequest
    ) -> OpenResult:
        kvstore, path, sharing = (
            kvstore_spec._open(),
            self._folder_path(kvstore_spec),
            opening.sharing,
        )
        store = kvstore.store if sharing is None else sharing.through(kvstore.store, kvstore.store)
        for document, name in _DOCUMENTS.items():
            if store.size(kvstore.key(path + document)) is not None:
                assert self._context is not None
                spec = self._format_spec(name).at(kvstore_spec, self._references, self._context)
                return spec.open(view, opening).result()
        raise NotFoundError(
            f"no array of a known format exists at {self._where()}: neither "
            f"{' nor '.join(map(repr, _DOCUMENTS))} is there",
            kind="node_not_found",
            path=path,
        )

    def _format_spec(self, name: str) -> KvStoreDriverSpec:
        """Return the spec of a format with the same members, without a location."""
        spec_of_format = self._formats.get(name)
        if spec_of_format is None:
            spec = driver_spec(name).parse({}, self.schema).apply_changes(self._rechecks)
            assert isinstance(spec, KvStoreDriverSpec)
            spec_of_format = self._formats[name] = spec
        return spec_of_format


def _first_not_none(new: Any, old: Any) -> Any:
    return old if new is None else new
