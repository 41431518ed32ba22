"""Concurrent execution of a copy: threads read some regions while others are encoded."""

from __future__ import annotations

import queue
import threading
from contextvars import copy_context
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from tessarr import _engine
from tessarr.format.user_warnings import remember_caller
from tessarr.options import current
from tessarr.transfer.plan import make_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tessarr.transfer.endpoints import Source, Target
    from tessarr.transfer.plan import Plan

__all__ = ["TaskRunner", "execute_plan", "max_concurrency", "plan_copy", "run_tasks"]

Worker: TypeAlias = "Callable[[], Callable[[int], object]]"
"""A function that returns the function with which one thread runs tasks."""

TaskRunner: TypeAlias = "Callable[[Iterable[int], Worker, int, Callable[[int], None] | None], None]"
"""A function with the parameters of `run_tasks`."""

_OBJECT_BYTES: Final = 64
"""The assumed size of a Python object, in bytes."""


def max_concurrency() -> int:
    """Return the useful number of concurrent tasks: one more than the number of threads."""
    return _engine.threads() + 1


def plan_copy(
    source: Source,
    target: Target,
    memory_bytes: int | None = None,
    concurrency: int | None = None,
) -> Plan:
    """Return the regions of a copy.

    Parameters
    ----------
    source, target
        Source and target of the same shape.
    memory_bytes
        The memory limit of all concurrent regions; by default that of the options.
    concurrency
        The number of concurrent regions; by default `max_concurrency`.
    """
    items = {source.dtype: 0, target.dtype: 0}
    item_bytes = sum(_OBJECT_BYTES if item.hasobject else item.itemsize for item in items)
    return make_plan(
        target.shape,
        source.cuts(),
        target.cuts(),
        item_bytes=max(item_bytes, 1),
        memory_bytes=current().copy_bytes if memory_bytes is None else memory_bytes,
        workers=max_concurrency() if concurrency is None else concurrency,
    )


def execute_plan(
    source: Source,
    target: Target,
    plan: Plan,
    *,
    numbers: Iterable[int] | None = None,
    done: Callable[[int], None] | None = None,
    run: TaskRunner | None = None,
) -> None:
    """Copy the regions of a plan.

    Parameters
    ----------
    source, target
        Source and target of the same shape. They must not share elements, unless the copy assigns
        each element to itself.
    plan
        The regions.
    numbers
        The numbers of the regions to copy; by default all.
    done
        Called with the number of each stored region, in the calling thread.
    run
        The function that runs the tasks; by default `run_tasks`, in threads of this process.

    Notes
    -----
    The first error ends the copy: it completes the regions in progress, and then raises the error.
    The same applies to errors of `done`, and to Ctrl-C.
    """
    worker = _RegionCopier(source, target, plan)
    numbers = range(plan.count) if numbers is None else numbers
    (run or run_tasks)(numbers, worker, plan.concurrency, done)


@dataclass(frozen=True, slots=True)
class _RegionCopier:
    """Returns the function with which one thread copies regions."""

    source: Source
    target: Target
    plan: Plan

    def __call__(self) -> Callable[[int], None]:
        source, target, plan = self.source, self.target, self.plan
        size = prod(plan.longest) * source.dtype.itemsize
        reused = source.is_stored and not source.dtype.hasobject
        buffer = np.empty(size, np.uint8) if reused else None

        def copy(number: int) -> None:
            region = plan.region(number)
            target.write(region, source.read(region, buffer))

        return copy


def run_tasks(
    numbers: Iterable[int],
    worker: Callable[[], Callable[[int], object]],
    concurrency: int,
    done: Callable[[int], None] | None = None,
) -> None:
    """Run numbered tasks concurrently.

    Parameters
    ----------
    numbers
        The numbers of the tasks, in order.
    worker
        Called once in each thread; returns the function that runs a task.
    concurrency
        The number of threads; with 1, the calling thread runs all tasks.
    done
        Called with the number of each completed task, in the calling thread.
    """
    if concurrency > 1:
        _Workers(iter(numbers), worker).run(concurrency, done)
        return
    work = worker()
    for number in numbers:
        work(number)
        if done is not None:
            done(number)


class _Workers:
    """Threads that run tasks until all tasks are done, or one fails."""

    def __init__(
        self, numbers: Iterator[int], worker: Callable[[], Callable[[int], object]]
    ) -> None:
        self._numbers = numbers
        self._worker = worker
        self._mutex = threading.Lock()
        self._stop = False
        self._results: queue.SimpleQueue[int | BaseException | None] = queue.SimpleQueue()
        """The number of a completed task, an error, or None when a thread ends."""

    def run(self, concurrency: int, done: Callable[[int], None] | None) -> None:
        threads: list[threading.Thread] = []
        try:
            for number in range(concurrency):
                context = copy_context()  # includes the options of this thread
                context.run(remember_caller)
                thread = threading.Thread(
                    target=context.run, args=(self._run_worker,), name=f"tessarr-copy-{number}"
                )
                thread.start()
                threads.append(thread)
            self._collect_results(len(threads), done)
        finally:
            self._stop = True
            for thread in threads:
                thread.join()

    def _collect_results(self, running: int, done: Callable[[int], None] | None) -> None:
        while running:
            result = self._results.get()
            if result is None:
                running -= 1
            elif isinstance(result, BaseException):
                raise result
            elif done is not None:
                done(result)

    def _run_worker(self) -> None:
        try:
            work = self._worker()
            while (number := self._next_number()) is not None:
                work(number)
                self._results.put(number)
        except BaseException as error:  # noqa: BLE001 (raised again in the calling thread)
            self._stop = True
            self._results.put(error)
        finally:
            self._results.put(None)

    def _next_number(self) -> int | None:
        with self._mutex:
            return None if self._stop else next(self._numbers, None)
