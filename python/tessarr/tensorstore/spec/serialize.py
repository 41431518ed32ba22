"""Specs as JSON and as the state of a pickle.

All parts of a spec share the names of resources: see `Naming`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from tessarr.index_space import IndexTransform
from tessarr.tensorstore.context.references import Naming

if TYPE_CHECKING:
    from tessarr.tensorstore.context.context import Context
    from tessarr.types import JSONObject

Spec: TypeAlias = Any
"""A spec; this module does not import the class, because `spec` imports this module."""

__all__ = ["context_json", "pickled_json", "spec_to_json", "to_minimal_json"]


def to_minimal_json(spec: Spec, *, bound: bool = False) -> JSONObject:
    """Return unsorted JSON without defaults; the caller must not modify it."""
    return spec_to_json(spec, Naming(spec._driver.references(), bound=bound))


def pickled_json(spec: Spec) -> tuple[JSONObject, Context | None]:
    """Return the JSON for a pickle, and the context for binding if the spec is bound."""
    naming = Naming(spec._driver.references(), brief=True)
    json, context = spec_to_json(spec, naming), naming.shared_context()
    if context is not None:
        json.pop("context", None)
    return json, context


def spec_to_json(spec: Spec, naming: Naming, *, include_defaults: bool = False) -> JSONObject:
    """Return unsorted JSON with names of resources; the caller must not modify it."""
    return {**_parts(spec, naming, include_defaults=include_defaults), **_dimensions(spec)}


def context_json(context: Any, *, include_defaults: bool = False) -> JSONObject:
    """Return the JSON of a context spec; an empty object for None."""
    json: JSONObject = {} if context is None else context.to_json(include_defaults)
    return json


def _parts(spec: Spec, naming: Naming, *, include_defaults: bool = False) -> JSONObject:
    """Return the JSON without the members for dimensions."""
    result: JSONObject = {"driver": spec._driver.name}
    result.update(spec._driver.members(naming, include_defaults=include_defaults))
    context = {
        **context_json(spec._context, include_defaults=include_defaults),
        **naming.context(include_defaults=include_defaults),
    }
    if context or include_defaults:
        result["context"] = context
    schema = spec._driver.schema.to_json(include_defaults)
    known = spec._driver.outline()
    for name in ("rank", "dtype"):
        schema.pop(name, None)
    if include_defaults:
        all_known = known.to_json()
        if spec._view is not None:
            all_known["rank"] = spec._view.output_rank
        own = ("rank", "dtype") if spec._driver.ranked else ("dtype",)
        schema.update({name: all_known[name] for name in own if name in all_known})
    if known.dtype is not None:
        result["dtype"] = known.dtype.to_json()
    if schema or include_defaults:
        result["schema"] = schema
    return result


def _dimensions(spec: Spec) -> JSONObject:
    """Return the JSON members for dimensions."""
    if spec._view is not None:
        return {"transform": spec._view.to_json()}
    known = spec._driver.outline()
    if known.domain is not None:
        return {"transform": IndexTransform._whole(known.domain).to_json()}
    return {} if known.rank is None else {"rank": known.rank}
