"""An ordered parallel map with a bounded number of pending items."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from tessarr.options import current

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["map_in_parallel"]

T = TypeVar("T")
R = TypeVar("R")


def map_in_parallel(
    work: Callable[[T], R], items: Iterable[T], *, max_threads: int | None = None
) -> Iterator[R]:
    """Yield the result of `work` for each item, in order; threads run a few concurrently.

    Parameters
    ----------
    work
        The function.
    items
        Its arguments.
    max_threads
        The maximum number of threads; by default, and at most, that of the options.

    Examples
    --------
    >>> list(map_in_parallel(abs, [-1, 2, -3]))
    [1, 2, 3]
    """
    threads = current().threads or os.cpu_count() or 1
    if max_threads is not None:
        threads = max(min(threads, max_threads), 1)
    pool = ThreadPoolExecutor(threads)
    pending: deque[Future[R]] = deque()
    try:
        for item in items:
            pending.append(pool.submit(work, item))
            if len(pending) >= 2 * threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        # Cancel pending items if the consumer stops early, or after Ctrl-C.
        pool.shutdown(wait=False, cancel_futures=True)
