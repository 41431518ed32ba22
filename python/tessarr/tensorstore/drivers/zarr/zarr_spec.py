"""`ZarrSpec`: the common members of specs of the drivers ``zarr3`` and ``zarr``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeVar

from tessarr.errors import ArgumentError
from tessarr.flow import open as open_flow
from tessarr.tensorstore.context.references import Naming, References
from tessarr.tensorstore.drivers.zarr import resolve_metadata
from tessarr.tensorstore.drivers.zarr.resolve_metadata import read_constraints
from tessarr.tensorstore.drivers.zarr.zarr_driver import ZarrDriver
from tessarr.tensorstore.json.parse import boolean, read_object, take_member, text
from tessarr.tensorstore.kvstore.kvstore_spec import Spec as Place
from tessarr.tensorstore.kvstore.kvstore_url import as_folder
from tessarr.tensorstore.schema.element_type import WHOLE, Field
from tessarr.tensorstore.schema.propagate import propagate_bounds
from tessarr.tensorstore.schema.schema import Schema
from tessarr.tensorstore.spec.open_mode import OpenMode, Recheck, recheck_of
from tessarr.tensorstore.spec.resource_spec import DATA_RESOURCES, KvStoreDriverSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from tessarr.index_space import IndexTransform
    from tessarr.metadata.node import ArrayMeta
    from tessarr.store import Store
    from tessarr.tensorstore.driver import Driver
    from tessarr.tensorstore.drivers.zarr.constraints import Constraints
    from tessarr.tensorstore.schema.codec_spec import CodecSpec
    from tessarr.tensorstore.spec.driver_spec import SpecChanges
    from tessarr.types import JSONObject, ZarrFormat

__all__ = ["ZarrSpec"]

T = TypeVar("T")

_RESOURCES: Final = {**DATA_RESOURCES, "metadata_cache_pool": "cache_pool"}
_OPTIONAL: Final = frozenset(["metadata_cache_pool"])


class ZarrSpec(KvStoreDriverSpec):
    """The spec of a Zarr array."""

    zarr_format: ClassVar[ZarrFormat]
    _nothing: ClassVar[Any]
    _marker: ClassVar[str]
    """The key of the document in Tessarr stores."""

    _constraints: Any
    _memo: dict[str, Any]
    _field: Field
    _recheck_metadata: Recheck
    _recheck_data: Recheck
    _fill_missing: bool
    _store_fill: bool

    @classmethod
    def parse(cls, members: dict[str, Any], schema: Schema) -> Self:
        """Return the spec of JSON members; remove its members from `members`."""
        spec = cls(schema)
        spec._memo = {}
        spec._mode = OpenMode._from_members(members)
        spec._read_kvstore(members)
        spec._references = References.parse(_RESOURCES, members, _OPTIONAL)
        spec._recheck_metadata = _take_recheck(members, "recheck_cached_metadata", "open")
        spec._recheck_data = _take_recheck(members, "recheck_cached_data", default=True)
        spec._fill_missing = _take_flag(members, "fill_missing_data_reads", default=True)
        spec._store_fill = _take_flag(members, "store_data_equal_to_fill_value", default=False)
        name = take_member(members, "field", text)
        spec._field = Field.of(
            name or None, as_void=_take_flag(members, "open_as_void", default=False)
        )
        spec._parse_format_members(members)
        if spec._field.as_void and spec.schema.rank == 0:
            raise ArgumentError("open_as_void: the bytes of an element are a dimension, not rank 0")
        spec._check_parts()
        return spec

    def _parse_format_members(self, members: dict[str, Any]) -> None:
        """Read the members that only one format has."""
        if "metadata" in members:
            metadata = read_object(members.pop("metadata"), "metadata")
            self._constraints = read_constraints(self.name, metadata)
        else:
            self._constraints = self._nothing

    def _drop_metadata(self) -> None:
        known = self.outline()
        self.schema = self.schema._merge_with(Schema(rank=known.rank, dtype=known.dtype))
        self._constraints, self._memo = self._nothing, {}

    def _constrain(self, options: SpecChanges) -> None:
        """Add constraints."""
        self._memo = {}
        super()._constrain(options)

    def _check_parts(self) -> None:
        """Raise an error if schema, metadata, field and the origin of arrays do not agree."""
        domain = self.schema.domain
        origin = domain is not None and any(domain.origin)
        if origin or self._field != WHOLE or self._constraints is not self._nothing:
            self.outline()

    @classmethod
    def of(
        cls, driver: Driver, view: IndexTransform, *, minimal: bool
    ) -> tuple[Self, IndexTransform]:
        """Return the spec of an open array."""
        assert isinstance(driver, ZarrDriver)
        driver.update_bounds()
        # In format 2, TensorStore shows the handle's view, whatever its current bounds.
        if cls.zarr_format == 3:
            view = propagate_bounds(view, driver.domain)._simplify()
        return cls._of(driver, minimal=minimal), view

    @classmethod
    def _of(cls, driver: ZarrDriver, *, minimal: bool) -> Self:
        opened: Self = driver.opened_by
        properties = driver.properties
        assert opened._place is not None
        spec = opened._with(opened._references.distinct(), opened._place._with_resolved_drivers())
        spec._mode = OpenMode(open=True, assume_metadata=opened._mode.assume_metadata)
        spec.schema = properties.element
        names = driver.array._meta.data_type.numpy.names
        if names and spec._field == WHOLE:
            spec._field = Field(names[0])  # the only field; otherwise the handle has a field
        spec._constraints, spec._memo = cls._nothing, {}
        if not minimal:
            spec._constraints, spec._memo = properties.constraints, properties.derived
        return spec

    def members(self, naming: Naming, *, include_defaults: bool) -> JSONObject:
        """Return the members of its JSON."""
        result: JSONObject = self._mode._to_json(include_defaults=include_defaults)
        if self._place is not None:
            result["kvstore"] = self._place._json(naming, include_defaults=include_defaults)
        result.update(self._references.json(naming, include_defaults=include_defaults))
        for name, value, default in (
            ("recheck_cached_metadata", self._recheck_metadata, "open"),
            ("recheck_cached_data", self._recheck_data, True),
            ("fill_missing_data_reads", self._fill_missing, True),
            ("store_data_equal_to_fill_value", self._store_fill, False),
        ):
            if include_defaults or (type(value), value) != (type(default), default):
                result[name] = value
        if self._field.name is not None:
            result["field"] = self._field.name
        if self._field.as_void:
            result["open_as_void"] = True
        metadata: JSONObject = self._memoize("json", self._constraints.to_json)
        if metadata or include_defaults:
            result["metadata"] = {**metadata, **self._always}
        if include_defaults:
            result["metadata"].update(self._constraints.default_members())
        return result

    _always: ClassVar[JSONObject] = {}

    @property
    def document(self) -> str:
        """The key of the document."""
        return self._marker

    def _metadata_store(self, store: Store, path: str) -> Store:
        """Return a store that has the document at the key of Zarr."""
        return store

    def effective(self) -> Schema:
        """Return the known schema without a request, except for the codec."""
        constraints: Constraints = self._constraints
        return self._memoize("effective", lambda: constraints.effective(self.schema, self._field))

    def codec(self) -> CodecSpec | None:
        """Return the known encoding."""
        constraints: Constraints = self._constraints
        return self._memoize("codec", lambda: constraints.codec_with(self.schema))

    def outline(self) -> Schema:
        """Return the known rank, data type and domain."""
        schema = self.schema
        constraints: Constraints = self._constraints
        if constraints is self._nothing and schema.domain is None and schema.rank != 0:
            return schema
        return self._memoize("outline", lambda: constraints.outline(schema, self._field))

    def _metadata(self) -> ArrayMeta:
        """Return the metadata of a new array."""
        parts = self._constraints, self.schema, self._field
        return self._memoize("metadata", lambda: resolve_metadata.new_metadata(self.name, *parts))

    def _memoize(self, name: str, compute: Callable[[], T]) -> T:
        """Return a value derived from schema and metadata; it does not depend on resources."""
        result: T | None = self._memo.get(name)
        if result is None:
            result = self._memo[name] = compute()
        return result

    @staticmethod
    def _normalize_kvstore(kvstore_spec: Place) -> Place:
        return _as_folder(kvstore_spec)

    def _set_rechecks(self, options: SpecChanges) -> None:
        if options.recheck_metadata is not None:
            self._recheck_metadata = options.recheck_metadata
        if options.recheck_data is not None:
            self._recheck_data = options.recheck_data

    def _suffix(self) -> str:
        if self._field != WHOLE:
            raise ArgumentError("a spec with a field or open_as_void has no URL")
        return f"{self._scheme}:"

    _scheme: ClassVar[str]

    @property
    def fixes_metadata(self) -> bool:
        """Whether the spec fixes the metadata."""
        return self._mode.assume_metadata

    @property
    def recheck_metadata(self) -> Recheck:
        """The time from which metadata counts as fresh."""
        return self._recheck_metadata

    @property
    def rechecks(self) -> bool:
        """Whether metadata can become stale."""
        bound = self._recheck_metadata
        return not self._mode.assume_metadata and (bound is True or isinstance(bound, float))

    @property
    def reads_attributes(self) -> bool:
        """Whether opening must read a separate attributes document."""
        return False

    def _check(self, meta: ArrayMeta) -> None:
        """Raise an error if the metadata does not meet the constraints."""
        try:
            resolve_metadata.check(meta, self._constraints, self.schema, self._field)
        except ArgumentError as error:
            error.kind = "mismatch"  # the spec alone is consistent
            raise

    def _key(self, path: str) -> str:
        return open_flow.prefix_of(path) + self.document

    def _parse_node(self, document: bytes, store: Store | None, path: str) -> open_flow.Node:
        """Return the node of a document, and for format 2 of its attributes document."""
        raise NotImplementedError


def _as_folder(kvstore_spec: Place) -> Place:
    """Return the location with a final slash."""
    path = as_folder(kvstore_spec._driver.name, kvstore_spec.path)
    if path != kvstore_spec.path:
        kvstore_spec = kvstore_spec.copy()
        kvstore_spec.path = path
    return kvstore_spec


def _take_flag(members: dict[str, Any], name: str, *, default: bool) -> bool:
    return boolean(members.pop(name, default), name)


def _take_recheck(members: dict[str, Any], name: str, default: Recheck) -> Recheck:
    return recheck_of(members.pop(name, default), name)
