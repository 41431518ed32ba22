"""Object stores of obstore, and of any library with the methods of obspec."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tessarr._engine import ForeignStore, Store
from tessarr.errors import StoreError
from tessarr.store.class_names import is_instance_of
from tessarr.store.local import LocalStore

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["ObspecAdapter", "adapt_obspec"]

_CONCURRENCY: Final = 32
_VERSION_BYTES: Final = 47


def adapt_obspec(store: Any, *, read_only: bool = False) -> Store:
    """Return a store for an object of obstore or with the methods of obspec.

    A folder (``obstore.store.LocalStore``) becomes a `tessarr.stores.LocalStore`.

    Parameters
    ----------
    store
        An object with the methods for reading; without ``put`` and ``delete`` it is read-only.
    read_only
        Whether to refuse every change.
    """
    read_only = read_only or not all(hasattr(store, name) for name in ("put", "delete"))
    adapted: Any
    if is_instance_of(store, "obstore", "LocalStore"):
        adapted = LocalStore(store.prefix or "/", read_only=read_only)
    else:
        adapted = _ObspecStore(ObspecAdapter(store), read_only=read_only)
    adapted._user_store = store
    result: Store = adapted
    return result


class _ObspecStore(ForeignStore):
    """A store that an object of obspec serves."""


class ObspecAdapter:
    """The methods of `tessarr.store.protocol.StoreProtocol` for an object of obspec.

    Changes have the version of the value as their precondition, so that concurrent writers on any
    machine lose no change. obspec has no conditional deletion: a deletion compares the version in
    a separate request.

    Parameters
    ----------
    store
        The object.
    """

    concurrency = _CONCURRENCY

    def __init__(self, store: Any) -> None:
        self.store = store

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObspecAdapter) and bool(self.store == other.store)

    def __hash__(self) -> int:
        return hash(type(self.store))

    def __reduce__(self) -> tuple[Any, ...]:
        return ObspecAdapter, (self.store,)

    def get(self, key: str) -> bytes | None:
        """Return the value of `key`, or None."""
        opened = self.open_head(key, None)
        return None if opened is None else opened.read(0, opened.size)

    def put(self, key: str, data: bytes) -> bytes | None:
        """Replace the value of `key` and return its version."""
        return _get_version(self.store.put(key, data))

    def delete(self, key: str) -> None:
        """Remove `key` if it exists."""
        try:
            self.store.delete(key)
        except FileNotFoundError:
            return

    def list(self, prefix: str) -> Sequence[str]:
        """Return every key in the folder of `prefix`."""
        folder = prefix[: prefix.rfind("/") + 1]
        return [item["path"] for batch in self.store.list(folder or None) for item in batch]

    def list_states(self, prefix: str) -> dict[str, bytes]:
        """Return the tags, times and sizes of all keys in a folder, by key without `prefix`."""
        return {
            item["path"][len(prefix) :]: repr(
                (item.get("e_tag"), str(item["last_modified"]), item["size"])
            ).encode()
            for batch in self.store.list(prefix or None)
            for item in batch
        }

    def list_dir(self, prefix: str) -> tuple[Sequence[str], Sequence[str]]:
        """Return the keys and the prefixes one level below `prefix`."""
        listing = self.store.list_with_delimiter(prefix or None)
        keys = [item["path"] for item in listing["objects"]]
        return keys, [f"{path.rstrip('/')}/" for path in listing["common_prefixes"]]

    def open_value(self, key: str) -> _OpenedValue | None:
        """Open a value to read parts of it."""
        try:
            return _OpenedValue(self.store, key, self.store.head(key))
        except FileNotFoundError:
            return None

    def open_head(self, key: str, count: int | None) -> _OpenedValue | None:
        """Open a value and read its first bytes; None: all."""
        return self._open_range(key, None if count is None else (0, max(count, 1)))

    def open_part(self, key: str, offset: int, count: int) -> _OpenedValue | None:
        """Open a value and read a range, which may exceed the value."""
        return self._open_range(key, (offset, offset + max(count, 1)))

    def open_tail(self, key: str, count: int) -> _OpenedValue | None:
        """Open a value and read its last bytes."""
        return self._open_range(key, {"suffix": max(count, 1)})

    def _open_range(self, key: str, span: Any) -> _OpenedValue | None:
        try:
            result = self.store.get(key, options={} if span is None else {"range": span})
            first = result.range[0]
            return _OpenedValue(self.store, key, result.meta, first, bytes(result.bytes()))
        except FileNotFoundError:
            return None
        except Exception:
            # An empty value has no range, and Azure has no ranges from the end.
            opened = self.open_value(key)
            if opened is None:
                return None
            tail: int | None = span["suffix"] if isinstance(span, dict) else None
            if opened.size and tail is None:
                raise
            if tail is not None:
                opened.read_ahead(max(0, opened.size - tail), opened.size)
            return opened

    def replace_version(self, key: str, data: bytes | None, version: bytes | None) -> bytes | bool:
        """Replace or remove a value if it has a version (None: absent); return the new one."""
        if data is None:
            opened = self.open_value(key)
            if (None if opened is None else opened.version) != version:
                return False
            self.delete(key)
            return True
        try:
            result = self.store.put(key, data, mode=_build_mode(version))
        except Exception as error:
            if type(error).__name__ in {"PreconditionError", "AlreadyExistsError"}:
                return False
            raise
        return _get_version(result) or True


class _OpenedValue:
    """A value of known size and version, with one part in memory."""

    def __init__(
        self, store: Any, key: str, meta: Mapping[str, Any], first: int = 0, part: bytes = b""
    ) -> None:
        self._store = store
        self._key = key
        self._tag = meta.get("e_tag")
        self._first = first
        self._part = part
        self.size = meta["size"]
        self.version = _get_version(meta)
        self.state = self.version

    def read(self, offset: int, count: int) -> bytes:
        """Return `count` bytes from `offset`."""
        if not self._contains(offset, count):
            return self._request(offset, count)
        begin = offset - self._first
        return self._part[begin : begin + count]

    def read_ahead(self, offset: int, end: int) -> None:
        """Keep a range in memory."""
        if offset == end:
            return
        self._part = self._request(offset, end - offset)
        self._first = offset

    def _contains(self, offset: int, count: int) -> bool:
        end = self._first + len(self._part)
        return not count or self._first <= offset <= offset + count <= end

    def _request(self, offset: int, count: int) -> bytes:
        options = {"range": (offset, offset + count)}
        if self._tag:
            options["if_match"] = self._tag
        try:
            return bytes(self._store.get(self._key, options=options).bytes())
        except Exception as error:
            if type(error).__name__ != "PreconditionError":
                raise
            raise StoreError(
                f"{self._key!r} was replaced while parts of it were read",
                kind="value_replaced",
                retryable=True,
            ) from error


def _get_version(meta: Mapping[str, Any]) -> bytes | None:
    """Return the bytes that name a version of a value; None if it has no tag.

    Google's storage compares the field ``version``; others compare ``e_tag``.
    """
    tag, version = meta.get("e_tag") or "", meta.get("version") or ""
    both = f"{tag}\n{version}".encode()
    if len(both) > _VERSION_BYTES:
        both = f"{tag}\n".encode()
    return both if both != b"\n" and len(both) <= _VERSION_BYTES else None


def _build_mode(version: bytes | None) -> Any:
    if version is None:
        return "create"
    tag, _, number = version.decode().partition("\n")
    return {name: text for name, text in (("e_tag", tag), ("version", number)) if text}
