"""A minimal store, so that the tests of flows need neither the engine nor a disk."""

from __future__ import annotations

from typing import Any

import pytest


class PlainStore:
    """A dictionary with the methods of a store, which records every request."""

    read_only = False
    is_exclusive = True
    concurrency = 0

    def __init__(self) -> None:
        self.items: dict[str, bytes] = {}
        self.log: list[tuple[str, str]] = []
        self.fail_on: tuple[str, str] | None = None

    def _note(self, operation: str, key: str) -> None:
        self.log.append((operation, key))
        if self.fail_on == (operation, key):
            self.fail_on = None
            raise OSError(f"no luck with {operation} {key}")

    def get(self, key: str, limit: int | None = None) -> bytes | None:
        del limit
        self._note("get", key)
        return self.items.get(key)

    def put(self, key: str, data: bytes) -> None:
        self._note("put", key)
        self.items[key] = data

    def delete(self, key: str) -> None:
        self._note("delete", key)
        self.items.pop(key, None)

    def replace(self, key: str, data: bytes | None, expected: bytes | None) -> bool:
        self._note("replace", key)
        if self.items.get(key) != expected:
            return False
        if data is None:
            self.items.pop(key, None)
        else:
            self.items[key] = data
        return True

    def write(self, key: str, data: bytes, version: bytes) -> tuple[bool, None]:
        assert not version  # the store has no generations: the key must be absent
        return self.replace(key, data, None), None

    def change(self, key: str, make: Any, limit: int | None = None) -> None:
        del limit
        current = self.items.get(key)
        created = make(current)
        if created is current:
            self._note("look", key)
            return
        self._note("change", key)
        self.items.pop(key, None)
        if created is not None:
            self.items[key] = created

    def size(self, key: str) -> int | None:
        self._note("size", key)
        return len(self.items[key]) if key in self.items else None

    def list(self, prefix: str) -> list[str]:
        self._note("list", prefix)
        return sorted(key for key in self.items if key.startswith(prefix))

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        self._note("list_dir", prefix)
        below = [key[len(prefix) :] for key in self.items if key.startswith(prefix)]
        keys = sorted(prefix + key for key in below if "/" not in key)
        prefixes = sorted({prefix + key.split("/")[0] + "/" for key in below if "/" in key})
        return keys, prefixes

    def remove_link(self, prefix: str) -> bool:
        return False

    def hold(self, key: str, work: Any) -> Any:
        self._note("hold", key)
        return work()

    def deletes_at_once(self, prefix: str) -> bool:
        del prefix
        return True

    def delete_prefix(self, prefix: str) -> None:
        self._note("delete_prefix", prefix)
        for key in [key for key in self.items if key.startswith(prefix)]:
            del self.items[key]


@pytest.fixture
def empty_store() -> PlainStore:
    return PlainStore()
