"""Base class of specs of drivers that store data in a key-value store."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Self

from tessarr.errors import ArgumentError
from tessarr.tensorstore.json.parse import take_member, text
from tessarr.tensorstore.kvstore.kvstore_spec import Spec as Place
from tessarr.tensorstore.kvstore.kvstore_spec import describe_place
from tessarr.tensorstore.kvstore.values import join_path
from tessarr.tensorstore.spec.context_spec import ResourceSpec
from tessarr.tensorstore.spec.driver_spec import DriverSpec, SpecChanges

if TYPE_CHECKING:
    from tessarr.tensorstore.context.context import Context
    from tessarr.tensorstore.context.references import Naming, References
    from tessarr.tensorstore.spec.open_mode import OpenMode

__all__ = ["KvStoreDriverSpec", "kvstore_spec_of"]


class KvStoreDriverSpec(ResourceSpec):
    """A spec with an optional kvstore and with resources of a context."""

    _place: Place | None
    _mode: OpenMode

    def _check_parts(self) -> None:
        """Raise an error if the schema contradicts other parts of the spec."""

    @staticmethod
    def _put_at(kvstore_spec: Place) -> Place:
        """Normalize the kvstore of a spec."""
        return kvstore_spec

    def _take_place(self, members: dict[str, Any]) -> None:
        """Set the kvstore from ``kvstore`` and ``path``, and remove them from `members`."""
        within = take_member(members, "path", text)
        place = take_member(members, "kvstore", lambda given, _: kvstore_spec_of(given))
        if place is None:
            if within is not None:
                raise ArgumentError('"path" without "kvstore"')
        elif within:
            place.path = join_path(place.path, within)
        self._place = place and self._put_at(place)

    def apply_changes(self, options: SpecChanges) -> Self:
        """Return the spec with changes."""
        new = self._referring(self._references)
        if options.schema is not None:
            new._constrain(options)
        if options.mode is not None or options.flags:
            new._mode = self._mode._changed(options.mode, options.flags)
        if options.kvstore is not None:
            if self._place is not None:
                raise ArgumentError("kvstore is given twice: the spec has one")
            new._place = self._put_at(kvstore_spec_of(options.kvstore))
        new._take_rechecks(options)
        if options.minimal:
            new._forget()
        return new

    def _constrain(self, options: SpecChanges) -> None:
        """Add constraints on the schema."""
        assert options.schema is not None
        self.schema = self.schema._merge_with(options.schema)
        self._check_parts()

    def _forget(self) -> None:
        """Remove metadata that the array's metadata document contains."""

    def _take_rechecks(self, options: SpecChanges) -> None:
        """Set the staleness bounds of cached values."""
        raise NotImplementedError

    def collect_resources(self, naming: Naming) -> None:
        """Add the bound resources to `naming`."""
        if self._place is not None:
            self._place._see(naming)
        super().collect_resources(naming)

    def has_same_resources(self, other: DriverSpec) -> bool:
        """Return whether both specs use the same bound resources."""
        assert isinstance(other, KvStoreDriverSpec)
        return super().has_same_resources(other) and self._place == other._place

    def bind(self, context: Context) -> Self:
        """Return the spec with resources from a context."""
        return self._with(
            self._references.bind(context), self._place and self._place._bound(context)
        )

    def at(self, place: Place, references: References, context: Context) -> Self:
        """Return the spec for another kvstore, with resources from `references` and `context`."""
        return self._with(self._references.bind(context, references), self._put_at(place))

    def strip(self) -> Self:
        """Return the spec without resources."""
        return self._with(self._references.strip(), self._place and self._place._strip())

    def unbind(self, naming: Naming) -> Self:
        """Return the spec with names instead of resources."""
        return self._with(
            self._references.unbind(naming), self._place and self._place._unbind(naming)
        )

    def _with(self, references: References, kvstore_spec: Place | None) -> Self:
        new = self._referring(references)
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

    @property
    def url(self) -> str:
        """The URL of the spec."""
        if self._place is None:
            raise ArgumentError("the spec has no kvstore: there is no URL")
        return f"{self._place.url}|{self._suffix()}"

    def _where(self) -> str:
        """Return the description of the kvstore for messages."""
        assert self._place is not None
        return describe_place(self._place)

    def _suffix(self) -> str:
        """Return the driver's part of the URL."""
        raise NotImplementedError


def kvstore_spec_of(given: Any) -> Place:
    """Convert a user's value to the spec of a kvstore."""
    result = given.spec(retain_context=True) if hasattr(given, "with_transaction") else Place(given)
    assert isinstance(result, Place)
    return result
