"""The files of a folder in an fsspec file system as a store."""

from __future__ import annotations

import builtins
import os
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from http.client import responses
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from tessarr.errors import ReadOnlyError, UnsupportedError
from tessarr.store.fsspec.client_errors import (
    build_store_error,
    describe_error,
    find_hidden_failure,
    raises_store_errors,
)
from tessarr.store.object.urls import SCHEMES, hide_query
from tessarr.store.transient import get_status, is_transient, iterate_causes

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FileSettings", "Files", "get_protocols"]

_SMALL_BYTES: Final = 1 << 16
_NOT_FOUND: Final = 404
_ABSENT_STATUSES: Final = frozenset({401, 403, 407, 410})
"""Statuses that some web servers send for absent files."""
_METADATA_NAMES: Final = ("zarr.json", ".zgroup", ".zarray", ".zmetadata")
_ABSENT: Final = (KeyError, FileNotFoundError)
"""The exceptions that mean an absent key to the engine."""
_UNSAFE_SEGMENTS: Final = frozenset({"", ".", ".."})
_PATTERN_CHARACTERS: Final = frozenset("*?[")
_STATE_FIELDS: Final = frozenset(
    {"crc", "created", "etag", "generation", "last_modified", "lastmodified", "modified", "mtime"}
)
"""Lower-case names of file properties that change with the content."""


def get_protocols(fs: Any) -> set[str]:
    """Return the schemes of the URLs of a file system."""
    protocol = fs.protocol
    return {protocol} if isinstance(protocol, str) else set(protocol)


@dataclass(frozen=True, slots=True)
class FileSettings:
    """Settings of a folder of a file system.

    Parameters
    ----------
    missing_errors
        The classes of errors that mean an absent file.
    absent_statuses
        The HTTP status codes that mean an absent file.
    concurrency
        The number of concurrent requests.
    """

    missing_errors: tuple[type[Exception], ...]
    absent_statuses: tuple[int, ...] = (404,)
    concurrency: int = 16


class Files:
    """A folder of an fsspec file system with the methods of `StoreProtocol`."""

    identity: str
    _location: str

    def __init__(self, fs: Any, root: str, settings: FileSettings) -> None:
        self.settings = settings
        self.concurrency = settings.concurrency
        self._can_list = False
        self._process = os.getpid()
        self._original_fs = fs
        self._fs_by_process: dict[int, Any] = {}  # a forked child needs another file system
        self._preparing: dict[int, Lock] = {}
        self._root = root
        protocols = get_protocols(fs)
        self._is_web = bool(protocols & {"http", "https"})
        self._has_folders = protocols.isdisjoint(SCHEMES)

    @property
    def _fs(self) -> Any:
        process = os.getpid()
        fs = self._fs_by_process.get(process)
        if fs is None:
            with self._preparing.setdefault(process, Lock()):
                fs = self._fs_by_process.get(process)
                if fs is None:
                    fs = self._fs_by_process[process] = self._create_fs(process)
        return fs

    @raises_store_errors("open")
    def _create_fs(self, process: int) -> Any:
        """Return the file system for requests of a process."""
        if process == self._process:
            return self._original_fs
        # A forked child lacks the thread of the event loop.
        import pickle

        return pickle.loads(pickle.dumps(self._original_fs))  # noqa: S301 (our own)

    def _check_may_block(self) -> None:
        """Raise an error in the thread of the event loop that has to serve the requests."""
        import asyncio

        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            return
        if running is getattr(self._fs, "loop", None):
            raise UnsupportedError(
                "the thread of an event loop cannot wait for that loop's own requests: call "
                "Tessarr in another thread, as with asyncio.to_thread"
            )

    def _to_path(self, key: str) -> str:
        if self._is_web:
            from urllib.parse import quote

            key = quote(key)
        return f"{self._root}/{key}" if self._root else key

    def _to_keys(self, paths: builtins.list[str]) -> builtins.list[str]:
        start = len(self._root)
        keys = [path[start:].strip("/") for path in paths if path.startswith(f"{self._root}/")]
        if not self._root:
            keys = [path.strip("/") for path in paths]
        if self._is_web:
            from urllib.parse import unquote

            keys = [unquote(key) for key in keys]
        return keys

    def get(self, key: str) -> bytes | None:
        opened = self.open_head(key, None)
        return None if opened is None else opened.read(0, opened.size)

    def _is_absent(self, error: BaseException, path: str) -> bool:
        """Return whether an error of the file system means that a key is absent."""
        says_so = isinstance(error, self.settings.missing_errors) or any(
            get_status(cause) in self.settings.absent_statuses for cause in iterate_causes(error)
        )
        return says_so and self._find_hidden_failure(error, path) is None

    def _check_absent(self, error: Exception, path: str) -> None:
        """Raise an error of the file system, unless it means that a key is absent."""
        if not self._is_absent(error, path):
            raise self._find_hidden_failure(error, path) or error

    def _find_hidden_failure(self, error: BaseException, path: str) -> BaseException | None:
        """Return the failure behind an error that claims an absent file, or None."""
        hidden = find_hidden_failure(error, self.settings.absent_statuses)
        if hidden is None and isinstance(error, FileNotFoundError) and _is_cache(self._fs):
            # A caching file system reports every failure as an absent file.
            try:
                self._fs.fs.info(path)
            except Exception as failure:  # noqa: BLE001 (returned unless the file is absent)
                hidden = find_hidden_failure(failure, self.settings.absent_statuses)
                return hidden if isinstance(failure, self.settings.missing_errors) else failure
            return ConnectionError("the file system did not find an existing file")
        return hidden

    def _error(self, action: str, error: Exception, *arguments: Any) -> Exception:
        """Return the error to raise for a failure; the first argument is usually a key."""
        key = arguments[0] if arguments and isinstance(arguments[0], str) else ""
        location = self._format_location(self._to_path(key))
        return build_store_error(
            error, action, location, key=key or None, reason=self._describe_error(error)
        )

    def _format_location(self, path: str) -> str:
        """Return the URL of a path, for messages."""
        try:
            return hide_query(str(self._original_fs.unstrip_protocol(path)))
        except Exception:  # noqa: BLE001 (any file system; the path suffices)
            return path

    def _describe_error(self, error: Exception) -> str:
        """Return the reason of a failure and a hint."""
        if any(type(cause).__name__ == "NoCredentialsError" for cause in iterate_causes(error)):
            return (
                f"{describe_error(error)}; for what is public give storage_options={{'anon': True}}"
            )
        status = next(filter(None, map(get_status, iterate_causes(error))), 0)
        if not self._is_web or not status:
            return describe_error(error)
        reason = f"the server answers {status} {responses.get(status, '')}".rstrip()
        if status not in _ABSENT_STATUSES:
            return reason
        return (
            f"{reason}; give credentials in storage_options, such as headers={{'Authorization': …}}"
            ", or, if the server reports absent files so, missing_status=(404, "
            f"{status})"
        )

    @raises_store_errors("read", *_ABSENT)
    def open_head(self, key: str, count: int | None) -> _OpenedFile | None:
        """Open a file and read its first bytes, or all."""
        path = self._to_path(key)
        options = {} if count is None else {"start": 0, "end": count}
        try:
            data: bytes = self._fs.cat_file(path, **options)
        except Exception as error:  # noqa: BLE001 (raised unless the file is absent)
            if count is None:
                self._check_absent(error, path)
                return None
            # Servers refuse empty ranges with various errors.
            return None if self._is_absent(error, path) else self.open_head(key, None)
        if count is not None and len(data) >= count:
            return self.open_value(key)
        return _OpenedFile(self, path, len(data), data)

    @raises_store_errors("read", *_ABSENT)
    def open_value(self, key: str) -> _OpenedFile | None:
        fs, path = self._fs, self._to_path(key)
        try:
            fs.invalidate_cache(path.rpartition("/")[0])
            info = fs.info(path)
            if info.get("type") == "directory":
                return None
            size: int | None = info.get("size")
            if size is None or size <= _SMALL_BYTES:
                data: bytes = fs.cat_file(path)
                return _OpenedFile(self, path, len(data), data)
        except Exception as error:  # noqa: BLE001 (raised unless the file is absent)
            self._check_absent(error, path)
            return None
        return _OpenedFile(self, path, size, None, _get_state(info))

    @raises_store_errors("write")
    def put(self, key: str, data: bytes) -> bytes | bool | None:
        fs, path = self._fs, self._to_path(key)
        try:
            try:
                fs.pipe_file(path, data)
            except FileNotFoundError:
                if not self._has_folders:  # `makedirs` would create the bucket
                    raise
                fs.makedirs(path.rpartition("/")[0], exist_ok=True)
                fs.pipe_file(path, data)
        except NotImplementedError as error:
            raise self._build_read_only_error(key) from error
        return None

    @raises_store_errors("delete", *_ABSENT)
    def delete(self, key: str) -> None:
        path = self._to_path(key)
        try:
            self._fs.rm_file(path)
        except self.settings.missing_errors as error:
            self._check_absent(error, path)
        except NotImplementedError as error:
            raise self._build_read_only_error(key) from error

    def _build_read_only_error(self, key: str) -> ReadOnlyError:
        name = type(self._original_fs).__qualname__
        return ReadOnlyError(f"key {key!r}: the file system {name} cannot be written to", key=key)

    @raises_store_errors("list")
    def list(self, prefix: str) -> builtins.list[str]:
        paths = self._list_folder(prefix, self._fs.find)
        keys = [key for key in self._to_keys([*paths]) if key.startswith(prefix)]
        self._check_can_list(prefix, listed=bool(keys))
        return keys

    @raises_store_errors("list")
    def list_states(self, prefix: str) -> dict[str, bytes] | None:
        """Return the states of the files in a folder, by key without `prefix`.

        None if a listing shows no tags or times, as on web servers.
        """
        if self._is_web:
            return None
        entries = self._list_folder(prefix, partial(self._fs.find, detail=True))
        keys = self._to_keys([*entries])
        states = {key: _get_state(info) for key, info in zip(keys, entries.values(), strict=True)}
        known = {key[len(prefix) :]: state for key, state in states.items() if state is not None}
        return known if len(known) == len(states) else None

    @raises_store_errors("list")
    def list_dir(self, prefix: str) -> tuple[builtins.list[str], builtins.list[str]]:
        entries = self._list_folder(prefix, partial(self._fs.ls, detail=True))
        self._check_can_list(prefix, listed=bool(entries))
        path = self._to_path(prefix).strip("/")
        members = [entry for entry in entries if entry["name"].strip("/") != path]
        keys = [entry["name"] for entry in members if entry["type"] != "directory"]
        prefixes = [entry["name"] for entry in members if entry["type"] == "directory"]
        return self._to_keys(keys), [f"{name}/" for name in self._to_keys(prefixes)]

    def _list_folder(self, prefix: str, request: Callable[[str], Any]) -> Any:
        """Return the response to a request for the path of a folder; {} if it is absent."""
        path = self._to_path(prefix).rstrip("/")
        try:
            self._fs.invalidate_cache(path)
            return request(path)
        except Exception as error:  # noqa: BLE001 (raised unless the file is absent)
            self._check_list_error(error, path)
            return {}

    def _check_list_error(self, error: Exception, path: str) -> None:
        """Raise the error of a listing, unless it means an absent folder."""
        if isinstance(error, self.settings.missing_errors):
            self._check_absent(error, path)
            return
        status = next(filter(None, map(get_status, iterate_causes(error))), 0)
        if self._is_web and 400 <= status < 500 and not is_transient(error):
            if status != _NOT_FOUND:
                raise _build_listing_error(path, f"it answers {status}") from error
            return
        raise error

    def _check_can_list(self, prefix: str, *, listed: bool) -> None:
        """Raise an error if a web server does not list the folder of a node.

        A folder that is not a node may be empty; the check then uses the root.
        """
        self._can_list = self._can_list or listed
        if self._can_list or not self._is_web:
            return
        folders = ["", prefix] if prefix.endswith("/") else [""]
        for folder in folders:
            if any(self.get(f"{folder}{name}") is not None for name in _METADATA_NAMES):
                break
        else:
            return
        try:
            self._can_list = bool(self._fs.ls(self._to_path(folder).rstrip("/"), detail=False))
        except Exception as error:
            raise _build_listing_error(self._to_path(folder), "it lists no folder") from error
        if not self._can_list:
            raise _build_listing_error(
                self._to_path(folder), "it lists nothing at an existing node"
            )

    @raises_store_errors("delete")
    def delete_prefix(self, prefix: str) -> None:
        # Do not delete the folder, which may be the bucket itself.
        keys = [key for key in self.list(prefix) if _UNSAFE_SEGMENTS.isdisjoint(key.split("/"))]
        # Metadata first: an interrupted deletion leaves no array without chunks.
        keys.sort(key=lambda key: not _is_document(key))
        for documents in (True, False):
            part = [self._to_path(key) for key in keys if _is_document(key) == documents]
            plain = [path for path in part if _PATTERN_CHARACTERS.isdisjoint(path)]
            if plain:
                self._fs.rm(plain)
        for key in keys:
            if not _PATTERN_CHARACTERS.isdisjoint(
                self._to_path(key)
            ):  # `rm` would treat the path as a pattern
                self.delete(key)


def _is_cache(fs: Any) -> bool:
    """Return whether a file system caches the files of another one."""
    return any(kind.__module__ == "fsspec.implementations.cached" for kind in type(fs).__mro__)


def _is_document(key: str) -> bool:
    name = key.rpartition("/")[2]
    return name == "zarr.json" or name.startswith(".")


def _build_listing_error(path: str, why: str) -> UnsupportedError:
    return UnsupportedError(
        f"the server cannot list {path}: {why}; open nodes by their paths, or have their writer "
        "call tessarr.consolidate_metadata",
        extension="listing",
    )


class _OpenedFile:
    """An open file; `data` holds a small file."""

    def __init__(
        self, files: Files, path: str, size: int, data: bytes | None, state: bytes | None = None
    ) -> None:
        self.size = size
        self.state = state
        self._files = files
        self._path = path
        self._data = data

    def _error(self, action: str, error: Exception, *_: Any) -> Exception:
        return self._files._error(action, error, *self._files._to_keys([self._path]))

    @raises_store_errors("read")
    def read(self, offset: int, count: int) -> bytes:
        if self._data is None:
            part: bytes = self._files._fs.cat_file(self._path, start=offset, end=offset + count)
            if len(part) <= count:
                return part
            self._data = part  # the server ignored the range
        return self._data[offset : offset + count]


def _get_state(info: dict[str, Any]) -> bytes | None:
    """Return bytes that identify the state of a file; None if only its size is known."""
    if _STATE_FIELDS.isdisjoint(map(str.lower, info)):
        return None
    return sha256(repr(sorted(info.items())).encode("utf-8", "surrogatepass")).digest()
