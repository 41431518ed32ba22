"""The copy of one node: raw chunks, or decoded and encoded elements."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from math import prod
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import numpy as np

from tessarr import transfer
from tessarr.array import bind_array
from tessarr.copying.report import Skipped
from tessarr.copying.source import StoredSource
from tessarr.copying.two_pass import plan_intermediate
from tessarr.errors import ArgumentError, DataError
from tessarr.flow import create, edit
from tessarr.flow.open import find_node
from tessarr.flow.run import run_flow
from tessarr.format.node_path import join
from tessarr.metadata.node import ArrayMeta
from tessarr.options import current
from tessarr.store import LocalStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tessarr.copying.distributed import DaskRunner
    from tessarr.copying.journal import Journal
    from tessarr.copying.plan import CopyStep
    from tessarr.copying.source import CopySource
    from tessarr.store import Store

__all__ = ["NodeCopier"]

_TWO_PASS_DECODES: Final = 2.0
"""Two passes cost at most as much as this number of decodes of each chunk."""

_MAX_CELLS: Final = 1 << 26


@dataclass(slots=True)
class NodeCopier:
    """Copies nodes and reports the progress.

    Parameters
    ----------
    origin
        The source of the copy.
    goal, path
        The target.
    memory_bytes
        The memory limit.
    scratch
        A folder for two-pass copies.
    progress
        Called with the copied bytes and `total`.
    runner
        Runs the copy on a cluster; by default it runs in threads of this process.
    """

    origin: CopySource
    goal: Store
    path: str
    memory_bytes: int
    scratch: str | None
    progress: Callable[[int, int], object] | None
    runner: DaskRunner | None = None
    total: int = 0
    done: int = 0

    def count_decodes(self, step: CopyStep) -> float:
        """Return the average number of reads of a source chunk."""
        if step.as_stored or not isinstance(step.new, ArrayMeta):
            return 1.0
        _, _, plan = self._plan_copy(step, step.new)
        often = self._needs_two_passes(plan, step.new)
        return 1.0 if often else plan.decodes

    def copy_node(self, step: CopyStep, journal: Journal) -> None:
        """Copy one node."""
        path = join(self.path, step.name)
        before = self.done
        if not self._is_complete(path, step):
            if self._copy_elements(step, path, journal):
                within = None if path == self.path else self.path
                run_flow(create.create_node(path, step.new, within=within), self.goal)
                journal.forget(step.name)  # its metadata shows that it is complete
            journal.save(now=True)
        self._report_progress(before + step.size_bytes - self.done)

    def _copy_elements(self, step: CopyStep, path: str, journal: Journal) -> bool:
        """Copy the elements of an array; return whether that succeeded.

        If an array of an HDF5 file cannot be read or stored, the copy skips and reports it: the
        file may have other arrays.
        """
        if step.as_stored:
            self._copy_raw_chunks(step, path, journal)
        elif isinstance(step.new, ArrayMeta):
            try:
                self._recode(step, step.new, journal)
            except (DataError, ArgumentError) as error:
                if not step.name or isinstance(self.origin, StoredSource):
                    raise
                self.origin.skipped.append(Skipped(step.name, error.message))
                run_flow(edit.delete_node(path), self.goal)
                journal.forget(step.name)
                return False
        return True

    def _is_complete(self, path: str, step: CopyStep) -> bool:
        """Return whether a node is complete, that is, has a document."""
        meta = run_flow(find_node(path, zarr_format=step.new.zarr_format), self.goal)
        return meta is not None

    def _copy_raw_chunks(self, step: CopyStep, target_path: str, journal: Journal) -> None:
        old, new = step.old, step.new
        assert isinstance(self.origin, StoredSource)
        assert isinstance(new, ArrayMeta)
        source = join(self.origin.path, step.name)
        pairs = transfer.map_chunk_keys(
            self.origin.chunk_keys_of(step.name, old), source, old, target_path, new
        )
        runs = journal.runs(step.name, len(pairs), "as stored")
        share = step.size_bytes // max(len(pairs), 1)

        def done(number: int) -> None:
            runs.add(number)
            journal.save()
            self._report_progress(share)

        missing = list(runs.missing(len(pairs)))
        self._report_progress(share * (len(pairs) - len(missing)))
        transfer.copy_values(
            self.origin.store,
            self.goal,
            pairs,
            memory_bytes=self.memory_bytes,
            numbers=missing,
            done=done,
            run=self.runner,
        )

    def _recode(self, step: CopyStep, new: ArrayMeta, journal: Journal) -> None:
        source, target, plan = self._plan_copy(step, new)
        if not self._needs_two_passes(plan, new):
            self._transfer(step, new, source, target, plan, journal)
            return
        with TemporaryDirectory(prefix="tessarr-", dir=self.scratch) as folder:
            intermediate_meta = plan_intermediate(
                target.shape, new.data_type, source.cuts(), target.cuts(), self.memory_bytes // 3
            )
            intermediate = bind_array(intermediate_meta, LocalStore(folder), "", read_only=False)
            intermediate_target = transfer.make_target(intermediate)
            transfer.execute_plan(
                source,
                intermediate_target,
                self._plan_regions(source, intermediate_target),
                run=self.runner,
            )
            source = transfer.make_source(intermediate)
            plan = self._plan_regions(source, target)
            self._transfer(step, new, source, target, plan, journal)

    def _plan_copy(
        self, step: CopyStep, new: ArrayMeta
    ) -> tuple[transfer.Source, transfer.Target, transfer.Plan]:
        path = join(self.path, step.name)
        array = self.origin.array(step.name, step.old)
        source = transfer.make_source(array, ranges=step.ranges)
        target = transfer.make_target(bind_array(new, self.goal, path, read_only=False))
        return source, target, self._plan_regions(source, target)

    def _plan_regions(self, source: transfer.Source, target: transfer.Target) -> transfer.Plan:
        concurrency = None if self.runner is None else self.runner.concurrency
        return transfer.plan_copy(source, target, self.memory_bytes, concurrency)

    def _needs_two_passes(self, plan: transfer.Plan, new: ArrayMeta) -> bool:
        fixed = new.data_type.elements is None
        return self.scratch is not None and fixed and plan.decodes > _TWO_PASS_DECODES

    def _transfer(  # noqa: PLR0917 (of what `_recode` has)
        self,
        step: CopyStep,
        new: ArrayMeta,
        source: transfer.Source,
        target: transfer.Target,
        plan: transfer.Plan,
        journal: Journal,
    ) -> None:
        plan_hash = hashlib.sha256(repr(plan.cuts).encode()).hexdigest()[:16]
        runs = journal.runs(step.name, plan.count, plan_hash)
        item_bytes = new.data_type.item_bytes

        def size_of(number: int) -> int:
            return prod(stop - start for start, stop in plan.region(number)) * item_bytes

        def done(number: int) -> None:
            runs.add(number)
            journal.save()
            self._report_progress(size_of(number))

        missing = list(runs.missing(plan.count))
        self._report_progress(step.size_bytes - sum(map(size_of, missing)))
        numbers = _select_stored_regions(self.origin, step, new, plan, missing)
        transfer.execute_plan(source, target, plan, numbers=numbers, done=done, run=self.runner)

    def _report_progress(self, more_bytes: int) -> None:
        self.done += more_bytes
        if self.progress is not None:
            self.progress(self.done, self.total)


def _select_stored_regions(
    origin: CopySource, step: CopyStep, new: ArrayMeta, plan: transfer.Plan, numbers: list[int]
) -> Iterable[int]:
    """Return the regions with a stored source chunk; the others hold the fill value."""
    old = step.old
    if (
        not isinstance(origin, StoredSource)
        or old.fill_value is None
        or old.storage_transformers
        or old.data_type.item_bytes != new.data_type.item_bytes
        or old.fill_value != new.fill_value
        or old.data_type.numpy != new.data_type.numpy
        or prod(old.grid_shape) > _MAX_CELLS
        or any(start or step_ != 1 for start, step_, _ in step.ranges)
        or current().write_empty_chunks
    ):
        return numbers
    stored = np.zeros(old.grid_shape, bool)
    path = join(origin.path, step.name)
    keys = origin.chunk_keys_of(step.name, old)
    cells = [cell for _, cell in transfer.find_chunk_keys(keys, path, old)]
    if cells:
        stored[tuple(np.array(cells).T)] = True

    def is_stored(number: int) -> bool:
        bounds = zip(plan.region(number), old.chunk_grid.cuts, strict=True)
        region = tuple(
            slice(cuts.cell(start), cuts.cell(stop - 1) + 1) for (start, stop), cuts in bounds
        )
        return bool(stored[region].any())

    return [number for number in numbers if is_stored(number)]
