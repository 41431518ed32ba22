"""Contexts: resources that stores share, such as caches."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from threading import RLock
from types import EllipsisType
from typing import Any, Final, TypeAlias

from tessarr._safe_repr import safe_repr, truncate
from tessarr.errors import ArgumentError
from tessarr.format.registry import set_public_module
from tessarr.tensorstore.context.resources import KINDS, Kind, kind_of
from tessarr.tensorstore.json.format_json import format_repr
from tessarr.tensorstore.json.parse import as_json, check_integers, expected_error
from tessarr.tensorstore.json.pickling import Picklable

__all__ = ["Context", "Resource", "ResourceLike", "check_reference", "new_context"]

_creation_lock: Final = RLock()


class Resource:
    """A resource of a context: a cache, a memory store, a limit or a setting.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> context = ts.Context({"cache_pool#a": {"total_bytes_limit": 10000000}})
    >>> context["cache_pool#a"]
    Context.Resource({'total_bytes_limit': 10000000})
    """

    __slots__ = ("__weakref__", "_json", "_key", "_kind", "_value")

    _kind: Kind
    _key: str
    _json: Any
    _value: Any

    def __init__(self) -> None:
        raise TypeError("a context returns its resources: context['cache_pool']")

    @classmethod
    def _of(cls, kind: Kind, json: Any, key: str) -> Resource:
        new = object.__new__(cls)
        new._kind = kind
        new._json = _DEFAULTS[kind.name] if json is None else json  # canonical JSON
        new._key = key  # "": the resource has no name
        new._value = None
        return new

    def to_json(self, include_defaults: bool = False) -> Any:  # noqa: FBT002 (TensorStore API)
        """Return the JSON of the resource.

        Parameters
        ----------
        include_defaults
            Whether to include members that have their default values.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.Context({"data_copy_concurrency": {"limit": 4}})["data_copy_concurrency"].to_json()
        {'limit': 4}
        """
        return self._kind.full(self._json) if include_defaults else deepcopy(self._json)

    def _get_or_build(self, make: Callable[[Any], Any]) -> Any:
        """Return the object behind the resource; the first call creates it as `make(json)`."""
        if self._value is None:
            with _creation_lock:
                if self._value is None:
                    self._value = make(self._kind.full(self._json))
        return self._value

    def __repr__(self) -> str:
        return format_repr("Context.Resource", self._json)

    def __getstate__(self) -> tuple[Any, ...]:
        return self._kind.name, self._json, self._key

    def __setstate__(self, state: tuple[str, Any, str]) -> None:
        kind, self._json, self._key = state
        self._kind, self._value = KINDS[kind], None


_DEFAULTS: Final = {name: kind.canonical(None) for name, kind in KINDS.items()}


class ContextSpec(Picklable):
    """A specification of the resources of a context.

    Parameters
    ----------
    json
        An object: resources by ``kind`` or ``kind#id``.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> ts.Context.Spec({"cache_pool": {"total_bytes_limit": 5.0}})
    Context.Spec({'cache_pool': {'total_bytes_limit': 5}})
    """

    __slots__ = ("__weakref__", "_items", "_refers")

    _items: dict[str, Any]

    _refers: bool
    """Whether the JSON of a resource is the name of another resource."""

    def __init__(self, json: Any) -> None:
        check_integers(json)
        if not isinstance(json, dict):
            raise expected_error("object", json)
        self._items = {}
        for key, value in json.items():
            kind = kind_of(key) if isinstance(key, str) else None
            if kind is None:
                raise expected_error("object with names", json)
            # Null means the parent's resource of the kind, or the default; to_json keeps null.
            self._items[key] = None if value is None else check_reference(kind, value)
        self._refers = any(isinstance(value, str) for value in self._items.values())

    def to_json(self, include_defaults: bool = False) -> Any:  # noqa: FBT002 (TensorStore API)
        """Return the JSON.

        Parameters
        ----------
        include_defaults
            Whether to include members that have their default values.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.Context.Spec({"file_io_sync": True}).to_json()
        {'file_io_sync': True}
        """
        members: dict[str, Any] = {}
        for key, value in sorted(self._items.items()):
            plain = value is None or isinstance(value, str) or not include_defaults
            members[key] = deepcopy(value) if plain else kind_of(key).full(value)
        return members

    def __repr__(self) -> str:
        return format_repr("Context.Spec", self.to_json())


def check_reference(kind: Kind, value: Any) -> Any:
    """Validate and return the JSON or the name of a resource."""
    if isinstance(value, str):
        if value.partition("#")[0] == kind.name:
            return value
        raise ArgumentError(
            f'Invalid spec or reference to "{kind.name}" resource: {as_json(value)} '
            f"({expected_error('object', value)})"
        )
    return kind.canonical(value)


class Context(Picklable):
    """The resources that stores share: caches, memory stores and limits.

    Parameters
    ----------
    json : Context.Spec or JSON, optional
        The resources, by ``kind`` or ``kind#id``.
    parent : Context, optional
        The context that resolves resources that `json` does not define.
    spec : Context.Spec, optional
        An alias of `json`.

    Notes
    -----
    Two contexts share resources only if one is the parent of the other. A pickle holds the
    JSON of a context. An unpickled context has new resources, which all objects in the same
    pickle share.

    A limit holds for all stores that use the resource. With the limit ``"shared"``, S3, GCS
    and web servers each receive at most 32 concurrent requests. The engine limits work on
    files and chunks (``tessarr.options(threads=…)``).

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> context = ts.Context({"cache_pool": {"total_bytes_limit": 5000000}})
    >>> context["cache_pool"].to_json(), ts.Context().spec is None
    ({'total_bytes_limit': 5000000}, True)
    """

    __slots__ = ("__weakref__", "_alone", "_parent", "_refers", "_resources", "_spec")

    _alone: bool
    """Whether a single open array uses the context, so that it shares no resources."""

    Resource: TypeAlias = Resource
    Spec: TypeAlias = ContextSpec

    def __init__(
        self,
        json: Any = ...,
        parent: Context | EllipsisType | None = ...,
        *,
        spec: ContextSpec | EllipsisType | None = ...,
    ) -> None:
        self._alone = False
        self._resources: dict[str, Resource] = {}
        self._parent: Context | None = None
        self._spec: ContextSpec | None = None
        self._refers = False
        """Whether a resource refers to another one by name, which may be undefined."""
        if json is ... and spec is ...:
            if parent is not ...:
                raise TypeError("a context that has a parent needs a spec")
            return
        if json is not ... and spec is not ...:
            raise TypeError("json and spec are two names of one argument: give one")
        if spec is not ... and not isinstance(spec, ContextSpec | None):
            raise TypeError(f"spec: {safe_repr(spec)} is not a Context.Spec: give it as json")
        if parent is not ... and not isinstance(parent, Context | None):
            raise TypeError(f"parent: {safe_repr(parent)} is not a Context")
        source = spec if json is ... else json
        if source is None and json is None:
            raise expected_error("object", None)
        if source is None:
            return  # equal to no arguments, even with a parent
        self._parent = None if parent is ... else parent
        self._spec = source if isinstance(source, ContextSpec) else ContextSpec(source)
        above = self._parent is not None and self._parent._refers
        self._refers = self._spec._refers or above

    @property
    def parent(self) -> Context | None:
        """The context that resolves resources that this context does not define.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> outer = ts.Context({"cache_pool": {"total_bytes_limit": 1000}})
        >>> inner = ts.Context({}, parent=outer)
        >>> inner.parent is outer, inner["cache_pool"] is outer["cache_pool"]
        (True, True)
        """
        return self._parent

    @property
    def spec(self) -> ContextSpec | None:
        """The spec of the context; None for a default context.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.Context({"file_io_sync": False}).spec
        Context.Spec({'file_io_sync': False})
        """
        return self._spec

    def __getitem__(self, key: str) -> Resource:
        """Return a resource by its name, ``kind`` or ``kind#id``.

        Raises
        ------
        ArgumentError
            If the kind does not exist, or no resource has the name ``kind#id``.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> context = ts.Context({"cache_pool#big": {"total_bytes_limit": 1000000}})
        >>> context["cache_pool#big"], context["cache_pool"]
        (Context.Resource({'total_bytes_limit': 1000000}), Context.Resource({}))
        """
        if not isinstance(key, str):
            raise TypeError(f"resources have names, not {safe_repr(key)}")
        kind_of(key)
        return self._resolve(key, ())

    def _resolve(self, key: str, way: tuple[tuple[Context, str], ...]) -> Resource:
        context = self
        while context._spec is None or key not in context._spec._items:
            if context._parent is None:
                if "#" in key:
                    raise ArgumentError(f"Resource not defined: {as_json(key)}")
                return context._keep(key, None)  # the default, for all child contexts
            context = context._parent
        # The parent may use the same name for another resource.
        if (context, key) in way:
            names = truncate(" -> ".join(as_json(name) for _, name in (*way, (context, key))))
            raise ArgumentError(f"Context resource reference cycle: {names}")
        value = context._spec._items[key]
        if isinstance(value, str):
            return context._resolve(value, (*way, (context, key)))
        if value is None and context._parent is not None:
            return context._parent._resolve(key.partition("#")[0], ())
        return context._keep(key, value)

    def _keep(self, key: str, json: Any) -> Resource:
        result = self._resources.get(key)
        if result is None:
            result = self._resources.setdefault(
                key, Resource._of(KINDS.get(key) or kind_of(key), json, key)
            )
        return result

    def _bound(self, kind: Kind, value: Any, key: str = "") -> Resource:
        """Return the resource of a reference, or a new one from JSON with the name `key`."""
        if isinstance(value, str):
            return self._resolve(value, ())
        return Resource._of(kind, value, key)

    def __repr__(self) -> str:
        return f"Context({self._spec!r})" if self._spec is not None else "Context()"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._alone:  # views in one pickle still share one context
            return Context, (), (True, {})
        resources = self._resources.copy()  # one pickle preserves shared resources
        new, arguments, *derived = super().__reduce__()
        state = (False, resources, *derived) if resources or derived else None
        return new, arguments, state

    def _arguments(self) -> tuple[Any, ...]:
        return () if self._spec is None else (self._spec, self._parent)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        alone, resources, *derived = state
        for subclass_state in derived:
            super().__setstate__(subclass_state)
        self._alone, self._resources = alone, resources

    @classmethod
    def _of(cls, json: Any, found: dict[str, Resource]) -> Context:
        """Return a context with existing resources, by their names in `json`."""
        new = cls(json)
        new._resources = found
        return new


def new_context() -> Context:
    """Return a new default context for a single open array."""
    new = Context()
    new._alone = True
    return new


ResourceLike: TypeAlias = "str | Resource | Any"
"""The name of a resource, its JSON, or the resource itself."""


set_public_module("tessarr.tensorstore", Context)
