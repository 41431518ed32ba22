"""Methods of a group that create groups and arrays, named as in h5py and zarr-python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from tessarr.array import Array
from tessarr.errors import ArgumentError, ExistsError, NotFoundError
from tessarr.flow import open as open_flow
from tessarr.flow.run import run_flow
from tessarr.format.node_path import join, normalize_path
from tessarr.format.registry import with_keywords
from tessarr.format.validation import check_zarr_format
from tessarr.group.members import GroupMembers
from tessarr.metadata.node import GroupMeta

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Never, Self, Unpack

    from tessarr.array.keyword_types import (
        DatasetLikeSettings,
        DataSettings,
        MemberLikeSettings,
        MemberSettings,
        Settings,
        SettingsWithoutFill,
    )
    from tessarr.dtype.names import DataTypeLike
    from tessarr.flow.open import Node as NodeMeta
    from tessarr.store import Store
    from tessarr.types import MemberKey, ShapeLike, ZarrFormat

__all__ = ["GroupCreation", "parse_nodes"]


class GroupCreation(GroupMembers):
    """Creation of members of a group."""

    __slots__ = ()

    if TYPE_CHECKING:
        _runtime_settings: Mapping[str, Any]

    # Groups

    def create_group(
        self,
        name: str,
        overwrite: bool = False,  # noqa: FBT002 (where zarr-python 2 has it)
        *,
        attributes: Mapping[str, Any] | None = None,
        zarr_format: ZarrFormat | None = None,
    ) -> Self:
        """Create a group, and missing groups above it.

        Parameters
        ----------
        name
            The name of the member, or its path from this group.
        overwrite
            Delete an existing node, with everything below it. By default an existing node is an
            error.
        attributes
            The attributes of the new group.
        zarr_format
            2 or 3; by default the format of this group. A group of the other format may exist at
            the path.

        Raises
        ------
        ArgumentError
            If the name or the format is invalid.
        ExistsError
            If a node exists at that path.
        """
        self._check_writable()
        from tessarr.flow import create
        from tessarr.metadata.attributes import normalize_attributes
        from tessarr.node.replace import replace_node

        if zarr_format is not None:
            check_zarr_format(zarr_format)
        path = self._new_member_path(name)
        form = zarr_format or self._meta.zarr_format
        meta = GroupMeta(form, normalize_attributes(attributes))
        store, within = self._store, self._path
        if not overwrite or not replace_node(store, path, meta, within=within):
            flow = create.create_node(
                path,
                meta,
                overwrite=overwrite,
                beside=zarr_format is not None,
                within=within,
                store=store,
            )
            run_flow(flow, store)
        created = self._bind(path, meta)
        assert isinstance(created, type(self))
        self._note_new(created)
        return created

    def create_groups(
        self,
        *names: str,
        overwrite: bool = False,
        attributes: Mapping[str, Any] | None = None,
        zarr_format: ZarrFormat | None = None,
    ) -> tuple[Self, ...]:
        """Create several groups with `create_group`.

        Examples
        --------
        >>> import tessarr
        >>> tessarr.create_group(None).create_groups("a", "b/c")
        (Group(/a, zarr_format=3), Group(/b/c, zarr_format=3))
        """
        return tuple(
            [
                self.create_group(name, overwrite, attributes=attributes, zarr_format=zarr_format)
                for name in names
            ]
        )

    def require_group(
        self,
        name: str,
        overwrite: bool = False,  # noqa: FBT002 (where zarr-python 2 has it)
    ) -> Self:
        """Return the group `name`; create it if no node exists.

        Parameters
        ----------
        name
            The name of the member, or its path from this group.
        overwrite
            Delete an existing node, with everything below it, and create the group.

        Raises
        ------
        NotFoundError
            If `name` is an array.
        """
        if overwrite:
            return self.create_group(name, overwrite=True)
        if self._is_below_deleted(name):
            return self.create_group(name)
        try:
            return self.get_group(name)
        except NotFoundError:
            try:
                return self.create_group(name)
            except ExistsError:  # another program created it, or it is an array
                return self.get_group(name)

    def require_groups(self, *names: str) -> tuple[Self, ...]:
        """Return several groups; create groups that do not exist."""
        return tuple([self.require_group(name) for name in names])

    def create_hierarchy(
        self, nodes: Mapping[str, Any], *, overwrite: bool = False
    ) -> Iterator[tuple[str, Array | Self]]:
        """Create several nodes, and missing groups above them: all nodes, or none.

        Parameters
        ----------
        nodes
            The nodes to create, by path from this group. A mapping with a ``shape`` describes an
            array by keywords of `create_array`. None, or a mapping with only ``attributes``,
            describes a group. Nodes, their metadata, and JSON metadata documents (also those of
            zarr-python) describe nodes like these, without values.
        overwrite
            Delete existing nodes, with everything below them. By default existing nodes are an
            error.

        Returns
        -------
        iterator of (str, Array or Group)
            The new nodes with their paths, sorted, including missing groups. All of them exist
            when the method returns.

        Raises
        ------
        ExistsError
            If a node exists at one of the paths, or an array above one; the store is unchanged.
        ArgumentError, MetadataError
            If a description is invalid; the store is unchanged.

        Examples
        --------
        >>> import tessarr
        >>> g = tessarr.create_group(None)
        >>> nodes_by_path = g.create_hierarchy({"a": None, "a/b": {"shape": (3,), "dtype": "i2"}})
        >>> dict(nodes_by_path)
        {'a': Group(/a, zarr_format=3), 'a/b': Array(/a/b, (3,), int16, chunks=(3,), order=C)}
        """
        self._check_writable()
        metas = parse_nodes(nodes, self._store, self._path, self._meta.zarr_format)
        if self._path in metas:
            raise ArgumentError(f"cannot create group {self.name!r} in itself", path=self._path)
        from tessarr.flow import create

        flow = create.create_nodes(metas, overwrite=overwrite, within=self._path, store=self._store)
        nodes_by_path = {}
        for path, meta in run_flow(flow, self._store).items():
            node = nodes_by_path[path[len(open_flow.prefix_of(self._path)) :]] = self._bind(
                path, meta
            )
            self._note_new(node)
        return iter(nodes_by_path.items())

    # Arrays

    @with_keywords("tessarr.array.keyword_types")
    def create_array(
        self,
        name: str,
        shape: ShapeLike | None = None,
        dtype: DataTypeLike | None = None,
        data: Any = None,
        **settings: Unpack[MemberSettings],
    ) -> Array:
        """Create an array, and missing groups above it, in the format of this group.

        Parameters
        ----------
        name
            The name of the member, or its path from this group.
        shape, dtype, data, **settings
            As for `tessarr.create_array`. The format is that of the group.

        Raises
        ------
        ExistsError
            If a node exists at that path, and `overwrite` is false.

        Examples
        --------
        >>> import tessarr
        >>> g = tessarr.create_group(None)
        >>> g.create_array("a/b", shape=(4, 6), dtype="i2", chunks=(2, 3))
        Array(/a/b, (4, 6), int16, chunks=(2, 3), order=C)
        """
        from tessarr.array.create import create_array

        self._check_writable()
        array_settings = self._array_settings(
            {**settings, "shape": shape, "dtype": dtype, "data": data}
        )
        created = create_array(
            self._store, self._new_member_path(name), within=self._path, **array_settings
        )
        self._note_new(created)
        return created

    def _array_settings(self, overrides: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of a new array with the defaults of this group."""
        from tessarr.array.keywords import add_runtime_defaults

        settings = add_runtime_defaults(overrides, self._runtime_settings)
        if settings.pop("storage_options", None):
            raise TypeError("storage_options are of the store, which the group has opened already")
        form = settings.pop("zarr_version", None) or settings.get("zarr_format")
        if form not in (None, self._meta.zarr_format):
            raise ArgumentError(
                f"an array of format {form} cannot be in a group of format {self.zarr_format}"
            )
        return {**settings, "zarr_format": self._meta.zarr_format}

    @with_keywords("tessarr.array.keyword_types")
    def create_dataset(
        self,
        name: str,
        shape: ShapeLike | None = None,
        dtype: DataTypeLike | None = None,
        data: Any = None,
        **settings: Unpack[MemberSettings],
    ) -> Array:
        """Create an array: `create_array` under the name of h5py and zarr-python 2.

        Examples
        --------
        >>> import tessarr
        >>> g = tessarr.create_group(None)
        >>> g.create_dataset("foo", data=[1, 2, 3])[:]
        array([1, 2, 3])
        """
        return self.create_array(name, shape, dtype, data, **settings)

    @with_keywords("tessarr.array.keyword_types")
    def create(
        self, name: str, shape: ShapeLike | None = None, **settings: Unpack[DataSettings]
    ) -> Array:
        """Create an array, as `create_array` does."""
        return self.create_array(name, shape, **settings)

    @with_keywords("tessarr.array.keyword_types")
    def require_array(
        self,
        name: str,
        shape: ShapeLike,
        dtype: DataTypeLike | None = None,
        exact: bool = False,  # noqa: FBT002 (where h5py has it)
        **settings: Unpack[MemberSettings],
    ) -> Array:
        """Return the array `name`; create it if no node exists.

        Parameters
        ----------
        name
            The name of the member, or its path from this group.
        shape, dtype
            The required shape and data type. A data type fits if NumPy can cast it safely to that
            of the array.
        exact
            Whether the data type must be equal.
        **settings
            Settings for a new array, as for `create_array`. ``config`` and other runtime settings,
            such as ``missing``, also apply to an array that exists.

        Raises
        ------
        TypeError
            If the array exists and has another shape, its data type does not fit, or ``config``
            has an unknown member.
        NotFoundError
            If `name` is a group.
        """
        if settings.get("overwrite", False):
            return self.create_array(name, shape, dtype, **settings)
        member = None if self._is_below_deleted(name) else self.get(name)
        if member is None:
            try:
                return self.create_array(name, shape, dtype, **settings)
            except ExistsError:  # another program created it
                member = self[name]
        if not isinstance(member, Array):
            raise open_flow.not_found_error(self._member_path(name), "array", other=True)
        from tessarr.format.chunk_shape import normalize_shape

        expected_shape = normalize_shape(shape)
        if member.shape != expected_shape:
            raise TypeError(
                f"shapes do not match: array {member.name!r} has shape {member.shape}, not "
                f"{expected_shape}"
            )
        if dtype is not None and not _can_store(member, dtype, exact=exact):
            mismatch = "do not match exactly" if exact else "cannot be safely cast"
            raise TypeError(
                f"dtypes {mismatch}: array {member.name!r} has data type {member.dtype}, "
                f"not {dtype}"
            )
        if not settings:
            return member
        from tessarr.array.keywords import runtime_settings

        bound = self._bind(member._path, member._metadata, **runtime_settings(settings))
        assert isinstance(bound, Array)
        return bound

    require_dataset = require_array

    @with_keywords("tessarr.array.keyword_types")
    def empty(self, name: str, shape: ShapeLike, **settings: Unpack[SettingsWithoutFill]) -> Array:
        """Create an array with undefined elements."""
        return self.create_array(name, shape, fill_value=None, **settings)

    @with_keywords("tessarr.array.keyword_types")
    def zeros(self, name: str, shape: ShapeLike, **settings: Unpack[SettingsWithoutFill]) -> Array:
        """Create an array that reads as 0."""
        return self.create_array(name, shape, **settings)

    @with_keywords("tessarr.array.keyword_types")
    def ones(self, name: str, shape: ShapeLike, **settings: Unpack[SettingsWithoutFill]) -> Array:
        """Create an array that reads as 1."""
        return self.create_array(name, shape, fill_value=1, **settings)

    @with_keywords("tessarr.array.keyword_types")
    def full(
        self, name: str, fill_value: Any, shape: ShapeLike, **settings: Unpack[SettingsWithoutFill]
    ) -> Array:
        """Create an array that reads as `fill_value`.

        Examples
        --------
        >>> import tessarr
        >>> tessarr.create_group(None).full("a", 7, shape=3, dtype="u1")[:]
        array([7, 7, 7], dtype=uint8)
        """
        return self.create_array(name, shape, fill_value=fill_value, **settings)

    @with_keywords("tessarr.array.keyword_types")
    def array(self, name: str, data: Any, **settings: Unpack[Settings]) -> Array:
        """Create an array from `data`, with the chunks of `data` if it has any."""
        from tessarr.array.like import chunks_of

        return self.create_array(name, data=data, **{"chunks": chunks_of(data), **settings})

    @with_keywords("tessarr.array.keyword_types")
    def full_like(
        self, name: str, data: Any, fill_value: Any = "keep", **settings: Unpack[MemberLikeSettings]
    ) -> Array:
        """Create an array like another one that reads as `fill_value`.

        Parameters
        ----------
        name
            The name of the member, or its path from this group.
        data, fill_value, **settings
            The other array and settings that override its settings, as for `tessarr.full_like`.

        Examples
        --------
        >>> import numpy as np, tessarr
        >>> g = tessarr.create_group(None)
        >>> g.full_like("a", np.zeros(3, "u1"), 7)[:]
        array([7, 7, 7], dtype=uint8)
        """
        from tessarr.array.like import fill_settings_like

        return self.create_array(
            name, **fill_settings_like(data, fill_value, self._array_settings(settings))
        )

    @with_keywords("tessarr.array.keyword_types")
    def zeros_like(self, name: str, data: Any, **settings: Unpack[MemberLikeSettings]) -> Array:
        """Create an array like another one that reads as 0, as `full_like` does."""
        return self.full_like(name, data, "auto", **settings)

    @with_keywords("tessarr.array.keyword_types")
    def ones_like(self, name: str, data: Any, **settings: Unpack[MemberLikeSettings]) -> Array:
        """Create an array like another one that reads as 1, as `full_like` does."""
        return self.full_like(name, data, 1, **settings)

    @with_keywords("tessarr.array.keyword_types")
    def empty_like(self, name: str, data: Any, **settings: Unpack[MemberLikeSettings]) -> Array:
        """Create an array like another one, with undefined elements."""
        return self.full_like(name, data, None, **settings)

    @with_keywords("tessarr.array.keyword_types")
    def create_dataset_like(
        self, name: str, other: Any, **settings: Unpack[DatasetLikeSettings]
    ) -> Array:
        """Create an array like another one, without its values: `full_like` under h5py's name."""
        return self.full_like(name, other, **settings)

    # Methods of dictionaries

    @overload
    def __setitem__(self, name: str, value: Any) -> None: ...
    @overload
    def __setitem__(self, name: MemberKey, value: Any) -> Never: ...  # for g["a"][0:3] = value
    def __setitem__(self, name: Any, value: Any) -> None:
        """Store values as the array `name`, and replace an existing node.

        The copy of a Tessarr array has all of its settings and attributes.
        """
        if isinstance(value, GroupMembers):
            raise TypeError(
                f"cannot assign group {value.name!r}: to copy it is tessarr.copy, to move it move"
            )
        if not isinstance(value, Array):
            self.array(name, value, overwrite=True)
            return
        from tessarr.array.like import settings_like
        from tessarr.metadata.attributes import allow_copied_tokens

        settings = settings_like(
            value, self._array_settings({"overwrite": True}), with_metadata=True
        )
        with allow_copied_tokens():
            self.create_array(name, data=value, **settings)

    def update(
        self, other: Mapping[str, Any] | Iterable[tuple[str, Any]] = (), /, **values: Any
    ) -> None:
        """Store several arrays, each like ``group[name] = value``.

        Examples
        --------
        >>> import tessarr
        >>> g = tessarr.create_group(None)
        >>> g.update({"a/b": [1, 2]}, c=3.5)
        >>> g["a/b"][:], g["c"][()]
        (array([1, 2]), np.float64(3.5))
        """
        for name, value in dict(other, **values).items():
            self[name] = value

    def setdefault(self, name: str, value: Any) -> Array | Self:
        """Return the member `name`; if it does not exist, create it from values."""
        member = self.get(name)
        if member is not None:
            return member
        return self.create_array(name, data=value)

    def _new_member_path(self, name: str) -> str:
        """Return the path of a new member; raise an error for this group's path or one above."""
        path = self._member_path(name)
        is_above = path != self._path and (not path or f"{self._path}/".startswith(f"{path}/"))
        if is_above or (path == self._path and self._exists()):
            raise ExistsError(
                f"cannot create {name!r} in group {self.name!r}: that is the group itself, or one "
                "above it",
                kind="node_exists",
                path=path,
            )
        return path

    def _exists(self) -> bool:
        """Return whether the group is still in the store, which a program may have cleared."""
        return run_flow(open_flow.node_exists(self._path), self._store)

    def _is_below_deleted(self, name: str) -> bool:
        """Return whether the deletion of a group between this one and a member is incomplete."""
        path = self._member_path(name)
        below = path[len(open_flow.prefix_of(self._path)) :]
        if "/" not in below or self._store.read_only:
            return False
        from tessarr.flow.create import is_below_deleted

        return run_flow(is_below_deleted(path, self._path), self._store)

    def _note_new(self, node: Array | Self) -> None:
        """Add a new node to the consolidated metadata, if the group uses it."""
        if self._consolidated is not None and self._consolidated.covers(node.path):
            node._consolidated = self._consolidated
            self._consolidated.remove(node.path)
            node._note_change()


def parse_nodes(
    nodes: Mapping[str, Any], store: Store, base: str, zarr_format: ZarrFormat
) -> dict[str, NodeMeta]:
    """Return the metadata of new nodes by path in the store.

    Parameters
    ----------
    nodes
        As for `GroupCreation.create_hierarchy`.
    store, base
        The store, and the path of the group above the nodes.
    zarr_format
        The format of the nodes.
    """
    metas: dict[str, NodeMeta] = {}
    if not isinstance(nodes, Mapping):
        raise TypeError(f"nodes are a mapping of paths, not {type(nodes).__name__}")
    for name, value in nodes.items():
        below = normalize_path(name, zarr_format)
        path = join(base, below)
        if path in metas:
            raise ArgumentError(f"{path!r} is there twice", path=path)
        metas[path] = _parse_node(value, store, path, zarr_format)
    return metas


def _parse_node(value: Any, store: Store, path: str, zarr_format: ZarrFormat) -> NodeMeta:
    """Return the metadata of a new node from a description by the user."""
    from tessarr.metadata.attributes import normalize_attributes
    from tessarr.metadata.from_user import read_user_metadata

    meta = read_user_metadata(value, path)
    if meta is None:
        settings = {"attributes": None} if value is None else dict(value)
        if settings.keys() == {"attributes"}:
            return GroupMeta(zarr_format, normalize_attributes(settings["attributes"]))
        if "shape" not in settings or settings.get("data") is not None:
            raise TypeError(
                f"cannot create {path!r} from {value!r}: an array has a shape and no data yet, a "
                "group has nothing but attributes"
            )
        from tessarr.array.create import CreationPlan

        keywords: dict[str, Any] = {"zarr_format": zarr_format, **settings}
        meta = CreationPlan.from_settings(store, **keywords).meta
    if meta.zarr_format != zarr_format:
        raise ArgumentError(
            f"cannot create {path!r} of format {meta.zarr_format} in a hierarchy of format "
            f"{zarr_format}",
            path=path,
        )
    return meta


def _can_store(array: Array, dtype: DataTypeLike, *, exact: bool) -> bool:
    """Return whether elements of a data type can be stored safely in `array`."""
    from tessarr import dtype as dtypes

    stored_type = array._metadata.data_type
    if dtype is object or dtype == np.dtype(object):
        return stored_type.numpy == np.dtype(object)
    new_type = dtypes.to_data_type(dtype)
    if stored_type.elements is not None or new_type.elements is not None:
        return stored_type.name == new_type.name
    is_same = array.dtype == new_type.numpy
    return is_same or (not exact and np.can_cast(new_type.numpy, array.dtype))
