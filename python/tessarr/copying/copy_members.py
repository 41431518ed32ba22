"""`copy` and `copy_all`: members of a group to another group, of Tessarr, Zarr or h5py."""

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
from tessarr.copying.log import log_to, summary
from tessarr.copying.report import CopiedLink, Skipped, skip_attribute, warn_of
from tessarr.errors import ArgumentError, DataError, ExistsError
from tessarr.format.node_path import join
from tessarr.group import Group
from tessarr.metadata.attributes import allow_copied_tokens
from tessarr.metadata.node import GroupMeta
from tessarr.node.replace import replace_node

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tessarr.copying.log import LogLike
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
        What the copy is called there; by default as the source.
    shallow
        Copy only the arrays of a group, and no groups in it.
    without_attrs
        Leave the attributes out.
    log
        Where to write a line for each node: a function, a path of a file, or what has ``write``.
    if_exists : {"raise", "replace", "skip", "skip_initialized"}
        What to do about an array that is there; the last skips it if all of its chunks are
        stored. Groups are merged.
    dry_run
        Only say what would be copied.
    **settings
        What new arrays shall have otherwise, as for `Group.create_dataset`.

    Returns
    -------
    tuple of int
        The number of nodes that were copied, of those that were skipped, and of the bytes copied,
        as they are in memory.

    Raises
    ------
    ExistsError
        With "raise", if something is there.
    TypeError
        If the source is a root group and no name is given.

    Notes
    -----
    Chunks, codecs and fill values stay what they are, as far as `dest` knows them; what
    h5py is given is compressed by gzip. Elements are copied part by part, within the memory that
    the option ``copy_bytes`` allows. See `tessarr.copy_to` for a copy that resumes.

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
    way = _Way(shallow, without_attrs, if_exists, dry_run, settings)
    source = _readable(source, way)
    return _begin(source, dest, [(name, source)], log, way)


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
    way = _Way(shallow, without_attrs, if_exists, dry_run, settings)
    if not hasattr(source, "attrs") or hasattr(source, "shape"):
        raise TypeError(f"copy_all copies the members of a group, not {type(source).__name__}")
    source = _readable(source, way)
    members = [(name, source[name]) for name in sorted(source)]
    counts = _begin(source, dest, members, log, way)
    if not without_attrs and not dry_run:
        _copy_attributes(source, dest, way)
    return counts


@dataclass(slots=True)
class _Way:
    """How to copy, and how much has been."""

    shallow: bool
    without_attrs: bool
    if_exists: str
    dry_run: bool
    settings: Mapping[str, Any]
    copied: int = 0
    skipped: int = 0
    copied_bytes: int = 0
    say: Callable[[str], object] = field(default=print)
    is_alone: bool = False
    links: list[CopiedLink] = field(default_factory=list)
    left_out: list[Skipped] = field(default_factory=list)


def _begin(
    source: Any,
    dest: Any,
    nodes: list[tuple[str | None, Any]],
    log: LogLike,
    way: _Way,
) -> tuple[int, int, int]:
    if way.if_exists not in _IF_EXISTS:
        raise ArgumentError(f"if_exists={way.if_exists!r} is not one of {', '.join(_IF_EXISTS)}")
    if dest is None and not way.dry_run:
        raise ArgumentError("dest is None: that is for a dry run only")
    if _is_h5py(dest) and way.if_exists == "skip_initialized":
        raise ArgumentError("HDF5 does not tell which chunks are there: give if_exists='skip'")
    _check_apart(source, dest)
    for _, node in nodes:
        if not hasattr(node, "attrs"):
            raise TypeError(f"{type(node).__name__} is no array and no group")
    with log_to(log) as way.say:
        for name, node in nodes:
            _copy(node, dest, name or _name_of(node), way, top=node is source)
        for link in way.links:
            way.say(f"link {link}")
        for node in way.left_out:
            way.say(f"skip {node}")
        way.skipped += sum(node.attribute is None for node in way.left_out)
        told = None if way.dry_run else way.copied_bytes
        way.say(summary(way.copied, way.skipped, told))
    warn_of(way.left_out)
    return way.copied, way.skipped, way.copied_bytes


def _check_apart(source: Any, dest: Any) -> None:
    """Check that a group is not copied into itself, which would never end."""
    if not isinstance(source, Group) or not isinstance(dest, Group):
        return
    inside = not source.path or f"{dest.path}/".startswith(f"{source.path}/")
    if source._store == dest._store and inside:
        raise ArgumentError(f"group {source.name!r} cannot be copied into itself")


def _name_of(node: Any) -> str:
    name = str(node.name).rpartition("/")[2]
    if not name:
        raise TypeError("the source has no name: give the name of the copy")
    return name


def _copy(node: Any, dest: Any, name: str, way: _Way, *, top: bool = False) -> None:
    is_array = hasattr(node, "shape")
    if not is_array and way.shallow and not top:
        return
    reason = _why_not(node, dest, name)
    if reason is not None:
        way.left_out.append(Skipped(str(node.name).strip("/"), reason))
        return
    there: Any = _member(dest, name)
    blocked = there is not None and (is_array or hasattr(there, "shape"))
    told = f"{node.name} {node.shape} {node.dtype}" if is_array else node.name
    if blocked and way.if_exists == "raise":
        raise ExistsError(
            f"cannot copy {node.name!r}: {name!r} exists there; give if_exists",
            kind="node_exists",
            path=name,
        )
    if blocked and (way.if_exists == "skip" or _is_complete(there, way)):
        way.say(f"skip {told}")
        way.skipped += 1
        return
    way.say(f"copy {told}")
    try:
        if way.dry_run or not blocked or not _replace(node, dest, name, way):
            _store(node, dest, name, way, there=there, blocked=blocked)
    except (DataError, ArgumentError) as error:
        if not is_array or way.is_alone or not _is_h5py(node):
            raise
        way.left_out.append(Skipped(str(node.name).strip("/"), error.message))
        return
    way.copied += 1


def _store(node: Any, dest: Any, name: str, way: _Way, *, there: Any, blocked: bool) -> None:
    """Copy a node, and delete a node before that is in the way."""
    if blocked and not way.dry_run:
        del dest[name]
    if not hasattr(node, "shape"):
        _copy_group(node, dest, name, way, there=None if blocked else there)
    elif not way.dry_run:
        _copy_array(node, dest, name, way)


def _replace(node: Any, dest: Any, name: str, way: _Way) -> bool:
    """Copy to the place of another node, if that can stay until the copy is complete."""
    if not isinstance(dest, Group) or dest._copies is not None:
        return False

    form = dest._meta.zarr_format

    def build(store: Store) -> None:
        if hasattr(node, "shape"):
            _copy_array(node, dest, name, way, store=store)
        else:
            group = create_group(store, zarr_format=form)
            _copy_group(node, None, name, way, there=group)

    at = join(dest.path, name)
    return replace_node(dest._store, at, GroupMeta(form), build=build, within=dest.path)


def _member(group: Any, name: str) -> Any:
    found: Any = None
    if group is not None and name in group:
        found = group[name]
    return found


def _is_complete(node: Any, way: _Way) -> bool:
    if way.if_exists != "skip_initialized" or not hasattr(node, "nchunks_initialized"):
        return False
    return bool(node.nchunks_initialized == node.nchunks)


def _copy_group(node: Any, dest: Any, name: str, way: _Way, *, there: Any) -> None:
    group: Any = there
    if not way.dry_run:
        if group is None:
            group = dest.require_group(name)
        if not way.without_attrs:
            _copy_attributes(node, group, way)
    for child in sorted(node):
        _copy(node[child], group, child, way)


def _copy_array(node: Any, dest: Any, name: str, way: _Way, *, store: Store | None = None) -> None:
    """Copy an array into a group; or to the root of a store, as the group would have it."""
    if _is_h5py(dest):
        new = dest.create_dataset(name, **_settings_of_h5py(node, way.settings))
    else:
        given = {"zarr_format": dest.zarr_format, **way.settings}
        like = settings_like(node, given, whole=True)
        like.pop("attributes", None)
        if _is_h5py(node):
            like |= _like_hdf5(node, given)
        if store is not None:
            new = create_array(store, "", **dest._settings(like))
        elif isinstance(dest, Group):
            new = dest.create_array(name, **like)
        else:
            new = _of_zarr(dest, name, like)
    source, target = transfer.source_of(hdf5.dataset_of(node)), transfer.target_of(new)
    try:
        transfer.run(source, target, transfer.plan_of(source, target))
    except BaseException:
        if store is None:
            with suppress(Exception):  # the first error counts
                del dest[name]
        raise
    if not way.without_attrs:
        _copy_attributes(node, new, way)
    way.copied_bytes += prod(node.shape) * node.dtype.itemsize


def _of_zarr(dest: Any, name: str, like: dict[str, Any]) -> Any:
    """Create an array in a group of another Zarr library, by what all of them know."""
    known = ("shape", "dtype", "chunks", "fill_value")
    told = {key: like[key] for key in known if key in like}
    told["dtype"] = getattr(told["dtype"], "numpy", told["dtype"])
    return dest.create_array(name, **told)


def _settings_of_h5py(node: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what h5py is told of an array."""
    chunks: Any = getattr(node, "chunks", None)
    plain = isinstance(chunks, tuple) and all(isinstance(length, int) for length in chunks)
    small = plain and all(c <= max(n, 1) for c, n in zip(chunks, node.shape, strict=True))
    told: dict[str, Any] = {"shape": node.shape, "dtype": node.dtype}
    if node.shape:
        told["chunks"] = chunks if small else True
    if _is_h5py(node):
        for name in ("compression", "compression_opts", "shuffle", "fletcher32", "scaleoffset"):
            if chunks is not None:
                told[name] = getattr(node, name)
        told |= {"fillvalue": node.fillvalue, "maxshape": node.maxshape}
        if chunks is None:
            told["chunks"] = None
    else:
        if node.shape:
            told |= {"compression": "gzip", "compression_opts": 1, "shuffle": True}
        fill = getattr(node, "fill_value", None)
        if fill is not None and node.dtype.kind not in "OT":
            told["fillvalue"] = fill
        if node.dtype.kind in "OT":
            from importlib import import_module

            told["dtype"] = import_module("h5py").string_dtype()
    return {**told, **given}


def _copy_attributes(source: Any, target: Any, way: _Way) -> None:
    with allow_copied_tokens(copied=not _is_h5py(source)):
        target.attrs.update(_attributes(source, target, way))


def _readable(source: Any, way: _Way) -> Any:
    """Return a node with what can be copied of it."""
    way.is_alone = hasattr(source, "shape")
    if not _is_h5py(source):
        return source
    if way.is_alone:
        hdf5.check(source)
        return hdf5.dataset_of(source)
    contents = hdf5.contents_of(source)
    way.links, way.left_out = contents.links, contents.skipped
    return contents.nodes[""]


def _why_not(node: Any, dest: Any, name: str) -> str | None:
    """Return why a node of h5py cannot be stored in a group of Zarr."""
    if not _is_h5py(node) or not isinstance(dest, Group):
        return None
    return hdf5.why_not_storable(name, node, 3 if dest.zarr_format == 3 else 2)


def _attributes(node: Any, new: Any, way: _Way) -> dict[str, Any]:
    """Return the attributes of a node as its copy has them."""
    if isinstance(node, Array | Group):
        return dict(node.attrs)
    skip = skip_attribute(way.left_out, str(getattr(node, "name", None) or "").strip("/"))
    if _is_h5py(new):
        return netcdf.copied_attributes(node, skip)
    if not hasattr(node, "shape"):
        return netcdf.group_attributes(node, skip)
    zarr_format = getattr(new, "zarr_format", None) or new.metadata.zarr_format
    return netcdf.array_attributes(node, new.dtype, zarr_format, skip, is_alone=way.is_alone)


def _like_hdf5(node: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a dataset that have another form in HDF5."""
    zarr_format = given["zarr_format"]
    like: dict[str, Any] = {}
    if zarr_format == 3:
        like["dimension_names"] = netcdf.dimension_names_of(node)
    if netcdf.is_netcdf(node) and not {"fill_value", "fillvalue"} & set(given):
        like["fill_value"] = netcdf.fill_value_of(node, zarr_format)
    return {**like, **given}


def _is_h5py(node: Any) -> bool:
    return type(node).__module__.partition(".")[0] == "h5py" or hasattr(node, "from_hdf5")
