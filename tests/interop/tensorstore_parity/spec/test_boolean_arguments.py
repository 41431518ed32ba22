"""Values that the packages accept as booleans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ours

theirs: Any = pytest.importorskip("tensorstore")


class Truth:
    def __bool__(self) -> bool:
        return True


class Falsehood:
    def __bool__(self) -> bool:
        raise ValueError("nobody knows")


VALUES: list[Any] = [
    *(True, False, None, 0, 1, 2.5, Truth(), Falsehood(), "", "no", b"x", [], [1], {}),
    *(np.True_, np.int8(0), np.array(True), np.array([True]), np.array([True, False])),
]


SPEC = {"driver": "zarr3", "kvstore": "memory://"}


def _opened(ts: Any, **keywords: Any) -> Any:
    return ts.open(SPEC, create=True, dtype=ts.int8, shape=[4], **keywords).result()


def _opened_for(name: str) -> Callable[[Any, Any], Any]:
    return lambda ts, value: _opened(ts, **{name: value}).mode


def _changed_spec(name: str) -> Callable[[Any, Any], Any]:
    def use(ts: Any, value: Any) -> Any:
        spec = ts.Spec(SPEC)
        spec.update(**{name: value})
        return spec.to_json()

    return use


def _resized(name: str) -> Callable[[Any, Any], Any]:
    return lambda ts, value: _opened(ts).resize(exclusive_max=[4], **{name: value}).result().shape


def _evaluate(name: str) -> Callable[[Any, Any], Any]:
    def use(ts: Any, value: Any) -> Any:
        result = _opened(ts).storage_statistics(**{name: value}).result()
        return result.not_stored, result.fully_stored

    return use


def _metrics(ts: Any, value: Any) -> Any:
    return ts.experimental_collect_matching_metrics("/none", include_zero_metrics=value)


USES: dict[str, Callable[[Any, Any], Any]] = {
    "atomic": lambda ts, value: ts.Transaction(atomic=value).atomic,
    "atomic, first": lambda ts, value: ts.Transaction(value).atomic,
    "repeatable_read": lambda ts, value: ts.Transaction(repeatable_read=value).atomic,
    "implicit_lower": lambda ts, value: ts.Dim(3, implicit_lower=value).implicit_lower,
    "include_defaults": lambda ts, value: (
        len(_opened(ts).spec().to_json(include_defaults=value)) > 9
    ),
    "retain_context": lambda ts, value: _opened(ts).kvstore.spec(retain_context=value).path,
    "unbind_context": lambda ts, value: _opened(ts).spec(unbind_context=value).rank,
    "minimal_spec": lambda ts, value: "metadata" in _opened(ts).spec(minimal_spec=value).to_json(),
    "finalize": lambda ts, value: ts.ChunkLayout(rank=1, finalize=value).rank,
    "fix_resizable_bounds": lambda ts, value: _opened(ts).resolve(value).result().domain.to_json(),
    "metrics": _metrics,
    **{
        name: _changed_spec(name)
        for name in ("open", "create", "delete_existing", "assume_metadata", "strip_context")
    },
    **{
        name: _resized(name)
        for name in ("resize_metadata_only", "resize_tied_bounds", "expand_only", "shrink_only")
    },
    **{name: _evaluate(name) for name in ("query_not_stored", "query_fully_stored")},
    **{name: _opened_for(name) for name in ("read", "write")},
}


@pytest.mark.parametrize("name", USES)
def test_object_with_bool_is_accepted_as_boolean(name: str) -> None:
    def describe(ts: Any, value: Any) -> Any:
        try:
            return USES[name](ts, value)
        except (TypeError, ValueError) as error:
            return TypeError if isinstance(error, TypeError) else ValueError

    for value in VALUES:
        assert describe(ours, value) == describe(theirs, value), value
