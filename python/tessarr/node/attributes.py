"""The attributes of a node: a mapping that stores every change atomically."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Protocol

from tessarr.errors import ArgumentError, NotFoundError
from tessarr.flow import edit
from tessarr.flow.open import prefix_of
from tessarr.flow.run import run_flow
from tessarr.node.synchronizer import hold_locks

if TYPE_CHECKING:
    from collections.abc import Callable

    from tessarr.flow.open import Kind, Node
    from tessarr.node.synchronizer import Synchronizer
    from tessarr.store import Store

__all__ = ["Attributes"]


class _Owner(Protocol):
    _store: Store

    _meta: Any

    @property
    def _metadata(self) -> Node: ...
    @property
    def path(self) -> str: ...
    @property
    def synchronizer(self) -> Synchronizer | None: ...
    def _check_writable(self) -> None: ...


class Attributes(MutableMapping[str, Any]):
    """The attributes of an array or a group.

    Values are JSON values: None, booleans, numbers, strings, lists and objects. NumPy scalars and
    arrays, and tuples, are converted. NaN and infinities become tokens that strict JSON lacks,
    with a warning; the option ``nan_attributes`` omits the warning or rejects them.

    Notes
    -----
    Opening a node reads its attributes; reading one attribute takes no request. Each change is one
    read and one conditional write of the stored document. So a change preserves attributes that
    other programs have set meanwhile. A failed change has no effect, neither on this object nor on
    the store. Reading returns a copy: assign to change an attribute.

    Examples
    --------
    >>> import tessarr
    >>> a = tessarr.create_array(None, shape=(2,), dtype="u1")
    >>> a.attrs["units"] = "m"
    >>> a.attrs.update(scale=0.5, offset=1)
    >>> a.attrs.asdict()
    {'units': 'm', 'scale': 0.5, 'offset': 1}
    """

    __slots__ = ("_accept", "_kind", "_owner")

    def __init__(self, owner: _Owner, kind: Kind, accept: Callable[[dict[str, Any]], None]) -> None:
        self._owner = owner
        self._accept = accept
        self._kind: Kind = kind

    def __getitem__(self, name: str) -> Any:
        try:
            value = self._owner._metadata.attributes[name]
        except KeyError:
            raise self._missing_error(name) from None
        return deepcopy(value) if isinstance(value, dict | list) else value

    def __setitem__(self, name: str, value: object) -> None:
        self._change(lambda old: {**old, name: value})

    def __delitem__(self, name: str) -> None:
        self.remove(name)

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._owner._metadata.attributes))

    def __len__(self) -> int:
        return len(self._owner._metadata.attributes)

    def __contains__(self, name: object) -> bool:
        return name in self._owner._metadata.attributes

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self._owner, "attrs")

    def __repr__(self) -> str:
        return f"Attributes({dict(self._owner._metadata.attributes)!r})"

    def _repr_html_(self) -> str:
        from tessarr.node.html import render_attributes_of

        owner = self._owner
        return render_attributes_of(self._kind, f"/{owner.path}", owner._meta.attributes)

    def _ipython_key_completions_(self) -> list[str]:
        """Return the names, for the completion of ``attrs["``."""
        return list(self._owner._meta.attributes)

    def asdict(self) -> dict[str, Any]:
        """Return a copy of all attributes as a dictionary."""
        return deepcopy(dict(self._owner._metadata.attributes))

    def put(self, attributes: Mapping[str, Any]) -> None:
        """Replace all attributes in one step.

        Parameters
        ----------
        attributes
            The new attributes.
        """
        new = dict(attributes)
        self._change(lambda _: new)

    def clear(self) -> None:
        """Remove all attributes in one step."""
        self.put({})

    def update(  # type: ignore[override]
        self,
        other: Mapping[str, Any] | Iterable[tuple[str, Any]] = (),
        /,
        **attributes: Any,
    ) -> None:
        """Set several attributes in one step: all of them, or none if one cannot be stored.

        Parameters
        ----------
        other
            Names and values.
        **attributes
            More names and values.
        """
        try:
            new = dict(other, **attributes)
        except ValueError as error:
            raise ArgumentError(f"attributes are names and values: {error}") from error
        self._change(lambda old: {**old, **new})

    def remove(self, *names: str) -> None:
        """Remove several attributes in one step: all of them, or none if one is absent.

        Parameters
        ----------
        *names
            The names of the attributes.

        Raises
        ------
        NotFoundError
            If an attribute does not exist.
        """

        def without(old: dict[str, Any]) -> dict[str, Any]:
            for name in names:
                if name not in old:
                    raise self._missing_error(name)
            return {name: value for name, value in old.items() if name not in names}

        self._change(without)

    def _change(self, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        owner = self._owner
        owner._check_writable()
        form = owner._metadata.zarr_format
        flow = edit.edit_attributes(owner.path, form, self._kind, change)
        key = prefix_of(owner.path) + ("zarr.json" if form == 3 else ".zattrs")
        with hold_locks(owner.synchronizer, [key]):
            self._accept(run_flow(flow, owner._store))

    def _missing_error(self, name: str) -> KeyError:
        from tessarr.format.hints import did_you_mean

        hint = did_you_mean(name, self)
        return NotFoundError(
            f"{self._kind} {self._owner.path or '/'!r} has no attribute {name!r}{hint}",
            kind="attribute_not_found",
            path=self._owner.path,
        )
