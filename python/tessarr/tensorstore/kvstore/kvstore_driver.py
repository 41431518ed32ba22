"""Key-value store drivers: JSON members, URLs and the function that opens a store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from tessarr.tensorstore.json.parse import expected_error, missing_member, read_members

if TYPE_CHECKING:
    from tessarr.tensorstore.context.references import References
    from tessarr.tensorstore.kvstore.values import StoreLocation

__all__ = [
    "BaseMembers",
    "Driver",
    "quote_path",
    "read_strings",
]


class BaseMembers(NamedTuple):
    """Functions for the base stores in the JSON of a driver.

    ``take`` removes the JSON of the bases from the JSON of the driver; ``put`` adds it again.
    ``resolve`` returns the members and the bases of an open store; None leaves both unchanged.
    """

    take: Callable[[dict[str, Any]], list[Any]]
    put: Callable[[dict[str, Any], list[Any]], None]
    resolve: Callable[[Any, Any], tuple[dict[str, Any], tuple[Any, ...]]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """A key-value store driver.

    Parameters
    ----------
    name
        The name in JSON.
    open
        Returns the store location. Its arguments are the resources, the checked members, the
        locations of the bases, and the path of the key-value store, which follows the prefix.
    members
        The JSON members other than path and resources, with the parser of each.
    needs
        The required members.
    kinds
        The members that name resources, with the kinds of these resources.
    optional
        The resource members that have no default.
    defaults
        The default values of members; the JSON omits members with these values.
    url
        Returns the URL of members and a path, or the part of a pipeline; None without URLs.
    path
        Checks and normalizes a path.
    check
        Checks and normalizes the members together with the path; None without a check.
    at_once
        The largest value in bytes that is faster to read here than to read in another thread. If
        infinite, all operations run here.
    based
        The functions for the base stores; None without base stores.
    """

    name: str
    open: Callable[[References, Mapping[str, Any], tuple[StoreLocation, ...], str], StoreLocation]
    members: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)
    optional: frozenset[str] = frozenset()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    url: Callable[[Mapping[str, Any], str], str] | None = None
    path: Callable[[str], str] = str
    check: Callable[[dict[str, Any], str], tuple[dict[str, Any], str]] | None = None
    at_once: float = 0
    based: BaseMembers | None = None

    def parse(self, json: dict[str, Any], path: str) -> tuple[dict[str, Any], str]:
        """Return the checked members and the path.

        Raises
        ------
        ArgumentError
            If a member is missing, unknown or invalid.
        """
        for name in self.needs:
            if name not in json:
                raise missing_member(name, "string")
        result = {
            name: value
            for name, value in read_members(json, self.members).items()
            if name not in self.defaults or self.defaults[name] != value
        }
        return (result, self.path(path)) if self.check is None else self.check(result, path)


def read_strings(value: Any) -> list[str]:
    """Return a copy of a list of strings; raise an error for other values."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise expected_error("array of strings", value)
    return [*value]


def quote_path(path: str, plain: str = "") -> str:
    """Return the percent-encoded path; characters in `plain` stay unchanged."""
    from urllib.parse import quote

    return quote(path, safe=f"/!$&'()*+,;=:-._~{plain}", errors="surrogateescape")
