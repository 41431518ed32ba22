"""Symbolic links in a folder store: deletions remove the link only, and walks terminate."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

import tessarr
from tessarr import stores
from tessarr import tensorstore as ts
from tessarr.errors import StoreError
from tessarr.types import ZarrFormat

Linked: TypeAlias = tuple[Path, Path, ZarrFormat]


@pytest.fixture(params=[2, 3])
def linked(request: pytest.FixtureRequest, tmp_path: Path) -> Linked:
    """Return a store with a link "link" to an outside array, the array's folder, and the format."""
    form: ZarrFormat = request.param
    outside, root = tmp_path / "outside", tmp_path / "root"
    tessarr.create_array(outside, data=np.arange(6), chunks=2, zarr_format=form)
    tessarr.create_group(root, zarr_format=form)
    (root / "link").symlink_to(outside)
    return root, outside, form


def contents(folder: Path) -> dict[str, bytes]:
    """Return the contents of every file below a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def delete(root: Path, form: ZarrFormat) -> None:
    del tessarr.open_group(root, zarr_format=form)["link"]


def overwrite_array(root: Path, form: ZarrFormat) -> None:
    tessarr.create_array(root / "link", shape=3, dtype="i1", zarr_format=form, overwrite=True)


def overwrite_member(root: Path, form: ZarrFormat) -> None:
    tessarr.open_group(root).create_array("link", shape=3, dtype="i1", overwrite=True)


def overwrite_group(root: Path, form: ZarrFormat) -> None:
    tessarr.open_group(root).create_group("link", overwrite=True)


def assign(root: Path, form: ZarrFormat) -> None:
    tessarr.open_group(root)["link"] = np.ones(4)


def move(root: Path, form: ZarrFormat) -> None:
    group = tessarr.open_group(root)
    group.move("link", "moved")
    assert group.get_array("moved")[:].tolist() == [*range(6)]


def rename_keys(root: Path, form: ZarrFormat) -> None:
    stores.LocalStore(root).rename("link", "moved")
    assert tessarr.open_group(root).get_array("moved")[:].tolist() == [*range(6)]


def remove_by_command(root: Path, form: ZarrFormat) -> None:
    from tessarr.cli import main

    assert main(["rm", str(root), "--node", "link"]) == 0


def remove_path_by_command(root: Path, form: ZarrFormat) -> None:
    from tessarr.cli import main

    assert main(["rm", str(root / "link")]) == 0


def delete_with_other_chunk_store(root: Path, form: ZarrFormat) -> None:
    del tessarr.open_group(root, chunk_store=stores.MemoryStore())["link"]


def delete_below_prefix(root: Path, form: ZarrFormat) -> None:
    del tessarr.open_group(stores.LocalStore(root.parent), path="root")["link"]


@pytest.mark.parametrize(
    "change",
    [
        delete,
        overwrite_member,
        overwrite_group,
        assign,
        move,
        rename_keys,
        remove_by_command,
        remove_path_by_command,
        delete_with_other_chunk_store,
        delete_below_prefix,
    ],
)
def test_delete_of_link_leaves_linked_array_unchanged(
    linked: Linked, change: Callable[[Path, ZarrFormat], None]
) -> None:
    """A deletion or replacement of a linked node removes the link and leaves the target."""
    root, outside, form = linked
    before = contents(outside)
    change(root, form)
    assert contents(outside) == before
    assert not (root / "link").is_symlink()


@pytest.mark.parametrize("atomic", [False, True])
def test_delete_of_linked_folder_in_transaction_leaves_folder_unchanged(
    tmp_path: Path, atomic: bool
) -> None:
    """A commit removes the link, also if only one key is below it."""
    outside, root = tmp_path / "outside", tmp_path / "root"
    tessarr.create_array(outside, shape=3, dtype="i1")
    tessarr.create_group(root)
    (root / "link").symlink_to(outside)
    before = contents(outside)
    store = ts.KvStore.open(f"file://{root}/link/").result()
    with ts.Transaction(atomic=atomic) as transaction:
        store.with_transaction(transaction).delete_range(ts.KvStore.KeyRange()).result()
    assert contents(outside) == before
    assert not (root / "link").is_symlink()


def test_recreate_of_linked_array_in_transaction_leaves_array_unchanged(tmp_path: Path) -> None:
    """A transaction that replaces an array replaces the link."""
    tessarr.create_array(tmp_path / "outside", data=np.arange(3))
    before = contents(tmp_path / "outside")
    (tmp_path / "link").symlink_to("outside")
    spec = {"driver": "zarr3", "kvstore": f"file://{tmp_path}/link/"}
    options: dict[str, Any] = {
        "create": True,
        "delete_existing": True,
        "dtype": ts.uint16,
        "shape": [2],
    }
    with ts.Transaction() as transaction:
        ts.open(spec, **options, transaction=transaction).result()
    assert contents(tmp_path / "outside") == before
    assert tessarr.open_array(tmp_path / "link").dtype == np.uint16


def test_remove_link_of_read_only_store_raises(tmp_path: Path) -> None:
    """A read-only store keeps its links."""
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(tessarr.errors.ReadOnlyError):
        stores.LocalStore(tmp_path, read_only=True).remove_link("link/")
    assert (tmp_path / "link").is_symlink()


def test_remove_link_of_other_stores_changes_nothing(tmp_path: Path) -> None:
    """A folder that is no link stays, and stores without links change nothing."""
    local = stores.LocalStore(tmp_path)
    local["a/b"] = b"1"
    for store in (local, stores.MemoryStore({"a/b": b"1"}), stores.ForeignStore({"a/b": b"1"})):
        assert not store.remove_link("a/")
        assert not store.remove_link("")
        assert store["a/b"] == b"1"


@pytest.fixture
def cyclic(tmp_path: Path) -> Path:
    """Return a store with links to itself, to parent folders, and twice to one array."""
    root = tmp_path / "root"
    group = tessarr.create_group(root)
    group["a/b/x"] = np.arange(4)
    tessarr.create_array(tmp_path / "outside", data=np.arange(3))
    for name in ("loop", "again", "a/up", "a/b/top"):
        (root / name).symlink_to(root)
    (root / "a/b/up").symlink_to("..")
    for name in ("one", "two"):
        (root / name).symlink_to(tmp_path / "outside")
    return root


def test_walk_of_cyclic_folder_visits_each_folder_once(cyclic: Path) -> None:
    """Members, trees and listings are finite, and include both links to the array."""
    group = tessarr.open_group(cyclic)
    expected = ["a", "a/b", "a/b/x", "one", "two"]
    assert [path for path, _ in group.members(max_depth=None)] == expected
    assert list(group) == ["a", "one", "two"]
    assert len(str(group.tree()).splitlines()) == 1 + len(expected)
    keys = stores.LocalStore(cyclic).list()
    documents = (key for key in keys if key.endswith("/zarr.json"))
    assert sorted(key.removesuffix("/zarr.json") for key in documents) == expected


def test_copy_verify_and_consolidate_of_cyclic_folder_end(cyclic: Path, tmp_path: Path) -> None:
    """A copy holds each node once, with linked nodes; `verify` reports no problem."""
    from tessarr.cli import main

    tessarr.consolidate_metadata(cyclic)
    assert main(["verify", str(cyclic)]) == 0
    tessarr.copy_to(cyclic, tmp_path / "copy")
    assert not any(path.is_symlink() for path in (tmp_path / "copy").rglob("*"))
    copy = tessarr.open_group(tmp_path / "copy")
    assert copy.get_array("two")[:].tolist() == copy.get_array("one")[:].tolist() == [0, 1, 2]
    assert len(list(copy.members(max_depth=None))) == 5


def test_rm_of_linked_store_removes_link_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command removes a link that is a whole store, like a link in a group."""
    from tessarr.cli import main

    tessarr.create_array(tmp_path / "outside", data=np.arange(3))
    before = contents(tmp_path / "outside")
    (tmp_path / "link").symlink_to("outside")
    assert main(["rm", "-n", str(tmp_path / "link")]) == 0
    assert (tmp_path / "link").is_symlink()
    assert main(["rm", str(tmp_path / "link")]) == 0
    assert capsys.readouterr().out == "would delete the symbolic link\ndeleted the symbolic link\n"
    assert contents(tmp_path / "outside") == before
    assert not (tmp_path / "link").is_symlink()


@pytest.fixture(params=["nowhere", "link", "../nowhere/x"])
def dangling(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a store with a link "link" whose target is absent or the link itself."""
    tessarr.create_group(tmp_path / "root")
    (tmp_path / "root" / "link").symlink_to(request.param)
    return tmp_path / "root"


def create_over(root: Path) -> None:
    tessarr.open_group(root).create_array("link", shape=3, dtype="i1", overwrite=True)


def create_group_over(root: Path) -> None:
    tessarr.open_group(root).create_group("link", overwrite=True)


def create_with_data_over(root: Path) -> None:
    tessarr.open_group(root).create_array("link", data=np.ones(3), overwrite=True)


def assign_over(root: Path) -> None:
    tessarr.open_group(root)["link"] = np.ones(3)


@pytest.mark.parametrize(
    "change", [create_over, create_group_over, create_with_data_over, assign_over]
)
def test_overwrite_of_dangling_link_replaces_link(
    dangling: Path, change: Callable[[Path], None]
) -> None:
    """The node is stored in the store's folder, not at the target of the link."""
    change(dangling)
    assert not (dangling / "link").is_symlink()
    assert list(tessarr.open_group(dangling)) == ["link"]
    assert sorted(path.name for path in dangling.parent.iterdir()) == ["root"]


def test_delete_of_dangling_link_removes_link(dangling: Path) -> None:
    """The deletion also updates consolidated metadata; a second deletion raises an error."""
    group = tessarr.open_group(dangling)
    del group["link"]
    assert not (dangling / "link").is_symlink()
    with pytest.raises(KeyError):
        del group["link"]


def test_delete_of_link_to_folder_without_node_raises(tmp_path: Path) -> None:
    """A link to a file, or to a folder without a node, is no member and stays."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_bytes(b"1")
    group = tessarr.create_group(tmp_path / "root")
    for name in ("empty", "file"):
        (tmp_path / "root" / name).symlink_to(tmp_path / name)
        with pytest.raises(KeyError):
            del group[name]
        assert (tmp_path / "root" / name).is_symlink()


def test_delete_of_dangling_link_updates_consolidated_metadata(linked: Linked) -> None:
    """The deletion removes the link and the consolidated copy of its former target."""
    root, outside, _ = linked
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tessarr.errors.TessarrWarning)
        tessarr.consolidate_metadata(root)
    outside.rename(outside.with_name("moved"))
    del tessarr.open_group(root, use_consolidated=False)["link"]
    assert list(tessarr.open_group(root, use_consolidated=True)) == []


@pytest.mark.parametrize("whole", [False, True])
def test_rm_of_dangling_link_removes_link(
    dangling: Path, whole: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """With -f the command removes a dangling link; a dry run removes nothing."""
    from tessarr.cli import main

    arguments = [str(dangling / "link")] if whole else [str(dangling), "--node", "link"]
    assert main(["rm", "-f", "-n", *arguments]) == 0
    assert (dangling / "link").is_symlink()
    assert main(["rm", "-f", *arguments]) == 0
    assert not (dangling / "link").is_symlink()
    assert capsys.readouterr().out == "would delete the symbolic link\ndeleted the symbolic link\n"


def test_create_at_dangling_link_raises(dangling: Path) -> None:
    """The error names the link, and the target stays absent."""
    group = tessarr.open_group(dangling)
    link = re.escape(str(dangling / "link"))
    for create in (
        lambda: group.create_array("link", shape=3, dtype="i1"),
        lambda: group.create_group("link/below"),
        lambda: tessarr.create_array(dangling / "link", shape=3, dtype="i1"),
    ):
        with pytest.raises(StoreError, match=f"{link}.* is a broken symbolic link"):
            create()
    assert (dangling / "link").is_symlink()
    assert sorted(path.name for path in dangling.parent.iterdir()) == ["root"]


@pytest.mark.parametrize("rename", [False, True])
def test_convert_of_array_under_two_links_converts_it_once(tmp_path: Path, rename: bool) -> None:
    """Both links lead to the array in the new format, with equal elements, and back."""
    outside, root = tmp_path / "outside", tmp_path / "root"
    data = np.arange(12).reshape(3, 4)
    tessarr.create_group(root, zarr_format=3)
    settings: dict[str, Any] = {} if rename else {"chunk_key_encoding": "v2"}
    tessarr.create_group(outside, zarr_format=3)
    tessarr.create_array(outside / "x", data=data, chunks=2, zarr_format=3, **settings)
    for name in ("one", "two"):
        (root / name).symlink_to(outside)
    (root / "x").symlink_to(outside / "x")
    for form in (2, 3):
        done = tessarr.convert(root, to=form, move_chunks=rename)
        assert str(done).count("array") == 3
        group = tessarr.open_group(root)
        assert list(group) == ["one", "two", "x"]
        for path in ("one/x", "two/x", "x"):
            assert group.get_array(path).zarr_format == form
            assert group.get_array(path)[:].tolist() == data.tolist()
        names = {path.name for path in outside.rglob("*") if path.is_file()}
        assert ("zarr.json" in names) == (form == 3)
        assert (".zarray" in names) == (form == 2)
        assert all((root / name).is_symlink() for name in ("one", "two", "x"))
