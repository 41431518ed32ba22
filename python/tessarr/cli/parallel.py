"""Work on many things at a time, with a bounded number of them under way."""

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


def map_in_parallel(work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Yield what `work` gives for each item, in their order; a few are under way at a time.

    Examples
    --------
    >>> list(map_in_parallel(abs, [-1, 2, -3]))
    [1, 2, 3]
    """
    threads = current().threads or os.cpu_count() or 1
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
        # What has not begun does not begin when the consumer has seen enough, or Ctrl-C came.
        pool.shutdown(wait=False, cancel_futures=True)
