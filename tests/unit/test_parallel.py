"""Parallel mapping with bounded memory and ordered results."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import tessarr
from tessarr.array.parallel import map_in_parallel


def test_map_in_parallel_is_bounded_and_ordered() -> None:
    """The function takes items only as fast as the caller takes results."""
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        for item in range(1000):
            taken = item
            yield item

    with tessarr.options(threads=3):
        for number, result in enumerate(map_in_parallel(lambda item: item * 2, items())):
            assert result == 2 * number
            assert taken - number <= 6


def test_map_in_parallel_uses_threads() -> None:
    """Two items wait for each other."""
    together = threading.Barrier(2, timeout=30)
    with tessarr.options(threads=2):
        assert len(list(map_in_parallel(lambda _: together.wait(), range(2)))) == 2


def test_map_in_parallel_error_stops() -> None:
    """The error appears in order, and no further item starts."""
    begun: list[int] = []

    def work(item: int) -> int:
        begun.append(item)
        if item == 3:
            raise ValueError("three")
        return item

    results: list[int] = []
    with tessarr.options(threads=1), pytest.raises(ValueError, match="three"):
        results.extend(map_in_parallel(work, range(1000)))
    assert len(begun) < 10
