"""A store that is full after a while."""

from __future__ import annotations

from tessarr.errors import StoreError


class Failing(dict[str, bytes]):
    """A mapping that stores `left` more values, and refuses the next."""

    left = 1000

    def __setitem__(self, key: str, value: bytes) -> None:
        self.left -= 1
        if self.left < 0:
            raise StoreError("full")
        super().__setitem__(key, value)
