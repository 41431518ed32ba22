"""Converters of option values: text, numbers, durations, headers.

A converter raises a ValueError whose text continues the sentence "the option x …".
"""

from __future__ import annotations

import re
from base64 import b64encode
from math import isfinite
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Final

from tessarr._safe_repr import safe_repr

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "one_of",
    "to_auth_header",
    "to_bool",
    "to_callable",
    "to_cookie_header",
    "to_count",
    "to_headers",
    "to_path",
    "to_seconds",
    "to_statuses",
    "to_text",
    "to_tls_settings",
    "to_url",
]


def to_text(value: Any) -> str:
    """Return a text; the value may be secret, so that the message does not contain it."""
    if isinstance(value, str):
        return value
    raise ValueError(f"must be a str, not {type(value).__name__}")


def one_of(*choices: str) -> Callable[[Any], str]:
    """Return a converter that accepts some texts alone."""

    def to_choice(value: Any) -> str:
        if value not in choices:
            allowed = ", ".join(map(repr, choices))
            raise ValueError(f"must be one of {allowed}, not {safe_repr(value)}")
        return str(value)

    return to_choice


_BOOLS: Final = {
    **dict.fromkeys(("1", "true", "on", "yes", "y"), True),
    **dict.fromkeys(("0", "false", "off", "no", "n"), False),
}


def to_bool(value: Any) -> bool:
    """Return a truth value, also from texts such as ``"true"``."""
    if isinstance(value, bool):
        return value
    result = _BOOLS.get(str(value).strip().lower())
    if result is None:
        raise ValueError(f"must be True or False, not {safe_repr(value)}")
    return result


def to_count(value: Any) -> int:
    """Return a number from 0, also from decimal digits; True and False are no numbers."""
    if isinstance(value, str) and value.strip().isdecimal():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise ValueError(f"must be an int from 0, not {safe_repr(value)}")


_DURATION: Final = re.compile(
    r"\s*(?P<number>[0-9]+(?:\.[0-9]*)?)\s*(?P<unit>ms|s|sec|second|m|min|minute|h|hour)?s?\s*"
)
_UNITS_S: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}


def to_seconds(value: Any) -> float:
    """Return a duration in seconds.

    The value is a number, a text such as ``"30s"``, a pair of the connect and the read timeout,
    or an ``aiohttp.ClientTimeout``.

    Examples
    --------
    >>> to_seconds(5), to_seconds("500ms"), to_seconds("2 minutes"), to_seconds((3, 60))
    (5.0, 0.5, 120.0, 60.0)
    """
    if isinstance(value, tuple | list) and len(value) == 2:
        value = value[1]
    for name in ("sock_read", "total"):
        value = getattr(value, name, None) or value
    if isinstance(value, str) and (match := _DURATION.fullmatch(value)):
        unit = match["unit"] or "s"
        value = float(match["number"]) * _UNITS_S["ms" if unit == "ms" else unit[0]]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"must be a number of seconds, not {safe_repr(value)}")
    if not (isfinite(value) and value > 0):
        raise ValueError(f"must be a positive number of seconds, not {safe_repr(value)}")
    return float(value)


def to_path(value: Any) -> str:
    """Return the path of a file."""
    if isinstance(value, str | PathLike):
        return str(fspath(value))
    raise ValueError(f"must be the path of a file, not {type(value).__name__}")


def to_url(value: Any) -> str:
    """Return the URL of a server, without a slash at its end."""
    text = to_text(value)
    if not re.match(r"https?://[^/]", text, re.IGNORECASE):
        raise ValueError(f"must be a URL with the scheme http or https, not {safe_repr(text)}")
    return text.rstrip("/")


def to_callable(value: Any) -> Any:
    """Return a function without parameters that returns credentials."""
    if not callable(value):
        raise ValueError(f"must be a callable that returns credentials, not {type(value).__name__}")
    return value


def to_statuses(value: Any) -> tuple[int, ...]:
    """Return the status codes that mean an absent key: 404, and perhaps 403."""
    try:
        statuses = tuple(sorted({404, *map(int, value)}))
    except (TypeError, ValueError):
        statuses = ()
    if not statuses or not {403, 404}.issuperset(statuses):
        raise ValueError(f"must be (404,) or (403, 404), not {safe_repr(value)}")
    return statuses


def to_tls_settings(value: Any) -> dict[str, Any]:
    """Return the settings that ``verify`` means: a truth value, or the path of certificates."""
    if isinstance(value, str | PathLike) and str(value).lower() not in _BOOLS:
        return {"ca_bundle": to_path(value)}
    if not isinstance(value, bool | str):
        raise ValueError(
            f"must be True, False or the path of certificates, not {type(value).__name__}: pass "
            "certificates of your own as the option ca_bundle"
        )
    return {"verify": to_bool(value)}


_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def to_headers(value: Any) -> dict[str, str]:
    """Return headers of requests from a mapping or from pairs; names are in lower case."""
    try:
        pairs = [
            (name, text) for name, text in (value.items() if hasattr(value, "items") else value)
        ]
    except (TypeError, ValueError):
        raise ValueError("must be a mapping of header names to texts") from None
    headers: dict[str, str] = {}
    for name, text in pairs:
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            raise ValueError(f"has a header with the invalid name {safe_repr(name)}")
        if not isinstance(text, str) or any(sign in text for sign in "\r\n\0"):
            raise ValueError(f"has a header {name!r} whose value is no text of one line")
        headers[name.lower()] = text
    return headers


def to_auth_header(value: Any) -> str:
    """Return the header for a name and a password: a pair or an ``aiohttp.BasicAuth``."""
    name, password = _to_texts(value, "must be a pair of a name and a password")
    return f"Basic {b64encode(f'{name}:{password}'.encode()).decode()}"


def _to_texts(value: Any, requirement: str) -> tuple[str, str]:
    pair = tuple(value[:2]) if isinstance(value, tuple | list) else ()
    if len(pair) != 2 or not all(isinstance(text, str) for text in pair):
        raise ValueError(requirement)
    return pair[0], pair[1]


def to_cookie_header(value: Any) -> str:
    """Return the header for cookies: a mapping of names to texts."""
    if not hasattr(value, "items") or not all(isinstance(text, str) for text in value.values()):
        raise ValueError("must be a mapping of names to texts")
    return "; ".join(f"{name}={text}" for name, text in value.items())
