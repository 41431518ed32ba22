"""References from specs to resources, and the names of resources in JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from tessarr.errors import ArgumentError
from tessarr.tensorstore.context.context import (
    Context,
    Resource,
    ResourceLike,
    check_reference,
)
from tessarr.tensorstore.context.resources import KINDS, Kind
from tessarr.tensorstore.json.object_members import expected_error, member_error
from tessarr.tensorstore.json.parse import copy_json

__all__ = ["Naming", "References"]

_new: Final = object.__new__


class Naming:
    """Assigns names to resources, so that one JSON document can refer to them.

    Parameters
    ----------
    bound : bool
        Whether to mark resources as bound, as in ``["cache_pool"]``.
    brief : bool
        Whether to omit all resources if one context holds them. A pickle stores that context
        separately. The JSON then also contains functions and arrays as Python objects.
    """

    def __init__(self, *, bound: bool = False, brief: bool = False) -> None:
        self._bound = bound
        self.brief = brief
        self._seen: list[References] = []
        self._uses: dict[int, tuple[Resource, int]] = {}
        self._in_context: set[int] = set()
        self._named: dict[int, str] | None = None

    @property
    def omits_resources(self) -> bool:
        """Whether the JSON omits all resources."""
        return self.brief and self._within is not None

    @property
    def _within(self) -> Context | None:
        """The only context that the references use, or None."""
        contexts = {id(one.context): one.context for one in self._seen}
        return next(iter(contexts.values())) if len(contexts) == 1 else None

    def shared_context(
        self, *, own: Callable[[dict[str, Resource]], Any] | None = None
    ) -> Context | None:
        """Return a context with all resources; None if a reference is not bound.

        Parameters
        ----------
        own
            Maps the resources to those that the new context holds, such as copies.
        """
        if own is None and self.omits_resources:
            return self._within
        if not self._seen or not all(one.bound for one in self._seen):
            return None
        result = {name: self._uses[number][0] for number, name in self._names().items()}
        return Context._of(self.context(), result if own is None else own(result))

    def collect_resources(self, references: References) -> None:
        """Add the resources of a spec; call this for all specs before the first name is used."""
        self._named = None
        self._seen.append(references)

    def _names(self) -> dict[int, str]:
        if self._named is None:
            self._uses = {}
            for one in self._seen:
                result = [value for value in one.values.values() if isinstance(value, Resource)]
                for value in result:
                    _, uses = self._uses.get(id(value), (value, 0))
                    self._uses[id(value)] = (value, uses + 1)
                self._in_context.update(
                    id(value) for value in result if one.in_context or not value._kind.plain
                )
            self._named = self._name_resources()
        return self._named

    def _name_resources(self) -> dict[int, str]:
        named = {number: self._uses[number] for number in self._uses if number in self._in_context}
        keys = [one._key for one, _ in named.values() if one._key]
        names: dict[int, str] = {}
        counts: dict[str, int] = {}
        for number, (one, uses) in named.items():
            if one._key and keys.count(one._key) == 1:
                names[number] = one._key
            elif one._key or uses > 1 or self.brief:
                kind = one._kind.name
                at = counts.get(kind, 0)
                while f"{kind}#{at}" in keys:
                    at += 1
                counts[kind] = at + 1
                names[number] = f"{kind}#{at}"
        return names

    def context(self, *, include_defaults: bool = False) -> dict[str, Any]:
        """Return the JSON of the context that defines the names."""
        names = self._names()
        new = {
            name: self._uses[number][0].to_json(include_defaults) for number, name in names.items()
        }
        return dict(sorted(new.items()))

    def reference_json(
        self, resource: Resource, *, include_defaults: bool = False, in_context: bool = False
    ) -> Any:
        """Return the JSON of a reference to a resource."""
        by_name = in_context or not resource._kind.plain
        name = self._names().get(id(resource)) if by_name else None
        value = resource.to_json(include_defaults) if name is None else name
        return [value] if self._bound and not in_context else value


class References:
    """The resources of a spec, by the JSON members that refer to them.

    Parameters
    ----------
    kinds : mapping
        Maps the names of members to the names of resource kinds.
    values : mapping
        Maps the names of members to resources, references or JSON. For an absent member, the
        resource has the name of the kind.
    optional : set of str
        Members that refer to no resource if they are absent.
    in_context : bool
        Whether the context holds all resources; members then hold only non-default names.
    """

    __slots__ = ("_context_resources", "_values", "context", "in_context", "kinds", "optional")

    def __init__(
        self,
        kinds: Mapping[str, str],
        values: Mapping[str, ResourceLike],
        optional: AbstractSet[str] = frozenset(),
        *,
        in_context: bool = False,
    ) -> None:
        self.kinds = kinds
        self.optional = optional
        self.in_context = in_context
        self._values = dict(values)
        self._context_resources: dict[str, Any] | None = None  # memo of `values`
        self.context: Context | None = None
        """The context of all resources; None if a member has a value, or before binding."""

    @property
    def values(self) -> dict[str, Any]:
        """The resources, references or JSON, by the names of members."""
        if self.context is None:
            return self._values
        if self._context_resources is None:
            self._context_resources = self._bound(self.context)
        return self._context_resources

    @property
    def plain(self) -> bool:
        """Whether all resources have their defaults, here and in the context."""
        return self.context is not None and not self.context._has_settings(self.kinds.values())

    def has_settings(self, member: str) -> bool:
        """Return whether a member may differ from its default."""
        if self.context is None or member in self._values:
            return True
        return self.context._has_settings((self.kinds[member],))

    @property
    def bound(self) -> bool:
        """Whether all values are resources, rather than references or JSON."""
        needed = self.kinds.keys() - self.optional
        return self.context is not None or (
            needed <= self._values.keys()
            and all(isinstance(value, Resource) for value in self._values.values())
        )

    @property
    def alone(self) -> bool:
        """Whether all resources have their defaults and a single array uses them."""
        return self.context is not None and self.context._alone

    def has(self, member: str) -> bool:
        """Return whether a member has a value."""
        return member in self._values

    @classmethod
    def parse(
        cls,
        kinds: Mapping[str, str],
        json: dict[str, Any],
        optional: AbstractSet[str] = frozenset(),
        *,
        in_context: bool = False,
    ) -> References:
        """Remove the members that refer to resources from `json`, and return them.

        Raises
        ------
        ArgumentError
            If a member is malformed.
        """
        values: dict[str, Any] = {}
        for member, kind in kinds.items():
            if member not in json:
                continue
            value = json.pop(member)
            try:
                values[member] = cls._parse(KINDS[kind], value)
            except ArgumentError as error:
                raise member_error(member, error) from None
            if values[member] == kind and member not in optional:
                del values[member]
        return cls(kinds, values, optional, in_context=in_context)

    def _with(self, values: Mapping[str, ResourceLike]) -> References:
        return References(self.kinds, values, self.optional, in_context=self.in_context)

    @staticmethod
    def _parse(kind: Kind, value: Any) -> Any:
        if isinstance(value, Resource):
            if value._kind is not kind:
                raise expected_error(f'"{kind.name}" resource', value.to_json())
            return value
        if isinstance(value, list) and len(value) == 1:  # the form of bound references
            value = value[0]
        if value is None:
            raise expected_error("non-null value", None)
        return check_reference(kind, value)

    def bind(self, context: Context, others: References | None = None) -> References:
        """Return the references, bound to a context; bound resources do not change.

        Parameters
        ----------
        context
            The context that provides resources.
        others
            References that override values of the same members.
        """
        if self.context is not None:
            return self
        if others is not None and others._values:
            result = {name: others._values[name] for name in self.kinds if name in others._values}
            return self._with({**self._values, **result}).bind(context)
        if self._values or context._refers:
            return self._with(self._bound(context))
        new: References = _new(References)
        new.kinds, new.optional, new._values = self.kinds, self.optional, self._values
        new._context_resources, new.context, new.in_context = None, context, self.in_context
        return new

    def _bound(self, context: Context) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for member, kind in self.kinds.items():
            if member in self.optional and member not in self._values:
                continue
            value = self._values.get(member, kind)
            if not isinstance(value, Resource):
                value = context._bound(KINDS[kind], value, kind if self.in_context else "")
            values[member] = value
        return values

    def strip(self) -> References:
        """Return unbound references; optional members remain."""
        return self._with({name: self.kinds[name] for name in self.optional & self._values.keys()})

    def distinct(self) -> References:
        """Return bound references without optional members that repeat a resource of their kind."""
        if not any(self._is_twice(member) for member in self.optional):
            return self
        return self._with({k: v for k, v in self._values.items() if not self._is_twice(k)})

    def _is_twice(self, member: str) -> bool:
        if member not in self.optional or member not in self._values:
            return False
        kind = self.kinds[member]
        return kind in self.kinds and self._values[member] is self.values.get(kind)

    def unbind(self, naming: Naming) -> References:
        """Return the references as JSON that refers to the context of `naming`."""
        values: dict[str, Any] = {}
        for member, value in self.values.items():
            if isinstance(value, Resource):
                result = naming.reference_json(value, in_context=self.in_context)
            else:
                result = value
            if result != self.kinds[member] or member in self.optional:
                values[member] = result
        return self._with(values)

    def collect_resources(self, naming: Naming) -> None:
        """Add the bound resources to `naming`."""
        if self.kinds:
            naming.collect_resources(self)

    def resource(self, member: str) -> Resource:
        """Return the resource of a member; the references must be bound."""
        if self.context is not None:
            name = self.kinds[member]
            return self.context._found.get(name) or self.context._resolve(name, ())
        result = self._values[member]
        if not isinstance(result, Resource):
            raise TypeError(f"{member} is not bound to a context")
        return result

    def json(self, naming: Naming, *, include_defaults: bool = False) -> dict[str, Any]:
        """Return the JSON members of the references."""
        members: dict[str, Any] = {}
        if naming.omits_resources:
            return members
        all_names = include_defaults and not self.in_context
        for member, kind in self.kinds.items():
            value = self.values.get(member)
            if isinstance(value, Resource):
                name = naming.reference_json(
                    value, include_defaults=include_defaults, in_context=self.in_context
                )
                kept = naming.brief and member in self.optional  # absent means no resource
                if all_names or kept or name != kind:
                    members[member] = name
            elif value is not None and (all_names or value != kind):
                whole = include_defaults and not isinstance(value, str)
                members[member] = KINDS[kind].full(value) if whole else copy_json(value)
            elif all_names and member not in self.optional:
                members[member] = kind
        return members

    def has_same_resources(self, other: References) -> bool:
        """Return whether both hold the same resources, references or JSON."""
        return self.values.keys() == other.values.keys() and all(
            value is other.values[member]
            if isinstance(value, Resource)
            else value == other.values[member]
            for member, value in self.values.items()
        )
