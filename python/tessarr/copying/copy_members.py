"""`copy` and `copy_all`: copies of members of a group, of Tessarr, Zarr or h5py."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

from tessarr import transfer
from tessarr.api.create import create_group
from tessarr.array import Array
from tessarr.array.create import create_array
from tessarr.array.like import settings_like
from tessarr.copying import hdf5, netcdf
from tessarr.copying.report import (
    CopiedLink,
    Skipped,
    format_summary,
    open_log,
    skip_attribute,
    warn_of_skipped,
)
from tessarr.errors import ArgumentError, DataError, ExistsError
from tessarr.format.node_path import join
from tessarr.group import Group
from tessarr.metadata.attributes import allow_copied_tokens
from tessarr.metadata.node import GroupMeta
from tessarr.node.replace import replace_node

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tessarr.copying.report import LogLike
    from tessarr.store import Store

__all__ = ["copy", "copy_all"]

_IF_EXISTS = ("raise", "replace", "skip", "skip_initialized")


def copy(  # noqa: PLR0917 (the order of zarr-python)
    source: Any,
    dest: Any,
    name: str | None = None,
    shallow: bool = False,  # noqa: FBT002
    without_attrs: bool = False,  # noqa: FBT002
    log: LogLike = None,
    if_exists: str = "raise",
    dry_run: bool = False,  # noqa: FBT002
    **settings: Any,
) -> tuple[int, int, int]:
    """Copy an array or a group into a group, also from and to h5py.

    Parameters
    ----------
    source
        An array or a group: of Tessarr, zarr-python or h5py.
    dest
        The group to copy into, of any of these; None for a dry run.
    name
        The name of the copy; by default that of the source.
    shallow
        Copy only the arrays of a group, without groups.
    without_attrs
        Copy no attributes.
    log
        The log, one line for each node: a function, the path of a file, or an object with
        ``write``.
    if_exists : {"raise", "replace", "skip", "skip_initialized"}
        The action for an existing array; the last one skips it if all of its chunks are stored.
        Groups are merged.
    dry_run
        Only report the copy.
    **settings
        Settings of the new arrays, as for `Group.create_dataset`.

    Returns
    -------
    tuple of int
        The numbers of copied nodes, skipped nodes, and copied bytes in memory.

    Raises
    ------
    ExistsError
        With "raise", if a node exists.
    TypeError
        If the source is a root group and `name` is None.

    Notes
    -----
    Chunks, codecs and fill values stay the same if `dest` supports them; copies to h5py are
    compressed by gzip. Elements are copied part by part, within the memory limit of the option
    ``copy_bytes``. `tessarr.copy_to` can resume a copy.

    Examples
    --------
    >>> import tessarr
    >>> g = tessarr.group()
    >>> a = g.create_array("foo/bar/baz", data=list(range(100)), dtype="i8")
    >>> tessarr.copy(g["foo"], tessarr.group(), log=print)
    copy /foo
    copy /foo/bar
    copy /foo/bar/baz (100,) int64
    all done: 3 copied, 0 skipped, 800 bytes copied
    (3, 0, 800)
    """
    state = _CopyState(shallow, without_attrs, if_exists, dry_run, settings)
    source = _readable_source(source, state)
    return _copy_nodes(source, dest, [(name, source)], log, state)


def copy_all(  # noqa: PLR0917 (likewise)
    source: Any,
    dest: Any,
    shallow: bool = False,  # noqa: FBT002
    without_attrs: bool = False,  # noqa: FBT002
    log: LogLike = None,
    if_exists: str = "raise",
    dry_run: bool = False,  # noqa: FBT002
    **settings: Any,
) -> tuple[int, int, int]:
    """Copy all members of a group into another group, and its attributes.

    Parameters
    ----------
    source, dest, shallow, without_attrs, log, if_exists, dry_run, **settings
        As for `copy`.

    Returns
    -------
    tuple of int
        As for `copy`.

    Examples
    --------
    >>> import tessarr
    >>> g, h = tessarr.group(), tessarr.group()
    >>> a = g.create_array("foo", data=[1.0, 2.0])
    >>> tessarr.copy_all(g, h), h["foo"][1]
    ((1, 0, 16), np.float64(2.0))
    """
    state = _CopyState(shallow, without_attrs, if_exists, dry_run, settings)
    if not hasattr(source, "attrs") or hasattr(source, "shape"):
        raise TypeError(f"copy_all copies the members of a group, not {type(source).__name__}")
    source = _readable_source(source, state)
    members = [(name, source[name]) for name in sorted(source)]
    counts = _copy_nodes(source, dest, members, log, state)
    if not without_attrs and not dry_run:
        _copy_attributes(source, dest, state)
    return counts


@dataclass(slots=True)
class _CopyState:
    """The settings and the progress of a copy."""

    shallow: bool
    without_attrs: bool
    if_exists: str
    dry_run: bool
    settings: Mapping[str, Any]
    copied: int = 0
    skipped: int = 0
    copied_bytes: int = 0
    log_line: Callable[[str], object] = field(default=print)
    is_single_array: bool = False
    links: list[CopiedLink] = field(default_factory=list)
    left_out: list[Skipped] = field(default_factory=list)


def _copy_nodes(
    source: Any,
    dest: Any,
    nodes: list[tuple[str | None, Any]],
    log: LogLike,
    state: _CopyState,
) -> tuple[int, int, int]:
    if state.if_exists not in _IF_EXISTS:
        raise ArgumentError(f"if_exists={state.if_exists!r} is not one of {', '.join(_IF_EXISTS)}")
    if dest is None and not state.dry_run:
        raise ArgumentError("dest may be None only in a dry run")
    if netcdf.is_h5py(dest) and state.if_exists == "skip_initialized":
        raise ArgumentError("HDF5 does not report stored chunks: pass if_exists='skip'")
    _check_not_inside(source, dest)
    for _, node in nodes:
        if not hasattr(node, "attrs"):
            raise TypeError(f"{type(node).__name__} is neither an array nor a group")
    with open_log(log) as state.log_line:
        for name, node in nodes:
            _copy_member(node, dest, name or _node_name(node), state, top=node is source)
        for link in state.links:
            state.log_line(f"link {link}")
        for node in state.left_out:
            state.log_line(f"skip {node}")
        state.skipped += sum(node.attribute is None for node in state.left_out)
        copied_bytes = None if state.dry_run else state.copied_bytes
        state.log_line(format_summary(state.copied, state.skipped, copied_bytes))
    warn_of_skipped(state.left_out)
    return state.copied, state.skipped, state.copied_bytes


def _check_not_inside(source: Any, dest: Any) -> None:
    """Raise an error if the copy would copy a group into itself."""
    if not isinstance(source, Group) or not isinstance(dest, Group):
        return
    inside = not source.path or f"{dest.path}/".startswith(f"{source.path}/")
    if source._store == dest._store and inside:
        raise ArgumentError(f"group {source.name!r} cannot be copied into itself")


def _node_name(node: Any) -> str:
    name = str(node.name).rpartition("/")[2]
    if not name:
        raise TypeError("the source has no name: pass a name for the copy")
    return name


def _copy_member(node: Any, dest: Any, name: str, state: _CopyState, *, top: bool = False) -> None:
    is_array = hasattr(node, "shape")
    if not is_array and state.shallow and not top:
        return
    reason = _reason_not_storable(node, dest, name)
    if reason is not None:
        state.left_out.append(Skipped(str(node.name).strip("/"), reason))
        return
    existing: Any = _get_member(dest, name)
    blocked = existing is not None and (is_array or hasattr(existing, "shape"))
    description = f"{node.name} {node.shape} {node.dtype}" if is_array else node.name
    if blocked and state.if_exists == "raise":
        raise ExistsError(
            f"cannot copy {node.name!r}: the target already has {name!r}; pass if_exists",
            kind="node_exists",
            path=name,
        )
    if blocked and (state.if_exists == "skip" or _is_complete(existing, state)):
        state.log_line(f"skip {description}")
        state.skipped += 1
        return
    state.log_line(f"copy {description}")
    try:
        if state.dry_run or not blocked or not _replace_member(node, dest, name, state):
            _store_member(node, dest, name, state, existing=existing, blocked=blocked)
    except (DataError, ArgumentError) as error:
        if not is_array or state.is_single_array or not netcdf.is_h5py(node):
            raise
        state.left_out.append(Skipped(str(node.name).strip("/"), error.message))
        return
    state.copied += 1


def _store_member(
    node: Any, dest: Any, name: str, state: _CopyState, *, existing: Any, blocked: bool
) -> None:
    """Copy a node; first delete an existing node."""
    if blocked and not state.dry_run:
        del dest[name]
    if not hasattr(node, "shape"):
        _copy_group(node, dest, name, state, existing=None if blocked else existing)
    elif not state.dry_run:
        _copy_array(node, dest, name, state)


def _replace_member(node: Any, dest: Any, name: str, state: _CopyState) -> bool:
    """Replace an existing node, if the store can preserve it until the copy is complete."""
    if not isinstance(dest, Group) or dest._consolidated is not None:
        return False

    form = dest._meta.zarr_format

    def build(store: Store) -> None:
        if hasattr(node, "shape"):
            _copy_array(node, dest, name, state, store=store)
        else:
            group = create_group(store, zarr_format=form)
            _copy_group(node, None, name, state, existing=group)

    path = join(dest.path, name)
    return replace_node(dest._store, path, GroupMeta(form), build=build, within=dest.path)


def _get_member(group: Any, name: str) -> Any:
    member: Any = None
    if group is not None and name in group:
        member = group[name]
    return member


def _is_complete(node: Any, state: _CopyState) -> bool:
    if state.if_exists != "skip_initialized" or not hasattr(node, "nchunks_initialized"):
        return False
    return bool(node.nchunks_initialized == node.nchunks)


def _copy_group(node: Any, dest: Any, name: str, state: _CopyState, *, existing: Any) -> None:
    group: Any = existing
    if not state.dry_run:
        if group is None:
            group = dest.require_group(name)
        if not state.without_attrs:
            _copy_attributes(node, group, state)
    for child in sorted(node):
        _copy_member(node[child], group, child, state)


def _copy_array(
    node: Any, dest: Any, name: str, state: _CopyState, *, store: Store | None = None
) -> None:
    """Copy an array into a group, or to the root of a store with the group's settings."""
    if netcdf.is_h5py(dest):
        new = dest.create_dataset(name, **_h5py_settings(node, state.settings))
    else:
        settings = {"zarr_format": dest.zarr_format, **state.settings}
        like = settings_like(node, settings, with_metadata=True)
        like.pop("attributes", None)
        if netcdf.is_h5py(node):
            like |= netcdf.get_zarr_settings(node, settings["zarr_format"], settings) | settings
        if store is not None:
            new = create_array(store, "", **dest._array_settings(like))
        elif isinstance(dest, Group):
            new = dest.create_array(name, **like)
        else:
            new = _create_zarr_array(dest, name, like)
    source, target = transfer.make_source(hdf5.wrap_dataset(node)), transfer.make_target(new)
    try:
        transfer.execute_plan(source, target, transfer.plan_copy(source, target))
    except BaseException:
        if store is None:
            with suppress(Exception):  # report only the first error
                del dest[name]
        raise
    if not state.without_attrs:
        _copy_attributes(node, new, state)
    state.copied_bytes += prod(node.shape) * node.dtype.itemsize


def _create_zarr_array(dest: Any, name: str, like: dict[str, Any]) -> Any:
    """Create an array in a group of another Zarr library, with common settings."""
    known = ("shape", "dtype", "chunks", "fill_value")
    settings = {key: like[key] for key in known if key in like}
    settings["dtype"] = getattr(settings["dtype"], "numpy", settings["dtype"])
    return dest.create_array(name, **settings)


def _h5py_settings(node: Any, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of h5py for a copy of an array."""
    chunks: Any = getattr(node, "chunks", None)
    is_regular = isinstance(chunks, tuple) and all(isinstance(length, int) for length in chunks)
    fits = is_regular and all(c <= max(n, 1) for c, n in zip(chunks, node.shape, strict=True))
    settings: dict[str, Any] = {"shape": node.shape, "dtype": node.dtype}
    if node.shape:
        settings["chunks"] = chunks if fits else True
    if netcdf.is_h5py(node):
        for name in ("compression", "compression_opts", "shuffle", "fletcher32", "scaleoffset"):
            if chunks is not None:
                settings[name] = getattr(node, name)
        settings |= {"fillvalue": node.fillvalue, "maxshape": node.maxshape}
        if chunks is None:
            settings["chunks"] = None
    else:
        if node.shape:
            settings |= {"compression": "gzip", "compression_opts": 1, "shuffle": True}
        fill = getattr(node, "fill_value", None)
        if fill is not None and node.dtype.kind not in "OT":
            settings["fillvalue"] = fill
        if node.dtype.kind in "OT":
            from importlib import import_module

            settings["dtype"] = import_module("h5py").string_dtype()
    return {**settings, **overrides}


def _copy_attributes(source: Any, target: Any, state: _CopyState) -> None:
    with allow_copied_tokens(copied=not netcdf.is_h5py(source)):
        target.attrs.update(_read_attributes(source, target, state))


def _readable_source(source: Any, state: _CopyState) -> Any:
    """Return a node as a source, with only the members that can be copied."""
    state.is_single_array = hasattr(source, "shape")
    if not netcdf.is_h5py(source):
        return source
    if state.is_single_array:
        hdf5.check_copyable(source)
        return hdf5.wrap_dataset(source)
    contents = hdf5.read_contents(source)
    state.links, state.left_out = contents.links, contents.skipped
    return contents.nodes[""]


def _reason_not_storable(node: Any, dest: Any, name: str) -> str | None:
    """Return the reason why a node of h5py cannot be stored in a Zarr group, if any."""
    if not netcdf.is_h5py(node) or not isinstance(dest, Group):
        return None
    return hdf5.reason_not_storable(name, node, 3 if dest.zarr_format == 3 else 2)


def _read_attributes(node: Any, new: Any, state: _CopyState) -> dict[str, Any]:
    """Return the attributes of the copy of a node."""
    if isinstance(node, Array | Group):
        return dict(node.attrs)
    skip = skip_attribute(state.left_out, str(getattr(node, "name", None) or "").strip("/"))
    if netcdf.is_h5py(new):
        return netcdf.convert_attributes(node, skip)
    if not hasattr(node, "shape"):
        return netcdf.group_attributes(node, skip)
    zarr_format = getattr(new, "zarr_format", None) or new.metadata.zarr_format
    return netcdf.array_attributes(
        node, new.dtype, zarr_format, skip, is_single_array=state.is_single_array
    )
