"""What is known of a copy while it goes on, so that an interrupted one can be resumed.

The journal is a document beside the target, under a key that no format gives a meaning. It
states what is copied (a hash of the keys, sizes and times of the source), what it becomes (a hash
of the new metadata and of what is selected), and which pieces are stored. A piece is noted
only when the store has it; a piece that was stored and not noted is stored again. The documents
of arrays are stored when all of their chunks are, and the journal is deleted last: so what looks
like an array is complete.
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
"""The name of the document, below the path of the target."""

_VERSION: Final = 1
_EVERY_S: Final = 1.0


class Journal:
    """What of a copy is done.

    Parameters
    ----------
    store, path
        The target.
    source, settings
        Hashes of what is copied, and of what it becomes.
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
        """Whether there is one, of a copy that was interrupted or still goes on."""
        return self._store.size(self._key) is not None

    def begin(self) -> None:
        """Store it, unless there is one."""
        if not self._store.replace(self._key, self._bytes(), None):
            raise ExistsError(
                f"a copy to here was interrupted, or goes on ({self._key!r} is there): give "
                "resume=True to continue it, or overwrite=True to begin anew",
                key=self._key,
            )

    def resume(self) -> None:
        """Read what was done, and check that it is the same copy.

        Raises
        ------
        ArgumentError
            If the source has changed since, or the settings are other ones.
        """
        document = self._store.get(self._key)
        if document is None:
            self.begin()
            return
        found, _ = _json.load(document, what=f"journal {self._key!r}")
        if not isinstance(found, dict) or not isinstance(found.get("done"), dict):
            raise MetadataError(f"{self._key!r} is no journal of a copy", key=self._key)
        for name, what in (
            ("tessarr_copy", "it was begun by another version of Tessarr"),
            ("source", "the source has changed since, or is another one"),
            ("settings", "it was begun with other settings"),
        ):
            if found.get(name) != self._state[name] or found.get(name) is None:
                raise ArgumentError(
                    f"cannot resume the copy of {self._key!r}: {what}; give overwrite=True to "
                    "begin anew"
                )
        self._state["done"] = found["done"]

    def runs(self, path: str, pieces: int, cut: str) -> _Runs:
        """Return which pieces of an array are stored; none, if it was cut in other ones."""
        name = f"{path}:{pieces}:{cut}"
        done: dict[str, list[list[int]]] = self._state["done"]
        return _Runs(done.setdefault(name, []))

    def forget(self, path: str) -> None:
        """Forget which pieces of an array are stored: all of them, or none any more."""
        done: dict[str, list[list[int]]] = self._state["done"]
        for name in [name for name in done if name.rsplit(":", 2)[0] == path]:
            del done[name]

    def save(self, *, now: bool = False) -> None:
        """Store it, if the last time is some time ago."""
        if now or monotonic() - self._stored > _EVERY_S:
            self._store.put(self._key, self._bytes())
            self._stored = monotonic()

    def end(self) -> None:
        """Delete it: all is done."""
        self._store.delete(self._key)

    def _bytes(self) -> bytes:
        return json.dumps(self._state).encode()


class _Runs:
    """Numbers, as the runs in which they follow each other.

    Examples
    --------
    >>> runs = _Runs([[0, 2]])
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
        # Numbers come nearly in order: the last runs are those that matter.
        place = len(runs)
        while place and runs[place - 1][0] > number:
            place -= 1
        runs.insert(place, [number, number + 1])
        for left in (place, place - 1):
            if 0 <= left < len(runs) - 1 and runs[left][1] >= runs[left + 1][0]:
                runs[left][1] = max(runs[left][1], runs[left + 1][1])
                del runs[left + 1]

    def missing(self, count: int) -> Iterable[int]:
        """Yield the numbers below `count` that are not there."""
        at = 0
        for start, stop in self.runs:
            yield from range(at, min(start, count))
            at = stop
        yield from range(at, count)


def fingerprint(store: Store, prefix: str, keys: Iterable[str]) -> str:
    """Return a hash of keys and of what is cheap to know of their values.

    That is the size, and in a folder the time of the last change.
    """
    import os

    found = hashlib.sha256()
    folder = store.path if isinstance(store, LocalStore) else None
    for key in keys:
        if folder is None:
            known = f"{store.size(key)}"
        else:
            try:
                status = os.stat(f"{folder}/{key}")  # noqa: PTH116 (once for each chunk)
            except FileNotFoundError:
                known = "gone"
            else:
                known = f"{status.st_size} {status.st_mtime_ns}"
        found.update(f"{key[len(prefix) :]}\0{known}\0".encode("utf-8", "surrogateescape"))
    return found.hexdigest()
