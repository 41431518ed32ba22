"""Replacement of a node by one that is complete before it takes the place of the other.

The new node is built beside the old one, in a folder (or below a prefix) that no listing shows,
and then both are exchanged in one step. So a program that dies, or a disk that is full, leaves the
old node or the new one. The next replacement of that name removes what such a program left.
Folders and files of the new node have the permissions of the old node.

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
from tessarr.flow.changes import tracked
from tessarr.flow.open import MARKERS, exists, prefix_of
from tessarr.flow.run import ReplacePrefix, run_flow
from tessarr.format.node_path import STAGED
from tessarr.metadata.node import GroupMeta
from tessarr.store import LocalStore
from tessarr.store.wrappers.prefix import PrefixStore

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
    """Store a node in the place of another one, with all that belongs to it, in one step.

    Parameters
    ----------
    store, path
        Where.
    meta
        The metadata of the node.
    build
        Creates the node, and all that belongs to it, at the root of the store that it is given;
        by default the document alone.
    within
        The path of a group that is known to exist: see `tessarr.flow.create.create`.

    Returns
    -------
    bool
        Whether that was done. If not, nothing has changed: the store cannot do that; or there is
        no node but something else, which would be deleted; or there is neither one nor data.
    """
    stage = _stage_of(store, path)
    if stage is None:
        return False
    if not run_flow(exists(path, v1=True), store) and (
        build is None or any(store.list_dir(prefix_of(path)))
    ):
        return False
    keepers = run_flow(create.prepare(path, meta, within), store)
    # What is below a group that is built is new, too.
    rebuild = build is not None and isinstance(meta, GroupMeta)
    exchange = partial(_exchange, stage)
    show = tracked(keepers, path, exchange, below=True, rebuild=rebuild)
    return stage.store.hold(stage.lock, lambda: _replace(stage, meta, build, show))


@dataclass(frozen=True, slots=True)
class _Stage:
    """Where a node is built."""

    store: Store
    hidden: str
    """The prefix below which nothing is listed."""
    target: str
    """The prefix of the node."""
    lock: str
    """What is held meanwhile."""

    @property
    def built(self) -> str:
        """The prefix of the new node, and after the exchange of the old one."""
        # Deeper than what is hidden: other libraries take no folder without a document for a node.
        return f"{self.hidden}node/"


def _exchange(stage: _Stage) -> Flow[bool]:
    done: bool = yield ReplacePrefix(stage.built, stage.target)
    return done


def _replace(
    stage: _Stage, meta: Node, build: Callable[[Store], object] | None, exchange: Flow[bool]
) -> bool:
    store = stage.store
    store.delete_prefix(stage.hidden)  # what a killed program has left
    # The groups above are out of sight: nothing that is built shows in their copies of metadata.
    place = PrefixStore(store, stage.built)
    permissions = _Permissions.of(store, stage.target)
    try:
        permissions.protect(store, stage.hidden)
        if build is None:
            run_flow(create.commit("", create.documents(meta)), place)
        else:
            build(place)
        permissions.give(store, stage.built)
        done = run_flow(exchange, store)
    except BaseException as error:
        try:
            store.delete_prefix(stage.hidden)
        except Exception as second:  # noqa: BLE001 (the first error is what matters)
            error.add_note(f"what was written cannot be removed: {second}")
        raise
    with suppress(StoreError):  # the new node is there; the next replacement tries again
        store.delete_prefix(stage.hidden)
    return done


def _stage_of(store: Store, path: str) -> _Stage | None:
    prefix = prefix_of(path)
    if store.read_only:
        return None
    if store.replaces_at_once(prefix):
        return _Stage(store, f"{path}{STAGED}/", prefix, f"{path}.replace")
    if path or not isinstance(store, LocalStore):
        return None
    return _stage_of_folder(store)


def _stage_of_folder(store: LocalStore) -> _Stage | None:
    """Return the stage of a whole store, which is beside its folder."""
    folder = os.path.realpath(store.path)
    parent, name = os.path.split(folder)
    try:
        name.encode()
        inside = os.path.commonpath([os.path.realpath(os.getcwd()), folder]) == folder  # noqa: PTH109
    except (UnicodeError, OSError):
        return None
    # To exchange the folder in which a program works, or that is mounted, would be no service.
    if not name or name.endswith(".__lock") or inside or os.path.ismount(folder):
        return None
    if not os.access(parent, os.W_OK | os.X_OK):
        return None
    _, settings = store.__getnewargs_ex__()
    beside = LocalStore(parent, **settings)
    return _Stage(beside, f"{name}{STAGED}/", f"{name}/", f"{name}.replace")


@dataclass(frozen=True, slots=True)
class _Permissions:
    """The permissions of a node in a folder: of the folder and of its document."""

    folder: int | None = None
    file: int | None = None

    @classmethod
    def of(cls, store: Store, prefix: str) -> _Permissions:
        """Return those of a node; of nothing, if it is in no folder."""
        if not isinstance(store, LocalStore):
            return cls()
        folder = Path(store.path, prefix)
        return cls(_mode(folder), _mode_of_document(folder))

    def protect(self, store: Store, hidden: str) -> None:
        """Keep the new node from readers from whom the old one is kept, while it is built."""
        if not isinstance(store, LocalStore) or self.folder is None:
            return
        shared = self.folder if self.file is None else self.folder & self.file
        folder = Path(store.path, hidden)
        if not shared & (stat.S_IRWXG | stat.S_IRWXO):
            with _reported("create the folder", folder):
                folder.mkdir(stat.S_IRWXU, parents=True, exist_ok=True)

    def give(self, store: Store, built: str) -> None:
        """Give them to what is built."""
        if not isinstance(store, LocalStore):
            return
        root = Path(store.path, built)
        # Usually they are those of new files and folders, and one look at each tells.
        files = self.file not in {None, _mode_of_document(root)}
        folders = self.folder not in {None, _mode(root)}
        if not files and not folders:
            return
        with _reported("set the permissions of files in", root):
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
def _reported(action: str, path: Path) -> Generator[None]:
    """Raise errors of the system as errors of the store."""
    try:
        yield
    except OSError as error:
        raise StoreError._of_system(action, str(path), error) from error
