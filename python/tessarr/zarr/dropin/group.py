"""`Group` of the drop-in: Tessarr's group with zarr-python 3's names and errors."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from tessarr.array.array import Array as OwnArray
from tessarr.errors import ArgumentError
from tessarr.format.registry import set_public_module
from tessarr.format.user_warnings import warn_user
from tessarr.group import Group as OwnGroup
from tessarr.metadata.from_user import read_user_metadata
from tessarr.metadata.node import GroupMeta
from tessarr.store.resolve import locate_node
from tessarr.zarr.dropin.arguments import parse_config, translate_arguments
from tessarr.zarr.dropin.array import Array, adopt_array, set_config
from tessarr.zarr.dropin.attributes import Attributes
from tessarr.zarr.dropin.errors import raises_zarr_errors
from tessarr.zarr.dropin.metadata import build_consolidated, build_original_metadata
from tessarr.zarr.dropin.originals import Delegating, OriginalGroup, delegate
from tessarr.zarr.dropin.settings import apply_zarr_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Group", "adopt_node", "warn_unknown"]


class Group(Delegating, OwnGroup, OriginalGroup):  # type: ignore[misc] # an optional package
    """A group of zarr-python's interface, read and written with Tessarr.

    Paths with a leading slash are relative to the group, as in zarr-python 3. Attributes with
    classes of zarr-python, such as `metadata`, are those of a ``zarr.core.group.Group`` at the same
    location.

    Parameters
    ----------
    store
        A ``zarr.AsyncGroup``, which needs no I/O; or the store of an existing group, as for
        `tessarr.Group`.
    *arguments, **settings
        For a store, as for `tessarr.Group`.
    """

    __slots__ = ("_known_original",)

    @raises_zarr_errors
    def __init__(self, store: Any, *arguments: Any, **settings: Any) -> None:
        from zarr.core.group import AsyncGroup

        if not isinstance(store, AsyncGroup):
            super().__init__(store, *arguments, **settings)
            return
        location: Any = store.store_path
        resolved, path = locate_node(location, "r" if location.read_only else "r+", None, None)
        meta = read_user_metadata(store.metadata, path)
        assert isinstance(meta, GroupMeta)
        copies = build_consolidated(store.metadata, path)
        self._initialize(
            meta, resolved, path, read_only=location.read_only, copies=copies, runtime_settings={}
        )
        self._known_original = meta, OriginalGroup(store)

    @classmethod
    @raises_zarr_errors
    def from_store(cls, store: Any, **settings: Any) -> Any:
        """Create a group, as zarr-python does."""
        return adopt_node(OwnGroup.from_store(store, **settings))

    @classmethod
    @raises_zarr_errors
    def open(cls, store: Any, zarr_format: Any = 3, **settings: Any) -> Any:
        """Open an existing group, as zarr-python does."""
        return adopt_node(OwnGroup.open(store, zarr_format, **settings))

    @classmethod
    def _unpickle(  # pyright: ignore[reportIncompatibleMethodOverride]
        cls, *state: Any
    ) -> Any:
        return adopt_node(super()._unpickle(*state))

    def _bind(self, path: str, meta: Any, **settings: Any) -> Any:
        with apply_zarr_settings():
            return adopt_node(super()._bind(path, meta, **settings))

    def _member_path(self, name: Any) -> str:
        return super()._member_path(name.lstrip("/") if isinstance(name, str) else name)

    def _build_original(self, meta: Any) -> Any:
        from zarr.core.group import AsyncGroup
        from zarr.storage import StorePath

        metadata = build_original_metadata(meta, self._path, self._consolidated)
        return OriginalGroup(AsyncGroup(metadata, StorePath(self.store, self.path)))

    @property
    def _on_unknown(self) -> Callable[[str], None]:
        return warn_unknown

    def __repr__(self) -> str:
        return f"<Group {self.store_path}>"

    @property
    def attrs(self) -> Attributes:
        """The attributes; a missing name raises a `KeyError` with only the name."""
        return Attributes(self, self._kind, self._set_attributes)

    async def update_attributes_async(self, new_attributes: Mapping[str, Any]) -> Group:
        """Replace all attributes in one step, and return the group."""
        import asyncio

        await asyncio.to_thread(self.attrs.put, new_attributes)
        return self

    # Members

    def __getitem__(self, path: Any) -> Any:
        try:
            return super().__getitem__(path)
        except KeyError as error:
            raise KeyError(path) from error

    @raises_zarr_errors
    def __setitem__(self, name: Any, value: Any) -> Any:
        super().__setitem__(name, value)

    def get(  # type: ignore[override] # zarr-python's name of the path
        self, path: str, default: Any = None, **settings: Any
    ) -> Any:
        """Return the member at `path`, or `default` if no node exists."""
        return super().get(path, default, **settings)

    @raises_zarr_errors
    def get_array(  # pyright: ignore[reportIncompatibleMethodOverride] # as in zarr-python
        self, path: str
    ) -> Array:
        """Return the array at `path`; an error of zarr-python if it is absent or a group."""
        return adopt_array(super().get_array(path))

    @raises_zarr_errors
    def get_group(  # pyright: ignore[reportIncompatibleMethodOverride] # as in zarr-python
        self, path: str
    ) -> Group:
        """Return the group at `path`; an error of zarr-python if it is absent or an array."""
        group: Group = adopt_node(super().get_group(path))
        return group

    def members(
        self, max_depth: int | None = 0, *, use_consolidated_for_children: bool = True
    ) -> Any:
        """Return the members as pairs of their paths and nodes, as zarr-python does."""
        _check_depth(max_depth)
        return tuple(
            super().members(max_depth, use_consolidated_for_children=use_consolidated_for_children)
        )

    def nmembers(self, max_depth: int | None = 0) -> int:
        """Return the number of nodes below the group."""
        _check_depth(max_depth)
        return super().nmembers(max_depth)

    def info_complete(self) -> Any:
        """Return `info` with the numbers of members."""
        return self._original.info_complete()


delegate(Group, "_async_group", "info", "metadata", "store_path")


def warn_unknown(path: str) -> None:
    """Warn of an object in a group that is not a node, as zarr-python does."""
    from zarr.errors import ZarrUserWarning

    message = f"Object at {path} is not recognized as a component of a Zarr hierarchy."
    warn_user(message, ZarrUserWarning)


def _check_depth(max_depth: int | None) -> None:
    if max_depth is not None and max_depth < 0:
        raise ArgumentError(f"max_depth is None or at least 0, not {max_depth}")


def _adopt_method(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that accepts arguments of zarr-python and returns nodes of the drop-in."""

    @wraps(method)
    @raises_zarr_errors
    def call(self: Any, *arguments: Any, **settings: Any) -> Any:
        with apply_zarr_settings():
            config = parse_config(settings, self._meta.zarr_format)
            node = adopt_node(method(self, *arguments, **translate_arguments(settings)))
        return set_config(node, config)

    call.__name__, call.__qualname__, call.__module__ = name, f"Group.{name}", __name__
    return call


_CREATING: Final = (
    "array",
    "create",
    "create_array",
    "create_dataset",
    "create_group",
    "create_groups",
    "full",
    "full_like",
    "ones",
    "ones_like",
    "require_array",
    "require_dataset",
    "require_group",
    "require_groups",
    "zeros",
    "zeros_like",
)
_METHODS: Final = {name: name for name in _CREATING} | {
    # Elements of an empty array are its fill value: by default 0, or that of the other array.
    "empty": "zeros",
    "empty_like": "full_like",
}
for _name, _own_name in _METHODS.items():
    setattr(Group, _name, _adopt_method(_name, getattr(OwnGroup, _own_name)))


def adopt_node(node: Any) -> Any:
    """Return the node of the drop-in for a node of Tessarr; other values stay unchanged."""
    if isinstance(node, OwnArray):
        return adopt_array(node)
    if isinstance(node, tuple):
        return tuple(map(adopt_node, node))
    if not isinstance(node, OwnGroup) or isinstance(node, Group):
        return node
    group = Group.__new__(Group)
    group._initialize(
        node._meta,
        node._store,
        node._path,
        read_only=node._read_only,
        copies=node._consolidated,
        runtime_settings=node._runtime_settings,
    )
    return group


set_public_module("tessarr.zarr", Group)
