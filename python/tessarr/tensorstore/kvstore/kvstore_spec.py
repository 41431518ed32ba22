"""Specs of key-value stores: JSON, URLs and resources."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

from tessarr.errors import ArgumentError, UnsupportedError
from tessarr.format.utf8 import as_text
from tessarr.store import Store
from tessarr.tensorstore.context.context import Context
from tessarr.tensorstore.context.references import (
    STRIP_RESOURCES,
    Naming,
    References,
    ResourceChange,
    bind_resources,
    unbind_resources,
)
from tessarr.tensorstore.json.format_json import format_repr
from tessarr.tensorstore.json.parse import (
    as_bool,
    as_json,
    check_class,
    check_integers,
    expected_error,
    member_error,
    missing_member,
    text,
)
from tessarr.tensorstore.kvstore.kvstore_driver import Driver
from tessarr.tensorstore.kvstore.kvstore_url import parse_url
from tessarr.tensorstore.kvstore.layered import KVSTACK, ZIP
from tessarr.tensorstore.kvstore.local import FILE, MEMORY, TESSARR
from tessarr.tensorstore.kvstore.logging import log_requests
from tessarr.tensorstore.kvstore.remote import GCS, HTTP, S3
from tessarr.tensorstore.kvstore.values import StoreLocation, join_path

__all__ = ["DRIVERS", "Spec", "describe_place"]

DRIVERS: Final[dict[str, Driver]] = {
    driver.name: driver for driver in (FILE, MEMORY, S3, GCS, HTTP, ZIP, KVSTACK, TESSARR)
}
"""All drivers, by their names in JSON."""
_new: Final = object.__new__


class Spec:
    """The description of a key-value store.

    Parameters
    ----------
    json
        An object with ``driver``, ``path`` and the members of the driver; or a URL.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> spec = ts.KvStore.Spec("file:///path/to/data/")
    >>> spec
    KvStore.Spec({'driver': 'file', 'path': '/path/to/data/'})
    >>> (spec / "abc").url
    'file:///path/to/data/abc'
    """

    __slots__ = (
        "__weakref__",
        "_bases",
        "_context",
        "_driver",
        "_members",
        "_path",
        "_references",
    )
    __hash__ = None  # type: ignore[assignment]  # the path is mutable

    _driver: Driver
    _members: dict[str, Any]
    _path: str
    _references: References
    _bases: tuple[Spec, ...]  # the stores below this one
    _context: dict[str, Any] | None  # JSON

    def __new__(cls, json: Any) -> Spec:  # noqa: PYI034 (the copy is a `Spec`)
        return cls._of(json).copy()

    @classmethod
    def _of(cls, json: Any) -> Spec:
        """Return the spec of user input; a spec is returned without a copy."""
        if isinstance(json, Spec):
            return json
        if isinstance(json, Store):
            json = {"driver": "tessarr", "store": json}
        if isinstance(json, str):
            json = parse_url(json)
        check_integers(json)
        if not isinstance(json, dict):
            raise expected_error("object", json)
        members = dict(json)
        driver = _driver(members)
        path = text(members.pop("path", ""), "path")
        new = object.__new__(cls)
        new._driver = driver
        new._context = _context(members)
        new._bases = _bases(driver, members)
        new._references = References.parse(driver.kinds, members, driver.optional)
        new._members, new._path = driver.parse(members, path)
        return new

    def _with(
        self,
        references: References,
        bases: tuple[Spec, ...],
        context: dict[str, Any] | None = None,
    ) -> Spec:
        new: Spec = _new(Spec)
        new._driver, new._members, new._path = self._driver, self._members, self._path
        new._references, new._bases, new._context = references, bases, context
        return new

    # JSON

    def to_json(self, include_defaults: bool = False) -> Any:  # noqa: FBT002 (TensorStore's)
        """Return the JSON.

        Parameters
        ----------
        include_defaults
            Whether to include members that have their default values.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.KvStore.Spec("file:///data/x").to_json()
        {'driver': 'file', 'path': '/data/x'}
        """
        return self._to_document(Naming(self._all_references()), include_defaults=include_defaults)

    def _to_document(self, naming: Naming, *, include_defaults: bool = False) -> dict[str, Any]:
        """Return the JSON, with a context that defines the named resources."""
        result = self._json(naming, include_defaults=include_defaults)
        context = {
            **result.pop("context", {}),
            **naming.context(include_defaults=include_defaults),
        }
        if context or include_defaults:
            result["context"] = context
        return dict(sorted(result.items()))

    def _all_references(self) -> Iterator[References]:
        """Return the references to resources, first those of this store."""
        yield self._references
        for base in self._bases:
            yield from base._all_references()

    def _json(self, naming: Naming, *, include_defaults: bool = False) -> dict[str, Any]:
        """Return the JSON as part of a document; `naming` has the context of the document."""
        result: dict[str, Any] = {"driver": self._driver.name}
        if self._path or include_defaults:
            result["path"] = self._path
        members = {**self._driver.defaults, **self._members} if include_defaults else self._members
        # The caller may change the lists.
        for name, value in members.items():
            result[name] = value[:] if type(value) is list else value
        if self._driver.based is not None:
            bases = [base._json(naming, include_defaults=include_defaults) for base in self._bases]
            self._driver.based.put(result, bases)
        result.update(self._references.json(naming, include_defaults=include_defaults))
        if self._context or include_defaults:
            result["context"] = Context.Spec(self._context or {}).to_json(include_defaults)
        return dict(sorted(result.items()))

    @property
    def url(self) -> str:
        """The URL; a spec without a URL raises an `UnsupportedError`.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.KvStore.Spec({"driver": "memory", "path": "a b"}).url
        'memory://a%20b'
        """
        if self._driver.url is None:
            raise UnsupportedError("URL representation not supported")
        own = self._driver.url(self._members, self._path)
        return "|".join((*(base.url for base in self._bases), own))

    def __repr__(self) -> str:
        return format_repr(
            "KvStore.Spec", self._to_document(Naming(self._all_references(), bound=True))
        )

    def __reduce__(self) -> tuple[Any, ...]:
        naming = Naming(self._all_references(), brief=True)
        json, beside = self._to_document(naming), naming.shared_context()
        if beside is None:
            return Spec, (json,)
        json.pop("context", None)
        return Spec, (json,), beside

    def __setstate__(self, context: Context) -> None:
        """Bind the resources of `context`, which was pickled with the JSON."""
        new = self._bound(context)
        self._references, self._bases, self._context = new._references, new._bases, new._context

    # Members

    @property
    def path(self) -> str:
        """The prefix of each key in the underlying store.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.KvStore.Spec("file:///data/x").path
        '/data/x'
        """
        return self._path

    @path.setter
    def path(self, path: str | bytes) -> None:
        self._path = as_text(path)

    @property
    def base(self) -> Spec | None:
        """The spec of the store below this one; None for most drivers.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.KvStore.Spec("memory://a.zip|zip:inside").base
        KvStore.Spec({'driver': 'memory', 'path': 'a.zip'})
        """
        return self._bases[0].copy() if self._driver.name == "zip" else None

    def copy(self) -> Spec:
        """Return an equal copy.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> spec = ts.KvStore.Spec("memory://a/")
        >>> spec.copy() == spec, spec.copy() is spec
        (True, False)
        """
        return self._with(self._references, self._bases, self._context)

    def __copy__(self) -> Spec:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Spec:
        return self.copy()

    def __add__(self, suffix: str | bytes) -> Spec:
        new = self.copy()
        new.path = self._path + as_text(suffix)
        return new

    def __truediv__(self, component: str | bytes) -> Spec:
        new = self.copy()
        new.path = join_path(self._path, as_text(component))
        return new

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Spec):
            return NotImplemented
        return (
            self._driver is other._driver
            and self._path == other._path
            and self._members == other._members
            and (self._context or None) == (other._context or None)
            and self._references.has_same_resources(other._references)
            and self._bases == other._bases
        )

    # Resources

    def update(
        self,
        *,
        unbind_context: bool | None = None,
        strip_context: bool | None = None,
        context: Context | None = None,
    ) -> None:
        """Change the resources of the spec.

        Parameters
        ----------
        unbind_context
            Replace bound resources by their JSON.
        strip_context
            Remove all resources; a later open takes the defaults of its context.
        context
            The context that binds the named resources.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> spec = ts.KvStore.Spec("memory://a/")
        >>> spec.update(context=ts.Context())
        >>> spec.update(strip_context=True)
        >>> spec
        KvStore.Spec({'driver': 'memory', 'path': 'a/'})
        """
        check_class(context, Context, "context")
        changed = self
        if as_bool(unbind_context, "unbind_context"):
            changed = changed._unbind()
        if as_bool(strip_context, "strip_context"):
            changed = changed._strip()
        if context is not None:
            changed = changed._bound(context)
        for name in Spec.__annotations__:
            setattr(self, name, getattr(changed, name))

    def _change_resources(self, change: ResourceChange) -> Spec:
        own = change.within(self._context)
        bases = tuple(base._change_resources(own) for base in self._bases)
        context = self._context if change.keeps_context else None
        return self._with(own.apply(self._references), bases, context)

    def _bound(self, context: Context) -> Spec:
        """Return the spec with resources from its own context and from `context`."""
        return self._change_resources(bind_resources(context))

    def _strip(self) -> Spec:
        """Return the spec without resources."""
        return self._change_resources(STRIP_RESOURCES)

    def _unbind(self) -> Spec:
        """Return the spec with the JSON of its resources."""
        naming = Naming(self._all_references())
        new = self._change_resources(unbind_resources(naming))
        new._context = {**(self._context or {}), **naming.context()} or None
        return new

    def _copy_resources(self, memo: dict[int, Any]) -> Spec:
        """Return the spec with resources that are deep copies."""
        naming = Naming(self._all_references(), brief=True)
        context = naming.shared_context(change=lambda resources: deepcopy(resources, memo))
        if context is None:
            return self._unbind()
        return self._change_resources(unbind_resources(naming))._bound(context)

    def _with_resolved_drivers(self) -> Spec:
        """Return the spec of the store that this spec opens."""
        based = self._driver.based
        if based is None or based.resolve is None:
            return self
        bases = tuple(base._with_resolved_drivers() for base in self._bases)
        members, bases = based.resolve(self._members, bases)
        new = self._with(self._references, bases, self._context)
        new._members = members
        return new

    def _open(self) -> StoreLocation:
        """Return the store location; the resources must be bound."""
        bases = tuple([base._below() for base in self._bases]) if self._bases else ()
        place = self._driver.open(self._references, self._members, bases, self._path)
        return log_requests(place, self._driver.name)

    def _below(self) -> StoreLocation:
        """Return the location for a store above this one, with the path in its prefix."""
        return self._open().with_prefix(self._path)


def describe_place(place: Any) -> str:
    """Return the URL of a spec or an open store for messages, or its path without a URL."""
    try:
        url: str = place.url
    except UnsupportedError:
        return repr(place.path)
    return repr(url)


def _driver(json: dict[str, Any]) -> Driver:
    """Remove the member ``driver`` from `json` and return the driver of this name."""
    if "driver" not in json:
        raise missing_member("driver", "string")
    name = json.pop("driver")
    if isinstance(name, str) and name in DRIVERS:
        return DRIVERS[name]
    why = f"{as_json(name)} is not a registered KvStore driver"
    if not isinstance(name, str):
        why = str(expected_error("string", name))
    raise member_error("driver", ArgumentError(why))


def _context(json: dict[str, Any]) -> dict[str, Any] | None:
    value = json.pop("context", None)
    if value is None:
        return None
    result: dict[str, Any] = (
        value if isinstance(value, Context.Spec) else Context.Spec(value)
    ).to_json()
    return result or None


def _bases(driver: Driver, json: dict[str, Any]) -> tuple[Spec, ...]:
    if driver.based is None:
        return ()
    taken = driver.based.take(json)
    try:
        return tuple(map(Spec, taken))
    except ArgumentError as error:
        raise member_error("base", error) from None
