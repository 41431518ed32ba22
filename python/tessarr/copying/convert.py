"""Conversion of arrays and hierarchies to another format, in place or to a target."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Final

from tessarr.array import bind_array
from tessarr.array.create import create_array
from tessarr.errors import ArgumentError, Problem, UnsupportedError
from tessarr.flow import convert as convert_flow
from tessarr.flow import create, edit
from tessarr.flow.consolidate import consolidate
from tessarr.flow.open import prefix_of
from tessarr.flow.run import run_flow
from tessarr.format.chunk_grid import RegularGrid
from tessarr.format.node_path import join
from tessarr.metadata.convert import convert_dimension_names
from tessarr.metadata.node import ArrayMeta, GroupMeta
from tessarr.options import current
from tessarr.store.resolve import locate_node
from tessarr.transfer import copy_values, execute_plan, make_source, make_target, plan_copy

if TYPE_CHECKING:
    from collections.abc import Callable

    from tessarr.array import Array
    from tessarr.flow.convert import ConversionStep
    from tessarr.store import Store
    from tessarr.store.resolve import StoreLike
    from tessarr.types import JSONObject, ZarrFormat

__all__ = ["Conversion", "ConvertedNode", "convert"]

_SMALL_BYTES: Final = 1 << 20
"""Arrays up to this size are copied in one step."""


@dataclass(frozen=True, slots=True)
class ConvertedNode:
    """The conversion of one node.

    Parameters
    ----------
    path
        The path of the node in the store.
    kind
        "array", "group" or "unreadable".
    before
        The old format; None for an unreadable node.
    problems
        Content without an equivalent, with its JSON path in the old metadata.
    notes
        Content that the new format expresses differently, or omits, without changing a value.
    renames_chunks
        Whether chunk keys differ in the new format.
    """

    path: str
    kind: str
    before: int | None
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    renames_chunks: bool

    def asdict(self) -> JSONObject:
        """Return the node as plain JSON."""
        return {
            "path": self.path,
            "kind": self.kind,
            "before": self.before,
            "problems": [
                {"location": problem.loc, "message": problem.message} for problem in self.problems
            ],
            "notes": list(self.notes),
            "renames_chunks": self.renames_chunks,
        }


@dataclass(frozen=True, slots=True)
class Conversion:
    """The report of a conversion; print it.

    Parameters
    ----------
    to
        The format.
    nodes
        All nodes, the top one first.
    done
        Whether the conversion was executed; False after a dry run.
    """

    to: ZarrFormat
    nodes: tuple[ConvertedNode, ...]
    done: bool

    @property
    def possible(self) -> bool:
        """Whether no node has problems."""
        return not any(node.problems for node in self.nodes)

    def asdict(self) -> JSONObject:
        """Return the report as plain JSON."""
        return {
            "to": self.to,
            "possible": self.possible,
            "done": self.done,
            "nodes": [node.asdict() for node in self.nodes],
        }

    def __str__(self) -> str:
        lines = []
        for node in self.nodes:
            change = (
                f"format {node.before}, stays"
                if node.before == self.to
                else f"format {node.before or '?'} → {self.to}"
            )
            lines.append(f"/{node.path}: {node.kind}, {change}")
            lines += [f"    no equivalent: {problem}" for problem in node.problems]
            lines += [f"    note: {note}" for note in node.notes]
        return "\n".join(lines)

    __repr__ = __str__


def convert(
    store: StoreLike,
    target: StoreLike = None,
    *,
    to: ZarrFormat,
    path: str | None = None,
    dry_run: bool = False,
    keep: bool = False,
    move_chunks: bool = False,
    recode: bool = False,
    overwrite: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> Conversion:
    """Convert an array, or a group with all nodes below, to another format.

    In place, the conversion writes only metadata: format 3 can describe chunks of formats 2 and 1,
    and format 2 can describe chunks of format 3 if both formats have the features. It converts the
    target of symbolic links once. With a target, it copies all nodes, and chunks without decoding.

    Parameters
    ----------
    store
        The store to convert, as for `tessarr.open`.
    target
        The target; by default in place.
    to
        The format: 2 or 3.
    path
        The path of the node in the store; by default the root.
    dry_run
        Only report the conversion and its problems.
    keep
        In place: preserve the old metadata. Readers of both formats use that of format 3.
    move_chunks
        In place: store chunks under other keys if the format requires that, and delete the old
        ones. By default this is a problem.
    recode
        With a target: decode arrays without an equivalent, and encode them with new codecs.
    overwrite
        Delete an existing node at the target.
    progress
        With a target: called regularly with the copied bytes and their total.

    Returns
    -------
    Conversion
        The result for each node.

    Raises
    ------
    NotFoundError
        If no node exists.
    UnsupportedError
        If content has no equivalent (kind ``no_equivalent``); the store is then unchanged.
        ``dry_run=True`` returns all problems.
    ExistsError
        If a node exists at the target.

    Notes
    -----
    All checks run before any change. In place, the function stores the new documents beside the
    old ones, and deletes the old ones when all new ones exist. After an interruption every node is
    readable, and another conversion completes the first. The function removes a failed copy.

    ``_ARRAY_DIMENSIONS``, xarray's axis names in format 2, becomes `dimension_names`, and vice
    versa. The function rebuilds existing consolidated metadata.

    Examples
    --------
    >>> import tessarr
    >>> a = tessarr.create_array("memory://old", data=[1, 2, 3], zarr_format=2)
    >>> tessarr.convert("memory://old", to=3)
    /: array, format 2 → 3
    >>> tessarr.open("memory://old").zarr_format, tessarr.open("memory://old")[:]
    (3, array([1, 2, 3]))
    """
    if to not in (2, 3):
        raise ArgumentError(f"to must be 2 or 3, not {to!r}")
    in_place = target is None
    if recode and in_place:
        raise ArgumentError("recode=True requires a target: a conversion in place keeps all chunks")
    source, node_path = locate_node(store, "r" if dry_run or not in_place else "r+", path)
    steps = run_flow(convert_flow.plan_conversion(node_path, to, in_place=in_place), source)
    for step in steps:
        if step.renamed and in_place and not move_chunks:
            problem = "chunks have other keys in the new format: pass a target, or move_chunks=True"
            step.problems.append(Problem("/chunk_key_encoding", problem, "no_equivalent"))
    recoded = {step.path for step in steps if recode and _can_be_recoded(step, to)}
    result = Conversion(to, tuple(_describe_step(step, recoded) for step in steps), not dry_run)
    if dry_run:
        return result
    if not result.possible:
        raise UnsupportedError(
            f"cannot convert to format {to}; nothing has changed:\n{_list_problems(result)}",
            kind="no_equivalent",
            path=node_path,
        )
    if in_place:
        run_flow(convert_flow.apply_steps(steps, to, keep=keep), source)
    else:
        target_store, target_path = locate_node(target, "w", None, to)
        _copy_steps(
            steps,
            to,
            source=source,
            path=node_path,
            target_store=target_store,
            target_path=target_path,
            recoded=recoded,
            overwrite=overwrite,
            progress=progress,
        )
    return result


def _describe_step(step: ConversionStep, recoded: set[str]) -> ConvertedNode:
    is_recoded = step.path in recoded
    notes = [f"{problem}: re-encoded" for problem in step.problems if is_recoded]
    return ConvertedNode(
        step.path,
        step.kind,
        step.before,
        () if is_recoded else tuple(step.problems),
        (*step.notes, *notes),
        step.renamed,
    )


def _list_problems(result: Conversion) -> str:
    lines = [f"  /{node.path}: {problem}" for node in result.nodes for problem in node.problems]
    return "\n".join([*lines[:20], *([f"  and {len(lines) - 20} more"] if len(lines) > 20 else [])])


# Conversion to a target


_STORAGE_LOCATIONS = (
    "/codecs",
    "/chunk",
    "/compressor",
    "/compression",
    "/filters",
    "/dtype",
    "/order",
)


def _can_be_recoded(step: ConversionStep, to: ZarrFormat) -> bool:
    """Return whether all problems concern the encoding of values."""
    locations = [problem.loc for problem in step.problems]
    return (
        isinstance(step.old, ArrayMeta)
        and step.old.data_type.refusal(to) is None
        and bool(locations)
        and all(loc.startswith(_STORAGE_LOCATIONS) for loc in locations)
    )


def _copy_steps(
    steps: list[ConversionStep],
    to: ZarrFormat,
    *,
    source: Store,
    path: str,
    target_store: Store,
    target_path: str,
    recoded: set[str],
    overwrite: bool,
    progress: Callable[[int, int], object] | None,
) -> None:
    """Copy nodes and their chunks; remove the copy after a failure."""
    if source == target_store and (path == target_path or target_path.startswith(prefix_of(path))):
        raise ArgumentError("the target is the source, or lies inside the source")
    target_paths = {
        step.path: join(target_path, step.path[len(path) :].strip("/")) for step in steps
    }
    progress_ = _Progress(progress, sum(map(_size_bytes, steps)))
    is_started = False
    try:
        for step in steps:
            new_path = target_paths[step.path]
            is_top = step is steps[0]
            within = None if is_top else target_path
            replaces_node = overwrite and is_top
            if step.path in recoded:
                assert isinstance(step.old, ArrayMeta)
                values = bind_array(step.old, source, step.path, read_only=True)
                recoded_array = _create_recoded(
                    values, target_store, new_path, to, within=within, overwrite=replaces_node
                )
                is_started = True
                _copy_values(values, recoded_array, progress_)
            else:
                assert step.new is not None
                new = step.new
                if isinstance(new, GroupMeta):  # consolidated metadata is rebuilt at the end
                    new = replace(new, consolidated=None)
                flow = create.create_node(
                    new_path, new, overwrite=replaces_node, within=within, store=target_store
                )
                run_flow(flow, target_store)
                is_started = True
                _copy_chunks(source, step, target_store, new_path, progress_)
        for step in reversed(steps):
            if step.consolidated:
                run_flow(consolidate(target_paths[step.path], zarr_format=to), target_store)
    except BaseException:
        if is_started:
            run_flow(edit.delete_node(target_path), target_store)
        raise


def _size_bytes(step: ConversionStep) -> int:
    old = step.old
    return prod(old.shape) * old.data_type.item_bytes if isinstance(old, ArrayMeta) else 0


class _Progress:
    """Reports the progress of all arrays."""

    def __init__(self, progress: Callable[[int, int], object] | None, total: int) -> None:
        self._progress = progress
        self._total = total
        self._before = 0

    def track(self, size_bytes: int, count: int) -> Callable[[int], None]:
        """Return a callback for each of `count` equal parts of an array."""
        start = self._before
        self._before += size_bytes
        done = 0

        def report_part(_: int) -> None:
            nonlocal done
            done += 1
            if self._progress is not None:
                self._progress(start + size_bytes * done // count, self._total)

        return report_part


def _copy_chunks(
    source: Store, step: ConversionStep, target_store: Store, path: str, progress: _Progress
) -> None:
    prefix_length = len(prefix_of(step.path))
    keys = run_flow(convert_flow.list_chunk_keys(step), source)
    pairs = [(old, join(path, new[prefix_length:])) for old, new in keys]
    done = progress.track(_size_bytes(step), len(pairs))
    copy_values(source, target_store, pairs, memory_bytes=current().copy_bytes, done=done)


def _create_recoded(
    old: Array,
    target_store: Store,
    path: str,
    to: ZarrFormat,
    *,
    within: str | None,
    overwrite: bool,
) -> Array:
    """Create an array for the same values with default codecs."""
    attributes, names = convert_dimension_names(old.metadata, to)
    return create_array(
        target_store,
        path,
        shape=old.shape,
        dtype=old.metadata.data_type.ordered("native"),
        chunks=old.chunks if isinstance(old.metadata.chunk_grid, RegularGrid) else None,
        fill_value=old.fill_value,
        dimension_names=names,
        attributes=attributes,
        zarr_format=to,
        within=within,
        overwrite=overwrite,
    )


def _copy_values(old: Array, new: Array, progress: _Progress) -> None:
    if old.nbytes <= _SMALL_BYTES:
        new[...] = old
        progress.track(old.nbytes, 1)(0)
        return
    source, target = make_source(old, new.shape), make_target(new)
    plan = plan_copy(source, target)
    execute_plan(source, target, plan, done=progress.track(old.nbytes, plan.count))
