"""The stores of the engine, as mappings of keys to bytes, which users of zarr-python 2 know."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from os import PathLike, fspath, getpid
from os.path import expanduser
from typing import TYPE_CHECKING, Any, Self

from tessarr import _engine
from tessarr.errors import ArgumentError, NotFoundError
from tessarr.format.registry import call_public

if TYPE_CHECKING:
    from tessarr._engine import Store

__all__ = [
    "CountingStore",
    "ForeignStore",
    "LocalStore",
    "MemoryStore",
    "StoreMapping",
    "expand_user",
]


class StoreMapping(MutableMapping[str, bytes]):
    """What every store can do beside the methods of the engine: be a mapping.

    Notes
    -----
    ``len`` lists all keys, as do the views that ``keys``, ``values`` and ``items`` give,
    once each time that they are used. An empty store is true.

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

    # Two stores are equal where they are the same place, not where their values are.
    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __getitem__(self, key: str) -> bytes:
        found = _of(self).get(key)
        if found is None:
            raise NotFoundError(f"there is no key {key!r} in {self!r}", key=key)
        return found

    def __setitem__(self, key: str, value: Any) -> None:
        _of(self).put(key, value)

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise NotFoundError(f"there is no key {key!r} in {self!r}", key=key)
        _of(self).delete(key)

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, str):
            return False
        try:
            return _of(self).size(key) is not None
        except ArgumentError:  # not a key, which no store can hold
            return False

    def __iter__(self) -> Iterator[str]:
        return iter(_of(self).list())

    def __len__(self) -> int:
        return len(_of(self).list())

    def __bool__(self) -> bool:
        return True

    def clear(self) -> None:
        """Remove everything."""
        _of(self).delete_prefix("")

    # Folders

    def listdir(self, path: str = "") -> list[str]:
        """Return the names directly below a path, of keys and of folders, sorted.

        Parameters
        ----------
        path
            Names joined by ``/``; "" is the root. Slashes at its ends are dropped.
        """
        prefix = _prefix(path)
        keys, prefixes = _of(self).list_dir(prefix)
        names = (*keys, *(folder[:-1] for folder in prefixes))
        return sorted({name[len(prefix) :] for name in names})

    def rmdir(self, path: str = "") -> None:
        """Remove every key below a path; that there is none is fine."""
        _of(self).delete_prefix(_prefix(path))

    def getsize(self, path: str = "") -> int:
        """Return the bytes of a value, or of all values below a path; 0 where there are none."""
        store = _of(self)
        prefix = _prefix(path)
        own = store.size(prefix[:-1]) if prefix else None
        if own is not None:
            return own
        return sum(store.size(key) or 0 for key in store.list(prefix))

    def rename(self, src_path: str, dst_path: str) -> None:
        """Give a key, or all keys below a path, another path.

        What is at the new path already is replaced key by key, the rest of it stays.
        Interrupted, it leaves some keys under both paths, and none under neither.

        Raises
        ------
        NotFoundError
            If there is nothing at `src_path`.
        ArgumentError
            If one of the paths is below the other.
        """
        store = _of(self)
        old, new = _prefix(src_path), _prefix(dst_path)
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

    # The end

    def close(self) -> None:
        """Let go of what the store holds open. Most hold nothing, and go on to work."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _of(store: Any) -> Store:
    found: Store = store  # the class is always a base of one that is a store
    return found


def _prefix(path: str) -> str:
    names = [name for name in path.split("/") if name]
    return "".join(f"{name}/" for name in names)


def expand_user(path: str | PathLike[str]) -> str | PathLike[str]:
    """Return a path with the home folder in the place of a leading ``~``, as a shell does.

    A folder that is called ``~`` is ``./~``.

    Examples
    --------
    >>> expand_user("~/data").endswith("/data"), expand_user("./~"), expand_user("a~")
    (True, './~', 'a~')
    """
    text = fspath(path)
    return expanduser(text) if text.startswith("~") else path  # noqa: PTH111 (keeps text)


class LocalStore(_engine.LocalStore, StoreMapping):
    """A store in a folder: the file ``path/key`` holds the value of ``key``.

    Parameters
    ----------
    path : str or os.PathLike
        The folder, with ``~`` for the home folder; the first write creates it.
    read_only : bool, default False
        Refuse every change (`ReadOnlyError`).
    durable : bool, default False
        Every change has reached the disk when the call returns. Without it a killed
        process leaves each value whole, but a power failure may lose recent ones.
    reading : {"default", "memmap", "direct"}, default "default"
        Read files through the cache of the system; as memory, which saves a copy, but a
        process that reads while somebody shortens a file in place is ended; or past the
        cache, where the file system can do that.
    locking : {"os", "lockfile", "none", "non_atomic"}, default "os"
        How writers of one key keep out of each other's way. By a lock of the system on the
        file ``key.__lock``, which the next writer takes over where one was killed. By that
        file itself: where a writer was killed, remove it by hand. Not at all, except
        within the process: of two changes of parts of one value one may be lost. Or that, and
        files are changed in place: readers may see half of a change.
    lock_timeout_s : float, default 60
        How long to wait for another writer, until a `StoreError` that is retryable.

    Notes
    -----
    A value is replaced by renaming a new file onto it, so readers see one value whole and
    never wait. Writers of one key exclude each other as TensorStore's do: threads, processes,
    and TensorStore itself, if it has the same locking.

    On a file system without locks, "os" warns once and uses lock files that say which process
    has made them: the next writer on the same machine takes over those of ended processes.

    Symbolic links below the folder are followed. Deleting a node or a prefix that is a symbolic
    link removes the link, and nothing that it leads to; so does replacing a node. Listings
    omit a link to a folder above it.

    Examples
    --------
    >>> import tempfile
    >>> store = LocalStore(tempfile.mkdtemp())
    >>> store.put("a/b", b"value")
    >>> store.get("a/b"), store.list_dir("")
    (b'value', ([], ['a/']))
    """

    def __new__(cls, path: str | PathLike[str], **settings: Any) -> Self:
        if fspath(path).startswith("~"):  # a call less for all others
            path = expand_user(path)
        return super().__new__(cls, path, **settings)

    @property
    def root(self) -> str:
        """The folder, by the name that zarr-python 3 has for it."""
        return self.path


class MemoryStore(_engine.MemoryStore, StoreMapping):
    """A store in memory.

    Parameters
    ----------
    items : mapping of str to bytes, optional
        First contents, copied.
    name : str, optional
        Stores of the same name share their contents, everywhere in the process, and
        live as long as it.
    any_keys : bool, default False
        Whether any text is a key, also what no other store has: the empty one, and those with
        empty, "." or ".." segments. What has a name has the keys of all stores.

    Notes
    -----
    A pickle of a store without a name holds the contents, so that unpickling makes an
    independent copy. A named store is pickled by its name; in another process that is a
    `StoreError`, not an empty store.

    Examples
    --------
    >>> store = MemoryStore({"a": b"1"})
    >>> store.replace("a", b"2", expected=b"1"), store.replace("a", b"3", expected=b"1")
    (True, False)
    >>> MemoryStore(name="shared") == MemoryStore(name="shared")
    True
    """

    def __reduce__(self) -> Any:
        return super().__reduce__() if self.name is None else (self._named, (self.name, getpid()))

    @classmethod
    def _named(cls, name: str, process: int) -> Any:
        return _engine.unpickle_memory_store(cls, name, process)


class ForeignStore(_engine.ForeignStore, StoreMapping):
    """A store that a Python object implements.

    Parameters
    ----------
    object : mapping or object
        A mapping of str to bytes-like, or an object with the methods of
        `tessarr.store.protocol.StoreProtocol`, which may be called from several threads.
    read_only : bool, default False
        Refuse every change; a mapping that cannot be changed is read-only anyway.
    any_keys : bool, default False
        Whether any text is a key, as of `MemoryStore`.

    Notes
    -----
    Changes of one key exclude each other within the process; between processes if the
    object has ``replace``.

    Examples
    --------
    >>> items = {}
    >>> ForeignStore(items).put("a/b", b"1")
    >>> items
    {'a/b': b'1'}
    """


class CountingStore(_engine.CountingStore, StoreMapping):
    """Passes everything on to another store and counts it.

    Parameters
    ----------
    store : Store
        The store that does the work.

    Examples
    --------
    >>> store = CountingStore(MemoryStore({"a": b"1"}))
    >>> store.get("a"), store.counts()["opens"]
    (b'1', 1)
    """


call_public("tessarr.stores", _engine.Store, StoreMapping, LocalStore, MemoryStore, ForeignStore)
