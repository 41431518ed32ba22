"""Permissions of replaced files and of unreadable folders."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

import tessarr
from tessarr import stores
from tessarr.errors import AccessError, TessarrWarning
from tessarr.types import ZarrFormat


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o7777


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o666])
def test_replaced_file_keeps_its_permissions(
    tmp_path: Path, zarr_format: ZarrFormat, mode: int
) -> None:
    """Full and partial writes keep the mode of documents and chunks."""
    array = tessarr.create_array(
        tmp_path, data=np.arange(6), chunks=3, zarr_format=zarr_format, attributes={"a": 1}
    )
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    with ExitStack() as stack:
        for path in files:
            stack.enter_context(path.open())  # so that no other file gets its inode number
            path.chmod(mode)
        before = {path: path.stat().st_ino for path in files}
        array[:3] = 7
        array[4] = 8
        array.attrs["a"] = 2
        array.resize(5)
    replaced = [path for path in files if path.stat().st_ino != before[path]]
    assert len(replaced) >= 2
    assert {mode_of(path) for path in files} == {mode}


def test_new_file_has_permissions_of_process(tmp_path: Path) -> None:
    """A new file has the default mode of the process."""
    store = stores.LocalStore(tmp_path)
    before = os.umask(0o027)
    try:
        store["a"] = b"1"
        store["a"] = b"2"
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "a") == 0o640


def test_replaced_file_keeps_permissions_with_each_lock_kind(tmp_path: Path) -> None:
    """The setting ``locking`` does not affect the mode."""
    for locking in ("os", "lockfile", "none", "non_atomic"):
        store = stores.LocalStore(tmp_path, locking=locking)
        store[locking] = b"1"
        (tmp_path / locking).chmod(0o600)
        store[locking] = b"2"
        assert (store[locking], mode_of(tmp_path / locking)) == (b"2", 0o600)


def replace_by_assignment(group: tessarr.Group) -> None:
    group["a"] = np.arange(4.0)


def replace_by_creation(group: tessarr.Group) -> None:
    group.create_array("a", data=np.arange(4.0), chunks=2, overwrite=True)


def replace_by_deferred_data(group: tessarr.Group) -> None:
    group.create_array("a", shape=(4,), dtype="f8", overwrite=True)


def replace_by_group(group: tessarr.Group) -> None:
    group.create_group("a", overwrite=True)


REPLACEMENTS = [
    replace_by_assignment,
    replace_by_creation,
    replace_by_deferred_data,
    replace_by_group,
]


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("replace", REPLACEMENTS)
@pytest.mark.parametrize(("folder", "file"), [(0o700, 0o600), (0o750, 0o640), (0o755, 0o600)])
def test_replaced_array_keeps_its_permissions(
    tmp_path: Path,
    zarr_format: ZarrFormat,
    replace: Callable[[tessarr.Group], None],
    folder: int,
    file: int,
) -> None:
    """Folders and files of the new node have the modes of the old folder and its document."""
    group = tessarr.create_group(tmp_path, zarr_format=zarr_format)
    group.create_array("a", data=np.arange(6), chunks=3)
    set_modes(tmp_path / "a", folder, file)
    replace(group)
    assert modes_below(tmp_path / "a") == ({folder}, {file})


def test_replaced_store_keeps_its_permissions(tmp_path: Path) -> None:
    """The root of a store is replaced like a member of a group."""
    root = tmp_path / "x.zarr"
    tessarr.create_array(root, data=np.arange(6), chunks=3)
    set_modes(root, 0o700, 0o600)
    tessarr.create_array(root, data=np.arange(4), chunks=2, overwrite=True)
    assert modes_below(root) == ({0o700}, {0o600})


def test_staged_replacement_of_private_array_is_private(tmp_path: Path) -> None:
    """Other users cannot enter the folder in which the new array is built."""
    group = tessarr.create_group(tmp_path)
    group.create_array("a", data=np.arange(6), chunks=3)
    set_modes(tmp_path / "a", 0o755, 0o600)
    seen: set[int] = set()

    class Source(dict[str, bytes]):
        def __getitem__(self, key: str) -> bytes:
            seen.update(mode_of(path) for path in tmp_path.glob("*.__new.__lock"))
            return super().__getitem__(key)

    source = tessarr.create_array(Source(), data=np.arange(4), chunks=2)
    group.create_array("a", data=source, chunks=2, overwrite=True)
    assert group.get_array("a")[:].tolist() == [0, 1, 2, 3]
    assert seen == {0o700}


def set_modes(root: Path, folder: int, file: int) -> None:
    for path in (root, *root.rglob("*")):
        path.chmod(folder if path.is_dir() else file)


def modes_below(root: Path) -> tuple[set[int], set[int]]:
    """Return the modes of the folders and of the files of a node."""
    paths = [root, *root.rglob("*")]
    return tuple(
        {mode_of(path) for path in paths if path.is_dir() is kind} for kind in (True, False)
    )  # type: ignore[return-value]


@contextmanager
def unprivileged() -> Iterator[None]:
    """Drop the rights of the superuser, who may read every file."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def is_open_to_all(folder: Path) -> bool:
    """Return whether every user may look up names in a folder and in its parents."""
    return all(folder_.stat().st_mode & stat.S_IXOTH for folder_ in (folder, *folder.parents))


@pytest.fixture
def hierarchy() -> Iterator[Path]:
    """Return a folder for a group that every user may read."""
    candidates = [Path(base) for base in (tempfile.gettempdir(), "/tmp", "/dev/shm", "/var/tmp")]
    parent = next((base for base in candidates if base.is_dir() and is_open_to_all(base)), None)
    if parent is None and os.geteuid() == 0:
        pytest.skip("an unprivileged user can reach no folder for temporary files")
    folder = Path(tempfile.mkdtemp(prefix="tessarr-test-", dir=parent))
    folder.chmod(0o755)
    yield folder
    for path in folder.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_unreadable_folder_hides_no_other_member(hierarchy: Path, zarr_format: ZarrFormat) -> None:
    """The member is `Unreadable`; listings, trees and consolidated metadata hold the others."""
    group = tessarr.create_group(hierarchy, zarr_format=zarr_format)
    for name in ("a", "g/deep", "shut", "z"):
        group[name] = np.arange(3)
    group.create_group("hidden")["x"] = np.arange(3)
    str(group.tree()), group.members(None)  # finish late imports now
    (hierarchy / "shut").chmod(0o000)
    (hierarchy / "hidden").chmod(0o111)
    with unprivileged():
        group = tessarr.open_group(hierarchy, mode="r")
        assert list(group) == ["a", "g", "hidden", "shut", "z"]
        with pytest.warns(TessarrWarning, match="members of group 'hidden' are left out"):
            members = dict(group.members(None))
        tree = str(group.tree(level=1))
    assert sorted(members) == ["a", "g", "g/deep", "hidden", "shut", "z"]
    shut = members["shut"]
    assert isinstance(shut, tessarr.Unreadable)
    with pytest.raises(AccessError, match="denied"):
        shut[:]
    array = members["z"]
    assert isinstance(array, tessarr.Array)
    assert array[:].tolist() == [0, 1, 2]
    assert "shut" in tree
    assert "denied" in tree


def test_consolidate_skips_unreadable_folder(hierarchy: Path) -> None:
    """A warning names the node without a copy."""
    group = tessarr.create_group(hierarchy)
    for name in ("a", "shut", "z"):
        group[name] = np.arange(3)
    tessarr.consolidate_metadata(hierarchy)
    if os.geteuid() == 0:
        for path in (hierarchy, *hierarchy.rglob("*")):
            os.chown(path, 65534, -1)
    (hierarchy / "shut").chmod(0o000)
    with unprivileged(), pytest.warns(TessarrWarning, match="'shut' has no copy"):
        tessarr.consolidate_metadata(hierarchy)
    result = tessarr.open_group(hierarchy, use_consolidated=True)
    assert list(result) == ["a", "z"]


def test_listing_without_permission_raises_access_error(hierarchy: Path) -> None:
    """Without list permission, a group cannot list its members."""
    tessarr.create_group(hierarchy)["a"] = np.arange(3)
    hierarchy.chmod(0o311)
    with unprivileged():
        group = tessarr.open_group(hierarchy, mode="r")
        for ask in (group.members, lambda: list(group), lambda: str(group.tree())):
            with pytest.raises(AccessError, match="denied") as caught:
                ask()
            assert Path(str(caught.value.filename)) == hierarchy
    hierarchy.chmod(0o755)


def test_missing_chunk_in_unlistable_folder_reads_as_fill(hierarchy: Path) -> None:
    """The search for chunks under other keys needs no permission."""
    array = tessarr.create_array(hierarchy / "a", shape=4, chunks=2, dtype="i1", fill_value=3)
    (hierarchy / "a").chmod(0o311)
    with unprivileged():
        assert tessarr.open_array(hierarchy / "a", mode="r")[:].tolist() == array[:].tolist()
