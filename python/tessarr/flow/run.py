"""Execution of flows against a store.

A *flow* is a generator that yields requests (`Get`, `Put`, …), or tuples of requests, and
receives the responses. It does no I/O itself. `run_flow` performs the requests with the store's
blocking methods. If the store waits for responses, it performs the reads of a tuple concurrently.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from functools import partialmethod
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from tessarr.errors import (
    AccessError,
    ArgumentError,
    DataError,
    MetadataError,
    Problem,
    TessarrError,
)
from tessarr.options import current
from tessarr.store import LocalStore

if TYPE_CHECKING:
    from tessarr._engine import Store

__all__ = [
    "Change",
    "Copy",
    "Create",
    "Delete",
    "DeletePrefix",
    "Flow",
    "Get",
    "HasAtomicDelete",
    "HasFolder",
    "Hold",
    "IsCurrent",
    "KnownDocument",
    "List",
    "ListDir",
    "Put",
    "RemoveLink",
    "Rename",
    "Replace",
    "ReplacePrefix",
    "Request",
    "Size",
    "Sizes",
    "TryRequest",
    "create_document",
    "read_known_document",
    "run_flow",
]

T = TypeVar("T")

_MAX_CONCURRENCY: Final = 64
"""The maximum number of concurrent reads of a batch."""

_ABSENT: Final = b""
"""The version of an absent key."""


class Request:
    """A request of a flow to its store."""

    __slots__ = ()

    @property
    def read_call(self) -> tuple[str, str] | None:
        """For a read, the method of the store and its argument; a batch of reads has no order."""
        return None

    def perform(self, store: Store) -> Any:
        """Perform the request and return its response."""
        raise NotImplementedError


@dataclass(slots=True)
class KnownDocument:
    """The last known content of a document, if any."""

    last: tuple[bytes, bytes | None] | None = None
    """The document and its version, which is None if the store has not returned it."""

    @property
    def document(self) -> bytes | None:
        """The document, or None if it is unknown or absent."""
        return None if self.last is None else self.last[0]

    def became(self, document: bytes) -> None:
        """Record a document that was stored without a known version."""
        self.last = document, None

    def take(self) -> tuple[bytes, bytes] | None:
        """Return and forget the document and its version, for a conditional write."""
        last, self.last = self.last, None
        if last is None or last[1] is None:
            return None
        return last[0], last[1]


@dataclass(frozen=True, slots=True)
class Get(Request):
    """Read a document; the response is bytes, or None if the key is absent.

    A document that is larger than the options allow raises a `MetadataError`. `seen` receives the
    document with its version, for a later `Replace` or `Change` without a read.
    """

    key: str
    seen: KnownDocument | None = field(default=None, compare=False)

    @property
    def read_call(self) -> tuple[str, str] | None:
        return ("get", self.key) if self.seen is None else None

    def perform(self, store: Store) -> bytes | None:
        limit = current().metadata_bytes
        try:
            if self.seen is None:
                return store.get(self.key, limit=limit)
            self.seen.last = store.get_version(self.key, limit=limit)
        except (DataError, UnicodeEncodeError) as error:
            _raise_for_key(error, self.key)
            raise
        return self.seen.document


@dataclass(frozen=True, slots=True)
class IsCurrent(Request):
    """Return whether a document is unchanged, without reading it if its version is known."""

    key: str
    seen: KnownDocument

    def perform(self, store: Store) -> bool:
        last = self.seen.last
        if last is not None and last[1] is not None:
            value = store.open_value(self.key)
            return value is not None and value.state == last[1]
        current = KnownDocument()
        document = Get(self.key, current).perform(store)
        if last is None or document != last[0]:
            return False
        self.seen.last = current.last
        return True


@dataclass(frozen=True, slots=True)
class TryRequest(Request):
    """Perform another request; the response is the error if access is denied or data is damaged."""

    request: Get | ListDir

    @property
    def read_call(self) -> tuple[str, str] | None:
        return self.request.read_call

    def perform(self, store: Store) -> Any:
        try:
            return self.request.perform(store)
        except (AccessError, DataError, MetadataError) as error:
            return error


@dataclass(frozen=True, slots=True)
class Put(Request):
    """Store a value."""

    key: str
    data: bytes

    def perform(self, store: Store) -> None:
        store.put(self.key, self.data)


@dataclass(frozen=True, slots=True)
class Create(Request):
    """Store a value if the key is absent; the response is a bool."""

    key: str
    data: bytes
    seen: KnownDocument

    def perform(self, store: Store) -> bool:
        return create_document(store, self.key, self.data, self.seen)


@dataclass(frozen=True, slots=True)
class Replace(Request):
    """Store a value if the current one is `expected` (None: absent); the response is a bool.

    If `seen` has the version of `expected`, the store compares versions and needs no read.
    """

    key: str
    data: bytes | None
    expected: bytes | None
    seen: KnownDocument | None = None

    def perform(self, store: Store) -> bool:
        if self.expected is None:
            return store.write(self.key, self.data, _ABSENT)[0]
        last = None if self.seen is None else self.seen.take()
        if last is None:
            return store.replace(self.key, self.data, self.expected)
        return store.write(self.key, self.data, last[1])[0]


@dataclass(frozen=True, slots=True)
class Change(Request):
    """Replace a document by a function of its old content, atomically.

    `make` receives the old bytes, or None if the key is absent. It returns the new bytes (None:
    delete the key; the old bytes: no change) and the response. A conflict with a program that does
    not use the lock causes another call. Errors of `make` propagate. A document that is larger than
    the options allow raises a `MetadataError`.

    If the version in `seen` is current, the change needs no read.
    """

    key: str
    make: Callable[[bytes | None], tuple[bytes | None, Any]]
    seen: KnownDocument | None = None

    def perform(self, store: Store) -> Any:
        result = None

        def make(document: bytes | None) -> bytes | None:
            nonlocal result
            new, result = self.make(document)
            return document if new == document else new

        if self.seen is not None and _change_known_document(store, self.key, make, self.seen):
            return result
        try:
            store.change(self.key, make, limit=current().metadata_bytes)
        except (DataError, UnicodeEncodeError) as error:
            _raise_for_key(error, self.key)
            raise
        return result


@dataclass(frozen=True, slots=True)
class Delete(Request):
    """Delete one key, which may be absent."""

    key: str

    def perform(self, store: Store) -> None:
        store.delete(self.key)


@dataclass(frozen=True, slots=True)
class DeletePrefix(Request):
    """Delete every key under a prefix that is empty or ends in "/"."""

    prefix: str

    def perform(self, store: Store) -> None:
        store.delete_prefix(self.prefix)


@dataclass(frozen=True, slots=True)
class RemoveLink(Request):
    """Remove a symbolic link to a folder and keep its target.

    With `dangling`, remove only a link without a target. The response is whether a link existed.
    """

    prefix: str
    dangling: bool = False

    def perform(self, store: Store) -> bool:
        if self.dangling:
            if not isinstance(store, LocalStore):
                return False
            from pathlib import Path

            path = Path(store.path) / self.prefix
            if path.exists() or not path.is_symlink():
                return False
        return store.remove_link(self.prefix)


@dataclass(frozen=True, slots=True)
class HasFolder(Request):
    """Return whether values may exist under a prefix; only stores of files look for the folder."""

    prefix: str

    def perform(self, store: Store) -> bool:
        if not isinstance(store, LocalStore):
            return True
        try:
            os.stat(f"{store.path}/{self.prefix}")  # noqa: PTH116 (faster than a Path)
        except FileNotFoundError:
            return False
        except (OSError, ValueError):
            return True  # a read of the values raises the error
        return True


@dataclass(frozen=True, slots=True)
class HasAtomicDelete(Request):
    """Return whether `DeletePrefix` is atomic, for readers and after a crash."""

    prefix: str

    def perform(self, store: Store) -> bool:
        return store.deletes_at_once(self.prefix)


@dataclass(frozen=True, slots=True)
class Copy(Request):
    """Copy the value of a key to another key; the response is whether the key exists."""

    key: str
    target: str

    def perform(self, store: Store) -> bool:
        value = store.get(self.key)
        if value is None:
            return False
        store.put(self.target, value)
        return True


@dataclass(frozen=True, slots=True)
class Rename(Request):
    """Move all keys under a prefix to another prefix, in one step.

    The response is False if the store cannot do that; the keys are then unchanged.
    """

    prefix: str
    target: str

    def perform(self, store: Store) -> bool:
        if store.read_only:
            return False
        if not isinstance(store, LocalStore):
            is_atomic = store.replaces_at_once(self.target)
            return is_atomic and store.replace_prefix(self.prefix, self.target)
        from pathlib import Path

        store.store_buffered_chunks(self.prefix)
        root = Path(store.path)
        source, target = root / self.prefix, root / self.target
        if source.is_symlink():  # renaming would break a relative link
            return False
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            source.rename(target)  # fails if the target exists
        except OSError:
            return False
        if store.durable:
            for folder in {source.parent, target.parent}:
                file = os.open(folder, os.O_RDONLY)
                try:
                    os.fsync(file)
                finally:
                    os.close(file)
        return True


@dataclass(frozen=True, slots=True)
class Size(Request):
    """Return the size of a value in bytes, or None if the key is absent."""

    key: str

    @property
    def read_call(self) -> tuple[str, str]:
        return "size", self.key

    def perform(self, store: Store) -> int | None:
        return store.size(self.key)


@dataclass(frozen=True, slots=True)
class Sizes(Request):
    """Return the sizes of all values under a prefix, by complete keys in order.

    The response is None if the listings of the store lack sizes.
    """

    prefix: str

    def perform(self, store: Store) -> dict[str, int] | None:
        sizes = store.list_sizes(self.prefix)
        return None if sizes is None else dict(sizes)


@dataclass(frozen=True, slots=True)
class Hold(Request):
    """Run a flow under the locks of some keys; the response is the flow's result.

    `work` returns the flow. Its arguments are whether the lock excludes all other writers of
    documents (see `Store.is_exclusive`), and a name that no other writer has.
    """

    keys: tuple[str, ...]
    work: Callable[[bool, str], Flow[Any]]

    def perform(self, store: Store) -> Any:
        def hold(keys: tuple[str, ...]) -> Any:
            if not keys:
                return run_flow(self.work(store.is_exclusive, os.urandom(6).hex()), store)
            return store.hold(keys[0], lambda: hold(keys[1:]))

        return hold(self.keys)


@dataclass(frozen=True, slots=True)
class ReplacePrefix(Request):
    """Move all keys under a prefix to another in one step; the response is whether it worked."""

    staged: str
    prefix: str

    def perform(self, store: Store) -> bool:
        return store.replace_prefix(self.staged, self.prefix)


@dataclass(frozen=True, slots=True)
class List(Request):
    """List all keys under a prefix; the response is complete keys, sorted."""

    prefix: str

    @property
    def read_call(self) -> tuple[str, str]:
        return "list", self.prefix

    def perform(self, store: Store) -> list[str]:
        return store.list(self.prefix)


@dataclass(frozen=True, slots=True)
class ListDir(Request):
    """List one level below a prefix; the response is (keys, prefixes)."""

    prefix: str

    @property
    def read_call(self) -> tuple[str, str]:
        return "list_dir", self.prefix

    def perform(self, store: Store) -> tuple[list[str], list[str]]:
        return store.list_dir(self.prefix)


Flow: TypeAlias = Generator[Request | tuple[Request, ...], Any, T]


def read_known_document(store: Store, key: str) -> tuple[bytes, KnownDocument] | None:
    """Return a document, and its version for a later `Change` without a read."""
    seen = KnownDocument()
    document = Get(key, seen).perform(store)
    return None if document is None else (document, seen)


def create_document(store: Store, key: str, data: bytes, seen: KnownDocument) -> bool:
    """Store a document unless the key exists; return whether it was stored."""
    is_stored, version = store.write(key, data, _ABSENT)
    if is_stored:
        seen.last = data, version
    return is_stored


def _change_known_document(
    store: Store, key: str, make: Callable[[bytes | None], bytes | None], seen: KnownDocument
) -> bool:
    """Change a document with a known version; return False if it is unchanged."""
    last = seen.take()
    if last is None:
        return False
    old, version = last
    try:
        new_document = make(old)
    except TessarrError:
        return False  # the current document may differ, and the change may be valid for it
    if new_document is old:
        return False
    is_stored, new_version = store.write(key, new_document, version)
    if is_stored and new_document is not None:
        seen.last = new_document, new_version
    return is_stored


def _raise_for_key(error: DataError | UnicodeEncodeError, key: str) -> None:
    """Raise a clearer error for an invalid key, or for a document with too many bytes."""
    if isinstance(error, UnicodeEncodeError):
        message = f"{key!a} is not a key: {error.reason}"
        raise ArgumentError(message, kind="invalid_path") from error
    if error.kind != "too_large":
        return
    limit = current().metadata_bytes
    problem = Problem("", f"it has more than {limit} bytes", "too_large")
    raise MetadataError(
        f"invalid metadata {key!r}: {problem}; raise the option metadata_bytes "
        "if it is meant to be so large",
        key=key,
        problems=[problem],
    ) from error


def perform_request(request: Request | tuple[Request, ...], store: Store) -> Any:
    """Perform one request, or a batch: reads concurrently if the store waits, others in order."""
    if not isinstance(request, tuple):
        return request.perform(store)
    concurrency = min(len(request), store.concurrency, _MAX_CONCURRENCY)
    if concurrency > 1:
        calls = [call for part in request if (call := part.read_call) is not None]
        if len(calls) == len(request):
            limit = current().metadata_bytes
            responses = store.read_batch(calls, concurrency, limit=limit)
            received: Any = _ReceivedResponses(dict(zip(calls, responses, strict=True)))
            return tuple([part.perform(received) for part in request])
    return tuple([part.perform(store) for part in request])


class _ReceivedResponses:
    """The responses to a batch of reads, with the methods of `Store` that the reads call."""

    def __init__(self, responses: dict[tuple[str, str], Any]) -> None:
        self._responses = responses

    def _respond(self, method: str, key: str, *, limit: int | None = None) -> Any:
        del limit  # the batch has the same limit
        response = self._responses[method, key]
        if isinstance(response, BaseException):
            raise response
        return response

    get = partialmethod(_respond, "get")
    size = partialmethod(_respond, "size")
    list = partialmethod(_respond, "list")
    list_dir = partialmethod(_respond, "list_dir")


def run_flow(flow: Flow[T], store: Store) -> T:
    """Run a flow to its end and return its result.

    Parameters
    ----------
    flow
        The generator; it receives the store's errors, so that it can undo its changes.
    store
        The store that performs the requests.

    Returns
    -------
    object
        The flow's return value.
    """
    try:
        request = next(flow)
        while True:
            try:
                reply = perform_request(request, store)
            except BaseException as error:  # noqa: BLE001 (the flow may undo, and raises it again)
                request = flow.throw(error)
            else:
                request = flow.send(reply)
    except StopIteration as end:
        value: T = end.value
        return value
