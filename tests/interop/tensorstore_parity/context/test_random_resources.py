"""Random nested specs with resources: resource names match TensorStore's."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import tessarr.tensorstore as ours
from interop.tensorstore_parity.random_views import plain_outcome

theirs = pytest.importorskip("tensorstore", reason="what is told of resources is compared with it")

JSON = dict[str, Any]
COPYING, CACHE, MEMORY = "data_copy_concurrency", "cache_pool", "memory_key_value_store"


class Specs:
    """Generator of specs and their contexts."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)

    def value(self, kind: str) -> JSON:
        if kind == COPYING:
            return {"limit": self.draw.choice([1, 2, 3])}
        return {"total_bytes_limit": self.draw.choice([10, 20])} if kind == CACHE else {}

    def context(self) -> JSON:
        names = [kind + end for kind in (CACHE, COPYING, MEMORY) for end in ("", "#a", "#b")]
        chosen = [name for name in names if self.draw.random() < 0.4]
        return {name: self.value(name.partition("#")[0]) for name in chosen}

    def resources(self, *members: str) -> JSON:
        """Return some of the members, which refer to a resource or define it."""
        by_name: JSON = {}
        for member in members:
            kind = CACHE if "cache" in member else member
            choice = self.draw.randrange(6)
            if choice < 4:
                name = f"{kind}#{self.draw.choice('ab')}"
                by_name[member] = [self.value(kind), kind, name, name][choice]
        return by_name

    def spec(self, depth: int) -> JSON:
        result = self.view(depth) if depth and self.draw.random() < 0.7 else self.array()
        if self.draw.random() < 0.4:
            result["context"] = self.context()
        return result

    def view(self, depth: int) -> JSON:
        kind = self.draw.choice(["cast", "downsample", "stack", "stack"])
        if kind == "stack":
            layers = [self.spec(depth - 1) for _ in range(self.draw.randint(1, 3))]
            return {"driver": kind, "layers": layers, **self.resources(COPYING)}
        base = {"driver": kind, "base": self.spec(depth - 1)}
        if kind == "cast":
            return base | {"dtype": "float64"}
        return base | {"downsample_factors": [2], "downsample_method": "mean"}

    def array(self) -> JSON:
        driver = self.draw.choice(["zarr3", "zarr", "array"])
        if driver == "array":
            spec = {"driver": driver, "array": [1, 2], "dtype": "int32"}
            return spec | self.resources(COPYING)
        return {
            "driver": driver,
            "kvstore": {"driver": "memory", "path": "a/", **self.resources(MEMORY)},
            "schema": {"dtype": "int32", "domain": {"shape": [2]}},
            **self.resources(COPYING, CACHE, "metadata_cache_pool"),
        }


def _json(make: Callable[[], Any], *, include_defaults: bool) -> str:
    return json.dumps(make().to_json(include_defaults=include_defaults))


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_bound_specs(first: int) -> None:
    """Names have the same order; pickles also contain resources that equal the default."""
    for seed in range(first, first + 50):
        draw = Specs(seed)
        json, context = draw.spec(2), draw.context()

        def describe(ts: Any, json: JSON = json, context: JSON = context) -> list[Any]:
            def bound() -> Any:
                spec = ts.Spec(json)
                spec.update(context=ts.Context(context))
                return spec

            def pickled() -> Any:
                return pickle.loads(pickle.dumps(bound()))

            def unbound() -> Any:
                spec = bound()
                spec.update(unbind_context=True)
                return spec

            return [
                plain_outcome(partial(_json, variant, include_defaults=whole))
                for variant in (bound, pickled, unbound)
                for whole in (False, True)
            ]

        assert describe(ours) == describe(theirs), (seed, json, context)
