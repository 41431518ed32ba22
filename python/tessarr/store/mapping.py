"""The mapping interface of stores, as in zarr-python 2."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Any, Self

from tessarr import _engine
from tessarr.errors import ArgumentError, NotFoundError
from tessarr.format.registry import set_public_module

if TYPE_CHECKING:
    from tessarr._engine import Store

__all__ = ["StoreMapping"]


class StoreMapping(MutableMapping[str, bytes]):
    """The mapping interface of every store.

    Notes
    -----
    ``len`` lists all keys; so does each use of a view from ``keys``, ``values`` or ``items``. An
    empty store is true.

    Examples
    --------
    >>> from tessarr.stores import MemoryStore
    >>> store = MemoryStore()
    >>> store["a/b"] = b"1"
    >>> store.update({"c": b"2"})
    >>> sorted(store), store["a/b"], "a" in store, len(store)
    (['a/b', 'c'], b'1', False, 2)
    >>> store.listdir(), store.getsize("a")
    (['a', 'c'], 1)
    >>> store.rename("a", "z")
    >>> store.pop("z/b"), dict(store)
    (b'1', {'c': b'2'})
    """

    __slots__ = ()

    # Stores are equal if they are the same location, not if their values are equal.
    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __getitem__(self, key: str) -> bytes:
        value = _as_store(self).get(key)
        if value is None:
            raise NotFoundError(f"there is no key {key!r} in {self!r}", key=key)
        return value

    def __setitem__(self, key: str, value: Any) -> None:
        _as_store(self).put(key, value)

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise NotFoundError(f"there is no key {key!r} in {self!r}", key=key)
        _as_store(self).delete(key)

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, str):
            return False
        try:
            return _as_store(self).size(key) is not None
        except ArgumentError:  # no store can hold such a key
            return False

    def __iter__(self) -> Iterator[str]:
        return iter(_as_store(self).list())

    def __len__(self) -> int:
        return len(_as_store(self).list())

    def __bool__(self) -> bool:
        return True

    def clear(self) -> None:
        """Remove all keys."""
        _as_store(self).delete_prefix("")

    def listdir(self, path: str = "") -> list[str]:
        """Return the names directly below a path, of keys and of folders, sorted.

        Parameters
        ----------
        path
            Names joined by ``/``; "" is the root. Leading and trailing slashes are ignored.
        """
        prefix = _to_prefix(path)
        keys, prefixes = _as_store(self).list_dir(prefix)
        names = (*keys, *(folder[:-1] for folder in prefixes))
        return sorted({name[len(prefix) :] for name in names})

    def rmdir(self, path: str = "") -> None:
        """Remove every key below a path, which may be absent."""
        _as_store(self).delete_prefix(_to_prefix(path))

    def getsize(self, path: str = "") -> int:
        """Return the size of a value, or of all values below a path; 0 if none exists."""
        store = _as_store(self)
        prefix = _to_prefix(path)
        size_bytes = store.size(prefix[:-1]) if prefix else None
        if size_bytes is not None:
            return size_bytes
        return sum(store.size(key) or 0 for key in store.list(prefix))

    def rename(self, src_path: str, dst_path: str) -> None:
        """Move a key, or all keys below a path, to another path.

        The method replaces existing keys at the new path and preserves other keys. An interrupted
        call leaves some keys under both paths and loses none.

        Raises
        ------
        NotFoundError
            If `src_path` has no keys.
        ArgumentError
            If one path is below the other.
        """
        store = _as_store(self)
        old, new = _to_prefix(src_path), _to_prefix(dst_path)
        if old.startswith(new) or new.startswith(old):
            raise ArgumentError(f"cannot rename {src_path!r} to {dst_path!r}: one holds the other")
        single = [old[:-1]] if old[:-1] in self else []
        keys = single or store.list(old)
        if not keys:
            raise NotFoundError(f"there is nothing at {src_path!r} in {self!r}", key=old[:-1])
        for key in keys:
            value = store.get(key)
            if value is not None:
                store.put(new[:-1] + key[len(old) - 1 :], value)
        if not single and store.remove_link(old):
            return
        for key in keys:
            store.delete(key)

    def close(self) -> None:
        """Release the resources of the store. Most stores hold none and stay usable."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _as_store(store: Any) -> Store:
    typed_store: Store = store  # every concrete class also inherits from `Store`
    return typed_store


def _to_prefix(path: str) -> str:
    names = [name for name in path.split("/") if name]
    return "".join(f"{name}/" for name in names)


set_public_module("tessarr.stores", _engine.Store, StoreMapping)
