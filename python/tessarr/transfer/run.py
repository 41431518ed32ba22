"""Copy: several regions under way at a time, so that one is read while others are encoded."""

from __future__ import annotations

import queue
import threading
from contextvars import copy_context
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr import _engine
from tessarr.options import current
from tessarr.transfer.plan import make_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy.typing as npt

    from tessarr.transfer.ends import Source, Target
    from tessarr.transfer.plan import Plan

__all__ = ["plan_of", "run"]

_OF_ANY_LENGTH: Final = 64
"""What an element that NumPy keeps elsewhere is taken to need, in bytes."""


def plan_of(source: Source, target: Target, memory_bytes: int | None = None) -> Plan:
    """Return the regions in which to copy.

    Parameters
    ----------
    source, target
        From what to what, of one shape.
    memory_bytes
        How much all regions under way may hold; by default as the options say.
    """
    items = {source.dtype: 0, target.dtype: 0}
    item_bytes = sum(_OF_ANY_LENGTH if item.hasobject else item.itemsize for item in items)
    return make_plan(
        target.shape,
        source.cuts(),
        target.cuts(),
        item_bytes=max(item_bytes, 1),
        memory_bytes=current().copy_bytes if memory_bytes is None else memory_bytes,
        workers=_engine.threads() + 1,
    )


def run(
    source: Source,
    target: Target,
    plan: Plan,
    *,
    numbers: Iterable[int] | None = None,
    done: Callable[[int], None] | None = None,
) -> None:
    """Copy the regions of a plan.

    Parameters
    ----------
    source, target
        From what to what, of one shape. They must not share elements, unless each is copied
        to itself.
    plan
        The regions.
    numbers
        Which of them; by default all.
    done
        Told the number of each region that is stored, in the calling thread.

    Notes
    -----
    The first error ends it: what is under way is finished, and it is raised here. So is
    what `done` raises, and Ctrl-C.
    """
    work = iter(range(plan.count) if numbers is None else numbers)
    size = prod(plan.longest) * source.dtype.itemsize
    reused = source.is_stored and not source.dtype.hasobject
    if plan.at_once == 1:
        buffer = np.empty(size, np.uint8) if reused else None
        for number in work:
            region = plan.region(number)
            target.write(region, source.read(region, buffer))
            if done is not None:
                done(number)
        return
    _Workers(source, target, plan, work, size if reused else None).run(done)


class _Workers:
    """Threads that take the next region as long as there is one, and nothing failed."""

    def __init__(
        self, source: Source, target: Target, plan: Plan, work: Any, buffer_bytes: int | None
    ) -> None:
        self._source = source
        self._target = target
        self._plan = plan
        self._work = work
        self._buffer_bytes = buffer_bytes
        self._taking = threading.Lock()
        self._stop = False
        self._told: queue.SimpleQueue[int | BaseException | None] = queue.SimpleQueue()
        """The number of a region that is stored, an error, or None when a thread ends."""

    def run(self, done: Callable[[int], None] | None) -> None:
        threads = [
            threading.Thread(
                target=copy_context().run, args=(self._thread,), name=f"tessarr-copy-{i}"
            )
            for i in range(self._plan.at_once)
        ]
        begun: list[threading.Thread] = []
        try:
            for thread in threads:
                thread.start()
                begun.append(thread)
            self._listen(len(begun), done)
        finally:
            self._stop = True
            for thread in begun:
                thread.join()

    def _listen(self, running: int, done: Callable[[int], None] | None) -> None:
        while running:
            told = self._told.get()
            if told is None:
                running -= 1
            elif isinstance(told, BaseException):
                raise told
            elif done is not None:
                done(told)

    def _thread(self) -> None:
        buffer: npt.NDArray[np.uint8] | None = None
        try:
            while (number := self._next()) is not None:
                if buffer is None and self._buffer_bytes is not None:
                    buffer = np.empty(self._buffer_bytes, np.uint8)
                region = self._plan.region(number)
                self._target.write(region, self._source.read(region, buffer))
                self._told.put(number)
        except BaseException as error:  # noqa: BLE001 (raised again where the copy was asked for)
            self._stop = True
            self._told.put(error)
        finally:
            self._told.put(None)

    def _next(self) -> int | None:
        with self._taking:
            return None if self._stop else next(self._work, None)
