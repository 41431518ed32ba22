"""Copies of elements from one array to another, region by region, in bounded memory.

`plan` chooses the regions, `endpoints` reads and writes them, `execute` copies them concurrently,
`raw_copy` copies stored chunks without decoding, and `assignment` implements ``a[key] = other``
for arrays that are not in memory.
"""

from tessarr.transfer.assignment import assign_array, is_lazy
from tessarr.transfer.endpoints import Source, Target, make_source, make_target
from tessarr.transfer.execute import execute_plan, max_concurrency, plan_copy, run_tasks
from tessarr.transfer.plan import Plan, cut_points, make_plan
from tessarr.transfer.raw_copy import copy_values, find_chunk_keys, has_same_chunks, map_chunk_keys

__all__ = [
    "Plan",
    "Source",
    "Target",
    "assign_array",
    "copy_values",
    "cut_points",
    "execute_plan",
    "find_chunk_keys",
    "has_same_chunks",
    "is_lazy",
    "make_plan",
    "make_source",
    "make_target",
    "map_chunk_keys",
    "max_concurrency",
    "plan_copy",
    "run_tasks",
]
