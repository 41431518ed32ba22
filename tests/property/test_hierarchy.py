"""Random changes of a hierarchy, compared with a dictionary."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

import tessarr
from sampling import examples
from tessarr.errors import ArgumentError, ExistsError, NotFoundError
from tessarr.format.node_path import ancestors

PATHS = st.sampled_from(["a", "b", "c", "a/a", "a/b", "b/a", "a/b/c", "c/b/a"])
GROUP = None

DOCUMENTS = {".zarray", ".zgroup", ".zattrs", "zarr.json"}


class Hierarchy(RuleBasedStateMachine):
    """Group with its model: the elements of each array by path, None for a group."""

    make_store: Any
    zarr_format: Any

    @initialize()
    def start(self) -> None:
        self.store = self.make_store()
        self.root = tessarr.create_group(self.store, zarr_format=self.zarr_format)
        self.model: dict[str, list[int] | None] = {}
        self.attributes: dict[str, dict[str, int]] = {}

    # The model

    def below(self, path: str) -> list[str]:
        return [other for other in self.model if f"{other}/".startswith(f"{path}/")]

    def refused(self, path: str) -> type[Exception] | None:
        """Return the error that creating a node at `path` raises, or None."""
        above = [ancestor for ancestor in ancestors(path) if ancestor]
        if path in self.model or any(self.model.get(ancestor) is not GROUP for ancestor in above):
            return ExistsError
        return None

    def put(self, path: str, values: list[int] | None) -> None:
        for above in ancestors(path):
            if above and above not in self.model:
                self.model[above] = GROUP
                self.attributes[above] = {}
        self.model[path] = values
        self.attributes[path] = {}

    def drop(self, path: str) -> None:
        for other in self.below(path):
            del self.model[other], self.attributes[other]

    def array_above(self, path: str) -> bool:
        return any(self.model.get(above) is not GROUP for above in ancestors(path) if above)

    def group_at(self, path: str) -> tessarr.Group:
        """Return the group at `path`, or the root; both accept absolute paths."""
        result = self.root.get(path)
        return result if isinstance(result, tessarr.Group) else self.root

    def is_in(self, handle: tessarr.Group, path: str) -> bool:
        """Return whether a replacement at `path` replaces the group or one of its parents."""
        return f"{handle.path}/".startswith(f"{path}/")

    # Changes

    @rule(via=PATHS, path=PATHS)
    def create_group(self, via: str, path: str) -> None:
        error = self.refused(path)
        if error is None:
            self.group_at(via).create_group(f"/{path}")
            self.put(path, GROUP)
        else:
            with pytest.raises(error):
                self.group_at(via).create_group(f"/{path}")

    @rule(via=PATHS, path=PATHS, values=st.lists(st.integers(0, 9), min_size=1, max_size=5))
    def create_array(self, via: str, path: str, values: list[int]) -> None:
        error = self.refused(path)
        if error is None:
            self.group_at(via).create_array(f"/{path}", data=np.array(values, "u1"), chunks=2)
            self.put(path, values)
        else:
            with pytest.raises(error):
                self.group_at(via).create_array(f"/{path}", data=np.array(values, "u1"))

    @rule(via=PATHS, path=PATHS, values=st.lists(st.integers(0, 9), min_size=1, max_size=5))
    def assign(self, via: str, path: str, values: list[int]) -> None:
        handle = self.group_at(via)
        if self.array_above(path) or self.is_in(handle, path):
            with pytest.raises(ExistsError):
                handle[f"/{path}"] = values
        else:
            handle[f"/{path}"] = values
            self.drop(path)
            self.put(path, values)

    @rule(via=PATHS, path=PATHS, source=PATHS)
    def assign_another(self, via: str, path: str, source: str) -> None:
        """Assign an array of the hierarchy, which may be at the target path or below it."""
        values = self.model.get(source)
        handle = self.group_at(via)
        if values is None or self.array_above(path) or self.is_in(handle, path):
            return
        attributes = self.attributes[source]
        handle[f"/{path}"] = self.root[source]
        self.drop(path)
        self.put(path, values)
        self.attributes[path] = dict(attributes)

    @rule(via=PATHS, path=PATHS)
    def require(self, via: str, path: str) -> None:
        if path in self.model and self.model[path] is GROUP:
            assert self.group_at(via).require_group(f"/{path}") == self.root[path]
        elif self.refused(path) is None:
            self.group_at(via).require_group(f"/{path}")
            self.put(path, GROUP)
        else:
            with pytest.raises((NotFoundError, ExistsError)):
                self.group_at(via).require_group(f"/{path}")

    @rule(via=PATHS, path=PATHS)
    def delete(self, via: str, path: str) -> None:
        if path in self.model:
            del self.group_at(via)[f"/{path}"]
            self.drop(path)
        else:
            with pytest.raises(NotFoundError):
                del self.group_at(via)[f"/{path}"]

    @rule(via=PATHS, source=PATHS, dest=PATHS)
    def move(self, via: str, source: str, dest: str) -> None:
        into_itself = f"{dest}/".startswith(f"{source}/") and source != dest
        if source in self.model and not into_itself and self.refused(dest) is None:
            self.group_at(via).move(f"/{source}", f"/{dest}")
            moved = {path: self.model[path] for path in self.below(source)}
            moved_attributes = {path: self.attributes[path] for path in moved}
            self.drop(source)
            self.put(dest, GROUP)
            for path, values in moved.items():
                self.model[dest + path[len(source) :]] = values
                self.attributes[dest + path[len(source) :]] = moved_attributes[path]
        else:
            with pytest.raises((NotFoundError, ExistsError, ArgumentError)):
                self.group_at(via).move(f"/{source}", f"/{dest}")

    @rule(via=PATHS, path=PATHS, number=st.integers(0, 9))
    def edit_attributes(self, via: str, path: str, number: int) -> None:
        if path in self.model:
            self.group_at(via)[f"/{path}"].attrs["n"] = number
            self.attributes[path]["n"] = number

    # Invariants

    @invariant()
    def nodes_are_as_the_model_says(self) -> None:
        result = dict(self.root.members(None))
        assert list(result) == sorted(self.model, key=lambda path: path.split("/"))
        for path, values in self.model.items():
            node: Any = result[path]
            assert path in self.root
            assert node.attrs.asdict() == self.attributes[path]
            if values is GROUP:
                assert isinstance(node, tessarr.Group)
            else:
                assert node[:].tolist() == values
        arrays = [path for path, values in self.model.items() if values is not GROUP]
        assert sorted(self.root.array_keys(recurse=True)) == sorted(arrays)

    @invariant()
    def nothing_is_left_over(self) -> None:
        """Check that every key belongs to a node."""
        for key in self.root._store.list(""):
            path, _, name = key.rpartition("/")
            if name in DOCUMENTS:
                assert path == "" or path in self.model, key
            else:
                assert any(key.startswith(f"{node}/") for node, v in self.model.items() if v), key


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("kind", ["memory", "mapping", "local"])
def test_hierarchy_random_changes_match_model(kind: str, zarr_format: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        makers: dict[str, Any] = {
            "memory": lambda _: tessarr.stores.MemoryStore(),
            "mapping": lambda _: {},
            "local": lambda _: tempfile.mkdtemp(dir=folder),
        }
        machine: Any = type(
            "Made", (Hierarchy,), {"make_store": makers[kind], "zarr_format": zarr_format}
        )
        few = examples(50, stateful_step_count=20)
        run_state_machine_as_test(machine, settings=few)
