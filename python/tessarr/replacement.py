"""Replacement of a node by one that is complete before it takes the place of the other.

The new node is built beside the old one, in a folder (or below a prefix) that no listing shows,
and then both are exchanged in one step. So a program that dies, or a disk that is full, leaves the
old node or the new one. The next replacement of that name removes what such a program left.

Stores that cannot exchange two prefixes in one step delete the old node first.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tessarr import drive
from tessarr.drive import ReplacePrefix
from tessarr.errors import StoreError
from tessarr.flow import create
from tessarr.flow.changes import tracked
from tessarr.flow.open import exists, prefix_of
from tessarr.keys import STAGED
from tessarr.metadata.node import GroupMeta
from tessarr.store import LocalStore
from tessarr.store.wrap import PrefixStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from tessarr.drive import Flow
    from tessarr.flow.open import Node
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
    if not drive.run(exists(path, v1=True), store) and (
        build is None or any(store.list_dir(prefix_of(path)))
    ):
        return False
    keepers = drive.run(create.prepare(path, meta, within), store)
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
    mode: int | None = None
    """The permissions of the folder, where that is the root of a store."""

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
    try:
        if build is None:
            drive.run(create.commit("", create.documents(meta)), place)
        else:
            build(place)
        if stage.mode is not None and isinstance(store, LocalStore):
            os.chmod(os.path.join(store.path, stage.built), stage.mode)  # noqa: PTH101, PTH118
        done = drive.run(exchange, store)
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
    mode = None
    with suppress(FileNotFoundError):
        mode = os.stat(folder).st_mode & 0o7777  # noqa: PTH116 (a str)
    _, settings = store.__getnewargs_ex__()
    beside = LocalStore(parent, **settings)
    return _Stage(beside, f"{name}{STAGED}/", f"{name}/", f"{name}.replace", mode)
