"""Copies on the workers of a Dask cluster: each region of a copy is one task."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from tessarr.errors import ArgumentError, UnsupportedError
from tessarr.store import MemoryStore, Store
from tessarr.store.adapt import get_user_store

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

__all__ = ["DaskRunner", "check_shared", "connect"]

_TASKS_PER_THREAD: Final = 2
"""The tasks that a thread of a worker has at once: one runs, the next one waits."""


@contextmanager
def connect(address: str | None) -> Generator[Any]:
    """Yield a client of the Dask cluster whose scheduler has an address; None without one."""
    if address is None:
        yield None
        return
    try:
        from distributed import Client
        from distributed.comm.addressing import resolve_address
    except ImportError as error:
        raise UnsupportedError(
            f"a copy on a Dask cluster needs the package distributed: {error}; install "
            "tessarr[dask]",
            kind="missing_package",
            extension="distributed",
        ) from error
    try:
        resolve_address(address)  # a client without a valid address would delay the exit
        client = Client(address, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ArgumentError(f"there is no Dask scheduler at {address!r}: {error}") from error
    try:
        yield client
    finally:
        client.close()


def check_shared(*stores: Store) -> None:
    """Raise an error if the workers of a cluster cannot share a store with this process."""
    for store in stores:
        user_store = get_user_store(store)
        protocols = getattr(getattr(store, "fs", None), "protocol", ())
        if (
            isinstance(store, MemoryStore)
            or (isinstance(user_store, Mapping) and not isinstance(user_store, Store))
            or type(user_store).__name__ == "MemoryStore"  # of zarr-python, of obstore
            or "memory" in ((protocols,) if isinstance(protocols, str) else protocols)
        ):
            raise ArgumentError(
                f"{store!r} is in the memory of this process, which the workers of a cluster do "
                "not share: copy between folders or object stores"
            )


@dataclass(frozen=True, slots=True)
class DaskRunner:
    """Runs the tasks of a copy on the workers of a cluster, as `tessarr.transfer.run_tasks` does.

    The scheduler repeats the tasks of a worker that dies; storing a region again is harmless.

    Parameters
    ----------
    client
        A ``distributed.Client``.
    """

    client: Any

    @property
    def concurrency(self) -> int:
        """The largest number of concurrent tasks of one worker, which share its memory."""
        return max(self._list_threads(), default=1)

    def _list_threads(self) -> list[int]:
        workers: dict[str, Any] = self.client.scheduler_info(n_workers=-1)["workers"]
        return [worker["nthreads"] for worker in workers.values()]

    def __call__(
        self,
        numbers: Iterable[int],
        worker: Callable[[], Callable[[int], object]],
        concurrency: int,
        done: Callable[[int], None] | None,
    ) -> None:
        """Run numbered tasks; the parameters are those of `tessarr.transfer.run_tasks`."""
        from distributed import as_completed

        del concurrency  # that of the workers applies
        waiting = iter(numbers)
        limit = max(sum(self._list_threads()), 1) * _TASKS_PER_THREAD
        payload = self.client.scatter(worker, broadcast=True, hash=False)
        pending = as_completed(loop=self.client.loop)
        running: dict[str, int] = {}
        """The numbers of the tasks by key."""

        def submit(number: int) -> None:
            future = self.client.submit(_run_task, payload, number, pure=False)
            running[future.key] = number
            pending.add(future)

        try:
            for number in islice(waiting, limit):
                submit(number)
            while running:
                future = next(pending)
                if future.status in {"error", "cancelled"}:
                    future.result()  # raises the error of the task
                # The region is stored, even if its worker has died since.
                number = running.pop(future.key)
                if done is not None:
                    done(number)
                for following in islice(waiting, 1):
                    submit(following)
        finally:
            self.client.cancel([*pending.futures], force=True)


def _run_task(worker: Callable[[], Callable[[int], object]], number: int) -> None:
    worker()(number)
