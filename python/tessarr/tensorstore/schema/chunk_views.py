"""Propagation of chunk layouts through index transforms, and back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from tessarr.errors import ArgumentError
from tessarr.index_space import INFINITE, IndexTransform, View
from tessarr.tensorstore.schema import propagate
from tessarr.tensorstore.schema.chunk_grid import LONGEST
from tessarr.tensorstore.schema.constraint import Constraint, Row
from tessarr.tensorstore.schema.layout_constraints import LayoutConstraints, LayoutRows

__all__ = ["propagate_layout", "propagate_layout_back"]

Change = Callable[[Any, int, int], Any]


def propagate_layout(layout: LayoutConstraints, transform: IndexTransform) -> LayoutConstraints:
    """Return the constraints of a view, which are computed on first access.

    Raises
    ------
    ArgumentError
        If the ranks differ; on first access, if an origin exceeds the range of indices.
    """
    view, rank = transform._view, layout.rank
    if rank not in {-1, view.output_rank}:
        _refuse_rank(rank, view.output_rank)
    if rank < 0 or view.is_identity:
        return layout
    return LayoutConstraints.later(view.rank, partial(_along, layout, view))


def _along(layout: LayoutConstraints, view: View) -> LayoutRows:
    order = layout.order
    if order is not None and (moved := view.propagate_order(order.value)) != order.value:
        order = Constraint(moved, order.hard)
    origin, grids = view.propagate_grids(layout.origin, layout.grids)
    return order, origin, grids


def propagate_layout_back(
    layout: LayoutConstraints, transform: IndexTransform
) -> LayoutConstraints:
    """Return the constraints of the base; `layout` constrains its view.

    Raises
    ------
    ArgumentError
        If the ranks differ, or a hard constraint does not propagate to the base.
    """
    if layout.rank not in {-1, transform.input_rank}:
        _refuse_rank(layout.rank, transform.input_rank)
    if layout.rank <= 0 or transform._is_identity:
        return layout

    def row(wishes: Row, change: Change) -> Row:
        if not wishes:
            return ()
        return propagate.propagate_values_back(
            wishes,
            transform,
            lambda wish, *by: Constraint(change(wish.value, *by), wish.hard),
            lambda wish: wish.hard,
            "chunk_layout",
        )

    return layout.with_rows(
        transform.output_rank,
        lambda order: propagate.propagate_order_back(order, transform),
        lambda wishes: row(wishes, _origin_before),
        lambda grid: grid.each(
            lambda wishes: row(wishes, _length_before), lambda wishes: row(wishes, _ratio_before)
        ),
    )


def _refuse_rank(rank: int, other: int) -> NoReturn:
    raise ArgumentError(f"a chunk layout of rank {rank} for a view of rank {other}")


def _index(value: int) -> int:
    if not -INFINITE < value < INFINITE:
        raise ArgumentError(f"grid_origin: {value} is beyond the range of indices")
    return value


def _origin_before(value: int, offset: int, stride: int) -> int:
    return _index(offset + stride * (value - 1 if stride < 0 else value))


def _length_before(value: int, _: int, stride: int) -> int:
    if value == -1:
        return value
    if value * abs(stride) > LONGEST:
        raise ArgumentError(f"a chunk of {value} elements in steps of {stride} is too long")
    return value * abs(stride)


def _ratio_before(value: float, _: int, stride: int) -> float:
    return value * abs(stride)
