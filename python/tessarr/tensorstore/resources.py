"""The kinds of resources that a context has: what their JSON may say, and its defaults."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tessarr.errors import ArgumentError, NotJSONError

__all__ = [
    "KINDS",
    "Kind",
    "expected",
    "integer",
    "kind_of",
    "members",
    "one_of",
    "refusal",
    "seconds",
    "within",
]


def expected(what: str, received: Any) -> ArgumentError:
    """Return the error of JSON that is something else, or of what is no JSON at all."""
    from json import dumps

    try:
        text = dumps(received, default=repr)
    except (TypeError, ValueError, RecursionError):
        text = repr(type(received).__name__)
    shown = text if len(text) <= 200 else f"{text[:200]}…"
    return refusal(received)(f"Expected {what}, but received: {shown}")


def within(member: str, error: ArgumentError) -> ArgumentError:
    """Return an error that tells in which member it is."""
    return type(error)(f'Error parsing object member "{member}": {error}')


def refusal(value: Any) -> type[ArgumentError]:
    """Return what is raised for a value: `NotJSONError`, which is a TypeError, if it is no JSON."""
    plain = value is None or isinstance(value, (bool, int, float, str, list, tuple, dict))
    return ArgumentError if plain else NotJSONError


def members(value: Any, known: Mapping[str, Callable[[Any], Any]]) -> dict[str, Any]:
    """Return the members of a JSON object, each as its function reads it.

    Raises
    ------
    ArgumentError
        If it is no object, or has other members.
    """
    if not isinstance(value, dict):
        raise expected("object", value)
    extra = [str(name) for name in value if name not in known]
    if extra:
        listed = ", ".join(f'"{name}"' for name in sorted(extra))
        raise ArgumentError(f"Object includes extra members: {listed}")
    found: dict[str, Any] = {}
    for name, read in known.items():
        if name in value:
            try:
                found[name] = read(value[name])
            except ArgumentError as error:
                raise within(name, error) from None
    return found


def integer(low: int, what: str) -> Callable[[Any], int]:
    """Return what reads an integer of 64 bits that is at least `low`."""

    def read(value: Any) -> int:
        whole = type(value) is int or (type(value) is float and value.is_integer())
        if not whole or not low <= value < 2**64:
            raise expected(what, value)
        return int(value)

    return read


_UNSIGNED = integer(0, "64-bit unsigned integer")
_POSITIVE = integer(1, "integer in the range [1, 18446744073709551615]")


def _limit(value: Any) -> Any:
    return value if value == "shared" and isinstance(value, str) else _POSITIVE(value)


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise expected("boolean", value)
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise expected("string", value)
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        raise expected("64-bit floating-point number", value)
    return float(value)


def one_of(*names: str) -> Callable[[Any], str]:
    """Return what reads one of several strings."""

    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in names:
            raise expected("one of " + ", ".join(f'"{name}"' for name in names), value)
        return value

    return read


_UNITS: Final = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_PIECE: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|ms|s|m|h)")


def _duration(value: Any) -> str:
    """Read a length of time as ``1h30m`` or ``1.5s``, and give its shortest text."""
    text = _text(value)
    body = text.lstrip("+-")
    sign = "-" if text.startswith("-") else ""
    if body in {"inf", "0"}:
        return sign + body if body == "inf" else "0"
    pieces = list(_PIECE.finditer(body))
    if not pieces or "".join(piece[0] for piece in pieces) != body or len(body) > _LONG:
        raise expected("duration as in 1m30s", value)
    from decimal import Decimal

    total = int(sum(Decimal(piece[1]) * _UNITS[piece[2]] for piece in pieces))
    return (sign if total else "") + _shortest(total)


def seconds(duration: str) -> float:
    """Return how many seconds a length of time has that `Kind.canonical` gave.

    Examples
    --------
    >>> seconds("1m30s"), seconds("0"), seconds("inf")
    (90.0, 0.0, inf)
    """
    sign = -1 if duration.startswith("-") else 1
    if duration.endswith("inf"):
        return sign * math.inf
    return (
        sign * sum(float(piece[1]) * _UNITS[piece[2]] for piece in _PIECE.finditer(duration)) / 1e9
    )


_LONG: Final = 60


def _shortest(total: int) -> str:
    if total == 0:
        return "0"
    if total < _UNITS["s"]:
        unit = next(unit for unit in ("ms", "us", "ns") if total >= _UNITS[unit])
        return f"{_decimal(total, _UNITS[unit])}{unit}"
    hours, rest = divmod(total, _UNITS["h"])
    minutes, rest = divmod(rest, _UNITS["m"])
    text = (f"{hours}h" if hours else "") + (f"{minutes}m" if minutes else "")
    return text + (f"{_decimal(rest, _UNITS['s'])}s" if rest else "")


def _decimal(count: int, unit: int) -> str:
    whole, rest = divmod(count, unit)
    digits = str(rest).zfill(int(math.log10(unit))).rstrip("0")
    return f"{whole}.{digits}" if rest else str(whole)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of resource.

    Parameters
    ----------
    name : str
        Of the resource that is meant where none is named.
    read : callable
        From JSON to JSON, checked.
    defaults : JSON
        All members with their defaults, or the one value.
    hidden : mapping
        Members that are left out where they have this value.
    plain : bool
        It is what its JSON says, and nothing that could be shared.
    """

    name: str
    read: Callable[[Any], Any]
    defaults: Any
    hidden: Mapping[str, Any]
    plain: bool = False

    def canonical(self, value: Any) -> Any:
        """Return the JSON of a resource without defaults; None stands for the default.

        Raises
        ------
        ArgumentError
            If it says something else than resources of this kind can.
        """
        found = self.defaults if value is None else self.read(value)
        if not isinstance(found, dict):
            return found
        return {
            name: item
            for name, item in sorted(found.items())
            if name not in self.hidden or self.hidden[name] != item
        }

    def full(self, value: Any) -> Any:
        """Return the JSON of a resource with all defaults."""
        return (
            dict(sorted({**self.defaults, **value}.items())) if isinstance(value, dict) else value
        )


_RETRIES = {"max_retries": _UNSIGNED, "initial_delay": _duration, "max_delay": _duration}
_RATES = {"read_rate": _number, "write_rate": _number, "doubling_time": _duration}


def _object(known: Mapping[str, Callable[[Any], Any]]) -> Callable[[Any], Any]:
    return lambda value: members(value, known)


def _credentials(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise expected("object", value)
    if "type" not in value:
        raise ArgumentError(
            'Error parsing object member "type": Expected string, but member is missing'
        )
    form = one_of(*_CREDENTIALS)
    return members(value, {"type": form, **dict.fromkeys(_CREDENTIALS[form(value["type"])], _text)})


_CREDENTIALS: Final[Mapping[str, tuple[str, ...]]] = {
    "default": ("profile", "filename", "metadata_endpoint"),
    "anonymous": (),
    "environment": (),
    "imds": (),
    "ecs": ("endpoint", "auth_token_file"),
    "profile": ("profile", "credentials_file", "config_file"),
}
_LOCKING = {"mode": one_of("os", "lockfile", "none", "non_atomic"), "acquire_timeout": _duration}
_LOCKING_DEFAULTS = {"mode": "os", "acquire_timeout": "1m"}
_MODE = {"mode": one_of("default", "memmap", "direct")}


def _with_defaults(
    name: str, known: Mapping[str, Callable[[Any], Any]], *, plain: bool = False, **defaults: Any
) -> Kind:
    return Kind(name, _object(known), defaults, defaults, plain)


def _concurrency(name: str) -> Kind:
    return _with_defaults(name, {"limit": _limit}, limit="shared")


def _retries(name: str, most: int) -> Kind:
    return _with_defaults(
        name, _RETRIES, plain=True, max_retries=most, initial_delay="1s", max_delay="32s"
    )


def _kinds() -> tuple[Kind, ...]:
    return (
        _with_defaults("cache_pool", {"total_bytes_limit": _UNSIGNED}, total_bytes_limit=0),
        _concurrency("data_copy_concurrency"),
        _concurrency("file_io_concurrency"),
        Kind(
            "file_io_locking",
            _object(_LOCKING),
            {},
            {"mode": "os", "acquire_timeout": "1m"},
            plain=True,
        ),
        Kind("file_io_mode", _object(_MODE), {}, {"mode": "default"}, plain=True),
        _retries("file_io_retries", 0),
        Kind("file_io_sync", _boolean, True, {}, plain=True),
        _with_defaults("memory_key_value_store", {}),
        _concurrency("gcs_request_concurrency"),
        _retries("gcs_request_retries", 32),
        _with_defaults("gcs_user_project", {"project_id": _text}, plain=True),
        _with_defaults("experimental_gcs_rate_limiter", _RATES),
        _concurrency("s3_request_concurrency"),
        _retries("s3_request_retries", 32),
        _with_defaults("experimental_s3_rate_limiter", _RATES),
        Kind("aws_credentials", _credentials, {"type": "default"}, {}),
        _concurrency("http_request_concurrency"),
        _retries("http_request_retries", 32),
        _with_defaults("ocdbt_coordinator", {"address": _text, "lease_duration": _duration}),
    )


KINDS: Final[Mapping[str, Kind]] = {kind.name: kind for kind in _kinds()}
"""Every kind, by its name."""


def kind_of(key: str) -> Kind:
    """Return the kind of ``kind`` or ``kind#id``.

    Raises
    ------
    ArgumentError
        If there is none of that name.
    """
    kind = KINDS.get(key.partition("#")[0])
    if kind is None:
        raise ArgumentError(f'Invalid context resource identifier: "{key}"')
    return kind
