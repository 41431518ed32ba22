"""Base classes of driver specs that use resources of a context, and of those with a kvstore."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Final, Self

from tessarr.errors import ArgumentError
from tessarr.tensorstore.json.parse import take_member, text
from tessarr.tensorstore.kvstore import KvStore
from tessarr.tensorstore.kvstore.kvstore_spec import Spec as Place
from tessarr.tensorstore.kvstore.kvstore_spec import describe_place
from tessarr.tensorstore.kvstore.values import join_path
from tessarr.tensorstore.spec.driver_spec import DriverSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tessarr.tensorstore.context.context import Context
    from tessarr.tensorstore.context.references import References, ResourceChange
    from tessarr.tensorstore.spec.driver_spec import SpecChanges
    from tessarr.tensorstore.spec.open_mode import OpenMode

__all__ = ["COPY_RESOURCES", "DATA_RESOURCES", "KvStoreDriverSpec", "ResourceSpec"]

COPY_RESOURCES: Final = {"data_copy_concurrency": "data_copy_concurrency"}
"""The members that name resources of elements in memory, and the kinds of the resources."""

DATA_RESOURCES: Final = {"cache_pool": "cache_pool", **COPY_RESOURCES}
"""The members that name resources of stored elements."""


class ResourceSpec(DriverSpec):
    """A driver spec that uses resources of a context."""

    _references: References

    def apply_changes(self, options: SpecChanges) -> Self:
        """Return the spec with changes; it has no kvstore."""
        if options.kvstore is not None:
            raise ArgumentError(f'a spec of the driver "{self.name}" takes no kvstore')
        new = self._with_references(self._references)
        if options.schema is not None:
            new.schema = self.schema._merge_with(options.schema)
        return new

    def references(self) -> Iterator[References]:
        """Return the references to resources, first those of this spec itself."""
        yield self._references
        yield from super().references()

    def change_resources(self, change: ResourceChange) -> Self:
        """Return the spec with other resources."""
        return super().change_resources(change)._with_references(change.apply(self._references))

    def _with_references(self, references: References) -> Self:
        new = object.__new__(type(self))
        new.__dict__ = self.__dict__.copy()  # faster than copy()
        new._references = references
        return new


class KvStoreDriverSpec(ResourceSpec):
    """A spec with an optional kvstore and with resources of a context."""

    _place: Place | None
    _mode: OpenMode

    def _check_parts(self) -> None:
        """Raise an error if the schema contradicts other parts of the spec."""

    @staticmethod
    def _normalize_kvstore(kvstore_spec: Place) -> Place:
        """Normalize the kvstore of a spec."""
        return kvstore_spec

    def _read_kvstore(self, members: dict[str, Any]) -> None:
        """Set the kvstore from ``kvstore`` and ``path``, and remove them from `members`."""
        within = take_member(members, "path", text)
        place = take_member(members, "kvstore", lambda value, _: kvstore_spec_of(value))
        if place is None:
            if within is not None:
                raise ArgumentError('"path" without "kvstore"')
        elif within:
            place.path = join_path(place.path, within)
        self._place = place and self._normalize_kvstore(place)

    def apply_changes(self, options: SpecChanges) -> Self:
        """Return the spec with changes."""
        new = self._with_references(self._references)
        if options.schema is not None:
            new._constrain(options)
        if options.mode is not None or options.flags:
            new._mode = self._mode._updated(options.mode, options.flags)
        if options.kvstore is not None:
            if self._place is not None:
                raise ArgumentError("kvstore is passed twice: the spec already has one")
            new._place = self._normalize_kvstore(kvstore_spec_of(options.kvstore))
        new._set_rechecks(options)
        if options.minimal:
            new._drop_metadata()
        return new

    def _constrain(self, options: SpecChanges) -> None:
        """Add constraints on the schema."""
        assert options.schema is not None
        self.schema = self.schema._merge_with(options.schema)
        self._check_parts()

    def _drop_metadata(self) -> None:
        """Remove metadata that the array's metadata document contains."""

    def _set_rechecks(self, options: SpecChanges) -> None:
        """Set the staleness bounds of cached values."""
        raise NotImplementedError

    def references(self) -> Iterator[References]:
        """Return the references to resources, first those of the kvstore."""
        if self._place is not None:
            yield from self._place._all_references()
        yield self._references

    def change_resources(self, change: ResourceChange) -> Self:
        """Return the spec with other resources."""
        place = self._place and self._place._change_resources(change)
        return self._with(change.apply(self._references), place)

    def at(self, place: Place, references: References, context: Context) -> Self:
        """Return the spec for another kvstore, with resources from `references` and `context`."""
        return self._with(
            self._references.bind(context, references), self._normalize_kvstore(place)
        )

    def _with(self, references: References, kvstore_spec: Place | None) -> Self:
        new = self._with_references(references)
        new._place = kvstore_spec
        return new

    @property
    def open_mode(self) -> OpenMode:
        """A copy of the open mode of the spec."""
        return copy(self._mode)

    @property
    def kvstore(self) -> Any:
        """A copy of the spec of the kvstore, or None."""
        return None if self._place is None else self._place.copy()

    def open_kvstore(self) -> KvStore:
        """Return the key-value store; the spec is bound."""
        assert self._place is not None
        return KvStore._of(self._place, self._place._open(), self._place.path)

    @property
    def url(self) -> str:
        """The URL of the spec."""
        if self._place is None:
            raise ArgumentError("a spec without a kvstore has no URL")
        return f"{self._place.url}|{self._suffix()}"

    def _where(self) -> str:
        """Return the description of the kvstore for messages."""
        assert self._place is not None
        return describe_place(self._place)

    def _suffix(self) -> str:
        """Return the driver's part of the URL."""
        raise NotImplementedError


def kvstore_spec_of(value: Any) -> Place:
    """Convert a user's value to the spec of a kvstore."""
    result = value.spec(retain_context=True) if hasattr(value, "with_transaction") else Place(value)
    assert isinstance(result, Place)
    return result
