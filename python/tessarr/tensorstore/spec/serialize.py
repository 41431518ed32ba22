"""The forms of a spec: as JSON, and as what is pickled.

Resources have names in JSON, which all parts of a spec share: see `Naming`. What does not depend
on dimensions is told once for all specs of a driver's, and kept there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from tessarr.index_space import IndexTransform
from tessarr.tensorstore.context.references import Naming

if TYPE_CHECKING:
    from collections.abc import Callable

    from tessarr.tensorstore.context.context import Context
    from tessarr.tensorstore.spec.driver_spec import DriverSpec
    from tessarr.types import JSONObject

Spec: TypeAlias = Any
"""What is told, which is made of what is here."""

__all__ = ["context_json", "everything", "naming_of", "pickled", "told"]


def naming_of(driver: DriverSpec, *, bound: bool = False, brief: bool = False) -> Naming:
    """Return the names of the resources that a spec uses."""
    naming = Naming(bound=bound, brief=brief)
    driver.see(naming)
    return naming


def told(spec: Spec, *, bound: bool = False) -> JSONObject:
    """Return the JSON without defaults, parts of which are not to be modified, in any order."""

    def tell() -> tuple[JSONObject, None]:
        return _parts(spec, naming_of(spec._driver, bound=bound)), None

    return {**_kept(spec, "bound" if bound else "", tell)[0], **_dimensions(spec)}


def pickled(spec: Spec) -> tuple[JSONObject, Context | None]:
    """Return the JSON as above, and the context that it is to be bound with, if it is."""

    def tell() -> tuple[JSONObject, Context | None]:
        naming = naming_of(spec._driver, brief=True)
        found, beside = _parts(spec, naming), naming.beside()
        if beside is not None:
            found.pop("context", None)
        return found, beside

    found, beside = _kept(spec, "pickled", tell)
    return {**found, **_dimensions(spec)}, beside


def everything(spec: Spec, naming: Naming, *, include_defaults: bool = False) -> JSONObject:
    """Return the JSON by the names of resources; not to be modified, in any order."""
    return {**_parts(spec, naming, include_defaults=include_defaults), **_dimensions(spec)}


def context_json(context: Any, *, include_defaults: bool = False) -> JSONObject:
    """Return the JSON of the context of a spec, or of none."""
    found: JSONObject = {} if context is None else context.to_json(include_defaults)
    return found


def _kept(
    spec: Spec, form: str, tell: Callable[[], tuple[JSONObject, Context | None]]
) -> tuple[JSONObject, Context | None]:
    """Return what was told in a form before, or tell it."""
    kept = spec._driver.told if spec._context is None else None
    found = None if kept is None else kept.get(form)
    if found is None:
        found = tell()
        if kept is not None:
            kept[form] = found
    return found


def _parts(spec: Spec, naming: Naming, *, include_defaults: bool = False) -> JSONObject:
    """Return all of the JSON but what is said of dimensions."""
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
    """Return the members of the JSON that tell dimensions."""
    if spec._view is not None:
        return {"transform": spec._view.to_json()}
    known = spec._driver.outline()
    if known.domain is not None:
        return {"transform": IndexTransform._whole(known.domain).to_json()}
    return {} if known.rank is None else {"rank": known.rank}
