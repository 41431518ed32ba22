"""The journal of a copy, which lets an interrupted copy resume.

The journal is a document beside the target, under a key without meaning in any format. It contains
a hash of the source's keys, sizes and times, a hash of the new metadata and the selection, and the
stored pieces. The copy records a piece after storing it, and stores unrecorded pieces again.

The copy stores the documents of an array after all of its chunks, and deletes the journal last. So
an array with a document is complete.
"""

from __future__ import annotations

import hashlib
import json
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from tessarr.errors import ArgumentError, ExistsError, MetadataError
from tessarr.flow.open import prefix_of
from tessarr.format import json as _json
from tessarr.store import LocalStore

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tessarr.store import Store

__all__ = ["JOURNAL", "Journal", "fingerprint"]

JOURNAL: Final = ".tessarr-copy"
"""The name of the journal, below the path of the target."""

_VERSION: Final = 1
_EVERY_S: Final = 1.0


class Journal:
    """The journal of a copy.

    Parameters
    ----------
    store, path
        The target.
    source, settings
        Hashes of the source and of the planned result.
    """

    def __init__(self, store: Store, path: str, source: str | None, settings: str) -> None:
        self._store = store
        self._key = prefix_of(path) + JOURNAL
        self._state: dict[str, Any] = {
            "tessarr_copy": _VERSION,
            "source": source,
            "settings": settings,
            "done": {},
        }
        self._stored = monotonic()

    @property
    def exists(self) -> bool:
        """Whether a journal exists, of an interrupted or a running copy."""
        return self._store.size(self._key) is not None

    def begin(self) -> None:
        """Store the journal, unless one exists."""
        if not self._store.replace(self._key, self._bytes(), None):
            raise ExistsError(
                f"a copy to this location was interrupted or is running ({self._key!r} exists): "
                "pass resume=True to continue it, or overwrite=True to start again",
                key=self._key,
            )

    def resume(self) -> None:
        """Read the stored journal, and check that it belongs to the same copy.

        Raises
        ------
        ArgumentError
            If the source or the settings have changed.
        """
        document = self._store.get(self._key)
        if document is None:
            self.begin()
            return
        state, _ = _json.load(document, what=f"journal {self._key!r}")
        if not isinstance(state, dict) or not isinstance(state.get("done"), dict):
            raise MetadataError(f"{self._key!r} is no journal of a copy", key=self._key)
        for name, reason in (
            ("tessarr_copy", "another version of Tessarr started it"),
            ("source", "the source has changed, or is another one"),
            ("settings", "it has other settings"),
        ):
            if state.get(name) != self._state[name] or state.get(name) is None:
                raise ArgumentError(
                    f"cannot resume the copy of {self._key!r}: {reason}; pass overwrite=True to "
                    "start again"
                )
        self._state["done"] = state["done"]

    def runs(self, path: str, pieces: int, cut: str) -> _IndexRanges:
        """Return the stored pieces of an array; none if the pieces have other sizes."""
        name = f"{path}:{pieces}:{cut}"
        done: dict[str, list[list[int]]] = self._state["done"]
        return _IndexRanges(done.setdefault(name, []))

    def forget(self, path: str) -> None:
        """Remove the stored pieces of an array from the journal."""
        done: dict[str, list[list[int]]] = self._state["done"]
        for name in [name for name in done if name.rsplit(":", 2)[0] == path]:
            del done[name]

    def save(self, *, now: bool = False) -> None:
        """Store the journal, at a limited rate unless `now` is true."""
        if now or monotonic() - self._stored > _EVERY_S:
            self._store.put(self._key, self._bytes())
            self._stored = monotonic()

    def end(self) -> None:
        """Delete the journal of a complete copy."""
        self._store.delete(self._key)

    def _bytes(self) -> bytes:
        return json.dumps(self._state).encode()


class _IndexRanges:
    """A set of numbers as ranges.

    Examples
    --------
    >>> runs = _IndexRanges([[0, 2]])
    >>> for number in (4, 2, 3):
    ...     runs.add(number)
    >>> runs.runs, list(runs.missing(7))
    ([[0, 5]], [5, 6])
    """

    def __init__(self, runs: list[list[int]]) -> None:
        self.runs = runs

    def add(self, number: int) -> None:
        """Add a number."""
        runs = self.runs
        # Numbers arrive nearly in order: search from the last run.
        index = len(runs)
        while index and runs[index - 1][0] > number:
            index -= 1
        runs.insert(index, [number, number + 1])
        for index_ in (index, index - 1):
            if 0 <= index_ < len(runs) - 1 and runs[index_][1] >= runs[index_ + 1][0]:
                runs[index_][1] = max(runs[index_][1], runs[index_ + 1][1])
                del runs[index_ + 1]

    def missing(self, count: int) -> Iterable[int]:
        """Yield the numbers below `count` that are missing."""
        next_number = 0
        for start, stop in self.runs:
            yield from range(next_number, min(start, count))
            next_number = stop
        yield from range(next_number, count)


def fingerprint(store: Store, prefix: str, keys: Iterable[str]) -> str:
    """Return a hash of keys and of cheap facts about their values.

    These are the size, and in a folder the modification time.
    """
    import os

    digest = hashlib.sha256()
    folder = store.path if isinstance(store, LocalStore) else None
    for key in keys:
        if folder is None:
            status_text = f"{store.size(key)}"
        else:
            try:
                status = os.stat(f"{folder}/{key}")  # noqa: PTH116 (once for each chunk)
            except FileNotFoundError:
                status_text = "gone"
            else:
                status_text = f"{status.st_size} {status.st_mtime_ns}"
        digest.update(f"{key[len(prefix) :]}\0{status_text}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
