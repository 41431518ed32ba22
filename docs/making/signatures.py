"""Extension of griffe: signatures of the reference with the names of unpacked keywords.

A function with ``**settings: Unpack[Settings]`` shows the members of ``Settings`` and of its bases.
Their defaults are in the mapping ``KEYWORD_DEFAULTS`` of the module of ``Settings``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import griffe


class KeywordSignatures(griffe.Extension):
    """Replace unpacked keywords in signatures by their names, types and defaults."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Replace the parameter ``**settings`` of a function."""
        keywords = [one for one in func.parameters if one.kind is griffe.ParameterKind.var_keyword]
        annotation = keywords[0].annotation if keywords else None
        is_unpacked = isinstance(annotation, griffe.ExprSubscript)
        if not is_unpacked or annotation.canonical_path != "typing.Unpack":
            return
        types: Any = func.modules_collection[annotation.slice.canonical_path]
        defaults = _read_defaults(types.module)
        del func.parameters[keywords[0].name]
        for name, kind in dict(_list_members(types)).items():
            default = defaults.get(name)
            func.parameters.add(
                griffe.Parameter(
                    name,
                    annotation=kind,
                    kind=griffe.ParameterKind.keyword_only,
                    default="..." if default is ... else repr(default),
                )
            )


def _list_members(types: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names and types of a `TypedDict`, those of its bases first."""
    for base in types.resolved_bases:
        yield from _list_members(base)
    for name, attribute in types.attributes.items():
        kind = attribute.annotation
        is_marked = getattr(kind, "canonical_path", "") == "typing.NotRequired"
        yield name, kind.slice if is_marked else kind


def _read_defaults(module: Any) -> dict[str, Any]:
    value = module.members.get("KEYWORD_DEFAULTS")
    return {} if value is None else ast.literal_eval(str(value.value))
