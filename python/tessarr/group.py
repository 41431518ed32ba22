"""Groups: the inner nodes of a hierarchy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tessarr import drive
from tessarr.array import Array
from tessarr.array import bind as bind_array
from tessarr.errors import ArgumentError, ExistsError, NotFoundError
from tessarr.flow import open as open_flow
from tessarr.keys import join, node_path
from tessarr.metadata.node import ArrayMeta, GroupMeta
from tessarr.node import Node, Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tessarr.describe import GroupInfo, Tree
    from tessarr.dtype.names import DataTypeLike
    from tessarr.flow.open import Node as NodeMeta
    from tessarr.metadata.consolidated import Consolidated
    from tessarr.metadata.node import Found
    from tessarr.store import Store
    from tessarr.types import ArrayLike, ShapeLike

__all__ = ["Group", "bind"]

T = TypeVar("T")
N = TypeVar("N", Array, "Group")


class Group(Node[GroupMeta]):
    """A group in a store: a mapping of names to arrays and groups.

    Groups are made by `tessarr.open_group`, `tessarr.create_group` and by groups.

    Notes
    -----
    Members are looked up in the store each time, so what others add shows;
    only the group's own attributes are kept. A name may be a path: ``g["a/b"]``
    is ``g["a"]["b"]`` in one step, and a slash first makes it begin at the root of
    the store. Iteration is sorted by name.

    A group that was opened by its consolidated metadata (see `tessarr.open_group`) knows
    all nodes below it, and looks for none: what others add does not show then.

    Examples
    --------
    >>> import tessarr
    >>> g = tessarr.create_group(None)
    >>> a = g.create_array("foo/bar", shape=(3,), dtype="i4")
    >>> list(g), "foo/bar" in g, g["foo/bar"]
    (['foo'], True, Array(/foo/bar, (3,), int32, chunks=(3,), order=C))
    """

    __slots__ = ("__weakref__", "_copies", "_meta", "_path", "_read_only", "_store")

    _kind = "group"

    def __init__(
        self,
        meta: GroupMeta,
        store: Store,
        path: str,
        *,
        read_only: bool,
        copies: Consolidated | None = None,
    ) -> None:
        self._meta = meta
        self._copies = copies
        self._store = store
        self._path = path
        self._read_only = read_only or store.read_only

    @property
    def info(self) -> GroupInfo:
        """What there is to say about the group, as a table to print."""
        from tessarr.describe import GroupInfo

        members = self._members(0)
        return GroupInfo(
            name=self.name,
            meta=self._meta,
            read_only=self._read_only,
            store=repr(self._store),
            arrays=tuple(name for name, meta in members.items() if isinstance(meta, ArrayMeta)),
            groups=tuple(name for name, meta in members.items() if isinstance(meta, GroupMeta)),
            unreadable=tuple(name for name, meta in members.items() if isinstance(meta, Exception)),
            consolidated=self.consolidated,
        )

    @property
    def consolidated(self) -> bool:
        """Whether the group was opened by consolidated metadata, and looks for no members."""
        return self._copies is not None

    # A mapping

    def __getitem__(self, name: str) -> Array | Group:
        path = self._child(name)
        meta = self._find(path)
        if meta is None:
            raise NotFoundError(
                f"there is no array or group {name!r} in group {self.name!r}",
                kind="node_not_found",
                path=path,
            )
        return self._bind(path, meta)

    def get(self, name: str, default: T | None = None) -> Array | Group | T | None:
        """Return the member `name`, or `default` where there is none."""
        path = self._child(name)
        meta = self._find(path)
        return default if meta is None else self._bind(path, meta)

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        try:
            path = self._child(name)
        except ArgumentError:
            return False
        if self._copies is not None and self._copies.covers(path):
            return self._copies.exists(path)
        return drive.run(open_flow.exists(path), self._store)

    def __delitem__(self, name: str) -> None:
        self._check_writable()
        path = self._child(name)
        if not path:
            raise ArgumentError("the root group cannot be deleted through a group", path="")
        if not drive.run(open_flow.exists(path), self._store):
            raise open_flow.missing(path, None)
        from tessarr.flow import edit

        drive.run(edit.delete(path), self._store)
        if self._copies is not None:
            self._copies.remove(path)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def __len__(self) -> int:
        return len(self.keys())

    def __bool__(self) -> bool:
        return True

    def keys(self) -> list[str]:
        """Return the names of the members, sorted.

        This is one listing; ``list(group)`` is two, because Python asks for the length first.
        """
        if self._copies is not None:
            return self._copies.names(self._path)
        from tessarr.flow import walk

        return drive.run(walk.names(self._path, self._meta.zarr_format), self._store)

    def values(self) -> list[Array | Group | Unreadable]:
        """Return the members, sorted by name."""
        return [node for _, node in self.members()]

    def items(self) -> list[tuple[str, Array | Group | Unreadable]]:
        """Return the members with their names, sorted."""
        return list(self.members())

    def members(
        self, max_depth: int | None = 0
    ) -> tuple[tuple[str, Array | Group | Unreadable], ...]:
        """Return what is below the group, each with its path from here, sorted.

        A node whose metadata cannot be read is an `tessarr.Unreadable`, which raises
        the error when it is used.

        Parameters
        ----------
        max_depth
            0 for the members, 1 for these and theirs, and so on; None for all.

        Notes
        -----
        Costs one listing per group and one or three requests per node, in two or
        three round trips per level. Chunks are never listed. With consolidated metadata
        it costs nothing.
        """
        found = self._members(max_depth)
        return tuple(
            (
                name,
                Unreadable(join(self._path, name), meta)
                if isinstance(meta, Exception)
                else self._bind(join(self._path, name), meta),
            )
            for name, meta in found.items()
        )

    def arrays(self) -> list[tuple[str, Array]]:
        """Return the members that are arrays, with their names, sorted."""
        return [(name, node) for name, node in self.members() if isinstance(node, Array)]

    def groups(self) -> list[tuple[str, Group]]:
        """Return the members that are groups, with their names, sorted."""
        return [(name, node) for name, node in self.members() if isinstance(node, Group)]

    def array_keys(self) -> list[str]:
        """Return the names of the members that are arrays, sorted."""
        return [name for name, meta in self._members(0).items() if isinstance(meta, ArrayMeta)]

    def group_keys(self) -> list[str]:
        """Return the names of the members that are groups, sorted."""
        return [name for name, meta in self._members(0).items() if isinstance(meta, GroupMeta)]

    def tree(self, level: int | None = None) -> Tree:
        """Return a drawing of the hierarchy below, to print.

        Parameters
        ----------
        level
            How many levels to draw; by default all.
        """
        from tessarr.describe import Tree

        return Tree(self.name, self._members(None if level is None else max(level - 1, 0)))

    # New members

    def create_group(
        self,
        name: str,
        *,
        attributes: Mapping[str, Any] | None = None,
        overwrite: bool = False,
    ) -> Group:
        """Create a group, and the groups between, in the format of this one.

        Parameters
        ----------
        name
            Its name, or its path from here.
        attributes
            Its attributes.
        overwrite
            Delete what is there, with everything below it. By default that is an
            error.

        Raises
        ------
        ExistsError
            If there is a node at that path.
        """
        self._check_writable()
        from tessarr.flow import create
        from tessarr.metadata.build import attributes_of

        path = self._child(name)
        form = self._meta.zarr_format
        meta = GroupMeta(form, attributes_of(attributes, form))
        drive.run(
            create.create(path, meta, overwrite=overwrite, within=self._path),
            self._store,
        )
        return self._created(Group(meta, self._store, path, read_only=False))

    def require_group(self, name: str) -> Group:
        """Return the group `name`; create it if there is no node.

        Raises
        ------
        NotFoundError
            If there is an array.
        """
        try:
            return self._open_group(name)
        except NotFoundError:
            try:
                return self.create_group(name)
            except ExistsError:  # somebody else was faster, or it is an array
                return self._open_group(name)

    def create_array(
        self,
        name: str,
        *,
        shape: ShapeLike | None = None,
        dtype: DataTypeLike | None = None,
        data: ArrayLike | None = None,
        overwrite: bool = False,
        write_empty_chunks: bool | None = None,
        **settings: Any,
    ) -> Array:
        """Create an array, and the groups between, in the format of this group.

        Parameters
        ----------
        name
            Its name, or its path from here.
        shape, dtype, data, overwrite, write_empty_chunks, **settings
            As for `tessarr.create_array`, but for ``zarr_format``.

        Raises
        ------
        ExistsError
            If there is a node at that path, and `overwrite` is false.
        """
        from tessarr.creating import create_array

        self._check_writable()
        if settings.setdefault("zarr_format", self._meta.zarr_format) != self.zarr_format:
            raise ArgumentError(
                f"an array of format {settings['zarr_format']} cannot be in a group of format "
                f"{self.zarr_format}"
            )
        created = create_array(
            self._store,
            self._child(name),
            within=self._path,
            shape=shape,
            dtype=dtype,
            data=data,
            overwrite=overwrite,
            write_empty_chunks=write_empty_chunks,
            **settings,
        )
        return self._created(created)

    def require_array(
        self,
        name: str,
        *,
        shape: ShapeLike,
        dtype: DataTypeLike | None = None,
        exact: bool = False,
        **settings: Any,
    ) -> Array:
        """Return the array `name`; create it if there is no node.

        Parameters
        ----------
        name
            Its name, or its path from here.
        shape, dtype
            What it has to have. A data type fits if it can be cast safely to that of
            the array.
        exact
            Whether the data type has to be the same.
        **settings
            For a new array, as for `create_array`.

        Raises
        ------
        TypeError
            If there is an array, and it has another shape, or its data type does not fit.
        NotFoundError
            If there is a group.
        """
        found = self.get(name)
        if found is None:
            try:
                return self.create_array(name, shape=shape, dtype=dtype, **settings)
            except ExistsError:  # somebody else was faster
                found = self[name]
        if not isinstance(found, Array):
            raise open_flow.missing(self._child(name), "array", other=True)
        from tessarr.layout import normalize_shape

        wanted = normalize_shape(shape)
        if found.shape != wanted:
            raise TypeError(f"array {found.name!r} has shape {found.shape}, not {wanted}")
        if dtype is not None and not _fits(found, dtype, exact=exact):
            raise TypeError(f"array {found.name!r} has data type {found.dtype}, not {dtype}")
        return found

    # Protocols

    def __repr__(self) -> str:
        return f"Group({self.name}, zarr_format={self.zarr_format})"

    def __reduce__(self) -> tuple[Any, ...]:
        from tessarr.flow.create import documents

        return _reopen, (
            documents(self._meta),
            self._store,
            self._path,
            self._read_only,
            self._copies,
        )

    # What the others stand on

    def _child(self, name: str) -> str:
        if not isinstance(name, str):
            raise TypeError(f"the name of a member is a string, not {name!r}")
        below = node_path(name, self._meta.zarr_format)
        if name.startswith("/"):
            return below
        return join(self._path, below) if below else self._path

    def _find(self, path: str) -> NodeMeta | None:
        if self._copies is not None and self._copies.covers(path):
            return self._copies.find(path)
        return drive.run(open_flow.find(path, within=self._meta.zarr_format), self._store)

    def _members(self, max_depth: int | None) -> dict[str, Found]:
        if self._copies is not None:
            found = self._copies.members(self._path, max_depth=max_depth)
        else:
            from tessarr.flow import walk

            flow = walk.members(self._path, self._meta.zarr_format, max_depth=max_depth)
            found = drive.run(flow, self._store)
        prefix = open_flow.prefix_of(self._path)
        return {path[len(prefix) :]: meta for path, meta in found.items()}

    def _bind(self, path: str, meta: NodeMeta) -> Array | Group:
        copies = self._copies if self._copies is not None and self._copies.covers(path) else None
        return bind(meta, self._store, path, read_only=self._read_only, copies=copies)

    def _created(self, node: N) -> N:
        """Note that a node is new, for groups that were opened by consolidated metadata."""
        if self._copies is not None and self._copies.covers(node.path):
            node._copies = self._copies
            self._copies.remove(node.path)
            node._note_change()
        return node

    def _open_group(self, name: str) -> Group:
        path = self._child(name)
        meta = self._find(path)
        if not isinstance(meta, GroupMeta):
            raise open_flow.missing(path, "group", other=meta is not None)
        bound = self._bind(path, meta)
        assert isinstance(bound, Group)
        return bound


def bind(
    meta: NodeMeta,
    store: Store,
    path: str,
    *,
    read_only: bool,
    copies: Consolidated | None = None,
) -> Array | Group:
    """Return the array or group that metadata describes, in a store; nothing is read.

    `copies` are those by which it was found, if it was by any.
    """
    if isinstance(meta, GroupMeta):
        return Group(meta, store, path, read_only=read_only, copies=copies)
    found = bind_array(meta, store, path, read_only=read_only)
    found._copies = copies
    return found


def _reopen(
    documents: dict[str, bytes],
    store: Store,
    path: str,
    read_only: bool,
    copies: Consolidated | None,
) -> Group:
    meta = open_flow.parse(documents, path)
    assert isinstance(meta, GroupMeta)
    return Group(meta, store, path, read_only=read_only, copies=copies)


def _fits(array: Array, dtype: DataTypeLike, *, exact: bool) -> bool:
    """Tell whether elements of a data type can be stored safely in `array`."""
    from tessarr import dtype as dtypes

    has = array.metadata.data_type
    if dtype is object or dtype == np.dtype(object):
        return has.numpy == np.dtype(object)
    wanted = dtypes.of(dtype)
    if has.elements is not None or wanted.elements is not None:
        return has.name == wanted.name
    same = array.dtype == wanted.numpy
    return same or (not exact and np.can_cast(wanted.numpy, array.dtype))
