"""The base class of arrays and groups: a path in a store, and metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeVar

from tessarr.errors import InternalError, ReadOnlyError
from tessarr.format.node_path import join
from tessarr.format.registry import set_public_module
from tessarr.metadata.node import ArrayMeta, GroupMeta
from tessarr.store import LocalStore
from tessarr.store.adapt import close_user_store, get_user_chunk_store, get_user_store
from tessarr.store.resolve import get_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

    from tessarr.errors import TessarrError
    from tessarr.metadata.consolidated import Consolidated
    from tessarr.node.attributes import Attributes
    from tessarr.node.synchronizer import Synchronizer
    from tessarr.store import Store

__all__ = ["Node", "StorePath", "Unreadable", "ViewerFrame", "register_viewer"]

Meta = TypeVar("Meta", ArrayMeta, GroupMeta)


class Node(Generic[Meta]):
    """An array or a group: a path in a store, and metadata.

    Two nodes are equal if they have the same kind, path and store.
    """

    __slots__ = ()

    _kind: ClassVar[Literal["array", "group"]]

    if TYPE_CHECKING:
        _meta: Meta
        _store: Store
        _path: str
        _read_only: bool
        _consolidated: Consolidated | None
        _synchronizer: Synchronizer | None

    @property
    def store(self) -> Any:
        """The store of the node: the user's object, if the user passed one."""
        return get_user_store(self._store)

    @property
    def chunk_store(self) -> Any:
        """The store of the chunks; by default that of the node."""
        return get_user_chunk_store(self._store)

    @property
    def path(self) -> str:
        """The path in the store, without slashes at its ends."""
        return self._path

    @property
    def store_path(self) -> StorePath:
        """The store and the path of the node, which `tessarr.open` accepts.

        Examples
        --------
        >>> import tessarr
        >>> a = tessarr.ones(2, store="memory://places", path="a")
        >>> a.store_path, tessarr.open(a.store_path, "r")[:]
        (StorePath(MemoryStore(name='places'), 'a'), array([1., 1.]))
        """
        return StorePath(self.store, self._path, self._store)

    @property
    def name(self) -> str:
        """The path with a leading slash, as in h5py."""
        return f"/{self._path}"

    @property
    def basename(self) -> str:
        """The last part of the path."""
        return self._path.rpartition("/")[2]

    @property
    def read_only(self) -> bool:
        """Whether the node, and every node that it opens, rejects changes."""
        return self._read_only

    @property
    def synchronizer(self) -> Synchronizer | None:
        """The synchronizer of the node, if any."""
        return getattr(self, "_synchronizer", None)

    @property
    def metadata(self) -> Meta:
        """The metadata in the model of format 3.

        Changes of its dictionaries affect no node: set attributes with `attrs`.
        """
        return self._metadata.detached()

    @property
    def _metadata(self) -> Meta:
        """The metadata, read again if the node does not cache them."""
        return self._meta

    @property
    def zarr_format(self) -> Literal[1, 2, 3]:
        """The format: 2 or 3, or 1 for a read-only array."""
        return self._meta.document_format

    @property
    def attrs(self) -> Attributes:
        """The attributes: a mapping that stores every change."""
        from tessarr.node.attributes import Attributes

        return Attributes(self, self._kind, self._set_attributes)

    def update_attributes(self, new_attributes: Mapping[str, Any]) -> Self:
        """Set several attributes in one step, preserve the others, and return the node.

        Parameters
        ----------
        new_attributes
            Names and values.
        """
        self.attrs.update(new_attributes)
        return self

    def show(self, height: int = 600) -> ViewerFrame:
        """Show the node in a notebook: the page of ``tessarr view``, inline.

        Parameters
        ----------
        height
            The height of the frame in pixels.

        Returns
        -------
        ViewerFrame
            An object that notebooks show as a frame; ``url`` is the address of the page.

        Raises
        ------
        ArgumentError
            If the height is not a positive integer.
        UnsupportedError
            If the extra ``view`` is not installed.

        Notes
        -----
        The first call starts a server in this process, which only this machine reaches. The server
        ends with the process. Each node has an address with a secret token, and equal nodes have
        the same address. The addresses of the last 64 nodes work.

        Examples
        --------
        >>> import tessarr
        >>> frame = tessarr.ones((3, 4)).show()
        >>> frame.url.startswith("http://127.0.0.1:")
        True
        """
        if _show_node is None:
            raise InternalError("no viewer is registered")
        return _show_node(self, height)

    def close(self) -> None:
        """Close the store, if it needs closing, like a Zip file.

        This closes all other nodes of the store. A ``with`` statement closes the node at its end.
        """
        close_user_store(self._store)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _place(self) -> tuple[Store, str]:
        """The store and the path, for functions that accept a node instead of a store."""
        return self._store, self._path

    def _info_fields(self) -> dict[str, Any]:
        """Return the fields of `NodeInfo`."""
        store, chunk_store, synchronizer = self.store, self.chunk_store, self.synchronizer
        return {
            "name": self.name,
            "meta": self._metadata,
            "read_only": self._read_only,
            "store": repr(self._store),
            "store_type": type(store).__name__,
            "chunk_store_type": None if chunk_store is store else type(chunk_store).__name__,
            "synchronizer_type": None if synchronizer is None else type(synchronizer).__name__,
        }

    def _set_attributes(self, attributes: dict[str, Any]) -> None:
        from dataclasses import replace

        self._meta = replace(self._meta, attributes=attributes)  # type: ignore[misc] # a slot below
        self._note_change()

    def _note_change(self) -> None:
        """Update the consolidated metadata that this node shares with other nodes."""
        if self._consolidated is not None:
            self._consolidated.put(self._path, self._meta)

    def _check_writable(self) -> None:
        if self._read_only:
            old = self._meta.document_format == 1
            remedy = "call tessarr.migrate_1to2" if old else "open it with mode='r+'"
            if not old and self._store.read_only and not isinstance(self._store, LocalStore):
                remedy += ", if its store can be written"
            raise ReadOnlyError(
                f"{self._kind} {self.name!r} is open for reading only; {remedy}",
                path=self._path,
            )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Node):
            return NotImplemented
        same = self._kind == other._kind and self._path == other._path
        return same and bool(self._store == other._store)

    def __hash__(self) -> int:
        return hash((self._store, self._path))


class ViewerFrame(Protocol):
    """A page that notebooks show inline."""

    url: str
    """The address of the page."""

    def _repr_html_(self) -> str: ...


_show_node: Callable[[Any, int], ViewerFrame] | None = None


def register_viewer(function: Callable[[Any, int], ViewerFrame]) -> None:
    """Set the function of `Node.show`: the viewer is a layer above the nodes."""
    global _show_node  # noqa: PLW0603 (one viewer in the process)
    _show_node = function


class StorePath:
    """A store and a path in it, accepted by every function that accepts a store.

    ``store_path / "name"`` is the store path of a member.

    Parameters
    ----------
    store
        The store, as the user passed it.
    path
        The path in it.
    opened
        The open store.
    """

    __slots__ = ("_opened", "path", "store")

    def __init__(self, store: Any, path: str, opened: Store) -> None:
        self.store = store
        self.path = path
        self._opened = opened

    @property
    def _place(self) -> tuple[Store, str]:
        return self._opened, self.path

    def __truediv__(self, name: str) -> StorePath:
        return StorePath(self.store, join(self.path, name.strip("/")), self._opened)

    def __str__(self) -> str:
        folder = get_folder(self._opened)
        root = repr(self._opened) if folder is None else f"file://{folder}"
        return f"{root}/{self.path}" if self.path else root

    def __reduce__(self) -> tuple[Any, ...]:
        return StorePath, (self.store, self.path, self._opened)

    def __repr__(self) -> str:
        return f"StorePath({self._opened!r}, {self.path!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StorePath):
            return NotImplemented
        return self._place == other._place

    def __hash__(self) -> int:
        return hash(self._place)


class Unreadable:
    """A member of a group whose metadata cannot be read, in a listing of members.

    It replaces the array or group, so that one broken node does not hide the others. All attributes
    except the following raise its error.

    Parameters
    ----------
    path
        The path in the store.
    error
        The error that reading the node raised.

    Examples
    --------
    >>> import tessarr
    >>> g = tessarr.create_group({"bad/zarr.json": b"{"})
    >>> name, bad = g.members()[0]
    >>> bad
    Unreadable(/bad, invalid metadata 'bad/zarr.json': not JSON: ...)
    >>> bad.shape
    Traceback (most recent call last):
    tessarr.errors.MetadataError: invalid metadata 'bad/zarr.json': not JSON: ...
    """

    __slots__ = ("error", "path")

    def __init__(self, path: str, error: TessarrError) -> None:
        self.path = path
        self.error = error

    @property
    def name(self) -> str:
        """The path with a leading slash."""
        return f"/{self.path}"

    @property
    def basename(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # protocols check whether a method exists
            raise AttributeError(name)
        raise self.error.with_traceback(None)

    def __getitem__(self, key: object) -> Any:
        raise self.error.with_traceback(None)

    def __repr__(self) -> str:
        return f"Unreadable({self.name}, {self.error})"


set_public_module("tessarr", Unreadable)
# `tessarr` imports the class lazily: this lets doctest find the examples.
__test__ = {"Unreadable": Unreadable}
