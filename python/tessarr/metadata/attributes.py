"""Conversion of a user's attributes to JSON.

JSON lacks NaN and infinities. Like other writers in Python, this module stores them in attributes
as the tokens ``NaN``, ``Infinity`` and ``-Infinity``. The option ``nan_attributes`` selects a
warning, an error, or neither.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

from tessarr.errors import NotJSONError
from tessarr.format import json
from tessarr.format.user_warnings import warn_user
from tessarr.format.validation import Problems, describe
from tessarr.options import current, options

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from tessarr.types import JSONObject

__all__ = ["allow_copied_tokens", "normalize_attributes", "read_user_attributes"]

_MAX_SHOWN: Final = 10
"""The number of attributes that the warning names."""


def normalize_attributes(attributes: Mapping[str, Any] | None) -> JSONObject:
    """Convert a user's attributes to JSON.

    Raises
    ------
    NotJSONError
        If values are not JSON; the message names all of them.

    Warns
    -----
    TessarrWarning
        For NaN and infinities, which readers outside Python may reject.

    Examples
    --------
    >>> normalize_attributes({"a": (1, 2)})
    {'a': [1, 2]}
    """
    problems = Problems()
    plain = read_user_attributes(attributes, problems)
    problems.check_arguments("store these attributes", NotJSONError)
    return plain


def read_user_attributes(
    attributes: Mapping[str, Any] | None,
    problems: Problems,
    stored: Mapping[str, Any] | None = None,
) -> JSONObject:
    """Convert a user's attributes to JSON, and add problems for values that are not JSON.

    Parameters
    ----------
    attributes
        The attributes.
    problems
        Collects the faults.
    stored
        The attributes before the change, as JSON. Unchanged attributes are not converted again.
        Attributes that contained NaN or infinities before cause no warning.
    """
    try:
        new = dict(attributes or {})
    except (TypeError, ValueError):
        problems.add("attributes", f"{describe(attributes)} is not a mapping of names to values")
        return {}
    old: Mapping[str, Any] = stored or {}
    changed = {name: value for name, value in new.items() if old.get(name, new) is not value}
    tokens: list[tuple[str, float]] = []

    def report_problem(loc: str, message: str) -> None:
        problems.add(f"attributes{loc}", message)

    def collect_token(loc: str, value: float) -> None:
        tokens.append((loc, value))

    before = len(problems)
    plain: Any = json.to_plain(changed, "", report_problem, note_non_finite=collect_token)
    if tokens:
        _check_tokens(tokens, old, problems, warn=len(problems) == before)
    return {name: plain.get(name, value) for name, value in new.items()}


def allow_copied_tokens(*, copied: bool = True) -> AbstractContextManager[object]:
    """Return a context without warnings about NaN and infinities, for attributes of other nodes.

    Parameters
    ----------
    copied
        Whether the attributes come from another node of Zarr; otherwise the context does nothing.
    """
    if copied and current().nan_attributes == "warn":
        return options(nan_attributes="allow")
    return nullcontext()


def _check_tokens(
    tokens: list[tuple[str, float]], old: Mapping[str, Any], problems: Problems, *, warn: bool
) -> None:
    """Apply the option ``nan_attributes`` to NaN and infinities."""
    policy = current().nan_attributes
    if policy == "refuse":
        for loc, value in tokens:
            message = f"JSON has no {value}, and the option nan_attributes is 'refuse'"
            problems.add(f"attributes{loc}", f"{message}: use None or a string")
    if policy != "warn" or not warn:
        return
    names = dict.fromkeys(
        loc.split("/")[1].replace("~1", "/").replace("~0", "~") for loc, _ in tokens
    )
    new = [name for name in names if not _holds_tokens(old.get(name))]
    if new:
        noun = "attribute" if len(new) == 1 else "attributes"
        more = f" and {len(new) - _MAX_SHOWN} more" if len(new) > _MAX_SHOWN else ""
        warn_user(
            f"NaN or infinity in {noun} {', '.join(map(describe, new[:_MAX_SHOWN]))}{more}: JSON "
            "has none, so that it is stored as the token NaN, Infinity or -Infinity, and readers "
            "outside Python may refuse the document. Store None or a string, or set the option "
            "nan_attributes to 'allow' or 'refuse'",
        )


def _holds_tokens(value: Any) -> bool:
    return bool(json.find_non_finite(value))
