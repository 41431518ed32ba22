"""Stores that refuse changes after a number of them."""

from __future__ import annotations

from collections.abc import Iterable

from tessarr.errors import StoreError


class Failing(dict[str, bytes]):
    """Mapping that stores `changes_left` more values and refuses further ones."""

    changes_left = 1000

    def __setitem__(self, key: str, value: bytes) -> None:
        self.changes_left -= 1
        if self.changes_left < 0:
            raise StoreError("full")
        super().__setitem__(key, value)


class Stopping(dict[str, bytes]):
    """Mapping that accepts `changes_left` more changes and then none, as if the process died."""

    changes_left = 1 << 30

    def _change(self) -> None:
        self.changes_left -= 1
        if self.changes_left < 0:
            raise OSError("stopped")

    def __setitem__(self, key: str, value: bytes) -> None:
        self._change()
        super().__setitem__(key, bytes(value))

    def __delitem__(self, key: str) -> None:
        self._change()
        super().__delitem__(key)


class StoppingStore:
    """Store that can replace a prefix in one step and accepts `changes_left` more changes."""

    deletes_at_once = True

    def __init__(self) -> None:
        self.items: dict[str, bytes] = {}
        self.changes_left = 1 << 30

    def _change(self) -> None:
        self.changes_left -= 1
        if self.changes_left < 0:
            raise OSError("stopped")

    def get(self, key: str) -> bytes | None:
        return self.items.get(key)

    def put(self, key: str, data: bytes) -> None:
        self._change()
        self.items[key] = bytes(data)

    def delete(self, key: str) -> None:
        self._change()
        self.items.pop(key, None)

    def list(self, prefix: str) -> Iterable[str]:
        return [key for key in self.items if key.startswith(prefix)]

    def delete_prefix(self, prefix: str) -> None:
        self._change()
        self.items = {k: v for k, v in self.items.items() if not k.startswith(prefix)}

    def replace_prefix(self, staged: str, prefix: str) -> None:
        self._change()
        new = {k: v for k, v in self.items.items() if k.startswith(staged)}
        self.items = {k: v for k, v in self.items.items() if not k.startswith((staged, prefix))}
        self.items |= {prefix + key[len(staged) :]: value for key, value in new.items()}
