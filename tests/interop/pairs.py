"""Pairwise tables: every pair of values of two factors occurs in a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from random import Random
from typing import Any


def pairwise(
    factors: Mapping[str, Sequence[Any]], valid: Callable[[dict[str, Any]], bool]
) -> list[dict[str, Any]]:
    """Return rows that contain every valid pair of values of two factors.

    The algorithm is greedy: each new row is the best of a few random rows that contain a missing
    pair. The same factors always produce the same rows.
    """
    dice = Random(1)
    names = list(factors)

    def fill(fixed: dict[str, Any]) -> dict[str, Any] | None:
        for _ in range(200):
            row = {name: fixed.get(name, dice.choice(factors[name])) for name in names}
            if valid(row):
                return row
        return None

    def pairs(row: dict[str, Any]) -> set[tuple[str, str, str, str]]:
        return {(a, repr(row[a]), b, repr(row[b])) for a, b in combinations(names, 2)}

    missing = [
        {a: first, b: second}
        for a, b in combinations(names, 2)
        for first in factors[a]
        for second in factors[b]
    ]
    rows: list[dict[str, Any]] = []
    covered: set[tuple[str, str, str, str]] = set()
    for fixed in missing:
        (a, first), (b, second) = fixed.items()
        if (a, repr(first), b, repr(second)) in covered:
            continue
        first_try = fill(fixed)
        if first_try is None:  # no valid row has this pair: more attempts do not help
            continue
        candidates = [first_try, *filter(None, (fill(fixed) for _ in range(11)))]
        best = max(candidates, key=lambda row: len(pairs(row) - covered))
        rows.append(best)
        covered |= pairs(best)
    return rows
