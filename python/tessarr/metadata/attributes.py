"""A user's attributes as the plain JSON that a document holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tessarr import _json
from tessarr.errors import NotJSONError
from tessarr.problems import Problems

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tessarr.types import JSONObject, ZarrFormat

__all__ = ["attributes_of", "plain_attributes"]


def attributes_of(attributes: Mapping[str, Any] | None, zarr_format: ZarrFormat) -> JSONObject:
    """Return a user's attributes as plain JSON.

    NaN and infinities pass in format 2, whose readers know the tokens; one of them in
    a ``zarr.json`` would make the whole node unreadable to others, so they are refused there.

    Raises
    ------
    NotJSONError
        Where JSON cannot hold a value; the message names all of them.

    Examples
    --------
    >>> attributes_of({"a": (1, 2)}, 3)
    {'a': [1, 2]}
    """
    problems = Problems()
    plain = plain_attributes(attributes, zarr_format, problems)
    problems.check_arguments("store these attributes", NotJSONError)
    return plain


def plain_attributes(
    attributes: Mapping[str, Any] | None, zarr_format: ZarrFormat, problems: Problems
) -> JSONObject:
    """Return a user's attributes as plain JSON, and note what JSON cannot hold."""

    def complain(loc: str, message: str) -> None:
        problems.add(f"attributes{loc}", message)

    try:
        value = dict(attributes or {})
    except (TypeError, ValueError):
        problems.add("attributes", f"{attributes!r} is not a mapping of names to values")
        return {}
    plain: Any = _json.plain(value, "", complain, allow_nan=zarr_format == 2)
    return plain if isinstance(plain, dict) else {}
