"""JSON as metadata needs it: strict, exact and bounded.

What the standard library leaves open is settled here: a member name that
occurs twice, more than `MAX_DEPTH` levels, numbers beyond float64 and bytes
that are not UTF-8 are refused; integers keep all their digits; ``1`` stays an
integer and ``1.0`` a float; lone surrogates survive, because output is ASCII.
The tokens NaN, Infinity and -Infinity, which old writers emitted, and a byte
order mark are read and reported as defects; in attributes of format 2 the tokens are
what every writer emits, and no defect.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr._engine import json_text
from tessarr.errors import MetadataError, Problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from tessarr.types import JSON

__all__ = ["MAX_DEPTH", "dump", "load", "plain"]

MAX_DEPTH: Final = 200
"""The most levels of lists and objects in a document."""

_STRING_OR_BRACKET: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)
_BOM: Final = b"\xef\xbb\xbf"


def load(
    document: bytes,
    *,
    what: str,
    path: str | None = None,
    key: str | None = None,
    tokens: bool = False,
) -> tuple[Any, list[str]]:
    """Parse a document.

    Parameters
    ----------
    document : bytes
        The document.
    what : str
        What it is, for messages: ``"metadata 'foo/zarr.json'"``.
    path, key : str, optional
        Fields of the error.
    tokens : bool
        Whether NaN, Infinity and -Infinity are no defects.

    Returns
    -------
    value : JSON
        Dictionaries, lists, strings, integers, floats, booleans and None.
    defects : list of str
        What is not JSON but was read all the same.

    Raises
    ------
    MetadataError
        ``invalid_json``, where the document is not JSON.

    Examples
    --------
    >>> load(b'{"a": [1, 1.0]}', what="metadata")
    ({'a': [1, 1.0]}, [])
    """
    try:
        return _load(bytes(document), tokens)
    except json.JSONDecodeError as error:
        reason = f"{error.msg[0].lower()}{error.msg[1:]}, line {error.lineno} column {error.colno}"
    except UnicodeDecodeError as error:
        reason = f"byte {error.start} is not UTF-8"
    except RecursionError:
        reason = f"more than {MAX_DEPTH} levels of lists and objects"
    except ValueError as error:
        reason = str(error)
    problem = Problem("", f"not JSON: {reason}", "invalid_json")
    raise MetadataError(f"invalid {what}: {problem}", problems=[problem], path=path, key=key)


def _load(document: bytes, tokens: bool) -> tuple[Any, list[str]]:
    defects: list[str] = []
    if document.startswith(_BOM):
        document = document[len(_BOM) :]
        defects.append("it starts with a byte order mark")
    if document.count(b"[") + document.count(b"{") > MAX_DEPTH:
        _check_depth(document)

    text = document.decode("utf-8")
    try:
        return _STRICT.decode(text), defects
    except _NotJSONError:
        return _decode_with_tokens(text, [] if tokens else defects), defects


def _decode_with_tokens(text: str, defects: list[str]) -> Any:
    def constant(token: str) -> float:
        defect = f"the token {token} is not JSON"
        if defect not in defects:
            defects.append(defect)
        return float(token)

    return json.loads(text, object_pairs_hook=_object, parse_constant=constant, parse_float=_float)


def _check_depth(document: bytes) -> None:
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(document):
        token = match.group()
        if token in (b"[", b"{"):
            depth += 1
            if depth > MAX_DEPTH:
                raise ValueError(f"more than {MAX_DEPTH} levels of lists and objects")
        elif token in (b"]", b"}"):
            depth -= 1


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"the member {name[:60]!a} occurs twice")
            seen.add(name)
    return members


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {text[:40]} is too large for a float of 64 bits")
    return value


class _NotJSONError(Exception):
    """There is a token that is not JSON but that old writers emitted."""


def _refuse_token(token: str) -> float:
    raise _NotJSONError(token)


# Made once: making a decoder costs as much as decoding a small document.
_STRICT: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_refuse_token, parse_float=_float
)


def dump(value: JSON, *, indent: int, sort_keys: bool = False) -> bytes:
    r"""Return a JSON value as ASCII text.

    Parameters
    ----------
    value : JSON
        The value; NaN and infinities become the tokens that old readers know.
    indent : int
        Spaces per level.
    sort_keys : bool
        Whether the members of objects are sorted.

    Examples
    --------
    >>> dump({"b": 1, "a": [1.0]}, indent=2, sort_keys=True)
    b'{\n  "a": [\n    1.0\n  ],\n  "b": 1\n}'
    """
    return json_text(value, indent, sort_keys, _other)


_other: Final = json.JSONEncoder().encode
"""Makes the JSON of what is no string, number, list, object and so on."""


def plain(
    value: object,
    loc: str,
    complain: Callable[[str, str], None],
    *,
    allow_nan: bool,
    depth: int = 0,
) -> JSON:
    """Return a user's value as plain JSON: tuples and arrays as lists, NumPy scalars as numbers.

    Parameters
    ----------
    value : object
        The value.
    loc : str
        Its JSON pointer.
    complain : callable
        Called with a location and a message for everything that JSON cannot hold.
    allow_nan : bool
        Whether NaN and infinities pass.

    Examples
    --------
    >>> plain({"a": (1, np.float32(0.5))}, "", print, allow_nan=False)
    {'a': [1, 0.5]}
    >>> plain({"a": 1j}, "/attributes", print, allow_nan=False)
    /attributes/a a value of type complex cannot be stored as JSON
    {'a': None}
    """
    if depth >= MAX_DEPTH - 2:
        complain(loc, f"more than {MAX_DEPTH - 2} levels of lists and objects")
        return None
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        if value.bit_length() > 13000:
            complain(loc, f"an integer of {value.bit_length()} bits is too large")
            return None
        return int(value)
    if isinstance(value, float):
        if not allow_nan and not math.isfinite(value):
            complain(loc, f"JSON has no {value}: use None or a string")
        return float(value)
    if isinstance(value, list | tuple):
        return [
            plain(item, f"{loc}/{i}", complain, allow_nan=allow_nan, depth=depth + 1)
            for i, item in enumerate(value)
        ]
    if isinstance(value, dict):
        members: dict[str, JSON] = {}
        for name, item in value.items():
            if not isinstance(name, str):
                complain(loc, f"the name {name!r} of a member is not a string")
                continue
            at = f"{loc}/{name.replace('~', '~0').replace('/', '~1')}"
            members[name] = plain(item, at, complain, allow_nan=allow_nan, depth=depth + 1)
        return members
    complain(loc, f"a value of type {type(value).__name__} cannot be stored as JSON")
    return None
