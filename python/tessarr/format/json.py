"""Strict, exact and bounded JSON for metadata documents.

This module rejects duplicate member names, more than `MAX_DEPTH` levels, numbers beyond float64
and bytes that are not UTF-8. Integers keep all digits; ``1`` stays an integer and ``1.0`` a
float. Lone surrogates survive, because the output is ASCII. The tokens NaN, Infinity and
-Infinity and a byte order mark are defects, which readers accept and report. In attributes these
tokens are not defects, because writers in Python emit them.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr._engine import JsonText, decode_json, encode_json
from tessarr.errors import MetadataError, Problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from tessarr.types import JSON

__all__ = ["MAX_DEPTH", "JsonText", "dump", "find_non_finite", "load", "to_plain"]

MAX_DEPTH: Final = 200
"""The most levels of lists and objects in a document."""

_BOM: Final = b"\xef\xbb\xbf"


def load(
    document: bytes,
    *,
    what: str,
    path: str | None = None,
    key: str | None = None,
    tokens: bool = False,
    tokens_in: str | None = None,
) -> tuple[Any, list[str]]:
    """Parse a document.

    Parameters
    ----------
    document : bytes
        The document.
    what : str
        The document's name in messages: ``"metadata 'foo/zarr.json'"``.
    path, key : str, optional
        Fields of the error.
    tokens : bool
        Whether NaN, Infinity and -Infinity are no defects.
    tokens_in : str, optional
        The name of members in which these tokens are no defects.

    Returns
    -------
    value : JSON
        Dictionaries, lists, strings, integers, floats, booleans and None.
    defects : list of str
        Deviations from JSON that the parser accepted.

    Raises
    ------
    MetadataError
        ``invalid_json``, if the document is not JSON.

    Examples
    --------
    >>> load(b'{"a": [1, 1.0]}', what="metadata")
    ({'a': [1, 1.0]}, [])
    """
    try:
        value, defects, has_tokens = _load(bytes(document))
    except json.JSONDecodeError as error:
        reason = f"{error.msg[0].lower()}{error.msg[1:]}, line {error.lineno} column {error.colno}"
    except UnicodeDecodeError as error:
        reason = f"byte {error.start} is not UTF-8"
    except RecursionError:
        reason = f"more than {MAX_DEPTH} levels of lists and objects"
    except ValueError as error:
        reason = str(error)
    else:
        if has_tokens and not tokens:
            defects += [
                f"the token {token} is not JSON" for token in find_non_finite(value, tokens_in)
            ]
        return value, defects
    problem = Problem("", f"not JSON: {reason}", "invalid_json")
    raise MetadataError(f"invalid {what}: {problem}", problems=[problem], path=path, key=key)


def _load(document: bytes) -> tuple[Any, list[str], bool]:
    defects: list[str] = []
    if document.startswith(_BOM):
        document = document[len(_BOM) :]
        defects.append("it starts with a byte order mark")
    decoded = decode_json(document, MAX_DEPTH)
    if decoded is None:
        json.loads(document.decode("utf-8"))  # raises an error with the position of the fault
        raise ValueError("it is malformed")
    return decoded[0], defects, decoded[1]


def find_non_finite(value: JSON, skipped: str | None = None) -> list[str]:
    """Return the tokens for NaN and infinities that a JSON value contains, each once.

    Parameters
    ----------
    value : JSON
        The value.
    skipped : str, optional
        The name of members that are not searched.

    Examples
    --------
    >>> find_non_finite({"a": [float("nan"), 1.0, float("nan")], "b": float("-inf")})
    ['NaN', '-Infinity']
    """
    tokens: dict[str, None] = {}
    remaining = [value]
    while remaining:
        item = remaining.pop()
        if isinstance(item, dict):
            remaining += reversed([inner for name, inner in item.items() if name != skipped])
        elif isinstance(item, list):
            remaining += reversed(item)
        elif isinstance(item, float) and not math.isfinite(item):
            tokens[json.dumps(item)] = None
    return list(tokens)


def dump(value: JSON, *, indent: int, sort_keys: bool = False) -> bytes:
    r"""Return a JSON value as ASCII text.

    Parameters
    ----------
    value : JSON
        The value; NaN and infinities become the tokens that readers in Python accept.
    indent : int
        Spaces per level.
    sort_keys : bool
        Whether the members of objects are sorted.

    Examples
    --------
    >>> dump({"b": 1, "a": [1.0]}, indent=2, sort_keys=True)
    b'{\n  "a": [\n    1.0\n  ],\n  "b": 1\n}'
    """
    return encode_json(value, indent, sort_keys, _encode_other)


_encode_other: Final = json.JSONEncoder().encode
"""Encodes values that the engine does not encode itself."""


def to_plain(
    value: object,
    loc: str,
    report_problem: Callable[[str, str], None],
    *,
    note_non_finite: Callable[[str, float], None],
    depth: int = 0,
) -> JSON:
    """Convert a user's value to JSON: tuples and arrays to lists, NumPy scalars to numbers.

    Parameters
    ----------
    value : object
        The value.
    loc : str
        Its JSON pointer.
    report_problem : callable
        Called with a location and a message for each value that JSON lacks.
    note_non_finite : callable
        Called with the location and the value of each NaN and infinity.

    Examples
    --------
    >>> to_plain({"a": (1, np.float32(0.5))}, "", print, note_non_finite=print)
    {'a': [1, 0.5]}
    >>> to_plain({"a": 1j}, "/attributes", print, note_non_finite=print)
    /attributes/a a value of type complex cannot be stored as JSON
    {'a': None}
    """
    if depth >= MAX_DEPTH - 2:
        report_problem(loc, f"more than {MAX_DEPTH - 2} levels of lists and objects")
        return None
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        if value.bit_length() > 13000:
            report_problem(loc, f"an integer of {value.bit_length()} bits is too large")
            return None
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            note_non_finite(loc, value)
        return float(value)
    if isinstance(value, list | tuple):
        return [
            to_plain(
                item, f"{loc}/{i}", report_problem, note_non_finite=note_non_finite, depth=depth + 1
            )
            for i, item in enumerate(value)
        ]
    if isinstance(value, dict):
        members: dict[str, JSON] = {}
        for name, item in value.items():
            if not isinstance(name, str):
                report_problem(loc, f"the name {name!r} of a member is not a string")
                continue
            item_loc = f"{loc}/{name.replace('~', '~0').replace('/', '~1')}"
            members[name] = to_plain(
                item, item_loc, report_problem, note_non_finite=note_non_finite, depth=depth + 1
            )
        return members
    report_problem(loc, f"a value of type {type(value).__name__} cannot be stored as JSON")
    return None
