"""Execution of flows against a store.

A *flow* is a generator that yields requests (`Get`, `Put`, …), or tuples of requests, and
receives the responses. It does no I/O itself. `run_flow` performs the requests with the store's
blocking methods.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

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
    "Hold",
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
    "TryRequest",
    "create_document",
    "read_document",
    "read_known_document",
    "run_flow",
]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Get:
    """Read a document; the response is bytes, or None if the key is absent.

    A document that is larger than the options allow raises a `MetadataError`.
    """

    key: str


@dataclass(frozen=True, slots=True)
class TryRequest:
    """Perform another request; the response is the error if access is denied or data is damaged."""

    request: Get | ListDir


@dataclass(frozen=True, slots=True)
class Put:
    """Store a value."""

    key: str
    data: bytes


@dataclass(slots=True)
class KnownDocument:
    """The last known content of a document, if any."""

    last: tuple[bytes, bytes | None] | None = None
    """The document and its version, which is None after a transaction stored it."""

    def became(self, document: bytes) -> None:
        """Record the document that a transaction stored."""
        self.last = document, None

    def take(self) -> tuple[bytes, bytes] | None:
        """Return and forget the document and its version, for a conditional write."""
        last, self.last = self.last, None
        if last is None or last[1] is None:
            return None
        return last[0], last[1]


@dataclass(frozen=True, slots=True)
class Create:
    """Store a value if the key is absent; the response is a bool."""

    key: str
    data: bytes
    seen: KnownDocument


@dataclass(frozen=True, slots=True)
class Replace:
    """Store a value if the current one is `expected` (None: absent); the response is a bool."""

    key: str
    data: bytes | None
    expected: bytes | None


@dataclass(frozen=True, slots=True)
class Change:
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


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete one key, which may be absent."""

    key: str


@dataclass(frozen=True, slots=True)
class DeletePrefix:
    """Delete every key under a prefix that is empty or ends in "/"."""

    prefix: str


@dataclass(frozen=True, slots=True)
class RemoveLink:
    """Remove a symbolic link to a folder and keep its target.

    With `dangling`, remove only a link without a target. The response is whether a link existed.
    """

    prefix: str
    dangling: bool = False


@dataclass(frozen=True, slots=True)
class HasAtomicDelete:
    """Return whether `DeletePrefix` is atomic, for readers and after a crash."""

    prefix: str


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy the value of a key to another key; the response is whether the key exists."""

    key: str
    target: str


@dataclass(frozen=True, slots=True)
class Rename:
    """Move all keys under a prefix to another prefix, in one step.

    The response is False if the store cannot do that; the keys are then unchanged.
    """

    prefix: str
    target: str


@dataclass(frozen=True, slots=True)
class Size:
    """Return the size of a value in bytes, or None if the key is absent."""

    key: str


@dataclass(frozen=True, slots=True)
class Hold:
    """Run a flow under the locks of some keys; the response is the flow's result.

    `work` returns the flow. Its arguments are whether the lock excludes all other writers of
    documents (see `Store.is_exclusive`), and a name that no other writer has.
    """

    keys: tuple[str, ...]
    work: Callable[[bool, str], Flow[Any]]


@dataclass(frozen=True, slots=True)
class ReplacePrefix:
    """Move all keys under a prefix to another in one step; the response is whether it worked."""

    staged: str
    prefix: str


@dataclass(frozen=True, slots=True)
class List:
    """List all keys under a prefix; the response is complete keys, sorted."""

    prefix: str


@dataclass(frozen=True, slots=True)
class ListDir:
    """List one level below a prefix; the response is (keys, prefixes)."""

    prefix: str


Request: TypeAlias = (
    Get
    | TryRequest
    | Put
    | Create
    | Replace
    | Change
    | Delete
    | DeletePrefix
    | RemoveLink
    | HasAtomicDelete
    | Copy
    | Rename
    | Hold
    | ReplacePrefix
    | Size
    | List
    | ListDir
)
Flow: TypeAlias = Generator["Request | tuple[Request, ...]", Any, T]


def read_document(store: Store, request: Get) -> bytes | None:
    """Return a metadata document, or None if the key is absent.

    Raises
    ------
    MetadataError
        If the document is larger than the options allow.
    """
    try:
        return store.get(request.key, limit=current().metadata_bytes)
    except DataError as error:
        _raise_too_large(error, request.key)
        raise
    except UnicodeEncodeError as error:
        message = f"{request.key!a} is not a key: {error.reason}"
        raise ArgumentError(message, kind="invalid_path") from error


def read_known_document(store: Store, key: str) -> tuple[bytes, KnownDocument] | None:
    """Return a document, and its version for a later `Change` without a read."""
    try:
        versioned = store.get_version(key, limit=current().metadata_bytes)
    except DataError as error:
        _raise_too_large(error, key)
        raise
    if versioned is None:
        return None
    document, version = versioned
    return document, KnownDocument((document, version))


def create_document(store: Store, key: str, data: bytes, seen: KnownDocument) -> bool:
    """Store a document unless the key exists; return whether it was stored."""
    is_stored, version = store.write(key, data, b"")
    if is_stored:
        seen.last = data, version
    return is_stored


def _change_document(store: Store, request: Change) -> Any:
    result = None

    def make(document: bytes | None) -> bytes | None:
        nonlocal result
        new, result = request.make(document)
        return document if new == document else new

    if request.seen is not None and _change_known_document(store, request.key, make, request.seen):
        return result
    try:
        store.change(request.key, make, limit=current().metadata_bytes)
    except DataError as error:
        _raise_too_large(error, request.key)
        raise
    except UnicodeEncodeError as error:
        message = f"{request.key!a} is not a key: {error.reason}"
        raise ArgumentError(message, kind="invalid_path") from error
    return result


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


def _raise_too_large(error: DataError, key: str) -> None:
    """Raise a `MetadataError` if the error reports a document with too many bytes."""
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


def _copy_value(store: Store, request: Copy) -> bool:
    value = store.get(request.key)
    if value is None:
        return False
    store.put(request.target, value)
    return True


def _rename_prefix(store: Store, request: Rename) -> bool:
    """Rename a folder, or a prefix of a store that can rename it in one step."""
    if store.read_only:
        return False
    if not isinstance(store, LocalStore):
        is_atomic = store.replaces_at_once(request.target)
        return is_atomic and store.replace_prefix(request.prefix, request.target)
    from pathlib import Path

    root = Path(store.path)
    source, target = root / request.prefix, root / request.target
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


def _remove_link(store: Store, request: RemoveLink) -> bool:
    if request.dangling:
        if not isinstance(store, LocalStore):
            return False
        from pathlib import Path

        path = Path(store.path) / request.prefix
        if path.exists() or not path.is_symlink():
            return False
    return store.remove_link(request.prefix)


def _run_locked(store: Store, request: Hold) -> Any:
    def hold(keys: tuple[str, ...]) -> Any:
        if not keys:
            return run_flow(request.work(store.is_exclusive, os.urandom(6).hex()), store)
        return store.hold(keys[0], lambda: hold(keys[1:]))

    return hold(request.keys)


def _try_request(store: Store, request: TryRequest) -> Any:
    try:
        return perform_request(request.request, store)
    except (AccessError, DataError, MetadataError) as error:
        return error


_PERFORMERS: dict[type, Callable[[Any, Any], Any]] = {
    Get: read_document,
    TryRequest: _try_request,
    Put: lambda store, r: store.put(r.key, r.data),
    Create: lambda store, r: create_document(store, r.key, r.data, r.seen),
    Replace: lambda store, r: store.replace(r.key, r.data, r.expected),
    Change: _change_document,
    Delete: lambda store, r: store.delete(r.key),
    DeletePrefix: lambda store, r: store.delete_prefix(r.prefix),
    RemoveLink: _remove_link,
    HasAtomicDelete: lambda store, r: store.deletes_at_once(r.prefix),
    Copy: _copy_value,
    Rename: _rename_prefix,
    Hold: _run_locked,
    ReplacePrefix: lambda store, r: store.replace_prefix(r.staged, r.prefix),
    Size: lambda store, r: store.size(r.key),
    List: lambda store, r: store.list(r.prefix),
    ListDir: lambda store, r: store.list_dir(r.prefix),
}


def perform_request(request: Request | tuple[Request, ...], store: Store) -> Any:
    """Perform one request, or a batch in order."""
    if type(request) is tuple:
        return tuple(_PERFORMERS[type(r)](store, r) for r in request)
    return _PERFORMERS[type(request)](store, request)


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
