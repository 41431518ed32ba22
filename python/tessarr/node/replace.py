"""Replacement of a node in one atomic step.

The new node is built beside the old one, in a folder (or below a prefix) that listings omit. Then
one step exchanges both. After a crash, or on a full disk, either the old or the new node exists.
The next replacement of the same node removes leftovers of a crash.

Folders and files of the new node get the permissions of the old node.

Stores that cannot exchange two prefixes in one step delete the old node first.
"""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tessarr.errors import StoreError
from tessarr.flow import create
from tessarr.flow.changes import change_with_copies
from tessarr.flow.open import MARKERS, node_exists, prefix_of
from tessarr.flow.run import ReplacePrefix, run_flow
from tessarr.format.node_path import STAGED
from tessarr.metadata.node import GroupMeta
from tessarr.store import LocalStore
from tessarr.store.wrappers.wrapper import PrefixStore

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from tessarr.flow.open import Node
    from tessarr.flow.run import Flow
    from tessarr.store import Store

__all__ = ["replace_node"]


def replace_node(
    store: Store,
    path: str,
    meta: Node,
    *,
    build: Callable[[Store], object] | None = None,
    within: str | None = None,
) -> bool:
    """Replace a node, with everything below it, in one atomic step.

    Parameters
    ----------
    store, path
        The location.
    meta
        The metadata of the node.
    build
        Creates the node, and everything below it, at the root of the store that it receives. By
        default the function stores only the document.
    within
        The path of a group that exists: see `tessarr.flow.create.create_node`.

    Returns
    -------
    bool
        Whether the node was replaced. If False, the store is unchanged: it does not support the
        exchange, or the path holds keys without a node, or neither a node nor data exists.
    """
    stage = _find_staging(store, path)
    if stage is None:
        return False
    if not run_flow(node_exists(path, v1=True), store) and (
        build is None or any(store.list_dir(prefix_of(path)))
    ):
        return False
    groups = run_flow(create.prepare_ancestors(path, meta, within), store)
    # The nodes below a built group are new, too.
    rebuild = build is not None and isinstance(meta, GroupMeta)
    exchange = partial(_exchange, stage)
    flow = change_with_copies(groups, path, exchange, below=True, rebuild=rebuild)
    return stage.store.hold(stage.lock, lambda: _replace(stage, meta, build, flow))


@dataclass(frozen=True, slots=True)
class _Staging:
    """The prefixes of a replacement."""

    store: Store
    hidden: str
    """The prefix whose keys listings omit."""
    target: str
    """The prefix of the node."""
    lock: str
    """The key of the lock."""

    @property
    def built_prefix(self) -> str:
        """The prefix of the new node, and after the exchange that of the old node."""
        # One level deeper: other libraries do not treat a folder without a document as a node.
        return f"{self.hidden}node/"


def _exchange(stage: _Staging) -> Flow[bool]:
    is_exchanged: bool = yield ReplacePrefix(stage.built_prefix, stage.target)
    return is_exchanged


def _replace(
    stage: _Staging, meta: Node, build: Callable[[Store], object] | None, exchange: Flow[bool]
) -> bool:
    store = stage.store
    store.delete_prefix(stage.hidden)  # leftovers of a killed program
    # This store hides the groups above, so that building does not update their copies of metadata.
    staged_store = PrefixStore(store, stage.built_prefix)
    permissions = _Permissions.read(store, stage.target)
    try:
        permissions.protect(store, stage.hidden)
        if build is None:
            run_flow(create.create_documents("", create.dump_documents(meta)), staged_store)
        else:
            build(staged_store)
        permissions.apply(store, stage.built_prefix)
        is_replaced = run_flow(exchange, store)
    except BaseException as error:
        try:
            store.delete_prefix(stage.hidden)
        except Exception as cleanup_error:  # noqa: BLE001 (the first error is what matters)
            error.add_note(f"what was written cannot be removed: {cleanup_error}")
        raise
    with suppress(StoreError):  # the new node exists; the next replacement removes leftovers
        store.delete_prefix(stage.hidden)
    return is_replaced


def _find_staging(store: Store, path: str) -> _Staging | None:
    prefix = prefix_of(path)
    if store.read_only:
        return None
    if store.replaces_at_once(prefix):
        return _Staging(store, f"{path}{STAGED}/", prefix, f"{path}.replace")
    if path or not isinstance(store, LocalStore):
        return None
    return _find_folder_staging(store)


def _find_folder_staging(store: LocalStore) -> _Staging | None:
    """Return the staging prefixes of a whole store, beside its folder."""
    folder = os.path.realpath(store.path)
    parent, name = os.path.split(folder)
    try:
        name.encode()
        is_working_folder = os.path.commonpath([os.path.realpath(os.getcwd()), folder]) == folder  # noqa: PTH109
    except (UnicodeError, OSError):
        return None
    # Do not exchange a working folder or a mount point.
    if not name or name.endswith(".__lock") or is_working_folder or os.path.ismount(folder):
        return None
    if not os.access(parent, os.W_OK | os.X_OK):
        return None
    _, settings = store.__getnewargs_ex__()
    parent_store = LocalStore(parent, **settings)
    return _Staging(parent_store, f"{name}{STAGED}/", f"{name}/", f"{name}.replace")


@dataclass(frozen=True, slots=True)
class _Permissions:
    """The permissions of a node in a folder: those of the folder and of the document."""

    folder: int | None = None
    file: int | None = None

    @classmethod
    def read(cls, store: Store, prefix: str) -> _Permissions:
        """Return the permissions of a node; empty for a store that is not a folder."""
        if not isinstance(store, LocalStore):
            return cls()
        folder = Path(store.path, prefix)
        return cls(_mode(folder), _mode_of_document(folder))

    def protect(self, store: Store, hidden: str) -> None:
        """Hide the new node during its creation from users who cannot read the old node."""
        if not isinstance(store, LocalStore) or self.folder is None:
            return
        shared = self.folder if self.file is None else self.folder & self.file
        folder = Path(store.path, hidden)
        if not shared & (stat.S_IRWXG | stat.S_IRWXO):
            with _store_errors("create the folder", folder):
                folder.mkdir(stat.S_IRWXU, parents=True, exist_ok=True)

    def apply(self, store: Store, built_prefix: str) -> None:
        """Set the permissions of the new node."""
        if not isinstance(store, LocalStore):
            return
        root = Path(store.path, built_prefix)
        # Usually the permissions are the defaults for new files and folders.
        files = self.file not in {None, _mode_of_document(root)}
        folders = self.folder not in {None, _mode(root)}
        if not files and not folders:
            return
        with _store_errors("set the permissions of files in", root):
            for folder, _, names in os.walk(root, topdown=False):
                if files and self.file is not None:
                    for name in names:
                        Path(folder, name).chmod(self.file)
                if folders and self.folder is not None:
                    Path(folder).chmod(self.folder)


def _mode(path: Path) -> int | None:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return None


def _mode_of_document(folder: Path) -> int | None:
    modes = (_mode(folder / name) for names in MARKERS.values() for name in names)
    return next((mode for mode in modes if mode is not None), None)


@contextmanager
def _store_errors(action: str, path: Path) -> Generator[None]:
    """Convert errors of the operating system to store errors."""
    try:
        yield
    except OSError as error:
        raise StoreError._of_system(action, str(path), error) from error
