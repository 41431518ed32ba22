"""Key-value store drivers: their JSON, their URLs and how they open."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from tessarr.errors import ArgumentError
from tessarr.tensorstore.json.object_members import expected_error, read_members

if TYPE_CHECKING:
    from tessarr.tensorstore.context.references import References
    from tessarr.tensorstore.kvstore.values import StoreLocation

__all__ = [
    "BaseMembers",
    "Driver",
    "missing_member",
    "quote_path",
    "read_strings",
]


class BaseMembers(NamedTuple):
    """How the JSON of a driver says which others it stands on.

    ``take`` takes their JSON out of that of the driver, ``give`` puts it back. ``settle`` gives
    the members, and those that it stands on, as an open store tells them; None: as they are.
    """

    take: Callable[[dict[str, Any]], list[Any]]
    give: Callable[[dict[str, Any], list[Any]], None]
    settle: Callable[[Any, Any], tuple[dict[str, Any], tuple[Any, ...]]] | None = None


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """A kind of place.

    Parameters
    ----------
    name
        What JSON calls it.
    open
        Gives the place of the keys. It is given the resources, the checked members, the places
        that it stands on, and the path of the key-value store, which will follow the prefix.
    members
        Its members in JSON beside path and resources, with what reads each.
    needs
        The members that must be there.
    kinds
        The members that name resources, and their kinds.
    optional
        Those of them that mean nothing where they are absent.
    defaults
        The members that are left out where they have this value.
    url
        From members and path to a URL, or to the part of a pipeline; None: there is none.
    path
        Checks a path, and gives it as it is kept.
    at_once
        Of how many bytes reading takes less time than beginning it in another thread; where it
        is infinite, so does everything else.
    based
        How JSON says which ones it stands on; None: on none.
    """

    name: str
    open: Callable[[References, Mapping[str, Any], tuple[StoreLocation, ...], str], StoreLocation]
    members: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)
    optional: frozenset[str] = frozenset()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    url: Callable[[Mapping[str, Any], str], str] | None = None
    path: Callable[[str], str] = _same
    check: Callable[[dict[str, Any], str], tuple[dict[str, Any], str]] | None = None
    at_once: float = 0
    based: BaseMembers | None = None

    def parse(self, json: dict[str, Any], path: str) -> tuple[dict[str, Any], str]:
        """Return the checked members and the path.

        Raises
        ------
        ArgumentError
            If something is missing, too much, or wrong.
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


def missing_member(name: str, what: str) -> ArgumentError:
    """Return the error of a member that has to be there."""
    return ArgumentError(
        f'Error parsing object member "{name}": Expected {what}, but member is missing'
    )


def read_strings(value: Any) -> list[str]:
    """Read a list of strings."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise expected_error("array of strings", value)
    return [*value]


@lru_cache(maxsize=256)
def quote_path(path: str, plain: str = "") -> str:
    """Return a path as it stands in a URL; some more characters may stand for themselves."""
    from urllib.parse import quote

    return quote(path, safe=f"/!$&'()*+,;=:-._~{plain}", errors="surrogateescape")
