"""Signatures with the keywords of a `TypedDict`, for ``help``.

Type checkers know these names from ``**keywords: Unpack[...]``; `inspect` needs a signature.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any, TypeVar

__all__ = ["with_signature"]

_F = TypeVar("_F", bound=Callable[..., Any])


def with_signature(keywords: type[Any]) -> Callable[[_F], _F]:
    """Return a decorator that replaces ``**keywords`` in a signature by the names of keywords.

    The decorator returns the same function, so that calls take no longer.

    Parameters
    ----------
    keywords
        A `TypedDict` with the names and types of the keywords.

    Examples
    --------
    >>> from inspect import signature
    >>> from typing import TypedDict
    >>> Size = TypedDict("Size", {"height": int, "width": "int | None"}, total=False)
    >>> @with_signature(Size)
    ... def draw(what, **size): ...
    >>> signature(draw)
    <Signature (what, *, height: int = None, width: 'int | None' = None)>
    """
    named = [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=None,
            annotation=getattr(kind, "__forward_arg__", kind),
        )
        for name, kind in keywords.__annotations__.items()
    ]

    def add_signature(function: _F) -> _F:
        own = signature(function)
        others = [one for one in own.parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
        target: Any = function
        target.__signature__ = own.replace(parameters=[*others, *named])
        return function

    return add_signature
