"""Regions: unions of the target's chunks, within memory, with few repeated decodings."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessarr.transfer import Plan, cut_points, make_plan


def plan_for(shape, source, target, memory, workers=1, item_bytes=1) -> Plan:
    return make_plan(
        shape,
        [cut_points(chunk, size) for chunk, size in zip(source, shape, strict=True)],
        [cut_points(chunk, size) for chunk, size in zip(target, shape, strict=True)],
        item_bytes=item_bytes,
        memory_bytes=memory,
        workers=workers,
    )


def decodes_of(plan: Plan, source) -> float:
    """Count the accesses to chunks of the source, region by region."""
    touched = 0
    for region in plan:
        cells = [
            range(start // chunk, -(-stop // chunk))
            for (start, stop), chunk in zip(region, source, strict=True)
        ]
        touched += math.prod(map(len, cells))
    whole = math.prod(-(-size // chunk) for size, chunk in zip(plan.shape, source, strict=True))
    return touched / whole


axes = st.tuples(st.integers(1, 60), st.integers(1, 25), st.integers(1, 25))


@given(st.lists(axes, min_size=1, max_size=3), st.integers(1, 5000), st.integers(1, 4))
def test_plan_regions_cover_target_once_in_whole_chunks(layout, memory, workers):
    shape, source, target = zip(*layout, strict=True)
    plan = plan_for(shape, source, target, memory, workers)
    seen = np.zeros(shape, int)
    for region in plan:
        seen[tuple(slice(*bounds) for bounds in region)] += 1
        for (start, stop), chunk, size in zip(region, target, shape, strict=True):
            assert start % chunk == 0
            assert stop % chunk == 0 or stop == size
    assert (seen == 1).all()
    assert plan.count == len(list(plan))
    assert plan.decodes == pytest.approx(decodes_of(plan, source))


@given(st.lists(axes, min_size=1, max_size=3), st.integers(1, 5000), st.integers(1, 4))
def test_plan_concurrent_regions_fit_into_memory(layout, memory, workers):
    shape, source, target = zip(*layout, strict=True)
    plan = plan_for(shape, source, target, memory, workers)
    clipped = [list(map(min, chunk, shape)) for chunk in (source, target)]
    assert plan.concurrency * math.prod(plan.longest) <= max(memory, *map(math.prod, clipped))


def test_plan_decodes_nested_chunks_once():
    """Either array may have the larger chunks, also along different axes."""
    for source, target in [((10, 10), (40, 40)), ((40, 40), (10, 10)), ((40, 10), (10, 40))]:
        assert plan_for((400, 400), source, target, memory=6400).decodes == 1


def test_plan_regions_prefer_common_chunk_edges():
    assert plan_for((1200,), (30,), (40,), memory=130).longest == (120,)


def test_plan_rows_to_columns_uses_all_memory():
    plan = plan_for((1000, 1000), (1, 1000), (1000, 1), memory=300_000)
    assert plan.decodes <= 5
    assert plan.longest[0] == 1000


def test_plan_small_chunks_share_regions():
    plan = plan_for((1 << 20,), (16,), (16,), memory=1 << 28, item_bytes=64)
    assert plan.count <= 16


def test_plan_large_memory_has_concurrent_regions():
    plan = plan_for((1 << 20,), (1 << 14,), (1 << 13,), memory=1 << 28, workers=3, item_bytes=64)
    assert plan.concurrency == 3


def test_plan_of_millions_of_chunks_is_fast():
    plan = plan_for((4_000_000, 3), (1, 1), (1, 3), memory=1 << 20)
    assert 2 <= plan.count < 100


def test_plan_chunk_larger_than_memory_is_one_region():
    plan = plan_for((100,), (3,), (50,), memory=10)
    assert plan.longest == (50,)
    assert plan.concurrency == 1


def test_plan_empty_axis_has_no_regions():
    assert list(plan_for((0, 5), (2, 2), (3, 3), memory=100)) == []


def test_plan_single_element_is_one_region():
    assert list(plan_for((), (), (), memory=100)) == [()]
