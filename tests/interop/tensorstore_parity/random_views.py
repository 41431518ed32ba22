"""Random indexing and comparison of its results, for tests of views over handles."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import tessarr.tensorstore as ts
from tessarr.errors import NotJSONError, ReadOnlyError

__all__ = ["Keys", "apply_views", "outcome", "plain_outcome", "same", "some_view"]


def outcome(action: Any) -> Any:
    try:
        return action()
    except ReadOnlyError:  # which is a NotImplementedError, too, as web servers raise it
        return ValueError
    except NotJSONError:  # which is a ValueError, too
        return TypeError
    except Exception as error:
        classes = (IndexError, NotImplementedError, OverflowError, ValueError, TypeError)
        return next(c for c in classes if isinstance(error, c))


def plain_outcome(action: Any) -> Any:
    """Return a comparable form: lists, text, or the class of the error."""
    result = outcome(action)
    if isinstance(result, type):
        return result
    return result.tolist() if hasattr(result, "tolist") else repr(result)


def same(first: Any, other: Any) -> bool:
    if isinstance(first, np.ndarray) and isinstance(other, np.ndarray):
        if first.dtype != other.dtype or first.shape != other.shape:
            return False
        if first.dtype.kind == "O":
            return repr(first.tolist()) == repr(other.tolist())
        plain = first.dtype.isbuiltin == 1
        plain_first, b = (a if plain else a.astype("f4") for a in (first, other))
        return np.array_equal(plain_first, b, equal_nan=plain_first.dtype.kind in "fc")
    return bool(first == other)


class Keys:
    """Generator of indexing expressions as text."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)

    def act(self, domain: Any) -> str:
        dims = list(domain)
        if not dims:
            return "[None]"
        choice = self.draw.randrange(8)
        if choice < 3:
            return "[" + ", ".join(self._term(dim) for dim in dims) + "]"
        if choice == 3:
            return f".oindex[{', '.join(self._term(dim, arrays=0.6) for dim in dims)}]"
        if choice == 4:
            count = self.draw.randint(1, 5)
            return f".vindex[{', '.join(self._list(dim, count) for dim in dims)}]"
        if choice == 5:
            return f".transpose({self.draw.sample(range(len(dims)), len(dims))})"
        if choice == 6:
            return f".translate_by[{', '.join(str(self.draw.randint(-4, 4)) for _ in dims)}]"
        if len(dims) > 1:
            return "[ts.d[0, 1].diagonal]"
        return f"[ts.d[0].stride[{self.draw.choice([2, 3, -1, -2])}]]"

    def _list(self, dim: Any, count: int) -> str:
        if dim.size == 0:
            return "[]"
        result = [self.draw.randrange(dim.inclusive_min, dim.exclusive_max) for _ in range(count)]
        return str(result)

    def _term(self, dim: Any, arrays: float = 0.1) -> str:
        if dim.size == 0 or self.draw.random() < 0.2:
            return ":"
        if self.draw.random() < arrays:
            return self._list(dim, self.draw.randint(1, 4))
        if self.draw.random() < 0.15:
            return str(self.draw.randrange(dim.inclusive_min, dim.exclusive_max))
        ends = sorted(
            self.draw.randrange(dim.inclusive_min, dim.exclusive_max + 1) for _ in range(2)
        )
        if ends[0] == ends[1]:
            return ":"
        step = self.draw.choice([1, 1, 1, 2, 3])
        return f"{ends[0]}:{ends[1]}:{step}"


def apply_views(store: Any, package: Any, acts: list[str]) -> Any:
    for act in acts:
        store = eval(f"store{act}", {"store": store, "ts": package})
    return store


def some_view(keys: Keys, store: Any) -> list[str]:
    acts: list[str] = []
    for _ in range(keys.draw.randint(1, 3)):
        act = keys.act(apply_views(store, ts, acts).domain)
        try:
            view = apply_views(store, ts, [*acts, act])
        except (IndexError, ValueError):
            continue
        if view.size == 0 or view.rank > 5:  # TensorStore crashes at empty ones with index arrays
            break
        acts.append(act)
    return acts
