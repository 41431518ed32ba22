"""The class `Group`, and `bind_node`, which creates a node object from metadata and a store."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, overload

from tessarr.array import Array, bind_array
from tessarr.errors import ArgumentError
from tessarr.flow import open as open_flow
from tessarr.flow.run import run_flow
from tessarr.format.node_path import split
from tessarr.format.registry import set_public_module
from tessarr.group.create import GroupCreation
from tessarr.metadata.node import ArrayMeta, GroupMeta
from tessarr.options import current
from tessarr.store.resolve import locate_node

if TYPE_CHECKING:
    from typing import Self

    from tessarr.flow.open import Node as NodeMeta
    from tessarr.metadata.consolidated import Consolidated
    from tessarr.node.info import GroupInfo
    from tessarr.store import Store, StoreLike
    from tessarr.types import Present, ZarrFormat

__all__ = ["Group", "bind_node"]

_NO_SETTINGS: Final[Mapping[str, Any]] = MappingProxyType({})


class Group(GroupCreation):
    """A group in a store: a mapping of names to arrays and groups.

    `tessarr.open_group`, `tessarr.create_group` and groups return groups; ``Group(store)`` opens an
    existing one.

    Parameters
    ----------
    store
        The store of the group, as for `tessarr.open`.
    path
        The path of the group in the store; by default the root.
    read_only
        Whether the group, and every node that it opens, rejects changes.
    chunk_store
        The store of the chunks, if it differs from that of the metadata.
    synchronizer
        The synchronizer of the group's arrays; see `tessarr.open_array`.
    cache_attrs
        Whether the group caches its metadata until `refresh`. If False, every access reads the
        metadata of the group, and of arrays that it opens, again.
    zarr_format, zarr_version
        The only format to look for.
    meta_array
        For zarr-python 2: a NumPy array, as all results are.

    Notes
    -----
    A group looks up members in the store on every access, so that it sees changes by other
    programs; it caches only its own attributes. A name may be a path: ``g["a/b"]`` is
    ``g["a"]["b"]`` in one step. A path with a leading slash starts at the root of the store.
    Iteration is sorted by name. Members whose names are identifiers are attributes, too:
    ``g.temperature``.

    A group with consolidated metadata (see `tessarr.open_group`) knows all nodes below it and looks
    up none: it sees changes by other programs only after `refresh`.

    Examples
    --------
    >>> import tessarr
    >>> g = tessarr.create_group(None)
    >>> a = g.create_array("foo/bar", shape=(3,), dtype="i4")
    >>> list(g), "foo/bar" in g, g["foo/bar"]
    (['foo'], True, Array(/foo/bar, (3,), int32, chunks=(3,), order=C))
    """

    __slots__ = (
        "__weakref__",
        "_consolidated",
        "_meta",
        "_path",
        "_pending",
        "_read_only",
        "_runtime_settings",
        "_store",
    )

    def __init__(
        self,
        store: StoreLike,
        path: str | None = None,
        read_only: bool = False,  # noqa: FBT002 (where zarr-python 2 has it)
        chunk_store: StoreLike = None,
        synchronizer: Any = None,
        *,
        cache_attrs: bool = True,
        zarr_format: ZarrFormat | None = None,
        zarr_version: ZarrFormat | None = None,
        meta_array: Any = None,
    ) -> None:
        mode, form = "r" if read_only else "r+", zarr_format or zarr_version
        resolved, node_path = locate_node(store, mode, path, form, chunk_store=chunk_store)
        meta = run_flow(open_flow.open_group(node_path, zarr_format=form), resolved)
        runtime: dict[str, Any] = {}
        if synchronizer is not None or not cache_attrs or meta_array is not None:
            from tessarr.array.keywords import runtime_settings

            runtime = runtime_settings(
                {"synchronizer": synchronizer, "cache_attrs": cache_attrs, "meta_array": meta_array}
            )
        self._initialize(
            meta,
            resolved,
            node_path,
            read_only=read_only,
            copies=None,
            runtime_settings=runtime,
        )

    @classmethod
    def open(
        cls,
        store: StoreLike,
        zarr_format: ZarrFormat | None = None,
        *,
        use_consolidated: bool | str | None = None,
    ) -> Group:
        """Open an existing group for reading and writing, as `tessarr.open_group` does."""
        if not use_consolidated:
            return cls(store, zarr_format=zarr_format)
        from tessarr.flow import consolidate

        resolved, node_path = locate_node(store, "r+", None, zarr_format)
        name = use_consolidated if isinstance(use_consolidated, str) else None
        flow = consolidate.find_consolidated(node_path, zarr_format=zarr_format, name=name)
        meta, copies = run_flow(flow, resolved)
        return bind_node(meta, resolved, node_path, read_only=False, copies=copies)

    async def update_attributes_async(self, new_attributes: Mapping[str, Any]) -> Group:
        """Set several attributes in one step, as `update_attributes` does, and return the group."""
        import asyncio

        return await asyncio.to_thread(self.update_attributes, new_attributes)

    @classmethod
    def from_store(
        cls,
        store: StoreLike,
        *,
        path: str | None = None,
        attributes: Mapping[str, Any] | None = None,
        zarr_format: ZarrFormat | None = None,
        overwrite: bool = False,
        chunk_store: StoreLike = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> Group:
        """Create a group; the implementation of `tessarr.create_group`.

        Parameters
        ----------
        store, path, attributes, zarr_format, overwrite, chunk_store, storage_options
            As for `tessarr.create_group`.
        """
        from tessarr.flow import create
        from tessarr.metadata.attributes import normalize_attributes
        from tessarr.node.replace import replace_node

        form = zarr_format or current().zarr_format
        resolved, node_path = locate_node(
            store, "w", path, form, chunk_store=chunk_store, storage_options=storage_options
        )
        meta = GroupMeta(form, normalize_attributes(attributes))
        if not overwrite or not replace_node(resolved, node_path, meta):
            flow = create.create_node(
                node_path,
                meta,
                overwrite=overwrite,
                beside=zarr_format is not None,
                store=resolved,
            )
            run_flow(flow, resolved)
        return bind_node(meta, resolved, node_path, read_only=False)

    def _initialize(
        self,
        meta: GroupMeta,
        store: Store,
        path: str,
        *,
        read_only: bool,
        copies: Consolidated | None,
        runtime_settings: Mapping[str, Any],
    ) -> None:
        self._meta = meta
        self._consolidated = copies
        self._store = store
        self._path = path
        self._read_only = read_only or store.read_only
        self._runtime_settings = runtime_settings

    @property
    def _metadata(self) -> GroupMeta:
        """The metadata in the model of format 3. Do not modify it."""
        if not self._runtime_settings.get("cache_metadata", True):
            self.refresh()
        return self._meta

    @property
    def synchronizer(self) -> Any:
        """The synchronizer of the group's arrays, if any."""
        return self._runtime_settings.get("synchronizer")

    @property
    def info(self) -> GroupInfo:
        """A table of information about the group, for printing; takes the requests of `members`.

        Examples
        --------
        >>> import tessarr
        >>> g = tessarr.create_group(None)
        >>> _ = g.create_group("foo"), g.zeros("bar", shape=3)
        >>> g.info
        Group(/, 2)
          arrays: 1; bar
          groups: 1; foo
          store: MemoryStore
        """
        from tessarr.node.info import GroupInfo

        members = self._list_members(0)
        return GroupInfo(
            **self._info_fields(),
            arrays=tuple(name for name, meta in members.items() if isinstance(meta, ArrayMeta)),
            groups=tuple(name for name, meta in members.items() if isinstance(meta, GroupMeta)),
            unreadable=tuple(name for name, meta in members.items() if isinstance(meta, Exception)),
            consolidated=self.consolidated,
        )

    def info_complete(self) -> GroupInfo:
        """Return `info`."""
        return self.info

    def info_items(self) -> list[tuple[str, str]]:
        """Return `info` as labels and values, as in zarr-python 2.18."""
        return self.info.items()

    @property
    def consolidated(self) -> bool:
        """Whether the group uses consolidated metadata."""
        return self._consolidated is not None

    @property
    def parent(self) -> Group:
        """The parent group; the parent of the root is the root."""
        return self._get_ancestor(split(self._path)[0])

    @property
    def file(self) -> Group:
        """The group at the root of the store, under h5py's name."""
        return self._get_ancestor("")

    def _get_ancestor(self, path: str) -> Group:
        if path == self._path:
            return self
        return self.get_group(f"/{path}")

    def refresh(self) -> None:
        """Read the group's metadata again, and its consolidated metadata if the group uses it.

        Nodes that the group opened use the new consolidated metadata, too; their own attributes and
        shapes do not change.

        Raises
        ------
        NotFoundError
            If the group, or its consolidated metadata, no longer exists.

        Examples
        --------
        >>> import tessarr
        >>> items = {}
        >>> g = tessarr.create_group(items)
        >>> h = tessarr.open_group(items)
        >>> h.attrs["title"] = "x"
        >>> g.refresh()
        >>> g.attrs["title"]
        'x'
        """
        form = self._meta.zarr_format
        if self._consolidated is None:
            self._meta = run_flow(open_flow.open_group(self._path, zarr_format=form), self._store)
            return
        from tessarr.flow import consolidate

        root, name = self._consolidated.root, self._consolidated.name
        flow = consolidate.find_consolidated(root, zarr_format=form, name=name)
        meta, copies = run_flow(flow, self._store)
        own_meta = meta if root == self._path else copies.find(self._path)
        if not isinstance(own_meta, GroupMeta):
            raise open_flow.not_found_error(self._path, "group", other=own_meta is not None)
        self._consolidated.replace_content(copies)
        self._meta = own_meta

    # Changes of the hierarchy below

    @contextmanager
    def batch(self) -> Generator[Self]:
        """Update consolidated metadata once, at the end of a ``with`` block.

        Without it, each change below a group with consolidated metadata writes them twice. In the
        block, the first change marks the copies as stale, and the end of the block updates them for
        all changes at and below this group. Without consolidated metadata the block has no effect.

        Yields
        ------
        Group
            This group.

        Notes
        -----
        All changes are stored at once; only the copies wait. Until the block ends, readers read
        the stored documents of the nodes instead of the copies. The copies are also updated if an
        exception ends the block. If the program dies in the block, the mark stays, and the next
        change rebuilds the copies.

        The block includes changes by all threads of this process, and through other objects for
        the same store. A change by another process rebuilds the copies. A block inside another one
        ends with the outer one.

        Examples
        --------
        >>> import tessarr
        >>> g = tessarr.create_group(None)
        >>> g = tessarr.consolidate_metadata(g)
        >>> with g.batch():
        ...     for number in range(3):
        ...         _ = g.zeros(f"a{number}", shape=10)
        >>> tessarr.consolidated_differences(g)
        {}
        """
        self._check_writable()
        from tessarr.node.batch import batch_changes

        with batch_changes(self._store, self._path):
            yield self

    def __delitem__(self, name: str) -> None:
        self._check_writable()
        path = self._member_path(name)
        if not path:
            raise ArgumentError("the root group cannot be deleted through a group", path="")
        from tessarr.flow import deletion, edit

        is_node = run_flow(open_flow.node_exists(path), self._store)
        if not is_node and not run_flow(deletion.remove_dangling_link(path), self._store):
            raise open_flow.not_found_error(path, None)
        run_flow(edit.delete_node(path), self._store)
        if self._consolidated is not None:
            self._consolidated.remove(path)

    def clear(self) -> None:
        """Delete all members, with everything below them."""
        self._check_writable()
        for name in list(self):
            del self[name]

    def move(self, source: str, dest: str) -> None:
        """Move an array or a group to another path.

        Parameters
        ----------
        source, dest
            The old and the new path, from this group, or from the root with a leading slash. The
            method creates missing groups. Reopen nodes that you opened at the old path.

        Raises
        ------
        NotFoundError
            If no node exists at `source`.
        ExistsError
            If a node exists at `dest`, or an array above it.
        ArgumentError
            If `source` is the root, or `dest` is below `source`.

        Notes
        -----
        A folder needs one rename. Other stores copy the values one by one, the documents last, and
        then delete the old ones: an interrupted move leaves the complete node at the old path.

        Examples
        --------
        >>> import tessarr
        >>> g = tessarr.create_group(None)
        >>> _ = g.array("a/b", [1, 2, 3])
        >>> g.move("a", "x/y")
        >>> g["x/y/b"][:]
        array([1, 2, 3])
        """
        self._check_writable()
        from tessarr.flow import move

        old, new = self._member_path(source), self._member_path(dest)
        run_flow(move.move_node(old, new, self._meta.zarr_format), self._store)
        if self._consolidated is not None:
            self.refresh()

    # Protocols

    def __repr__(self) -> str:
        return f"Group({self.name}, zarr_format={self.zarr_format})"

    def _repr_html_(self) -> str:
        from tessarr.node.html import render_group

        copies = self._consolidated
        return render_group(self._path, self._meta, self._store, copies, read_only=self._read_only)

    def __reduce__(self) -> tuple[Any, ...]:
        from tessarr.flow.create import dump_documents

        copies = self._consolidated
        return type(self)._unpickle, (
            dump_documents(self._meta),
            self._store,
            self._path,
            self._read_only,
            None if copies is None else (copies.root, copies.documents(), copies.name),
            dict(self._runtime_settings),
        )

    @classmethod
    def _unpickle(  # noqa: PLR0917 (as they are pickled)
        cls,
        documents: dict[str, bytes],
        store: Store,
        path: str,
        read_only: bool,
        copies: tuple[Any, ...] | None,
        runtime_settings: Mapping[str, Any],
    ) -> Group:
        from tessarr.metadata.consolidated import Consolidated

        meta = open_flow.parse_documents(documents, path)
        assert isinstance(meta, GroupMeta)
        consolidated = None if copies is None else Consolidated(*copies)
        return bind_node(
            meta, store, path, read_only=read_only, copies=consolidated, **runtime_settings
        )

    # Internal methods

    def _bind(self, path: str, meta: NodeMeta, **settings: Any) -> Array | Group:
        copies = (
            self._consolidated
            if self._consolidated is not None and self._consolidated.covers(path)
            else None
        )
        read_only, runtime_settings = self._read_only, self._runtime_settings
        if settings:
            runtime_settings = {**runtime_settings, **settings}
            read_only = runtime_settings.pop("read_only", False) or read_only
        return bind_node(
            meta, self._store, path, read_only=read_only, copies=copies, **runtime_settings
        )


# A group has all methods for reading a mapping.
Mapping.register(Group)  # pyright: ignore[reportAttributeAccessIssue] # it is an ABC


@overload
def bind_node(
    meta: GroupMeta,
    store: Store,
    path: str,
    *,
    read_only: bool,
    copies: Consolidated | None = None,
    **how: Any,
) -> Group: ...
@overload
def bind_node(
    meta: NodeMeta,
    store: Store,
    path: str,
    *,
    read_only: bool,
    copies: Consolidated | None = None,
    **how: Any,
) -> Array | Group: ...
def bind_node(
    meta: NodeMeta,
    store: Store,
    path: str,
    *,
    read_only: bool,
    copies: Consolidated | None = None,
    **how: Any,
) -> Array | Group:
    """Return the array or group that metadata describes, without I/O.

    Parameters
    ----------
    meta, store, path, read_only
        The metadata, the store, the path, and whether the node rejects changes.
    copies
        The consolidated metadata that contains the node, if any.
    **how
        Runtime settings of arrays, as for `tessarr.array.bind_array`.
    """
    if isinstance(meta, GroupMeta):
        group = Group.__new__(Group)
        group._initialize(
            meta,
            store,
            path,
            read_only=read_only,
            copies=copies,
            runtime_settings=how or _NO_SETTINGS,
        )
        return group
    present: Present = "document" if copies is None else "folder"
    array = bind_array(meta, store, path, read_only=read_only, present=present, **how)
    array._consolidated = copies
    return array


set_public_module("tessarr", Group)
