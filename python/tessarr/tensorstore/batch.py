"""Batches: reads that begin together, and share what they read of stores."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from threading import Lock
from typing import TYPE_CHECKING, Any, Self, TypeVar

from tessarr.store import MemoryStore
from tessarr.store.kept import SharedStore
from tessarr.tensorstore.futures.future import PENDING, Future, failed
from tessarr.tensorstore.futures.start import start
from tessarr.tensorstore.together import Together, submitted

if TYPE_CHECKING:
    from tessarr.store import Store

__all__ = ["Batch", "Documents"]

T = TypeVar("T")


class Documents:
    """What those share who wait to open something: a document that several need is read once."""

    __slots__ = ("_begun", "_stores")

    def __init__(self) -> None:
        self._begun = False
        self._stores: dict[Hashable, Store] = {}

    def store(self, key: Hashable, store: Store) -> Store:
        """Return the store that those share who have an equal key."""
        self._begun = True
        return self._stores.setdefault(key, SharedStore(store))


class Batch:
    """Collects reads, which begin when it is submitted.

    They share what they read: a chunk that several touch is fetched and decoded once, a shard is
    opened once for all of them, its index read once, and what is close together in it is fetched
    together, as is what is read of a key. Who opens the same array shares its metadata.

    Notes
    -----
    A read whose result somebody waits for before begins at once. Nothing is kept from beginning
    by forgetting to submit: where nobody refers to the batch any more, it is submitted.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> store = ts.KvStore.open("memory://").result()
    >>> store["a"] = b"1"
    >>> with ts.Batch() as batch:
    ...     future = store.read("a", batch=batch)
    >>> future.result().value
    b'1'
    """

    __slots__ = (
        "__weakref__",
        "_documents",
        "_lock",
        "_made_s",
        "_stores",
        "_submitted",
        "_together",
        "_waiting",
    )

    def __init__(self) -> None:
        self._lock = Lock()
        self._made_s = time.time()
        self._waiting: list[Callable[[], object]] = []
        self._submitted = False
        self._documents = Documents()
        self._stores: dict[int, tuple[Store, SharedStore]] = {}
        self._together = Together(waits=True)

    def submit(self) -> None:
        """Begin all reads; no more can be added.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> batch = ts.Batch()
        >>> future = ts.array([1, 2]).read(batch=batch)
        >>> batch.submit()
        >>> future.result()
        array([1, 2])
        """
        with self._lock:
            self._submitted = True
        self._begin(last=True)

    def _begin(self, *, last: bool = False) -> None:
        """Begin all that was collected; nothing is added any more if it is the last time."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for begin in waiting:
            begin()
        self._together.begin(last=last)

    def _check(self) -> None:
        """Raise an error if it was submitted."""
        if self._submitted:
            raise submitted()

    def _later(self, begin: Callable[[], Future[Any]], *, opens: bool = False) -> Future[Any]:
        """Return the future of what `begin` gives, which is called when the batch is submitted.

        That it was submitted is an error, but for what opens: that begins at once then.
        """
        future: Future[Any] = Future._pending()
        first = [begin]

        def once(_: object = None) -> None:
            if not first or future._state != PENDING:  # cancelled
                return
            try:
                work = first.pop()
            except IndexError:  # another thread was faster
                return
            try:
                source = work()
            except BaseException as error:  # noqa: BLE001 (told to whom it may concern)
                source = failed(error)
            future._end_like(source)

        with self._lock:
            if not (opens and self._submitted):
                self._check()
                self._waiting.append(once)
                future._begin = once
                return future
        return begin()

    def _opens(self) -> Documents:
        """Return what is shared with others who open something before the first of them begins."""
        if self._documents._begun:
            self._documents = Documents()
        return self._documents

    def _start(self, work: Callable[..., T], *arguments: Any, here: bool = False) -> Future[T]:
        """Do the same as `start` when the batch is submitted."""
        return self._later(lambda: start(work, *arguments, here=here))

    def _open(self, work: Callable[..., T], *arguments: Any, here: bool = False) -> Future[T]:
        """Do the same as `start` when the batch is submitted; at once if it was."""
        return self._later(lambda: start(work, *arguments, here=here), opens=True)

    def _store(self, store: Store, key: str, span: tuple[int, int | None] | None) -> Store:
        """Return a store in which all reads of keys share what they read, as this one of `key`."""
        if type(store) is MemoryStore:
            return store  # there is nothing to fetch
        with self._lock:
            found = self._stores.get(id(store))
            if found is None:
                found = self._stores[id(store)] = (store, SharedStore(store))
        found[1].expect(key, span)
        return found[1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.submit()

    def __reduce__(self) -> str:
        raise TypeError("a batch cannot be copied: it is submitted once nobody refers to it")

    def __del__(self) -> None:
        if hasattr(self, "_lock"):  # else it was refused, and never made
            self.submit()
