"""Open modes: whether to open, create or replace an array."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from tessarr.errors import ArgumentError
from tessarr.tensorstore.json.parse import as_bool, boolean

if TYPE_CHECKING:
    from tessarr.types import JSONObject

__all__ = ["OpenMode"]

_NAMES: Final = (
    *("open", "create", "delete_existing"),
    *("assume_metadata", "assume_cached_metadata"),
)
_values: Final = attrgetter(*_NAMES)
_BOOLEANS: Final = frozenset({bool})


@dataclass(slots=True, weakref_slot=True, repr=False, kw_only=True)
class OpenMode:
    """What an open operation may do.

    Parameters
    ----------
    open
        Open an existing array.
    create
        Create an array; with `open`, only if no array exists.
    delete_existing
        First delete the existing array and everything below it.
    assume_metadata
        Never read or write metadata; the spec supplies them.
    assume_cached_metadata
        Open without reading metadata; the spec supplies them until the first recheck.

    Examples
    --------
    >>> OpenMode(open=True, create=True)
    OpenMode(open=True, create=True)
    """

    open: bool = False
    create: bool = False
    delete_existing: bool = False
    assume_metadata: bool = False
    assume_cached_metadata: bool = False

    def __post_init__(self) -> None:
        values = _values(self)
        if not _BOOLEANS.issuperset(map(type, values)):
            for name, value in zip(_NAMES, values, strict=True):
                setattr(self, name, as_bool(value, name))

    def __getstate__(self) -> object:
        return object.__getstate__(self)  # for old pickle protocols too

    @classmethod
    def _take(cls, members: dict[str, Any]) -> OpenMode:
        """Remove the members of the mode from `members`, and return the mode.

        Raises
        ------
        ArgumentError
            If a member is not a boolean.
        """
        result = {name: members.pop(name) for name in cls._names() if name in members}
        for name, value in result.items():
            boolean(value, name)
        if "open" not in result and "create" not in result:
            result["open"] = True
        return cls(**result)._with_implied_flags()

    @classmethod
    def _names(cls) -> tuple[str, ...]:
        """Return the names of the flags."""
        return _NAMES

    def _with_implied_flags(self) -> OpenMode:
        if self.assume_metadata:
            self.assume_cached_metadata = False
        if not any(_values(self)):
            self.open = True
        return self

    @property
    def _assumes(self) -> bool:
        """Whether the array opens without a read of metadata."""
        return self.assume_metadata or self.assume_cached_metadata

    @property
    def _looks(self) -> bool:
        """Whether opening starts with a read of metadata."""
        return self.open and not (self.assume_metadata or self.assume_cached_metadata)

    def _changed(self, given: OpenMode | None, flags: dict[str, bool]) -> OpenMode:
        """Return the mode after an update.

        Parameters
        ----------
        given
            A mode that replaces this one.
        flags
            Flags in addition to `given`. Unless one of them contains ``open`` or ``create``, the
            result also contains the flags of this mode.
        """
        asked = {name for name, value in flags.items() if value}
        if given is None and not asked:
            return self
        if given is not None:
            asked |= {name for name in self._names() if getattr(given, name)}
        kept = (
            set() if asked & {"open", "create"} else {n for n in self._names() if getattr(self, n)}
        )
        return OpenMode(**dict.fromkeys(asked | kept, True))._with_implied_flags()

    def _values(self) -> tuple[bool, ...]:
        """Return the flags, which are equal only for equal modes."""
        return _values(self)

    def _check(self) -> None:
        """Raise an error if the flags contradict each other.

        Raises
        ------
        ArgumentError
        """
        if self.delete_existing and (self.open or not self.create):
            other = "with open" if self.create else "without create"
            raise ArgumentError(f"delete_existing {other}: nothing can be opened like this")
        assume = "assume_metadata" if self.assume_metadata else "assume_cached_metadata"
        if (self.assume_metadata or self.assume_cached_metadata) and not self.open:
            raise ArgumentError(f"{assume} without open: nothing can be opened like this")
        if self.assume_metadata and self.delete_existing:
            raise ArgumentError(f"{assume} with delete_existing: nothing can be opened like this")

    def _to_json(self, *, include_defaults: bool = False) -> JSONObject:
        """Return the JSON members of the mode, by default without false flags.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.OpenMode(create=True, delete_existing=True)._to_json()
        {'create': True, 'delete_existing': True}
        """
        result: JSONObject = {}
        if self.create:
            result["create"] = True
            if self.open:
                result["open"] = True
        for name in self._names()[2:]:
            if include_defaults or getattr(self, name):
                result[name] = getattr(self, name)
        return result

    def __repr__(self) -> str:
        flags = ", ".join(f"{name}=True" for name in self._names() if getattr(self, name))
        return f"OpenMode({flags})"
