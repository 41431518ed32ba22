"""References from specs to resources, and the names of resources in JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

from tessarr.errors import ArgumentError
from tessarr.tensorstore.context.context import (
    Context,
    Resource,
    ResourceLike,
    check_reference,
)
from tessarr.tensorstore.context.resources import KINDS, Kind
from tessarr.tensorstore.json.parse import expected_error, member_error

__all__ = [
    "STRIP_RESOURCES",
    "Naming",
    "References",
    "ResourceChange",
    "bind_resources",
    "unbind_resources",
]


class Naming:
    """Assigns names to resources, so that one JSON document can refer to them.

    Parameters
    ----------
    references : iterable of References
        The references of all specs in the document.
    bound : bool
        Whether to mark resources as bound, as in ``["cache_pool"]``.
    brief : bool
        Whether to omit all resources if one context holds them. A pickle stores that context
        separately. The JSON then also contains functions and arrays as Python objects.
    """

    def __init__(
        self, references: Iterable[References], *, bound: bool = False, brief: bool = False
    ) -> None:
        self._references = [one for one in references if one.kinds]
        self._bound, self.brief = bound, brief

    @property
    def omits_resources(self) -> bool:
        """Whether the JSON omits all resources."""
        return self.brief and self._only_context is not None

    @property
    def _only_context(self) -> Context | None:
        """The only context that the references use, or None."""
        contexts = {references.context for references in self._references}
        return contexts.pop() if len(contexts) == 1 else None

    def shared_context(
        self, *, change: Callable[[dict[str, Resource]], Any] | None = None
    ) -> Context | None:
        """Return a context with all resources; None if a reference is not bound.

        Parameters
        ----------
        change
            Maps the resources to those that the new context holds, such as copies.
        """
        if change is None and self.omits_resources:
            return self._only_context
        if not self._references or not all(one.bound for one in self._references):
            return None
        resources = {name: resource for resource, name in self._names.items()}
        return Context._of(self.context(), resources if change is None else change(resources))

    @cached_property
    def _names(self) -> dict[Resource, str]:
        """The names of resources; a resource that its only user describes has no name."""
        uses: Counter[Resource] = Counter()
        in_context = set()
        for references in self._references:
            for value in references.values.values():
                if isinstance(value, Resource):
                    uses[value] += 1
                    if references.in_context or not value._kind.plain:
                        in_context.add(value)
        resources = [resource for resource in uses if resource in in_context]
        keys = Counter(resource._key for resource in resources if resource._key)
        names: dict[Resource, str] = {}
        numbers: Counter[str] = Counter()
        for resource in resources:
            kind = resource._kind.name
            if keys[resource._key] == 1:
                names[resource] = resource._key
            elif resource._key or uses[resource] > 1 or self.brief:
                while f"{kind}#{numbers[kind]}" in keys:
                    numbers[kind] += 1
                names[resource] = f"{kind}#{numbers[kind]}"
                numbers[kind] += 1
        return names

    def context(self, *, include_defaults: bool = False) -> dict[str, Any]:
        """Return the JSON of the context that defines the names."""
        by_name = sorted((name, resource) for resource, name in self._names.items())
        return {name: resource.to_json(include_defaults) for name, resource in by_name}

    def reference_json(
        self, resource: Resource, *, include_defaults: bool = False, in_context: bool = False
    ) -> Any:
        """Return the JSON of a reference to a resource."""
        by_name = in_context or not resource._kind.plain
        name = self._names.get(resource) if by_name else None
        value = resource.to_json(include_defaults) if name is None else name
        return [value] if self._bound and not in_context else value


@dataclass(slots=True, eq=False)
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
    context : Context, optional
        The context of all resources; None if a member has a value, or before binding.
    """

    kinds: Mapping[str, str]
    values: Mapping[str, ResourceLike]
    optional: AbstractSet[str] = frozenset()
    in_context: bool = False
    context: Context | None = None

    @property
    def bound(self) -> bool:
        """Whether all values are resources, rather than references or JSON."""
        return self.kinds.keys() - self.optional <= self.values.keys() and all(
            isinstance(value, Resource) for value in self.values.values()
        )

    @property
    def alone(self) -> bool:
        """Whether all resources have their defaults and a single array uses them."""
        return self.context is not None and self.context._alone

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
            try:
                value = cls._parse(KINDS[kind], json.pop(member))
            except ArgumentError as error:
                raise member_error(member, error) from None
            if value != kind or member in optional:
                values[member] = value
        return cls(kinds, values, optional, in_context)

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

    def _with(
        self, values: Mapping[str, ResourceLike], context: Context | None = None
    ) -> References:
        return References(self.kinds, values, self.optional, self.in_context, context)

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
        values = dict(self.values)
        if others is not None and others.context is None:
            values.update((name, others.values[name]) for name in self.kinds.keys() & others.values)
        only_defaults = not values and not context._refers
        for member, kind in self.kinds.items():
            if member in self.optional and member not in values:
                continue
            value = values.get(member, kind)
            if not isinstance(value, Resource):
                values[member] = context._bound(KINDS[kind], value, kind if self.in_context else "")
        return self._with(values, context if only_defaults else None)

    def strip(self) -> References:
        """Return unbound references; optional members remain."""
        return self._with({name: self.kinds[name] for name in self.optional & self.values.keys()})

    def distinct(self) -> References:
        """Return bound references without optional members that repeat a resource of their kind."""
        repeated = {
            member
            for member in self.optional & self.values.keys()
            if self.values[member] is self.values.get(self.kinds[member])
        }
        if not repeated:
            return self
        return self._with({k: v for k, v in self.values.items() if k not in repeated})

    def unbind(self, naming: Naming) -> References:
        """Return the references as JSON that refers to the context of `naming`."""
        values: dict[str, Any] = {}
        for member, value in self.values.items():
            json = value
            if isinstance(value, Resource):
                json = naming.reference_json(value, in_context=self.in_context)
            if json != self.kinds[member] or member in self.optional:
                values[member] = json
        return self._with(values)

    def resource(self, member: str) -> Resource:
        """Return the resource of a member; the references must be bound."""
        value = self.values[member]
        assert isinstance(value, Resource)
        return value

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
                is_optional = naming.brief and member in self.optional  # absent: no resource
                if all_names or is_optional or name != kind:
                    members[member] = name
            elif value is not None and (all_names or value != kind):
                whole = include_defaults and not isinstance(value, str)
                members[member] = KINDS[kind].full(value) if whole else deepcopy(value)
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


class ResourceChange(NamedTuple):
    """A change of the resources of a spec and of all its parts.

    Parameters
    ----------
    apply
        Changes the references of one part.
    context
        The context that the change binds to; None if it does not bind.
    keeps_context
        Whether parts keep the specs of their own contexts.
    """

    apply: Callable[[References], References]
    context: Context | None = None
    keeps_context: bool = False

    def within(self, spec: Any) -> ResourceChange:
        """Return the change for a part that has its own context, described by `spec`, or None."""
        if spec is None or self.context is None:
            return self
        return bind_resources(Context(spec, self.context))


STRIP_RESOURCES: Final = ResourceChange(References.strip)
"""Remove resources; opening then supplies them from its context."""


def bind_resources(context: Context) -> ResourceChange:
    """Return the change that takes resources from a context; bound resources do not change."""
    return ResourceChange(lambda references: references.bind(context), context)


def unbind_resources(naming: Naming) -> ResourceChange:
    """Return the change that replaces resources by names."""
    return ResourceChange(lambda references: references.unbind(naming), keeps_context=True)
