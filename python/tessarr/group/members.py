"""Members of a group: a mapping of names to nodes, and walks through the hierarchy."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import ItemsView, Iterable, Iterator, KeysView, ValuesView
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar, overload
from weakref import ref

from tessarr.array import Array
from tessarr.array.description import check_pickles
from tessarr.errors import ArgumentError, MetadataError, NotFoundError, UnsupportedError
from tessarr.flow import open as open_flow
from tessarr.flow.run import run_flow
from tessarr.format.node_path import check_path, join, normalize_path
from tessarr.metadata.node import ArrayMeta, GroupMeta
from tessarr.node.node import Node, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Never, Self

    from tessarr.flow.open import Node as NodeMeta
    from tessarr.metadata.node import NodeOrError
    from tessarr.node.tree import Tree
    from tessarr.types import MemberKey

__all__ = ["GroupMembers", "Items", "Keys", "Values"]

T = TypeVar("T")


class _ListingIterator(Iterator[T]):
    """An iterator over a listing, which it requests with the first item."""

    __slots__ = ("__weakref__", "_items", "_list_items")

    def __init__(self, list_items: Callable[[], Sequence[T]]) -> None:
        self._list_items = list_items
        self._items: Iterator[T] | None = None

    def start(self, items: Sequence[T]) -> None:
        """Iterate over a listing, unless the iteration has started."""
        if self._items is None:
            self._items = iter(items)

    def __next__(self) -> T:
        if self._items is None:
            self._items = iter(self._list_items())
        return next(self._items)


class _Listed(Generic[T]):
    """A collection whose items one listing returns.

    Each iteration and each length is a listing. ``list(collection)`` first calls ``iter`` and then
    ``len``, and takes one: the listing for a length also serves a new iteration without any item
    so far. A subclass has a slot ``_pending``.
    """

    __slots__ = ()

    _pending: ref[_ListingIterator[Any]]
    """The newest iterator."""

    @abstractmethod
    def _list_items(self) -> Sequence[T]:
        """Return the current items."""

    def __iter__(self) -> Iterator[T]:
        iterator = _ListingIterator(self._list_items)
        self._pending = ref(iterator)  # type: ignore[misc]  # a slot of the subclass
        return iterator

    def __len__(self) -> int:
        items = self._list_items()
        pending: ref[_ListingIterator[Any]] | None = getattr(self, "_pending", None)
        iterator = None if pending is None else pending()
        if iterator is not None:
            iterator.start(items)
        return len(items)


def _repr_view(view: Iterable[Any]) -> str:
    """Return the class and the items of a view, or the error of listing them."""
    try:
        items = repr(list(view))
    except Exception as error:  # noqa: BLE001 (a representation raises no error)
        from tessarr._safe_repr import to_printable

        items = to_printable([f"cannot be listed: {error}"])
    return f"{type(view).__name__}({items})"


class Keys(KeysView[str]):
    """The names of the members of a group: a dynamic set view, like the keys of a dictionary."""

    __slots__ = ()
    _mapping: GroupMembers

    def __iter__(self) -> Iterator[str]:
        return iter(self._mapping)

    def __repr__(self) -> str:
        return _repr_view(self)


class Values(_Listed[T], ValuesView[T]):
    """The members of a group, sorted by name."""

    __slots__ = ("_pending",)
    _mapping: GroupMembers

    def _list_items(self) -> list[T]:
        members: tuple[tuple[str, Any], ...] = self._mapping.members()
        return [node for _, node in members]

    def __repr__(self) -> str:
        return _repr_view(self)


class Items(_Listed[tuple[str, T]], ItemsView[str, T]):
    """The members of a group with their names, sorted."""

    __slots__ = ("_pending",)
    _mapping: GroupMembers

    def _list_items(self) -> tuple[tuple[str, T], ...]:
        members: tuple[tuple[str, Any], ...] = self._mapping.members()
        return members

    def __repr__(self) -> str:
        return _repr_view(self)


class GroupMembers(_Listed[str], Node[GroupMeta]):
    """Read access to the members of a group."""

    __slots__ = ()

    _kind: ClassVar[Literal["array", "group"]] = "group"

    @property
    def _on_unknown(self) -> Callable[[str], None] | None:
        """Receives the path of each object in a listed group that is not a node, if not None."""
        return None

    @abstractmethod
    def _bind(self, path: str, meta: NodeMeta) -> Array | Self:
        """Return the node that metadata describes, with the settings of this group."""

    # Methods of mappings

    @overload
    def __getitem__(self, name: str) -> Array | Self: ...
    @overload
    def __getitem__(self, name: MemberKey) -> Never: ...  # so that g["a"][0:3] has a type
    def __getitem__(self, name: Any) -> Array | Self:
        path = self._member_path(name)
        meta = self._find_meta(path)
        if meta is None:
            from tessarr.flow.walk import describe_nodes_below

            raise self._not_found_error(name, path, describe_nodes_below(path, self._store))
        return self._bind(path, meta)

    def _not_found_error(self, name: str, path: str, hint: str = "") -> NotFoundError:
        return NotFoundError(
            f"there is no array or group {name!r} in group {self.name!r}{hint}",
            kind="node_not_found",
            path=path,
        )

    @overload
    def get(
        self, name: str, default: None = None, *, getclass: Literal[False] = False
    ) -> Array | Self | None: ...
    @overload
    def get(
        self, name: str, default: T, *, getclass: Literal[False] = False
    ) -> Array | Self | T: ...
    @overload
    def get(self, name: str, default: Any = None, *, getclass: bool) -> Any: ...
    def get(self, name: str, default: Any = None, *, getclass: bool = False) -> Any:
        """Return the member `name`, or `default` if it does not exist.

        Parameters
        ----------
        name
            The name of the member, or its path from this group.
        default
            The result if the node does not exist.
        getclass
            Return the class of the member instead, as h5py does.
        """
        path = self._member_path(name)
        meta = self._find_meta(path)
        if meta is None:
            return default
        node = self._bind(path, meta)
        return type(node) if getclass else node

    def get_array(self, name: str) -> Array:
        """Return the array `name`; raise an error if it is a group.

        Type checkers know that the result is an array; that of ``g[name]`` is an array or a group.
        """
        path = self._member_path(name)
        meta = self._find_meta(path)
        if not isinstance(meta, ArrayMeta):
            raise open_flow.not_found_error(path, "array", other=meta is not None)
        node = self._bind(path, meta)
        assert isinstance(node, Array)
        return node

    def get_group(self, name: str) -> Self:
        """Return the group `name`; raise an error if it is an array."""
        path = self._member_path(name)
        meta = self._find_meta(path)
        if not isinstance(meta, GroupMeta):
            raise open_flow.not_found_error(path, "group", other=meta is not None)
        node = self._bind(path, meta)
        assert isinstance(node, type(self))
        return node

    def __getattr__(self, name: str) -> Any:
        # Programs look up names with an underscore to detect protocols.
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        try:
            member = self.get(name)
        except ArgumentError:
            member = None
        if member is None:
            raise AttributeError(
                f"{self!r} has neither an attribute nor a member {name!r}", name=name, obj=self
            ) from None
        return member

    def __dir__(self) -> list[str]:
        members = (name for name in self if name.isidentifier() and not name.startswith("_"))
        return [*super().__dir__(), *members]

    def _ipython_key_completions_(self) -> list[str]:
        """Return names, and paths below a group whose path the user has typed."""
        from tessarr.group.completion import complete_paths

        return complete_paths(self._list_folders)

    def _list_folders(self, name: str) -> list[str]:
        """Return the names of members of this group or one below it, with one or two requests."""
        path = self._member_path(name)
        copies = self._consolidated
        if copies is not None and (path == self._path or copies.covers(path)):
            return copies.names(path)
        if path != self._path and not isinstance(self._find_meta(path), GroupMeta):
            return []
        from tessarr.flow import walk

        return run_flow(walk.list_folders(path, self._meta.zarr_format), self._store)

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str | bytes):
            return False
        try:
            path = self._member_path(name)
        except ArgumentError:
            return False
        if self._consolidated is not None and self._consolidated.covers(path):
            return self._consolidated.exists(path)
        return run_flow(open_flow.node_exists(path), self._store)

    def __bool__(self) -> bool:
        return True

    def _list_items(self) -> list[str]:
        if self._consolidated is not None:
            return self._consolidated.names(self._path)
        from tessarr.flow import walk

        flow = walk.list_names(self._path, self._meta.zarr_format, self._on_unknown)
        return run_flow(flow, self._store)

    def keys(self) -> Keys:
        """Return a view of the sorted names of the members, like that of a dictionary."""
        return Keys(self)

    def values(self) -> Values[Array | Self | Unreadable]:
        """Return a view of the members, sorted by name, like that of a dictionary.

        A member that cannot be opened is a `tessarr.Unreadable`, as in `members`.
        """
        return Values(self)

    def items(self) -> Items[Array | Self | Unreadable]:
        """Return a view of the members with their names, sorted, like that of a dictionary.

        A member that cannot be opened is a `tessarr.Unreadable`, as in `members`.
        """
        mapping: Any = self
        return Items(mapping)

    # Walks

    def members(
        self, max_depth: int | None = 0, *, use_consolidated_for_children: bool = True
    ) -> tuple[tuple[str, Array | Self | Unreadable], ...]:
        """Return the nodes below the group with their paths from this group, sorted.

        A node that cannot be opened is a `tessarr.Unreadable`, whose use raises the error. Its
        metadata is damaged, or it needs a codec that is missing or not allowed.

        Parameters
        ----------
        max_depth
            0 for the members, 1 for these and their members, and so on; None for all levels.
        use_consolidated_for_children
            Whether to use the consolidated metadata of the group, if any. False lists the store.

        Notes
        -----
        The method takes one listing per group and one or three requests per node, in two or three
        round trips per level. It never lists chunks. Consolidated metadata needs no request.
        """
        metas = self._list_members(max_depth, stored=not use_consolidated_for_children)
        return tuple(
            (name, self._bind_or_unreadable(join(self._path, name), meta))
            for name, meta in metas.items()
        )

    def _bind_or_unreadable(self, path: str, meta: NodeOrError) -> Array | Self | Unreadable:
        if isinstance(meta, Exception):
            return Unreadable(path, meta)
        try:
            return self._bind(path, meta)
        except (MetadataError, UnsupportedError) as error:  # such as for a pickled array
            return Unreadable(path, error)

    def nmembers(self, max_depth: int | None = 0) -> int:
        """Return the number of nodes below the group; `max_depth` as for `members`."""
        return len(self._list_members(max_depth))

    def arrays(self, recurse: bool = False) -> Iterator[tuple[str, Array]]:  # noqa: FBT002
        """Iterate over the arrays among the members, with their names, sorted.

        The iteration omits members that cannot be opened; `members` includes them.

        Parameters
        ----------
        recurse
            Whether to include arrays of the groups below, with their paths from this group.

        Examples
        --------
        >>> import tessarr
        >>> g = tessarr.create_group(None)
        >>> _ = g.create_array("a/b", shape=1), g.create_array("c", shape=2)
        >>> list(g.arrays())
        [('c', Array(/c, (2,), float64, chunks=(2,), order=C))]
        >>> [name for name, _ in g.arrays(recurse=True)]
        ['a/b', 'c']
        """
        for name, node in self.members(_depth(recurse)):
            if isinstance(node, Array):
                yield name, node

    def groups(self, recurse: bool = False) -> Iterator[tuple[str, Self]]:  # noqa: FBT002
        """Iterate over the groups among the members, with their names, sorted.

        Parameters
        ----------
        recurse
            Whether to include groups on deeper levels, with their paths from this group.
        """
        for name, node in self.members(_depth(recurse)):
            if isinstance(node, type(self)):
                yield name, node

    def array_keys(self, recurse: bool = False) -> Iterator[str]:  # noqa: FBT002
        """Iterate over the names of arrays, as `arrays` does."""
        members = self._list_members(_depth(recurse))
        return (name for name, meta in members.items() if isinstance(meta, ArrayMeta))

    def group_keys(self, recurse: bool = False) -> Iterator[str]:  # noqa: FBT002
        """Iterate over the names of groups, as `groups` does."""
        members = self._list_members(_depth(recurse))
        return (name for name, meta in members.items() if isinstance(meta, GroupMeta))

    def array_values(self, recurse: bool = False) -> Iterator[Array]:  # noqa: FBT002
        """Iterate over arrays, as `arrays` does."""
        return (node for _, node in self.arrays(recurse))

    def group_values(self, recurse: bool = False) -> Iterator[Self]:  # noqa: FBT002
        """Iterate over groups, as `groups` does."""
        return (node for _, node in self.groups(recurse))

    def visititems(self, function: Callable[[str, Any], T | None]) -> T | None:
        """Call a function with the path and the node of each node below the group.

        Parameters
        ----------
        function
            Receives the path from this group, and the array or group. A group comes before its
            members, and names are sorted. A result other than None ends the walk.

        Returns
        -------
        object
            The result that ended the walk, or None.

        Notes
        -----
        The method takes the requests of `members` of all depths. It lists all nodes before the
        first call of the function, so that the function may change the hierarchy.

        Examples
        --------
        >>> import tessarr
        >>> g = tessarr.create_group(None)
        >>> _ = g.create_array("a/b", shape=1), g.create_array("c", shape=2)
        >>> g.visititems(lambda path, node: print(path, node))
        a Group(/a, zarr_format=3)
        a/b Array(/a/b, (1,), float64, chunks=(1,), order=C)
        c Array(/c, (2,), float64, chunks=(2,), order=C)
        >>> g.visit(lambda path: path if path.endswith("b") else None)
        'a/b'
        """
        for path, node in self.members(None):
            result = function(path, node)
            if result is not None:
                return result
        return None

    def visit(self, function: Callable[[str], T | None]) -> T | None:
        """Call a function with the path of each node below the group, as `visititems` does."""
        for path in self._list_members(None):
            result = function(path)
            if result is not None:
                return result
        return None

    visitkeys = visit

    def visitvalues(self, function: Callable[[Any], T | None]) -> T | None:
        """Call a function with each node below the group, as `visititems` does."""
        return self.visititems(lambda _, node: function(node))

    def tree(
        self,
        expand: bool | None = None,
        level: int | None = None,
        *,
        max_nodes: int | None = 500,
        plain: bool = True,
    ) -> Tree:
        """Return a tree view of the hierarchy below, for printing and for notebooks.

        Parameters
        ----------
        expand
            Whether a notebook initially shows all groups unfolded; by default only the first level.
        level
            The number of levels to draw; by default all.
        max_nodes
            The maximum number of nodes to draw; the view shows the number of further nodes. None
            draws all nodes.
        plain
            Accepted for zarr-python; the tree is always plain text.

        Examples
        --------
        >>> import tessarr
        >>> g = tessarr.create_group(None)
        >>> _ = g.create_array("a/b", shape=(3,), dtype="i4")
        >>> g.tree(level=1)
        /
        └── a
        """
        from tessarr.node.tree import Tree

        del plain
        members = {} if level == 0 else self._list_members(None if level is None else level - 1)
        return Tree(self.name, members, expand=expand, max_nodes=max_nodes)

    # Internal methods

    def _member_path(self, name: str | bytes) -> str:
        if isinstance(name, bytes):  # h5py takes both
            try:
                name = name.decode()
            except UnicodeDecodeError as error:
                message = f"the name of a member is text, not {name!r}: {error}"
                raise ArgumentError(message, kind="invalid_path") from error
        check_path(name)
        below = normalize_path(name, self._meta.zarr_format)
        if name.startswith("/"):
            return below
        return join(self._path, below)

    def _find_meta(self, path: str) -> NodeMeta | None:
        if self._consolidated is not None and self._consolidated.covers(path):
            return self._consolidated.find(path)
        return run_flow(open_flow.find_node(path, within=self._meta.zarr_format), self._store)

    def _list_members(
        self, max_depth: int | None, *, stored: bool = False
    ) -> dict[str, NodeOrError]:
        if self._consolidated is not None and not stored:
            metas = self._consolidated.members(self._path, max_depth=max_depth)
        else:
            from tessarr.flow import walk

            flow = walk.list_members(
                self._path,
                self._meta.zarr_format,
                max_depth=max_depth,
                on_unknown=self._on_unknown,
            )
            metas = run_flow(flow, self._store)
        prefix = open_flow.prefix_of(self._path)
        return {path[len(prefix) :]: _check_member(path, meta) for path, meta in metas.items()}


def _check_member(path: str, meta: NodeOrError) -> NodeOrError:
    """Return the metadata of a member, or the error that opening it raises."""
    if isinstance(meta, ArrayMeta):
        try:
            check_pickles(meta, path)
        except UnsupportedError as error:
            return error
    return meta


def _depth(recurse: bool) -> int | None:
    return None if recurse else 0
