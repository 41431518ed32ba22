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


class Stopping(dict[str, bytes]):
    """A mapping that accepts `left` more changes, and then none, as if the program had died."""

    left = 1 << 30

    def _change(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError("stopped")

    def __setitem__(self, key: str, value: bytes) -> None:
        self._change()
        super().__setitem__(key, bytes(value))

    def __delitem__(self, key: str) -> None:
        self._change()
        super().__delitem__(key)
