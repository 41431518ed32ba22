"""Open modes, and staleness bounds of cached values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tessarr._safe_repr import safe_repr
from tessarr.errors import ArgumentError
from tessarr.format.registry import set_public_module
from tessarr.tensorstore.json.parse import as_bool, boolean, to_plain_json

if TYPE_CHECKING:
    from tessarr.types import JSONObject

__all__ = ["OPEN_FLAGS", "OpenMode", "Recheck", "read_recheck", "recheck_of"]

OPEN_FLAGS: Final[tuple[str, ...]] = (
    *("open", "create", "delete_existing"),
    *("assume_metadata", "assume_cached_metadata"),
)
"""The names of the flags."""


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
        for name in OPEN_FLAGS:
            setattr(self, name, as_bool(getattr(self, name), name))

    def __getstate__(self) -> object:
        return object.__getstate__(self)  # for old pickle protocols too

    @classmethod
    def _from_members(cls, members: dict[str, Any]) -> OpenMode:
        """Remove the members of the mode from `members`, and return the mode.

        Raises
        ------
        ArgumentError
            If a member is not a boolean.
        """
        flags = {name: boolean(members.pop(name), name) for name in OPEN_FLAGS if name in members}
        if "open" not in flags and "create" not in flags:
            flags["open"] = True
        return cls(**flags)._with_implied_flags()

    def _with_implied_flags(self) -> OpenMode:
        if self.assume_metadata:
            self.assume_cached_metadata = False
        self.open |= not self._flags()
        return self

    @property
    def _assumes(self) -> bool:
        """Whether the array opens without a read of metadata."""
        return self.assume_metadata or self.assume_cached_metadata

    @property
    def _reads_metadata(self) -> bool:
        """Whether opening starts with a read of metadata."""
        return self.open and not self._assumes

    def _updated(self, mode: OpenMode | None, flags: dict[str, bool]) -> OpenMode:
        """Return the mode after an update.

        Parameters
        ----------
        mode
            A mode that replaces this one.
        flags
            Flags in addition to `mode`. Unless one of them contains ``open`` or ``create``, the
            result also contains the flags of this mode.
        """
        names = {name for name, value in flags.items() if value}
        if mode is None and not names:
            return self
        if mode is not None:
            names |= mode._flags()
        if names.isdisjoint({"open", "create"}):
            names |= self._flags()
        return OpenMode(**dict.fromkeys(names, True))._with_implied_flags()

    def _flags(self) -> set[str]:
        """Return the names of the flags that are true."""
        return {name for name in OPEN_FLAGS if getattr(self, name)}

    def _check(self) -> None:
        """Raise an error if the flags contradict each other.

        Raises
        ------
        ArgumentError
        """
        if self.delete_existing and (self.open or not self.create):
            other = "with open" if self.create else "without create"
            raise ArgumentError(f"delete_existing {other} cannot open anything")
        assume = "assume_metadata" if self.assume_metadata else "assume_cached_metadata"
        if self._assumes and not self.open:
            raise ArgumentError(f"{assume} without open cannot open anything")
        if self.assume_metadata and self.delete_existing:
            raise ArgumentError(f"{assume} with delete_existing cannot open anything")

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
        for name in OPEN_FLAGS[2:]:
            if include_defaults or getattr(self, name):
                result[name] = getattr(self, name)
        return result

    def __repr__(self) -> str:
        flags = ", ".join(f"{name}=True" for name in OPEN_FLAGS if getattr(self, name))
        return f"OpenMode({flags})"


Recheck: TypeAlias = "bool | float | str"

_LAST: Final = 2.0**63  # seconds since 1970: later than any check


def recheck_of(value: Any, name: str) -> Recheck:
    """Validate and return a staleness bound: a boolean, ``"open"``, or seconds since 1970."""
    value = to_plain_json(value)
    if isinstance(value, bool) or value == "open":
        result: Recheck = value
        return result
    if isinstance(value, int | float):
        return float(value) if -_LAST < value < _LAST else value >= _LAST
    raise ArgumentError(f'"{name}": {safe_repr(value)} is not a boolean, a number or "open"')


def read_recheck(value: Any, name: str) -> Recheck:
    """Return the staleness bound of a keyword."""
    try:
        return recheck_of(value, name)
    except ArgumentError as error:
        raise TypeError(str(error)) from error


set_public_module("tessarr.tensorstore", OpenMode)
