"""Blocks of changes with one update of consolidated metadata."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from tessarr.flow.batch import Batch, find_batch
from tessarr.flow.changes import finish_batch
from tessarr.flow.run import run_flow

if TYPE_CHECKING:
    from collections.abc import Generator

    from tessarr.store import Store

__all__ = ["batch_changes"]


@contextmanager
def batch_changes(store: Store, path: str) -> Generator[None]:
    """Defer updates of consolidated metadata after changes at and below a path.

    A block inside another one of the same thread ends with the outer one.

    Parameters
    ----------
    store, path
        The location of a group.
    """
    outer = find_batch(store, [path])
    if outer is not None and outer.is_of_this_thread():
        yield
        return
    batch = Batch(store, path)
    batch.open()
    try:
        yield
    finally:
        run_flow(finish_batch(batch), store)
