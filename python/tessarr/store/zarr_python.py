"""Stores of zarr-python: adapters for objects of `zarr.abc.store.Store`."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from tessarr._engine import ForeignStore, Store
from tessarr.errors import UnsupportedError
from tessarr.format.node_path import DOCUMENT_NAMES
from tessarr.store.class_names import is_instance_of
from tessarr.store.local import LocalStore

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Callable,
        Coroutine,
        Generator,
        Iterable,
        Sequence,
    )

__all__ = ["ZarrPythonAdapter", "adapt_zarr_python", "get_zarr_python_location"]

_CONCURRENCY: Final = 16
_adapters: Final[WeakValueDictionary[int, ZarrPythonAdapter]] = WeakValueDictionary()
_FORMAT_1_DOCUMENTS: Final = ("meta", "attrs")
_DELETION_MARK: Final = ".__deleted"


def get_zarr_python_location(value: Any) -> tuple[Any, str]:
    """Return the store and the path of an object of zarr-python.

    ``StorePath``, arrays and groups have both; any other object is the store itself.
    """
    location = getattr(value, "store_path", value)
    if is_instance_of(location, "zarr.storage", "StorePath"):
        return location.store, location.path
    return value, ""


def adapt_zarr_python(store: Any, *, read_only: bool = False) -> Store:
    """Return a store for a ``zarr.abc.store.Store``.

    Local folders, file systems of fsspec and object stores become Tessarr's own stores, with its
    locks and its speed. The methods of the object serve every other store. A read-only store stays
    read-only.

    Parameters
    ----------
    store
        A store of zarr-python, or of a package that extends its abstract class, such as Icechunk
        and VirtualiZarr.
    read_only
        Whether to refuse every change.
    """
    read_only = read_only or store.read_only or not store.supports_writes
    adapted: Any = _build_native_store(store, read_only=read_only)
    if adapted is None:
        adapted = _ZarrPythonStore(_get_adapter(store), read_only=read_only)
    adapted._user_store = store
    result: Store = adapted
    return result


def _get_adapter(store: Any) -> ZarrPythonAdapter:
    """Return the adapter of a store; all users of a store share its locks."""
    adapter = _adapters.get(id(store))
    if adapter is None:
        adapter = _adapters[id(store)] = ZarrPythonAdapter(store)
    return adapter


class _ZarrPythonStore(ForeignStore):
    """A store that an object of zarr-python serves."""

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(adapt_zarr_python, read_only=self.read_only), (self.object.store,)


def _build_native_store(store: Any, *, read_only: bool) -> Store | None:
    """Return Tessarr's own store for the location of a store; None if it has none.

    Subclasses may change any method, so only the classes of zarr-python itself are replaced.
    """
    import zarr.storage

    if type(store) is zarr.storage.LocalStore:
        return LocalStore(store.root, read_only=read_only)
    if type(store) is zarr.storage.FsspecStore:
        from tessarr.store.fsspec.store import FsspecStore

        return FsspecStore(
            store.fs,
            store.path,
            read_only=read_only,
            allowed_exceptions=store.allowed_exceptions,
        )
    object_store = getattr(zarr.storage, "ObjectStore", None)
    if object_store is not None and type(store) is object_store:
        from tessarr.store.obspec import adapt_obspec

        return adapt_obspec(store.store, read_only=read_only)
    return None


class ZarrPythonAdapter:
    """The methods of `tessarr.store.protocol.StoreProtocol` for a store of zarr-python.

    Requests run in the event loop of zarr-python, up to `concurrency` of them at once. Stores
    with synchronous methods (zarr-python 3.2) need no event loop.

    Parameters
    ----------
    store
        A ``zarr.abc.store.Store``.
    """

    concurrency = _CONCURRENCY
    deletes_at_once = True  # zarr-python and Icechunk do not accept the keys of marks

    def __init__(self, store: Any) -> None:
        from zarr.abc import store as abc
        from zarr.buffer import cpu
        from zarr.core.sync import SyncError, sync

        self.store = store
        self._sync = sync
        self._reentry_error = SyncError
        self._buffers = cpu
        self._ranges = abc
        self._has_sync_methods = _has_sync_methods(store)
        if type(store).getsize is abc.Store.getsize:  # it would read the whole value
            self.open_value = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ZarrPythonAdapter) and self.store == other.store

    def __hash__(self) -> int:
        return hash(type(self.store))

    def __reduce__(self) -> tuple[Any, ...]:
        return ZarrPythonAdapter, (self.store,)

    def get(self, key: str) -> bytes | None:
        """Return the value of `key`, or None."""
        return self._get_range(key, None)

    def _get_range(self, key: str, byte_range: Any) -> bytes | None:
        if _is_absent(key):
            return None
        prototype = self._buffers.buffer_prototype
        if self._has_sync_methods:
            value = self.store.get_sync(key, prototype=prototype, byte_range=byte_range)
        else:
            value = self._wait(self.store.get(key, prototype, byte_range))
        return None if value is None else value.to_bytes()

    def put(self, key: str, data: bytes) -> None:
        """Replace the value of `key`."""
        value = self._buffers.Buffer.from_bytes(data)
        if self._has_sync_methods:
            self.store.set_sync(key, value)
        else:
            self._wait(self.store.set(key, value))

    def delete(self, key: str) -> None:
        """Remove `key` if it exists."""
        with self._translate_refusal():
            if self._has_sync_methods:
                self.store.delete_sync(key)
            else:
                self._wait(self.store.delete(key))

    def list(self, prefix: str) -> Sequence[str]:
        """Return every key that starts with `prefix`, which is "" or ends in "/"."""
        return self._collect(self.store.list_prefix, prefix)

    def list_dir(self, prefix: str) -> tuple[Sequence[str], Sequence[str]]:
        """Return the keys and the prefixes one level below `prefix`.

        A listing of zarr-python names both without a difference. Metadata documents are keys;
        each other name takes one request that tells whether it is a key. A name that the store
        refuses to look up, as VirtualiZarr and Icechunk do, is a prefix.
        """
        listed = self._collect(self.store.list_dir, prefix.rstrip("/"))
        names = sorted({name.rstrip("/") for name in listed})
        keys = {name for name in names if name in DOCUMENT_NAMES}
        others = [name for name in names if name and name not in keys]
        exist = self._wait(_exist(self.store, [f"{prefix}{name}" for name in others]))
        keys.update(name for name, is_key in zip(others, exist, strict=True) if is_key)
        prefixes = [f"{prefix}{name}/" for name in others if name not in keys]
        return [f"{prefix}{name}" for name in names if name in keys], prefixes

    def delete_prefix(self, prefix: str) -> None:
        """Remove every key that starts with `prefix`."""
        with self._translate_refusal():
            self._wait(self.store.delete_dir(prefix.rstrip("/")))

    @contextmanager
    def _translate_refusal(self) -> Generator[None]:
        """Raise an error of Tessarr if the store, such as a Zip file, cannot delete keys."""
        try:
            yield
        except NotImplementedError as error:
            raise UnsupportedError(
                f"{self.store!r} cannot delete keys: write to another path or store",
                extension="delete",
            ) from error

    def open_value(self, key: str) -> _OpenedValue | None:
        """Open a value to read parts of it."""
        if _is_absent(key):
            return None
        try:
            size = self._wait(self.store.getsize(key))
        except FileNotFoundError:
            return None
        return _OpenedValue(self, key, size)

    def _wait(self, request: Coroutine[Any, Any, Any]) -> Any:
        """Wait for a request in the event loop of zarr-python."""
        try:
            return self._sync(request)
        except self._reentry_error as error:
            raise UnsupportedError(
                f"the event loop of zarr-python waits for a request of {self.store!r}, which it "
                "has to serve itself: call Tessarr in another thread, as with asyncio.to_thread",
            ) from error
        finally:
            request.close()

    def _collect(
        self, list_names: Callable[[str], AsyncIterator[str]], prefix: str
    ) -> Sequence[str]:
        try:
            collected: Sequence[str] = self._wait(_collect_names(list_names(prefix)))
        except UnsupportedError:
            raise
        except NotImplementedError as error:
            raise UnsupportedError(
                f"cannot list the keys under {prefix!r}: {type(self.store).__name__} does not "
                "implement this listing; open and read nodes by their paths instead",
            ) from error
        return collected


class _OpenedValue:
    """A value of known size, of which each read requests a range."""

    def __init__(self, adapter: ZarrPythonAdapter, key: str, size: int) -> None:
        self._adapter = adapter
        self._key = key
        self.size = size

    def read(self, offset: int, count: int) -> bytes:
        """Return `count` bytes from `offset`."""
        if not count:
            return b""
        span = self._adapter._ranges.RangeByteRequest(offset, offset + count)
        value = self._adapter._get_range(self._key, span)
        if value is None:
            raise FileNotFoundError(self._key)
        return value


def _is_absent(key: str) -> bool:
    """Return whether no store of zarr-python 3 has a key; some refuse to look for it."""
    name = key.rpartition("/")[2]
    return name in _FORMAT_1_DOCUMENTS or name.endswith(_DELETION_MARK)


def _has_sync_methods(store: Any) -> bool:
    """Return whether the synchronous methods do what the asynchronous ones do.

    A subclass may change ``get`` and inherit ``get_sync``. A wrapper has synchronous methods even
    if its store lacks them.
    """
    from zarr.storage import WrapperStore

    if isinstance(store, WrapperStore):
        return False
    classes = type(store).__mro__
    for name in ("get", "set", "delete"):
        owners = [cls for cls in classes if name in vars(cls) or f"{name}_sync" in vars(cls)]
        if f"{name}_sync" not in vars(owners[0]):
            return False
    return True


async def _collect_names(names: AsyncIterator[str]) -> list[str]:
    return [name async for name in names]


async def _exist(store: Any, keys: Iterable[str]) -> list[bool]:
    """Return which keys exist; keys that the store refuses do not."""
    import asyncio

    results = await asyncio.gather(*map(store.exists, keys), return_exceptions=True)
    for result in results:
        if isinstance(result, OSError):  # a failed request is no refusal
            raise result
    return [result is True for result in results]
