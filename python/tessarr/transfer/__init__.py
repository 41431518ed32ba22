"""Move elements from one array to another, region by region, in bounded memory.

`plan` chooses the regions, `ends` are what is read from and written to, `run` does the work,
`moves` copies chunks that stay the bytes that they are, and `assignment` is what
``a[key] = other`` does with an array that is not in memory.
"""

from tessarr.transfer.assignment import assign, is_lazy
from tessarr.transfer.endpoints import Source, Target, source_of, target_of
from tessarr.transfer.execute import most_at_once, plan_of, run, work_off
from tessarr.transfer.plan import Plan, cut_points, make_plan
from tessarr.transfer.raw_copy import chunk_keys, has_same_chunks, move, renamed

__all__ = [
    "Plan",
    "Source",
    "Target",
    "assign",
    "chunk_keys",
    "cut_points",
    "has_same_chunks",
    "is_lazy",
    "make_plan",
    "most_at_once",
    "move",
    "plan_of",
    "renamed",
    "run",
    "source_of",
    "target_of",
    "work_off",
]
